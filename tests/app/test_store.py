"""The store: what is saved is read again, at once and by the next start."""

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.store import connections, records, writer
from app.store.chats import KEEP_DELETED, ChatStore
from app.store.records import ChatRecord, MessageRecord, ReplyRecord
from app.store.search import add_functions
from app.ui.states import ReplyStatus
from engine.events import FinishReason, Statistics
from engine.messages import Role
from engine.options import OPTION_NAMES, SamplingOptions

OPTIONS = SamplingOptions(
    temperature=1.25,
    top_p=0.5,
    top_k=40,
    min_p=0.05,
    repetition_penalty=1.1,
    repetition_window=128,
    frequency_penalty=-0.5,
    presence_penalty=0.5,
    temperature_last=True,
    max_new_tokens=99,
    stop_texts=("a", "\ud800", "\0"),
    seed=2**63 - 1,
    end_loops=False,
)
REPLY = ReplyRecord(
    status="failed",
    reason="error",
    error="It broke.",
    remedy="Mend it.",
    token_ids=(0, 1, 49_151, 2**32 - 1),
    options=((0, SamplingOptions()), (17, OPTIONS)),
    seed=2**63 - 1,
    model="SmolLM2",
    device="cpu",
    precision="bf16",
    statistics=Statistics(12, 3, 4, 0.25, 340.5, 6),
    model_digest="ab12",
)
CHAT = ChatRecord(1, "Tea", True, 1.5, 2.5, None, 2, "a draft", "Be brief.", OPTIONS, True, True)
QUESTION = MessageRecord(2, 1, None, "user", "Why?\0\n😀", 3.5, None, 3)
ANSWER = MessageRecord(3, 1, 2, "assistant", "Because.", 4.5, None, None, REPLY)


@pytest.fixture
def path(tmp_path):
    """Where the chats are."""
    return tmp_path / "data" / "chats.db"


@pytest.fixture
def open_store(path):
    """Opens stores that must know of no problem, and closes them."""
    opened: list[ChatStore] = []

    def open_one() -> ChatStore:
        store = ChatStore(path, on_problem=lambda problem: pytest.fail(problem.what))
        assert store.problem is None
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        assert store.close(5)


@pytest.fixture
def held():
    """Holds back what `ChatStore`s write until it is released, and counts the transactions."""
    gate, write = threading.Event(), writer.Writer._write
    taken: list[list[records.Key]] = []

    def wait_first(self, changes, number):
        taken.append(list(changes))
        assert gate.wait(5)
        return write(self, changes, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer.Writer, "_write", wait_first)
        gate.taken = taken
        yield gate
        gate.set()


def test_every_field_is_read_again(open_store):
    store = open_store()
    for chat in (CHAT, ChatRecord(10), ChatRecord(11, system_prompt="")):
        store.save_chat(chat)
    bare = MessageRecord(4, 1, 3, "assistant", "", reply=ReplyRecord("waiting"))
    system = MessageRecord(5, 1, None, "system", "")
    for message in (QUESTION, ANSWER, bare, system):
        store.save_message(message)
    assert store.close(5)
    again = open_store()
    chats = {chat.id: chat for chat in again.chats()}
    assert chats[1] == replace(CHAT, options=replace(OPTIONS, stop_texts=("a", "\ud800", "\0")))
    assert chats[10] == ChatRecord(10)
    assert chats[11].system_prompt == ""
    interrupted = replace(bare, reply=ReplyRecord("interrupted"))
    assert again.messages(1) == [QUESTION, ANSWER, interrupted, system]
    assert again.messages(10) == []


def test_the_samples_leave_no_field_at_its_default():
    usual = SamplingOptions()
    assert all(getattr(OPTIONS, name) != getattr(usual, name) for name in OPTION_NAMES)
    for record, usual in ((CHAT, ChatRecord(0)), (REPLY, ReplyRecord("finished"))):
        unchanged = {n for n in record.__slots__ if getattr(record, n) == getattr(usual, n)}
        assert unchanged <= {"deleted_at"}


