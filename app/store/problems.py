"""What can go wrong with the file of chats, in plain sentences."""

import sqlite3
from pathlib import Path

from app.ui.states import Failure

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_REFUSED = {
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH),
}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_OTHERS = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM}

_LOST = "so what you write now is lost when you close the window."
_WAITING = "so the latest messages are not saved yet."
_AGAIN = "then start Smoldesk again."
_TRYING = "Smoldesk keeps them meanwhile and tries again."


Problem = sqlite3.Error | OSError | MemoryError


def is_of_the_world(error: Problem) -> bool:
    """Whether the computer is at fault (a full disk, a lock, …) and not what is in the file."""
    return _code(error) in _BUSY | _REFUSED | _OTHERS


def is_damage(error: Problem) -> bool:
    """Whether the file is not, or no longer, what SQLite made of it."""
    return _code(error) in _DAMAGED


def cannot_open(error: Problem, path: Path) -> Failure:
    """Why this session's chats are kept in memory only."""
    what, remedy = _words(error, path)
    return Failure(f"{what}, {_LOST}", f"{remedy}, {_AGAIN}")


def cannot_write(error: Problem, path: Path) -> Failure:
    """Why what was said is not on the disk yet."""
    if is_damage(error):
        return Failure(
            f"The file with your chats was damaged meanwhile, {_WAITING}",
            "Copy what you need from the open chat, then start Smoldesk again: "
            "it keeps the damaged file aside and begins a new one.",
        )
    what, remedy = _words(error, path)
    return Failure(f"{what}, {_WAITING}", f"{remedy}. {_TRYING}")


def cannot_read(error: Problem, path: Path) -> Failure:
    """Why chats are missing from what is shown."""
    if is_damage(error) or not is_of_the_world(error):
        return Failure(
            "The file with your chats is damaged, so some of them cannot be shown.",
            f"Start Smoldesk again: it keeps the damaged file aside and begins a new one. "
            f"If you have an older copy of {path}, you can put it back then.",
        )
    what, remedy = _words(error, path)
    return Failure(f"{what}, so some chats cannot be shown.", f"{remedy}, {_AGAIN}")


def cannot_keep(error: Exception) -> Failure:
    """One message was refused, which only a bug can bring about."""
    return Failure(
        "A message could not be saved because of a fault inside Smoldesk.",
        "Copy it if you need it, and report the fault with the details.",
        f"{type(error).__name__}: {error}",
    )


def newer() -> Failure:
    """The file is from a version of the program to come."""
    return Failure(
        f"Your chats were saved by a newer Smoldesk and cannot be read by this one, {_LOST}",
        "Install the newest Smoldesk to see them again. They have not been touched.",
    )


def cannot_migrate(error: Exception) -> Failure:
    """The file is from an older version, and a bug kept it from becoming one of this version."""
    return Failure(
        f"Your chats could not be made ready for this version of Smoldesk, {_LOST}",
        "They have not been touched: the version from before still opens them. Please report this.",
        f"{type(error).__name__}: {error}",
    )


def set_aside(path: Path, kept: Path) -> Failure:
    """The file could not be used, and a new one was begun in its place."""
    return Failure(
        "The file with your chats is damaged, so Smoldesk has begun a new one.",
        f"The damaged file was kept as {kept}. If you have an older copy of it, close Smoldesk "
        f"and put the copy in place of {path}.",
    )


def cannot_set_aside(path: Path) -> Failure:
    """The file could not be used, nor moved out of the way."""
    return Failure(
        f"The file with your chats is damaged, {_LOST}",
        f"Move {path} to another folder, {_AGAIN}",
    )


def _code(error: Problem) -> int:
    """SQLite's own number for what happened, without its refinements."""
    if isinstance(error, MemoryError):
        return sqlite3.SQLITE_NOMEM
    if isinstance(error, OSError):
        return sqlite3.SQLITE_CANTOPEN
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _words(error: Problem, path: Path) -> tuple[str, str]:
    """What happened, up to its comma, and what to do, up to its full stop."""
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return "The disk is full", f"Free some space where {path.parent} is"
    if code in _BUSY:
        return "Another program is using the file with your chats", f"Close what uses {path}"
    if code in _REFUSED:
        return (
            "The file with your chats cannot be opened or changed",
            f"Check that you may write to the folder {path.parent}",
        )
    if code == sqlite3.SQLITE_NOMEM:
        return "The computer has too little free memory", "Close other programs"
    return (
        "The file with your chats could not be read or written",
        f"Check the disk that holds the folder {path.parent}",
    )
