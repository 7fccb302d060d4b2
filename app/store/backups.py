"""Copies of the chats made while they are in use: one a day, thinned, there to be restored from.

Invariant: a backup is whole or not there. Only files with our names are touched, never a link.
"""

import errno
import os
import re
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice
from pathlib import Path

from app.store import database as files
from app.store import problems
from app.store.database import APPLICATION_ID, MIGRATIONS
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

_NAME = re.compile(r"chats-([0-9]{4}-[0-9]{2}-[0-9]{2})\.db")
_UNFINISHED = re.compile(_NAME.pattern + r"\.part(-wal|-shm|-journal)?")
_STEP = 256  # pages that are copied at once
_REST = 0.005  # seconds between two steps
_ATTEMPTS = 20  # to copy a file that is being changed or held by another program
_COUNTERS = (slice(24, 28), slice(92, 100))  # of a file's header: how often it was written
_CHUNK = 1 << 20

_CHATS = f"SELECT {', '.join(CHAT_COLUMNS)} FROM chat ORDER BY id"
_MESSAGES = (
    f"SELECT {', '.join(f'm.{n}' for n in MESSAGE_COLUMNS)}, "
    f"{', '.join(f'r.{n}' for n in REPLY_COLUMNS)} "
    "FROM message AS m LEFT JOIN reply AS r ON r.message_id = m.id "
    "WHERE m.chat_id = ? ORDER BY m.id"
)

Prepare = Callable[[sqlite3.Connection], None]
"""Adds to a connection the functions that the tables call."""


class BackupError(Exception):
    """A backup could not be made, read or changed; `failure` says why in plain words."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.what)
        self.failure = failure


class _DamagedError(Exception):
    """A file is none of ours, or no longer."""


class _NewerError(Exception):
    """A file is from a version of the program to come."""


class _RestlessError(Exception):
    """A file was held by others, or changed again and again before it was copied."""


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup; `when` it was made is in seconds since 1970."""

    path: Path
    when: float
    bytes: int


def back_up(database: Path, folder: Path, *, now: float) -> Path | None:
    """Copy the chats, which may be in use, to today's file in `folder`, made if need be.

    None if today's is there already, or if the newest one is the same to the byte. Raises
    BackupError. Not to be called while `forget_chats` is at work, which would miss the new one.
    """
    today = datetime.fromtimestamp(now).date()
    path = folder / f"chats-{today}.db"
    with _in_words("Your chats could not be backed up", database, folder=folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_unfinished(folder)
        if os.path.lexists(path) or not database.exists():
            return None
        with _replacing(path) as part:
            _copy_live(database, part)
            # After a day with a wrong clock, the newest by name is not the one made last.
            backups = listed(folder)
            last = [backup for backup in backups if _day(backup.path) <= today]
            if any(_same(part, backup.path) for backup in (*backups[:1], *last[:1])):
                return None
            _put(part, path)
    return path


def thin(folder: Path, *, now: float) -> None:
    """Keep the last 7 backups and the last one of each of the last 8 weeks. Raises BackupError.

    Only weeks and days that have a backup count, so that no leap of the clock deletes many at
    once. What is dated in the future is kept, and does not count.
    """
    today = datetime.fromtimestamp(now).date()
    with _in_words("Old backups of your chats could not be deleted", folder, folder=folder):
        past = [backup.path for backup in listed(folder) if _day(backup.path) <= today]
        newest_of_week: dict[tuple[int, int], Path] = {}
        for path in past:
            year, week, _ = _day(path).isocalendar()
            newest_of_week.setdefault((year, week), path)
        kept = {*past[:KEEP_DAYS], *islice(newest_of_week.values(), KEEP_WEEKS)}
        for path in past:
            if path not in kept:
                path.unlink(missing_ok=True)


def listed(folder: Path) -> list[Backup]:
    """The backups in the folder, newest first; none if there is no folder. Raises BackupError."""
    backups = []
    with _in_words("The backups of your chats could not be listed", folder, folder=folder):
        if not folder.exists():
            return []
        for entry in os.scandir(folder):
            path = folder / entry.name
            if entry.is_file(follow_symlinks=False) and _is_ours(path):
                facts = entry.stat(follow_symlinks=False)
                backups.append(Backup(path, _when(path, facts.st_mtime), facts.st_size))
    return sorted(backups, key=lambda backup: backup.path.name, reverse=True)


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
    with _in_words(what, folder, folder=folder):
        _remove_unfinished(folder)
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
        _in_words(what, backup, folder=backup.parent),
        closing(_open_to_read(backup, prepare)) as connection,
    ):
        for row in connection.execute(_CHATS).fetchall():
            messages = connection.execute(_MESSAGES, (row[0],))
            yield read_chat(row), [read_message(message) for message in messages]


