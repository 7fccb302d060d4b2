"""The next token's chances as bars, drawn anew with every token and every move of a slider."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

import time

from PySide6.QtCore import QEvent, Qt, QTimer, Slot
from PySide6.QtGui import QFontMetrics, QPaintEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from app.ui.controls.panel_controls import heading, hint
from app.ui.panel.bar_rows import COUNT, BarRows, rows_of
from app.ui.panel.token_text import percent, visible
from app.ui.states import NextToken
from app.ui.theme import UNIT, Colours, scaled_font
from app.ui.wording import whole
from engine.events import Picture
from engine.options import SamplingOptions

_FRAME = 16  # ms
_SPOKEN = 500  # ms between two descriptions for screen readers
_WORTH_SAYING = 0.001  # of all chances


class NextTokenBars(QWidget):
    """Heading, bars and a line of words; computes once a frame at most, and only while seen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.picture: Picture | None = None
        self._next_token: NextToken | None = None
        self._options = SamplingOptions()
        self._stale = False
        self._last = 0.0
        self._frame = QTimer(self, singleShot=True, timerType=Qt.TimerType.PreciseTimer)
        self._frame.timeout.connect(self._refresh)
        self._speaking = QTimer(self, singleShot=True, interval=_SPOKEN)
        self._speaking.timeout.connect(self._describe)
        self.heading = heading(self.tr("Next token"))
        self.heading.setToolTip(
            self.tr(
                "A token is a word or a part of one. For each, the model gives a chance; the "
                "sliders decide which may come.\nPale: the chance before anything is left out. "
                "Coloured: the chance in the end. Striped: left out.\nThe dot marks the token that "
                "came. The longest bar fills the width."
            )
        )
        self.empty = hint(
            self.tr("Ask something: here you see what the model weighs for its next word.")
        )
        self.bars = BarRows()
        self.bars.setAccessibleName(self.tr("Chances of the next token"))
        self.line = hint()
        self.line.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        rows = QWidget()
        inside = QVBoxLayout(rows)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(UNIT)
        inside.addWidget(self.bars)
        inside.addWidget(self.line)
        self._either = QStackedWidget()  # as tall as the taller: nothing below ever moves
        self._either.addWidget(self.empty)
        self._either.addWidget(rows)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(UNIT)
        column.addWidget(self.heading)
        column.addWidget(self._either)
        self._keep_room()
        self._show_picture(None)

    def show_step(self, next_token: NextToken | None, options: SamplingOptions) -> None:
        """Show how this step looks under these options, with the next frame."""
        self._next_token, self._options = next_token, options
        if next_token is None:
            self._stale = False
            self._show_picture(None)
            return
        self._stale = True
        if self.isVisible():
            self._schedule()

    def set_asked(self, asked: bool) -> None:
        """Whether anything was asked in this chat: then there will soon be something to see."""
        self.empty.setText(
            self.tr("The chances are shown with the next reply, or once the model is at leisure.")
            if asked
            else self.tr("Ask something: here you see what the model weighs for its next word.")
        )

    def recolour(self, colours: Colours) -> None:
        """Draw in the theme's colours."""
        self.bars.recolour(colours)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Seen again after having been hidden or scrolled away: catch up."""
        if self._stale:
            self._schedule()
        super().paintEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        """Another size of the text."""
        if event.type() == QEvent.Type.FontChange:
            self._keep_room()
        super().changeEvent(event)

    def _schedule(self) -> None:
        if not self._frame.isActive():
            since = (time.monotonic() - self._last) * 1000
            self._frame.start(max(0, round(_FRAME - since)))

    @Slot()
    def _refresh(self) -> None:
        if not self._stale or self._next_token is None or self.visibleRegion().isEmpty():
            return
        self._stale = False
        self._last = time.monotonic()
        try:
            picture = self._next_token.picture(self._options, count=COUNT)
        except FloatingPointError:  # the model's numbers broke down; its reply says so
            picture = None
        self._show_picture(picture)

    def _show_picture(self, picture: Picture | None) -> None:
        self.picture = picture
        there = picture is not None and bool(picture.bars)
        self.bars.show_rows(rows_of(picture) if there else ())
        self._either.setCurrentIndex(1 if there else 0)
        self.line.setText(self._words(picture) if there else "")
        if not self._speaking.isActive():
            self._speaking.start()

    def _words(self, picture: Picture) -> str:
        if picture.kept == 1:
            words = self.tr("Only 1 token can come")
        else:
            words = self.tr("%1 tokens can come").replace("%1", whole(picture.kept))
        if picture.left_out >= _WORTH_SAYING:
            left_out = self.tr("%1 of the chances left out")
            words += ", " + left_out.replace("%1", percent(picture.left_out))
        if picture.unseen > _WORTH_SAYING:
            words += ", " + self.tr("%1 on tokens not shown").replace("%1", percent(picture.unseen))
        return words + "."

    @Slot()
    def _describe(self) -> None:
        if self.picture is None:
            self.bars.setAccessibleDescription("")
            return
        likeliest = [bar for bar in self.picture.bars if bar.cut_by is None][:3]
        words = [f"{visible(bar.text)} {percent(bar.final)}" for bar in likeliest]
        self.bars.setAccessibleDescription("; ".join([*words, self.line.text()]))

    def _keep_room(self) -> None:
        # Two lines from the start: nothing below it moves while a reply streams.
        self.line.setMinimumHeight(2 * QFontMetrics(scaled_font(self.font(), 0.9)).lineSpacing())
