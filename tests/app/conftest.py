"""The window under test: offscreen, with real widgets and an engine without a model."""

import os
import sys
import time
from pathlib import Path

os.environ["QT_QPA_PLATFORM"] = "offscreen"  # before anything of Qt is imported
sys.path.insert(0, str(Path(__file__).parent))  # for the modules beside this one

import pytest
from event_loop import pause
from fake_engine import FakeEngine
from PySide6.QtCore import QtMsgType, qInstallMessageHandler
from PySide6.QtWidgets import QApplication

from app.program import Smoldesk, Start

# Word for word; whatever else Qt says fails the test that made it say so.
ALLOWED_MESSAGES = {
    "This plugin does not support propagateSizeHints()",
    "This plugin does not support raise()",
}


@pytest.fixture(scope="session")
def qt_app():
    """The one application object that Qt allows."""
    app = QApplication.instance() or QApplication(["smoldesk-tests"])
    app.setQuitOnLastWindowClosed(False)
    return app


@pytest.fixture(autouse=True)
def qt_messages(qt_app, monkeypatch):
    """Everything Qt says; fails the test if it says anything that is not allowed."""
    said: list[str] = []

    def note(_kind: QtMsgType, _context: object, message: str) -> None:
        said.append(message)

    # The program installs a handler of its own: listen to that one, too.
    from app.failures import FailureReporter

    log_only = FailureReporter._on_qt_message

    def both(self, kind, context, message):
        said.append(message)
        log_only(self, kind, context, message)

    monkeypatch.setattr(FailureReporter, "_on_qt_message", both)
    qInstallMessageHandler(note)
    yield said
    qInstallMessageHandler(None)
    unexpected = [message for message in said if message not in ALLOWED_MESSAGES]
    assert not unexpected, f"Qt said: {unexpected}"


@pytest.fixture
def open_window(qt_app, tmp_path):
    """Opens windows on an engine; ends them and checks that no thread is left running."""
    opened: list[Smoldesk] = []

    def open_one(engine: FakeEngine | None = None, *, config: Path | None = None, **start):
        engine = engine or FakeEngine()
        config = config or tmp_path / "config"
        data = start.pop("data", tmp_path / "data")
        begin = Start(data, config, tmp_path / "log", **start)
        smoldesk = Smoldesk(qt_app, begin, opener=engine.load)
        smoldesk.bugs = []
        smoldesk.reporter.bug_found.connect(smoldesk.bugs.append)
        opened.append(smoldesk)
        smoldesk.show()
        pause(20)
        return smoldesk

    yield open_one
    for smoldesk in opened:
        ended = smoldesk.end()
        smoldesk.window.close()
        assert ended, "the engine's thread is still running"
        assert smoldesk.thread_.isFinished()
        assert not smoldesk.bugs, smoldesk.bugs[0].details
        smoldesk.window.deleteLater()
        smoldesk.deleteLater()
    qt_app.processEvents()


@pytest.fixture
def wait_until(qt_app):
    """Runs the event loop until a condition holds, or fails."""

    def wait(condition, what: str = "", seconds: float = 5.0) -> None:
        late = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < late, f"waited in vain for {what or condition}"
            pause(5)

    return wait