texts = st.text(st.characters(), max_size=12)  # surrogates, NUL and all
times = st.floats(0, 1e10)
ids = st.integers(1, 2**62)
options = st.builds(
    SamplingOptions,
    temperature=st.floats(0, 2) | st.integers(0, 2),
    top_k=st.integers(0, 200),
    max_new_tokens=st.none() | st.integers(1, 1_000_000),
    stop_texts=st.lists(st.text(st.characters(), min_size=1, max_size=5), max_size=3).map(tuple),
    seed=st.none() | st.integers(0, 2**63 - 1),
)
counts = st.integers(0, 9000)
replies = st.builds(
    ReplyRecord,
    status=st.sampled_from(["finished", "interrupted", "failed"]),
    reason=st.none() | st.sampled_from(get_args(FinishReason)),
    error=texts,
    remedy=texts,
    token_ids=st.none() | st.lists(st.integers(0, 2**32 - 1), max_size=5).map(tuple),
    options=st.lists(st.tuples(st.integers(0, 9000), options), max_size=3).map(tuple),
    seed=st.none() | st.integers(0, 2**63 - 1),
    model=texts,
    device=texts,
    precision=texts,
    statistics=st.none() | st.builds(Statistics, *(counts,) * 3, times, times, counts),
)
chats = st.builds(
    ChatRecord,
    *(ids, texts, st.booleans(), times, times, st.none(), st.none() | ids, texts),
    *(st.none() | texts, options),
)
TEXTS = (
    *("title", "draft", "system_prompt", "content", "error", "remedy", "model", "device"),
    "precision",
)


def as_stored(record):
    """The record with the texts that UTF-8 can hold."""
    texts = {n: getattr(record, n) for n in TEXTS if hasattr(record, n)}
    return replace(record, **{n: t and records.storable(t) for n, t in texts.items()})


@given(chat=chats, content=texts, reply=replies)
@example(chat=ChatRecord(5, "\ud83d\ude00 \ud800\0"), content="\udfff", reply=REPLY)
def test_whatever_is_saved_is_read_again(tmp_path_factory, chat, content, reply):
    path = tmp_path_factory.mktemp("store") / "chats.db"
    message = MessageRecord(chat.id + 1, chat.id, None, "assistant", content, reply=reply)
    for saving in (True, False):
        store = ChatStore(path, on_problem=lambda problem: pytest.fail(problem.details))
        if saving:
            store.save_chat(chat)
            store.save_message(message)
        else:
            assert store.chats() == [as_stored(chat)]
            kept = replace(as_stored(message), reply=as_stored(reply))
            assert store.messages(chat.id) == [kept]
        assert store.close(5)


def test_halves_of_a_surrogate_pair_are_joined_and_single_ones_replaced():
    assert records.storable("\ud83d\ude00 a\ud800b") == "😀 a\ufffdb"
    assert records.storable("as it is 😀\0") == "as it is 😀\0"


def test_records_that_contradict_themselves_cannot_be_made():
    with pytest.raises(ValueError, match="reply"):
        MessageRecord(1, 1, None, "assistant", "")
    with pytest.raises(ValueError, match="reply"):
        MessageRecord(1, 1, None, "user", "", reply=REPLY)
    with pytest.raises(ValueError, match="done"):
        ReplyRecord("done")


def test_the_schema_knows_every_status_and_role(open_store):
    store = open_store()
    store.save_chat(CHAT)
    for number, status in enumerate(ReplyStatus, start=10):
        reply = ReplyRecord(status.value)
        store.save_message(MessageRecord(number, 1, None, "assistant", "", reply=reply))
    for number, role in enumerate(get_args(Role), start=20):
        reply = REPLY if role == "assistant" else None
        store.save_message(MessageRecord(number, 1, None, role, "", reply=reply))
    assert store.flush(5)  # and on_problem was not called
    assert len(store.messages(1)) == len(ReplyStatus) + len(get_args(Role))


def test_chats_are_in_order_and_without_deleted_ones(open_store):
    store = open_store()
    for number, updated_at in ((1, 5.0), (2, 9.0), (3, 5.0), (4, 7.0)):
        store.save_chat(ChatRecord(number, updated_at=updated_at))
    assert [chat.id for chat in store.chats()] == [2, 4, 3, 1]
    assert store.flush(5)
    assert [chat.id for chat in store.chats()] == [2, 4, 3, 1]
    store.save_chat(ChatRecord(4, updated_at=7.0, deleted_at=8.0))
    assert [chat.id for chat in store.chats()] == [2, 3, 1]
    assert store.flush(5)
    assert [chat.id for chat in store.chats()] == [2, 3, 1]
    store.save_chat(ChatRecord(4, updated_at=7.0))  # the deletion undone
    assert store.flush(5)
    assert [chat.id for chat in store.chats()] == [2, 4, 3, 1]


def test_reading_sees_what_is_not_written_yet(open_store, held):
    store = open_store()
    store.save_chat(CHAT)
    store.save_message(QUESTION)
    store.save_message(ANSWER)
    assert not store.flush(0.01)
    assert store.chats() == [CHAT]
    assert store.messages(1) == [QUESTION, ANSWER]
    store.save_message(replace(ANSWER, content="more"))
    store.save_message(replace(QUESTION, deleted_at=1.0))
    assert [message.content for message in store.messages(1)] == ["more"]
    store.forget_chat(1)
    assert store.chats() == []
    assert store.messages(1) == []
    held.set()
    assert store.flush(5)
    assert store.chats() == []
    assert store.messages(1) == []


