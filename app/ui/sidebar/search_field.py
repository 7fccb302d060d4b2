"""Where one types what to look for in all chats."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QEvent, QRect, Qt, Signal
from PySide6.QtGui import QIcon, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLineEdit, QToolButton, QWidget

from app.ui.icons import icon, icon_size
from app.ui.keys import with_key
from app.ui.theme import UNIT, Colours


class SearchField(QLineEdit):
    """Esc empties it, and leaves it when it is empty; Down and Enter go to what was found."""

    entered = Signal()  # Enter
    went_down = Signal()
    left = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, objectName="searchField")
        self.setPlaceholderText(self.tr("Search"))
        self.setAccessibleName(self.tr("Search in all chats"))
        self.setToolTip(with_key(self.tr("Search in all chats"), "search"))
        self.setClearButtonEnabled(True)
        self._keep_room()
        for button in self.findChildren(QToolButton):
            button.setAccessibleName(self.tr("Clear"))
        self._glass = QIcon()

    def recolour(self, colours: Colours) -> None:
        """Draw the icon anew in the theme's colours."""
        self._glass = icon("search", colours.muted)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """With a magnifying glass, which is no button, before the text."""
        super().paintEvent(event)
        side = icon_size(self.font()).width()
        place = QRect(2 * UNIT, (self.height() - side) // 2, side, side)
        self._glass.paint(QPainter(self), place)

    def changeEvent(self, event: QEvent) -> None:
        """Another size of text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._keep_room()

    def _keep_room(self) -> None:
        self.setTextMargins(icon_size(self.font()).width() + 2 * UNIT, 0, 0, 0)

    def event(self, event: QEvent) -> bool:
        """Esc is meant for the field, not for a reply that is being written."""
        if event.type() == QEvent.Type.ShortcutOverride and event.key() == Qt.Key.Key_Escape:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """The keys that lead elsewhere."""
        key = event.key()
        if key == Qt.Key.Key_Escape:
            if self.text():
                self.clear()
            else:
                self.left.emit()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.entered.emit()
        elif key == Qt.Key.Key_Down:
            self.went_down.emit()
        else:
            super().keyPressEvent(event)
