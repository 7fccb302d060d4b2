"""Where the model's memory begins: a line across the column, with a word about it."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QLabel, QWidget

from app.ui.theme import UNIT, scaled_font


class MemoryLine(QWidget):
    """Stands above the first message that the model still remembers."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.words = QLabel(self.tr("The model’s memory begins here"))
        self.words.setProperty("role", "muted")
        self.words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setToolTip(
            self.tr(
                "The conversation is longer than the model can remember (its context).\n"
                "What stands above stays here, but the model no longer reads it."
            )
        )
        self.words.setAccessibleDescription(self.toolTip())
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 4 * UNIT)
        row.setSpacing(3 * UNIT)
        row.addWidget(_rule(), 1, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.words)
        row.addWidget(_rule(), 1, Qt.AlignmentFlag.AlignVCenter)
        self.rescale()

    def rescale(self) -> None:
        """Take the size of text that is in use now."""
        self.words.setFont(scaled_font(QApplication.font(), 0.85))


def _rule() -> QFrame:
    rule = QFrame(objectName="rule")
    rule.setFixedHeight(1)
    return rule
