"""What an empty conversation shows: what this is, and a few ways to begin."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from app.ui.icons import app_icon
from app.ui.theme import UNIT, scaled_font


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
        self.examples = []
        for text in (
            self.tr("Why is the sky blue?"),
            self.tr("Write a short poem about the sea."),
            self.tr("Give me three ideas for a quick dinner."),
        ):
            button = QPushButton(text)
            button.setProperty("role", "example")
            button.setCursor(Qt.CursorShape.PointingHandCursor)
            button.setMinimumWidth(80 * UNIT)
            button.setAccessibleDescription(self.tr("Ask this"))
            button.clicked.connect(lambda _=False, words=text: self.example_chosen.emit(words))
            column.addWidget(button, 0, Qt.AlignmentFlag.AlignHCenter)
            self.examples.append(button)
        column.addStretch(4)

    def height_for(self, width: int) -> int:
        """The height that all of it needs at that width, in px."""
        layout = self.layout()
        if layout.hasHeightForWidth():
            return max(layout.heightForWidth(width), layout.minimumSize().height())
        return layout.minimumSize().height()
