"""Killed at any moment: what was on screen is there again, but for the last half second."""

import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from fake_engine import FakeEngine

from app.store.chats import ChatStore
from app.ui.states import ReplyStatus

FAKE = Path(__file__).with_name("fake_engine.py")
ALLOWANCE = 0.5  # seconds; then what the disk and a busy machine take
SLACK = 0.4


def start(folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [
            *(sys.executable, str(FAKE), "--folder", str(folder), "--ask", "Tell me all"),
            *("--words", "20000", "--per-token", "0.002", "--say-growth"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"QT_QPA_PLATFORM": "offscreen", "PATH": "", "HOME": str(folder)},
        cwd=FAKE.parent.parent.parent,
    )


def test_when_the_desktop_ends_its_session_all_is_on_the_disk_at_once(
    tmp_path, open_window, wait_until
):
    smoldesk = open_window(FakeEngine(reply_text="word " * 5000, per_token=0.005))
    smoldesk.chat.submit("Tell me all")
    wait_until(lambda: len(smoldesk.window.transcript.messages[-1].text) > 100)
    smoldesk.window.composer.text.setPlainText("half a thought")
    shown = smoldesk.window.transcript.messages[-1].text
    smoldesk.keep_all()  # a session manager asks for it by `commitDataRequest`
    with closing(sqlite3.connect(smoldesk.store._path)) as outside:
        ((draft,),) = outside.execute("SELECT draft FROM chat")
        ((text,),) = outside.execute("SELECT content FROM message WHERE role = 'assistant'")
    assert draft == "half a thought"
    assert text.startswith(shown)


@pytest.mark.parametrize("seed", range(5))
def test_kill(tmp_path, seed, open_window):
    process = start(tmp_path)
    shown: list[tuple[float, int]] = []
    line = process.stdout.readline()
    end = time.monotonic() + random.Random(seed).uniform(0.05, 2.0)
    while line and time.monotonic() < end:
        moment, length = line.split()
        shown.append((float(moment), int(length)))
        line = process.stdout.readline()
    process.kill()
    killed = time.monotonic()
    process.communicate()
    assert shown, "nothing was shown"

    with sqlite3.connect(tmp_path / "chats.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
    safe = [length for moment, length in shown if moment < killed - ALLOWANCE - SLACK]
    smoldesk = open_window(FakeEngine(), data=tmp_path, config=tmp_path)
    assert smoldesk.store.problem is None
    question, reply = smoldesk.window.transcript.messages  # the chat that was open is open again
    assert question.text == "Tell me all"
    assert reply.reply.status is ReplyStatus.INTERRUPTED
    assert len(reply.text) >= max(safe, default=0)
    assert "Interrupted" in smoldesk.window.transcript.view(reply.id).actions.words.text()
    assert smoldesk.window.transcript.view(reply.id).go_on.isVisible() == bool(reply.text)


def test_quitting_in_the_middle_of_a_reply_keeps_every_word(open_window, wait_until, tmp_path):
    engine = FakeEngine(reply_text="word " * 5000, per_token=0.002)
    smoldesk = open_window(engine, data=tmp_path)
    smoldesk.chat.submit("go")
    wait_until(lambda: smoldesk.window.transcript.messages[-1].text.count("word") > 20)
    shown = smoldesk.window.transcript.messages[-1].text
    assert smoldesk.end()
    store = ChatStore(tmp_path / "chats.db", on_problem=pytest.fail)
    (chat,) = store.chats()
    kept = store.messages(chat.id)[-1]
    store.close(2)
    assert kept.content.startswith(shown)
    assert (kept.reply.status, kept.reply.reason) == ("finished", "stopped")
