"""The folder of backups: which of its files are ours, and how one comes to be there whole."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

_NAME = re.compile(r"chats-([0-9]{4}-[0-9]{2}-[0-9]{2})\.db")
_UNFINISHED = re.compile(_NAME.pattern + r"\.part(-wal|-shm|-journal)?")
_COUNTERS = (slice(24, 28), slice(92, 100))  # of a file's header: how often it was written
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup; `when` it was made is in seconds since 1970."""

    path: Path
    when: float
    bytes: int


def backups_in(folder: Path) -> list[Backup]:
    """The backups there, newest first. Raises OSError."""
    if not folder.exists():
        return []
    backups = []
    for entry in os.scandir(folder):
        path = folder / entry.name
        if entry.is_file(follow_symlinks=False) and _is_ours(path):
            facts = entry.stat(follow_symlinks=False)
            backups.append(Backup(path, _when(path, facts.st_mtime), facts.st_size))
    return sorted(backups, key=lambda backup: backup.path.name, reverse=True)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The name of a file to make beside `path`, which is gone afterwards, whatever happens."""
    part = path.with_name(path.name + ".part")
    try:
        yield part
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                part.with_name(part.name + ending).unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """What was left when the program was killed."""
    if folder.exists():
        for name in os.listdir(folder):
            if _UNFINISHED.fullmatch(name):
                (folder / name).unlink(missing_ok=True)


def put(part: Path, path: Path) -> None:
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


def same(part: Path, other: Path) -> bool:
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
        day_of(path)
    except ValueError:
        return False
    return True


def day_of(path: Path) -> date:
    """The day in a backup's name. Raises ValueError if it is none of ours."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        raise ValueError("not the name of a backup")
    return date.fromisoformat(found[1])


def _when(path: Path, changed: float) -> float:
    """When the backup was made: as the file says, unless it was copied on another day."""
    day = day_of(path)
    with suppress(OverflowError, ValueError, OSError):
        if datetime.fromtimestamp(changed).date() == day:
            return changed
    try:
        return datetime(day.year, day.month, day.day).timestamp()
    except (OverflowError, ValueError, OSError):  # a day that the system's clock does not know
        return 0.0
