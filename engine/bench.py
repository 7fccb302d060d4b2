"""Measuring the engine on this computer: loading, reading a prompt, writing."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from engine.events import Finished
from engine.loading import Engine
from engine.options import SamplingOptions

_TEXT = "The quick brown fox jumps over the lazy dog, and then it sits down by the river. "


@dataclass(frozen=True, slots=True)
class Measurement:
    """Medians over `rounds`; speeds in tokens per second, times in seconds."""

    prompt_tokens: int
    new_tokens: int
    rounds: int
    prefill_tokens_per_second: float
    decode_tokens_per_second: float
    time_to_first_token: float


def measure(
    engine: Engine,
    *,
    prompt_tokens: int = 512,
    new_tokens: int = 64,
    rounds: int = 3,
    say: Callable[[str], None] = lambda line: None,
) -> Measurement:
    """Read a prompt of `prompt_tokens` and write `new_tokens`, `rounds` times, each from nothing.

    Raises PromptTooLongError.
    """
    once = engine.tokenizer.encode(_TEXT)
    prompt = (once * (prompt_tokens // len(once) + 1))[:prompt_tokens]
    options = SamplingOptions(temperature=0, max_new_tokens=new_tokens, end_loops=False)
    prefill, decode, first = [], [], []
    for number in range(rounds + 1):  # the first warms up and is not counted
        started = time.perf_counter()
        events = list(engine.session().complete(prompt, options))
        finished = events[-1]
        assert isinstance(finished, Finished)
        if number == 0:
            continue
        statistics = finished.statistics
        prefill.append(prompt_tokens / statistics.time_to_first_token)
        decode.append(statistics.tokens_per_second)
        first.append(statistics.time_to_first_token)
        say(f"round {number}: {time.perf_counter() - started:.2f} s")
    return Measurement(
        prompt_tokens, new_tokens, rounds, median(prefill), median(decode), median(first)
    )
