"""Finding words in a text as people mean them: case, accents and width of letters do not matter."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate

# Marks that people leave out when they search: accents, Hebrew points (not the hyphen and the full
# stop among them), Arabic vowels, and how a sign is to be shown. The vowel signs of Indian scripts
# are letters.
_MARKS = {
    *range(0x300, 0x370),
    *(set(range(0x591, 0x5C8)) - {0x5BE, 0x5C0, 0x5C3, 0x5C6}),
    *range(0x64B, 0x660),
    0x670,
    *range(0xFE00, 0xFE10),
}


class _Folding(dict[int, str]):
    """What each character becomes; worked out when it is first met.

    It stays in parts: whether it came whole or in parts, a syllable of Korean is then the same.
    """

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFKD", chr(code).casefold())
        whole = unicodedata.normalize("NFKD", parts.casefold())
        self[code] = folded = "".join(part for part in whole if ord(part) not in _MARKS)
        return folded


_FOLDING = _Folding()


def fold(text: str) -> str:
    """The text without what a search does not care about; its length may be another."""
    return text.lower() if text.isascii() else text.translate(_FOLDING)


def places(text: str, wanted: str) -> list[tuple[int, int]]:
    """Where in `text` the wanted words stand, as (start, end), one after the other."""
    needle = fold(wanted)
    return list(matches(text, re.compile(re.escape(needle)))) if needle else []


def matches(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Where in `text` that is which, folded, matches the pattern, as (start, end), in order.

    The pattern must not match nothing.
    """
    folded = fold(text)
    if text.isascii():
        for match in pattern.finditer(folded):
            yield match.span()
        return
    # Where each character begins once it is folded.
    starts = list(accumulate(map(len, map(_FOLDING.__getitem__, map(ord, text))), initial=0))
    found = pattern.search(folded)
    place = 0
    while found:
        first = bisect_right(starts, found.start(), lo=place) - 1
        place = bisect_left(starts, found.end(), lo=first)
        while place < len(text) and starts[place] == starts[place + 1]:
            place += 1  # the accent of the last letter
        yield first, place
        found = pattern.search(folded, starts[place])  # not within a character that is taken
