"""A file to be imported: what it is, by what is in it, and every chat that can be read."""

import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from app.store.records import ChatRecord, MessageRecord
from app.transfer.archive import read_entry
from app.transfer.chat_json import LARGEST, chat_from, is_ours
from app.transfer.chatgpt import is_chatgpt, read_chatgpt
from app.transfer.open_webui import is_open_webui, read_open_webui
from app.transfer.report import Report, TransferError
from engine.options import SamplingOptions

Chat = tuple[ChatRecord, list[MessageRecord]]
_Read = Callable[[Any, Report], Chat]

_CHATGPT_FILE = "conversations.json"


def read_file(path: Path, report: Report, *, usual: SamplingOptions) -> Iterator[Chat]:
    """The chats in a file of ours, ChatGPT's or Open WebUI's, plain or in a zip.

    A chat of another program, which has no options that we know, gets the `usual` ones. One that
    cannot be read is told in the report. Raises TransferError for a file of which
    nothing can be.
    """
    for name, text in _texts(path):
        try:
            document = _document(text(), name)
            yield from _chats(document, name, report, usual)
        except TransferError as error:
            if name == path.name:
                raise
            report.problems.append(f"{name}: {error.what}")


def _texts(path: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """What may hold chats: its name, and how it is read."""
    try:
        if not path.is_file():
            raise TransferError(f"{path.name} is not a file.", "Choose another one.")
        if zipfile.is_zipfile(path):
            yield from _entries(path)
            return
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise TransferError(
            f"{path.name} could not be read: {error.strerror or error}.", "Choose another file."
        ) from error
    if len(data) > LARGEST:
        raise TransferError(f"{path.name} is far too large.", "Choose another file.")
    yield path.name, lambda: data.decode("utf-8-sig", "replace")


def _entries(path: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError) as error:
        raise TransferError(f"{path.name} is damaged.", "Export it again.") from error
    with archive:
        entries = [entry for entry in archive.infolist() if entry.filename.endswith(".json")]
        named = [entry for entry in entries if entry.filename.endswith(_CHATGPT_FILE)]
        if not entries:
            raise TransferError(f"There are no chats in {path.name}.", "Choose another file.")
        for entry in named or entries:  # beside its chats, ChatGPT's has much else
            yield entry.filename[:200], partial(read_entry, archive, entry)


def _document(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        what = f"{name} is nested too deeply"
    except json.JSONDecodeError as error:
        what = f"{name} is not JSON: line {error.lineno}, column {error.colno}"
    except ValueError:
        what = f"{name} has a number that is far too long"
    raise TransferError(f"{what}.", "Export it again, or choose another file.")


def _chats(document: Any, name: str, report: Report, usual: SamplingOptions) -> Iterator[Chat]:
    if is_ours(document):
        yield _counted(chat_from(document), report)
        return
    read = reader_of(document)
    if read is None:
        raise TransferError(
            f"{name} is none of the kinds that can be imported.",
            "Choose an export of Smoldesk, ChatGPT or Open WebUI.",
        )
    for number, value in enumerate(document if isinstance(document, list) else [document], 1):
        try:
            chat, messages = read(value, report)
        except TransferError as error:
            report.problems.append(f"Conversation {number}{_title(value)}: {error.what}")
            continue
        if messages:
            yield _counted((replace(chat, options=usual), messages), report)
        else:
            report.left_out["chats without a message"] += 1


def reader_of(document: Any) -> _Read | None:
    """What reads such a document; None if nothing does."""
    if is_chatgpt(document):
        return read_chatgpt
    return read_open_webui if is_open_webui(document) else None


def _counted(chat: Chat, report: Report) -> Chat:
    report.chats += 1
    report.messages += len(chat[1])
    return chat


def _title(value: Any) -> str:
    title = value.get("title") if isinstance(value, dict) else None
    return f" ({' '.join(title.split())[:60]})" if isinstance(title, str) and title else ""
