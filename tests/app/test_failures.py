"""What happens when something breaks: plain words, a log, and never a word of the chat."""

import logging
import sys
import threading
from logging.handlers import RotatingFileHandler

import pytest
from event_loop import pause
from PySide6.QtCore import Qt, QTimer, qWarning
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton

from app import failures
from app.failures import close_log, explain, give_missing_streams_a_file, open_log
from engine.errors import ModelFileError

SECRET = "the words of a private chat"


@pytest.fixture
def log(tmp_path):
    """The log's text so far."""
    assert open_log(tmp_path / "log") is None
    yield lambda: (tmp_path / "log" / "smoldesk.log").read_text()
    close_log()


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_an_expected_error_is_its_own_plain_words(log):
    failure = explain(raised(ModelFileError("It is cut off.", "Get it again.")))
    assert (failure.what, failure.remedy, failure.details) == (
        "It is cut off.",
        "Get it again.",
        "",
    )
    assert log() == ""


def test_too_little_memory_is_no_bug(log):
    assert "memory" in explain(raised(MemoryError())).what
    assert log() == ""


@pytest.mark.parametrize("kind", [ValueError, KeyError, IndexError, AssertionError, Exception])
def test_a_bug_is_reported_without_what_it_may_quote(log, kind):
    failure = explain(raised(kind(SECRET)))
    for text in (failure.what, failure.remedy, failure.details, log()):
        assert SECRET not in text
    assert kind.__name__ in failure.details
    assert "test_failures.py" in failure.details
    assert kind.__name__ in log()


def test_the_whole_chain_of_a_bug_is_reported_without_quotes(log):
    try:
        try:
            int(SECRET)
        except ValueError as error:
            raise TypeError("wrong kind of thing") from error
    except TypeError as error:
        failure = explain(error)
    assert "TypeError: wrong kind of thing" in failure.details
    assert "ValueError: (text left out" in failure.details
    assert SECRET not in failure.details + log()


def test_a_bug_in_the_window_shows_a_dialog_whose_details_can_be_copied(open_window, wait_until):
    smoldesk = open_window()

    def break_something():
        raise ValueError(SECRET)

    for _ in range(2):
        QTimer.singleShot(0, break_something)
    boxes = []

    def boxes_shown():
        boxes[:] = smoldesk.window.findChildren(QMessageBox)
        return boxes and boxes[0].isVisible()

    wait_until(boxes_shown)
    wait_until(lambda: len(smoldesk.bugs) == 2)
    assert len(boxes) == 1  # one dialog, however many bugs
    (box,) = boxes
    assert box.textFormat() == Qt.TextFormat.PlainText
    assert "break_something" in box.detailedText()
    assert SECRET not in box.detailedText()
    copy = next(b for b in box.findChildren(QPushButton) if b.text() == "Copy details")
    QTest.mouseClick(copy, Qt.MouseButton.LeftButton)
    assert QApplication.clipboard().text() == box.detailedText()
    assert box.isVisible()
    QTest.keyClick(box, Qt.Key.Key_Escape)
    assert not box.isVisible()
    smoldesk.bugs.clear()


def test_a_bug_on_another_thread_is_reported_too(open_window, wait_until):
    smoldesk = open_window()
    thread = threading.Thread(target=lambda: {}[SECRET])
    thread.start()
    thread.join()
    wait_until(lambda: smoldesk.bugs)
    assert "KeyError" in smoldesk.bugs[0].details
    assert SECRET not in smoldesk.bugs[0].details
    smoldesk.bugs.clear()


def test_what_qt_says_is_in_the_log_and_nowhere_else(open_window, tmp_path, qt_messages, capfd):
    smoldesk = open_window()
    qWarning("something small")
    assert "something small" in (tmp_path / "log" / "smoldesk.log").read_text()
    assert capfd.readouterr().err == ""
    assert not smoldesk.bugs
    qt_messages.remove("something small")


def test_no_word_of_a_chat_is_in_the_log(open_window, wait_until, tmp_path):
    from fake_engine import FakeEngine

    smoldesk = open_window(
        FakeEngine(reply_text=SECRET, reply_error=RuntimeError("shape"), error_after=2)
    )
    smoldesk.chat.submit(SECRET)
    wait_until(lambda: smoldesk.chat.last_reply.reply.error)
    text = (tmp_path / "log" / "smoldesk.log").read_text()
    assert "RuntimeError: shape" in text
    assert "private" not in text


def test_a_log_that_cannot_be_written_is_said_and_the_program_goes_on(
    open_window, wait_until, tmp_path
):
    (tmp_path / "log").write_text("not a folder")
    smoldesk = open_window()
    assert "log file cannot be written" in smoldesk.window.notice.words.text()
    assert str(tmp_path / "log") in smoldesk.window.notice.words.text()
    qt_bug = explain(raised(ValueError("x")))
    assert qt_bug.details
    smoldesk.chat.submit("on?")
    wait_until(lambda: smoldesk.chat.last_reply.reply.reason)


def test_a_log_that_fills_the_disk_is_no_failure_of_the_program(log, monkeypatch, capsys):
    (handler,) = (
        handler
        for handler in logging.getLogger("smoldesk").handlers
        if isinstance(handler, RotatingFileHandler)
    )

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(handler.stream, "write", full, raising=False)
    explain(raised(ValueError("x")))
    assert capsys.readouterr().err == ""


def test_the_log_does_not_grow_for_ever(log, tmp_path):
    for _ in range(40):
        logging.getLogger("smoldesk").warning("x" * 100_000)
    files = list((tmp_path / "log").iterdir())
    assert sum(file.stat().st_size for file in files) < 3_000_000
    assert len(files) == 4


@pytest.mark.parametrize("usable", [True, False])
def test_a_program_without_streams_can_still_print(tmp_path, monkeypatch, usable):
    if not usable:
        (tmp_path / "log").write_text("not a folder")
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    give_missing_streams_a_file(tmp_path / "log")
    stream = sys.stdout
    print("hello")
    print("oh", file=sys.stderr)
    if usable:
        assert (tmp_path / "log" / "output.log").read_text() == "hello\noh\n"
    stream.close()


def test_this_qt_keeps_count_of_references():
    """PySide6 6.12.0 loses one reference to True at every emit, which ends Python 3.11 in time."""
    from PySide6.QtCore import QObject, Signal

    class Sender(QObject):
        sent = Signal()

    sender = Sender()
    before = sys.getrefcount(True)
    for _ in range(300):
        sender.sent.emit()
    assert abs(sys.getrefcount(True) - before) < 100


def test_the_hooks_are_given_back(open_window):
    smoldesk = open_window()
    assert sys.excepthook != sys.__excepthook__
    smoldesk.end()
    pause(1)
    assert sys.excepthook is sys.__excepthook__
    assert threading.excepthook is threading.__excepthook__
    assert failures
