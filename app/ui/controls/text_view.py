"""One text that is shown, selected and copied, never typed; its height follows from its width."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

import math

from PySide6.QtCore import QPoint, QRect, Qt, Signal
from PySide6.QtGui import (
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPalette,
    QTextBlockFormat,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QTextEdit, QWidget

from app.ui.finding import places
from app.ui.theme import LINE_HEIGHT

_WRAP_NICELY = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere
_WRAP_QUICKLY = QTextOption.WrapMode.WrapAnywhere
_LONG_RUN = 500  # characters

# Not characters, but marks by which a QTextDocument keeps its own frames; and NUL.
_UNSHOWABLE = dict.fromkeys((0, 0xFDD0, 0xFDD1), "\N{REPLACEMENT CHARACTER}") | {
    0x2029: "\N{LINE SEPARATOR}"
}

_SCROLLING = {
    Qt.Key.Key_Up,
    Qt.Key.Key_Down,
    Qt.Key.Key_PageUp,
    Qt.Key.Key_PageDown,
    Qt.Key.Key_Home,
    Qt.Key.Key_End,
    Qt.Key.Key_Space,
}


def wrap_mode(text: str) -> QTextOption.WrapMode:
    """How to break lines: Qt's search for a word's border takes quadratic time in a long run."""
    longest = max(map(len, text.split()), default=0)
    return _WRAP_QUICKLY if longest >= _LONG_RUN else _WRAP_NICELY


def showable(text: str) -> str:
    """`text` without what a QTextDocument takes for its own marks."""
    return text.translate(_UNSHOWABLE)


class TextView(QTextEdit):
    """Plain text only. Whoever owns it gives it a width and asks for its height."""

    dragged = Signal(QPoint)  # where the mouse pulls a selection, in this view's own coordinates

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("messageText")
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setReadOnly(True)
        self.setAcceptRichText(False)
        self.setUndoRedoEnabled(False)
        self.setTabChangesFocus(True)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(_WRAP_NICELY)
        self.document().setDocumentMargin(0)
        self.viewport().setAutoFillBackground(False)
        self._end_run = ""

    def set_text(self, text: str) -> None:
        """Show another text; laid out once, if the width is known by now."""
        self.setWordWrapMode(wrap_mode(text))
        self.document().clear()
        spacing = QTextBlockFormat()
        spacing.setLineHeight(
            LINE_HEIGHT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value
        )
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        cursor.setBlockFormat(spacing)  # before the text, or all of it is laid out anew
        cursor.insertText(showable(text))
        cursor.endEditBlock()

    def text(self) -> str:
        """What is shown."""
        return self.toPlainText()

    def mark(self, wanted: str, *, current: int | None = None) -> QRect | None:
        """Mark where these words are; where the one of that number is, in the view's own px."""
        marks = []
        text = self.toPlainText()
        found = places(text, wanted)
        shown = None if current is None else min(current, len(found) - 1)
        colours = self.palette()
        for number, (start, end) in enumerate(found):
            mark = QTextEdit.ExtraSelection()
            mark.cursor = self.textCursor()
            mark.cursor.setPosition(_units(text[:start]))
            mark.cursor.setPosition(_units(text[:end]), QTextCursor.MoveMode.KeepAnchor)
            strong = number == shown
            role = QPalette.ColorRole.Accent if strong else QPalette.ColorRole.Highlight
            mark.format.setBackground(colours.color(role))
            if strong:
                mark.format.setForeground(colours.color(QPalette.ColorRole.Base))
            marks.append(mark)
        self.setExtraSelections(marks)
        return self.cursorRect(marks[shown].cursor) if shown is not None and marks else None

    def height_for(self, width: int) -> int:
        """Take that width, in px; returns the height that shows all of the text."""
        self.document().setTextWidth(width)
        height = math.ceil(self.document().size().height())
        if (width, height) != (self.width(), self.height()):
            self.resize(width, height)
        return height

    def natural_width(self, text: str, limit: int) -> int:
        """The width in px at which `text` needs no wrapping, at most `limit`."""
        metrics = QFontMetricsF(self.font())
        widest = 0.0
        for line in text[:4000].splitlines():
            widest = max(widest, metrics.horizontalAdvance(line))
            if widest >= limit:
                return limit
        return min(limit, int(widest) + 4)

    def widen_wrapping(self, text: str) -> None:
        """Look at what is being added at the end: long runs are broken the quick way from now."""
        self._end_run += text
        if self.wordWrapMode() == _WRAP_NICELY and wrap_mode(self._end_run) != _WRAP_NICELY:
            self.setWordWrapMode(_WRAP_QUICKLY)
        self._end_run = self._end_run[-_LONG_RUN:]

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Keys that only scroll belong to the transcript; with Shift they select."""
        if event.key() in _SCROLLING and event.modifiers() in (
            Qt.KeyboardModifier.NoModifier,
            Qt.KeyboardModifier.KeypadModifier,
        ):
            event.ignore()
            return
        super().keyPressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Let the transcript follow a selection that is pulled over its edge."""
        super().mouseMoveEvent(event)
        if event.buttons() & Qt.MouseButton.LeftButton:
            self.dragged.emit(event.position().toPoint())

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolling belongs to the transcript."""
        event.ignore()


def _units(text: str) -> int:
    """How long it is for Qt."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
