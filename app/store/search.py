"""Search in all messages, by an index that SQLite keeps (FTS5): words, their beginnings, phrases.

What is indexed is folded first. Scripts without spaces between words are cut into pairs of
characters, and a query likewise, so that two characters of Chinese are found wherever they stand.
Whoever changes what is indexed must have the index rebuilt by a migration.
"""

import re
import sqlite3
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from operator import add

from app.ui.finding import fold, matches

# Letters, digits and vowel signs only: other signs end a run.
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0eff\u1000-\u1049\u1050-\u109d"
    "\u1780-\u17d3\u17d7\u17dc-\u17ff\u3005-\u3007\u3041-\u309a\u309d-\u309f\u30a1-\u30fa"
    "\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(f"[{_UNSPACED}]+")
_PIECE = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_PHRASE = re.compile(r'"([^"]*)"?|(\S+)')
_SOLID = re.compile(r"[^\s\0]+")
_BEFORE, _LENGTH = 30, 120  # characters of an excerpt, before the first hit and in all

_FIND = """
    SELECT m.chat_id, m.id, m.role, m.created_at, m.content FROM search
    JOIN message AS m ON m.id = search.rowid JOIN chat AS c ON c.id = m.chat_id
    WHERE search MATCH ? AND m.deleted_at IS NULL AND c.deleted_at IS NULL
    ORDER BY search.rowid DESC LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Hit:
    """A message in which all words stand. `marks` are where in the `excerpt` they do."""

    chat_id: int
    message_id: int
    role: str
    created_at: float
    excerpt: str
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Term:
    """Pieces of words that follow each other, each of one kind of script.

    With `open`, the last one may be the beginning of a word.
    """

    pieces: tuple[str, ...]
    open: bool

    @property
    def query(self) -> str:
        """As FTS5 wants it."""
        last = self.pieces[-1]
        # The index has the last character of a run by itself, between its pairs and what follows.
        words: list[str] = []
        for piece in self.pieces:
            words += _pairs(piece) if _RUN.match(piece) else [piece]
        if _RUN.match(last) and len(last) > 1:
            del words[-1]
        alone = _RUN.match(last) and len(last) == 1  # which is the beginning of a pair
        return f'"{" ".join(words)}"' + (" *" if self.open or alone else "")

    @property
    def pattern(self) -> re.Pattern[str]:
        """What it looks like in a folded text."""
        letter = f"[^\\W_{_UNSPACED}]"
        begins = "" if _RUN.match(self.pieces[0]) else f"(?<!{letter})"
        ends = "" if self.open or _RUN.match(self.pieces[-1]) else f"(?!{letter})"
        return re.compile(begins + r"[\W_]*".join(map(re.escape, self.pieces)) + ends)


def add_functions(connection: sqlite3.Connection) -> None:
    """What the index calls; every connection that writes messages needs it."""
    connection.create_function("search_words", 1, search_words, deterministic=True)


def search_words(content: object) -> str:
    """The words of a text, given as UTF-8, as they are indexed: with spaces between them."""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
    folded = fold(text.replace("\0", " "))
    return folded if folded.isascii() else _RUN.sub(_spaced, folded)


def query_of(text: str) -> str:
    """What a person typed as FTS5 wants it; "" if there is nothing to search for.

    All words must be there; words in double quotes must follow each other; the last one may be the
    beginning of a word, unless a space or a quote follows it.
    """
    return " AND ".join(term.query for term in _terms(text))


def find(connection: sqlite3.Connection, text: str, *, limit: int) -> list[Hit]:
    """The newest messages with these words, in chats that are not deleted."""
    query = query_of(text)
    if not query:
        return []
    wanted = patterns_of(text)
    return [
        Hit(chat_id, message_id, role, created_at, *excerpt(content, wanted))
        for chat_id, message_id, role, created_at, content in connection.execute(
            _FIND, (query, limit)
        )
    ]


def patterns_of(text: str) -> list[re.Pattern[str]]:
    """What a person typed as it looks in the messages that are found, once these are folded."""
    return [term.pattern for term in _terms(text)]


def excerpt(text: str, wanted: list[re.Pattern[str]]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """One line around the first of what is wanted, and where in it each of that stands."""
    first = min((at for at in (_first(text, pattern) for pattern in wanted) if at >= 0), default=0)
    start = max(0, first - _BEFORE)
    if start > 0:
        space = re.search(r"\s", text[start:first])
        start += space.end() if space else 0
    words: list[str] = []
    length = -1
    for word in _SOLID.finditer(text, start):
        words.append(text[word.start() : min(word.end(), word.start() + _LENGTH + 1)])
        length += 1 + len(words[-1])
        if length > _LENGTH:
            break
    cut = " ".join(words)[:_LENGTH].rstrip()
    shown = ("…" if start > 0 else "") + cut + ("…" if length > _LENGTH else "")
    return shown, _united(mark for pattern in wanted for mark in matches(shown, pattern))


def _first(text: str, pattern: re.Pattern[str]) -> int:
    """Where the pattern begins to match; -1 if nowhere. A long text is not read in vain."""
    for length in (1 << 12, 1 << 16, len(text)):
        for start, _ in matches(text[:length], pattern):
            return start
        if length >= len(text):
            break
    return -1


def _united(marks: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same places in order, those that overlap as one."""
    united: list[tuple[int, int]] = []
    for start, end in sorted(marks):
        if united and start < united[-1][1]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        else:
            united.append((start, end))
    return tuple(united)


def _terms(text: str) -> list[_Term]:
    """What must be there."""
    folded = fold(text.replace("\0", " "))
    ended = folded[-1:].isspace() or (folded.count('"') > 1 and folded.rstrip().endswith('"'))
    found = [_pieces(phrase or word) for phrase, word in _PHRASE.findall(folded)]
    terms = [_Term(pieces, open=False) for pieces in found if pieces]
    if terms and not ended:
        terms[-1] = replace(terms[-1], open=True)
    return terms


def _pieces(text: str) -> tuple[str, ...]:
    # The index takes vowel signs for letters, which Python's \w does not.
    spaced = "".join(c if _is_letter(c) else " " for c in text)
    return tuple(piece for word in spaced.split() for piece in _PIECE.findall(word))


@cache
def _is_letter(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "LN" or category in ("Co", "Mn", "Mc")


def _spaced(run: re.Match[str]) -> str:
    return f" {' '.join(_pairs(run[0]))} "


def _pairs(run: str) -> list[str]:
    """The pairs of characters that overlap, and the last character."""
    return [*map(add, run, run[1:]), run[-1]]
