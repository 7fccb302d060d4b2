"""The painted rows of the next token's chances: text, bar and number of each."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

import html
import math
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontMetricsF,
    QHelpEvent,
    QPainter,
    QPaintEvent,
    QStaticText,
    QTextOption,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.ui.panel.token_text import cut_name, is_control, percent, visible
from app.ui.theme import LIGHT, UNIT, Colours, scaled_font
from engine.events import Bar, Picture

COUNT = 12
_MOST_WRITTEN = 2048  # texts that are kept as they were laid out
_BOLD, _ITALIC, _SMALL = 1, 2, 4  # fonts


@dataclass(frozen=True, slots=True)
class Row:
    """What one row draws. Lengths are parts of the bar's column.

    `kept` is solid, `gained` goes on from it (the share that cut tokens left to this one), and
    `lost` is where the bar ended before.
    """

    bar: Bar
    text: str
    number: str
    tag: str  # the stage that cut the token, or ""
    kept: float
    gained: float
    lost: float


def rows_of(picture: Picture) -> tuple[Row, ...]:
    """The rows of a picture. The longest bar fills the column; the numbers say how long it is."""
    bars = picture.bars[:COUNT]
    longest = max((max(bar.probability, bar.final) for bar in bars), default=0.0) or 1.0
    return tuple(
        Row(
            bar=bar,
            text=visible(bar.text),
            number=percent(bar.probability if bar.cut_by else bar.final),
            tag=cut_name(bar.cut_by) if bar.cut_by else "",
            kept=min(bar.probability, bar.final) / longest,
            gained=max(0.0, bar.final - bar.probability) / longest,
            lost=bar.probability / longest,
        )
        for bar in bars
    )


class BarRows(QWidget):
    """Draws the rows that it is given, always with room for all of them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows: tuple[Row, ...] = ()
        self._written: dict[tuple[str, int], QStaticText] = {}
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._measure()
        self.recolour(LIGHT)

    def show_rows(self, rows: tuple[Row, ...]) -> None:
        """Draw these from now on."""
        self.rows = rows
        self.update()

    def recolour(self, colours: Colours) -> None:
        """Draw in the theme's colours."""
        self._text, self._muted = QColor(colours.text), QColor(colours.muted)
        self._accent, self._pale = QColor(colours.accent), QColor(colours.groove)
        self._gain = QColor(colours.accent)
        self._gain.setAlphaF(0.5)
        stripes = QColor(colours.muted)
        stripes.setAlphaF(0.5)
        self._stripes = QBrush(stripes, Qt.BrushStyle.BDiagPattern)
        self._ground, self._panel = QColor(colours.hover), QColor(colours.panel)
        self.update()

    def sizeHint(self) -> QSize:
        """Room for all rows, so that nothing below moves when there are fewer."""
        return QSize(60 * UNIT, math.ceil(COUNT * self._height))

    def minimumSizeHint(self) -> QSize:
        """The same."""
        return self.sizeHint()

    def changeEvent(self, event: QEvent) -> None:
        """Another size of the text changes every measure."""
        if event.type() == QEvent.Type.FontChange:
            self._measure()
            self.updateGeometry()
        super().changeEvent(event)

    def resizeEvent(self, event: QEvent) -> None:
        """Another width shortens texts elsewhere."""
        self._written.clear()
        super().resizeEvent(event)

    def event(self, event: QEvent) -> bool:
        """Explain the row under the pointer."""
        if event.type() == QEvent.Type.ToolTip:
            self._explain(event)
            return True
        return super().event(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw all rows; their texts were measured before."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for place, row in enumerate(self.rows):
            self._paint(painter, row, QRectF(0, place * self._height, self.width(), self._height))

    def _paint(self, painter: QPainter, row: Row, whole: QRectF) -> None:
        if row.bar.drawn:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._ground)
            painter.drawRoundedRect(whole.adjusted(0, 1, 0, -1), UNIT, UNIT)
            painter.setBrush(self._accent)
            painter.drawEllipse(QPointF(2 * UNIT, whole.center().y()), 2.5, 2.5)
        control = is_control(row.bar.text)
        painter.setPen(self._muted if row.tag or control else self._text)
        text = self._text_column(whole)
        font = _BOLD * row.bar.drawn + _ITALIC * control
        self._write(painter, row.text, font, text)
        number = QRectF(whole)
        number.setLeft(whole.right() - self._number_width - UNIT)
        number.setRight(whole.right() - UNIT)
        painter.setPen(self._muted if row.tag else self._text)
        self._write(painter, row.number, _SMALL, number, right=True)
        bars = QRectF(whole)
        bars.setLeft(text.right() + 2 * UNIT)
        bars.setRight(number.left() - UNIT)
        self._paint_bar(painter, row, bars)

    def _write(
        self, painter: QPainter, text: str, font: int, place: QRectF, *, right: bool = False
    ) -> None:
        """One line, shortened to its place; what was written before is laid out already."""
        key = text, font
        written = self._written.get(key)
        if written is None:
            if len(self._written) >= _MOST_WRITTEN:
                self._written.clear()
            metrics = QFontMetricsF(self._fonts[font])
            short = metrics.elidedText(text, Qt.TextElideMode.ElideRight, place.width())
            written = self._written[key] = _laid_out(short, self._fonts[font])
        size = written.size()
        left = place.right() - size.width() if right else place.left()
        painter.setFont(self._fonts[font])
        painter.drawStaticText(QPointF(left, place.center().y() - size.height() / 2), written)

    def _paint_bar(self, painter: QPainter, row: Row, column: QRectF) -> None:
        thick = 2.0 * UNIT + 1
        top, width = column.center().y() - thick / 2, column.width()
        painter.setPen(Qt.PenStyle.NoPen)

        def piece(begin: float, length: float) -> QRectF:
            return QRectF(column.left() + begin * width, top, length * width, thick)

        least = 1.5 / width  # so that nothing that is there is invisible
        before = piece(0, max(row.lost, least))
        painter.setBrush(self._pale)
        painter.drawRoundedRect(before, 2, 2)
        if not row.tag:
            if row.gained * width >= 0.5:
                painter.setBrush(self._gain)
                painter.drawRoundedRect(piece(0, row.kept + row.gained), 2, 2)
            kept = piece(0, max(row.kept, least))
            painter.setBrush(self._accent)
            painter.drawRoundedRect(kept, 2, 2)
            return
        if before.width() >= 3 * UNIT:  # too few stripes look like a letter
            painter.setBrush(self._stripes)
            painter.drawRoundedRect(before, 2, 2)
        tag = QRectF(column)
        tag.setLeft(before.right() + UNIT + 2)
        needed = self._metrics.horizontalAdvance(row.tag)
        if tag.width() < needed:  # no room after the bar: over its end
            tag.setLeft(column.right() - needed)
            painter.fillRect(tag.adjusted(-UNIT, 2, 0, -2), self._panel)
        painter.setPen(self._muted)
        self._write(painter, row.tag, _SMALL, tag.adjusted(0, 0, 1, 0))

    def _text_column(self, whole: QRectF) -> QRectF:
        column = QRectF(whole)
        column.setLeft(4 * UNIT)
        column.setWidth(round(whole.width() * 0.33))
        return column

    def _measure(self) -> None:
        plain = scaled_font(self.font(), 0.95)
        bold = scaled_font(self.font(), 0.95, weight=QFont.Weight.DemiBold)
        slanted, both = QFont(plain), QFont(bold)
        slanted.setItalic(True)
        both.setItalic(True)
        small = scaled_font(self.font(), 0.85)
        self._fonts = {0: plain, _BOLD: bold, _ITALIC: slanted, _BOLD + _ITALIC: both}
        self._fonts[_SMALL] = small
        self._metrics = QFontMetricsF(small)
        self._number_width = self._metrics.horizontalAdvance("<00.0 %")
        self._height = max(5.0 * UNIT, math.ceil(QFontMetricsF(plain).height()) + UNIT)
        self._written.clear()

    def _explain(self, event: QHelpEvent) -> None:
        place = int(event.pos().y() // self._height)
        if not 0 <= place < len(self.rows):
            QToolTip.hideText()
            return
        # As escaped HTML: Qt would take a token such as <b> for a command.
        words = "<br>".join(html.escape(line) for line in self.explanation(self.rows[place]))
        QToolTip.showText(event.globalPos(), f"<p style='white-space:pre'>{words}</p>", self)

    def explanation(self, row: Row) -> list[str]:
        """All that is known of one row, in lines."""
        bar = row.bar
        lines = [
            self.tr("“%1”, token %2").replace("%2", str(bar.id)).replace("%1", row.text),
            self.tr("Before the cuts: %1").replace("%1", percent(bar.probability)),
            self.tr("In the end: %1").replace("%1", percent(bar.final)),
        ]
        if bar.cut_by:
            lines.append(self.tr("Left out by %1").replace("%1", row.tag))
        if bar.drawn:
            lines.append(self.tr("This is the token that came."))
        if "▯" in row.text:
            lines.append(self.tr("▯ is a part of a character."))
        return lines


def _laid_out(text: str, font: QFont) -> QStaticText:
    result = QStaticText(text)
    result.setTextFormat(Qt.TextFormat.PlainText)
    # From left to right whatever the script, or a word in Arabic would leave its column.
    option = QTextOption()
    option.setTextDirection(Qt.LayoutDirection.LeftToRight)
    option.setWrapMode(QTextOption.WrapMode.NoWrap)
    result.setTextOption(option)
    result.prepare(font=font)
    return result
