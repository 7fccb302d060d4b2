"""Noticing a reply that has fallen into a loop: the same run of tokens again and again."""

from collections.abc import Sequence

LONGEST_PERIOD = 128
LEAST_REPEATS = 4
LEAST_TOKENS = 192
"""A run counts as a loop once it came `LEAST_REPEATS` times and fills `LEAST_TOKENS` tokens.

Small models loop over a word, a sentence or a short paragraph, and never come out again. What
people ask for repeats too, but briefly (a rule of dashes, a chorus, an empty table or grid of nine
rows stay below 192 tokens) or with changes (counted lines, cells with contents, code).
"""


def is_looping(token_ids: Sequence[int]) -> bool:
    """Whether `token_ids`, the reply so far, ends in a loop. Takes microseconds."""
    return any(
        # Most periods end here, at one comparison.
        token_ids[-1] == token_ids[-1 - period] and _repeats(token_ids, period)
        for period in range(1, min(LONGEST_PERIOD, len(token_ids) - 1) + 1)
    )


def _repeats(token_ids: Sequence[int], period: int) -> bool:
    length = max(LEAST_TOKENS, LEAST_REPEATS * period)
    end = token_ids[-length:]
    return len(end) == length and end[period:] == end[:-period]
