"""Where the question is typed: grows with its text, and Enter sends it."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

import math

from PySide6.QtCore import QMimeData, QSize, Qt, Signal, Slot
from PySide6.QtGui import QFocusEvent, QInputMethodEvent, QKeyEvent, QResizeEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QPushButton, QSizePolicy, QWidget

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
        row = QHBoxLayout(self)
        row.setContentsMargins(3 * UNIT, 2 * UNIT, 2 * UNIT, 2 * UNIT)
        row.setSpacing(2 * UNIT)
        row.addWidget(self.text)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        self.text.sent.connect(self._submit)
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
    def put_back(self, text: str) -> None:
        """Return a text that could not be answered, before what was typed since."""
        typed = self.text.toPlainText()
        self.text.setPlainText(f"{text}\n\n{typed}" if typed.strip() else text)
        self.text.moveCursor(QTextCursor.MoveOperation.End)
        self.text.setFocus()

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw the icons anew in the theme's colours."""
        self._colours = colours
        self._show_state()

    def set_greatest_height(self, height: int) -> None:
        """How tall the field may grow, in px."""
        self.text.greatest_height = height
        self.text.fit()

    def _on_text_changed(self) -> None:
        self._show_state()

    def _on_pressed(self) -> None:
        if self._state.busy:
            self.stop_requested.emit()
        else:
            self._submit()
        self.text.setFocus()

    def _submit(self) -> None:
        text = self.text.toPlainText()
        if self._state.busy or not text.strip():
            return
        self.text.clear()
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


class _Field(QPlainTextEdit):
    """Plain text; knows Enter from an Enter that only confirms an input method's word."""

    sent = Signal()
    refused = Signal(str)
    focus_changed = Signal(bool)

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
