"""Guessing ahead changes how fast a reply is written, and nothing else."""

from collections.abc import Sequence
from threading import Event

import numpy as np
import pytest

from engine.prompt_lookup import OneByOne, PromptLookup, reader_for

VOCABULARY = 40


class Clock:
    """Time, which only steps take."""

    now = 0.0


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.prompt_lookup.time.perf_counter", lambda: Clock.now)


class FakeRunner:
    """Logits that follow from all that was read, exactly; keeps count of the steps."""

    exact = True
    max_positions = 400

    def __init__(self, ids: Sequence[int] = ()) -> None:
        self.ids = list(ids)
        self.steps: list[int] = []
        self.dearness = 0.15  # of a further token in the same step

    def truncate(self, length: int) -> None:
        del self.ids[length:]

    def read(self, ids: Sequence[int], *, cancel: Event | None = None) -> np.ndarray:
        return self.read_each(ids, cancel=cancel)[-1]

    def read_each(self, ids: Sequence[int], *, cancel: Event | None = None) -> np.ndarray:
        assert len(self.ids) + len(ids) <= self.max_positions
        self.steps.append(len(ids))
        Clock.now += 1 + self.dearness * (len(ids) - 1)
        rows = []
        for token_id in ids:
            self.ids.append(token_id)
            seed = hash(tuple(self.ids)) % 2**32
            rows.append(np.random.default_rng(seed).normal(size=VOCABULARY).astype(np.float32))
        return np.stack(rows)


def write(runner: FakeRunner, prompt: Sequence[int], reply: Sequence[int]) -> list[np.ndarray]:
    """The logits on which each token of `reply` follows, but the first."""
    context = list(prompt)
    reader = PromptLookup(runner)
    rows = []
    for token_id in reply:
        context.append(token_id)
        rows.append(reader.read(context, cancel=None))
    return rows


PROMPT = [int(n) for n in np.random.default_rng(3).permutation(VOCABULARY)] * 2
REPLIES = {
    "a copy": PROMPT[5:35],
    "nothing that was there": [int(n) for n in np.random.default_rng(4).integers(40, size=60)],
    "a copy with changes": [n if i % 7 else 0 for i, n in enumerate(PROMPT[5:70])],
    "a loop": [1, 2, 3, 4] * 20,
    "one token": [7] * 60,
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_every_token_follows_on_the_logits_of_what_was_written(reply: list[int]) -> None:
    found = write(FakeRunner(PROMPT), PROMPT, reply)
    plain = FakeRunner(PROMPT)
    for row, token_id in zip(found, reply, strict=True):
        np.testing.assert_array_equal(row, plain.read([token_id]))


def test_a_copy_takes_fewer_steps_than_tokens() -> None:
    runner = FakeRunner(PROMPT)
    write(runner, PROMPT, PROMPT[5:35])
    assert len(runner.steps) < 20
    assert sum(runner.steps) >= 30


def test_a_reply_without_repetition_takes_no_wider_steps() -> None:
    runner = FakeRunner(range(VOCABULARY))
    write(runner, range(VOCABULARY), [n * 7 % VOCABULARY for n in range(39)])
    assert set(runner.steps) == {1}


def test_it_stops_guessing_when_guesses_are_wrong() -> None:
    """Every three tokens of the reply were there before, and went on otherwise."""
    prompt, reply = [], []
    for start in range(0, 36, 3):
        prompt += [start, start + 1, start + 2, 39]
        reply += [start, start + 1, start + 2, 38 - start % 2]
    runner = FakeRunner(prompt)
    write(runner, prompt, reply)
    assert max(runner.steps) > 1
    assert runner.steps[-12:].count(1) >= 11


def test_it_stops_guessing_when_wide_steps_are_dear() -> None:
    runner = FakeRunner(PROMPT)
    runner.dearness = 1.2
    write(runner, PROMPT, PROMPT * 2)
    assert runner.steps[-40:].count(1) >= 36


def test_nothing_is_read_beyond_the_context() -> None:
    prompt = (PROMPT * 5)[:390]
    runner = FakeRunner(prompt)
    write(runner, prompt, PROMPT[390 % 40 : 390 % 40 + 9])


def test_only_exact_runners_are_guessed_for() -> None:
    runner = FakeRunner()
    assert isinstance(reader_for(runner), PromptLookup)
    runner.exact = False
    reader = reader_for(runner)
    assert isinstance(reader, OneByOne)
    reader.read([1, 2, 3], cancel=None)
    assert runner.ids == [3]
