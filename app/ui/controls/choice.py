"""One of a few: buttons side by side, of which one is down."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QFont, QFontMetrics
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QPushButton, QWidget

from app.ui.theme import UNIT, scaled_font


class Choice(QWidget):
    """Announces what the user chose; showing a choice announces nothing."""

    chosen = Signal(str)

    def __init__(self, name: str, options: tuple[tuple[str, str], ...]) -> None:
        super().__init__()
        self.buttons: dict[str, QPushButton] = {}
        self.setAccessibleName(name)
        group = QButtonGroup(self)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(UNIT)
        for value, label in options:
            button = QPushButton(label)
            button.setProperty("role", "choice")
            button.setCheckable(True)
            button.setAutoExclusive(True)  # one of several, also for a screen reader
            button.setAutoDefault(False)
            button.setAccessibleName(f"{name}: {label}")
            button.clicked.connect(lambda _=False, value=value: self.chosen.emit(value))
            group.addButton(button)
            row.addWidget(button)
            self.buttons[value] = button
        self._rescale()

    def changeEvent(self, event: QEvent) -> None:
        """Larger text needs more room."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._rescale()

    def _rescale(self) -> None:
        """Make room for the bold letters of the button that is down."""
        metrics = QFontMetrics(scaled_font(self.font(), 1.0, weight=QFont.Weight.DemiBold))
        for button in self.buttons.values():
            button.setMinimumWidth(metrics.horizontalAdvance(button.text()) + 6 * UNIT)

    def show_choice(self, value: str) -> None:
        """Show which one holds."""
        self.buttons[value].setChecked(True)
