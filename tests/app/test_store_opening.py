"""Opening the store: whatever is found where the chats should be, the window can begin."""

import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from app.store import connections
from app.store.chats import ChatStore
from app.store.database import open_database
from app.store.records import ChatRecord, MessageRecord, ReplyRecord
from engine.events import Statistics


@pytest.fixture
def path(tmp_path):
    """Where the chats are."""
    return tmp_path / "data" / "chats.db"


@pytest.fixture
def open_store(path):
    """Opens stores, collects what they say later, and closes them."""
    opened: list[ChatStore] = []

    def open_one(at: Path = path) -> ChatStore:
        told = []
        store = ChatStore(at, on_problem=told.append)
        store.told = told
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close(5)


def fill(path: Path, chats: int = 30) -> None:
    """A file with some pages of everything."""
    store = ChatStore(path, on_problem=lambda problem: pytest.fail(problem.what))
    for _ in range(chats):
        chat, question, answer = store.next_id(), store.next_id(), store.next_id()
        store.save_chat(ChatRecord(chat, f"chat {chat}"))
        store.save_message(MessageRecord(question, chat, None, "user", "why? " * 40))
        reply = ReplyRecord("finished", token_ids=tuple(range(200)))
        store.save_message(MessageRecord(answer, chat, question, "assistant", "so", reply=reply))
    assert store.close(5)


def works(store: ChatStore, *, within: float = 5) -> bool:
    """Whether the store keeps a chat, for this session at least."""
    chat = ChatRecord(store.next_id(), "new", updated_at=1e10)
    store.save_chat(chat)
    return store.flush(within) and store.chats()[0] == chat


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_closed_store_is_one_file(path, open_store):
    fill(path)
    assert os.listdir(path.parent) == ["chats.db"]
    store = open_store()
    assert store.problem is None
    assert len(store.chats()) == 30
    assert set(os.listdir(path.parent)) > {"chats.db", "chats.db-open"}
    assert store.close(5)
    assert os.listdir(path.parent) == ["chats.db"]


def test_opening_changes_nothing_where_there_is_nothing_to_do(path, open_store):
    fill(path)
    before = path.read_bytes()
    store = open_store()
    store.chats()
    assert store.close(5)
    assert path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of another kind there")
def test_chats_are_for_their_owner_only(path):
    fill(path)
    assert path.parent.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of another kind there")
