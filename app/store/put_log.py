"""What was put and may not be in the database yet: each record is a line of a file beside it.

A transaction may take long (a slow disk, another program that holds the file). A line outlives the
process at once, without waiting for one, so that a crash costs no more on a slow disk than on a
fast one. Lines are not synced: when the power fails, what the database holds is what is left.

Lines are numbered without gaps, and each transaction says, in the database, up to which number it
has written. So no line is put twice, and no old state over a newer one, whatever is left of the
file.
"""

import contextlib
import json
import os
import queue
import struct
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    read_chat,
    read_message,
    reply_row,
)

_CLEAR, _END = object(), object()
_IDS = REPLY_COLUMNS.index("token_ids")  # bytes, which JSON has not


@dataclass(frozen=True, slots=True)
class Left:
    """What an earlier session left: changes in their order, and the number of the last."""

    changes: list[tuple[Key, Change]]
    number: int
    size: int  # bytes of the file that are to stay until these changes are in the database


class PutLog:
    """Appends to the file at `path`, on a thread of its own, what `append` is given.

    If the file cannot be written there is no log for as long as that lasts: the database, in the
    same folder, has the same trouble then, and says so.
    """

    def __init__(self, path: Path, size: int) -> None:
        """Go on after the first `size` bytes, which are those that `read_left` could read."""
        self._path = path
        self._size = size
        self._steps: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="put log", daemon=True)
        self._thread.start()

    def append(self, number: int, key: Key, change: Change) -> None:
        """Add a line; returns at once."""
        self._steps.put((number, key, change))

    def clear(self) -> None:
        """Empty the file: all that was appended so far is in the database. Returns at once."""
        self._steps.put(_CLEAR)

    def close(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for what was appended. A file that is empty is removed."""
        self._steps.put(_END)
        self._thread.join(timeout)

    def _run(self) -> None:
        size = self._size
        while True:
            try:
                with open(self._path, "ab", buffering=0, opener=_for_its_owner) as file:
                    file.truncate(size)
                    self._follow(file)
                break
            except OSError:
                # A line may be there in part, and none is read after it: wait until none is needed.
                if self._skip() is _END:
                    return
                size = 0
        with contextlib.suppress(OSError):
            if self._path.stat().st_size == 0:
                self._path.unlink()

    def _follow(self, file: Any) -> None:
        while (step := self._steps.get()) is not _END:
            if step is _CLEAR:
                file.truncate(0)
            else:
                _write(file, line(*step))

    def _skip(self) -> object:
        while (step := self._steps.get()) is not _CLEAR and step is not _END:
            pass
        return step


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write(file: Any, whole: bytes) -> None:
    while whole:
        whole = whole[file.write(whole) :]


def line(number: int, key: Key, change: Change) -> bytes:
    """One line of the file: a number, a chat or a message and its reply or a chat's id, as JSON."""
    try:
        text = json.dumps([number, *_values(key, change)], ensure_ascii=False, default=bytes.hex)
    except (TypeError, ValueError, OverflowError, struct.error):  # a bug; the database tells of it
        text = json.dumps([number, "none", 0])
    return text.encode() + b"\n"


def _values(key: Key, change: Change) -> list[Any]:
    if isinstance(change, ChatRecord):
        return ["chat", chat_row(change)]
    if isinstance(change, MessageRecord):
        reply = change.reply
        return ["message", message_row(change), reply and reply_row(change.id, reply)]
    return ["forget", key[1]]


def read_left(path: Path, after: int) -> Left:
    """What follows the line of the number `after`, up to the first fault in the file, if any."""
    changes: list[tuple[Key, Change]] = []
    number, last, size = after, None, 0
    faults = contextlib.suppress(OSError, ValueError, TypeError, LookupError, RecursionError)
    with faults, path.open("rb") as file:
        for each in file:
            found, *values = json.loads(each)
            follows = found == last + 1 if last is not None else _whole(found) <= after + 1
            if not follows or not each.endswith(b"\n"):
                break
            if found > number:
                if values[0] != "none":
                    changes.append(_change(*values))
                number = found
            last, size = found, size + len(each)
    return Left(changes, number, size if changes else 0)


def _change(kind: str, values: Any, reply: Any = None) -> tuple[Key, Change]:
    """Raises ValueError, TypeError or LookupError for what is not ours."""
    if kind == "forget":
        return ("chat", _whole(values)), Forgotten()
    if kind == "chat":
        _check(values, CHAT_COLUMNS)
        chat = read_chat(tuple(values))
        return ("chat", _whole(chat.id)), chat
    if kind != "message":
        raise ValueError(kind)
    _check(values, MESSAGE_COLUMNS)
    if reply is None:
        reply = [None] * len(REPLY_COLUMNS)
    _check(reply, REPLY_COLUMNS)
    if reply[_IDS] is not None:
        reply[_IDS] = bytes.fromhex(reply[_IDS])
    message = read_message((*values, *reply))
    _whole(message.chat_id)
    return ("message", _whole(message.id)), message


def _check(values: Any, columns: tuple[str, ...]) -> None:
    if not isinstance(values, list) or len(values) != len(columns):
        raise ValueError


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 < value < 2**63:
        raise ValueError(value)
    return value
