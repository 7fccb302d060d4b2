"""All the figures of one run, under the names that `smoldesk-cli bench --json` gives them."""

from collections.abc import Collection
from typing import Any

from engine.bench import Say
from engine.bench.loads import load_times
from engine.bench.memory import read_speed, resident_bytes
from engine.bench.quality import compare, reference_model
from engine.bench.speed import (
    BALANCED,
    CONTEXTS,
    GREEDY,
    decode_speeds,
    prefill_speeds,
    times_to_first_token,
)
from engine.bench.texts import token_ids
from engine.errors import EngineError, OptionsError
from engine.loading import Engine
from engine.sampling import NonFiniteLogitsError

NEW_TOKENS = 64
"""Written in each round, at each context."""

_KINDS = {"decode": GREEDY, "balanced": BALANCED}

Report = dict[str, Any]


def measure(
    engine: Engine,
    parts: Collection[str],
    *,
    rounds: int = 3,
    new_tokens: int = NEW_TOKENS,
    quality_text: str = "",
    say: Say = lambda line: None,
) -> Report:
    """Measure the `parts` named, of `engine.bench.PARTS`; what was not measured has no key.

    Figures are medians over `rounds`, after one that is not counted. What does not fit the model's
    context is left out. `say` gets a line for each figure. Raises EngineError.
    """
    figures: Report = {
        "model": engine.name,
        "device": engine.device.label,
        "precision": engine.device.precision,
        "threads": engine.device.threads,
    }
    try:
        if "memory" in parts:  # first, before other parts take memory of their own
            memory = _memory(engine, new_tokens)
        figures |= _speeds(engine, parts, rounds=rounds, new_tokens=new_tokens, say=say)
        if "load" in parts:
            figures["load_s"] = _load(engine, rounds, say)
        if "memory" in parts:
            figures |= memory
        if "bandwidth" in parts:
            figures["bandwidth"] = _bandwidth(engine)
        if "quality" in parts:
            figures["quality"] = _quality(engine, quality_text, say)
    except NonFiniteLogitsError as error:
        raise EngineError(
            "The model's numbers broke down while it was measured.", "Choose another precision."
        ) from error
    return figures


def _speeds(
    engine: Engine,
    parts: Collection[str],
    *,
    rounds: int,
    new_tokens: int,
    say: Say,
) -> Report:
    runner = engine.new_runner()
    ids = token_ids(engine.tokenizer, CONTEXTS[-1] + new_tokens)
    figures: Report = {}
    kinds = {part: options for part, options in _KINDS.items() if part in parts}
    if kinds:
        names = {"decode": "decode_tok_s", "balanced": "decode_balanced_tok_s"}
        speeds = decode_speeds(runner, ids, kinds, rounds=rounds, new_tokens=new_tokens, say=say)
        figures |= {names[part]: _rounded(speeds[part], 2) for part in kinds}
    if "prefill" in parts:
        figures["prefill_tok_s"] = _rounded(prefill_speeds(runner, ids, rounds=rounds, say=say), 2)
    if "ttft" in parts:
        times = times_to_first_token(engine.session(), engine.tokenizer, rounds=rounds, say=say)
        figures["ttft_ms"] = _rounded(times, 2)
    return figures


def _memory(engine: Engine, new_tokens: int) -> Report:
    """After a few tokens were written at an empty context, with nothing else loaded."""
    ids = token_ids(engine.tokenizer, new_tokens)
    runner = engine.new_runner()
    for token_id in ids:
        runner.read([token_id])
    resident = resident_bytes()
    return {} if resident is None else {"rss_mb": round(resident / 1e6, 1)}


def _bandwidth(engine: Engine) -> Report:
    return {
        "bytes_per_token": engine.new_runner().bytes_per_token,
        "read_gb_s": round(read_speed(engine.device.name, engine.device.threads), 2),
    }


def _load(engine: Engine, rounds: int, say: Say) -> Report:
    times = load_times(
        engine.path,
        device=engine.device.name,
        precision=engine.device.precision,
        threads=engine.device.threads,
        rounds=rounds,
        say=say,
    )
    return _rounded(times, 3)


def _quality(engine: Engine, text: str, say: Say) -> Report:
    ids = engine.tokenizer.encode(text)
    if not ids:
        raise OptionsError("The text to compare on is empty.", "Give one of a few thousand words.")
    scores = compare(engine.new_runner, reference_model(engine), ids, say=say)
    return {path: _rounded(score, 6) for path, score in scores.items()}


def _rounded(figures: dict[Any, float], digits: int) -> Report:
    return {name: round(value, digits) for name, value in figures.items()}
