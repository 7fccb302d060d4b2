"""The short form of tests/bench/kill9.py, and that it notices what it is there to notice."""

import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from app.store.chats import ChatStore
from app.store.records import ChatRecord, MessageRecord, ReplyRecord

BENCH = Path(__file__).resolve().parents[1] / "bench" / "kill9.py"
QUESTION, REPLY, RUNNING = 2, 3, 4


@pytest.fixture(scope="module")
def kill9():
    """The script as a module."""
    specification = importlib.util.spec_from_file_location("kill9", BENCH)
    module = importlib.util.module_from_spec(specification)
    sys.modules["kill9"] = module
    specification.loader.exec_module(module)
    yield module
    del sys.modules["kill9"]


@pytest.mark.parametrize("rounds", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_a_process_killed_while_it_writes_loses_nothing_that_was_promised(rounds):
    done = subprocess.run(
        [sys.executable, str(BENCH), "--json", "--rounds", str(rounds), "--seconds", "2.5"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
        timeout=120,
    )
    assert json.loads(done.stdout) == {
        "rounds": rounds,
        "lost_messages": 0,
        "lost_chars_max": 0,
        "integrity_failures": 0,
    }
    assert done.returncode == 0


@pytest.fixture
def ledger(kill9, tmp_path):
    """A file as a killed process may leave it: a question, its reply, and one that grew."""
    path = tmp_path / "chats.db"
    store = ChatStore(path, on_problem=pytest.fail)
    store.save_chat(ChatRecord(1))
    for number, parent, length, status in (
        (QUESTION, None, 50, None),
        (REPLY, QUESTION, 60, "finished"),
        (RUNNING, QUESTION, 70, "streaming"),
    ):
        text, reply = kill9.text_of(number, length), ReplyRecord(status) if status else None
        role = "assistant" if status else "user"
        store.save_message(MessageRecord(number, 1, parent, role, text, reply=reply))
    assert store.close(5)
    return kill9.Ledger(path)


@pytest.fixture
def said(kill9):
    """What that process said, ten seconds before it was killed at 20.0, and at its end."""
    line = kill9.Said
    return [
        *(
            line("ready", 9.0),
            line("finished", 10.0, QUESTION, 50),
            line("finished", 10, REPLY, 60),
        ),
        line("commit", 10.0),
        *(line("shown", 19.0, RUNNING, 70), line("shown", 19.6, RUNNING, 90)),
    ]


def change(path: Path, *statements: str) -> None:
    """Do to the file what a loss would."""
    with closing(sqlite3.connect(path)) as outside:
        outside.create_function("search_words", 1, lambda _: "")
        for statement in statements:
            outside.execute(statement)
        outside.commit()


def figures(outcome) -> tuple[int, int, int]:
    """What the script adds up."""
    return outcome.lost_messages, outcome.lost_chars_max, outcome.integrity_failures


def test_what_is_there_is_not_lost(kill9, ledger, said):
    outcome = kill9.look(ledger, said, 20.0)
    assert figures(outcome) == (0, 0, 0)
    assert outcome.checked == 3
    assert outcome.oldest == pytest.approx(0.4)  # of the text that was not promised yet
    assert ledger.finished == {QUESTION: 50, REPLY: 60}
    change(ledger.path, "DELETE FROM reply WHERE message_id = 4", "DELETE FROM message")
    assert figures(kill9.look(ledger, [], 30.0))[0] == 2  # what was there in an earlier round


@pytest.mark.parametrize(
    ("statement", "lost"),
    [
        ("DELETE FROM message WHERE id = 3", (1, 0, 1)),  # and its words are in the index still
        ("UPDATE message SET content = substr(content, 2) WHERE id = 2", (1, 0, 1)),
        ("UPDATE reply SET status = 'streaming' WHERE message_id = 3", (1, 0, 0)),
        ("UPDATE message SET content = substr(content, 1, 45) WHERE id = 4", (0, 25, 1)),
        ("UPDATE message SET content = 'x' || content WHERE id = 4", (0, 70, 1)),
        ("UPDATE message SET parent_id = 99 WHERE id = 3", (0, 0, 1)),
    ],
)
def test_each_loss_is_noticed(kill9, ledger, said, statement, lost):
    change(ledger.path, "DROP TRIGGER message_changed", "DROP TRIGGER message_removed", statement)
    assert figures(kill9.look(ledger, said, 20.0)) == lost


def test_a_damaged_file_is_noticed(kill9, ledger, said):
    whole = bytearray(ledger.path.read_bytes())
    whole[4096 : 4096 + 2000] = b"\x5a" * 2000
    ledger.path.write_bytes(whole)
    ledger.path.with_name("chats.db-open").touch()
    assert kill9.look(ledger, said, 20.0).integrity_failures == 1


def test_the_promise_is_half_a_second_whatever_a_commit_takes(kill9):
    line = kill9.Said
    said = [line("commit", 10.0), line("shown", 10.3, 4, 10), line("finished", 10.3, 2, 50)]
    assert kill9.promises(said, 10.3 + kill9.SLACK - 0.01) == ({}, {})
    assert kill9.promises(said, 10.3 + kill9.SLACK + 0.01) == ({2: 50}, {})
    assert kill9.promises(said, 10.3 + 0.5 + 0.01) == ({2: 50}, {4: 10})
