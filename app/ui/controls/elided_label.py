"""One line of words that gives way where there is not enough room."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLabel


class ElidedLabel(QLabel):
    """Ends in an ellipsis then; all of the text is in the tooltip, and for screen readers."""

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self.setTextFormat(Qt.TextFormat.PlainText)

    def minimumSizeHint(self) -> QSize:
        """It gives way."""
        return QSize(0, super().minimumSizeHint().height())

    def setText(self, text: str) -> None:
        """Show another text."""
        super().setText(text)
        self._explain()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """More or less of it is shown."""
        super().resizeEvent(event)
        self._explain()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """What there is room for."""
        place = self.contentsRect()
        shown = self.fontMetrics().elidedText(
            self.text(), Qt.TextElideMode.ElideRight, place.width()
        )
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, shown)

    def _explain(self) -> None:
        self.setToolTip(self.text() if self.width() < self.sizeHint().width() else "")
