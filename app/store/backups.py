"""Copies of the chats made while they are in use: one a day, thinned, there to be restored from.

Invariant: a backup is whole or not there. Only files with our names are touched, never a link.
"""

import os
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing
from datetime import datetime
from itertools import islice
from pathlib import Path

from app.store import connections
from app.store.backup_files import (
    Backup,
    backups_in,
    day_of,
    put,
    remove_unfinished,
    replacing,
    same,
)
from app.store.backup_problems import BackupError, NewerError, RestlessError, in_words
from app.store.connections import DamagedError
from app.store.records import (
    CHAT_COLUMNS,
    MESSAGE_COLUMNS,
    REPLY_COLUMNS,
    ChatRecord,
    MessageRecord,
    read_chat,
    read_message,
)
from app.store.search import add_functions
from app.ui.states import Failure

KEEP_DAYS = 7
KEEP_WEEKS = 8

_STEP = 256  # pages that are copied at once
_REST = 0.005  # seconds between two steps
_ATTEMPTS = 20  # to copy a file that is being changed or held by another program

_CHATS = f"SELECT {', '.join(CHAT_COLUMNS)} FROM chat ORDER BY id"
_MESSAGES = (
    f"SELECT {', '.join(f'm.{n}' for n in MESSAGE_COLUMNS)}, "
    f"{', '.join(f'r.{n}' for n in REPLY_COLUMNS)} "
    "FROM message AS m LEFT JOIN reply AS r ON r.message_id = m.id "
    "WHERE m.chat_id = ? ORDER BY m.id"
)

Prepare = Callable[[sqlite3.Connection], None]
"""Adds to a connection the functions that the tables call."""


