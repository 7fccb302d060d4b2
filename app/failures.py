"""Turns what went wrong into plain words, a log line and, for a bug, a dialog.

No text of any message of a chat is ever logged or put into details.
"""

import logging
import os
import platform
import sys
import threading
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import (
    QMessageLogContext,
    QObject,
    Qt,
    QtMsgType,
    Signal,
    Slot,
    qInstallMessageHandler,
)

from app.ui.states import Failure
from engine.errors import EngineError

_log = logging.getLogger("smoldesk")

# Errors whose own text comes from the system or the interpreter. That of others (a ValueError that
# quotes what it could not read, say) may hold words of a chat and is left out.
_SAFE_TO_QUOTE = (OSError, ImportError, AttributeError, NameError, TypeError, RuntimeError)

_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


def open_log(folder: Path) -> Failure | None:
    """Send the program's log to a file in `folder`; says so if that cannot be done."""
    _log.setLevel(logging.INFO)
    _log.propagate = False
    for old in list(_log.handlers):
        _log.removeHandler(old)
        old.close()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "smoldesk.log"
        handler = RotatingFileHandler(path, maxBytes=512_000, backupCount=3, encoding="utf-8")
    except OSError:
        _log.addHandler(logging.NullHandler())
        return Failure(
            "The log file cannot be written, so problems will not be recorded.",
            f"Check that you may write to the folder {folder}.",
        )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.handleError = lambda record: None  # type: ignore[method-assign] # a full disk is no bug
    _log.addHandler(handler)
    return None


def close_log() -> None:
    """Write out and let go of the log file."""
    for handler in list(_log.handlers):
        _log.removeHandler(handler)
        handler.close()


def give_missing_streams_a_file(folder: Path) -> None:
    """Windowed builds have no standard streams; what would be printed goes beside the log."""
    if sys.stdout is not None and sys.stderr is not None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stream = open(folder / "output.log", "a", encoding="utf-8", buffering=1)  # noqa: SIM115
    except OSError:
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or stream
    sys.stderr = sys.stderr or stream


def explain(error: BaseException) -> Failure:
    """Plain words for an error: its own if it was expected, a bug report's otherwise."""
    if isinstance(error, EngineError):
        return Failure(error.what, error.remedy)
    if isinstance(error, MemoryError):
        return Failure(
            "The computer has too little free memory for this.", "Close other programs, try again."
        )
    details = _details(error)
    _log.error("A bug\n%s", details)
    return Failure(
        "Something went wrong inside Smoldesk.",
        "Please try again. If it happens once more, report it with the details.",
        details,
    )


def _details(error: BaseException) -> str:
    """Versions and the way to the error, in plain text, without anything a user or model wrote."""
    parts = [f"Smoldesk {_version()}, Python {platform.python_version()}, {platform.platform()}\n"]
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        quoted = isinstance(link, _SAFE_TO_QUOTE)
        words = str(link) if quoted else "(text left out: it could quote a chat)"
        parts.append("".join(traceback.format_tb(link.__traceback__)))
        parts.append(f"{type(link).__name__}: {words}\n")
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return "".join(parts)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # not needed to start

    try:
        return version("smoldesk")
    except PackageNotFoundError:
        return "(not installed)"


class FailureReporter(QObject):
    """Catches every bug that nobody caught, on any thread, and tells the window about it."""

    bug_found = Signal(object)  # Failure
    _came_in = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        # Through a queue: the bug may be on another thread, or in the middle of a paint event.
        self._came_in.connect(self._tell, Qt.ConnectionType.QueuedConnection)

    def install(self) -> None:
        """Take over the hooks of Python and of Qt."""
        sys.excepthook = self._on_exception
        threading.excepthook = self._on_thread_exception
        qInstallMessageHandler(self._on_qt_message)

    def uninstall(self) -> None:
        """Give the hooks back."""
        sys.excepthook = sys.__excepthook__
        threading.excepthook = threading.__excepthook__
        qInstallMessageHandler(None)

    def _on_exception(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        self._came_in.emit(explain(error.with_traceback(trace)))

    def _on_thread_exception(self, hook: threading.ExceptHookArgs) -> None:
        if hook.exc_value is not None and not issubclass(hook.exc_type, SystemExit):
            self._came_in.emit(explain(hook.exc_value))

    def _on_qt_message(self, kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        # Log only: a font that lacks one character of a reply is no bug. The category says where
        # it came from; Qt's own words hold no text of a chat.
        _log.log(_LEVELS.get(kind, logging.WARNING), "Qt %s: %s", context.category, message)

    @Slot(object)
    def _tell(self, failure: Failure) -> None:
        self.bug_found.emit(failure)
