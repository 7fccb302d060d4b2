"""A line above the conversation for what the user should know, with at most one thing to do."""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QToolButton, QWidget

from app.ui.icons import icon
from app.ui.theme import UNIT, Colours


@dataclass(frozen=True, slots=True)
class _Told:
    words: str
    label: str
    action: Callable[[], None] | None
    kind: str


class Notice(QFrame):
    """Shows the newest notice; older ones come back when it is closed or acted upon."""

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
        self._told: list[_Told] = []
        self.hide()

    def tell(
        self,
        words: str,
        label: str = "",
        action: Callable[[], None] | None = None,
        *,
        kind: str = "",
    ) -> None:
        """Show `words`, with a button that does `action`; of one `kind` only the newest is kept."""
        self._forget(lambda told: told.words == words or (kind and told.kind == kind))
        self._told.append(_Told(words, label, action, kind))
        self._show_newest()

    @Slot()
    def show_next(self) -> None:
        """Close what is shown; show what was shown before."""
        if self._told:
            self._told.pop()
        self._show_newest()

    def withdraw(self, kind: str) -> None:
        """Close the notice of that kind, wherever it stands."""
        self._forget(lambda told: told.kind == kind)
        self._show_newest()

    def recolour(self, colours: Colours) -> None:
        """Draw the icon anew in the theme's colours."""
        self.close_button.setIcon(icon("close", colours.muted))

    def _forget(self, which: Callable[["_Told"], object]) -> None:
        self._told = [told for told in self._told if not which(told)]

    def _show_newest(self) -> None:
        if not self._told:
            self.hide()
            return
        told = self._told[-1]
        self.words.setText(told.words)
        self.action.setText(told.label)
        self.action.setVisible(told.action is not None)
        self.show()

    @Slot()
    def _act(self) -> None:
        action = self._told[-1].action
        self.show_next()
        if action is not None:
            action()
