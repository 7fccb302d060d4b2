"""Where the question is typed: grows with its text, and Enter sends it."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

import math

from PySide6.QtCore import QMimeData, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QFocusEvent, QInputMethodEvent, QKeyEvent, QResizeEvent, QTextCursor
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.ui.icons import icon
from app.ui.states import ChatState
from app.ui.text_view import wrap_mode
from app.ui.theme import TEXT_SCALE, UNIT, Colours, scaled_font
from app.ui.wording import whole

MAX_CHARACTERS = 100_000  # some times what the model can read; more would make typing slow


class Composer(QFrame):
    """The text field with its one button, which sends or, while a turn is under way, stops."""

    submitted = Signal(str)
    stop_requested = Signal()
    refused = Signal(str)  # one plain sentence: why a text was not taken
    draft_changed = Signal(str)
    count_requested = Signal(str)  # once typing rests
    edit_last_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("composer")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.text = _Field(self)
        self.text.setPlaceholderText(self.tr("Write a message"))
        self.text.setAccessibleName(self.tr("Message"))
        self.text.setAccessibleDescription(self.tr("Enter sends, Shift+Enter starts a new line"))
        self.button = QPushButton()
        self.button.setProperty("role", "primary")
        self.button.clicked.connect(self._on_pressed)
        self.editing = _EditingBar()
        self.editing.left.connect(self.stop_requested)
        row = QHBoxLayout()
        row.setSpacing(2 * UNIT)
        row.addWidget(self.text)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(self)
        column.setContentsMargins(3 * UNIT, 2 * UNIT, 2 * UNIT, 2 * UNIT)
        column.setSpacing(UNIT)
        column.addWidget(self.editing)
        column.addLayout(row)
        self._resting = QTimer(self, singleShot=True, interval=150)
        self._resting.timeout.connect(self._on_resting)
        self.text.sent.connect(self._submit)
        self.text.edit_last_requested.connect(self.edit_last_requested)
        self.text.refused.connect(self.refused)
        self.text.textChanged.connect(self._on_text_changed)
        self.text.focus_changed.connect(self._on_focus_changed)
        self.setFocusProxy(self.text)
        self._state = ChatState.READY
        self._colours: Colours | None = None
        self._show_state()

    @Slot(object)
    def set_state(self, state: ChatState) -> None:
        """Offer what can be done in that state: send or stop. Typing always can."""
        self._state = state
        self._show_state()

    @Slot(str)
    def show_text(self, text: str) -> None:
        """Show a draft, or a message to be edited, without announcing it as typed."""
        self.text.blockSignals(True)
        self.text.setWordWrapMode(wrap_mode(text))
        self.text.setPlainText(text[:MAX_CHARACTERS])
        self.text.moveCursor(QTextCursor.MoveOperation.End)
        self.text.blockSignals(False)
        self.text.fit()
        self._show_state()
        self._resting.start()

    @Slot(bool)
    def set_editing(self, editing: bool) -> None:
        """Say that what is sent takes the place of a message that was sent before."""
        self.editing.setVisible(editing)
        self._show_state()
        if editing:
            self.text.setFocus()

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw the icons anew in the theme's colours."""
        self._colours = colours
        self.editing.recolour(colours)
        self._show_state()

    def set_greatest_height(self, height: int) -> None:
        """How tall the field may grow, in px."""
        self.text.greatest_height = height
        self.text.fit()

    @Slot()
    def _on_text_changed(self) -> None:
        self._show_state()
        self._resting.start()
        self.draft_changed.emit(self.text.toPlainText())

    @Slot()
    def _on_resting(self) -> None:
        self.count_requested.emit(_whole_characters(self.text.toPlainText()))

    def _on_pressed(self) -> None:
        if self._state.busy:
            self.stop_requested.emit()
        else:
            self._submit()
        self.text.setFocus()

    def _submit(self) -> None:
        text = self.text.toPlainText()
        if not text.strip():
            return
        if self._state.busy:
            self.refused.emit(self.tr("Wait for the reply to end, or stop it with Esc."))
            return
        self.show_text("")
        self.submitted.emit(_whole_characters(text))

    def _on_focus_changed(self, focused: bool) -> None:
        self.setProperty("focused", focused)
        self.style().unpolish(self)
        self.style().polish(self)

    def _show_state(self) -> None:
        busy = self._state.busy
        self.button.setText(self.tr("Stop") if busy else self.tr("Send"))
        self.button.setToolTip(self.tr("Stop (Esc)") if busy else self.tr("Send (Enter)"))
        stopping = self._state is ChatState.STOPPING
        empty = self.text.document().isEmpty() or self.text.is_blank()
        self.button.setEnabled(not stopping if busy else not empty)
        if self._colours is not None:
            colour = self._colours.on_accent if self.button.isEnabled() else self._colours.muted
            self.button.setIcon(icon("stop" if busy else "send", colour))


