"""The window: puts the views together and names their keys."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from collections.abc import Callable

from PySide6.QtCore import QByteArray, QEvent, QObject, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QCloseEvent, QGuiApplication, QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import QHBoxLayout, QMainWindow, QMessageBox, QVBoxLayout, QWidget

from app.ui.composer import Composer
from app.ui.header import Header
from app.ui.keys import KEYS
from app.ui.notice import Notice
from app.ui.side_panel import SidePanel
from app.ui.sidebar import Sidebar
from app.ui.states import Failure
from app.ui.status_line import StatusLine
from app.ui.theme import COLUMN_WIDTH, UNIT, Colours
from app.ui.transcript import Transcript

# Kinds of notices.
_NO_MODEL = "no model"
_REFUSED = "refused"
_DELETED = "deleted"
_NOT_KEPT = "not kept"

_LEAST_CHAT = 100 * UNIT  # beside the sidebar and the panel


class MainWindow(QMainWindow):
    """Holds the views; knows nothing of what stands behind them.

    In a narrow window the panel, and then the sidebar, goes away by itself; called back there, it
    takes the place of the conversation.
    """

    first_painted = Signal()
    closed = Signal(bytes)  # the window's geometry
    stop_requested = Signal()
    load_requested = Signal()
    bars_chosen = Signal(bool, bool)  # whether sidebar and panel are wanted
    key_pressed = Signal(str)  # the name of a key in `keys.KEYS` that is for others to act on

    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle("Smoldesk")
        self.setMinimumSize(95 * UNIT, 90 * UNIT)
        self.sidebar = Sidebar()
        self.header = Header()
        self.notice = Notice()
        self.transcript = Transcript()
        self.composer = Composer()
        self.status = StatusLine()
        self.panel = SidePanel()
        self.setCentralWidget(self._arranged())
        for button in (self.header.sidebar, self.header.panel):
            button.clicked.connect(self._on_clicked)
            button.toggled.connect(self._share_room)
        self.header.new_chat_requested.connect(self._make_room)
        self.sidebar.new_chat_requested.connect(self._make_room)
        self.sidebar.chat_entered.connect(self._make_room)
        self.composer.stop_requested.connect(self.stop_requested)
        self.composer.refused.connect(self._tell_refused)
        self.composer.text.textChanged.connect(self._forget_refused)
        self._set_keys()
        self._dialog: QMessageBox | None = None
        self.header.installEventFilter(self)
        self._room = -1  # how many of the two bars there is room for; not known before it is shown
        self._wanted = {"sidebar": True, "panel": True}
        self.composer.setFocus()

    def _arranged(self) -> QWidget:
        writing = QWidget()
        writing.setMaximumWidth(COLUMN_WIDTH + 8 * UNIT)
        below = QVBoxLayout(writing)
        below.setContentsMargins(0, 0, 0, 0)
        below.setSpacing(2 * UNIT)
        below.addWidget(self.composer)
        below.addWidget(self.status)
        row = QHBoxLayout()
        row.setContentsMargins(4 * UNIT, 2 * UNIT, 4 * UNIT, 3 * UNIT)
        row.addStretch(1)
        row.addWidget(writing, 1000)
        row.addStretch(1)
        self._chat = QWidget()
        chat = QVBoxLayout(self._chat)
        chat.setContentsMargins(0, 0, 0, 0)
        chat.setSpacing(0)
        chat.addWidget(self.notice)
        chat.addWidget(self.transcript, 1)
        chat.addLayout(row)
        middle = QHBoxLayout()
        middle.setSpacing(0)
        middle.addWidget(self._chat, 1)
        middle.addWidget(self.panel, 0, Qt.AlignmentFlag.AlignRight)
        right = QVBoxLayout()
        right.setContentsMargins(0, 0, 0, 0)
        right.setSpacing(0)
        right.addWidget(self.header)
        right.addLayout(middle, 1)
        page = QWidget()
        columns = QHBoxLayout(page)
        columns.setContentsMargins(0, 0, 0, 0)
        columns.setSpacing(0)
        columns.addWidget(self.sidebar)
        columns.addLayout(right, 1)
        return page

    def _set_keys(self) -> None:
        own: dict[str, Callable[[], object]] = {
            "sidebar": self.header.sidebar.click,
            "panel": self.header.panel.click,
            "stop": self.stop_requested.emit,
            "focus_message": self._make_room,
            "quit": self.close,
        }
        self.shortcuts: dict[str, QShortcut] = {}
        for key in KEYS:
            if key.listed_only:
                continue
            action = own.get(key.name, lambda name=key.name: self.key_pressed.emit(name))
            shortcut = QShortcut(QKeySequence(key.sequence), self, activated=action)
            self.shortcuts[key.name] = shortcut

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw all icons anew in the theme's colours."""
        views = (self.sidebar, self.header, self.notice, self.transcript, self.composer, self.panel)
        for view in views:
            view.recolour(colours)

    def show_bars(self, *, sidebar: bool, panel: bool) -> None:
        """Which of the two bars are wanted where there is room for them."""
        self._wanted = {"sidebar": sidebar, "panel": panel}
        if self._room >= 0:
            self._put_away()

    @Slot(bool)
    def _on_clicked(self, shown: bool) -> None:
        if self._room == 2:
            sidebar, panel = self.header.sidebar.isChecked(), self.header.panel.isChecked()
            self._wanted = {"sidebar": sidebar, "panel": panel}
            self.bars_chosen.emit(sidebar, panel)
        if not shown and self._chat.isVisible():
            self.composer.setFocus()

    def _put_away(self) -> None:
        """Show the bars that are wanted and have room."""
        for button, shown in (
            (self.header.sidebar, self._wanted["sidebar"] and self._room >= 1),
            (self.header.panel, self._wanted["panel"] and self._room >= 2),
        ):
            button.setChecked(shown)
        self._share_room()

    @Slot()
    def _share_room(self) -> None:
        """A bar for which there is no room beside the conversation takes its place."""
        sidebar, panel = self.header.sidebar.isChecked(), self.header.panel.isChecked()
        taken = sidebar * self.sidebar.width() + panel * self.panel.width()
        crowded = self.width() < taken + _LEAST_CHAT and (sidebar or panel)
        if crowded and sidebar and panel:
            # The one that was there before gives way to the one that was called.
            called_panel = not self.panel.isVisibleTo(self)
            (self.header.sidebar if called_panel else self.header.panel).setChecked(False)
            return  # comes back here
        self.sidebar.setVisible(sidebar)
        self.panel.setVisible(panel)
        self._chat.setVisible(not crowded)

    @Slot()
    def _make_room(self) -> None:
        """Something is to be done in the conversation: a bar that hides it goes away."""
        if not self._chat.isVisibleTo(self):
            self.header.sidebar.setChecked(False)
            self.header.panel.setChecked(False)
        self.composer.setFocus()

    @Slot(object)
    def tell(self, failure: Failure) -> None:
        """Say what went wrong in a line above the conversation; the program goes on."""
        self.notice.tell(f"{failure.what} {failure.remedy}".strip())

    @Slot(object)
    def tell_not_kept(self, failure: Failure) -> None:
        """Say that chats are not being written to the disk."""
        self.notice.tell(f"{failure.what} {failure.remedy}".strip(), kind=_NOT_KEPT)

    @Slot(object)
    def tell_no_model(self, failure: Failure) -> None:
        """Say why there is no model, and offer to try again."""
        if failure.details:
            self.show_bug(failure)
        words = f"{failure.what} {failure.remedy}".strip()
        self.notice.tell(words, self.tr("Try again"), self.load_requested.emit, kind=_NO_MODEL)

    def tell_deleted(self, title: str, undo: Callable[[], None]) -> None:
        """Say that a chat was deleted, and offer to bring it back."""
        name = title or self.tr("New chat")
        words = self.tr("“%1” was deleted.").replace("%1", name)
        self.notice.tell(words, self.tr("Undo"), undo, kind=_DELETED)

    @Slot()
    def forget_no_model(self) -> None:
        """There is a model after all, or it is being loaded once more."""
        self.notice.withdraw(_NO_MODEL)

    @Slot(str)
    def _tell_refused(self, words: str) -> None:
        self.notice.tell(words, kind=_REFUSED)

    @Slot()
    def _forget_refused(self) -> None:
        self.notice.withdraw(_REFUSED)

    @Slot()
    def come_forward(self) -> None:
        """Somebody started the program once more: here it is."""
        if self.isMinimized():
            self.showNormal()
        self.show()
        self.raise_()
        self.activateWindow()

    @Slot(object)
    def show_bug(self, failure: Failure) -> None:
        """Show a bug in a dialog from which its details can be copied; one at a time."""
        if self._dialog is not None:
            return
        box = QMessageBox(QMessageBox.Icon.Warning, self.tr("Smoldesk"), failure.what, parent=self)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setInformativeText(failure.remedy)
        box.setDetailedText(failure.details)
        copy = box.addButton(self.tr("Copy details"), QMessageBox.ButtonRole.ActionRole)
        copy.clicked.disconnect()  # copying does not close the dialog
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(failure.details))
        box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Close))
        box.finished.connect(self._on_dialog_closed)
        self._dialog = box
        box.open()  # not exec: the reply that streams behind it goes on

    @Slot()
    def _on_dialog_closed(self) -> None:
        if self._dialog is not None:
            self._dialog.deleteLater()
            self._dialog = None

    def restore(self, geometry: bytes) -> None:
        """Go back to where the window was, or to a sensible size."""
        if not geometry or not self.restoreGeometry(QByteArray(geometry)):
            room = self.screen().availableGeometry().size()
            self.resize(min(1240, int(room.width() * 0.9)), min(800, int(room.height() * 0.9)))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The composer takes at most a third; a narrow window puts the bars away."""
        super().resizeEvent(event)
        self.composer.set_greatest_height(self.height() // 3)
        beside = self.width() - _LEAST_CHAT
        room = (beside >= self.sidebar.width()) + (
            beside >= self.sidebar.width() + self.panel.width()
        )
        if room != self._room:
            self._room = room
            self._put_away()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Say when a part of the window was drawn for the first time."""
        if event.type() == QEvent.Type.Paint:
            watched.removeEventFilter(self)
            QTimer.singleShot(0, self.first_painted.emit)  # once the rest is drawn, too
        return False

    def closeEvent(self, event: QCloseEvent) -> None:
        """Remember the place of the window; it closes at once."""
        self.closed.emit(bytes(self.saveGeometry().data()))
        event.accept()
