"""The row below a message: its versions, what can be done with it, and how it ended."""

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QWidget

from app.ui.theme import UNIT, scaled_font

Icons = dict[str, QIcon]

ICON_NAMES = ("left", "right", "regenerate", "edit", "copy", "continue")


class MessageActions(QWidget):
    """Small buttons, each there only while it makes sense, and a line of words."""

    step_requested = Signal(int)  # to the version before (-1) or after (1)

    def __init__(self, *, at_right: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.previous = self._button(self.tr("Previous version (Alt+Left)"))
        self.next = self._button(self.tr("Next version (Alt+Right)"))
        self.version = QLabel()
        self.version.setProperty("role", "muted")
        self.words = QLabel()
        self.words.setProperty("role", "muted")
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setWordWrap(True)
        self.words.setAccessibleName(self.tr("How the reply ended"))
        self.previous.clicked.connect(lambda: self.step_requested.emit(-1))
        self.next.clicked.connect(lambda: self.step_requested.emit(1))
        self._named: dict[str, QToolButton] = {"left": self.previous, "right": self.next}
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(UNIT // 2)
        if at_right:
            self._row.addStretch(1)
        for widget in (self.previous, self.version, self.next):
            self._row.addWidget(widget, 0, Qt.AlignmentFlag.AlignTop)
        self._at_right = at_right
        if not at_right:
            self._row.addWidget(self.words, 1)
        self.show_version(1, 1)
        self.rescale()

    def add(self, name: str, tip: str, action: Callable[[], None]) -> QToolButton:
        """A button with that icon and tooltip."""
        button = self._button(tip)
        button.clicked.connect(action)
        self._named[name] = button
        place = self._row.count() - (0 if self._at_right else 1)
        self._row.insertWidget(place, button, 0, Qt.AlignmentFlag.AlignTop)
        self.rescale()
        return button

    def show_version(self, version: int, versions: int) -> None:
        """Say which version of how many is shown; nothing if there is only one."""
        several = versions > 1
        for widget in (self.previous, self.version, self.next):
            widget.setVisible(several)
        self.version.setText(f"{version}/{versions}")
        self.version.setAccessibleName(
            self.tr("Version %1 of %2").replace("%1", str(version)).replace("%2", str(versions))
        )
        self.previous.setEnabled(version > 1)
        self.next.setEnabled(version < versions)

    def recolour(self, icons: Icons) -> None:
        """Show these icons."""
        for name, button in self._named.items():
            button.setIcon(icons[name])

    def rescale(self) -> None:
        """Take the size of text that is in use now."""
        for label in (self.version, self.words):
            label.setFont(scaled_font(self.font(), 0.85))
        side = round(self.words.fontMetrics().height() * 1.15)
        self.version.setFixedHeight(side + 2 * UNIT + 2)  # as its neighbours
        # In line with the icons, also when there are more lines.
        self.words.setContentsMargins(2 * UNIT, UNIT, 0, 0)
        for button in self._named.values():
            button.setIconSize(QSize(side, side))

    def height_for(self, width: int) -> int:
        """The height that all of it needs at that width, in px."""
        if self.layout().hasHeightForWidth():
            return self.layout().heightForWidth(width)
        return self.layout().sizeHint().height()

    def _button(self, tip: str) -> QToolButton:
        button = QToolButton()
        button.setProperty("role", "action")
        button.setToolTip(tip)
        button.setAccessibleName(tip.partition(" (")[0])
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button
