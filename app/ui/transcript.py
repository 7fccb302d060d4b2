"""The conversation on screen: follows a growing reply only while its end is in view."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QPoint, Qt, Signal, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.ui.icons import icon
from app.ui.message_view import TurnView
from app.ui.states import ReplyGrowth, Turn
from app.ui.theme import COLUMN_WIDTH, UNIT, Colours
from app.ui.welcome import Welcome

_NEAR_THE_END = 8  # px


class Transcript(QScrollArea):
    """A column of TurnViews; with none, a word of welcome."""

    example_chosen = Signal(str)
    retry_requested = Signal(int)
    edit_requested = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("transcript")
        self.setAccessibleName(self.tr("Conversation"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._views: dict[int, TurnView] = {}
        self._following = True
        self.welcome = Welcome()
        self.welcome.example_chosen.connect(self.example_chosen)
        self._column = QWidget()
        self._column.setMaximumWidth(COLUMN_WIDTH)
        self._turns = QVBoxLayout(self._column)
        self._turns.setContentsMargins(0, 6 * UNIT, 0, 6 * UNIT)
        self._turns.setSpacing(8 * UNIT)
        self._turns.addWidget(self.welcome, 1)
        self._turns.addStretch()
        page = QWidget(objectName="transcriptPage")
        row = QHBoxLayout(page)
        row.setContentsMargins(6 * UNIT, 0, 6 * UNIT, 0)
        row.addStretch(1)
        row.addWidget(self._column, 1000)
        row.addStretch(1)
        self.setWidget(page)
        self.viewport().setAutoFillBackground(False)
        self.jump = QToolButton(self, objectName="jumpToLatest")
        self.jump.setText(self.tr("Jump to latest"))
        self.jump.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.jump.clicked.connect(self.jump_to_latest)
        self.jump.hide()
        bar = self.verticalScrollBar()
        bar.rangeChanged.connect(self._on_range_changed)
        bar.valueChanged.connect(self._on_scrolled)

    def turn_view(self, turn_id: int) -> TurnView | None:
        """The view of that turn, if it is on screen."""
        return self._views.get(turn_id)

    @Slot(object)
    def show_turns(self, turns: list[Turn]) -> None:
        """Show another conversation."""
        for turn_id in list(self._views):
            self.withdraw(turn_id)
        for turn in turns:
            self._add(turn)
        self.jump_to_latest()

    @Slot(object)
    def begin_turn(self, turn: Turn) -> None:
        """Show a question; sending one brings its end into view."""
        self._add(turn)
        self.jump_to_latest()

    @Slot(object)
    def append_reply(self, growth: ReplyGrowth) -> None:
        """Add to a reply what came within one frame."""
        view = self._views.get(growth.turn)
        if view is not None:
            view.append_reply(growth.text)

    @Slot(object)
    def end_turn(self, turn: Turn) -> None:
        """Show how a turn ended and say so to a screen reader."""
        view = self._views.get(turn.id)
        if view is None:
            return
        view.end(turn)
        words = turn.reply_text or (turn.failure.what if turn.failure else view.footer.text())
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, words))

    @Slot(int)
    def withdraw(self, turn_id: int) -> None:
        """Take a turn off the screen."""
        view = self._views.pop(turn_id, None)
        if view is not None:
            self._turns.removeWidget(view)
            view.hide()
            view.deleteLater()
        self.welcome.setVisible(not self._views)

    @Slot()
    def jump_to_latest(self) -> None:
        """Show the end of the conversation and follow it again."""
        self._following = True
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum() if self._views else bar.minimum())  # a greeting: from its top
        self._place_jump()

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw the icons anew in the theme's colours."""
        self.jump.setIcon(icon("down", colours.text))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Questions are as wide as their text, within the column's width."""
        super().resizeEvent(event)
        for view in self._views.values():
            view.fit_question(self._width())
        self._place_jump()

    def _add(self, turn: Turn) -> None:
        view = TurnView(turn)
        view.fit_question(self._width())
        view.dragged.connect(self._on_dragged)
        view.retry_requested.connect(self.retry_requested)
        view.edit_requested.connect(self.edit_requested)
        self._views[turn.id] = view
        self.welcome.hide()
        self._turns.insertWidget(self._turns.count() - 1, view)

    def _width(self) -> int:
        return min(COLUMN_WIDTH, self.viewport().width() - 12 * UNIT)

    @Slot(QWidget, QPoint)
    def _on_dragged(self, text: QWidget, position: QPoint) -> None:
        point = text.mapTo(self.widget(), position)
        self.ensureVisible(point.x(), point.y(), 0, 2 * UNIT)

    @Slot(int, int)
    def _on_range_changed(self, _low: int, high: int) -> None:
        if self._following and self._views:
            self.verticalScrollBar().setValue(high)
        self._place_jump()

    @Slot(int)
    def _on_scrolled(self, value: int) -> None:
        near_the_end = value >= self.verticalScrollBar().maximum() - _NEAR_THE_END
        self._following = near_the_end or not self._views
        self._place_jump()

    def _place_jump(self) -> None:
        self.jump.setVisible(not self._following)
        if not self._following:
            self.jump.adjustSize()
            place = self.viewport().geometry()
            x = place.center().x() - self.jump.width() // 2
            self.jump.move(x, place.bottom() - self.jump.height() - 2 * UNIT)
            self.jump.raise_()