def test_many_states_of_a_record_are_one_write_in_the_place_of_the_first(open_store, held, path):
    store = open_store()
    store.save_chat(ChatRecord(99))  # the thread takes this one, and waits
    while not held.taken:
        time.sleep(0.001)
    store.save_chat(CHAT)
    store.save_message(QUESTION)
    store.save_message(ANSWER)
    for number in range(1000):
        store.save_message(replace(ANSWER, content=str(number)))
        store.save_message(replace(QUESTION, content=str(number)))
        store.save_chat(replace(CHAT, draft=str(number)))
    held.set()
    assert store.flush(5)
    assert held.taken == [[("chat", 99)], [("chat", 1), ("message", 2), ("message", 3)]]
    assert store.chats()[0].draft == "999"
    assert [message.content for message in store.messages(1)] == ["999", "999"]


def test_forgetting_leaves_no_word_in_the_files(open_store, path):
    store = open_store()
    store.save_chat(replace(CHAT, draft="draftsecret"))
    store.save_message(replace(QUESTION, content="shortsecret"))
    store.save_message(replace(ANSWER, content="longsecret" * 5000))
    store.save_chat(ChatRecord(50, "another"))
    assert store.flush(5)
    store.forget_chat(1)
    store.save_message(replace(ANSWER, content="latesecret"))  # a reply that still runs
    assert store.flush(5)
    assert [chat.id for chat in store.chats()] == [50]
    assert store.messages(1) == []
    for file in path.parent.iterdir():
        assert b"secret" not in file.read_bytes(), file
    with closing(sqlite3.connect(path)) as outside:
        for table in ("message", "reply"):
            assert outside.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_a_chat_forgotten_before_it_was_written_is_never_written(open_store, held):
    store = open_store()
    store.save_chat(ChatRecord(99))
    while not held.taken:
        time.sleep(0.001)
    store.save_chat(CHAT)
    store.save_message(QUESTION)
    store.forget_chat(1)
    held.set()
    assert store.flush(5)
    assert held.taken[1:] == [[("chat", 1)]]
    assert [chat.id for chat in store.chats()] == [99]


def test_ids_are_never_given_out_twice(open_store):
    store = open_store()
    first = [store.next_id() for _ in range(3)]
    assert first == [1, 2, 3]
    store.save_chat(ChatRecord(40))
    store.save_message(MessageRecord(41, 40, None, "user", ""))
    assert store.next_id() == 4
    assert store.close(5)
    store = open_store()
    assert store.next_id() == 42
    store.forget_chat(40)
    assert store.close(5)
    assert open_store().next_id() == 42


def test_replies_that_an_earlier_session_left_are_interrupted_and_keep_their_text(open_store, path):
    store = open_store()
    store.save_chat(CHAT)
    states = ("streaming", "waiting", "finished", "failed")
    for number, status in enumerate(states, start=10):
        reply = replace(REPLY, status=status)
        store.save_message(MessageRecord(number, 1, None, "assistant", status, reply=reply))
    assert store.close(5)
    store = open_store()
    read = {message.content: message.reply for message in store.messages(1)}
    assert read["streaming"] == replace(REPLY, status="interrupted")
    assert [read[s].status for s in states[1:]] == ["interrupted", "finished", "failed"]
    assert store.flush(5)
    with closing(sqlite3.connect(path)) as outside:
        on_disk = outside.execute("SELECT status FROM reply ORDER BY message_id").fetchall()
    assert [row[0] for row in on_disk] == ["interrupted", "interrupted", "finished", "failed"]


def test_chats_deleted_long_ago_are_deleted_for_good(open_store, path):
    store, now = open_store(), time.time()
    store.save_chat(replace(CHAT, deleted_at=now - KEEP_DELETED - 60))
    store.save_message(QUESTION)
    store.save_chat(ChatRecord(20, deleted_at=now - KEEP_DELETED + 60))
    store.save_chat(ChatRecord(21))
    assert store.close(5)
    store = open_store()
    assert store.flush(5)
    with closing(sqlite3.connect(path)) as outside:
        assert outside.execute("SELECT id FROM chat ORDER BY id").fetchall() == [(20,), (21,)]
        assert outside.execute("SELECT count(*) FROM message").fetchone() == (0,)


