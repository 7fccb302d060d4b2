"""What was put and not written when the process died is put again by the next start, once."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store.chats import ChatStore
from app.store.put_log import PutLog, line, read_left
from app.store.records import ChatRecord, Forgotten, MessageRecord, ReplyRecord
from engine.events import Statistics
from engine.options import SamplingOptions

CHAT = ChatRecord(1, "Tea", True, 1.5, 2.5, None, 2, "a draft", "Be brief.", archived=True)
QUESTION = MessageRecord(2, 1, None, "user", "Why?\0\n\u2028😀", 3.5, None, 3)
REPLY = ReplyRecord(
    status="finished",
    token_ids=(0, 49_151, 2**32 - 1),
    options=((0, SamplingOptions(stop_texts=("a",))),),
    seed=2**63 - 1,
    statistics=Statistics(12, 3, 4, 0.25, 340.5, 6),
)
ANSWER = MessageRecord(3, 1, 2, "assistant", "Because.", 4.5, None, None, REPLY)
CHANGES = [(("chat", 1), CHAT), (("message", 2), QUESTION), (("message", 3), ANSWER)]


@pytest.fixture
def path(tmp_path):
    """Where the chats are."""
    return tmp_path / "chats.db"


@pytest.fixture
def log_path(path):
    """Where what waits is."""
    return path.with_name("chats.db-unwritten")


def lines(changes, first=1):
    """The file with these changes."""
    return b"".join(line(number, *change) for number, change in enumerate(changes, first))


def opened(path):
    """The store, which must know of no problem."""
    store = ChatStore(path, on_problem=lambda problem: pytest.fail(problem.what))
    assert store.problem is None
    return store


def leave(path, log_path, *, written=0, changes=CHANGES, first=1):
    """Leave a file that is written up to that number, and a log."""
    assert opened(path).close(5)
    with closing(sqlite3.connect(path)) as outside, outside:
        outside.execute("UPDATE written SET number = ?", (written,))
    log_path.write_bytes(lines(changes, first))


def test_a_killed_process_leaves_what_it_put_although_nothing_was_committed(path, log_path):
    program = f"""
import os, sqlite3, sys, threading, time
from pathlib import Path
from app.store import writer
from app.store.chats import ChatStore
from app.store.records import ChatRecord, MessageRecord, ReplyRecord
writer.Writer._write = lambda *_: time.sleep(60)
store = ChatStore(Path({str(path)!r}), on_problem=print)
chat, question, reply = store.next_id(), store.next_id(), store.next_id()
store.save_chat(ChatRecord(chat))
store.save_message(MessageRecord(question, chat, None, "user", "A question"))
for text in ("An answer", "An answer that grows"):
    store.save_message(
        MessageRecord(reply, chat, question, "assistant", text, reply=ReplyRecord("streaming"))
    )
time.sleep(0.3)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    store = opened(path)
    (chat,) = store.chats()
    question, reply = store.messages(chat.id)
    assert question.content == "A question"
    assert (reply.content, reply.reply.status) == ("An answer that grows", "interrupted")
    assert store.next_id() > reply.id
    assert store.close(5)
    assert not log_path.exists()
    store = opened(path)
    assert store.messages(chat.id) == [question, reply]
    assert store.close(5)


def test_every_field_is_put_again(path, log_path):
    leave(path, log_path)
    for _ in range(2):
        store = opened(path)
        assert store.chats() == [CHAT]
        assert store.messages(1) == [QUESTION, ANSWER]
        assert store.close(5)


def test_what_waits_while_the_file_is_locked_survives_the_end_of_the_program(path, log_path):
    told = []
    store = ChatStore(path, on_problem=told.append)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.save_chat(CHAT)
        store.save_message(QUESTION)
        assert not store.close(10)
    assert told
    store = opened(path)
    assert store.messages(1) == [QUESTION]
    assert store.close(5)


