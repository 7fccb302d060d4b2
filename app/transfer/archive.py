"""All chats in one zip file, each as JSON; and files that are written whole or not at all."""

import contextlib
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from threading import Event

from app.store.records import ChatRecord, MessageRecord
from app.transfer.chat_json import LARGEST, to_json
from app.transfer.report import TransferError

_RESERVED = {"con", "prn", "aux", "nul", *(f"{n}{d}" for n in ("com", "lpt") for d in range(1, 10))}
_LONGEST_NAME = 60

Chat = tuple[ChatRecord, list[MessageRecord]]


def file_name(title: str, created_at: float) -> str:
    """A name for the file of a chat, without an ending, that every system takes."""
    words = " ".join("".join(c if c.isalnum() else " " for c in title).split())[:_LONGEST_NAME]
    words = words.strip() or "Chat"
    if words.lower() in _RESERVED:
        words += " chat"
    try:
        day = datetime.fromtimestamp(created_at).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return words
    return f"{words} {day}"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write in the place of `path`, which it takes once it is whole.

    Raises TransferError for what the world does; then a file that was there before is as it was.
    """
    name = ""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        os.close(handle)
        yield Path(name)
        with open(name, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        raise TransferError(
            f"{path.name} could not be written: {error.strerror or error}.",
            "Choose another folder, or make room there.",
        ) from error
    finally:
        if name:
            with contextlib.suppress(OSError):
                os.unlink(name)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8. Raises TransferError."""
    write_bytes(path, text.encode("utf-8", "replace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file. Raises TransferError."""
    with replacing(path) as part:
        part.write_bytes(content)


def write_archive(
    path: Path, chats: Iterable[Chat], *, made_by: str, cancel: Event | None = None
) -> int:
    """All of them into one zip file; how many. Raises TransferError."""
    names: set[str] = set()
    with replacing(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (chat, messages) in enumerate(chats, start=1):
            if cancel is not None and cancel.is_set():
                raise TransferError("The export was stopped.", "")
            name = file_name(chat.title, chat.created_at)
            if name.lower() in names:
                name += f" {number}"
            names.add(name.lower())
            archive.writestr(f"{name}.json", to_json(chat, messages, made_by=made_by))
    return len(names)


def read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> str:
    """The text of an entry, of limited size. Raises TransferError."""
    try:
        with archive.open(entry) as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, EOFError):
        raise TransferError("It is damaged.", "Export it again.") from None
    except Exception as error:  # zlib's own
        if type(error).__module__ != "zlib":
            raise
        raise TransferError("It is damaged.", "Export it again.") from None
    if len(data) > LARGEST:
        raise TransferError("It is far too large.", "Choose another file.")
    return data.decode("utf-8", "replace")
