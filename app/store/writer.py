"""The one thread that writes: what is put is written soon, in its order, and never lost on failure.

Invariant: what was put is in `_pending`, in `_taken` or on the disk.
"""

import contextlib
import sqlite3
import struct
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from app.store import problems
from app.store.put_log import PutLog
from app.store.records import (
    CHAT_COLUMNS,
    MESSAGE_COLUMNS,
    REPLY_COLUMNS,
    Change,
    ChatRecord,
    Forgotten,
    Key,
    MessageRecord,
    chat_row,
    message_row,
    reply_row,
)
from app.ui.states import Failure

RETRY = 1.0  # seconds until what failed is tried again

# What is wrong with a record itself; anything else is wrong with the file or the computer.
_BUGS = (
    *(sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, sqlite3.DataError),
    *(OverflowError, TypeError, ValueError, struct.error),
)


def _upsert(table: str, columns: tuple[str, ...]) -> str:
    key, *others = columns
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT ({key}) DO UPDATE SET {', '.join(f'{n} = excluded.{n}' for n in others)}"
    )


_SAVE_CHAT = _upsert("chat", CHAT_COLUMNS)
_SAVE_MESSAGE = _upsert("message", MESSAGE_COLUMNS)
_SAVE_REPLY = _upsert("reply", REPLY_COLUMNS)
_SAVE_NUMBER = "UPDATE written SET number = ?"
_ORPHAN = "UPDATE message SET parent_id = NULL WHERE chat_id = ?"


class Writer:
    """Writes changes with `connection`, which is its own until `stop` has returned True.

    Each is given a number, after `number`, and noted in the `log`, if any, until it is written.
    `on_problem` is called from the thread: once, and with None when a write has worked again.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        on_problem: Callable[[Failure | None], None],
        log: PutLog | None = None,
        number: int = 0,
    ) -> None:
        self.found_damage = False
        self._connection = connection
        self._path = path
        self._on_problem = on_problem
        self._log = log
        self._number = number  # of what was put last
        self._told = False
        self._changed = threading.Condition()
        self._pending: dict[Key, Change] = {}
        self._taken: dict[Key, Change] = {}
        self._forgotten: set[int] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()

    def put(self, key: Key, record: ChatRecord | MessageRecord) -> None:
        """Have the record written, in the place of an earlier one that still waits."""
        with self._changed:
            if _chat_of(key, record) not in self._forgotten:
                self._add(key, record)

    def forget(self, chat_id: int) -> None:
        """Have a chat and all of its messages deleted for good."""
        with self._changed:
            self._forgotten.add(chat_id)
            self._pending = self._without_forgotten(self._pending.items())
            self._add(("chat", chat_id), Forgotten())

    def unwritten(self) -> tuple[dict[Key, Change], frozenset[int]]:
        """What may not be on the disk yet, newest state of each, and the chats forgotten so far."""
        with self._changed:
            return {**self._taken, **self._pending}, frozenset(self._forgotten)

    def flush(self, timeout: float) -> bool:
        """Wait until nothing waits any more; False if that took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending and not self._taken, timeout)

    def stop(self, timeout: float) -> bool:
        """Try once more to write what waits, then end. False if the thread still runs."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._log is not None:
            self._log.close(timeout)
        return True

    def _add(self, key: Key, change: Change) -> None:
        self._pending[key] = change  # a key that is there keeps its place
        self._number += 1
        if self._log is not None:
            self._log.append(self._number, key, change)
        self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._stopping)
                if not self._pending:
                    return
                last = self._stopping
                self._taken, self._pending = self._pending, {}
                number = self._number
            problem = self._write(self._taken, number)
            with self._changed:
                if problem is not None:
                    # What is newer stays; what was taken goes back to its place before that.
                    back = {**self._taken, **self._pending}
                    self._pending = self._without_forgotten(back.items())
                self._taken = {}
                if not self._pending and self._log is not None:
                    self._log.clear()
                self._changed.notify_all()
            self._tell(problem)
            if problem is not None:
                if last:
                    return
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, RETRY)

    def _tell(self, problem: Failure | None) -> None:
        if problem is not None and not self._told:
            self._on_problem(problem)
        elif problem is None and self._told:
            self._on_problem(None)
        self._told = problem is not None

    def _write(self, changes: dict[Key, Change], number: int) -> Failure | None:
        """Write all up to that number in one transaction, or nothing and say why."""
        refused: list[Exception] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for (_, each), change in changes.items():
                try:
                    self._write_one(each, change)
                except _BUGS as bug:  # of one record: the others must not wait for it for ever
                    refused.append(bug)
            self._connection.execute(_SAVE_NUMBER, (number,))
            self._connection.execute("COMMIT")
        except (sqlite3.Error, MemoryError) as error:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            self.found_damage = self.found_damage or problems.is_damage(error)
            return problems.cannot_write(error, self._path)
        if any(isinstance(change, Forgotten) for change in changes.values()):
            with contextlib.suppress(sqlite3.Error):  # the words are in the index and the log, too
                self._connection.execute("INSERT INTO search (search) VALUES ('optimize')")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for fault in refused:
            self._on_problem(problems.cannot_keep(fault))
        return None

    def _write_one(self, number: int, change: Change) -> None:
        if isinstance(change, ChatRecord):
            self._connection.execute(_SAVE_CHAT, chat_row(change))
        elif isinstance(change, MessageRecord):
            self._connection.execute(_SAVE_MESSAGE, message_row(change))
            if change.reply is not None:
                self._connection.execute(_SAVE_REPLY, reply_row(number, change.reply))
        else:
            # Not from parent to child to child: SQLite follows no more than 1,000 of them.
            self._connection.execute(_ORPHAN, (number,))
            self._connection.execute("DELETE FROM chat WHERE id = ?", (number,))

    def _without_forgotten(self, changes: Iterable[tuple[Key, Change]]) -> dict[Key, Change]:
        return {
            key: change
            for key, change in changes
            if isinstance(change, Forgotten) or _chat_of(key, change) not in self._forgotten
        }


def _chat_of(key: Key, record: ChatRecord | MessageRecord) -> int:
    return record.chat_id if isinstance(record, MessageRecord) else key[1]
