"""From logits to the next token: penalties, temperature, top-k, top-p, min-p, one uniform draw.

Invariant: every cut keeps the likeliest tokens and drops the rest. So a cut is one number, how many
tokens it kept, and the same numbers make both the token and the picture of how it was chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.events import Bar, Cut, Picture, TopLogits
from engine.options import SamplingOptions

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.intp]

_REACHES = (4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 87.0)
"""How far below the likeliest token to look for survivors, in nats, until the last one is found.

Sorting a whole vocabulary takes longer than a small model's step. Below exp(-87) fp32 loses its
digits, and a uniform number of 53 bits could not draw such a token anyway: it counts as impossible.
"""


class NonFiniteLogitsError(FloatingPointError):
    """The logits hold NaN or +inf, or leave no token possible: computing them broke down."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The tokens that survived every cut, by falling probability, equals by rising id.

    `probabilities` sum to 1 over the survivors. `kept` names the cuts in force in their order, each
    with how many of the likeliest tokens it left.
    """

    ids: Ids
    probabilities: Floats
    kept: tuple[tuple[Cut, int], ...]


def new_rng(seed: int) -> np.random.Generator:
    """A reply's own generator. Named, so that a change of numpy's default changes no reply."""
    return np.random.Generator(np.random.PCG64(seed))


def sample(
    logits: Floats, history: Sequence[int], options: SamplingOptions, rng: np.random.Generator
) -> int:
    """The next token's id; `history` is all ids of the conversation so far.

    Raises NonFiniteLogitsError.
    """
    return choose(candidates(logits, history, options), rng)


def choose(among: Candidates, rng: np.random.Generator) -> int:
    """Draw one id by the inverse of the distribution function, from one uniform number.

    A single survivor takes no random number.
    """
    if len(among.ids) == 1:
        return int(among.ids[0])
    cumulative = np.cumsum(among.probabilities, dtype=np.float64)
    # "right": a token of probability 0 is never the first to exceed the draw.
    place = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
    return int(among.ids[place])


def candidates(logits: Floats, history: Sequence[int], options: SamplingOptions) -> Candidates:
    """Which tokens may come next and how likely each is; `logits` has shape (vocab,), fp32.

    Raises NonFiniteLogitsError.
    """
    return _narrow(_scale(penalise(logits, history, options), options), options)


def explain(
    logits: Floats, history: Sequence[int], options: SamplingOptions, *, count: int
) -> Picture:
    """What `candidates` did with the `count` likeliest tokens, likeliest first.

    Fewer if fewer are possible at all. Raises NonFiniteLogitsError.
    """
    scaled = _scale(penalise(logits, history, options), options)
    survivors = _narrow(scaled, options)
    weights = np.exp(scaled)
    total = weights.sum(dtype=np.float64)
    likeliest = _largest(scaled, count)
    likeliest = likeliest[scaled[likeliest] > -_REACHES[-1]]
    final = dict(
        zip(survivors.ids[:count].tolist(), survivors.probabilities[:count].tolist(), strict=True)
    )
    bars = tuple(
        Bar(
            id=token_id,
            probability=float(weights[token_id] / total),
            final=final.get(token_id, 0.0),
            cut_by=next((cut for cut, kept in survivors.kept if kept <= rank), None),
        )
        for rank, token_id in enumerate(likeliest.tolist())
    )
    return Picture(
        bars=bars,
        kept=len(survivors.ids),
        left_out=max(0.0, 1.0 - float(weights[survivors.ids].sum(dtype=np.float64) / total)),
        unseen=float(survivors.probabilities[count:].sum(dtype=np.float64)),
    )


def top_logits(logits: Floats, count: int) -> TopLogits:
    """The `count` largest logits and the log of the sum of all exponentials (summed in fp64).

    Fewer if fewer are finite. Raises NonFiniteLogitsError.
    """
    top = _finite_maximum(logits)
    ids = _largest(logits, count)
    total = np.exp(logits.astype(np.float64) - top).sum()
    return TopLogits(
        ids=tuple(ids.tolist()),
        logits=tuple(logits[ids].tolist()),
        log_sum_exp=top + float(np.log(total)),
    )


def penalise(logits: Floats, history: Sequence[int], options: SamplingOptions) -> Floats:
    """Lower the logits of tokens seen in the last `repetition_window` ids of `history`.

    Repetition: logits above 0 are divided by the penalty, others multiplied (Keskar et al. 2019,
    arXiv:1909.05858, with the sign minded). Then each token loses `frequency_penalty` for every
    time it was seen and `presence_penalty` once. Returns `logits` itself if nothing changes.
    """
    repetition = options.repetition_penalty
    idle = repetition == 1 and options.frequency_penalty == 0 and options.presence_penalty == 0
    recent = history[max(0, len(history) - options.repetition_window) :]
    if idle or not recent:
        return logits
    ids, counts = np.unique(np.asarray(recent, dtype=np.intp), return_counts=True)
    seen = logits[ids]
    seen = np.where(seen <= 0, seen * repetition, seen / repetition)
    seen -= counts.astype(np.float32) * options.frequency_penalty + options.presence_penalty
    penalised = logits.copy()
    penalised[ids] = seen
    return penalised


def top_k_kept(scores: Floats, k: int) -> int:
    """How many of the descending `scores` are at least the k-th."""
    return int(np.count_nonzero(scores >= scores[min(k, len(scores)) - 1]))


def top_p_kept(shares: Floats, p: float, *, mass: float) -> int:
    """How many of the descending `shares` it takes to reach the part `p` of `mass`; at least one.

    Holtzman et al. 2019, arXiv:1904.09751.
    """
    cumulative = np.cumsum(shares, dtype=np.float64)
    return min(int(np.searchsorted(cumulative, p * mass)) + 1, len(shares))


def min_p_kept(shares: Floats, min_p: float) -> int:
    """How many of the descending `shares` are at least `min_p` of the first.

    Nguyen et al. 2024, arXiv:2407.01082.
    """
    return int(np.count_nonzero(shares >= min_p * shares[0]))


def _scale(scores: Floats, options: SamplingOptions) -> Floats:
    """Scores relative to the largest (which becomes 0), by temperature if that comes first."""
    top = _finite_maximum(scores)
    with np.errstate(over="ignore"):  # what falls below fp32 becomes -inf, which is impossible too
        scaled = scores - np.float32(top)
        if not (options.temperature_last or options.greedy):
            scaled /= options.temperature
    return scaled


def _narrow(scaled: Floats, options: SamplingOptions) -> Candidates:
    """Cut, then turn what is left into probabilities."""
    if options.greedy:
        likeliest = np.array([scaled.argmax()])
        return Candidates(likeliest, np.ones(1, dtype=np.float32), (("temperature", 1),))
    total = np.exp(scaled).sum()
    cutting = options.top_k > 0 or options.top_p < 1 or options.min_p > 0
    for reach in _REACHES if cutting else _REACHES[-1:]:
        ids = np.flatnonzero(scaled > -reach)
        ids = ids[_descending(scaled[ids])]
        scores = scaled[ids]
        kept = _cuts(scores, np.exp(scores) / total, options)
        survivors = kept[-1][1] if kept else len(ids)
        # Were all that were looked at kept, or fewer than k seen, then more may lie below.
        if len(ids) > max(survivors, options.top_k):
            break
    scores = scores[:survivors]
    weights = np.exp(scores / options.temperature if options.temperature_last else scores)
    return Candidates(ids[:survivors], weights / weights.sum(), kept)


def _cuts(scores: Floats, shares: Floats, options: SamplingOptions) -> tuple[tuple[Cut, int], ...]:
    """How many of the descending tokens each cut in force keeps, one after the other."""
    kept: list[tuple[Cut, int]] = []
    left, mass = len(scores), 1.0
    if options.top_k > 0:
        left = top_k_kept(scores, options.top_k)
        mass = float(shares[:left].sum(dtype=np.float64))
        kept.append(("top_k", left))
    if options.top_p < 1:
        left = top_p_kept(shares[:left], options.top_p, mass=mass)
        kept.append(("top_p", left))
    if options.min_p > 0:
        left = min_p_kept(shares[:left], options.min_p)
        kept.append(("min_p", left))
    return tuple(kept)


def _finite_maximum(logits: Floats) -> float:
    # One look is enough: NaN and +inf become the maximum, and so does -inf if it is everywhere.
    top = float(logits.max())
    if not np.isfinite(top):
        raise NonFiniteLogitsError(f"the largest logit is {top}")
    return top


def _largest(scores: Floats, count: int) -> Ids:
    """Ids of the `count` largest finite scores, descending, equals by rising id."""
    count = min(count, len(scores))
    threshold = max(np.partition(scores, -count)[-count], np.finfo(np.float32).min)
    ids = np.flatnonzero(scores >= threshold)
    return ids[np.argsort(-scores[ids], kind="stable")][:count]


def _descending(scaled: Floats) -> Ids:
    """Positions by falling score, equals by rising position; no score is above 0."""
    # numpy sorts whole numbers at least twice as fast as it stably argsorts floats, and the bits of
    # floats from 0 up are ordered as the floats are. So: distance below 0, then position.
    distances = np.abs(scaled).view(np.uint32).astype(np.uint64)
    keys = (distances << np.uint64(32)) | np.arange(len(scaled), dtype=np.uint64)
    keys.sort()
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.intp)