def back_up(database: Path, folder: Path, *, now: float) -> Path | None:
    """Copy the chats, which may be in use, to today's file in `folder`, made if need be.

    None if today's is there already, or if the newest one is the same to the byte. Raises
    BackupError. Not to be called while `forget_chats` is at work, which would miss the new one.
    """
    today = datetime.fromtimestamp(now).date()
    path = folder / f"chats-{today}.db"
    with in_words("Your chats could not be backed up", database, folder=folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_unfinished(folder)
        if os.path.lexists(path) or not database.exists():
            return None
        with replacing(path) as part:
            _copy_live(database, part)
            # After a day with a wrong clock, the newest by name is not the one made last.
            backups = listed(folder)
            last = [backup for backup in backups if day_of(backup.path) <= today]
            if any(same(part, backup.path) for backup in (*backups[:1], *last[:1])):
                return None
            put(part, path)
    return path


def thin(folder: Path, *, now: float) -> None:
    """Keep the last 7 backups and the last one of each of the last 8 weeks. Raises BackupError.

    Only weeks and days that have a backup count, so that no leap of the clock deletes many at
    once. What is dated in the future is kept, and does not count.
    """
    today = datetime.fromtimestamp(now).date()
    with in_words("Old backups of your chats could not be deleted", folder, folder=folder):
        past = [backup.path for backup in listed(folder) if day_of(backup.path) <= today]
        newest_of_week: dict[tuple[int, int], Path] = {}
        for path in past:
            year, week, _ = day_of(path).isocalendar()
            newest_of_week.setdefault((year, week), path)
        kept = {*past[:KEEP_DAYS], *islice(newest_of_week.values(), KEEP_WEEKS)}
        for path in past:
            if path not in kept:
                path.unlink(missing_ok=True)


def listed(folder: Path) -> list[Backup]:
    """The backups in the folder, newest first; none if there is no folder. Raises BackupError."""
    with in_words("The backups of your chats could not be listed", folder, folder=folder):
        return backups_in(folder)


def forget_chat(folder: Path, chat_id: int, *, prepare: Prepare = add_functions) -> None:
    """The same as `forget_chats`, for one chat."""
    forget_chats(folder, {chat_id}, prepare=prepare)


def forget_chats(
    folder: Path, chat_ids: Collection[int], *, prepare: Prepare = add_functions
) -> None:
    """Delete these chats from every backup, so that no byte of their words stays in its file.

    A backup that has none of them is left alone; so is, after all others were dealt with, one
    that cannot be changed: then BackupError is raised and names it.
    """
    what = "The backups of your chats could not be changed"
    with in_words(what, folder, folder=folder):
        remove_unfinished(folder)
    failed: dict[Path, Failure] = {}
    for backup in listed(folder):
        try:
            _forget_in(backup.path, chat_ids, prepare)
        except BackupError as error:
            failed[backup.path] = error.failure
    if failed:
        first = next(iter(failed.values()))
        names = ", ".join(str(path) for path in failed)
        raise BackupError(
            Failure(
                f"{first.what} What you deleted for ever may still be there.",
                f"{first.remedy} Or delete yourself what still has it: {names}.",
            )
        )


def chats_of(
    backup: Path, prepare: Prepare = add_functions
) -> Iterator[tuple[ChatRecord, list[MessageRecord]]]:
    """Each chat in a backup with all its messages, deleted ones too, parents before children.

    The file may be of an older version; it is not changed. Raises BackupError, with the first
    chat or with a later one.
    """
    what = f"The backup {backup} could not be read"
    with (
        in_words(what, backup, folder=backup.parent),
        closing(_open_to_read(backup, prepare)) as connection,
    ):
        for row in connection.execute(_CHATS).fetchall():
            messages = connection.execute(_MESSAGES, (row[0],))
            yield read_chat(row), [read_message(message) for message in messages]


def _copy_live(database: Path, part: Path) -> None:
    """Copy the file with its log, step by step, and check the copy."""
    with (
        closing(connections.connect(connections.address(database, "mode=ro"))) as source,
        closing(_open_part(part)) as copy,
    ):
        if source.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            # With a log, a reader that stays keeps nobody from writing. Without one it would:
            # then each step reads for itself, and a change in between begins the copy anew.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        source.backup(copy, pages=_STEP, sleep=_REST, progress=_give_up_in_the_end())
        _check(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file that needs no log beside it


def _give_up_in_the_end() -> Callable[[int, int, int], None]:
    last, in_vain = 1 << 62, 0

    def progressed(_status: int, remaining: int, _total: int) -> None:
        nonlocal last, in_vain
        if remaining >= last:  # a step that was refused, or that began anew
            in_vain += 1
        if in_vain > _ATTEMPTS:
            raise RestlessError
        last = remaining

    return progressed


def _forget_in(path: Path, chat_ids: Collection[int], prepare: Prepare) -> None:
    what = f"The backup {path} could not be changed"
    with in_words(what, path, folder=path.parent), closing(_open_backup(path)) as source:
        known = {chat_id for (chat_id,) in source.execute("SELECT id FROM chat")}
        if known.isdisjoint(chat_ids):
            return
        made = path.stat()
        with replacing(path) as part:
            with closing(_open_part(part)) as copy:
                source.backup(copy)
                _check(copy)
                prepare(copy)
                _delete(copy, known.intersection(chat_ids))
                copy.execute("PRAGMA journal_mode = DELETE")
            os.utime(part, ns=(made.st_atime_ns, made.st_mtime_ns))
            source.close()  # Windows replaces no file that is open
            put(part, path)


def _delete(copy: sqlite3.Connection, chat_ids: Collection[int]) -> None:
    copy.execute("PRAGMA foreign_keys = ON")
    for chat_id in chat_ids:
        # Deleted from parent to child, a long chat would be more than SQLite's depth of cascades.
        copy.execute("UPDATE message SET parent_id = NULL WHERE chat_id = ?", (chat_id,))
        copy.execute("DELETE FROM chat WHERE id = ?", (chat_id,))
    if copy.execute("SELECT 1 FROM sqlite_schema WHERE name = 'search'").fetchone():
        copy.execute("INSERT INTO search (search) VALUES ('optimize')")  # drops words marked so
    copy.execute("VACUUM")


def _open_backup(path: Path) -> sqlite3.Connection:
    # "immutable": SQLite makes no file beside a backup, and none there is taken for its log.
    return connections.connect(connections.address(path, "mode=ro&immutable=1"))


def _open_to_read(backup: Path, prepare: Prepare) -> sqlite3.Connection:
    """The backup itself, or a copy in memory brought up to this version."""
    with ExitStack() as on_error:
        source = on_error.enter_context(closing(_open_backup(backup)))
        prepare(source)
        _check(source)
        version = connections.known_version(source)
        if version == len(connections.MIGRATIONS):
            on_error.pop_all()
            return source
        memory = on_error.enter_context(closing(connections.connect(":memory:")))
        prepare(memory)
        source.backup(memory)
        connections.prepare(memory, version)
        on_error.pop_all()
    source.close()
    return memory


def _open_part(part: Path) -> sqlite3.Connection:
    """A new file, without a journal: it comes out whole or is thrown away."""
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    copy = connections.connect(connections.address(part, "mode=rw"))
    copy.execute("PRAGMA locking_mode = EXCLUSIVE")
    copy.execute("PRAGMA journal_mode = OFF")
    copy.execute("PRAGMA synchronous = OFF")  # `put` sees to that
    return copy


def _check(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone() != (connections.APPLICATION_ID,):
        raise DamagedError
    if connection.execute("PRAGMA user_version").fetchone()[0] > len(connections.MIGRATIONS):
        raise NewerError
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise DamagedError
