"""Uses the real window as a person would, once, and says how it went."""

import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication

from app.bootstrap import run
from app.program import Smoldesk, Start
from app.ui.states import Failure, ModelInfo, ReplyStatus, ShownMessage

QUESTION = "What is the capital of France?"
MAX_NEW_TOKENS = 24
TIME_LIMIT = 180  # seconds
_IMPORTED_AT = time.perf_counter()


def self_test(start: Start, *, as_json: bool) -> int:
    """Show the window, ask a question by key presses, wait for the reply, quit; 0 if all worked.

    Settings and log live in a throw-away folder; the model is the user's.
    """
    with tempfile.TemporaryDirectory(prefix="smoldesk-self-test-") as folder:
        here = Path(folder)
        start = replace(start, data_dir=here, config_dir=here, log_dir=here)
        test = _SelfTest()
        code = run(start, then=test.begin)
    result = test.result | {"ok": bool(test.result["ok"]) and code == 0}
    lines = [f"{name.replace('_', ' '):15} {value}" for name, value in result.items()]
    try:
        print(json.dumps(result, ensure_ascii=False) if as_json else "\n".join(lines), flush=True)
    except OSError:  # whoever read it has left, or the disk is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 1
    return 0 if result["ok"] else 1


class _SelfTest(QObject):
    """Follows one question through the window."""

    def __init__(self) -> None:
        super().__init__()
        self.result: dict[str, Any] = {
            "ok": False,
            "window_ms": None,
            "model_ready_ms": None,
            "ttft_ms": None,
            "tokens_per_s": None,
            "device": None,
            "precision": None,
            "reply": None,
            "chats": None,
        }

    def begin(self, app: QApplication, smoldesk: Smoldesk) -> "_SelfTest":
        """Take part from the moment the window is shown."""
        self._app, self._smoldesk = app, smoldesk
        smoldesk.chat.change_options({"max_new_tokens": MAX_NEW_TOKENS})
        smoldesk.window.first_painted.connect(self._on_painted)
        smoldesk.model.became_ready.connect(self._on_ready)
        smoldesk.model.failed.connect(self._on_failed)
        smoldesk.chat.reply_ended.connect(self._on_ended)
        smoldesk.reporter.bug_found.connect(self._on_failed)
        QTimer.singleShot(TIME_LIMIT * 1000, self, self._on_late)
        return self

    @Slot()
    def _on_painted(self) -> None:
        self.result["window_ms"] = round(milliseconds_since_start())

    @Slot(object)
    def _on_ready(self, info: ModelInfo) -> None:
        self.result["model_ready_ms"] = round(milliseconds_since_start())
        self.result["device"] = info.device
        self.result["precision"] = info.precision
        for character in QUESTION:
            self._press(Qt.Key.Key_unknown, character)
        self._press(Qt.Key.Key_Return, "\r")

    @Slot(object)
    def _on_ended(self, message: ShownMessage) -> None:
        facts = message.reply
        if facts is None or facts.status is not ReplyStatus.FINISHED or facts.statistics is None:
            failure = facts.failure if facts is not None else None
            self._on_failed(failure or Failure("The reply did not end."))
            return
        window = self._smoldesk.window
        shown = window.transcript.view(message.id)
        asked = [m.text for m in window.transcript.messages if m.role == "user"]
        self.result["ttft_ms"] = round(facts.statistics.time_to_first_token * 1000, 1)
        self.result["tokens_per_s"] = round(facts.statistics.tokens_per_second, 1)
        self.result["reply"] = shown.text.text() if shown is not None else None
        self.result["chats"] = window.sidebar.list.model().rowCount()
        self.result["ok"] = bool(
            asked == [QUESTION]
            and self.result["reply"]
            and facts.reason != "error"
            and self.result["chats"] == 1
            and self.result["window_ms"] is not None
        )
        self._app.exit(0)

    @Slot(object)
    def _on_failed(self, failure: Failure) -> None:
        print(f"{failure.what} {failure.remedy}\n{failure.details}".strip(), file=sys.stderr)
        self._app.exit(1)

    @Slot()
    def _on_late(self) -> None:
        self._on_failed(Failure(f"The self-test did not end within {TIME_LIMIT} seconds."))

    def _press(self, key: Qt.Key, text: str) -> None:
        field = self._smoldesk.window.composer.text
        for kind in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease):
            QApplication.postEvent(
                field, QKeyEvent(kind, key, Qt.KeyboardModifier.NoModifier, text)
            )


def milliseconds_since_start() -> float:
    """Since the process began, where the system tells; else since this module was imported."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        began = ticks / os.sysconf("SC_CLK_TCK")
        return (time.clock_gettime(time.CLOCK_BOOTTIME) - began) * 1000
    except (OSError, ValueError, AttributeError, IndexError):
        return (time.perf_counter() - _IMPORTED_AT) * 1000
