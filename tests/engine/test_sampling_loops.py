"""The loop detector: ends what never comes out again, leaves alone what people ask for."""

import random
import re

import pytest

from engine.loops import LEAST_REPEATS, LEAST_TOKENS, LONGEST_PERIOD, is_looping


def as_ids(text: str) -> list[int]:
    """Word-like pieces, digits one by one, as the real tokenizer cuts them or finer."""
    return [hash(piece) for piece in re.findall(r"\d| ?[^\W\d]+|\s|[^\w\s]", text)]


def noticed(token_ids: list[int]) -> bool:
    """Whether the detector, asked after every token, would have ended this reply."""
    return any(is_looping(token_ids[:end]) for end in range(len(token_ids) + 1))


def random_ids(count: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(49152) for _ in range(count)]


@pytest.mark.parametrize("period", [1, 2, 3, 7, 20, 47, 64, 100, LONGEST_PERIOD])
def test_a_repeated_run_is_noticed_when_it_is_long_enough_and_not_before(period: int) -> None:
    start, run = random_ids(300), random_ids(period, seed=1)
    needed = max(LEAST_TOKENS, LEAST_REPEATS * period)
    looping = start + (run * needed)[:needed]
    assert is_looping(looping)
    assert not noticed(looping[:-1])


def test_a_loop_is_noticed_wherever_in_its_period_the_reply_stands() -> None:
    run = random_ids(10)
    assert all(is_looping((run * 50)[: 300 + place]) for place in range(10))


def test_one_changed_token_in_every_round_is_no_loop() -> None:
    counted = [token for number in range(60) for token in [*random_ids(12), number]]
    assert not noticed(counted)


def test_a_loop_that_the_reply_came_out_of_is_forgiven() -> None:
    assert not is_looping([5] * 500 + [6])


def test_short_replies_are_never_loops() -> None:
    assert not is_looping([])
    assert not noticed([1])
    assert not noticed([1] * (LEAST_TOKENS - 1))


ROWS = "".join(f"| {n} | item {n} | {n * 3} | yes |\n" for n in range(40))
CODE = "".join(
    f"    if name == 'option_{n}':\n        return self.values[{n}]\n" for n in range(40)
)
EMPTY_TABLE = "|   |   |   |   |\n" * 9
ZEROS = "0 0 0 0 0 0 0 0\n" * 8
LIST = "".join(f"{n}. Drink a glass of water in the morning.\n" for n in range(1, 60))
CHORUS = ("We all live in a yellow house, a yellow house, a yellow house.\n" * 2 + "And so:\n") * 3
RULE = "=" * 80 + "\nTitle\n" + "-" * 80 + "\n"


@pytest.mark.parametrize(
    "text", [ROWS, CODE, EMPTY_TABLE, ZEROS, LIST, CHORUS, RULE], ids=lambda text: text[:12].strip()
)
def test_what_people_ask_for_is_no_loop(text: str) -> None:
    assert not noticed(as_ids(text))


def test_a_sentence_said_again_and_again_is_a_loop() -> None:
    assert noticed(as_ids("I'm sorry for the confusion. Let me explain it again. " * 30))
