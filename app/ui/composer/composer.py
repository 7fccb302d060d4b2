"""Where the question is typed: grows with its text, and Enter sends it."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QGuiApplication, QIcon
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.ui.composer.message_field import MAX_CHARACTERS, MessageField
from app.ui.controls.elided_label import ElidedLabel
from app.ui.icons import icon, icon_size
from app.ui.states import ChatState
from app.ui.theme import UNIT, Colours, scaled_font

_LARGE = QSize(120, 120)  # px; enough for every size of text


class Composer(QFrame):
    """The text field with its one button, which sends or, while a turn is under way, stops."""

    submitted = Signal(str)
    stop_requested = Signal()
    refused = Signal(str)  # one plain sentence: why a text was not taken
    too_early = Signal(str)  # the same, while a reply is under way
    draft_changed = Signal(str)
    count_requested = Signal(str)  # once typing rests
    edit_last_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("composer")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.text = MessageField(self)
        self.text.setPlaceholderText(self.tr("Write a message"))
        self.text.setAccessibleName(self.tr("Message"))
        self.text.setAccessibleDescription(self.tr("Enter sends, Shift+Enter starts a new line"))
        self.button = QPushButton()
        self.button.setProperty("role", "primary")
        self.button.clicked.connect(self._on_pressed)
        self.editing = _EditingBar()
        self.editing.left.connect(self.stop_requested)
        row = QHBoxLayout()
        row.setSpacing(2 * UNIT)
        row.addWidget(self.text)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(self)
        # The text begins where the status line's does: the field has a margin of its own.
        column.setContentsMargins(3 * UNIT - 1, 2 * UNIT - 1, 2 * UNIT - 1, 2 * UNIT - 1)
        column.setSpacing(UNIT)
        column.addWidget(self.editing)
        column.addLayout(row)
        self.setTabOrder(self.text, self.button)  # also while the bar is between them
        self._resting = QTimer(self, singleShot=True, interval=150)
        self._resting.timeout.connect(self._on_resting)
        self.text.sent.connect(self._submit)
        self.text.edit_last_requested.connect(self.edit_last_requested)
        self.text.refused.connect(self.refused)
        self.text.textChanged.connect(self._on_text_changed)
        self.text.focus_changed.connect(self._on_focus_changed)
        self.setFocusProxy(self.text)
        self._state = ChatState.READY
        self._colours: Colours | None = None
        self._look: tuple[bool, bool, Colours | None] | None = None  # of the button's icon
        self._rescale()
        self._show_state()

    @Slot(object)
    def set_state(self, state: ChatState) -> None:
        """Offer what can be done in that state: send or stop. Typing always can."""
        self._state = state
        self._show_state()

    @Slot(str)
    def show_text(self, text: str) -> None:
        """Show a draft, or a message to be edited, without announcing it as typed."""
        self.text.blockSignals(True)
        self.text.fill(text[:MAX_CHARACTERS], in_place_of_all=True)
        self.text.blockSignals(False)
        self._show_state()
        self._resting.start()

    @Slot(bool)
    def set_editing(self, editing: bool) -> None:
        """Say that what is sent takes the place of a message that was sent before."""
        self.editing.setVisible(editing)
        self._show_state()
        if editing:
            self.text.setFocus()

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw the icons anew in the theme's colours."""
        self._colours = colours
        self.editing.recolour(colours)
        self._show_state()

    def changeEvent(self, event: QEvent) -> None:
        """Another size of text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_colours"):
            self._rescale()

    def set_greatest_height(self, height: int) -> None:
        """How tall the field may grow, in px."""
        self.text.greatest_height = height
        self.text.fit()

    @Slot()
    def _on_text_changed(self) -> None:
        self._show_state()
        self._resting.start()
        self.draft_changed.emit(self.text.toPlainText())

    @Slot()
    def _on_resting(self) -> None:
        self.count_requested.emit(_whole_characters(self.text.toPlainText()))

    def _on_pressed(self) -> None:
        if self._state.busy:
            self.stop_requested.emit()
        else:
            self._submit()
        self.text.setFocus()

    def _submit(self) -> None:
        if self.text.composing:
            QGuiApplication.inputMethod().commit()
        if self.text.composing:
            return
        text = self.text.toPlainText()
        if not text.strip():
            return
        if self._state.busy:
            self.too_early.emit(self.tr("Wait for the reply to end, or stop it with Esc."))
            return
        self.show_text("")
        self.submitted.emit(_whole_characters(text))

    def _on_focus_changed(self, focused: bool) -> None:
        self.setProperty("focused", focused)
        self.style().unpolish(self)
        self.style().polish(self)

    def _rescale(self) -> None:
        self.button.setIconSize(icon_size(self.font()))
        self.editing.leave.setIconSize(icon_size(self.font()))

    def _show_state(self) -> None:
        busy = self._state.busy
        self.button.setText(self.tr("Stop") if busy else self.tr("Send"))
        self.button.setToolTip(self.tr("Stop (Esc)") if busy else self.tr("Send (Enter)"))
        stopping = self._state is ChatState.STOPPING
        self.button.setEnabled(not stopping if busy else not self.text.is_blank())
        look = (busy, self.button.isEnabled(), self._colours)
        if self._colours is not None and look != self._look:
            self._look = look
            colour = self._colours.on_accent if self.button.isEnabled() else self._colours.muted
            picture = icon("stop" if busy else "send", colour)
            # Qt would pale it once more than the words beside it.
            picture.addPixmap(picture.pixmap(_LARGE), QIcon.Mode.Disabled)
            self.button.setIcon(picture)


class _EditingBar(QWidget):
    """Says that a message is being edited, and lets one leave it as it was."""

    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        words = ElidedLabel(self.tr("Editing: sending it makes a new version of your message."))
        words.setProperty("role", "muted")
        words.setFont(scaled_font(self.font(), 0.9))
        self.leave = QToolButton()
        self.leave.setAccessibleName(self.tr("Leave the message as it is"))
        self.leave.setToolTip(self.tr("Leave the message as it is (Esc)"))
        self.leave.clicked.connect(self.left)
        row = QHBoxLayout(self)
        row.setContentsMargins(UNIT, 0, 0, 0)
        row.addWidget(words, 1)
        row.addWidget(self.leave)
        self.hide()

    def recolour(self, colours: Colours) -> None:
        self.leave.setIcon(icon("close", colours.muted))


def _whole_characters(text: str) -> str:
    """`text` without halves of characters, which some keyboards and clipboards leave behind."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
