"""Find in the open chat: a bar above the messages, and every hit marked in them."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QEvent, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QLineEdit, QToolButton, QWidget

from app.ui.finding import places
from app.ui.icons import icon, icon_size
from app.ui.keys import with_key
from app.ui.theme import UNIT, Colours
from app.ui.transcript.transcript import Transcript
from app.ui.wording import whole

_PAUSE = 120  # ms without typing


class FindBar(QFrame):
    """Enter and Shift+Enter go from hit to hit; the last message comes first. Esc closes."""

    left = Signal()  # closed by the user, who wants to write again

    def __init__(self, transcript: Transcript, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("findBar")
        self._transcript = transcript
        self._hits: list[tuple[int, int]] = []  # message, and the number of the hit in it
        self._at = -1
        self.field = QLineEdit()
        self.field.setPlaceholderText(self.tr("Find in this chat"))
        self.field.setAccessibleName(self.tr("Find in this chat"))
        self.field.installEventFilter(self)
        self.words = QLabel()
        self.words.setProperty("role", "muted")
        self.words.setAccessibleDescription(self.tr("Which of the hits is shown"))
        self.previous = self._button(with_key(self.tr("Previous"), "find_previous"))
        self.next = self._button(with_key(self.tr("Next"), "find_next"))
        self.close_button = self._button(self.tr("Close (Esc)"))
        self.previous.clicked.connect(lambda: self.step(-1))
        self.next.clicked.connect(lambda: self.step(1))
        self.close_button.clicked.connect(self.leave)
        row = QHBoxLayout(self)
        row.setContentsMargins(6 * UNIT, 2 * UNIT, 3 * UNIT, 2 * UNIT)
        row.setSpacing(UNIT)
        row.addWidget(self.field, 1)
        row.addSpacing(2 * UNIT)
        for widget in (self.words, self.previous, self.next, self.close_button):
            row.addWidget(widget)
        self._resting = QTimer(self, singleShot=True, interval=_PAUSE)
        self._resting.timeout.connect(self._find)
        self.field.textChanged.connect(lambda: self._resting.start())
        self._rescale()
        self.hide()

    def open(self) -> None:
        """Show the bar, with the keyboard in it."""
        self.show()
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()
        self._find()

    @Slot()
    def leave(self) -> None:
        """Close it; nothing is marked any longer."""
        if not self.isHidden():
            self.hide()
            self._transcript.mark("")
            self.left.emit()

    @Slot()
    def refresh(self) -> None:
        """The messages are others now."""
        if not self.isHidden():
            self._count()
            self._show()

    def step(self, step: int) -> None:
        """Go to the next hit, or the one before; from the last one to the first."""
        if self._resting.isActive():
            self._find()
        elif self._hits:
            self._at = (self._at + step) % len(self._hits)
            self._go()

    def recolour(self, colours: Colours) -> None:
        """Draw the icons anew in the theme's colours."""
        self.previous.setIcon(icon("up", colours.text))
        self.next.setIcon(icon("down", colours.text))
        self.close_button.setIcon(icon("close", colours.muted))

    def changeEvent(self, event: QEvent) -> None:
        """Another size of text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_resting"):
            self._rescale()

    def eventFilter(self, _watched: QWidget, event: QEvent) -> bool:
        """The keys of the field that lead elsewhere."""
        if event.type() == QEvent.Type.ShortcutOverride and event.key() == Qt.Key.Key_Escape:
            event.accept()  # not meant for a reply that is being written
            return True
        if event.type() != QEvent.Type.KeyPress:
            return False
        return self._take_key(event)

    def _take_key(self, event: QKeyEvent) -> bool:
        key = event.key()
        if key == Qt.Key.Key_Escape:
            self.leave()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self.step(-1 if back else 1)
        else:
            return False
        return True

    @Slot()
    def _find(self) -> None:
        """Look for what was typed; the hit that is nearest to the end is shown."""
        self._resting.stop()
        self._count()
        self._at = len(self._hits) - 1
        self._transcript.mark(self.field.text())
        self._go()

    def _count(self) -> None:
        wanted = self.field.text()
        self._hits = [
            (message.id, number)
            for message in self._transcript.messages
            for number in range(len(places(message.text, wanted)))
        ]
        self._at = min(self._at, len(self._hits) - 1)

    def _go(self) -> None:
        self._show()
        if self._hits:
            self._transcript.show_hit(*self._hits[self._at])

    def _show(self) -> None:
        if not self.field.text():
            words = ""
        elif not self._hits:
            words = self.tr("Not found")
        else:
            words = self.tr("%1 of %2").replace("%1", whole(self._at + 1))
            words = words.replace("%2", whole(len(self._hits)))
        self.words.setText(words)
        for button in (self.previous, self.next):
            button.setEnabled(len(self._hits) > 1)

    def _button(self, tip: str) -> QToolButton:
        button = QToolButton()
        button.setToolTip(tip)
        button.setAccessibleName(tip.partition(" (")[0])
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button

    def _rescale(self) -> None:
        for button in (self.previous, self.next, self.close_button):
            button.setIconSize(icon_size(self.font()))
