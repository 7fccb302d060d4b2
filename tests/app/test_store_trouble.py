"""The store in trouble: killed, a full disk, a locked or damaged file. Nothing is thrown away."""

import random
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from app.store import connections, writer
from app.store.chats import ChatStore
from app.store.records import ChatRecord, MessageRecord, ReplyRecord
from app.ui.states import Failure


@pytest.fixture
def path(tmp_path):
    """Where the chats are."""
    return tmp_path / "data" / "chats.db"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 0.02)
    monkeypatch.setattr(writer, "RETRY", 0.02)


@pytest.fixture
def open_store(path):
    """Opens stores, collects what they say, and closes them."""
    opened: list[ChatStore] = []

    def open_one() -> ChatStore:
        told, over = [], []

        def note(problem):
            (over if problem is None else told).append(problem)

        store = ChatStore(path, on_problem=note)
        store.told, store.over = told, over
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close(5)


def wait_until(condition) -> None:
    """Wait until a condition holds, or fail."""
    late = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < late
        time.sleep(0.005)


def say_something(store: ChatStore, content: str) -> MessageRecord:
    """Save a chat with one message."""
    chat = ChatRecord(store.next_id(), content[:10])
    message = MessageRecord(store.next_id(), chat.id, None, "user", content)
    store.save_chat(chat)
    store.save_message(message)
    return message


def on_disk(path) -> dict[int, str]:
    """The messages that another program finds in the file."""
    with closing(sqlite3.connect(path)) as outside:
        assert outside.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert outside.execute("PRAGMA foreign_key_check").fetchall() == []
        return dict(outside.execute("SELECT id, content FROM message").fetchall())


WRITING = """
import sys
from pathlib import Path
from app.store.chats import ChatStore
from app.store.records import ChatRecord, MessageRecord, ReplyRecord
store = ChatStore(Path(sys.argv[1]), on_problem=lambda problem: sys.exit(problem.what))
assert store.problem is None, store.problem
chat = store.next_id()
store.save_chat(ChatRecord(chat))
parent = None
while True:
    message = store.next_id()
    for text in ("a", "bc" * 3000, f"message {message}"):
        state = "streaming" if text == "a" else "finished"
        reply = ReplyRecord(state, token_ids=tuple(range(99)))
        store.save_message(MessageRecord(message, chat, parent, "assistant", text, reply=reply))
        store.save_chat(ChatRecord(chat, draft=text))
    if store.flush(10):
        print(message, flush=True)
    parent = message
"""


def test_a_kill_at_any_moment_costs_nothing_that_was_flushed(path, open_store):
    dice, flushed = random.Random(1), []
    for _ in range(12):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITING, str(path)], stdout=subprocess.PIPE, text=True
        )
        flushed.append(child.stdout.readline())
        time.sleep(dice.random() * 0.06)
        child.kill()
        flushed += child.stdout.readlines()
        child.stdout.close()
        child.wait()
        found = on_disk(path)
        for number in [int(line) for line in flushed if line.endswith("\n")]:
            assert found[number] == f"message {number}"
    assert len(flushed) > 24
    store = open_store()
    assert store.problem is None
    assert len(store.chats()) == 12
    replies = [message.reply for chat in store.chats() for message in store.messages(chat.id)]
    assert {reply.status for reply in replies} <= {"finished", "interrupted"}


def test_a_full_disk_is_told_once_and_what_was_said_is_written_when_there_is_room(path, open_store):
    store = open_store()
    first = say_something(store, "before")
    assert store.flush(5)
    ask = store._database.writer.execute
    (pages,) = ask("PRAGMA page_count").fetchone()
    ask(f"PRAGMA max_page_count = {pages}")
    second = say_something(store, "too much" * 10_000)
    wait_until(lambda: store.told)
    third = say_something(store, "later")
    assert not store.flush(0.2)
    assert len(store.told) == 1
    assert "disk is full" in store.told[0].what
    assert "tries again" in store.told[0].remedy
    assert not store.over
    for message in (first, second, third):
        assert store.messages(message.chat_id) == [message]
    ask("PRAGMA max_page_count = 100000")
    assert store.flush(5)
    assert on_disk(path) == {m.id: m.content for m in (first, second, third)}
    ask("PRAGMA max_page_count = 1")
    say_something(store, "again too much" * 10_000)
    wait_until(lambda: len(store.told) == 2)  # a write had worked meanwhile
    assert len(store.over) == 1


def test_a_newer_state_wins_over_the_one_that_could_not_be_written(path, open_store):
    store = open_store()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        message = say_something(store, "old")
        gone = say_something(store, "to be forgotten")
        wait_until(lambda: store.told)
        assert "Another program" in store.told[0].what
        for content in ("newer", "newest"):
            store.save_message(MessageRecord(message.id, message.chat_id, None, "user", content))
        store.forget_chat(gone.chat_id)
        assert not store.flush(0.1)
        assert [m.content for m in store.messages(message.chat_id)] == ["newest"]
        assert store.messages(gone.chat_id) == []
        other.execute("ROLLBACK")
    assert store.flush(5)
    assert on_disk(path) == {message.id: "newest"}
    assert len(store.told) == 1


def test_what_changes_while_a_write_fails_is_not_undone(path, open_store, monkeypatch):
    began, go_on, write = threading.Event(), threading.Event(), writer.Writer._write

    def fail_once(self, changes, number):
        if began.is_set():
            return write(self, changes, number)
        began.set()
        assert go_on.wait(5)
        return Failure("It did not work.")

    monkeypatch.setattr(writer.Writer, "_write", fail_once)
    store = open_store()
    store.save_chat(ChatRecord(50))
    assert began.wait(5)
    began.clear()  # the next ones are taken together
    go_on.set()
    message = say_something(store, "old")
    gone = say_something(store, "to be forgotten")
    go_on.clear()
    assert began.wait(5)
    store.save_message(MessageRecord(message.id, message.chat_id, None, "user", "newest"))
    store.forget_chat(gone.chat_id)
    never = say_something(store, "never written")
    store.forget_chat(never.chat_id)
    go_on.set()
    assert store.flush(5)
    assert on_disk(path) == {message.id: "newest"}
    assert [problem.what for problem in store.told] == ["It did not work."]


