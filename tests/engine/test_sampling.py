"""Sampling: every rule on tiny examples, and the whole against a slow reference."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.options import SamplingOptions
from engine.sampling import (
    Candidates,
    NonFiniteLogitsError,
    candidates,
    choose,
    explain,
    new_rng,
    penalise,
    sample,
    top_logits,
)

PLAIN: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "repetition_penalty": 1.0}
HALVES = [0.5, 0.25, 0.125, 0.0625, 0.0625]


def options(**changes: Any) -> SamplingOptions:
    return SamplingOptions(**{**PLAIN, **changes})


def logits_of(probabilities: list[float]) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(np.array(probabilities)).astype(np.float32)


def narrowed(probabilities: list[float], **changes: Any) -> Candidates:
    return candidates(logits_of(probabilities), [], options(**changes))


class TestPenalties:
    def test_repetition_divides_positive_logits_and_multiplies_others(self) -> None:
        logits = np.array([2.0, -2.0, 0.0, 3.0], dtype=np.float32)
        penalised = penalise(logits, [0, 1, 2, 0], options(repetition_penalty=2.0))
        assert penalised.tolist() == [1.0, -4.0, 0.0, 3.0]
        assert penalised.dtype == np.float32

    def test_frequency_counts_and_presence_does_not(self) -> None:
        logits = np.zeros(3, dtype=np.float32)
        penalised = penalise(
            logits, [0, 0, 0, 1], options(frequency_penalty=0.5, presence_penalty=0.25)
        )
        assert penalised.tolist() == [-1.75, -0.75, 0.0]

    def test_repetition_comes_before_the_subtraction(self) -> None:
        logits = np.array([4.0, 0.0], dtype=np.float32)
        penalised = penalise(logits, [0], options(repetition_penalty=2.0, presence_penalty=1.0))
        assert penalised[0] == 1.0

    def test_only_the_last_tokens_of_the_window_count(self) -> None:
        logits = np.ones(3, dtype=np.float32)
        changes = {"repetition_penalty": 2.0, "repetition_window": 2}
        assert penalise(logits, [0, 1, 2], options(**changes)).tolist() == [1.0, 0.5, 0.5]

    def test_an_empty_window_or_history_penalises_nothing(self) -> None:
        logits = np.ones(3, dtype=np.float32)
        no_window = options(repetition_penalty=2.0, repetition_window=0)
        assert penalise(logits, [0, 1], no_window).tolist() == [1.0, 1.0, 1.0]
        assert penalise(logits, [], options(repetition_penalty=2.0)).tolist() == [1.0, 1.0, 1.0]

    def test_the_logits_given_are_never_changed(self) -> None:
        logits = np.array([2.0, -2.0, 1.0], dtype=np.float32)
        logits.flags.writeable = False  # any write would raise
        everything = options(
            repetition_penalty=1.5,
            frequency_penalty=0.5,
            presence_penalty=0.5,
            temperature=0.7,
            top_p=0.9,
            top_k=2,
            min_p=0.1,
        )
        sample(logits, [0, 1, 1], everything, new_rng(0))
        explain(logits, [0, 1, 1], everything, count=3)
        top_logits(logits, 2)


class TestCuts:
    def test_nothing_is_cut_when_all_cuts_are_off(self) -> None:
        found = narrowed(HALVES)
        assert found.ids.tolist() == [0, 1, 2, 3, 4]
        assert found.probabilities.tolist() == pytest.approx(HALVES)
        assert found.kept == ()

    def test_ids_fall_by_probability_and_equals_rise_by_id(self) -> None:
        assert narrowed([0.1, 0.3, 0.2, 0.3, 0.1]).ids.tolist() == [1, 3, 2, 0, 4]

    def test_temperature_sharpens_and_flattens(self) -> None:
        assert narrowed([0.8, 0.2], temperature=0.5).probabilities[0] == pytest.approx(16 / 17)
        assert narrowed([0.8, 0.2], temperature=2.0).probabilities[0] == pytest.approx(2 / 3)

    def test_top_k_keeps_k_and_renormalises(self) -> None:
        found = narrowed(HALVES, top_k=2)
        assert found.probabilities.tolist() == pytest.approx([2 / 3, 1 / 3])
        assert found.kept == (("top_k", 2),)

    def test_top_k_keeps_all_that_equal_the_kth(self) -> None:
        assert narrowed(HALVES, top_k=4).ids.tolist() == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("top_p", "left"),
        [(0.0, 1), (0.49, 1), (0.51, 2), (0.74, 2), (0.76, 3), (0.93, 4), (0.95, 5)],
    )
    def test_top_p_keeps_the_smallest_set_that_reaches_p(self, top_p: float, left: int) -> None:
        found = narrowed(HALVES, top_p=top_p)
        assert found.ids.tolist() == list(range(left))
        assert found.kept == (("top_p", left),)

    def test_top_p_reaching_p_exactly_is_enough(self) -> None:
        assert len(candidates(np.zeros(4, np.float32), [], options(top_p=0.5)).ids) == 2

    def test_top_p_of_zero_keeps_the_lowest_of_equals(self) -> None:
        assert candidates(np.zeros(4, np.float32), [], options(top_p=0.0)).ids.tolist() == [0]

    def test_min_p_is_relative_to_the_likeliest(self) -> None:
        found = narrowed([0.6, 0.3, 0.1], min_p=0.4)
        assert found.ids.tolist() == [0, 1]
        assert found.kept == (("min_p", 2),)

    def test_min_p_of_one_keeps_equals_of_the_likeliest(self) -> None:
        assert narrowed([0.4, 0.2, 0.4], min_p=1.0).ids.tolist() == [0, 2]

    def test_top_p_works_on_what_top_k_left(self) -> None:
        # Of the whole, 0.4 + 0.3 stays under 0.75; of the two that top-k leaves, 0.4 does too.
        # Of the three, 0.4 + 0.3 is 0.78 and reaches it.
        found = narrowed([0.4, 0.3, 0.2, 0.1], top_k=3, top_p=0.75)
        assert found.kept == (("top_k", 3), ("top_p", 2))

    def test_top_k_beyond_the_first_glance_still_sets_the_mass_for_top_p(self) -> None:
        # The likeliest token holds almost all mass, the other survivors of top-k lie far below.
        logits = np.full(1000, -9.0, dtype=np.float32)
        logits[0], logits[1:31] = 0.0, -5.0
        found = candidates(logits, [], options(top_k=150, top_p=0.99))
        reference = slow_reference(logits, [], options(top_k=150, top_p=0.99))
        assert len(found.ids) == len(reference[0])

    def test_temperature_first_changes_what_top_p_keeps_and_last_does_not(self) -> None:
        shares = [0.5, 0.3, 0.15, 0.05]
        first = narrowed(shares, temperature=2.0, top_p=0.9)
        last = narrowed(shares, temperature=2.0, top_p=0.9, temperature_last=True)
        assert len(first.ids) == 4
        assert len(last.ids) == 3
        roots = np.sqrt(shares[:3])
        assert last.probabilities.tolist() == pytest.approx((roots / roots.sum()).tolist())

    def test_impossible_tokens_are_no_candidates(self) -> None:
        for changes in ({}, {"top_k": 3}, {"top_p": 0.999}, {"min_p": 1e-9}):
            assert narrowed([0.5, 0.0, 0.5, 0.0], **changes).ids.tolist() == [0, 2]

    def test_a_temperature_at_the_threshold_takes_the_lowest_of_the_likeliest(self) -> None:
        logits = np.array([1.0, 3.0, 3.0], dtype=np.float32)
        found = candidates(logits, [], options(temperature=1e-3))
        assert found.ids.tolist() == [1]
        assert found.probabilities.tolist() == [1.0]

    def test_a_tiny_temperature_above_the_threshold_stays_finite(self) -> None:
        logits = np.array([80.0, -80.0, 79.999], dtype=np.float32)
        found = candidates(logits, [], options(temperature=1.1e-3, top_p=1.0))
        assert found.ids.tolist() == [0, 2]
        assert found.probabilities.sum() == pytest.approx(1.0)

    def test_penalties_count_when_greedy_too(self) -> None:
        logits = np.array([1.0, 0.9], dtype=np.float32)
        assert sample(logits, [0], options(temperature=0.0), new_rng(0)) == 0
        penalised = options(temperature=0.0, repetition_penalty=1.2)
        assert sample(logits, [0], penalised, new_rng(0)) == 1


class TestBrokenNumbers:
    @pytest.mark.parametrize("temperature", [0.0, 0.7])
    @pytest.mark.parametrize(
        "values",
        [
            [1.0, math.nan, 2.0],
            [1.0, math.inf, 2.0],
            [math.inf, math.nan, -math.inf],
            [-math.inf, -math.inf, -math.inf],
        ],
    )
    def test_are_named_and_never_sampled(self, values: list[float], temperature: float) -> None:
        logits = np.array(values, dtype=np.float32)
        for chosen in (options(temperature=temperature), SamplingOptions(temperature=temperature)):
            with pytest.raises(NonFiniteLogitsError):
                sample(logits, [0, 1], chosen, new_rng(0))
            with pytest.raises(NonFiniteLogitsError):
                explain(logits, [0, 1], chosen, count=2)
        with pytest.raises(NonFiniteLogitsError):
            top_logits(logits, 2)

    def test_can_be_caught_as_floating_point_trouble(self) -> None:
        assert issubclass(NonFiniteLogitsError, FloatingPointError)


class TestDraws:
    def test_the_same_seed_draws_the_same_ids_and_another_seed_others(self) -> None:
        logits = np.random.default_rng(0).standard_normal(500).astype(np.float32)

        def draws(seed: int) -> list[int]:
            rng = new_rng(seed)
            return [sample(logits, [], SamplingOptions(), rng) for _ in range(50)]

        assert draws(7) == draws(7)
        assert draws(7) != draws(8)

    def test_a_seed_means_the_same_draws_in_every_version(self) -> None:
        rng = new_rng(42)
        logits = np.zeros(1000, dtype=np.float32)
        drawn = [sample(logits, [], options(), rng) for _ in range(5)]
        assert drawn == [773, 438, 858, 697, 94]  # PCG64(42): 0.7739…, 0.4388…, 0.8585…, …

    @pytest.mark.parametrize("changes", [{"temperature": 0.0}, {"top_k": 1}])
    def test_a_single_survivor_takes_no_random_number(self, changes: dict[str, Any]) -> None:
        rng = new_rng(3)
        before = rng.bit_generator.state
        assert sample(np.array([0.0, 1.0], np.float32), [], options(**changes), rng) == 1
        assert rng.bit_generator.state == before

    def test_a_draw_takes_exactly_one_random_number(self) -> None:
        rng, other = new_rng(3), new_rng(3)
        choose(narrowed(HALVES), rng)
        other.random()
        assert rng.bit_generator.state == other.bit_generator.state

    @pytest.mark.parametrize("uniform", [0.0, 1.0 - 2.0**-53])
    def test_the_ends_of_the_uniform_never_draw_an_impossible_token(self, uniform: float) -> None:
        class Fixed:
            def random(self) -> float:
                return uniform

        weights = np.array([0.0, 0.4, 0.6, 0.0], dtype=np.float32)
        among = Candidates(np.arange(4), weights, ())
        assert choose(among, Fixed()) == (1 if uniform == 0 else 2)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "changes",
        [
            {},
            {"temperature": 0.7},
            {"temperature": 1.8, "top_k": 6},
            {"top_p": 0.8},
            {"min_p": 0.15, "temperature": 1.3},
            {"temperature": 1.5, "top_p": 0.7, "temperature_last": True},
            {"repetition_penalty": 1.5, "frequency_penalty": 0.3, "presence_penalty": 0.2},
        ],
    )
    def test_many_draws_follow_the_distribution(self, changes: dict[str, Any]) -> None:
        logits = np.array([2.0, 1.5, 1.5, 0.7, 0.0, -0.3, -0.5, -1.0, 1.0, 0.2], np.float32)
        history = [0, 3, 3, 9]
        chosen = options(**changes)
        ids, expected = slow_reference(logits, history, chosen)
        rng, draws = new_rng(11), 20_000
        among = candidates(logits, history, chosen)
        counts = np.bincount([choose(among, rng) for _ in range(draws)], minlength=len(logits))
        assert counts[ids].sum() == draws  # nothing that was cut is ever drawn
        chi_squared = ((counts[ids] - draws * expected) ** 2 / (draws * expected)).sum()
        assert chi_squared < critical_chi_squared(len(ids) - 1)


def critical_chi_squared(freedom: int) -> float:
    """The value exceeded once in 10 000 tries (Wilson and Hilferty's approximation)."""
    z, spread = 3.719, 2 / (9 * freedom)
    return freedom * (1 - spread + z * math.sqrt(spread)) ** 3


def test_the_chi_squared_bound_is_the_tabulated_one() -> None:
    assert critical_chi_squared(5) == pytest.approx(25.745, rel=0.03)
    assert critical_chi_squared(9) == pytest.approx(33.720, rel=0.03)


def slowly_penalised(
    logits: np.ndarray, history: list[int], chosen: SamplingOptions
) -> list[float]:
    """The penalties as the rule reads, in fp64."""
    scores = [float(x) for x in logits]
    window = chosen.repetition_window
    recent = history[-window:] if window else []
    for token_id in set(recent):
        x, penalty = scores[token_id], chosen.repetition_penalty
        x = x * penalty if x <= 0 else x / penalty
        x -= recent.count(token_id) * chosen.frequency_penalty + chosen.presence_penalty
        scores[token_id] = x
    return scores


def slow_reference(
    logits: np.ndarray, history: list[int], chosen: SamplingOptions, *, slack: float = 0.0
) -> tuple[list[int], np.ndarray]:
    """Ids and probabilities by the rules, in fp64 with a full sort; `slack` moves the boundaries
    of top-p and min-p so that fewer tokens survive.
    """
    scores = slowly_penalised(logits, history, chosen)
    order = sorted(range(len(scores)), key=lambda token_id: (-scores[token_id], token_id))
    first = 1.0 if chosen.temperature_last else chosen.temperature
    top = scores[order[0]]
    share = {token_id: math.exp((scores[token_id] - top) / first) for token_id in order}
    if chosen.top_k:
        least = scores[order[min(chosen.top_k, len(order)) - 1]]
        order = [token_id for token_id in order if scores[token_id] >= least]
    if chosen.top_p < 1:
        mass, reached, survivors = sum(share[i] for i in order), 0.0, []
        for token_id in order:
            survivors.append(token_id)
            reached += share[token_id]
            if reached >= (chosen.top_p - slack) * mass:
                break
        order = survivors
    order = [i for i in order if share[i] >= (chosen.min_p + slack) * share[order[0]]]
    last = chosen.temperature
    weights = np.array([math.exp((scores[i] - top) / last) for i in order])
    return order, weights / weights.sum()


LOGITS = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=60)
OPTIONS = st.builds(
    SamplingOptions,
    temperature=st.floats(0.05, 2.0),
    top_p=st.one_of(st.just(1.0), st.floats(0.0, 1.0)),
    top_k=st.one_of(st.just(0), st.integers(0, 80)),
    min_p=st.one_of(st.just(0.0), st.floats(0.0, 1.0)),
    repetition_penalty=st.floats(1.0, 2.0),
    repetition_window=st.integers(0, 12),
    frequency_penalty=st.floats(-2.0, 2.0),
    presence_penalty=st.floats(-2.0, 2.0),
    temperature_last=st.booleans(),
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[np.ndarray, list[int], SamplingOptions]:
    logits = np.array(draw(LOGITS), dtype=np.float32)
    history = draw(st.lists(st.integers(0, len(logits) - 1), max_size=20))
    return logits, history, draw(OPTIONS)


@settings(max_examples=300, deadline=None)
@given(situations())
def test_probabilities_sum_to_one_and_fall_and_one_survives(
    situation: tuple[np.ndarray, list[int], SamplingOptions],
) -> None:
    found = candidates(*situation)
    assert len(found.ids) >= 1
    assert len(set(found.ids.tolist())) == len(found.ids)
    assert found.probabilities.dtype == np.float32
    assert found.probabilities.sum(dtype=np.float64) == pytest.approx(1.0, abs=1e-5)
    assert np.all(np.diff(found.probabilities) <= 0)


@settings(max_examples=300, deadline=None)
@given(situations())
def test_survivors_and_probabilities_equal_the_slow_reference(
    situation: tuple[np.ndarray, list[int], SamplingOptions],
) -> None:
    # Distinct fp64 scores may be equal in fp32, and then stand on either side of a top-k cut.
    assume(not near_tie(situation))
    found = candidates(*situation)
    fewest, _ = slow_reference(*situation, slack=1e-5)
    most, expected = slow_reference(*situation, slack=-1e-5)
    possible = int((expected > 1e-37).sum())  # below, the sampler calls a token impossible
    assert min(len(fewest), possible) <= len(found.ids) <= len(most)
    scale = expected[: len(found.ids)].sum()
    for token_id, probability in zip(found.ids.tolist(), found.probabilities, strict=True):
        if token_id in most:
            assert probability == pytest.approx(
                expected[most.index(token_id)] / scale, rel=1e-3, abs=1e-6
            )


def near_tie(situation: tuple[np.ndarray, list[int], SamplingOptions]) -> bool:
    """Whether two unequal scores differ by no more than fp32 rounding does."""
    gaps = np.diff(np.sort(slowly_penalised(*situation)))
    return bool(((gaps > 0) & (gaps < 1e-4)).any())


@settings(max_examples=200, deadline=None)
@given(situations(), st.integers(1, 80))
def test_the_picture_is_what_the_sampler_did(
    situation: tuple[np.ndarray, list[int], SamplingOptions], count: int
) -> None:
    found = candidates(*situation)
    picture = explain(*situation, count=count)
    bars, drawn = picture.bars, found.ids.tolist()
    assert [bar.id for bar in bars if bar.cut_by is None] == drawn[:count]
    after = dict(zip(drawn, found.probabilities.tolist(), strict=True))
    assert all(bar.final == after.get(bar.id, 0.0) for bar in bars)
    assert all(bar.cut_by is None or bar.cut_by in dict(found.kept) for bar in bars)
    before = [bar.probability for bar in bars]
    assert before == sorted(before, reverse=True)
    assert sum(before) <= 1 + 1e-5
    assert picture.kept == len(drawn)
    assert sum(bar.final for bar in bars) + picture.unseen == pytest.approx(1, abs=1e-5)
    everything = explain(*situation, count=len(situation[0])).bars
    cut = sum(bar.probability for bar in everything if bar.cut_by is not None)
    assert picture.left_out == pytest.approx(cut, abs=1e-4)


class TestPicture:
    def test_names_the_stage_that_cut_each_token(self) -> None:
        shares = [0.4, 0.3, 0.15, 0.1, 0.05]
        bars = explain(logits_of(shares), [], options(top_k=4, top_p=0.85, min_p=0.6), count=5).bars
        assert [bar.cut_by for bar in bars] == [None, None, "min_p", "top_p", "top_k"]
        assert [bar.probability for bar in bars] == pytest.approx(shares)
        assert [bar.final for bar in bars] == pytest.approx([4 / 7, 3 / 7, 0, 0, 0])

    def test_shows_what_a_greedy_choice_passed_over(self) -> None:
        bars = explain(logits_of([0.3, 0.7]), [], options(temperature=0.0), count=2).bars
        assert [(bar.id, bar.cut_by, bar.final) for bar in bars] == [
            (1, None, 1.0),
            (0, "temperature", 0.0),
        ]
        assert bars[1].probability == pytest.approx(0.3)

    def test_shows_probabilities_before_a_temperature_that_comes_last(self) -> None:
        chosen = options(temperature=2.0, temperature_last=True)
        bars = explain(logits_of([0.8, 0.2]), [], chosen, count=2).bars
        assert [bar.probability for bar in bars] == pytest.approx([0.8, 0.2])
        assert [bar.final for bar in bars] == pytest.approx([2 / 3, 1 / 3])

    def test_counts_what_is_kept_left_out_and_not_shown(self) -> None:
        shares = [0.4, 0.3, 0.15, 0.1, 0.05]
        picture = explain(logits_of(shares), [], options(top_k=4), count=2)
        assert len(picture.bars) == 2
        assert picture.kept == 4
        assert picture.left_out == pytest.approx(0.05, abs=1e-6)
        assert picture.unseen == pytest.approx(0.25 / 0.95)

    def test_leaves_nothing_out_when_nothing_is_cut(self) -> None:
        picture = explain(logits_of(HALVES), [], options(), count=9)
        assert picture.kept == len(HALVES)
        assert picture.left_out == pytest.approx(0, abs=1e-6)
        assert picture.unseen == 0

    def test_leaves_out_impossible_tokens(self) -> None:
        bars = explain(logits_of([0.5, 0.0, 0.5]), [], options(), count=3).bars
        assert [bar.id for bar in bars] == [0, 2]


class TestTopLogits:
    def test_are_the_raw_values_descending_with_the_log_of_their_sum(self) -> None:
        logits = np.array([1.0, 3.0, 2.0, 3.0, -math.inf], dtype=np.float32)
        top = top_logits(logits, 3)
        assert top.ids == (1, 3, 2)
        assert top.logits == (3.0, 3.0, 2.0)
        total = math.exp(1) + 2 * math.exp(3) + math.exp(2)
        assert top.log_sum_exp == pytest.approx(math.log(total), rel=1e-12)

    def test_are_plain_numbers_and_only_finite_ones(self) -> None:
        top = top_logits(np.array([0.5, -math.inf], dtype=np.float32), 10)
        assert (top.ids, top.logits) == ((0,), (0.5,))
        assert type(top.ids[0]) is int
        assert type(top.logits[0]) is float
        assert type(top.log_sum_exp) is float

    def test_large_logits_do_not_overflow(self) -> None:
        top = top_logits(np.full(4, 1e30, dtype=np.float32), 1)
        assert math.isfinite(top.log_sum_exp)
