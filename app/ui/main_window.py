"""The window: puts the views together and names their keys."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from collections.abc import Callable

from PySide6.QtCore import QByteArray, QEvent, QObject, Qt, QTimer, Signal, Slot
from PySide6.QtGui import (
    QCloseEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QResizeEvent,
    QShortcut,
)
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMainWindow, QMessageBox, QVBoxLayout, QWidget

from app.ui.composer.composer import Composer
from app.ui.header import Header
from app.ui.keys import KEYS, open_menu_of_focus, pressed_by_enter
from app.ui.notice import Notice
from app.ui.panel.side_panel import SidePanel
from app.ui.sidebar.sidebar import Sidebar
from app.ui.states import Failure, ShownBackup
from app.ui.status_line import StatusLine
from app.ui.theme import COLUMN_WIDTH, SCROLL_BAR, UNIT, Colours
from app.ui.transcript.find_bar import FindBar
from app.ui.transcript.transcript import Transcript
from app.ui.window_page import WindowPage
from app.ui.wording import day, whole

# Kinds of notices.
_NO_MODEL = "no model"
_REFUSED = "refused"
_TOO_EARLY = "too early"
_DELETED = "deleted"
_TEMPORARY = "temporary"
_TRANSFER = "transfer"
_NOT_KEPT = "not kept"
_SETTINGS = "settings"

_ASIDE = 6 * UNIT + 1  # of the column that messages and composer share; 1 px is for the focus


class MainWindow(QMainWindow):
    """Holds the views; knows nothing of what stands behind them."""

    first_painted = Signal()
    closed = Signal(bytes)  # the window's geometry
    stop_requested = Signal()
    load_requested = Signal()
    bars_chosen = Signal(bool, bool)  # whether sidebar and panel are wanted
    key_pressed = Signal(str)  # the name of a key in `keys.KEYS` that is for others to act on

    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle("Smoldesk")
        self.sidebar = Sidebar()
        self.header = Header()
        self.notice = Notice()
        self.transcript = Transcript()
        self.find_bar = FindBar(self.transcript)
        self.temporary = QLabel(self.tr("Temporary chat: nothing of it is written to the disk."))
        self.temporary.setObjectName("temporary")
        self.temporary.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.temporary.setWordWrap(True)
        self.temporary.hide()
        self.composer = Composer()
        self.status = StatusLine()
        self.panel = SidePanel()
        self.page = WindowPage(self.header, self.sidebar, self._conversation(), self.panel)
        self.page.bars_chosen.connect(self.bars_chosen)
        self.page.bar_closed.connect(self.composer.setFocus)
        self.find_bar.left.connect(self.composer.setFocus)
        self.setCentralWidget(self.page)
        self.setMinimumSize(self.page.least_size())
        self.header.new_chat_requested.connect(self.make_room)
        self.sidebar.new_chat_requested.connect(self.make_room)
        self.sidebar.chat_entered.connect(self.make_room)
        self.composer.stop_requested.connect(self.stop_requested)
        self.composer.refused.connect(self._tell_refused)
        self.composer.too_early.connect(lambda words: self.notice.tell(words, kind=_TOO_EARLY))
        self.composer.text.textChanged.connect(self._forget_refused)
        self._set_keys()
        self._dialog: QMessageBox | None = None
        self.header.installEventFilter(self)
        self.composer.setFocus()

    def _conversation(self) -> QWidget:
        """Notice, messages and composer; the last two in one column."""
        writing = QWidget()
        writing.setMaximumWidth(COLUMN_WIDTH)
        below = QVBoxLayout(writing)
        below.setContentsMargins(0, 0, 0, 0)
        below.setSpacing(2 * UNIT)
        below.addWidget(self.composer)
        below.addWidget(self.status)
        bar = self.transcript.verticalScrollBar()
        row = QHBoxLayout()
        row.setContentsMargins(_ASIDE, 2 * UNIT, _ASIDE + SCROLL_BAR, 3 * UNIT)
        row.addStretch(1)
        row.addWidget(writing, 10_000)  # no pixel is left for the two beside it
        row.addStretch(1)
        # The bar's room is kept free also without it, so that the column never moves.
        self.transcript.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        bar.setEnabled(False)
        bar.rangeChanged.connect(self._on_range_changed)
        chat = QWidget()
        column = QVBoxLayout(chat)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.notice)
        column.addWidget(self.temporary)
        column.addWidget(self.find_bar)
        column.addWidget(self.transcript, 1)
        column.addLayout(row)
        return chat

    @Slot(int, int)
    def _on_range_changed(self, least: int, most: int) -> None:
        self.transcript.verticalScrollBar().setEnabled(most > least)

    def _set_keys(self) -> None:
        own: dict[str, Callable[[], object]] = {
            "sidebar": self.header.sidebar.click,
            "panel": self.header.panel.click,
            "stop": self.stop_requested.emit,
            "focus_message": self.make_room,
            "rename_chat": self._rename_chat,
            "search": self._search,
            "find": self._find,
            "menu": open_menu_of_focus,
            "find_next": lambda: self._step_find(1),
            "find_previous": lambda: self._step_find(-1),
            "quit": self.close,
        }
        self.shortcuts: dict[str, QShortcut] = {}
        for key in KEYS:
            if key.listed_only:
                continue
            action = own.get(key.name, lambda name=key.name: self.key_pressed.emit(name))
            sequences = [QKeySequence(keys) for keys in (key.sequence, *key.others)]
            shortcut = QShortcut(self)
            shortcut.activated.connect(action)
            shortcut.setKeys(sequences)
            self.shortcuts[key.name] = shortcut

    def _rename_chat(self) -> None:
        self.header.sidebar.setChecked(True)
        self.sidebar.list.rename_open()

    def _find(self) -> None:
        self.page.make_room()
        self.find_bar.open()

    def _step_find(self, step: int) -> None:
        if self.find_bar.isHidden():
            self._find()
        else:
            self.find_bar.step(step)

    def _search(self) -> None:
        self.header.sidebar.setChecked(True)
        self.sidebar.search()

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw all icons anew in the theme's colours."""
        above = (self.sidebar, self.header, self.notice, self.find_bar)
        for view in (*above, self.transcript, self.composer, self.panel):
            view.recolour(colours)

    def show_bars(self, *, sidebar: bool, panel: bool) -> None:
        """Which of the two bars are wanted where there is room for them."""
        self.page.show_bars(sidebar=sidebar, panel=panel)

    @Slot()
    def make_room(self) -> None:
        """Something is to be done in the conversation."""
        self.page.make_room()
        self.composer.setFocus()

    @Slot(object)
    def tell(self, failure: Failure) -> None:
        """Say what went wrong in a line above the conversation; the program goes on."""
        self.notice.tell(f"{failure.what} {failure.remedy}".strip())

    @Slot(object)
    def tell_not_kept(self, failure: Failure) -> None:
        """Say that chats are not being written to the disk."""
        self.notice.tell(f"{failure.what} {failure.remedy}".strip(), kind=_NOT_KEPT)

    @Slot()
    def forget_not_kept(self) -> None:
        """They are again, also what was not."""
        self.notice.withdraw(_NOT_KEPT)

    @Slot(object)
    def tell_settings(self, failure: Failure) -> None:
        """Say that settings are not being written to the disk."""
        self.notice.tell(f"{failure.what} {failure.remedy}".strip(), kind=_SETTINGS)

    @Slot()
    def forget_settings(self) -> None:
        """They are again."""
        self.notice.withdraw(_SETTINGS)

    @Slot(object)
    def tell_no_model(self, failure: Failure) -> None:
        """Say why there is no model, and offer to try again."""
        if failure.details:
            self.show_bug(failure)
        words = f"{failure.what} {failure.remedy}".strip()
        self.notice.tell(words, self.tr("Try again"), self.load_requested.emit, kind=_NO_MODEL)

    def tell_deleted(self, chat_id: int, title: str, undo: Callable[[], None]) -> None:
        """Say that a chat was deleted, and offer to bring it back."""
        name = title or self.tr("New chat")
        words = self.tr("“%1” was deleted.").replace("%1", name)
        self.notice.tell(words, self.tr("Undo"), undo, kind=f"{_DELETED} {chat_id}")

    def tell_archived(self, chat_id: int, title: str, undo: Callable[[], None]) -> None:
        """Say that a chat was put out of the way, and offer to put it back."""
        name = title or self.tr("New chat")
        words = self.tr("“%1” is in the archive now.").replace("%1", name)
        self.notice.tell(words, self.tr("Undo"), undo, kind=f"{_DELETED} {chat_id}")

    def tell_temporary_left(self, undo: Callable[[], None]) -> None:
        """Say that a temporary chat was closed, and offer to open it again."""
        words = self.tr("The temporary chat was closed. When the program ends, it is gone.")
        self.notice.tell(words, self.tr("Open it again"), undo, kind=_TEMPORARY)

    @Slot(str)
    def tell_transfer(self, words: str) -> None:
        """Say what became of an export or import."""
        self.notice.tell(words, kind=_TRANSFER)

    def tell_backup(self, backup: ShownBackup, restore: Callable[[], None]) -> None:
        """Say that the chats of a file that is damaged can be had from a backup."""
        words = self.tr("There is a backup of your chats of %1.").replace("%1", day(backup.when))
        self.notice.tell(words, self.tr("Bring them back"), restore)

    def show_temporary(self, temporary: bool) -> None:
        """Whether the open chat is one that is never written to the disk."""
        self.temporary.setVisible(temporary)

    def tell_messages_deleted(self, first: int, count: int, undo: Callable[[], None]) -> None:
        """Say that messages were deleted, and offer to bring them back."""
        words = self.tr("The message was deleted.")
        if count > 1:
            words = self.tr("%1 messages were deleted.").replace("%1", whole(count))
        self.notice.tell(words, self.tr("Undo"), undo, kind=f"{_DELETED} {first}")

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
    def forget_too_early(self) -> None:
        """What was under way is over, or another chat is open."""
        self.notice.withdraw(_TOO_EARLY)

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

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter presses the button in focus."""
        button = pressed_by_enter(event)
        if button is not None:
            button.click()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The composer takes at most a third, a notice a quarter."""
        super().resizeEvent(event)
        self.composer.set_greatest_height(self.height() // 3)
        self.notice.set_greatest_height(self.height() // 4)

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
