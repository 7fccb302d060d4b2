"""Connections to files of chats: how one is opened, recognised and brought up to this version."""

import contextlib
import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from app.store import problems
from app.store.search import add_functions

APPLICATION_ID = int.from_bytes(b"SMDk", "big")
PATIENCE = 1.0  # seconds to wait for another program that holds the file

MIGRATIONS = tuple(
    Path(__file__).with_name(name)
    for name in ("schema.sql", "schema_2.sql", "schema_3.sql", "schema_4.sql")
)
"""Scripts; number n leads from version n to n + 1, in one transaction."""


class DamagedError(Exception):
    """The file is none of ours, or no longer."""


class MigrationError(Exception):
    """The file is sound, but a script could not bring it up to this version: a bug."""


def connect(address: str) -> sqlite3.Connection:
    """A connection that any thread may use, one at a time; no transaction begins by itself."""
    connection = sqlite3.connect(
        address, timeout=PATIENCE, isolation_level=None, check_same_thread=False, uri=True
    )
    connection.text_factory = _read_text
    add_functions(connection)
    return connection


def _read_text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")


def address(path: Path, how: str) -> str:
    """The path as SQLite takes it together with a way of opening."""
    text = path.absolute().as_posix()
    return f"file://{'' if text.startswith('/') else '/'}{quote(os.fsencode(text))}?{how}"


def known_version(connection: sqlite3.Connection) -> int:
    """The version of the tables, 0 if there are none yet. Raises if they are not ours."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    known = connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    if not 0 <= version <= len(MIGRATIONS) or not (empty if version == 0 else known):
        raise DamagedError
    return version


def prepare(writer: sqlite3.Connection, version: int) -> None:
    """Set up the connection, and bring the tables up to this version."""
    for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
        text = script.read_text(encoding="utf-8")
        try:
            writer.executescript(
                f"BEGIN IMMEDIATE; {text}\n; PRAGMA user_version = {number}; COMMIT;"
            )
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                writer.execute("ROLLBACK")
            if problems.is_of_the_world(error) or problems.is_damage(error):
                raise
            raise MigrationError(str(error)) from error
    writer.execute("PRAGMA synchronous = FULL")
    writer.execute("PRAGMA foreign_keys = ON")
    writer.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
