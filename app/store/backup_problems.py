"""What can go wrong with backups, in plain sentences."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.store import problems
from app.store.connections import DamagedError, MigrationError
from app.ui.states import Failure


class BackupError(Exception):
    """A backup could not be made, read or changed; `failure` says why in plain words."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.what)
        self.failure = failure


class NewerError(Exception):
    """A file is from a version of the program to come."""


class RestlessError(Exception):
    """A file was held by others, or changed again and again before it was copied."""


@contextmanager
def in_words(what: str, path: Path, *, folder: Path) -> Iterator[None]:
    """Turn what goes wrong with `path`, or with writing to `folder`, into a BackupError."""
    try:
        yield
    except (
        *(OSError, MemoryError, sqlite3.Error, UnicodeDecodeError),
        *(DamagedError, MigrationError, NewerError, RestlessError),
    ) as error:
        why, remedy = _reason(error, path, folder=folder)
        raise BackupError(Failure(f"{what}, because {why}.", remedy)) from error


def _reason(error: Exception, path: Path, *, folder: Path) -> tuple[str, str]:
    code = getattr(error, "sqlite_errorcode", -1) & 0xFF if isinstance(error, sqlite3.Error) else -1
    number = error.errno if isinstance(error, OSError) else None
    if code == sqlite3.SQLITE_FULL or number in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full", f"Free some space where {folder} is."
    if isinstance(error, NewerError):
        return "it was made by a newer Smoldesk", "Install the newest Smoldesk to read it."
    if isinstance(error, RestlessError) or code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
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