def test_closing_tries_once_more(path, open_store, monkeypatch):
    monkeypatch.setattr(writer, "RETRY", 3600)
    store = open_store()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        message = say_something(store, "hello")
        wait_until(lambda: store.told)
        other.execute("ROLLBACK")
    assert not store.flush(0.1)
    assert store.close(5)
    assert store.close(5)  # to close it twice does no harm
    assert on_disk(path) == {message.id: "hello"}


def test_closing_says_if_something_could_not_be_written(path, open_store):
    store = open_store()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        say_something(store, "hello")
        began = time.monotonic()
        assert not store.close(5)
        assert time.monotonic() - began < 2
        other.execute("ROLLBACK")
    assert on_disk(path) == {}
    assert open_store().problem is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_READONLY, "cannot be opened or changed"),
        (sqlite3.SQLITE_IOERR_FSYNC, "could not be read or written"),
        (sqlite3.SQLITE_CORRUPT, "damaged"),
        (None, "could not be read or written"),
    ],
)
def test_whatever_sqlite_says_is_told_and_tried_again(open_store, path, monkeypatch, code, words):
    store = open_store()
    broken = [True]
    write_one = writer.Writer._write_one

    def fail(self, number, change):
        write_one(self, number, change)
        if broken[0]:
            error = sqlite3.DatabaseError("in SQLite's words")
            if code is not None:
                error = sqlite3.OperationalError("in SQLite's words")
                error.sqlite_errorcode = code
            raise error

    monkeypatch.setattr(writer.Writer, "_write_one", fail)
    message = say_something(store, "kept")
    wait_until(lambda: store.told)
    assert words in store.told[0].what
    assert "SQLite" not in store.told[0].what + store.told[0].remedy
    assert store.messages(message.chat_id) == [message]
    broken[0] = False
    assert store.flush(5)
    assert on_disk(path) == {message.id: "kept"}
    assert store.close(5)
    marked = path.with_name("chats.db-open").exists()
    assert marked == (code == sqlite3.SQLITE_CORRUPT)  # so that the next start looks through it


def test_a_file_that_is_read_only_shows_its_chats_and_keeps_what_is_said(path, open_store):
    store = open_store()
    old = say_something(store, "old")
    assert store.close(5)
    whole = bytearray(path.read_bytes())
    whole[18] = 3  # of a kind that this SQLite may only read
    path.write_bytes(whole)
    store = open_store()
    assert store.messages(old.chat_id) == [old]
    new = say_something(store, "new")
    wait_until(lambda: store.problem or store.told)
    problem = store.problem or store.told[0]
    assert str(path.parent) in problem.remedy
    assert store.messages(new.chat_id) == [new]


def test_one_record_that_cannot_be_kept_does_not_hold_up_the_others(path, open_store):
    store = open_store()
    orphan = MessageRecord(store.next_id(), 4711, None, "user", "private words")
    store.save_message(orphan)
    store.save_chat(ChatRecord(2**70))
    reply = ReplyRecord("finished", token_ids=(-1,))
    chat = store.next_id()
    store.save_chat(ChatRecord(chat))
    store.save_message(
        MessageRecord(store.next_id(), chat, None, "assistant", "private words", reply=reply)
    )
    message = say_something(store, "fine")
    assert store.flush(5)
    assert on_disk(path)[message.id] == "fine"
    assert len(store.told) == 3
    for problem in store.told:
        assert problem.details
        assert "private" not in problem.what + problem.remedy + problem.details


def test_a_write_that_hangs_does_not_keep_the_program_from_ending(open_store, monkeypatch):
    store = open_store()
    write = writer.Writer._write
    monkeypatch.setattr(writer.Writer, "_write", lambda *_: time.sleep(0.5) or write(*_))
    say_something(store, "hello")
    began = time.monotonic()
    assert not store.close(0.05)
    assert time.monotonic() - began < 0.4
    assert store.close(5)


def test_chats_in_memory_are_forgotten_with_the_store(tmp_path, open_store):
    (tmp_path / "data").write_text("no folder")
    store = open_store()
    message = say_something(store, "hello")
    assert store.flush(5)
    assert store.messages(message.chat_id) == [message]
    assert store.close(5)
    assert open_store().chats() == []


def test_saving_does_not_wait_for_the_disk(open_store, monkeypatch):
    store = open_store()
    write = writer.Writer._write
    monkeypatch.setattr(writer.Writer, "_write", lambda *_: time.sleep(0.3) or write(*_))
    message = say_something(store, "hello")
    began = time.monotonic()
    for _ in range(10):
        store.save_message(message)
        store.messages(message.chat_id)
    assert time.monotonic() - began < 0.2
    assert store.flush(5)


def test_reading_and_writing_at_once_never_misses_a_record(open_store):
    store = open_store()
    chat = ChatRecord(store.next_id())
    store.save_chat(chat)
    saved = []
    for number in range(2, 302):
        saved.append(MessageRecord(store.next_id(), chat.id, None, "user", "x"))
        store.save_message(saved[-1])
        assert store.messages(chat.id) == saved
        store.save_chat(ChatRecord(1000 + number))
        assert len(store.chats()) == number
    assert store.flush(5)
    assert store.messages(chat.id) == saved
    assert not store.told
