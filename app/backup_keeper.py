"""Makes, reads and changes backups, on a thread of its own."""

import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal, Slot

from app.store import backups
from app.store.backups import BackupError
from app.ui.states import ShownBackup


class BackupKeeper(QObject):
    """Does one thing after the other, in the order they were asked for by the window's thread."""

    listed = Signal(object)  # list[ShownBackup], the newest first
    chat_read = Signal(object, object)  # ChatRecord, list[MessageRecord]: of a backup
    all_read = Signal()
    forgotten = Signal(object)  # list[int]: chats that are in no backup any more
    failed = Signal(object)  # Failure
    _requested = Signal(object)

    def __init__(self, database: Path, folder: Path) -> None:
        super().__init__()
        self._database, self._folder = database, folder
        self._requested.connect(self._do, Qt.ConnectionType.QueuedConnection)

    def back_up(self) -> None:
        """Make today's backup, if there is none, and thin out the old ones."""
        self._requested.emit(self._back_up)

    def tell(self) -> None:
        """Say which backups there are."""
        self._requested.emit(self._tell)

    def read(self, backup: str) -> None:
        """Say which chats are in that backup, one by one."""
        self._requested.emit(lambda: self._read(Path(backup)))

    def forget(self, chat_ids: list[int]) -> None:
        """Delete these chats from all backups."""
        self._requested.emit(lambda: self._forget(chat_ids))

    @Slot(object)
    def _do(self, action: Callable[[], None]) -> None:
        try:
            action()
        except BackupError as error:
            self.failed.emit(error.failure)

    def _back_up(self) -> None:
        made = backups.back_up(self._database, self._folder, now=time.time())
        if made is not None:
            backups.thin(self._folder, now=time.time())
            self._tell()

    def _forget(self, chat_ids: list[int]) -> None:
        backups.forget_chats(self._folder, chat_ids)
        self.forgotten.emit(chat_ids)

    def _tell(self) -> None:
        found = backups.listed(self._folder)
        self.listed.emit([ShownBackup(str(b.path), b.when, b.bytes) for b in found])

    def _read(self, backup: Path) -> None:
        for chat, messages in backups.chats_of(backup):
            self.chat_read.emit(chat, messages)
        self.all_read.emit()