def _copy_live(database: Path, part: Path) -> None:
    """Copy the file with its log, step by step, and check the copy."""
    with (
        closing(files._connect(files._address(database, "mode=ro"))) as source,
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
            raise _RestlessError
        last = remaining

    return progressed


def _forget_in(path: Path, chat_ids: Collection[int], prepare: Prepare) -> None:
    what = f"The backup {path} could not be changed"
    with _in_words(what, path, folder=path.parent), closing(_open_backup(path)) as source:
        known = {chat_id for (chat_id,) in source.execute("SELECT id FROM chat")}
        if known.isdisjoint(chat_ids):
            return
        made = path.stat()
        with _replacing(path) as part:
            with closing(_open_part(part)) as copy:
                source.backup(copy)
                _check(copy)
                prepare(copy)
                _delete(copy, known.intersection(chat_ids))
                copy.execute("PRAGMA journal_mode = DELETE")
            os.utime(part, ns=(made.st_atime_ns, made.st_mtime_ns))
            source.close()  # Windows replaces no file that is open
            _put(part, path)


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
    return files._connect(files._address(path, "mode=ro&immutable=1"))


def _open_to_read(backup: Path, prepare: Prepare) -> sqlite3.Connection:
    """The backup itself, or a copy in memory brought up to this version."""
    with ExitStack() as on_error:
        source = on_error.enter_context(closing(_open_backup(backup)))
        prepare(source)
        _check(source)
        version = files._known_version(source)
        if version == len(MIGRATIONS):
            on_error.pop_all()
            return source
        memory = on_error.enter_context(closing(files._connect(":memory:")))
        prepare(memory)
        source.backup(memory)
        files._prepare(memory, version)
        on_error.pop_all()
    source.close()
    return memory


def _open_part(part: Path) -> sqlite3.Connection:
    """A new file, without a journal: it comes out whole or is thrown away."""
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    copy = files._connect(files._address(part, "mode=rw"))
    copy.execute("PRAGMA locking_mode = EXCLUSIVE")
    copy.execute("PRAGMA journal_mode = OFF")
    copy.execute("PRAGMA synchronous = OFF")  # `_put` sees to that
    return copy


def _check(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        raise _DamagedError
    if connection.execute("PRAGMA user_version").fetchone()[0] > len(MIGRATIONS):
        raise _NewerError
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise _DamagedError


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """The name of a file to make beside `path`, which is gone afterwards, whatever happens."""
    part = path.with_name(path.name + ".part")
    try:
        yield part
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                part.with_name(part.name + ending).unlink(missing_ok=True)


def _remove_unfinished(folder: Path) -> None:
    """What was left when the program was killed."""
    if folder.exists():
        for name in os.listdir(folder):
            if _UNFINISHED.fullmatch(name):
                (folder / name).unlink(missing_ok=True)


def _put(part: Path, path: Path) -> None:
    """Have the whole file on the disk before it gets its name."""
    with part.open("r+b") as file:
        os.fsync(file.fileno())
    os.replace(part, path)
    if os.name == "posix":
        with suppress(OSError):  # some network drives cannot: no matter
            opened = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)


def _same(part: Path, other: Path) -> bool:
    """Whether two databases are the same but for the count of writings."""
    with part.open("rb") as one, other.open("rb") as two:
        if os.fstat(one.fileno()).st_size != os.fstat(two.fileno()).st_size:
            return False
        headers = bytearray(one.read(100)), bytearray(two.read(100))
        for header in headers:
            for counter in _COUNTERS:
                header[counter] = bytes(len(header[counter]))
        if headers[0] != headers[1]:
            return False
        chunks = iter(lambda: (one.read(_CHUNK), two.read(_CHUNK)), (b"", b""))
        return all(left == right for left, right in chunks)


def _is_ours(path: Path) -> bool:
    try:
        _day(path)
    except ValueError:
        return False
    return True


def _day(path: Path) -> date:
    """The day in a backup's name. Raises ValueError if it is none of ours."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        raise ValueError("not the name of a backup")
    return date.fromisoformat(found[1])


def _when(path: Path, changed: float) -> float:
    """When the backup was made: as the file says, unless it was copied on another day."""
    day = _day(path)
    with suppress(OverflowError, ValueError, OSError):
        if datetime.fromtimestamp(changed).date() == day:
            return changed
    try:
        return datetime(day.year, day.month, day.day).timestamp()
    except (OverflowError, ValueError, OSError):  # a day that the system's clock does not know
        return 0.0


@contextmanager
def _in_words(what: str, path: Path, *, folder: Path) -> Iterator[None]:
    """Turn what goes wrong with `path`, or with writing to `folder`, into a BackupError."""
    try:
        yield
    except (
        *(OSError, MemoryError, sqlite3.Error, UnicodeDecodeError),
        *(_DamagedError, _NewerError, _RestlessError),
        *(files._DamagedError, files._MigrationError),
    ) as error:
        why, remedy = _reason(error, path, folder=folder)
        raise BackupError(Failure(f"{what}, because {why}.", remedy)) from error


def _reason(error: Exception, path: Path, *, folder: Path) -> tuple[str, str]:
    code = getattr(error, "sqlite_errorcode", -1) & 0xFF if isinstance(error, sqlite3.Error) else -1
    number = error.errno if isinstance(error, OSError) else None
    if code == sqlite3.SQLITE_FULL or number in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full", f"Free some space where {folder} is."
    if isinstance(error, _NewerError):
        return "it was made by a newer Smoldesk", "Install the newest Smoldesk to read it."
    if isinstance(error, _RestlessError) or code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{path} was in use all the time", "Close other programs that use it, and try again."
    if isinstance(error, MemoryError) or code == sqlite3.SQLITE_NOMEM:
        return "the computer has too little free memory", "Close other programs, and try again."
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN) or (
        isinstance(error, OSError) and number != errno.EIO
    ):
        return (
            "something there cannot be opened or changed",
            f"Check that {folder} is a folder, and that you may write to it and read {path}.",
        )
    if not isinstance(error, sqlite3.Error | OSError) or not problems.is_of_the_world(error):
        return f"{path} is damaged", "It was left as it is. Use an older backup."
    return "the disk could not be read or written", f"Check the disk that holds {folder}."