class _EditingBar(QWidget):
    """Says that a message is being edited, and lets one leave it as it was."""

    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        words = QLabel(self.tr("Editing: sending it makes a new version of your message."))
        words.setProperty("role", "muted")
        words.setFont(scaled_font(self.font(), 0.9))
        self.leave = QToolButton()
        self.leave.setAccessibleName(self.tr("Leave the message as it is"))
        self.leave.setToolTip(self.tr("Leave the message as it is (Esc)"))
        self.leave.clicked.connect(self.left)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(words, 1)
        row.addWidget(self.leave)
        self.hide()

    def recolour(self, colours: Colours) -> None:
        self.leave.setIcon(icon("close", colours.muted))


class _Field(QPlainTextEdit):
    """Plain text; knows Enter from an Enter that only confirms an input method's word."""

    sent = Signal()
    refused = Signal(str)
    focus_changed = Signal(bool)
    edit_last_requested = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("composerText")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFont(scaled_font(self.font(), TEXT_SCALE))
        self.setTabChangesFocus(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(wrap_mode(""))
        self.viewport().setAutoFillBackground(False)
        self.greatest_height = 200
        self._composing = False
        self.document().documentLayout().documentSizeChanged.connect(self.fit)
        self.fit()

    def is_blank(self) -> bool:
        """Whether there is nothing to send; looks no further than it must."""
        block = self.document().firstBlock()
        while block.isValid():
            if block.text().strip():
                return False
            block = block.next()
        return True

    def fit(self, *_: object) -> None:
        """Be as tall as the text, within what is allowed; scroll only beyond that."""
        wanted = self._text_height()
        policy = Qt.ScrollBarPolicy.ScrollBarAsNeeded
        if wanted <= self.greatest_height:
            policy = Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.setVerticalScrollBarPolicy(policy)
        height = min(wanted, max(self.greatest_height, self.fontMetrics().lineSpacing() * 3))
        if height != self.height():
            self.setFixedHeight(height)
        if wanted <= self.greatest_height:
            # Qt scrolled to the cursor while the field was still too small for its text.
            self.verticalScrollBar().setValue(0)

    def _text_height(self) -> int:
        """What all lines take, in px; a lower bound once that is more than is allowed."""
        document = self.document()
        lines = max(1.0, document.documentLayout().documentSize().height())
        least = round(lines * self.fontMetrics().lineSpacing() + 2 * document.documentMargin())
        if least > self.greatest_height:
            return least
        # Lines are taller than the font says, more so with emoji. Qt adds the lower margin to the
        # last block and scrolls unless one pixel is left over.
        height = document.documentMargin() + 1
        block = document.firstBlock()
        while block.isValid():
            height += self.blockBoundingRect(block).height()
            block = block.next()
        return max(least, math.ceil(height))

    def sizeHint(self) -> QSize:
        """Its own height, any width."""
        return QSize(super().sizeHint().width(), self.height())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter sends; Shift+Enter and Enter within a composition do not."""
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            if not self._composing and not event.isAutoRepeat():
                self.sent.emit()
            return
        plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if event.key() == Qt.Key.Key_Up and plain and self.document().isEmpty():
            self.edit_last_requested.emit()
            return
        super().keyPressEvent(event)

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        """Keep in mind whether a composition is open."""
        self._composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Say so: the frame around the field shows it."""
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Say so; a composition that was open has ended."""
        self._composing = False
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Take plain text only, and not more than typing stays quick with."""
        text = source.text()
        if not text:
            return
        cursor = self.textCursor()
        replaced = cursor.selectionEnd() - cursor.selectionStart()
        length = len(text) + self.document().characterCount() - 1 - replaced
        if length > MAX_CHARACTERS:
            self.refused.emit(
                self.tr(
                    "The message would have %1 characters, more than the model can read. "
                    "Paste a shorter part of that text."
                ).replace("%1", whole(length))
            )
            return
        # Before the text comes in, not after: laying it out once the slow way is what costs.
        self.setWordWrapMode(wrap_mode(text + self.toPlainText()))
        self.textCursor().insertText(text)
        self.ensureCursorVisible()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A new width breaks lines elsewhere."""
        super().resizeEvent(event)
        self.fit()


def _whole_characters(text: str) -> str:
    """`text` without halves of characters, which some keyboards and clipboards leave behind."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
