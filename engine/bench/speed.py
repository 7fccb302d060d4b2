"""How fast the model reads and writes, and how soon a reply begins."""

import time
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from engine.bench import Say
from engine.bench.texts import REPLY_TOKENS, conversation
from engine.events import Finished, Token
from engine.messages import Message
from engine.options import SamplingOptions
from engine.run.runner import Runner
from engine.sampling import sample
from engine.session import Session
from engine.text.tokenizer import Tokenizer

CONTEXTS = (0, 512, 2048, 4096, 8000)
PROMPT_LENGTHS = (128, 512, 4096)
TURNS = (1, 2, 10)

GREEDY = SamplingOptions(temperature=0)
BALANCED = SamplingOptions(temperature=0.7, top_p=0.9, repetition_penalty=1.1)
"""The window's preset of that name, which a new chat begins with."""


def decode_speeds(
    runner: Runner,
    ids: Sequence[int],
    kinds: Mapping[str, SamplingOptions],
    *,
    rounds: int,
    new_tokens: int,
    say: Say,
) -> dict[str, dict[int, float]]:
    """For each kind of sampling, {tokens in the cache before: tokens written per second}.

    A token costs one step of the model and the draw. The runner is driven directly, so no reply
    ends early and nothing is guessed ahead; what a session adds to a token is not counted. Kinds
    take turns, so that whatever else the computer does meets all of them. Contexts for which
    `ids` or the model is too short are left out.
    """
    speeds: dict[str, dict[int, float]] = {name: {} for name in kinds}
    filled = 0
    runner.truncate(0)
    for length in CONTEXTS:
        if length + new_tokens > min(runner.max_positions, len(ids)):
            break
        runner.truncate(filled)
        read_prompt(runner, ids[filled:length])
        filled = length
        seconds: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(rounds + 1):
            for name, options in kinds.items():
                runner.truncate(length)
                seconds[name].append(_write(runner, ids[: length + 1], new_tokens, options=options))
        for name, measured in seconds.items():
            speeds[name][length] = new_tokens / median(measured[1:])  # the first warms up
            say(f"{name} at {length:,}: {speeds[name][length]:.1f} tok/s")
    return speeds


def prefill_speeds(
    runner: Runner, ids: Sequence[int], *, rounds: int, say: Say
) -> dict[int, float]:
    """{length of a prompt: tokens read per second}, each read from nothing."""
    speeds: dict[int, float] = {}
    for length in PROMPT_LENGTHS:
        if length > min(runner.max_positions, len(ids)):
            break
        seconds = []
        for _ in range(rounds + 1):
            runner.truncate(0)
            started = time.perf_counter()
            read_prompt(runner, ids[:length])
            seconds.append(time.perf_counter() - started)
        speeds[length] = length / median(seconds[1:])
        say(f"prefill of {length:,}: {speeds[length]:.1f} tok/s")
    return speeds


def times_to_first_token(
    session: Session, tokenizer: Tokenizer, *, rounds: int, say: Say
) -> dict[int, float]:
    """{turn: ms} from a question to the first token of its reply, in a growing conversation.

    The template and the tokenizer are counted. When a turn begins, the cache holds exactly what it
    would after the reply before; for the first turn, nothing.
    """
    runner = session.runner
    milliseconds: dict[int, float] = {}
    for turn in TURNS:
        dialog = conversation(tokenizer, turn)
        behind = session.prompt_ids(dialog[:-1]) if turn > 1 else []
        total = len(session.prompt_ids(dialog))
        if total >= session.context_length or len(behind) < REPLY_TOKENS * (turn - 1):
            break  # it does not fit, or the session left out its beginning
        runner.truncate(0)
        read_prompt(runner, behind)
        seconds = []
        for _ in range(rounds + 1):
            runner.truncate(len(behind))
            seconds.append(_first_token(session, dialog))
        milliseconds[turn] = 1000 * median(seconds[1:])
        new = total - len(behind)
        say(f"turn {turn}: {milliseconds[turn]:.1f} ms ({new} tokens after {len(behind):,})")
    return milliseconds


def read_prompt(runner: Runner, ids: Sequence[int]) -> None:
    """Append `ids` chunk by chunk, as a session reads a prompt."""
    for start in range(0, len(ids), runner.chunk_size):
        runner.read(ids[start : start + runner.chunk_size])


def _write(
    runner: Runner, ids: Sequence[int], new_tokens: int, *, options: SamplingOptions
) -> float:
    """The seconds that `new_tokens` steps take; the last of `ids` is the first to be read."""
    context = list(ids)
    rng = np.random.default_rng(0)
    started = time.perf_counter()
    for _ in range(new_tokens):
        logits = runner.read(context[-1:])
        context.append(sample(logits, context, options, rng))
    return time.perf_counter() - started


def _first_token(session: Session, dialog: Sequence[Message]) -> float:
    """The seconds until a reply's first token is there; nothing is read after it."""
    options = SamplingOptions(temperature=0, max_new_tokens=1, end_loops=False)
    started = time.perf_counter()
    events = session.reply(dialog, options)
    # The model may end its turn with the very first token.
    next(event for event in events if isinstance(event, Token | Finished))
    return time.perf_counter() - started
