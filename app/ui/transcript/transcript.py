"""The conversation on screen: as many messages as there are, as few widgets as are in view.

Invariant: what the reader looks at never moves by itself. The view follows a growing reply only
while its end is in view; else the first message in sight stays where it is, whatever is learnt of
the heights of others. Heights are estimated until a message comes near the view.
"""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate

from PySide6.QtCore import QPoint, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QFocusEvent,
    QKeyEvent,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QFrame, QToolButton, QWidget

from app.ui.icons import icon
from app.ui.states import ReplyGrowth, ShownMessage
from app.ui.theme import COLUMN_WIDTH, UNIT, Colours
from app.ui.transcript.message_actions import ICON_NAMES, Icons
from app.ui.transcript.message_focus import MessageFocus
from app.ui.transcript.message_view import MessageView, QuestionView, ReplyView
from app.ui.transcript.welcome import Welcome

_ABOVE = 6 * UNIT  # the first message, and below the last
_GAP = 5 * UNIT
_ASIDE = 6 * UNIT
_NEAR_THE_END = 8  # px
_PASSES = 8  # a message that comes into view may bring others into it


class Transcript(QAbstractScrollArea):
    """A column of messages; with none, a word of welcome."""

    example_chosen = Signal(str)
    regenerate_requested = Signal(int)
    continue_requested = Signal(int)
    edit_requested = Signal(int)
    version_requested = Signal(int, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("transcript")
        self.setAccessibleName(self.tr("Conversation"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setAutoFillBackground(False)
        self._messages: list[ShownMessage] = []
        self._places: dict[int, int] = {}  # by message id
        self._heights: list[int] = []
        self._views: dict[int, MessageView] = {}
        self._icons: Icons = {}
        self._unordered = False  # there are new views
        self._width = 0
        self._following = True
        self._anchor = (0, 0)  # the first message in sight, and how much of it is out of sight
        self._placing = False
        self._later = QTimer(self, singleShot=True, interval=0)
        self._later.timeout.connect(self._arrange)
        self.welcome = Welcome(self.viewport())
        self.welcome.example_chosen.connect(self.example_chosen)
        self.jump = QToolButton(self, objectName="jumpToLatest")
        self.jump.setText(self.tr("Jump to latest"))
        self.jump.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.jump.clicked.connect(self.jump_to_latest)
        self.jump.hide()
        self.verticalScrollBar().valueChanged.connect(self._on_scrolled)
        self._focus = MessageFocus(self)

    def view(self, message_id: int) -> MessageView | None:
        """The view of that message, if it is in sight or near."""
        return self._views.get(message_id)

    @property
    def messages(self) -> tuple[ShownMessage, ...]:
        """What is shown, oldest first."""
        return tuple(self._messages)

    @Slot(object)
    def show_conversation(self, messages: list[ShownMessage]) -> None:
        """Show another conversation, from its end."""
        for message_id in list(self._views):
            self._drop(message_id)
        self._messages, self._heights = [], []
        self.show_messages(messages)
        self.jump_to_latest()

    @Slot(object)
    def show_messages(self, messages: list[ShownMessage]) -> None:
        """Show this state of the conversation; what is the same stays as it is."""
        held = self._held()
        grown = len(messages) > len(self._messages)
        known = {m.id: h for m, h in zip(self._messages, self._heights, strict=True)}
        self._messages = list(messages)
        self._places = {message.id: place for place, message in enumerate(messages)}
        self._heights = [known.get(m.id) or self._estimate(m) for m in messages]
        for message_id, view in list(self._views.items()):
            place = self._places.get(message_id)
            if place is None:
                self._drop(message_id)
            elif view.message != messages[place]:
                view.show_message(messages[place])
        if grown:
            self._following = True  # what was just sent is to be seen
        self._arrange()
        if held is not None:
            self._hold(*held)

    @Slot(object)
    def append_reply(self, growth: ReplyGrowth) -> None:
        """Add to a reply what came within one frame."""
        place = self._places.get(growth.message_id)
        if place is None or not growth.text:
            return
        message = self._messages[place]
        message = replace(message, text=message.text + growth.text)
        self._messages[place] = message
        view = self._views.get(growth.message_id)
        if isinstance(view, ReplyView):
            view.message = message
            view.append_text(growth.text)

    @Slot(object)
    def announce(self, message: ShownMessage) -> None:
        """Say to a screen reader how a reply ended."""
        view = self._views.get(message.id)
        failure = message.reply.failure if message.reply else None
        words = message.text or (failure.what if failure else "")
        if not words and view is not None:
            words = view.actions.words.text()
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, words))

    @Slot()
    def jump_to_latest(self) -> None:
        """Show the end of the conversation and follow it again."""
        self._following = True
        self._anchor = (0, 0)
        self._arrange()
        if not self._messages:
            self.verticalScrollBar().setValue(0)  # a greeting begins at its top

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw the icons anew in the theme's colours."""
        self._icons = {name: icon(name, colours.muted) for name in ICON_NAMES}
        self.jump.setIcon(icon("down", colours.text))
        for view in self._views.values():
            view.recolour(self._icons)

    def minimumSizeHint(self) -> QSize:
        """It may be as small as the window wants."""
        return QSize(40 * UNIT, 20 * UNIT)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Show where the keyboard is."""
        super().paintEvent(event)
        self._focus.paint()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Lines break elsewhere; the first one in sight stays."""
        super().resizeEvent(event)
        self._arrange()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Home and End, too, go where people expect."""
        bar = self.verticalScrollBar()
        if event.key() == Qt.Key.Key_Home:
            bar.setValue(0)
        elif event.key() == Qt.Key.Key_End:
            self.jump_to_latest()
        elif event.key() == Qt.Key.Key_Space:
            back = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            bar.setValue(bar.value() + bar.pageStep() * (-1 if back else 1))
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show where the keyboard is to those who use it."""
        super().focusInEvent(event)
        tabbed = event.reason() in (
            Qt.FocusReason.TabFocusReason,
            Qt.FocusReason.BacktabFocusReason,
        )
        self._show_focus(tabbed)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """The keyboard went elsewhere."""
        super().focusOutEvent(event)
        self._show_focus(False)

    def _show_focus(self, shown: bool) -> None:
        if self.property("tabbed") != shown:
            self.setProperty("tabbed", shown)
            self.style().unpolish(self)
            self.style().polish(self)

    def _estimate(self, message: ShownMessage) -> int:
        """A height that is about right, without laying anything out."""
        line = self.fontMetrics().lineSpacing() * 1.6
        letters = max(20, self._column_width() // max(1, self.fontMetrics().averageCharWidth()))
        lines = len(message.text) // letters + message.text.count("\n") + 1
        return round(lines * line) + 12 * UNIT

    def _column_width(self) -> int:
        return max(20 * UNIT, min(COLUMN_WIDTH, self.viewport().width() - 2 * _ASIDE))

    def _tops(self) -> list[int]:
        """Where each message begins, and where the one after the last would, in px."""
        return list(accumulate(self._heights, lambda y, h: y + h + _GAP, initial=_ABOVE))

    @Slot()
    def _arrange(self) -> None:
        """Learn the heights of what is in sight, and put everything in its place."""
        if self._placing:
            return
        self._placing = True
        try:
            self._leave(self.welcome, when=bool(self._messages))
            self.welcome.setVisible(not self._messages)
            if self._messages:
                self._arrange_messages()
            else:
                self._arrange_welcome()
        finally:
            self._placing = False
        self._place_jump()

    def _arrange_welcome(self) -> None:
        width, room = self._column_width(), self.viewport().height()
        height = max(room, self.welcome.height_for(width))
        self._set_bar(height)
        left = (self.viewport().width() - width) // 2
        self.welcome.setGeometry(left, -self.verticalScrollBar().value(), width, height)

    def _arrange_messages(self) -> None:
        width, room = self._column_width(), self.viewport().height()
        if width != self._width:
            self._width = width
            self._heights = [self._estimate(message) for message in self._messages]
        for _ in range(_PASSES):
            tops = self._tops()
            offset = self._offset(tops, room)
            first = max(0, bisect_right(tops, offset - room // 2) - 1)
            last = min(len(self._messages), bisect_right(tops, offset + room + room // 2))
            learnt = False
            for place in range(first, last):
                height = self._view_at(place).fit(width)
                learnt = learnt or height != self._heights[place]
                self._heights[place] = height
            if not learnt:
                break
        self._set_bar(tops[-1] - _GAP + _ABOVE)
        self.verticalScrollBar().setValue(offset)
        left = (self.viewport().width() - width) // 2
        near = range(first, last)
        for message_id, view in list(self._views.items()):
            place = self._places[message_id]
            if place not in near and not view.in_use:
                self._drop(message_id)
                continue
            view.setGeometry(left, tops[place] - offset, width, self._heights[place])
            view.show()
        if self._unordered:
            self._unordered = False
            views = sorted(self._views.values(), key=lambda view: self._places[view.message.id])
            self._focus.set_order(views, after=self.jump)

    def _offset(self, tops: list[int], room: int) -> int:
        """What is above the view, in px."""
        greatest = max(0, tops[-1] - _GAP + _ABOVE - room)
        if self._following:
            return greatest
        message_id, hidden = self._anchor
        place = self._places.get(message_id, len(self._messages) - 1)
        return min(greatest, max(0, tops[place] + hidden))

    def _view_at(self, place: int) -> MessageView:
        message = self._messages[place]
        if message.id not in self._views:
            make = QuestionView if message.role == "user" else ReplyView
            view = make(message, self.viewport())
            if self._icons:
                view.recolour(self._icons)
            view.resized.connect(self._later.start)
            view.dragged.connect(self._on_dragged)
            view.regenerate_requested.connect(self.regenerate_requested)
            view.continue_requested.connect(self.continue_requested)
            view.edit_requested.connect(self._on_edit_requested)
            view.version_requested.connect(self.version_requested)
            self._views[message.id] = view
            self._unordered = True
        return self._views[message.id]

    def _drop(self, message_id: int) -> None:
        view = self._views.pop(message_id)
        self._leave(view)
        view.hide()
        view.deleteLater()

    def _leave(self, widget: QWidget, *, when: bool = True) -> None:
        """Before `widget` goes: the keyboard in it would go on to whatever Qt finds next."""
        focus = QApplication.focusWidget()
        if when and focus is not None and (widget is focus or widget.isAncestorOf(focus)):
            self.setFocus()

    def _held(self) -> tuple[int, int, str] | None:
        """The message that the keyboard is in, its place, and the button it is on, if any."""
        focus = QApplication.focusWidget()
        for message_id, view in self._views.items():
            if focus is not None and view.isAncestorOf(focus):
                return message_id, self._places[message_id], view.actions.holding(focus)
        return None

    def _hold(self, message_id: int, place: int, button: str) -> None:
        """Where another version took the message's place, the keyboard is in that one."""
        if message_id in self._views or place >= len(self._messages):
            return
        view = self._views.get(self._messages[place].id)
        if view is not None and not view.actions.focus(button) and view.text.isVisible():
            view.text.setFocus()

    def _set_bar(self, height: int) -> None:
        bar, room = self.verticalScrollBar(), self.viewport().height()
        bar.setRange(0, max(0, height - room))
        bar.setPageStep(room)
        bar.setSingleStep(10 * UNIT)

    @Slot(int)
    def _on_edit_requested(self, message_id: int) -> None:
        """A reply that failed asks for its question to be edited."""
        place = self._places.get(message_id, 0)
        if self._messages[place].role == "assistant" and place > 0:
            message_id = self._messages[place - 1].id
        self.edit_requested.emit(message_id)

    @Slot(QWidget, QPoint)
    def _on_dragged(self, text: QWidget, position: QPoint) -> None:
        y = text.mapTo(self.viewport(), position).y()
        beyond = min(0, y) + max(0, y - self.viewport().height())
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + beyond)

    @Slot(int)
    def _on_scrolled(self, value: int) -> None:
        if self._placing:
            return
        if self._messages:
            tops = self._tops()
            place = max(0, bisect_right(tops, value) - 1)
            place = min(place, len(self._messages) - 1)
            self._anchor = (self._messages[place].id, value - tops[place])
            self._following = value >= self.verticalScrollBar().maximum() - _NEAR_THE_END
        self._arrange()

    def _place_jump(self) -> None:
        away = bool(self._messages) and not self._following
        self._leave(self.jump, when=not away)
        self.jump.setVisible(away)
        if away:
            self.jump.adjustSize()
            place = self.viewport().geometry()
            x = place.center().x() - self.jump.width() // 2
            self.jump.move(x, place.bottom() - self.jump.height() - 2 * UNIT)
            self.jump.raise_()
