"""Markdown to paragraphs of styled runs: plain values, of which only the last ones ever change.

Text is text: HTML is shown as typed, an image is never fetched, a link shows where it leads.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

Kind = Literal["text", "heading", "code", "quote", "rule"]

LONGEST_BLOCK = 4_000
"""Characters; a block that is longer loses its inline styles, so that the window stays fluid."""

_DEEPEST = 8  # levels of indentation that are drawn
_DEEPEST_NESTING = 20  # of blocks within blocks, as the parser counts


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of text in one style."""

    text: str
    bold: bool = False
    italic: bool = False
    code: bool = False
    struck: bool = False
    muted: bool = False


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One block of text; a block of code has one for each line.

    `level` is a heading's, `indent` how deep in lists, `marker` a list item's. `opens` is false for
    what belongs directly under the paragraph before: a further line of code, say.
    """

    runs: tuple[Run, ...]
    kind: Kind = "text"
    level: int = 0
    indent: int = 0
    marker: str = ""
    opens: bool = True


class MarkdownStream:
    """A text that grows, as paragraphs. What `append` returns replaces all from its number on."""

    def __init__(self) -> None:
        self._text = ""
        self._done = 0  # paragraphs that will never change

    def append(self, text: str) -> tuple[int, list[Paragraph]]:
        """Add `text`: the number of the first paragraph that may differ, and all from it on."""
        # markdown-it counts these as ends of lines, too.
        self._text = (self._text + text).replace("\r\n", "\n").replace("\r", "\n")
        first = self._done
        blocks = _blocks(self._text)
        result = [paragraph for block in blocks for paragraph in block.paragraphs]
        open_ = _first_open(blocks, self._text)
        if open_ > 0:
            self._done += sum(len(block.paragraphs) for block in blocks[:open_])
            self._text = "\n".join(self._text.split("\n")[blocks[open_].line :])
        return first, result


def parse(text: str) -> list[Paragraph]:
    """All paragraphs of a text that is complete."""
    return MarkdownStream().append(text)[1]


@functools.cache
def _parser(*, inline: bool) -> Any:
    from markdown_it import MarkdownIt  # 40 ms, not needed to start

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST_NESTING})
    parser.enable(["table", "strikethrough"])
    # References would reach back into what is shown already; entities would change what was typed.
    parser.disable(["html_block", "html_inline", "image", "reference", "entity"])
    if not inline:
        parser.core.ruler.disable(["inline"])
    return parser


@dataclass(frozen=True, slots=True)
class _Block:
    """An outermost block, and the number of its first line."""

    line: int
    is_list: bool
    paragraphs: list[Paragraph]


def _blocks(text: str) -> list[_Block]:
    result: list[_Block] = []
    tokens = _parser(inline=len(text) <= LONGEST_BLOCK).parse(text)
    start = 0
    for place, token in enumerate(tokens):
        if token.level == 0 and token.nesting <= 0:  # the end of an outermost block
            line = tokens[start].map[0] if tokens[start].map else 0
            paragraphs = _paragraphs(tokens[start : place + 1], text)
            result.append(_Block(line, token.type.endswith("_list_close"), paragraphs))
            start = place + 1
    return result


def _first_open(blocks: list[_Block], text: str) -> int:
    """The first block that more text may change.

    That is the last one; and the one before, of which it may turn out to be a part: as the next
    item of a list, or as the next line where no blank one lies between.
    """
    last = len(blocks) - 1
    if last < 1:
        return 0
    above = text.split("\n")[blocks[last].line - 1]
    joins = blocks[last - 1].is_list or above.strip()
    return last - 1 if joins else last


def _paragraphs(tokens: list[Any], text: str) -> list[Paragraph]:
    if max(token.level for token in tokens) < _DEEPEST_NESTING - 2:
        return list(_Reader(tokens).paragraphs())
    # The parser leaves out what is nested deeper than its limit: show what was written.
    first, end = tokens[0].map
    lines = text.split("\n")[first:end]
    return [Paragraph((Run(line),), opens=number == 0) for number, line in enumerate(lines)]


class _Reader:
    """Walks over the tokens of one outermost block."""

    def __init__(self, tokens: list[Any]) -> None:
        self._tokens = tokens
        self._lists: list[int | None] = []  # the next number of each list we are in; None: bullets
        self._quotes = 0
        self._marker = ""
        self._heading = 0
        self._tight = False  # the next paragraph belongs directly under the one before

    def paragraphs(self) -> Iterator[Paragraph]:
        """Every paragraph in order."""
        rows: list[list[str]] = []
        in_table = False
        for token in self._tokens:
            match token.type:
                case "bullet_list_open":
                    self._lists.append(None)
                case "ordered_list_open":
                    self._lists.append(int(token.attrGet("start") or 1))
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
                case "list_item_open":
                    self._marker = self._next_marker()
                case "blockquote_open":
                    self._quotes += 1
                case "blockquote_close":
                    self._quotes -= 1
                case "heading_open":
                    self._heading = int(token.tag[1])
                case "heading_close":
                    self._heading = 0
                case "table_open":
                    in_table, rows = True, []
                case "table_close":
                    in_table = False
                    yield from self._code(_aligned(rows))
                case "tr_open":
                    rows.append([])
                case "inline" if in_table:
                    rows[-1].append("".join(run.text for run in _runs(token)))
                case "inline":
                    yield self._paragraph(tuple(_runs(token)))
                case "fence" | "code_block":
                    yield from self._code(token.content.rstrip("\n").split("\n"))
                case "hr":
                    yield self._paragraph((), kind="rule")

    def _paragraph(self, runs: tuple[Run, ...], *, kind: Kind = "text") -> Paragraph:
        if self._quotes and kind == "text":
            kind = "quote"
        if self._heading:
            kind = "heading"
        inside, tight = bool(self._lists), self._tight
        self._tight = inside
        marker, self._marker = self._marker, ""
        return Paragraph(
            runs=runs,
            kind=kind,
            level=self._heading,
            indent=min(len(self._lists), _DEEPEST),
            marker=marker,
            opens=not (inside and tight),
        )

    def _code(self, lines: list[str]) -> Iterator[Paragraph]:
        for number, line in enumerate(lines):
            paragraph = self._paragraph((Run(line, code=True),), kind="code")
            yield replace(paragraph, kind="code", opens=number == 0)

    def _next_marker(self) -> str:
        number = self._lists[-1]
        if number is None:
            return "•" if len(self._lists) % 2 else "◦"
        self._lists[-1] = number + 1
        return f"{number}."


def _runs(paragraph: Any) -> Iterator[Run]:
    """The inline tokens of one paragraph; a line break is a character of its own."""
    if not paragraph.children:
        yield Run(paragraph.content.replace("\n", "\N{LINE SEPARATOR}"))
        return
    bold = italic = struck = 0
    targets: list[str] = []
    for token in paragraph.children:
        style = {"bold": bold > 0, "italic": italic > 0, "struck": struck > 0}
        match token.type:
            case "strong_open" | "strong_close":
                bold += token.nesting
            case "em_open" | "em_close":
                italic += token.nesting
            case "s_open" | "s_close":
                struck += token.nesting
            case "link_open":
                targets.append(str(token.attrGet("href") or ""))
            case "link_close":
                if token.info != "auto":
                    yield Run(f" ({targets.pop()})", muted=True)
            case "softbreak" | "hardbreak":
                yield Run("\N{LINE SEPARATOR}", **style)
            case "code_inline":
                yield Run(token.content, code=True, **style)
            case _ if token.content:
                yield Run(token.content, **style)


def _aligned(rows: list[list[str]]) -> list[str]:
    """A table as lines of text with its columns one below the other."""
    columns = max(map(len, rows), default=0)
    rows = [row + [""] * (columns - len(row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(columns)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return [line.rstrip() for line in lines]
