"""Finding words in a text as people mean them: case, accents and width of letters do not matter."""

import unicodedata
from itertools import accumulate

# Marks that people leave out when they search: accents, Hebrew points, Arabic vowels. The vowel
# signs of Indian scripts are letters.
_MARKS = {*range(0x300, 0x370), *range(0x591, 0x5C8), *range(0x64B, 0x660), 0x670}


class _Folding(dict[int, str]):
    """What each character becomes; worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFKD", chr(code).casefold())
        kept = "".join(part for part in parts if ord(part) not in _MARKS)
        self[code] = folded = unicodedata.normalize("NFC", kept.casefold())
        return folded


_FOLDING = _Folding()


def fold(text: str) -> str:
    """The text without what a search does not care about; its length may be another."""
    return text.lower() if text.isascii() else text.translate(_FOLDING)


def places(text: str, wanted: str) -> list[tuple[int, int]]:
    """Where in `text` the wanted words stand, as (start, end), one after the other."""
    needle, folded = fold(wanted), fold(text)
    found: list[tuple[int, int]] = []
    if not needle:
        return found
    starts: list[int] | None = None
    if not text.isascii():  # where each character begins once it is folded
        starts = list(accumulate((len(_FOLDING[ord(c)]) for c in text), initial=0))
    at = folded.find(needle)
    place = 0
    while at >= 0:
        end = at + len(needle)
        if starts is None:
            found.append((at, end))
        else:
            while starts[place + 1] <= at:
                place += 1
            first = place
            while starts[place] < end:
                place += 1
            while place < len(text) and not _FOLDING[ord(text[place])]:
                place += 1  # the accent of the last letter
            found.append((first, place))
        at = folded.find(needle, end)
        if starts is not None:
            while at >= 0 and at < starts[place]:  # within a character that is taken
                at = folded.find(needle, at + 1)
    return found
