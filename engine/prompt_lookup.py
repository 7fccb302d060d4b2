"""Replies that repeat their prompt, written several tokens at a time (prompt look-up, Saxena 2023).

Where the newest tokens were there before, what followed them then is likely to follow now. These
guesses are read along with the newest token in one step, which costs little more than reading it
alone; then each token is drawn as ever, from the logits after what was really written. So nothing
changes but the speed, for greedy replies and for sampled ones.
"""

import time
from collections.abc import Sequence
from threading import Event
from typing import Protocol

import numpy as np

from engine.run.runner import Runner

_MATCH = 3
"""As many newest tokens must have been there before; fewer are found everywhere."""
_GUESSES = (3, 7)
"""A step is about as dear for 2 tokens as for 4, and for 5 as for 8."""


class Reader(Protocol):
    """What brings the newest token of a reply into the cache."""

    def read(self, context: Sequence[int], *, cancel: Event | None) -> np.ndarray:
        """The logits after `context`, of which all but the last token have been read.

        Raises as `Runner.read`. Afterwards the runner may hold a few tokens too many.
        """
        ...


def reader_for(runner: Runner) -> Reader:
    """Looks up the prompt where the numbers do not depend on how many tokens a step reads."""
    return PromptLookup(runner) if runner.exact else OneByOne(runner)


class OneByOne:
    """Reads the newest token and nothing else."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def read(self, context: Sequence[int], *, cancel: Event | None) -> np.ndarray:
        """The logits after `context`; see `Reader.read`."""
        return self._runner.read(context[-1:], cancel=cancel)


class PromptLookup:
    """Reads a reply token by token, and guesses ahead as long as that is faster."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._ahead: list[tuple[int, np.ndarray]] = []  # guesses that were read, logits after each
        self._followers: dict[tuple[int, ...], int] = {}  # newest tokens -> place of the next one
        self._indexed = _MATCH
        self._trust = 0.5  # how often a guess is right, of late
        # Seconds of a step for so many tokens. Until it was measured: what is usual.
        self._cost = {1: 1.0, 4: 1.8, 8: 3.2}
        self._measured: set[int] = set()

    def read(self, context: Sequence[int], *, cancel: Event | None) -> np.ndarray:
        """The logits after `context`; see `Reader.read`."""
        newest = context[-1]
        if self._ahead:
            guess, logits = self._ahead.pop(0)
            self._learn(guess == newest)
            if guess == newest:
                return logits
            self._ahead.clear()
            self._runner.truncate(len(context) - 1)
        guesses = self._guesses(context)
        if not guesses:
            started = time.perf_counter()
            logits = self._runner.read([newest], cancel=cancel)
            self._note(1, started)
            return logits
        started = time.perf_counter()
        rows = self._runner.read_each([newest, *guesses], cancel=cancel)
        self._note(1 + len(guesses), started)
        self._ahead = list(zip(guesses, rows[1:], strict=True))
        first: np.ndarray = rows[0]
        return first

    def _guesses(self, context: Sequence[int]) -> Sequence[int]:
        place = self._followers.get(tuple(context[-_MATCH:]))
        for end in range(self._indexed, len(context)):
            self._followers[tuple(context[end - _MATCH : end])] = end
        self._indexed = max(self._indexed, len(context))
        if place is None:
            return ()
        room = self._runner.max_positions - len(context)
        count = min(self._best_count(), room)
        if count not in _GUESSES:
            self._trust = min(1.0, self._trust + 0.02)  # times change: try again some day
            return ()
        return context[place : place + count] if place + count <= len(context) else ()

    def _best_count(self) -> int:
        """Of guesses, 0 among them: that with the most tokens for its time."""

        def speed(count: int) -> float:
            right = sum(self._trust**number for number in range(1, count + 1))
            return (1 + right) / self._cost[count + 1]

        return max((0, *_GUESSES), key=speed)

    def _learn(self, right: bool) -> None:
        self._trust += 0.1 * (right - self._trust)

    def _note(self, count: int, started: float) -> None:
        """How long a step took; the first measurement sets the scale of what was assumed."""
        seconds = time.perf_counter() - started
        if not self._measured:
            scale = seconds / self._cost[count]
            self._cost = {size: cost * scale for size, cost in self._cost.items()}
        elif count in self._measured:
            self._cost[count] += 0.1 * (seconds - self._cost[count])
        else:
            self._cost[count] = seconds
        self._measured.add(count)
