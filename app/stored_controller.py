"""What is not in the list of chats: the archive, the trash, the backups, and the dialog of them."""

from PySide6.QtCore import QObject, Qt, QTimer, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.backup_keeper import BackupKeeper
from app.chat_list_controller import ChatListController
from app.store.chats import KEEP_DELETED
from app.store.records import ChatRecord, MessageRecord
from app.ui.states import Failure, ShownBackup, StoredChat

_FIRST_BACKUP = 60_000  # ms after the start, when there is nothing else to do any more
_LOOK_AGAIN = 3_600_000  # ms


class StoredController(QObject):
    """Keeps a backup of each day, and brings back what is not in the list."""

    failed = Signal(object)  # Failure
    brought_back = Signal(int)  # chats out of a backup
    newest_offered = Signal(object)  # ShownBackup
    _backups_listed = Signal(object)  # list[ShownBackup]
    _chats_changed = Signal(object, object)  # archive and trash: list[StoredChat] each

    def __init__(self, chats: ChatListController, keeper: BackupKeeper, *, parent: QObject) -> None:
        super().__init__(parent)
        self._chats = chats
        self._keeper = keeper
        self._present: set[float] = set()  # when the chats were made that are here
        self._found = 0
        queued = Qt.ConnectionType.QueuedConnection
        keeper.listed.connect(self._on_listed, queued)
        keeper.chat_read.connect(self._on_chat_read, queued)
        keeper.all_read.connect(self._on_all_read, queued)
        keeper.forgotten.connect(self._on_forgotten, queued)
        keeper.failed.connect(self._on_failed, queued)
        chats.chats_changed.connect(self._tell)
        chats.trash_changed.connect(self._tell)
        self._timer = QTimer(self, interval=_LOOK_AGAIN)
        self._timer.timeout.connect(keeper.back_up)
        QTimer.singleShot(_FIRST_BACKUP, self, keeper.back_up)
        self._timer.start()
        self._dialog_open = False
        self._offering = False

    def look_for_newest(self) -> None:
        """After a damaged file was set aside: offer what there is a backup of."""
        self._offering = True
        self._keeper.tell()

    def show(self, window: QWidget) -> QWidget:
        """Open the dialog."""
        from app.ui.dialogs.stored_dialog import StoredDialog  # as rarely used as slow to import

        dialog = StoredDialog(window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open_requested.connect(self._chats.open_chat)
        dialog.open_requested.connect(dialog.accept)
        dialog.unarchive_requested.connect(self._unarchive)
        dialog.restore_requested.connect(self._restore)
        dialog.forget_requested.connect(self.forget)
        dialog.backup_requested.connect(self._keeper.back_up)
        dialog.bring_back_requested.connect(self.bring_back)
        self._chats_changed.connect(dialog.show_chats)
        self._backups_listed.connect(dialog.show_backups)
        self.brought_back.connect(dialog.show_brought_back)
        self.failed.connect(dialog.show_failure)
        dialog.finished.connect(self._on_closed)
        self._dialog_open = True
        self._tell()
        self._keeper.tell()
        dialog.open()
        return dialog

    @Slot(object)
    def forget(self, chat_ids: list[int]) -> None:
        """Delete chats of the trash for ever, out of the backups, too."""
        self._chats.forget(chat_ids)
        self._keeper.forget(chat_ids)

    @Slot(str)
    def bring_back(self, backup: str) -> None:
        """Add the chats of a backup that are no longer here; what is here stays as it is."""
        library = self._chats.library
        here = [*library.records(), *library.records(archived=True), *library.deleted()]
        self._present = {_made(record) for record in here}
        self._found = 0
        self._keeper.read(backup)

    @Slot(object)
    def _unarchive(self, chat_ids: list[int]) -> None:
        for chat_id in chat_ids:
            self._chats.archive(chat_id, False)

    @Slot(object)
    def _restore(self, chat_ids: list[int]) -> None:
        for chat_id in chat_ids:
            self._chats.library.restore(chat_id)
        self._chats.tell()

    @Slot(object)
    def _on_listed(self, backups: list[ShownBackup]) -> None:
        if self._offering and backups:
            self.newest_offered.emit(backups[0])
        self._offering = False
        self._backups_listed.emit(backups)

    @Slot(object, object)
    def _on_chat_read(self, chat: ChatRecord, messages: list[MessageRecord]) -> None:
        if chat.deleted_at is None and _made(chat) not in self._present:
            kept = [message for message in messages if message.deleted_at is None]
            self._chats.library.add(chat, kept)
            self._found += 1

    @Slot()
    def _on_all_read(self) -> None:
        self._chats.tell()
        self.brought_back.emit(self._found)

    @Slot(object)
    def _on_forgotten(self, chat_ids: list[int]) -> None:
        """Once more: a backup that was being made kept what is deleted in SQLite's log."""
        for chat_id in chat_ids:
            self._chats.library.store.forget_chat(chat_id)

    @Slot(object)
    def _on_failed(self, failure: Failure) -> None:
        self.failed.emit(failure)

    @Slot()
    def _on_closed(self) -> None:
        self._dialog_open = False

    @Slot()
    def _tell(self) -> None:
        if not self._dialog_open:
            return
        library = self._chats.library
        archive = [
            StoredChat(record.id, record.title, record.updated_at)
            for record in library.records(archived=True)
        ]
        trash = [
            StoredChat(record.id, record.title, (record.deleted_at or 0.0) + KEEP_DELETED)
            for record in library.deleted()
        ]
        self._chats_changed.emit(archive, trash)


def _made(record: ChatRecord) -> float:
    """When a chat was made, which tells it from all others; it keeps that under another id."""
    return record.created_at or -float(record.id)
