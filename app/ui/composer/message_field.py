"""The field of the composer: plain text that is sent with Enter."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

import math

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QResizeEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QWidget

from app.ui.controls.text_view import wrap_mode
from app.ui.theme import TEXT_SCALE, scaled_font
from app.ui.wording import whole

MAX_CHARACTERS = 100_000  # some times what the model can read; more would make typing slow
_SURELY_TALL = 20_000  # characters that take more room than the field may ever have


class MessageField(QPlainTextEdit):
    """As tall as its text; knows Enter from an Enter that only confirms an input method's word."""

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
        self._filling = False
        self.document().documentLayout().documentSizeChanged.connect(self.fit)
        self.fit()

    def is_blank(self) -> bool:
        """Whether there is nothing to send."""
        return not self.toPlainText().strip()

    @property
    def composing(self) -> bool:
        """Whether an input method's word is still open, wherever the focus went meanwhile."""
        return bool(self.textCursor().block().layout().preeditAreaText())

    def fit(self, *_: object) -> None:
        """Be as tall as the text, within what is allowed; scroll only beyond that."""
        if self._filling:
            return
        wanted = self._text_height()
        self._show_bar(wanted > self.greatest_height)
        height = min(wanted, max(self.greatest_height, self.fontMetrics().lineSpacing() * 2))
        if height != self.height():
            self.setFixedHeight(height)
        if wanted <= self.greatest_height:
            # Qt scrolled to the cursor while the field was still too small for its text.
            self.verticalScrollBar().setValue(0)

    def fill(self, text: str, *, in_place_of_all: bool) -> None:
        """Put that text in, in place of the selection or of everything; it is laid out once."""
        meant = text if in_place_of_all else text + self.toPlainText()
        self._filling = True
        try:
            self.setWordWrapMode(wrap_mode(meant))
            if len(text) > _SURELY_TALL or text.count("\n") > self.greatest_height:
                self._show_bar(True)
            if in_place_of_all:
                self.setPlainText(text)
                self.moveCursor(QTextCursor.MoveOperation.End)
            else:
                cursor = self.textCursor()
                cursor.beginEditBlock()  # to be undone apart from what was typed before
                cursor.insertText(text)
                cursor.endEditBlock()
        finally:
            self._filling = False
        self.fit()
        self.ensureCursorVisible()

    def _show_bar(self, shown: bool) -> None:
        policies = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policies.ScrollBarAlwaysOn if shown else policies.ScrollBarAlwaysOff
        )

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
        if self.composing and (enter or event.key() == Qt.Key.Key_Up):
            return  # meant for the input method
        if enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            if not event.isAutoRepeat():
                self.sent.emit()
            return
        plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if event.key() == Qt.Key.Key_Up and plain and self.document().isEmpty():
            self.edit_last_requested.emit()
            return
        super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Say so: the frame around the field shows it."""
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Say so."""
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
        self.fill(text, in_place_of_all=False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A new width breaks lines elsewhere."""
        super().resizeEvent(event)
        self.fit()

    def changeEvent(self, event: QEvent) -> None:
        """Another size of text makes other lines."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "greatest_height"):
            self.fit()
