"""Options: every impossible value is refused in a plain sentence, and changes nothing."""

import math

import pytest

from engine.errors import OptionsError
from engine.options import OPTION_NAMES, RANGES, LiveOptions, SamplingOptions


@pytest.mark.parametrize("name", RANGES)
def test_the_ends_of_a_range_are_allowed_and_beyond_them_nothing_is(name):
    low, high = RANGES[name]
    for value in (low, high):
        assert getattr(SamplingOptions(**{name: value}), name) == value
    for value in (
        low - 1,
        high + 1,
        10**400,
        -(10**400),
        math.nan,
        math.inf,
        -math.inf,
        "1",
        True,
        [1],
    ):
        with pytest.raises(OptionsError, match=name):
            SamplingOptions(**{name: value})


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": -1},
        {"seed": 2**63},
        {"seed": 1.0},
        {"seed": True},
        {"stop_texts": "abc"},
        {"stop_texts": ["abc"]},
        {"stop_texts": ("",)},
        {"stop_texts": ("x" * 201,)},
        {"stop_texts": (1,)},
        {"stop_texts": ("x",) * 17},
        {"temperature_last": 1},
        {"end_loops": None},
    ],
)
def test_other_impossible_values_are_refused(changes):
    with pytest.raises(OptionsError):
        SamplingOptions(**changes)


def test_a_change_that_is_refused_changes_nothing():
    live = LiveOptions(SamplingOptions(temperature=0.3))
    with pytest.raises(OptionsError):
        live.change(temperature=0.4, top_p=7)
    assert live.current == SamplingOptions(temperature=0.3)
    assert live.change(temperature=0.4) is live.current
    assert live.current.temperature == 0.4


def test_greedy_begins_at_one_thousandth():
    assert SamplingOptions(temperature=0.001).greedy
    assert not SamplingOptions(temperature=0.002).greedy


def test_every_option_is_named():
    assert set(RANGES) < set(OPTION_NAMES)
