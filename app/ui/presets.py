"""Named sets of sampling options: what a newcomer chooses instead of numbers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QT_TRANSLATE_NOOP

from engine.options import SamplingOptions

MOST_OWN = 100
LONGEST_NAME = 60  # characters


@dataclass(frozen=True, slots=True)
class Preset:
    """A name and how words are chosen under it (not length, seed or stop texts)."""

    name: str
    options: SamplingOptions


BUILT_IN = (
    # What Hugging Face used for SmolLM2.
    Preset("Precise", SamplingOptions(temperature=0.2, top_p=0.9)),
    Preset("Balanced", SamplingOptions(temperature=0.7, top_p=0.9, repetition_penalty=1.1)),
    Preset("Creative", SamplingOptions(temperature=1.0, top_p=0.95, min_p=0.05)),
    Preset("Greedy", SamplingOptions(temperature=0.0, top_p=1.0)),
)

DESCRIPTIONS = {
    "Precise": QT_TRANSLATE_NOOP("presets", "Keeps close to the likeliest words."),
    "Balanced": QT_TRANSLATE_NOOP("presets", "Some freedom, and little repetition."),
    "Creative": QT_TRANSLATE_NOOP("presets", "Freer and more surprising."),
    "Greedy": QT_TRANSLATE_NOOP("presets", "Always the likeliest word: the same reply every time."),
}

USUAL = BUILT_IN[1].options
"""What a new chat begins with until the user chooses otherwise."""

SAMPLERS = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "repetition_window",
    "frequency_penalty",
    "presence_penalty",
    "temperature_last",
)
"""The options that a preset sets; the others stay as they are."""


def samplers_of(options: SamplingOptions) -> dict[str, Any]:
    """The part of the options that a preset sets."""
    return {name: getattr(options, name) for name in SAMPLERS}


def matching(options: SamplingOptions, presets: Iterable[Preset]) -> Preset | None:
    """The first preset under which words are chosen as under `options`."""
    wanted = samplers_of(options)
    return next((preset for preset in presets if samplers_of(preset.options) == wanted), None)