def test_what_is_written_is_not_put_again(path, log_path):
    store = opened(path)
    store.save_chat(replace(CHAT, title="Newer"))
    assert store.close(5)
    with closing(sqlite3.connect(path)) as outside, outside:
        outside.execute("UPDATE written SET number = 3")
    log_path.write_bytes(lines(CHANGES))  # as it may be there again after the power failed
    store = opened(path)
    assert store.chats() == [replace(CHAT, title="Newer")]
    assert store.messages(1) == []
    store.save_message(QUESTION)
    assert store.flush(5)
    assert store.close(5)


def test_a_forgotten_chat_stays_forgotten(path, log_path):
    forgotten = (("chat", 1), Forgotten())
    leave(path, log_path, changes=[*CHANGES, forgotten])
    store = opened(path)
    assert store.chats() == []
    assert store.messages(1) == []
    assert store.close(5)
    assert not log_path.exists()


def test_the_text_of_a_log_that_was_written_is_gone_from_the_folder(path, log_path):
    store = opened(path)
    store.save_chat(CHAT)
    store.save_message(replace(QUESTION, content="a secret word"))
    store.forget_chat(1)
    assert store.close(5)
    assert not any(b"secret" in file.read_bytes() for file in path.parent.iterdir())


def test_a_gap_a_fault_or_an_unfinished_line_ends_what_is_read(log_path):
    whole = lines(CHANGES, first=5)
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        log_path.write_bytes(whole[:cut])
        left = read_left(log_path, 4)
        complete = sum(end <= cut for end in ends)
        assert left.changes == CHANGES[:complete]
        assert left.number == 4 + complete
        assert left.size == ([0, *ends][complete])
    log_path.write_bytes(whole)
    assert read_left(log_path, 5).changes == CHANGES[1:]
    assert read_left(log_path, 3) == read_left(log_path.with_name("none"), 3)  # 4 is missing
    log_path.write_bytes(lines(CHANGES[:1]) + lines(CHANGES[2:], first=3))
    assert read_left(log_path, 0).changes == CHANGES[:1]


@given(
    st.one_of(
        st.binary(max_size=60),
        st.lists(
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
                lambda inner: st.lists(inner, max_size=18) | st.dictionaries(st.text(), inner),
                max_leaves=30,
            )
            | st.sampled_from(["chat", "message", "forget", "none"]),
            max_size=5,
        ).map(lambda values: json.dumps([1, *values]).encode() + b"\n"),
    )
)
def test_no_file_makes_reading_fail(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    left = read_left(path, 0)
    assert left.number in (0, 1)


def test_a_record_that_only_a_bug_makes_is_passed_over(path, log_path):
    broken = replace(QUESTION, created_at=object())
    leave(path, log_path, changes=[CHANGES[0], (("message", 2), broken), (("chat", 1), CHAT)])
    left = read_left(log_path, 0)
    assert (left.changes, left.number) == ([CHANGES[0], CHANGES[0]], 3)


def test_a_log_that_cannot_be_written_costs_nothing_else(path, log_path):
    log_path.mkdir()
    store = opened(path)
    store.save_chat(CHAT)
    assert store.close(5)
    assert opened(path).chats() == [CHAT]


def test_after_a_fault_nothing_is_appended_until_all_is_written(tmp_path):
    path = tmp_path / "log"
    path.mkdir()
    log = PutLog(path, 0)
    log.append(1, *CHANGES[0])
    log.append(2, *CHANGES[1])
    log.clear()
    log.append(3, *CHANGES[2])
    path.rmdir()
    log.close(5)
    # Whether the file could be opened in time or not: what is there has no gap.
    assert read_left(path, 2).changes in ([], CHANGES[2:])


def test_a_damaged_file_takes_its_log_along(path, log_path):
    leave(path, log_path)
    path.write_bytes(b"damaged" * 1000)
    store = ChatStore(path, on_problem=pytest.fail)
    assert store.begun_anew
    assert store.chats() == []
    assert store.close(5)
    assert path.with_name("chats.damaged-1.db-unwritten").read_bytes() == lines(CHANGES)
