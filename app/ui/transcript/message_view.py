"""One message on screen: a question in its bubble, or a reply with how it went."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QFrame, QLabel, QMenu, QWidget

from app.ui.controls.text_view import TextView
from app.ui.states import ReplyStatus, ShownMessage
from app.ui.theme import LINE_HEIGHT, TEXT_SCALE, UNIT, scaled_font
from app.ui.transcript.failure_box import FailureBox
from app.ui.transcript.markdown_view import MarkdownView
from app.ui.transcript.memory_line import MemoryLine
from app.ui.transcript.message_actions import Icons, MessageActions
from app.ui.wording import cost_explained, cost_of_reply, end_of_reply

_LONG = 6_000  # characters; of a longer question only the beginning is shown at first
_BEGINNING = 2_000

_GOES_ON_AFTER = ("stopped", "length", "loop", "context_full", "error")


class MessageView(QWidget):
    """What questions and replies have in common. `fit` lays it out; nothing else does."""

    resized = Signal()  # its height may be another
    dragged = Signal(QWidget, QPoint)
    regenerate_requested = Signal(int)
    continue_requested = Signal(int)
    edit_requested = Signal(int)
    question_edit_requested = Signal(int)  # by a reply that failed
    branch_requested = Signal(int)
    delete_requested = Signal(int)
    version_requested = Signal(int, int)

    text: TextView
    actions: MessageActions
    ring_radius = 2 * UNIT

    def __init__(self, message: ShownMessage, parent: QWidget) -> None:
        super().__init__(parent)
        self.message = message
        self.memory_line: MemoryLine | None = None
        self.menu: QMenu | None = None  # the last one that was opened

    @property
    def in_use(self) -> bool:
        """Whether the user holds on to it: something is selected, or the keyboard is in it."""
        focus = QApplication.focusWidget()
        return self.text.textCursor().hasSelection() or (
            focus is not None and self.isAncestorOf(focus)
        )

    def show_message(self, message: ShownMessage) -> None:
        """Show a newer state of the same message."""
        self.message = message
        self.actions.show_version(message.version, message.versions)
        if message.memory_begins and self.memory_line is None:
            self.memory_line = MemoryLine(self)
            self.resized.emit()
        elif not message.memory_begins and self.memory_line is not None:
            self.memory_line.deleteLater()
            self.memory_line = None
            self.resized.emit()

    def fit(self, width: int) -> int:
        """Lay out for that width, in px; returns the height."""
        top = 0
        if self.memory_line is not None:
            top = self.memory_line.sizeHint().height()
            self.memory_line.setGeometry(0, 0, width, top)
            self.memory_line.show()
        return self._lay_out(width, top)

    def _lay_out(self, width: int, top: int) -> int:
        """Lay out what is below `top`; returns where it ends."""
        raise NotImplementedError

    def tab_stops(self) -> list[QWidget]:
        """Where Tab leads in it, one after the other."""
        return [self.text, *self.actions.buttons()]

    def ring(self) -> QRect:
        """What a ring that shows the focus goes around; it may reach beyond the view."""
        return self.text.geometry().adjusted(-2 * UNIT, -UNIT, 2 * UNIT, UNIT)

    def recolour(self, icons: Icons) -> None:
        """Show the theme's icons."""
        self.actions.recolour(icons)

    def rescale(self) -> None:
        """Take the size of text that is in use now."""
        self.text.setFont(scaled_font(QApplication.font(), TEXT_SCALE))
        if self.memory_line is not None:
            self.memory_line.rescale()

    def changeEvent(self, event: QEvent) -> None:
        """Another size of text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "actions"):
            self.rescale()
            self.resized.emit()

    def _set_up(self) -> None:
        self.more = self.actions.add("more", self.tr("More for this message"), self._open_menu)
        self.text.dragged.connect(lambda place: self.dragged.emit(self.text, place))
        self.actions.step_requested.connect(
            lambda step: self.version_requested.emit(self.message.id, step)
        )
        self.rescale()

    def _open_menu(self) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._fill_menu(menu)
        self.menu = menu
        menu.popup(self.more.mapToGlobal(self.more.rect().bottomLeft()))

    def _fill_menu(self, menu: QMenu) -> None:
        branch = menu.addAction(self.tr("New chat from here"))
        branch.triggered.connect(lambda: self.branch_requested.emit(self.message.id))
        delete = menu.addAction(self.tr("Delete, with what follows"))
        delete.triggered.connect(lambda: self.delete_requested.emit(self.message.id))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.message.text)


class QuestionView(MessageView):
    """What the user wrote, exactly as it was written; of a very long text its beginning at first.

    Laying out the longest that can be sent takes a tenth of a second.
    """

    ring_radius = 4 * UNIT  # as the bubble

    def __init__(self, message: ShownMessage, parent: QWidget) -> None:
        super().__init__(message, parent)
        self._bubble = QFrame(self, objectName="question")
        self.text = TextView(self.tr("Your message"), self._bubble)
        self._filled: str | None = None  # with this text, once the width is known
        self._unfolded = False
        self.actions = MessageActions(at_right=True, parent=self)
        self.unfold = self.actions.add("expand", self.tr("Show all of this message"), self._unfold)
        self.unfold.setText(self.tr("Show all"))
        self.unfold.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.actions.add(
            "edit", self.tr("Edit this message"), lambda: self.edit_requested.emit(self.message.id)
        )
        self.actions.add("copy", self.tr("Copy this message"), self._copy)
        self.setAccessibleName(self.tr("You"))
        self._set_up()
        self.show_message(message)

    def _lay_out(self, width: int, top: int) -> int:
        """The bubble is as wide as its text, at most most of the width, at the right."""
        aside = 4 * UNIT
        # A line's extra height is below its text; the smaller margin there evens it out.
        extra = round(self.text.fontMetrics().lineSpacing() * (LINE_HEIGHT - 100) / 100)
        above = max(3 * UNIT, extra)
        widest = max(int(width * 0.85) - 2 * aside, 15 * UNIT)
        long = len(self.message.text) > _LONG and not self._unfolded
        self.unfold.setVisible(long)
        shown = f"{self.message.text[:_BEGINNING].rstrip()} …" if long else self.message.text
        across = self.text.natural_width(shown, widest)
        if self._filled != shown:  # a long text takes long to lay out: only once
            self._filled = shown
            self.text.resize(across, 1)
            self.text.set_text(self._filled)
        down = self.text.height_for(across)
        self.text.move(aside, above)
        bubble = QSize(across + 2 * aside, down + above + above - extra)
        self._bubble.setGeometry(width - bubble.width(), top, bubble.width(), bubble.height())
        row = self.actions.height_for(width)
        self.actions.setGeometry(0, top + bubble.height() + UNIT, width, row)
        return top + bubble.height() + UNIT + row

    def _fill_menu(self, menu: QMenu) -> None:
        again = menu.addAction(self.tr("Write a reply to this"))
        again.triggered.connect(lambda: self.regenerate_requested.emit(self.message.id))
        super()._fill_menu(menu)

    def _unfold(self) -> None:
        self._unfolded = True
        self.text.setFocus()
        self.resized.emit()

    def ring(self) -> QRect:
        """Around the bubble."""
        return self._bubble.geometry().adjusted(-2, -2, 2, 2)


class ReplyView(MessageView):
    """What the model wrote, how that ended, and what can be done then."""

    def __init__(self, message: ShownMessage, parent: QWidget) -> None:
        super().__init__(message, parent)
        self.text = MarkdownView(self.tr("Reply"), self)
        self.text.set_text(message.text)
        self.text.grown.connect(self.resized)
        self.pending = QLabel(self)
        self.pending.setProperty("role", "muted")
        self.pending.setAccessibleName(self.tr("The reply is being prepared"))
        self.failure = FailureBox(self)
        self.failure.retry_requested.connect(
            lambda: self.regenerate_requested.emit(self.message.id)
        )
        self.failure.edit_requested.connect(
            lambda: self.question_edit_requested.emit(self.message.id)
        )
        self.actions = MessageActions(at_right=False, parent=self)
        self.regenerate = self.actions.add(
            "regenerate",
            self.tr("Write this reply anew (Ctrl+R)"),
            lambda: self.regenerate_requested.emit(self.message.id),
        )
        self.go_on = self.actions.add(
            "continue",
            self.tr("Continue this reply (Ctrl+Enter)"),
            lambda: self.continue_requested.emit(self.message.id),
        )
        self.copy = self.actions.add("copy", self.tr("Copy this reply"), self._copy)
        self.setAccessibleName(self.tr("Reply"))
        self._set_up()
        self.show_message(message)

    @property
    def running(self) -> bool:
        """Whether more text may come."""
        reply = self.message.reply
        return reply is not None and reply.status in (ReplyStatus.WAITING, ReplyStatus.STREAMING)

    def tab_stops(self) -> list[QWidget]:
        """With the buttons of a failure between the text and the actions."""
        text, *actions = super().tab_stops()
        failure = self.failure
        return [text, failure.retry, failure.edit, failure.copy, *actions]

    def _fill_menu(self, menu: QMenu) -> None:
        edit = menu.addAction(self.tr("Edit this reply"))
        edit.triggered.connect(lambda: self.edit_requested.emit(self.message.id))
        super()._fill_menu(menu)

    def append_text(self, text: str) -> None:
        """Add what the model has written."""
        self.text.append_text(text)

    def show_message(self, message: ShownMessage) -> None:
        """Show how the reply stands; its text is taken over only if it is not what came."""
        super().show_message(message)
        if message.text != self.text.source():
            self.text.set_text(message.text)
        reply = message.reply
        assert reply is not None, "a reply says how it stands"
        if not self.running:
            self.text.render_now()
        waiting = reply.status is ReplyStatus.WAITING
        self.pending.setText(self.tr("Waiting for its turn…") if waiting else "…")
        self.failure.show_failure(
            reply.failure if reply.status is ReplyStatus.FAILED else None, resend=not message.text
        )
        goes_on = (
            reply.status is ReplyStatus.INTERRUPTED
            or reply.edited
            or reply.reason in _GOES_ON_AFTER
        )
        self.go_on.setVisible(bool(message.text) and goes_on)
        self.copy.setVisible(bool(message.text))
        self.regenerate.setVisible(bool(message.text) or reply.status is not ReplyStatus.FAILED)
        words = [end_of_reply(reply), cost_of_reply(reply)]
        if not message.text.strip() and reply.status is not ReplyStatus.FAILED:
            words.insert(0, self.tr("The reply is empty."))
        self.actions.words.setText(" · ".join(part for part in words if part))
        self.actions.words.setToolTip(cost_explained(reply))
        self.resized.emit()

    def _lay_out(self, width: int, top: int) -> int:
        """One below the other: the text, what is pending, what went wrong, what can be done."""
        y = top
        for widget, shown, gap in (
            (self.text, not self.text.document().isEmpty(), 0),
            (self.pending, self.running and not self.message.text, 0),
            (self.failure, self.failure.wanted, 3 * UNIT),
            (self.actions, not self.running, 2 * UNIT),
        ):
            widget.setVisible(shown)
            if shown:
                y += gap if y > top else 0
                height = self._height_of(widget, width)
                widget.setGeometry(0, y, width, height)
                y += height
        return max(y, top + self.pending.sizeHint().height())

    def rescale(self) -> None:
        """Take the size of text that is in use now."""
        super().rescale()
        self.pending.setFont(scaled_font(QApplication.font(), TEXT_SCALE))
        self.actions.rescale()

    def _height_of(self, widget: QWidget, width: int) -> int:
        if widget is self.pending:
            return widget.sizeHint().height()
        return widget.height_for(width)
