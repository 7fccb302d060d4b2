"""Named sets of sampling options: what a newcomer chooses instead of numbers."""

from dataclasses import dataclass

from engine.options import SamplingOptions


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
