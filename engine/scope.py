"""What the model was thinking: one step, kept so that it can be looked at under other options."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.events import Picture
from engine.options import RANGES, SamplingOptions
from engine.sampling import Floats, explain

LONGEST_HISTORY = int(RANGES["repetition_window"][1])
"""No penalty looks back further, in tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class NextToken:
    """The logits of one step and what penalties look back at; `drawn` is the token that came.

    Reads only; may be handed to another thread.
    """

    logits: Floats  # (vocab,)
    history: tuple[int, ...]
    text_of: Callable[[int], str]
    drawn: int | None = None

    def picture(self, options: SamplingOptions, *, count: int) -> Picture:
        """How the next token would be chosen with these options, by the sampler's own functions.

        Raises NonFiniteLogitsError.
        """
        picture = explain(self.logits, self.history, options, count=count)
        bars = (
            replace(bar, text=self.text_of(bar.id), drawn=bar.id == self.drawn)
            for bar in picture.bars
        )
        return replace(picture, bars=tuple(bars))
