"""The chats as the window sees them: saving returns at once, reading sees all that was saved."""

import itertools
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.store import problems
from app.store.database import open_database
from app.store.put_log import PutLog, read_left
from app.store.records import (
    CHAT_COLUMNS,
    MESSAGE_COLUMNS,
    REPLY_COLUMNS,
    ChatRecord,
    Forgotten,
    Key,
    MessageRecord,
    Row,
    read_chat,
    read_message,
)
from app.store.search import Hit, find
from app.store.writer import Writer
from app.ui.states import Failure, ReplyStatus

KEEP_DELETED = 30 * 24 * 3600.0  # seconds until what is marked as deleted is deleted for good

_CHATS = f"SELECT {', '.join(CHAT_COLUMNS)} FROM chat WHERE deleted_at IS "
_MESSAGES = (
    f"SELECT {', '.join(f'm.{n}' for n in MESSAGE_COLUMNS)}, "
    f"{', '.join(f'r.{n}' for n in REPLY_COLUMNS)} "
    "FROM message AS m LEFT JOIN reply AS r ON r.message_id = m.id WHERE "
)
# The statuses are written out, so that SQLite can use the index of these few.
_UNFINISHED = (
    f"{_MESSAGES} m.id IN (SELECT message_id FROM reply WHERE status IN ('waiting', 'streaming'))"
)
_RUNNING = {ReplyStatus.WAITING.value, ReplyStatus.STREAMING.value}
_OLD = "SELECT id FROM chat WHERE deleted_at IS NOT NULL AND deleted_at < ?"


class ChatStore:
    """Chats and their messages in the file at `path`.

    If the file cannot be used, the chats are kept in memory, and `problem` says so. `on_problem` is
    told what goes wrong later, once until it is over: what could not be written from the thread
    that writes, what could not be read from the caller's.
    """

    def __init__(self, path: Path, *, on_problem: Callable[[Failure | None], None]) -> None:
        self._path = path
        self._on_problem = on_problem
        self._database = open_database(path)
        self._sound = True  # as far as is known
        self._told = False
        self._closed = False
        left = self._take_up()
        self._ids = itertools.count(max([self._database.last_id, *(id for _, id in left)]) + 1)
        self._clear_up(besides=left)

    @property
    def problem(self) -> Failure | None:
        """What the user should know about the opening of the file."""
        return self._database.problem

    @property
    def begun_anew(self) -> bool:
        """Whether the file was damaged, so that there are no chats but those of backups."""
        return self._database.begun_anew

    def chats(self, *, deleted: bool = False) -> list[ChatRecord]:
        """All chats but deleted ones, or these; the most recently updated first."""
        unwritten, forgotten = self._writer.unwritten()  # first: what is written now is read then
        query = _CHATS + ("NOT NULL" if deleted else "NULL")
        chats = {row[0]: read_chat(row) for row in self._read(query)}
        for (_, number), change in unwritten.items():
            if isinstance(change, ChatRecord):
                chats[number] = change
        shown = (
            chat
            for chat in chats.values()
            if (chat.deleted_at is not None) is deleted and chat.id not in forgotten
        )
        return sorted(shown, key=lambda chat: (chat.updated_at, chat.id), reverse=True)

    def messages(self, chat_id: int) -> list[MessageRecord]:
        """The messages of a chat but deleted ones, in the order of their ids."""
        unwritten, forgotten = self._writer.unwritten()
        if chat_id in forgotten:
            return []
        rows = self._read(f"{_MESSAGES} m.chat_id = ? AND m.deleted_at IS NULL", (chat_id,))
        messages = {row[0]: read_message(row) for row in rows}
        for (_, number), change in unwritten.items():
            if isinstance(change, MessageRecord) and change.chat_id == chat_id:
                messages[number] = change
        shown = (message for message in messages.values() if message.deleted_at is None)
        return sorted(shown, key=lambda message: message.id)

    def search(self, text: str, *, limit: int) -> list[Hit]:
        """The newest messages with these words, of those that are on the disk; on any thread."""
        try:
            return find(self._database.searcher, text, limit=limit)
        except sqlite3.DatabaseError:  # which is told where chats are read
            return []

    def next_id(self) -> int:
        """An id that no chat and no message in this file has or had."""
        return next(self._ids)

    def save_chat(self, chat: ChatRecord) -> None:
        """Keep this state of the chat; returns at once."""
        self._writer.put(("chat", chat.id), chat)

    def save_message(self, message: MessageRecord) -> None:
        """Keep this state of the message; returns at once. Its chat and parent are saved before."""
        self._writer.put(("message", message.id), message)

    def forget_chat(self, chat_id: int) -> None:
        """Delete a chat and its messages for good; later states of them are not kept either."""
        self._writer.forget(chat_id)

    def flush(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; whether all that was saved is on the disk."""
        return self._writer.flush(timeout)

    def close(self, timeout: float) -> bool:
        """Write what waits and let go of the file; whether all that was saved is on the disk.

        What could not be written by now is tried once more, and then given up.
        """
        if self._closed:
            return self._writer.flush(0)
        if not self._writer.stop(timeout):
            return False  # a write hangs, and the connections with it
        self._closed = True
        self._database.close(sound=self._sound and not self._writer.found_damage)
        return self._writer.flush(0)

    def _read(self, query: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows, or those before the first that cannot be read: then that is said, once."""
        rows: list[Row] = []
        try:
            for row in self._database.reader.execute(query, values):
                rows.append(row)  # list() would lose those read so far
        except sqlite3.ProgrammingError:  # a closed store
            raise
        except sqlite3.DatabaseError as error:
            self._sound = self._sound and problems.is_of_the_world(error)
            if not self._told:
                self._told = True
                self._on_problem(problems.cannot_read(error, self._path))
        return rows

    def _take_up(self) -> set[Key]:
        """Begin to write, first what an earlier session put and could not write; of what it was."""
        path, number = self._database.put_log, self._database.number
        if path is None:
            self._writer = Writer(self._database.writer, self._path, self._on_problem)
            return set()
        left = read_left(path, number)
        self._writer = Writer(
            self._database.writer,
            self._path,
            self._on_problem,
            PutLog(path, left.size),
            left.number,
        )
        for key, change in left.changes:
            if isinstance(change, Forgotten):
                self._writer.forget(key[1])
            else:
                self._writer.put(
                    key, _ended(change) if isinstance(change, MessageRecord) else change
                )
        return {key for key, _ in left.changes}

    def _clear_up(self, besides: set[Key]) -> None:
        """End the replies of an earlier session, and delete what was deleted long ago."""
        for row in self._read(_UNFINISHED):
            message = read_message(row)
            if ("message", message.id) not in besides:
                self.save_message(_ended(message))
        for (chat_id,) in self._read(_OLD, (time.time() - KEEP_DELETED,)):
            self.forget_chat(chat_id)


def _ended(message: MessageRecord) -> MessageRecord:
    """The message; a reply that was under way is one that was interrupted."""
    reply = message.reply
    if reply is None or reply.status not in _RUNNING:
        return message
    return replace(message, reply=replace(reply, status=ReplyStatus.INTERRUPTED.value))