@pytest.mark.parametrize(
    "damaged",
    [
        *("", "{", "[]", "null", '{"temperature": 9}', '{"temperature": "1"}', "[" * 100_000),
        *('{"stop_texts": "abc"}', '{"stop_texts": [1]}', '{"top_p": 1e999}', '{"seed": {}}'),
        '{"top_k": ' + "1" * 5000 + "}",
    ],
)
def test_damaged_options_give_way_to_the_usual_ones(open_store, path, damaged):
    store = open_store()
    store.save_chat(CHAT)
    store.save_message(QUESTION)
    store.save_message(ANSWER)
    assert store.close(5)
    with closing(sqlite3.connect(path, isolation_level=None)) as outside:
        outside.execute("UPDATE chat SET options = ?", (damaged,))
        outside.execute("UPDATE reply SET options = ?", (f"[[0, {damaged}]]",))
    store = open_store()
    assert store.chats() == [replace(CHAT, options=SamplingOptions())]
    assert store.messages(1)[1].reply == replace(REPLY, options=())


def test_an_option_that_a_later_version_adds_is_left_alone(open_store, path):
    store = open_store()
    store.save_chat(ChatRecord(1))
    assert store.close(5)
    with closing(sqlite3.connect(path, isolation_level=None)) as outside:
        outside.execute("""UPDATE chat SET options = '{"temperature": 0.25, "new": 1}'""")
    assert open_store().chats()[0].options == SamplingOptions(temperature=0.25)


def test_damaged_values_are_replaced_one_by_one(open_store, path):
    store = open_store()
    store.save_chat(CHAT)
    store.save_message(QUESTION)
    store.save_message(ANSWER)
    assert store.close(5)
    with closing(sqlite3.connect(path, isolation_level=None)) as outside:
        outside.execute("PRAGMA ignore_check_constraints = ON")
        outside.execute("UPDATE chat SET title = CAST(x'61ff62' AS TEXT), updated_at = 9e999")
        outside.execute("UPDATE message SET role = 'robot' WHERE id = 2")
        outside.execute(
            "UPDATE reply SET status = 'lost', reason = 'odd', token_ids = x'010203', "
            "new_tokens = NULL"
        )
    store = open_store()
    assert store.chats() == [replace(CHAT, title="a\ufffdb", updated_at=0.0)]
    reply = replace(REPLY, status="interrupted", reason=None, token_ids=None, statistics=None)
    assert store.messages(1) == [QUESTION, replace(ANSWER, reply=reply)]


def test_a_reply_whose_row_is_lost_has_lost_its_end(open_store, path):
    store = open_store()
    store.save_chat(CHAT)
    store.save_message(replace(ANSWER, parent_id=None))
    assert store.close(5)
    with closing(sqlite3.connect(path, isolation_level=None)) as outside:
        outside.execute("DELETE FROM reply")
    assert open_store().messages(1)[0].reply == ReplyRecord("interrupted")


def test_messages_are_deleted_with_their_parents(open_store, path):
    store = open_store()
    store.save_chat(CHAT)
    store.save_message(QUESTION)
    store.save_message(ANSWER)
    store.save_message(replace(ANSWER, id=4))
    assert store.flush(5)
    assert [message.parent_id for message in store.messages(1)] == [None, 2, 2]
    with closing(sqlite3.connect(path, isolation_level=None)) as outside:
        add_functions(outside)
        outside.execute("PRAGMA foreign_keys = ON")
        outside.execute("DELETE FROM message WHERE id = 2")
        assert outside.execute("SELECT count(*) FROM reply").fetchone() == (0,)


def test_the_store_needs_neither_qt_nor_torch_nor_numpy():
    program = (
        "import sys, app.store.chats; "
        "sys.exit(any(name in sys.modules for name in ('PySide6', 'torch', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_file_is_set_up_so_that_what_was_flushed_survives_a_power_cut(open_store):
    store = open_store()
    settings = ("journal_mode", "synchronous", "foreign_keys", "secure_delete", "application_id")
    ask = store._database.writer.execute
    values = [ask(f"PRAGMA {name}").fetchone()[0] for name in settings]
    assert values == ["wal", 2, 1, 1, connections.APPLICATION_ID]
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        store._database.reader.execute("DELETE FROM chat")


def test_a_chat_of_thousands_of_messages_in_a_row_is_forgotten(open_store):
    store = open_store()
    store.save_chat(ChatRecord(1))
    for number in range(2, 3002):
        parent = number - 1 if number > 2 else None
        store.save_message(MessageRecord(number, 1, parent, "user", "long"))
    store.save_chat(ChatRecord(9000))
    assert store.flush(10)
    store.forget_chat(1)
    assert store.flush(10)
    assert store.messages(1) == []
    assert [chat.id for chat in store.chats()] == [9000]
    assert store.search("long", limit=5) == []
