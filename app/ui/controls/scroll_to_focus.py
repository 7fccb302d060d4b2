"""A page scrolls to what the keyboard is on, also when Tab comes from outside the page."""

from PySide6.QtCore import QObject, Qt, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QScrollArea
from shiboken6 import isValid

from app.ui.theme import UNIT


def moved_by_key() -> bool:
    """Whether the focus that has just moved was not moved by a press of the mouse."""
    return QGuiApplication.mouseButtons() == Qt.MouseButton.NoButton


class ScrollToFocus(QObject):
    """Qt's scroll areas do so by themselves only while Tab goes from one of theirs to another."""

    def __init__(self, area: QScrollArea) -> None:
        super().__init__(area)
        self._area = area
        self._anywhere = False  # whether the keyboard was in the program before
        QApplication.instance().focusChanged.connect(self._on_focus_changed)

    @Slot()
    def _on_focus_changed(self) -> None:
        # Not the widgets that the signal brings: one of them may be half-way through its end, and
        # a Python object made for it would point at nothing.
        if not isValid(self._area):
            return
        new = QApplication.focusWidget()
        came_forward, self._anywhere = not self._anywhere, new is not None
        if new is None or came_forward or not moved_by_key():
            return
        if self._area.viewport().isAncestorOf(new):
            # Of a text field, ensureWidgetVisible would show only the line with the caret.
            middle = new.mapTo(self._area.widget(), new.rect().center())
            self._area.ensureVisible(middle.x(), middle.y(), 0, new.height() // 2 + 4 * UNIT)