def test_in_a_folder_that_others_may_read_they_read_no_chat(path, open_store):
    path.parent.mkdir(mode=0o755, parents=True)
    store = open_store(path)
    store.save_chat(ChatRecord(store.next_id(), "Tea", created_at=1.0, updated_at=1.0))
    assert store.flush(5)
    kept = [file for file in path.parent.iterdir() if not file.name.endswith("-open")]
    assert {path.name, f"{path.name}-wal"} <= {file.name for file in kept}
    assert [file.name for file in kept if file.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("version", [len(connections.MIGRATIONS) + 1, 99, 2**31 - 1])
def test_a_file_from_a_newer_version_is_not_touched(path, open_store, version):
    fill(path)
    with closing(sqlite3.connect(path)) as outside:
        outside.execute(f"PRAGMA user_version = {version}")
        outside.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = contents(path.parent)
    store = open_store()
    assert "newer" in store.problem.what
    assert "lost when you close" in store.problem.what
    assert "newest Smoldesk" in store.problem.remedy
    assert store.chats() == []
    assert works(store)
    assert contents(path.parent) == before
    assert store.close(5)
    assert contents(path.parent) == before


def test_a_newer_version_that_was_killed_left_its_number_in_the_log(path, open_store):
    fill(path)
    program = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('PRAGMA user_version = 99'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    before = contents(path.parent)
    assert before.pop("chats.db-shm")  # SQLite's own notes on the log
    assert before["chats.db"][60:64] == bytes([0, 0, 0, len(connections.MIGRATIONS)])
    store = open_store()
    assert "newer" in store.problem.what
    assert works(store)
    assert store.close(5)
    after = contents(path.parent)
    after.pop("chats.db-shm", None)
    assert after == before


def test_an_empty_file_becomes_a_store(path, open_store):
    path.parent.mkdir()
    path.touch()
    store = open_store()
    assert store.problem is None
    assert works(store)


@pytest.mark.parametrize("size", [1, 15, 50, 99, 100, 5000])
def test_a_file_of_another_kind_is_kept_aside(path, open_store, size):
    junk = random.Random(size).randbytes(size)
    for number in (1, 2):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(junk)
        store = open_store()
        kept = path.with_name(f"chats.damaged-{number}.db")
        assert kept.read_bytes() == junk
        assert "damaged" in store.problem.what
        assert str(kept) in store.problem.remedy
        assert works(store)
        assert store.close(5)
        store = open_store()
        assert store.problem is None
        assert [chat.title for chat in store.chats()] == ["new"]
        assert store.close(5)


@pytest.mark.parametrize("version", [0, 1])
def test_the_database_of_another_program_is_kept_aside(path, open_store, version):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE recipes (name)")
        other.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    store = open_store()
    assert str(path.with_name("chats.damaged-1.db")) in store.problem.remedy
    assert path.with_name("chats.damaged-1.db").read_bytes() == before
    assert works(store)


def test_a_log_is_kept_aside_with_its_file(path, open_store):
    path.parent.mkdir()
    for ending in ("", "-wal", "-shm"):
        path.with_name(f"chats.db{ending}").write_bytes(b"junk" + ending.encode())
    store = open_store()
    for ending in ("", "-wal"):
        kept = path.with_name(f"chats.damaged-1.db{ending}")
        assert kept.read_bytes() == b"junk" + ending.encode()
    assert works(store)


@pytest.mark.parametrize("part", [0.999, 0.7, 0.3, 0.05])
def test_a_file_that_was_cut_is_kept_aside(path, open_store, part):
    fill(path, chats=200)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    store = open_store()
    assert "damaged" in store.problem.what
    assert works(store)
    assert path.with_name("chats.damaged-1.db").exists()


def test_no_flipped_byte_of_the_header_keeps_the_window_from_opening(path, tmp_path, open_store):
    fill(path, chats=3)
    whole = path.read_bytes()
    for place in range(100):
        at = tmp_path / str(place) / "chats.db"
        at.parent.mkdir()
        at.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        store = open_store(at)
        titles = [chat.title for chat in store.chats()]
        assert store.problem is not None or titles == ["chat 7", "chat 4", "chat 1"], place
        assert works(store, within=0.5) or store.told, place
        store.close(5)


def test_no_flipped_byte_at_all_keeps_the_window_from_opening(path, tmp_path, open_store):
    fill(path)
    whole, dice = path.read_bytes(), random.Random(3)
    for number in range(60):
        at = tmp_path / str(number) / "chats.db"
        at.parent.mkdir()
        place = dice.randrange(100, len(whole))
        at.write_bytes(whole[:place] + bytes([dice.randrange(256)]) + whole[place + 1 :])
        if number % 2:
            at.with_name("chats.db-open").touch()
        store = open_store(at)
        for chat in store.chats():
            store.messages(chat.id)
        assert works(store, within=0.5) or store.told
        store.close(5)


def damage_a_page(path: Path, words: bytes) -> None:
    """Break the page that holds the words, which opening alone does not look at."""
    whole = bytearray(path.read_bytes())
    size = int.from_bytes(whole[16:18], "big")
    start = whole.index(words) // size * size
    whole[start : start + size] = b"\xa5" * size
    path.write_bytes(whole)


def test_after_a_proper_end_the_file_is_not_searched_for_damage_but_after_another(
    path, open_store, monkeypatch
):
    asked = []
    connect = connections.connect

    def watched(address):
        connection = connect(address)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(connections, "connect", watched)
    fill(path)
    assert open_store().close(5)
    assert not any("quick_check" in query for query in asked)
    path.with_name("chats.db-open").touch()
    store = open_store()
    assert any("quick_check" in query for query in asked)
    assert store.problem is None
    assert len(store.chats()) == 30


def test_damage_found_while_reading_is_told_once_and_mended_by_the_next_start(path, open_store):
    fill(path, chats=200)
    damage_a_page(path, b"chat 301")
    store = open_store()
    assert store.problem is None
    titles = [chat.title for chat in store.chats()]
    assert "chat 1" in titles
    assert "chat 301" not in titles
    assert len(store.chats()) == len(titles)
    assert [problem.what for problem in store.told] == [
        "The file with your chats is damaged, so some of them cannot be shown."
    ]
    store.close(5)
    store = open_store()
    assert "damaged" in store.problem.what
    assert works(store)
    assert path.with_name("chats.damaged-1.db").exists()


def test_a_damaged_file_that_cannot_be_moved_is_left_alone(path, open_store, monkeypatch):
    path.parent.mkdir()
    path.write_bytes(b"junk")

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "replace", refuse)
    store = open_store()
    assert "damaged" in store.problem.what
    assert str(path) in store.problem.remedy
    assert works(store)
    assert path.read_bytes() == b"junk"


@pytest.mark.parametrize("place", ["data", "data/chats.db"])
def test_a_place_that_cannot_be_used_is_named_and_the_chats_are_in_memory(
    path, tmp_path, open_store, place
):
    if place == "data":
        (tmp_path / place).write_text("a file where the folder should be")
    else:
        (tmp_path / place).mkdir(parents=True)
    store = open_store()
    assert "lost when you close" in store.problem.what
    assert str(path.parent) in store.problem.remedy
    assert works(store)
    assert store.close(5)


def test_chats_that_can_only_be_read_are_shown(path, open_store, monkeypatch):
    fill(path)
    before = contents(path.parent)

    def refuse(self, *_, **__):
        raise PermissionError(13, "no", str(self))

    monkeypatch.setattr(Path, "touch", refuse)  # as in a folder of another user
    store = open_store()
    assert "lost when you close" in store.problem.what
    assert str(path.parent) in store.problem.remedy
    assert len(store.chats()) == 30
    assert len(store.messages(1)) == 2
    assert store.next_id() == 91
    assert works(store)
    store.close(5)
    assert contents(path.parent) == before


def test_a_disk_too_full_for_the_mark_shows_the_chats_all_the_same(path, open_store, monkeypatch):
    fill(path)

    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "touch", refuse)
    store = open_store()
    assert store.problem is None
    assert len(store.chats()) == 30


