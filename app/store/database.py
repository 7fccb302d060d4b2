"""Opens the file of chats: new, old, damaged, from a newer version, or not to be had at all.

Opening never raises for what the world or a file may hold: where there is no file to write to,
the same tables are in memory, and `problem` says so.
"""

import contextlib
import errno
import os
import sqlite3
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from app.store import connections, problems
from app.ui.states import Failure

PUT_LOG = "-unwritten"  # ends the name of the file beside it

_MAGIC = b"SQLite format 3\0"

_LAST_ID = """
    SELECT max(coalesce((SELECT max(seq) FROM sqlite_sequence), 0),
        coalesce((SELECT max(id) FROM chat), 0), coalesce((SELECT max(id) FROM message), 0))
"""

# Database's first fields.
Opened = tuple[sqlite3.Connection, sqlite3.Connection, sqlite3.Connection, int, int]


@dataclass(frozen=True, slots=True)
class Database:
    """An open database: three connections, or thrice the same one if it is in memory.

    Its `marker`, a file, is there for as long as it is open: one that is found at opening tells of
    a session that came to no proper end.
    """

    writer: sqlite3.Connection
    reader: sqlite3.Connection
    searcher: sqlite3.Connection
    last_id: int  # the highest that a chat or message has or had
    number: int = 0  # of what was put, the last that is in it (see put_log.py)
    marker: Path | None = None
    put_log: Path | None = None
    problem: Failure | None = None
    begun_anew: bool = False  # because the file was damaged

    def close(self, *, sound: bool) -> None:
        """Let go of the file; one that is not `sound` is looked through at the next opening."""
        for connection in (self.reader, self.searcher):
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        with contextlib.suppress(sqlite3.Error):
            self.writer.close()  # the last connection: SQLite takes the log into the file
        if sound and self.marker is not None:
            with contextlib.suppress(OSError):
                self.marker.unlink(missing_ok=True)


def open_database(path: Path) -> Database:
    """The chats at `path`, brought up to this version; see `Database.problem` for what was wrong.

    A damaged file is set aside, and a new one begun. One from a newer version is not touched.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _version_of(path) > len(connections.MIGRATIONS):
            return Database(*_in_memory(), problem=problems.newer())
        marker, found = _mark(path)
        return Database(
            *_connect_both(path, check=found), marker=marker, put_log=_beside(path, PUT_LOG)
        )
    except OSError as error:
        return Database(*_in_memory(copy_of=path), problem=problems.cannot_open(error, path))
    except connections.MigrationError as error:
        return Database(*_in_memory(), problem=problems.cannot_migrate(error))
    except (
        connections.DamagedError,
        sqlite3.Error,
        UnicodeDecodeError,
    ) as error:  # the last: of a schema
        if isinstance(error, sqlite3.Error) and problems.is_of_the_world(error):
            return Database(*_in_memory(copy_of=path), problem=problems.cannot_open(error, path))
    return _begin_anew(path)


def _begin_anew(path: Path) -> Database:
    """Set the damaged file aside, whole, and begin a new one."""
    try:
        kept = _set_aside(path)
    except OSError:
        return Database(*_in_memory(), problem=problems.cannot_set_aside(path))
    try:
        marker, _ = _mark(path)
        connections = _connect_both(path, check=False)
    except (OSError, sqlite3.Error) as error:
        words = problems.cannot_open(error, path)
        aside = f"The file from before was damaged and kept as {kept}. {words.remedy}"
        return Database(*_in_memory(), problem=replace(words, remedy=aside))
    problem = problems.set_aside(path, kept)
    return Database(
        *connections,
        marker=marker,
        put_log=_beside(path, PUT_LOG),
        problem=problem,
        begun_anew=True,
    )


def _version_of(path: Path) -> int:
    """The version of the file, which is not touched; 0 if it is yet to be written."""
    try:
        with path.open("rb") as file:
            header, size = file.read(100), os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return 0
    if not header:
        return 0
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise connections.DamagedError
    if _beside(path, "-wal").exists():  # it may hold a newer header
        with contextlib.closing(connections.connect(connections.address(path, "mode=ro"))) as peek:
            return int(peek.execute("PRAGMA user_version").fetchone()[0])
    if size % max(int.from_bytes(header[16:18], "big"), 256):  # pages are whole; 1 stands for 65536
        raise connections.DamagedError
    return int.from_bytes(header[60:64], "big", signed=True)


def _mark(path: Path) -> tuple[Path, bool]:
    """Leave a mark that the file is open; says whether one was there already.

    Raises PermissionError if nothing may be written there.
    """
    marker = _beside(path, "-open")
    found = marker.exists()
    try:
        marker.touch()
    except OSError as error:
        if isinstance(error, PermissionError) or error.errno == errno.EROFS:
            raise
    return marker, found


def _connect_both(path: Path, *, check: bool) -> Opened:
    # For its owner only, in whatever folder it is; SQLite makes its other files like this one.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    with contextlib.ExitStack() as on_error:
        writer = on_error.enter_context(
            contextlib.closing(connections.connect(connections.address(path, "mode=rwc")))
        )
        if check and writer.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise connections.DamagedError
        version = connections.known_version(writer)
        if writer.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            writer.execute("PRAGMA journal_mode = WAL")  # some network drives cannot: no matter
        connections.prepare(writer, version)
        reader = on_error.enter_context(
            contextlib.closing(connections.connect(connections.address(path, "mode=ro")))
        )
        searcher = on_error.enter_context(
            contextlib.closing(connections.connect(connections.address(path, "mode=ro")))
        )
        last_id, number = _last_id(reader), _number(reader)
        on_error.pop_all()
    return writer, reader, searcher, last_id, number


def _in_memory(copy_of: Path | None = None) -> Opened:
    """The same tables without a file, with what can be read of one that cannot be written."""
    if copy_of is not None:
        with contextlib.suppress(
            connections.DamagedError, connections.MigrationError, sqlite3.Error
        ):
            with contextlib.ExitStack() as on_error:
                memory = on_error.enter_context(contextlib.closing(connections.connect(":memory:")))
                _copy(copy_of, memory)
                connections.prepare(memory, connections.known_version(memory))
                last_id = _last_id(memory)
                on_error.pop_all()
            return memory, memory, memory, last_id, 0
    memory = connections.connect(":memory:")
    connections.prepare(memory, 0)
    return memory, memory, memory, 0, 0


def _copy(path: Path, memory: sqlite3.Connection) -> None:
    # "immutable": SQLite makes no file beside this one, which it could not do here.
    with contextlib.closing(
        connections.connect(connections.address(path, "mode=ro&immutable=1"))
    ) as source:
        source.backup(memory)
    if memory.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise connections.DamagedError


def _last_id(reader: sqlite3.Connection) -> int:
    """The highest id so far. Raises if the tables are not there."""
    reader.execute("SELECT 1 FROM reply LIMIT 1").fetchone()
    return int(reader.execute(_LAST_ID).fetchone()[0])


def _number(reader: sqlite3.Connection) -> int:
    row = reader.execute("SELECT number FROM written").fetchone()
    return int(row[0]) if row and isinstance(row[0], int) else 0


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _set_aside(path: Path) -> Path:
    """Rename the file and what belongs to it; the new name of the file."""
    names = (path.with_name(f"{path.stem}.damaged-{n}{path.suffix}") for n in count(1))
    kept = next(name for name in names if not name.exists())
    # The log first: were it left beside a new file, SQLite could take it for the log of that one.
    for ending in (PUT_LOG, "-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            os.replace(_beside(path, ending), _beside(kept, ending))
    return kept
