"""How a reply is sampled: one frozen dataclass whose defaults are the documentation."""

import math
import reprlib
from dataclasses import dataclass, fields, replace
from typing import Any

from engine.errors import OptionsError

GREEDY_BELOW = 1e-3
"""A temperature at or below this takes the likeliest token and uses no random numbers."""

RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "top_k": (0, 1_000_000),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (1.0, 2.0),
    "repetition_window": (0, 8192),
    "frequency_penalty": (-2.0, 2.0),
    "presence_penalty": (-2.0, 2.0),
    "max_new_tokens": (1, 1_000_000),
}
"""The least and greatest value that every numeric option accepts."""

MAX_STOP_TEXTS = 16
MAX_STOP_TEXT_LENGTH = 200


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """All that turns logits into a reply. Raises OptionsError for values out of range.

    Order: penalties, temperature, top-k, top-p, min-p (temperature last if `temperature_last`).
    """

    temperature: float = 0.7
    top_p: float = 0.9
    top_k: int = 0  # 0: off
    min_p: float = 0.0  # 0: off
    repetition_penalty: float = 1.0  # 1: off
    repetition_window: int = 64  # tokens of the conversation that penalties look back at
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    temperature_last: bool = False
    max_new_tokens: int | None = None  # None: as long as the context lasts
    stop_texts: tuple[str, ...] = ()
    seed: int | None = None  # None: a new one for every reply
    end_loops: bool = True  # end a reply that repeats itself for ever

    def __post_init__(self) -> None:
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if value is None and name == "max_new_tokens":
                continue
            whole = isinstance(low, int)
            kind = int if whole else (int, float)
            endless = isinstance(value, float) and not math.isfinite(value)
            if isinstance(value, bool) or not isinstance(value, kind) or endless:
                noun = "a whole number" if whole else "a number"
                raise OptionsError(f"{name} must be {noun}, not {reprlib.repr(value)}.")
            if not low <= value <= high:
                raise OptionsError(
                    f"{name} is {reprlib.repr(value)}.", f"It must be between {low:,} and {high:,}."
                )
        for name in ("temperature_last", "end_loops"):
            if not isinstance(getattr(self, name), bool):
                raise OptionsError(f"{name} must be true or false.")
        seed = self.seed
        if seed is not None and (
            isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63
        ):
            raise OptionsError(
                f"The seed is {reprlib.repr(seed)}.",
                f"It must be a whole number from 0 to {2**63 - 1:,}.",
            )
        if not isinstance(self.stop_texts, tuple):  # a text would be taken for its letters
            raise OptionsError("The stop texts are not a tuple of texts.")
        if len(self.stop_texts) > MAX_STOP_TEXTS:
            raise OptionsError("There are too many stop texts.", f"Use at most {MAX_STOP_TEXTS}.")
        for text in self.stop_texts:
            if not isinstance(text, str) or not 0 < len(text) <= MAX_STOP_TEXT_LENGTH:
                raise OptionsError(
                    "A stop text is empty or too long.",
                    f"Use 1 to {MAX_STOP_TEXT_LENGTH} characters.",
                )

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        return self.temperature <= GREEDY_BELOW


class LiveOptions:
    """Options that may change while a reply runs: replaced whole, read once a token.

    Attribute assignment is atomic in Python, so the reader on the engine thread never sees half of
    a change and neither side waits.
    """

    def __init__(self, options: SamplingOptions) -> None:
        self.current = options

    def change(self, **changes: Any) -> SamplingOptions:
        """Replace the named options. Raises OptionsError and changes nothing if one is invalid."""
        self.current = replace(self.current, **changes)
        return self.current


OPTION_NAMES = tuple(field.name for field in fields(SamplingOptions))
