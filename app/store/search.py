"""Search in all messages, by an index that SQLite keeps (FTS5): words, their beginnings, phrases.

What is indexed is folded first. Scripts without spaces between words are cut into pairs of
characters, and a query likewise, so that two characters of Chinese are found wherever they stand.
"""

import re
import sqlite3
import unicodedata
from dataclasses import dataclass
from functools import cache

from app.ui.finding import fold, places

_UNSPACED = re.compile(
    "[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
_PHRASE = re.compile(r'"([^"]*)"?|(\S+)')
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


def add_functions(connection: sqlite3.Connection) -> None:
    """What the index calls; every connection that writes messages needs it."""
    connection.create_function("search_words", 1, search_words, deterministic=True)


def search_words(content: object) -> str:
    """The words of a text, given as UTF-8, as they are indexed: with spaces between them."""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
    folded = fold(text.replace("\0", " "))
    return folded if folded.isascii() else _UNSPACED.sub(_pairs, folded)


def query_of(text: str) -> str:
    """What a person typed as FTS5 wants it; "" if there is nothing to search for.

    All words must be there; words in double quotes must follow each other; the last one may be the
    beginning of a word, unless a space or a quote follows it.
    """
    terms = _terms(text)
    ends = not text or text[-1].isspace() or (text.count('"') > 1 and text.rstrip().endswith('"'))
    phrases = [f'"{" ".join(words)}"' for words in terms]
    if phrases and not ends:
        phrases[-1] += " *"
    elif terms and len(terms[-1][-1]) == 1 and _UNSPACED.match(terms[-1][-1]):
        phrases[-1] += " *"  # one character is the beginning of a pair
    return " AND ".join(phrases)


def find(connection: sqlite3.Connection, text: str, *, limit: int) -> list[Hit]:
    """The newest messages with these words, in chats that are not deleted."""
    query = query_of(text)
    if not query:
        return []
    wanted = [" ".join(words) for words in _terms(text, pairs=False)]
    return [
        Hit(chat_id, message_id, role, created_at, *excerpt(content, wanted))
        for chat_id, message_id, role, created_at, content in connection.execute(
            _FIND, (query, limit)
        )
    ]


def excerpt(text: str, wanted: list[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """One line around the first of the wanted words, and where in it each of them stands."""
    found = [places(text, words)[:1] for words in wanted]
    first = min((start for hits in found for start, _ in hits), default=0)
    start = max(0, first - _BEFORE)
    if start > 0:
        space = text.find(" ", start, first)
        start = space + 1 if space >= 0 else start
    line = " ".join(text[start : start + 4 * _LENGTH].replace("\0", " ").split())
    cut = line[:_LENGTH].rstrip()
    shown = ("…" if start > 0 else "") + cut + ("…" if len(cut) < len(line) else "")
    marks = sorted({mark for words in wanted for mark in places(shown, words)})
    return shown, tuple(marks)


def _terms(text: str, *, pairs: bool = True) -> list[list[str]]:
    """What must be there: lists of words that follow each other."""
    folded = fold(text.replace("\0", " "))
    terms = []
    for phrase, word in _PHRASE.findall(folded):
        part = phrase or word
        words = _words_of(_UNSPACED.sub(_query_pairs, part) if pairs else part)
        if words:
            terms.append(words)
    return terms


def _words_of(text: str) -> list[str]:
    # The index takes vowel signs for letters, which Python's \w does not.
    spaced = "".join(c if _is_letter(c) else " " for c in text)
    return spaced.split()


@cache
def _is_letter(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "LN" or category in ("Co", "Mn", "Mc")


def _pairs(found: re.Match[str]) -> str:
    run = found[0]
    pairs = [run[n : n + 2] for n in range(len(run) - 1)]
    return f" {' '.join([*pairs, run[-1]])} "


def _query_pairs(found: re.Match[str]) -> str:
    run = found[0]
    return f" {' '.join(run[n : n + 2] for n in range(len(run) - 1)) or run} "
