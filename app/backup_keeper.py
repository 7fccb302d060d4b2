"""Makes, reads and changes backups, on a thread of its own."""

import time
from pathlib import Path

from PySide6.QtCore import Signal

from app.errands import Errands
from app.store import backups
from app.ui.states import ShownBackup


class BackupKeeper(Errands):
    """Does one thing after the other, in the order they were asked for by the window's thread."""

    listed = Signal(object)  # list[ShownBackup], the newest first
    chat_read = Signal(object, object)  # ChatRecord, list[MessageRecord]: of a backup
    all_read = Signal()
    forgotten = Signal(object)  # list[int]: chats that are in no backup any more

    def __init__(self, database: Path, folder: Path) -> None:
        super().__init__()
        self._database, self._folder = database, folder

    def back_up(self) -> None:
        """Make today's backup, if there is none, and thin out the old ones."""
        self.ask(self._back_up)

    def tell(self) -> None:
        """Say which backups there are."""
        self.ask(self._tell)

    def read(self, backup: str) -> None:
        """Say which chats are in that backup, one by one."""
        self.ask(lambda: self._read(Path(backup)))

    def forget(self, chat_ids: list[int]) -> None:
        """Delete these chats from all backups."""
        self.ask(lambda: self._forget(chat_ids))

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
