"""The row below a message: its versions, what can be done with it, and how it ended."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from collections.abc import Callable

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLabel, QToolButton, QWidget

from app.ui.icons import icon_size
from app.ui.theme import UNIT, scaled_font

Icons = dict[str, QIcon]

_LEAST_CHARACTERS = 24  # beside the buttons; with less room the words go below
_TOP = Qt.AlignmentFlag.AlignTop

ICON_NAMES = ("left", "right", "regenerate", "edit", "copy", "continue", "expand", "more")


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
        self.previous.clicked.connect(lambda: self.step_requested.emit(-1))
        self.next.clicked.connect(lambda: self.step_requested.emit(1))
        self._named: dict[str, QToolButton] = {"left": self.previous, "right": self.next}
        self._row = QHBoxLayout()
        self._row.setSpacing(0)
        if at_right:
            self._row.addStretch(1)
        for widget in (self.previous, self.version, self.next):
            self._row.addWidget(widget)
        self._both = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._both.setContentsMargins(0, 0, 0, 0)
        self._both.setSpacing(2 * UNIT)
        self._both.addLayout(self._row, 1 if at_right else 0)
        self._at_right = at_right
        if at_right:
            self.words.setParent(self)
            self.words.hide()
        else:
            self._both.addWidget(self.words, 1)
        self.show_version(1, 1)
        self.rescale()

    def add(self, name: str, tip: str, action: Callable[[], None]) -> QToolButton:
        """A button with that icon and tooltip."""
        button = self._button(tip)
        button.clicked.connect(action)
        self._named[name] = button
        self._row.addWidget(button)
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

    def buttons(self) -> list[QToolButton]:
        """All of them, from left to right."""
        return list(self._named.values())

    def holding(self, widget: QWidget | None) -> str:
        """The name of the button that `widget` is, or nothing."""
        return next((name for name, button in self._named.items() if button is widget), "")

    def focus(self, name: str) -> bool:
        """Put the keyboard on that button, or on the other step where there is no further one."""
        for button in (self._named.get(name), self.previous, self.next):
            if button is not None and button.isVisible() and button.isEnabled():
                button.setFocus(Qt.FocusReason.TabFocusReason)
                return True
        return False

    def recolour(self, icons: Icons) -> None:
        """Show these icons."""
        for name, button in self._named.items():
            button.setIcon(icons[name])

    def rescale(self) -> None:
        """Take the size of text that is in use now."""
        for label in (self.version, self.words):
            label.setFont(scaled_font(self.font(), 0.85))
        size = icon_size(self.font())
        for button in self._named.values():
            button.setIconSize(size)
        # The first of several lines is in line with the icons.
        tall = self.previous.sizeHint().height()
        line = self.words.fontMetrics().height()
        self.version.setMinimumHeight(tall)
        self.words.setContentsMargins(0, (tall - line) // 2, 0, (tall - line) // 2)

    def changeEvent(self, event: QEvent) -> None:
        """Another size of text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_both"):
            self.rescale()

    def height_for(self, width: int) -> int:
        """The height that all of it needs at that width, in px."""
        if self._at_right:
            return self._row.sizeHint().height()
        beside = width - self._row.sizeHint().width() - 2 * UNIT
        below = beside < _LEAST_CHARACTERS * self.words.fontMetrics().averageCharWidth()
        directions = QBoxLayout.Direction
        self._both.setDirection(directions.TopToBottom if below else directions.LeftToRight)
        self._both.setAlignment(self._row, Qt.AlignmentFlag.AlignLeft if below else _TOP)
        height = self._both.heightForWidth(width)
        return height if height >= 0 else self._both.sizeHint().height()  # there are no words

    def _button(self, tip: str) -> QToolButton:
        button = QToolButton()
        button.setProperty("role", "action")
        button.setToolTip(tip)
        button.setAccessibleName(tip.partition(" (")[0])
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button