def test_a_file_that_another_program_has_locked_is_told_of(path, open_store, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 0.05)
    fill(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        store = open_store()
        assert "Another program" in store.problem.what
        assert str(path) in store.problem.remedy
        assert works(store)
        assert store.close(5)
        other.execute("ROLLBACK")
    assert len(open_store().chats()) == 30


def test_another_program_that_writes_does_not_keep_the_store_from_opening(path, open_store):
    fill(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store = open_store()
        assert store.problem is None
        assert len(store.chats()) == 30
        other.execute("ROLLBACK")


@pytest.mark.parametrize("name", ["with space & ümlaut", "100%?#", "😀", "a'\"b"])
def test_a_path_may_have_any_letters(tmp_path, open_store, name):
    if sys.platform == "win32" and set(name) & set('?"'):
        pytest.skip("no such names there")
    path = tmp_path / name / f"{name}.db"
    fill(path)
    assert os.listdir(path.parent) == [path.name]
    assert len(open_store(path).chats()) == 30


def test_a_file_of_the_first_version_is_taken_over(path, open_store):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as old:
        old.executescript(connections.MIGRATIONS[0].read_text(encoding="utf-8"))
        old.executescript("""
            PRAGMA user_version = 1;
            INSERT INTO chat VALUES (1, 'Tea', 1, 1.5, 2.5, NULL, 2, 'a draft', NULL, '{}');
            INSERT INTO message VALUES (2, 1, NULL, 'user', 'Why?', 3.5, NULL, 3);
            INSERT INTO message VALUES (3, 1, 2, 'assistant', 'So.', 4.5, NULL, NULL);
            INSERT INTO reply VALUES
                (3, 'finished', 'end_of_turn', '', '', NULL, '[]', 7, 'm', 'cpu', 'q4',
                 9, 8, 7, 0.5, 6.5);
        """)
    store = open_store()
    assert store.problem is None
    assert [(chat.title, chat.draft) for chat in store.chats()] == [("Tea", "a draft")]
    question, answer = store.messages(1)
    assert (question.content, answer.content) == ("Why?", "So.")
    assert answer.reply.statistics == Statistics(9, 8, 7, 0.5, 6.5)
    assert works(store)


def test_a_migration_is_done_as_a_whole_and_once(path, tmp_path, open_store, monkeypatch):
    fill(path)
    second = tmp_path / "second.sql"
    second.write_text("ALTER TABLE chat ADD COLUMN pinned_at REAL;")
    third = tmp_path / "third.sql"
    third.write_text("UPDATE chat SET pinned_at = id;")
    monkeypatch.setattr(connections, "MIGRATIONS", (*connections.MIGRATIONS, second, third))
    for _ in range(2):
        opened = open_database(path)
        assert opened.problem is None
        rows = opened.reader.execute("SELECT id, pinned_at FROM chat").fetchall()
        assert len(rows) == 30
        assert all(number == pinned for number, pinned in rows)
        newest = len(connections.MIGRATIONS)
        assert opened.reader.execute("PRAGMA user_version").fetchone() == (newest,)
        opened.close(sound=True)


def test_a_migration_that_fails_changes_nothing(path, tmp_path, open_store, monkeypatch):
    fill(path)
    second = tmp_path / "second.sql"
    second.write_text("UPDATE chat SET title = 'gone'; INSERT INTO chat SELECT * FROM chat;")
    with monkeypatch.context() as later:
        later.setattr(connections, "MIGRATIONS", (*connections.MIGRATIONS, second))
        store = open_store()
        assert "made ready" in store.problem.what
        assert "UNIQUE" in store.problem.details
        assert store.chats() == []
        assert works(store)
        assert store.close(5)
    store = open_store()
    assert store.problem is None
    assert {chat.title for chat in store.chats()} == {f"chat {n}" for n in range(1, 90, 3)}
