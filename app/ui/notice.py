"""A line above the conversation for what the user should know, with at most one thing to do."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QToolButton, QWidget

from app.ui.icons import icon
from app.ui.theme import UNIT, Colours


class Notice(QFrame):
    """Shows one notice at a time; others wait until it is closed or acted upon."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("notice")
        self.words = QLabel()
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setWordWrap(True)
        self.words.setAccessibleName(self.tr("Notice"))
        self.action = QPushButton()
        self.close_button = QToolButton()
        self.close_button.setAccessibleName(self.tr("Close this notice"))
        self.close_button.setToolTip(self.tr("Close"))
        self.action.clicked.connect(self._act)
        self.close_button.clicked.connect(self.show_next)
        row = QHBoxLayout(self)
        row.setContentsMargins(5 * UNIT, 2 * UNIT, 3 * UNIT, 2 * UNIT)
        row.setSpacing(3 * UNIT)
        row.addWidget(self.words, 1)
        row.addWidget(self.action, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        self._waiting: list[tuple[str, str, Callable[[], None] | None]] = []
        self._do: Callable[[], None] | None = None
        self.hide()

    def tell(self, words: str, label: str = "", action: Callable[[], None] | None = None) -> None:
        """Show `words`, with a button that does `action`."""
        if self.isHidden():
            self._show(words, label, action)
        elif words != self.words.text() and all(words != other[0] for other in self._waiting):
            self._waiting.append((words, label, action))

    @Slot()
    def show_next(self) -> None:
        """Close what is shown; show what waited."""
        if self._waiting:
            self._show(*self._waiting.pop(0))
        else:
            self.hide()

    def withdraw(self, words: str) -> None:
        """Close the notice that says `words`, if it is the one shown."""
        if not self.isHidden() and self.words.text() == words:
            self.show_next()

    def recolour(self, colours: Colours) -> None:
        """Draw the icon anew in the theme's colours."""
        self.close_button.setIcon(icon("close", colours.muted))

    def _show(self, words: str, label: str, action: Callable[[], None] | None) -> None:
        self.words.setText(words)
        self.action.setText(label)
        self.action.setVisible(action is not None)
        self._do = action
        self.show()

    @Slot()
    def _act(self) -> None:
        action = self._do
        self.show_next()
        if action is not None:
            action()
