"""Writes exports and reads imports, on the thread on which backups are made."""

import re
import threading
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from PySide6.QtCore import QBuffer, QIODevice, QMarginsF, QUrl, Signal
from PySide6.QtGui import (
    QPageLayout,
    QPageSize,
    QPdfWriter,
    QTextBlockFormat,
    QTextCursor,
    QTextDocument,
    QTextOption,
)

from app.errands import Errands
from app.store.records import ChatRecord, MessageRecord
from app.transfer.archive import write_archive, write_bytes, write_text
from app.transfer.chat_json import to_json
from app.transfer.chat_markdown import to_markdown
from app.transfer.reading import read_file
from app.transfer.report import Report, TransferError
from engine.options import SamplingOptions

Chat = tuple[ChatRecord, list[MessageRecord]]

_RESOLUTION = 96  # dots per inch, for which the sizes of text are made
_IMAGES = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
_PAGE = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "style-src 'unsafe-inline'\"><style>body {max-width: 46em; margin: 2em auto; padding: 0 1em; "
    "font-family: system-ui, sans-serif; line-height: 1.5; overflow-wrap: anywhere} "
    "pre {white-space: pre-wrap}</style>"
)


class TransferKeeper(Errands):
    """Does one thing after the other, in the order they were asked for by the window's thread."""

    exported = Signal(str, int)  # the path, how many chats
    chat_read = Signal(object, object)  # ChatRecord, list[MessageRecord]: of an import
    all_read = Signal(object)  # Report

    def __init__(self) -> None:
        super().__init__()
        self.cancel = threading.Event()  # the program ends

    def export(self, path: Path, chat: Chat, branch: list[MessageRecord]) -> None:
        """Write one chat, in the form that the ending of `path` names."""
        self.ask(lambda: self._export(path, chat, branch))

    def export_all(self, path: Path, chats: Iterable[Chat]) -> None:
        """Write chats into one zip file; they are read while that is written."""
        self.ask(lambda: self._export_all(path, chats))

    def read(self, paths: list[Path], usual: SamplingOptions) -> None:
        """Read the chats in these files, and say so one by one; see `read_file`."""
        self.ask(lambda: self._read(paths, usual))

    def _export(self, path: Path, chat: Chat, branch: list[MessageRecord]) -> None:
        record, messages = chat
        match path.suffix.lower():
            case ".json":
                write_text(path, to_json(record, messages, made_by=_made_by()))
            case ".html" | ".htm":
                write_text(path, _page(to_markdown(record, branch)))
            case ".pdf":
                _write_pdf(path, to_markdown(record, branch), record.title)
            case _:
                write_text(path, to_markdown(record, branch))
        self.exported.emit(str(path), 1)

    def _export_all(self, path: Path, chats: Iterable[Chat]) -> None:
        count = write_archive(path, chats, made_by=_made_by(), cancel=self.cancel)
        self.exported.emit(str(path), count)

    def _read(self, paths: list[Path], usual: SamplingOptions) -> None:
        report = Report()
        for path in paths:
            try:
                for chat, messages in read_file(path, report, usual=usual):
                    if self.cancel.is_set():
                        return
                    self.chat_read.emit(chat, messages)
            except TransferError as error:
                report.problems.append(str(error))
        self.all_read.emit(report)


class _Document(QTextDocument):
    """Text only: nothing is ever loaded because of it."""

    def loadResource(self, _kind: int, _name: QUrl | str) -> object:  # noqa: N802
        """Nothing."""
        return None


def _document(markdown: str) -> _Document:
    document = _Document()
    features = QTextDocument.MarkdownFeature
    document.setMarkdown(markdown, features.MarkdownDialectGitHub | features.MarkdownNoHTML)
    return document


def printable(markdown: str) -> QTextDocument:
    """Its code and addresses are broken into lines, too: beyond a page's edge they were lost."""
    document = _document(markdown)
    option = document.defaultTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    document.setDefaultTextOption(option)
    breakable = QTextBlockFormat()
    breakable.setNonBreakableLines(False)
    cursor = QTextCursor(document)
    cursor.select(QTextCursor.SelectionType.Document)
    cursor.mergeBlockFormat(breakable)
    return document


def _page(markdown: str) -> str:
    """A page that is complete in itself and fetches nothing."""
    page = _IMAGES.sub("[image]", _document(markdown).toHtml())
    return page.replace("</head>", f"{_PAGE}</head>", 1)


def _write_pdf(path: Path, markdown: str, title: str) -> None:
    # Into memory first: the writer says nothing when the disk is full.
    whole = QBuffer()
    whole.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(whole)
    writer.setResolution(_RESOLUTION)
    writer.setTitle(title)
    writer.setPageLayout(
        QPageLayout(
            QPageSize(QPageSize.PageSizeId.A4),
            QPageLayout.Orientation.Portrait,
            QMarginsF(),  # Qt leaves two centimetres by itself
        )
    )
    printable(markdown).print_(writer)
    del writer  # which ends the file
    write_bytes(path, bytes(whole.data().data()))


def _made_by() -> str:
    try:
        return f"Smoldesk {version('smoldesk')}"
    except PackageNotFoundError:
        return "Smoldesk"
