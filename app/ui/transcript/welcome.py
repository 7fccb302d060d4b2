"""What an empty conversation shows: what this is, and a few ways to begin."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from app.ui.icons import app_icon
from app.ui.theme import UNIT, scaled_font

_BESIDE_TEXT = 9 * UNIT  # in the button of an example


class Welcome(QWidget):
    """A greeting with examples to press."""

    example_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        picture = QLabel()
        picture.setPixmap(app_icon(14 * UNIT, max(2.0, self.devicePixelRatioF())))
        picture.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        greeting = QLabel(self.tr("What would you like to know?"))
        greeting.setFont(scaled_font(self.font(), 1.5, weight=QFont.Weight.DemiBold))
        promise = QLabel(
            self.tr("A small model on your own computer. Nothing you write leaves it.")
        )
        promise.setProperty("role", "muted")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2 * UNIT)
        column.addStretch(3)
        for label in (picture, greeting, promise):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            label.setWordWrap(label is not picture)
            column.addWidget(label)
            column.addSpacing(UNIT)
        column.addSpacing(5 * UNIT)
        box = QWidget()
        rows = QVBoxLayout(box)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(2 * UNIT)
        self.examples = []
        for text in (
            self.tr("Why is the sky blue?"),
            self.tr("Write a short poem about the sea."),
            self.tr("Give me three ideas for a quick dinner."),
        ):
            button = _Example(text)
            button.setCursor(Qt.CursorShape.PointingHandCursor)
            button.setAccessibleDescription(self.tr("Ask this"))
            button.clicked.connect(lambda _=False, words=text: self.example_chosen.emit(words))
            rows.addWidget(button)
            self.examples.append(button)
        column.addWidget(box, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addStretch(4)

    def height_for(self, width: int) -> int:
        """The height that all of it needs at that width, in px."""
        layout = self.layout()
        if layout.hasHeightForWidth():
            return max(layout.heightForWidth(width), layout.minimumSize().height())
        return layout.minimumSize().height()


class _Example(QPushButton):
    """Its text gives way where there is not enough room."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._text = text
        self.setProperty("role", "example")
        self.setAccessibleName(text)

    def sizeHint(self) -> QSize:
        """Wide enough for the whole text."""
        hint = super().sizeHint()
        wanted = self.fontMetrics().horizontalAdvance(self._text) + _BESIDE_TEXT
        return QSize(max(80 * UNIT, wanted), hint.height())

    def minimumSizeHint(self) -> QSize:
        """The text gives way."""
        return QSize(0, super().sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the text in."""
        super().resizeEvent(event)
        self._elide()

    def changeEvent(self, event: QEvent) -> None:
        """Fit the text in."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_text"):
            self.updateGeometry()
            self._elide()

    def _elide(self) -> None:
        room = self.width() - _BESIDE_TEXT
        text = self.fontMetrics().elidedText(self._text, Qt.TextElideMode.ElideRight, room + 2)
        self.setText(text.replace("&", "&&"))
        self.setToolTip(self._text if text != self._text else "")
