"""One text that is shown, selected and copied, never typed; it is as tall as what it holds."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

import math
import re

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import (
    QFontMetricsF,
    QMouseEvent,
    QTextBlockFormat,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextEdit, QWidget

from app.ui.theme import LINE_HEIGHT

_WRAP_NICELY = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere
_WRAP_QUICKLY = QTextOption.WrapMode.WrapAnywhere
_LONG_RUN = 500  # characters
_UNBROKEN = re.compile(rf"\S{{{_LONG_RUN},}}")

# Not characters, but marks by which a QTextDocument keeps its own frames; and NUL.
_UNSHOWABLE = dict.fromkeys((0, 0xFDD0, 0xFDD1), "\N{REPLACEMENT CHARACTER}")


def wrap_mode(text: str) -> QTextOption.WrapMode:
    """How to break lines: Qt's search for a word's border takes quadratic time in a long run."""
    return _WRAP_QUICKLY if _UNBROKEN.search(text) else _WRAP_NICELY


class TextView(QTextEdit):
    """Plain text only. It grows by appending, which keeps what is selected selected."""

    dragged = Signal(QPoint)  # where the mouse pulls a selection, in this view's own coordinates

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("messageText")
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setReadOnly(True)
        self.setAcceptRichText(False)
        self.setUndoRedoEnabled(False)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setWordWrapMode(_WRAP_NICELY)
        self.document().setDocumentMargin(0)
        self.viewport().setAutoFillBackground(False)
        self._end_run = ""
        self._writer = QTextCursor(self.document())
        spacing = QTextBlockFormat()
        spacing.setLineHeight(
            LINE_HEIGHT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value
        )
        self._writer.setBlockFormat(spacing)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def append_text(self, text: str) -> None:
        """Add `text` at the end, as it is."""
        self._end_run += text
        if self.wordWrapMode() == _WRAP_NICELY and wrap_mode(self._end_run) != _WRAP_NICELY:
            self.setWordWrapMode(_WRAP_QUICKLY)
        self._end_run = self._end_run[-_LONG_RUN:]
        self._writer.movePosition(QTextCursor.MoveOperation.End)
        reader = self.textCursor()
        anchor, position = reader.anchor(), reader.position()
        self._writer.insertText(text.translate(_UNSHOWABLE))
        reader = self.textCursor()
        if (anchor, position) != (reader.anchor(), reader.position()):
            # A selection that reached the end would have grown with the text.
            reader.setPosition(anchor)
            reader.setPosition(position, QTextCursor.MoveMode.KeepAnchor)
            self.setTextCursor(reader)

    def text(self) -> str:
        """What is shown."""
        return self.toPlainText()

    def natural_width(self, text: str, limit: int) -> int:
        """The width in px at which `text` needs no wrapping, at most `limit`."""
        metrics = QFontMetricsF(self.font())
        widest = 0.0
        for line in text[:4000].splitlines():
            widest = max(widest, metrics.horizontalAdvance(line))
            if widest >= limit:
                return limit
        return min(limit, int(widest) + 4)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Let the transcript follow a selection that is pulled over its edge."""
        super().mouseMoveEvent(event)
        if event.buttons() & Qt.MouseButton.LeftButton:
            self.dragged.emit(event.position().toPoint())

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolling belongs to the transcript."""
        event.ignore()

    def _fit(self, *_: object) -> None:
        height = math.ceil(self.document().size().height())
        if height != self.height():
            self.setFixedHeight(height)
