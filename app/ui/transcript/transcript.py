"""The conversation on screen: as many messages as there are, as few widgets as are in view.

Invariant: what the reader looks at never moves by itself. The view follows a growing reply only
while its end is in view; else the first message in sight stays where it is, whatever is learnt of
the heights of others. Heights are estimated until a message comes near the view.
"""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from dataclasses import replace

from PySide6.QtCore import QPoint, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QFocusEvent,
    QKeyEvent,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QToolButton, QWidget

from app.ui.icons import icon
from app.ui.states import ReplyGrowth, ShownMessage
from app.ui.theme import COLUMN_WIDTH, UNIT, Colours
from app.ui.transcript.column import Column
from app.ui.transcript.message_actions import ICON_NAMES, Icons
from app.ui.transcript.message_focus import MessageFocus
from app.ui.transcript.message_view import MessageView, QuestionView, ReplyView
from app.ui.transcript.welcome import Welcome

_ASIDE = 6 * UNIT
_PASSES = 8  # a message that comes into view may bring others into it


class Transcript(QAbstractScrollArea):
    """A column of messages; with none, a word of welcome."""

    example_chosen = Signal(str)
    regenerate_requested = Signal(int)
    continue_requested = Signal(int)
    edit_requested = Signal(int)
    branch_requested = Signal(int)
    delete_requested = Signal(int)
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
        self._column = Column()
        self._views: dict[int, MessageView] = {}
        self._icons: Icons = {}
        self._unordered = False  # there are new views
        self._marked = ""  # words that are marked wherever they are
        self._width = 0
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
        self._messages = []
        self._column.show([], [])
        self.show_messages(messages)
        self.jump_to_latest()

    @Slot(object)
    def show_messages(self, messages: list[ShownMessage]) -> None:
        """Show this state of the conversation; what is the same stays as it is."""
        column = self._column
        held = self._focus.held(self._views)
        held_place = column.place(held[0]) if held is not None else 0
        grown = len(messages) > len(self._messages)
        known = dict(zip(column.ids, column.heights, strict=True))
        self._messages = list(messages)
        heights = [known.get(m.id) or self._estimate(m) for m in messages]
        column.show([m.id for m in messages], heights)
        for message_id, view in list(self._views.items()):
            if message_id not in column:
                self._drop(message_id)
            elif view.message != (message := messages[column.place(message_id)]):
                view.show_message(message)
        if grown:
            column.following = True  # what was just sent is to be seen
        self._arrange()
        if held is not None and held[0] not in self._views and held_place < len(messages):
            # Another version took its place: the keyboard is in that one now.
            self._focus.hold(self._views.get(messages[held_place].id), held[1])

    @Slot(object)
    def append_reply(self, growth: ReplyGrowth) -> None:
        """Add to a reply what came within one frame."""
        if growth.message_id not in self._column or not growth.text:
            return
        place = self._column.place(growth.message_id)
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
        self._column.following = True
        self._arrange()
        if not self._messages:
            self.verticalScrollBar().setValue(0)  # a greeting begins at its top

    def mark(self, wanted: str) -> None:
        """Mark these words in all messages; "" marks nothing."""
        self._marked = wanted
        for view in self._views.values():
            view.text.mark(wanted)

    def show_hit(self, message_id: int, number: int) -> None:
        """Bring the marked words of that number in a message into sight; they stand out."""
        column, room = self._column, self.viewport().height()
        if message_id not in column:
            return
        top = column.top(column.place(message_id))
        column.scroll_to(max(0, top - _ASIDE), room)
        self._arrange()
        for other in self._views.values():
            place = other.text.mark(
                self._marked, current=number if other.message.id == message_id else None
            )
            if place is not None:
                y = other.text.mapTo(self.viewport(), place.center()).y()
                if not _ASIDE <= y <= room - _ASIDE:
                    bar = self.verticalScrollBar()
                    bar.setValue(bar.value() + y - room // 3)

    def reveal(self, message_id: int) -> None:
        """Bring a message into sight, and put the keyboard there."""
        column, room = self._column, self.viewport().height()
        if message_id not in column:
            return
        column.scroll_to(max(0, column.top(column.place(message_id)) - _ASIDE), room)
        self._arrange()
        view = self._views.get(message_id)
        if view is not None:
            view.text.setFocus(Qt.FocusReason.TabFocusReason)

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

    @Slot()
    def _arrange(self) -> None:
        """Learn the heights of what is in sight, and put everything in its place."""
        if self._placing:
            return
        self._placing = True
        try:
            if self._messages:
                self._focus.leave(self.welcome)
                self.welcome.hide()
                self._arrange_messages()
            else:
                self.welcome.show()
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
        column = self._column
        if width != self._width:
            self._width = width
            column.show(column.ids, [self._estimate(message) for message in self._messages])
        for _ in range(_PASSES):
            offset = column.offset(room)
            near = column.near(offset, room)
            learnt = [column.learn(place, self._view_at(place).fit(width)) for place in near]
            if not any(learnt):
                break
        self._set_bar(column.height)
        self.verticalScrollBar().setValue(offset)
        left = (self.viewport().width() - width) // 2
        for message_id, view in list(self._views.items()):
            place = column.place(message_id)
            if place not in near and not view.in_use:
                self._drop(message_id)
                continue
            view.setGeometry(left, column.top(place) - offset, width, column.heights[place])
            view.show()
        if self._unordered:
            self._unordered = False
            views = sorted(self._views.values(), key=lambda view: column.place(view.message.id))
            self._focus.set_order(views, after=self.jump)

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
            view.edit_requested.connect(self.edit_requested)
            view.question_edit_requested.connect(self._on_question_edit_requested)
            view.branch_requested.connect(self.branch_requested)
            view.delete_requested.connect(self.delete_requested)
            view.version_requested.connect(self.version_requested)
            self._views[message.id] = view
            self._unordered = True
            if self._marked:
                view.text.mark(self._marked)
        return self._views[message.id]

    def _drop(self, message_id: int) -> None:
        view = self._views.pop(message_id)
        self._focus.leave(view)
        view.hide()
        view.deleteLater()

    def _set_bar(self, height: int) -> None:
        bar, room = self.verticalScrollBar(), self.viewport().height()
        bar.setRange(0, max(0, height - room))
        bar.setPageStep(room)
        bar.setSingleStep(10 * UNIT)

    @Slot(int)
    def _on_question_edit_requested(self, message_id: int) -> None:
        """A reply that failed asks for its question to be edited."""
        place = self._column.place(message_id)
        if place > 0:
            self.edit_requested.emit(self._messages[place - 1].id)

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
            self._column.scroll_to(value, self.viewport().height())
        self._arrange()

    def _place_jump(self) -> None:
        away = bool(self._messages) and not self._column.following
        if not away:
            self._focus.leave(self.jump)
        self.jump.setVisible(away)
        if away:
            self.jump.adjustSize()
            place = self.viewport().geometry()
            x = place.center().x() - self.jump.width() // 2
            self.jump.move(x, place.bottom() - self.jump.height() - 2 * UNIT)
            self.jump.raise_()
