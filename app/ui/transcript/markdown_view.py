"""A reply as paragraphs in one document, which grows at its end and is never laid out anew.

What is selected stays selected: only characters that differ from what is shown are replaced.
"""

# ruff: noqa: N802 - the names of what is overridden are Qt's

import time

from PySide6.QtCore import QEvent, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QFontMetricsF,
    QPainter,
    QPaintEvent,
    QPalette,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QWidget

from app.ui.controls.text_view import TextView, showable
from app.ui.theme import LINE_HEIGHT, UNIT
from app.ui.transcript.markdown import MarkdownStream, Paragraph, Run

_SHARE = 6  # rendering takes at most one part in so many of the time

_HEADING_SCALE = {1: 1.35, 2: 1.2, 3: 1.1}
_PADDING = 2 * UNIT


class MarkdownView(TextView):
    """Shows Markdown that comes piece by piece."""

    grown = Signal()  # there is more to see; the height may be another

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(name, parent)
        self._source: list[str] = []
        self._gathered = ""
        self._stream = MarkdownStream()
        self._shown: list[Paragraph] = []
        self._cost = 0.0  # seconds that the last rendering took
        self._rendered_at = 0.0
        self._later = QTimer(self, singleShot=True)
        self._later.timeout.connect(self.render_now)

    def append_text(self, text: str) -> None:
        """Add to the reply; shown at once, unless that would take too much of the time."""
        self._source.append(text)
        self._gathered += text
        rest = self._rendered_at + _SHARE * self._cost - time.perf_counter()
        if rest <= 0:
            self.render_now()
        elif not self._later.isActive():
            self._later.start(round(rest * 1000) + 1)

    def render_now(self) -> None:
        """Show all that came."""
        began = time.perf_counter()
        text, self._gathered = self._gathered, ""
        if text:
            self._later.stop()
            self.widen_wrapping(text)
            first, paragraphs = self._stream.append(showable(text))
            self._replace_from(first, paragraphs)
            self._rendered_at = time.perf_counter()
            self._cost = self._rendered_at - began
            self.grown.emit()

    def set_text(self, text: str) -> None:
        """Show another text."""
        self._source, self._gathered, self._shown = [text], text, []
        self._stream = MarkdownStream()
        self.document().clear()
        self._end_run = ""
        self.render_now()

    def height_for(self, width: int) -> int:
        """As `TextView.height_for`; code has some room below it, too."""
        height = super().height_for(width)
        if self._shown and self._shown[-1].kind == "code":
            height += _PADDING
            self.resize(width, height)
        return height

    def source(self) -> str:
        """The Markdown that came, also what is not shown yet."""
        return "".join(self._source)

    def changeEvent(self, event: QEvent) -> None:
        """Another palette or font: the styles are made of them."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange) and hasattr(
            self, "_shown"
        ):
            self.set_text(self.source())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw what lies behind code, beside a quote, or is a rule; then the text."""
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        number = self.cursorForPosition(event.rect().topLeft()).blockNumber()
        while number > 0 and not self._shown[min(number, len(self._shown) - 1)].opens:
            number -= 1
        # Padding reaches beyond the text, so the paragraph before may show, too.
        number = max(0, number - 1)
        while number < len(self._shown):
            kind = self._shown[number].kind
            end = number + 1
            while end < len(self._shown) and self._continues(end):
                end += 1
            rect = self._place(number).united(self._place(end - 1))
            if rect.top() > event.rect().bottom() + _PADDING:
                break
            if kind in ("code", "quote", "rule"):
                margin = self.document().findBlockByNumber(number).blockFormat().leftMargin()
                self._decorate(painter, rect, kind, margin)
            number = end
        painter.end()
        super().paintEvent(event)

    def _continues(self, number: int) -> bool:
        """Whether a paragraph belongs to the same code or quote as the one before."""
        before, paragraph = self._shown[number - 1], self._shown[number]
        return (
            paragraph.kind == before.kind
            and paragraph.kind in ("code", "quote")
            and not paragraph.opens
        )

    def _place(self, number: int) -> QRectF:
        block = self.document().findBlockByNumber(number)
        return self.document().documentLayout().blockBoundingRect(block)

    def _decorate(self, painter: QPainter, rect: QRectF, kind: str, margin: float) -> None:
        palette = self.palette()
        if kind == "code":
            painter.setPen(QColor(palette.color(QPalette.ColorRole.Mid)))
            painter.setBrush(palette.color(QPalette.ColorRole.AlternateBase))
            left = margin - 3 * UNIT + 0.5
            box = QRectF(left, rect.top() - _PADDING, self.viewport().width() - left - 0.5, 0)
            box.setBottom(rect.bottom() + _PADDING - 1)
            painter.drawRoundedRect(box, 1.5 * UNIT, 1.5 * UNIT)
            return
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(palette.color(QPalette.ColorRole.Mid))
        if kind == "quote":
            bar = QRectF(margin - 3 * UNIT, rect.top(), 3, rect.height())
            painter.drawRoundedRect(bar, 1, 1)
        else:
            painter.drawRect(QRectF(0, rect.center().y(), self.viewport().width(), 1))

    def _replace_from(self, first: int, paragraphs: list[Paragraph]) -> None:
        """Make the document hold `paragraphs` from number `first` on, touching what differs."""
        old, place = self._shown[first:], 0
        while place < len(old) and place < len(paragraphs) and old[place] == paragraphs[place]:
            place += 1
        if place == len(old) == len(paragraphs):
            return
        reader = self.textCursor()
        anchor, position = reader.anchor(), reader.position()
        writer = QTextCursor(self.document())
        writer.beginEditBlock()
        self._write(writer, first + place, paragraphs[place:])
        writer.endEditBlock()
        self._shown[first:] = paragraphs
        reader = self.textCursor()
        if (anchor, position) != (reader.anchor(), reader.position()):
            end = self.document().characterCount() - 1
            # A selection that reached the end would have grown, or shrunk, with the text.
            reader.setPosition(min(anchor, end))
            reader.setPosition(min(position, end), QTextCursor.MoveMode.KeepAnchor)
            self.setTextCursor(reader)

    def _write(self, writer: QTextCursor, number: int, paragraphs: list[Paragraph]) -> None:
        """Replace the document from paragraph `number` on."""
        block = self.document().findBlockByNumber(number)
        old = self._shown[number] if number < len(self._shown) else None
        rest = list(paragraphs)
        if old is not None:
            new = rest[0] if rest else None
            keep = new is not None and _same_block(old, new)
            # Behind what both begin with, or behind the end of the paragraph before.
            common = _common(old.runs, new.runs) if keep and new is not None else 0
            start = block.position()
            if keep:
                text = "".join(run.text for run in old.runs)[:common]
                start += _marker_length(old) + _units(text)
            writer.setPosition(start)
            writer.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
            writer.removeSelectedText()
            if keep and new is not None:
                self._write_runs(writer, new, skip=common)
                rest.pop(0)
            elif number > 0:
                writer.deletePreviousChar()  # the block itself
        else:
            writer.movePosition(QTextCursor.MoveOperation.End)
        done = paragraphs[: len(paragraphs) - len(rest)] or self._shown[:number]
        before = done[-1].kind if done else ""
        for place, paragraph in enumerate(rest):
            at_start = number == 0 and place == 0 and self.document().isEmpty()
            block_format = self._block_format(paragraph, first=at_start)
            if before == "code" and paragraph.opens:
                block_format.setTopMargin(block_format.topMargin() + _PADDING)
            before = paragraph.kind
            if at_start:
                writer.setBlockFormat(block_format)
            else:
                writer.insertBlock(block_format, QTextCharFormat())
            self._write_marker(writer, paragraph)
            self._write_runs(writer, paragraph, skip=0)

    def _write_marker(self, writer: QTextCursor, paragraph: Paragraph) -> None:
        if paragraph.marker:
            style = QTextCharFormat()
            style.setForeground(self.palette().color(QPalette.ColorRole.PlaceholderText))
            writer.insertText(f"{paragraph.marker}\N{NO-BREAK SPACE}", style)

    def _write_runs(self, writer: QTextCursor, paragraph: Paragraph, *, skip: int) -> None:
        for run in paragraph.runs:
            if skip < len(run.text):
                writer.insertText(run.text[skip:], self._char_format(paragraph, run))
            skip = max(0, skip - len(run.text))

    def _block_format(self, paragraph: Paragraph, *, first: bool) -> QTextBlockFormat:
        form = QTextBlockFormat()
        form.setLineHeight(LINE_HEIGHT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        metrics = QFontMetricsF(self.font())
        indent = max(6 * UNIT, round(metrics.horizontalAdvance("00."))) * paragraph.indent
        if paragraph.marker:
            hangs = metrics.horizontalAdvance(f"{paragraph.marker}\N{NO-BREAK SPACE}")
            form.setTextIndent(-min(hangs, indent))
        above = 3 * UNIT if paragraph.opens else UNIT
        if paragraph.kind == "code":
            above = 3 * UNIT + _PADDING if paragraph.opens else 0
            indent += 3 * UNIT
            form.setRightMargin(3 * UNIT)
            form.setLineHeight(130, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
            form.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        elif paragraph.kind == "quote":
            indent += 4 * UNIT
        elif paragraph.kind == "heading":
            form.setHeadingLevel(paragraph.level)
            above = 5 * UNIT
        form.setLeftMargin(indent)
        form.setTopMargin((_PADDING if paragraph.kind == "code" else 0) if first else above)
        return form

    def _char_format(self, paragraph: Paragraph, run: Run) -> QTextCharFormat:
        form = QTextCharFormat()
        palette = self.palette()
        if run.bold or paragraph.kind == "heading":
            form.setFontWeight(QFont.Weight.DemiBold)
        if paragraph.kind == "heading":
            scale = _HEADING_SCALE.get(paragraph.level, 1.0)
            form.setFontPointSize(self.font().pointSizeF() * scale)
        if run.code:
            form.setFontFamilies(
                [QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()]
            )
            form.setFontPointSize(self.font().pointSizeF() * 0.92)
            if paragraph.kind != "code":
                form.setBackground(palette.color(QPalette.ColorRole.AlternateBase))
        form.setFontItalic(run.italic)
        form.setFontStrikeOut(run.struck)
        if run.muted or paragraph.kind == "quote":
            form.setForeground(palette.color(QPalette.ColorRole.PlaceholderText))
        return form


def _same_block(old: Paragraph, new: Paragraph) -> bool:
    """Whether both are drawn alike but for their runs."""
    return (old.kind, old.level, old.indent, old.marker, old.opens) == (
        new.kind,
        new.level,
        new.indent,
        new.marker,
        new.opens,
    )


def _marker_length(paragraph: Paragraph) -> int:
    return _units(paragraph.marker) + 1 if paragraph.marker else 0


def _common(old: tuple[Run, ...], new: tuple[Run, ...]) -> int:
    """How many characters, from the first, are the same in text and style."""
    count = 0
    for a, b in zip(old, new, strict=False):
        if a == b:
            count += len(a.text)
            continue
        if (a.bold, a.italic, a.code, a.struck, a.muted) == (
            b.bold,
            b.italic,
            b.code,
            b.struck,
            b.muted,
        ):
            count += _common_length(a.text, b.text)
        break
    return count


def _common_length(a: str, b: str) -> int:
    if b.startswith(a):  # nearly always: the text has grown
        return len(a)
    pairs = enumerate(zip(a, b, strict=False))
    return next((place for place, (x, y) in pairs if x != y), min(len(a), len(b)))


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
