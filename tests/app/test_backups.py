"""Backups: whole, at most one a day, thinned with care, and nothing stays in them that must go."""

import errno
import functools
import os
import sqlite3
from contextlib import closing, suppress
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.store import backup_files, backups, connections
from app.store.backup_problems import BackupError
from app.store.backups import back_up, chats_of, forget_chat, listed, thin
from app.store.chats import ChatStore
from app.store.records import ChatRecord, MessageRecord, ReplyRecord
from app.store.search import add_functions

DAY = 24 * 3600.0
NOON = datetime(2026, 12, 1, 12).timestamp()
REPLY = ReplyRecord("finished", "end_of_turn", token_ids=(1, 2, 3), model="SmolLM2")
SECRET = "Xylophonquitte 密碼是甲乙 ébouriffé"


@pytest.fixture
def folder(tmp_path):
    """Where the backups are."""
    return tmp_path / "backups"


@pytest.fixture
def path(tmp_path):
    """Where the chats are."""
    return tmp_path / "chats.db"


@pytest.fixture
def store(path):
    """A store that is open all the time."""
    opened = ChatStore(path, on_problem=lambda problem: pytest.fail(problem.what))
    yield opened
    opened.close(5)


def say(store: ChatStore, *texts: str, title: str = "") -> int:
    """Save a chat of questions and replies in turn; its id."""
    chat, parent = ChatRecord(store.next_id(), title), None
    store.save_chat(chat)
    for number, text in enumerate(texts):
        role, reply = ("assistant", REPLY) if number % 2 else ("user", None)
        message = MessageRecord(store.next_id(), chat.id, parent, role, text, reply=reply)
        store.save_message(message)
        parent = message.id
    assert store.flush(10)
    return chat.id


def content(store: ChatStore) -> list[tuple[ChatRecord, list[MessageRecord]]]:
    """All that the store has but what is deleted, as `chats_of` gives it."""
    chats = sorted(store.chats(), key=lambda chat: chat.id)
    return [(chat, store.messages(chat.id)) for chat in chats]


def names(folder: Path) -> list[str]:
    """All that is in the folder."""
    return sorted(os.listdir(folder))


def dated(day: date) -> str:
    """The name of that day's backup."""
    return f"chats-{day.isoformat()}.db"


# --- making --------------------------------------------------------------------------------------


def test_a_backup_is_the_store_with_its_log_in_one_private_file(store, folder, path):
    say(store, "Why?\0\n😀", "Because \ud83d.", title="Tea")
    assert path.with_name("chats.db-wal").stat().st_size > 0
    made = back_up(path, folder, now=NOON)
    assert made == folder / "chats-2026-12-01.db"
    assert list(chats_of(made)) == content(store)
    assert names(folder) == ["chats-2026-12-01.db"]
    if os.name == "posix":
        assert made.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(made)) as outside:
        assert outside.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert outside.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert names(folder) == ["chats-2026-12-01.db"]  # a look at it leaves no log beside it


def test_put_in_place_of_the_chats_a_backup_is_a_store(store, folder, path, tmp_path):
    say(store, "Where is the zebra?", "In Kenya.")
    other = tmp_path / "other" / "chats.db"
    other.parent.mkdir()
    os.replace(back_up(path, folder, now=NOON), other)
    restored = ChatStore(other, on_problem=pytest.fail)
    assert restored.problem is None
    assert content(restored) == content(store)
    assert [hit.role for hit in restored.search("zebra", limit=9)] == ["user"]
    assert restored.close(5)


def test_at_most_one_a_day_and_none_if_nothing_changed(store, folder, path):
    say(store, "one")
    first = back_up(path, folder, now=NOON)
    before = first.read_bytes()
    say(store, "two")
    assert back_up(path, folder, now=NOON + 3600) is None
    assert first.read_bytes() == before
    assert back_up(path, folder, now=NOON + DAY) == folder / "chats-2026-12-02.db"
    assert back_up(path, folder, now=NOON + 2 * DAY) is None
    assert store.close(5)
    ChatStore(path, on_problem=pytest.fail).close(5)
    assert back_up(path, folder, now=NOON + 3 * DAY) is None  # to start and to quit is no change
    assert names(folder) == ["chats-2026-12-01.db", "chats-2026-12-02.db"]


def test_nothing_is_made_of_chats_that_are_not_there(path, folder):
    assert back_up(path, folder, now=NOON) is None
    assert not path.exists()
    assert names(folder) == []


def test_a_clock_set_back_makes_one_more_and_no_more(store, folder, path):
    say(store, "one")
    back_up(path, folder, now=NOON)
    say(store, "two")
    past = datetime(2001, 1, 1).timestamp()
    assert back_up(path, folder, now=past) == folder / "chats-2001-01-01.db"
    assert back_up(path, folder, now=past) is None
    assert back_up(path, folder, now=past + DAY) is None  # the same as the one before
    thin(folder, now=past)
    assert names(folder) == ["chats-2001-01-01.db", "chats-2026-12-01.db"]


def test_a_store_that_is_written_to_at_every_step_is_copied_as_it_was_before(
    store, folder, path, monkeypatch
):
    monkeypatch.setattr(backups, "_STEP", 1)
    chat = say(store, *("filling " * 2000 for _ in range(20)))
    before, steps, watch = content(store), [], backups._give_up_in_the_end

    def write_at_each_step():
        progressed = watch()

        def write(*facts):
            progressed(*facts)
            number = store.next_id()
            store.save_message(MessageRecord(number, chat, None, "user", f"number {number}"))
            assert store.flush(5)  # so the writer need not wait for the copy
            steps.append(number)

        return write

    monkeypatch.setattr(backups, "_give_up_in_the_end", write_at_each_step)
    made = back_up(path, folder, now=NOON)
    assert len(steps) > 3 * backups._ATTEMPTS
    assert list(chats_of(made)) == before
    monkeypatch.undo()
    assert list(chats_of(back_up(path, folder, now=NOON + DAY))) == content(store)


def test_without_a_log_it_gives_up_on_a_file_that_others_hold(store, folder, path, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 0.001)
    say(store, "hello")
    assert store.close(5)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BackupError, match="in use"):
            back_up(path, folder, now=NOON)
        assert names(folder) == []
        other.execute("ROLLBACK")
    assert back_up(path, folder, now=NOON) is not None


def test_without_a_log_a_file_that_changes_at_every_step_is_given_up(
    store, folder, path, monkeypatch
):
    monkeypatch.setattr(backups, "_STEP", 1)
    say(store, *("words " * 2000 for _ in range(4)))
    assert store.close(5)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        watch = backups._give_up_in_the_end

        def write_at_each_step():
            progressed = watch()

            def write(*facts):
                progressed(*facts)
                other.execute("UPDATE chat SET updated_at = updated_at + 1")

            return write

        monkeypatch.setattr(backups, "_give_up_in_the_end", write_at_each_step)
        with pytest.raises(BackupError, match="in use"):
            back_up(path, folder, now=NOON)
    assert names(folder) == []


def test_what_a_killed_program_left_is_removed(store, folder, path):
    say(store, "hello")
    folder.mkdir()
    for ending in ("", "-wal", "-journal"):
        (folder / f"chats-2026-11-30.db.part{ending}").write_bytes(b"half")
    (folder / "mine.db.part").write_bytes(b"whole")
    back_up(path, folder, now=NOON)
    assert names(folder) == ["chats-2026-12-01.db", "mine.db.part"]


def test_damaged_chats_are_not_backed_up(store, folder, path):
    say(store, *(["words " * 1000] * 20))
    assert store.close(5)
    whole = bytearray(path.read_bytes())
    whole[20_000:40_000] = b"\x5a" * 20_000
    path.write_bytes(whole)
    with pytest.raises(BackupError, match="damaged") as caught:
        back_up(path, folder, now=NOON)
    assert str(path) in caught.value.failure.what
    assert names(folder) == []


@pytest.mark.parametrize("bytes_", [b"", b"no database", b"SQLite format 3\0" + bytes(84)])
def test_what_is_no_store_is_not_backed_up(folder, path, bytes_):
    path.write_bytes(bytes_)
    with pytest.raises(BackupError):
        back_up(path, folder, now=NOON)
    assert names(folder) == []
    assert path.read_bytes() == bytes_


def test_on_a_full_disk_nothing_half_written_remains(store, folder, path, monkeypatch):
    chat = say(store, *(["words " * 1000] * 20))
    made = back_up(path, folder, now=NOON)
    whole, open_part = made.read_bytes(), backups._open_part

    def open_on_a_full_disk(part):
        copy = open_part(part)
        copy.execute("PRAGMA max_page_count = 10")
        return copy

    monkeypatch.setattr(backups, "_open_part", open_on_a_full_disk)
    say(store, "more")
    for attempt in (
        functools.partial(back_up, path, folder, now=NOON + DAY),
        functools.partial(forget_chat, folder, chat),
    ):
        with pytest.raises(BackupError, match="disk is full") as caught:
            attempt()
        assert str(folder) in caught.value.failure.remedy
        assert names(folder) == ["chats-2026-12-01.db"]
        assert made.read_bytes() == whole


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["open", "replace", "fsync"])
def test_whatever_the_system_refuses_is_said_in_plain_words(
    store, folder, path, monkeypatch, number, call
):
    say(store, "hello")
    folder.mkdir()

    def refuse(*_, **__):
        raise OSError(number, "in the system's words")

    monkeypatch.setattr(backups.os, call, refuse)
    with pytest.raises(BackupError) as caught:
        back_up(path, folder, now=NOON)
    monkeypatch.undo()
    failure = caught.value.failure
    assert failure.what.startswith("Your chats could not be backed up, because ")
    assert "system's words" not in failure.what + failure.remedy
    assert str(folder) in failure.remedy
    assert names(folder) == []


def test_a_file_in_place_of_the_folder_is_said_and_left(store, folder, path):
    say(store, "hello")
    folder.write_text("mine")
    for attempt in (
        lambda: back_up(path, folder, now=NOON),
        lambda: thin(folder, now=NOON),
        lambda: listed(folder),
        lambda: forget_chat(folder, 1),
    ):
        with pytest.raises(BackupError):
            attempt()
    assert folder.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do anything")
def test_a_folder_that_may_not_be_written_to(store, folder, path):
    say(store, "hello")
    folder.mkdir(mode=0o500)
    with pytest.raises(BackupError, match="opened or changed"):
        back_up(path, folder, now=NOON)
    assert names(folder) == []


# --- listing and thinning ------------------------------------------------------------------------


def test_the_newest_comes_first_with_its_time_and_size(store, folder, path):
    say(store, "one")
    old = back_up(path, folder, now=NOON)
    os.utime(old, (NOON + 5, NOON + 5))
    say(store, "two")
    new = back_up(path, folder, now=NOON + DAY)
    os.utime(new, (NOON + 90 * DAY,) * 2)  # as of a copied folder
    assert [(backup.path, backup.when) for backup in listed(folder)] == [
        (new, datetime(2026, 12, 2).timestamp()),
        (old, NOON + 5),
    ]
    assert listed(folder)[0].bytes == new.stat().st_size
    assert listed(folder / "nowhere") == []


def test_a_year_of_backups_is_thinned_to_a_week_of_days_and_eight_weeks(folder):
    folder.mkdir()
    today = date(2026, 12, 1)  # a Tuesday
    for age in range(365):
        (folder / dated(today - timedelta(age))).touch()
    thin(folder, now=NOON)
    kept = {backup.path.name for backup in listed(folder)}
    days = {dated(today - timedelta(age)) for age in range(7)}
    sundays = {dated(date(2026, 11, 29) - timedelta(weeks=n)) for n in range(7)}
    assert kept == days | sundays
    thin(folder, now=NOON)
    assert {backup.path.name for backup in listed(folder)} == kept


def test_thinned_every_day_there_are_always_eight_weeks_to_go_back_to(folder):
    folder.mkdir()
    for day in range(200):
        now = NOON + day * DAY
        (folder / dated(datetime.fromtimestamp(now).date())).touch()
        thin(folder, now=now)
        days = [backup_files.day_of(backup.path) for backup in listed(folder)]
        assert len(days) <= 15
        if day > 60:
            assert (days[0] - days[6]).days == 6
            assert (
                days[0] - days[-1]
            ).days >= 42  # the first of eight weeks may have its last day only


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    days=st.sets(st.dates(date(1980, 1, 1), date(2099, 12, 31)), max_size=40),
    now=st.dates(date(1980, 1, 1), date(2099, 12, 31)),
)
def test_whatever_the_clock_says_the_newest_stay(tmp_path_factory, days, now):
    folder = tmp_path_factory.mktemp("backups")
    for day in days:
        (folder / dated(day)).touch()
    moment = datetime(now.year, now.month, now.day, 12).timestamp()
    thin(folder, now=moment)
    kept = {backup_files.day_of(backup.path) for backup in listed(folder)}
    past = sorted((day for day in days if day <= now), reverse=True)
    assert kept <= days
    assert kept >= {day for day in days if day > now}
    assert kept >= set(past[:3])
    assert kept >= {day for day in past if (now - day).days < 7}
    assert len(kept & set(past)) <= 15
    thin(folder, now=moment)
    assert {backup_files.day_of(backup.path) for backup in listed(folder)} == kept


def test_only_our_own_files_are_touched_and_no_link_is_followed(folder, tmp_path):
    folder.mkdir()
    for age in range(100):
        (folder / dated(date(2026, 12, 1) - timedelta(age))).touch()
    others = [
        *("chats-2001-02-30.db", "chats-2001-1-1.db", "chats-2001-01-01.db.bak", "Chats-2001.db"),
        *("my chats-2001-01-01.db", "chats-٢٠٠١-01-01.db", "chats-20010101.db", "notes.txt"),
    ]
    for name in others:
        (folder / name).touch()
    (folder / "chats-2001-01-03.db").mkdir()
    elsewhere = tmp_path / "elsewhere.db"
    elsewhere.write_text("mine")
    (folder / "chats-2001-01-02.db").symlink_to(elsewhere)
    thin(folder, now=NOON)
    assert {*others, "chats-2001-01-02.db", "chats-2001-01-03.db"} <= set(names(folder))
    assert "chats-2026-08-30.db" not in names(folder)
    assert elsewhere.read_text() == "mine"


def test_a_link_in_place_of_todays_backup_is_left_alone(store, folder, path, tmp_path):
    chat = say(store, SECRET)
    folder.mkdir()
    real = back_up(path, tmp_path / "elsewhere", now=NOON)
    whole = real.read_bytes()
    (folder / real.name).symlink_to(real)
    say(store, "more")
    assert back_up(path, folder, now=NOON) is None
    forget_chat(folder, chat)
    assert real.read_bytes() == whole
    assert (folder / real.name).is_symlink()


# --- deleting for ever ---------------------------------------------------------------------------


def traces(folder: Path) -> list[str]:
    """The files in which words of SECRET can be found."""
    found = []
    for file in folder.iterdir():
        stored = file.read_bytes().lower()
        if any(word.lower().encode() in stored for word in (*SECRET.split(), "ebouriffe", "甲乙")):
            found.append(file.name)
    return sorted(found)


def test_a_chat_deleted_for_ever_leaves_no_byte_in_any_backup(store, folder, path):
    kept = say(store, "Kept words", "and a kept answer")
    chat = say(store, SECRET, f"You said {SECRET} " * 300, title=SECRET)
    back_up(path, folder, now=NOON)
    say(store, "later")
    last = back_up(path, folder, now=NOON + DAY)
    expected = [pair for pair in content(store) if pair[0].id != chat]
    assert traces(folder) == names(folder)
    times = [backup.path.stat().st_mtime_ns for backup in listed(folder)]
    forget_chat(folder, chat)
    assert traces(folder) == []
    assert names(folder) == ["chats-2026-12-01.db", "chats-2026-12-02.db"]
    assert [backup.path.stat().st_mtime_ns for backup in listed(folder)] == times
    assert list(chats_of(last)) == expected
    with closing(sqlite3.connect(last)) as outside:
        add_functions(outside)
        assert outside.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert outside.execute("PRAGMA foreign_key_check").fetchall() == []
        outside.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")
        find = "SELECT count(*) FROM search WHERE search MATCH ?"
        assert outside.execute(find, ("xylophonquitte",)).fetchone() == (0,)
        assert outside.execute(find, ("kept",)).fetchone() == (2,)
        vocabulary = "CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, search, row)"
        outside.execute(vocabulary)
        terms = {term for (term,) in outside.execute("SELECT term FROM v")}
        assert "kept" in terms
        assert "xylophonquitte" not in terms
    assert kept in [pair[0].id for pair in expected]


def test_not_even_what_was_deleted_in_it_before_stays(store, folder, path):
    chat = say(store, "kept", *([f"{SECRET} " * 300] * 20))
    made = back_up(path, folder, now=NOON)
    with closing(sqlite3.connect(made)) as careless:
        add_functions(careless)
        careless.execute("PRAGMA secure_delete = OFF")
        careless.execute("DELETE FROM message WHERE content <> 'kept'")
        careless.commit()
    assert traces(folder) == [made.name]
    forget_chat(folder, chat)
    assert traces(folder) == []


def test_a_backup_without_that_chat_is_not_written_anew(store, folder, path):
    say(store, "kept")
    made = back_up(path, folder, now=NOON)
    before = made.stat()
    forget_chat(folder, 4711)
    assert (made.stat().st_ino, made.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_chat_longer_than_sqlites_cascades_are_deep_is_deleted(store, folder, path):
    chat = say(store, *(f"{SECRET} {n}" for n in range(2500)))
    made = back_up(path, folder, now=NOON)
    forget_chat(folder, chat)
    assert list(chats_of(made)) == []
    assert traces(folder) == []


def test_a_backup_that_cannot_be_opened_is_named_and_left_and_the_others_are_done(
    store, folder, path
):
    chat = say(store, SECRET)
    made = back_up(path, folder, now=NOON)
    bad = {folder / "chats-2026-12-09.db": b"no database", folder / "chats-2026-11-09.db": b""}
    for file, stored in bad.items():
        file.write_bytes(stored)
    with pytest.raises(BackupError) as caught:
        forget_chat(folder, chat)
    failure = caught.value.failure
    assert all(str(file) in failure.remedy for file in bad)
    assert str(made) not in failure.remedy
    assert {file: file.read_bytes() for file in bad} == bad
    assert list(chats_of(made)) == []
    assert traces(folder) == []


def test_a_kill_between_deleting_and_replacing_leaves_the_backup_whole(
    store, folder, path, monkeypatch
):
    chat = say(store, SECRET)
    made = back_up(path, folder, now=NOON)
    whole = made.read_bytes()

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(backups, "put", killed)
    with pytest.raises(KeyboardInterrupt):
        forget_chat(folder, chat)
    assert made.read_bytes() == whole
    assert names(folder) == [made.name]


# --- restoring -----------------------------------------------------------------------------------


def old_backup(path: Path, version: int) -> None:
    """A backup made by an earlier version, with one chat."""
    with closing(sqlite3.connect(path)) as writer:
        add_functions(writer)
        for script in connections.MIGRATIONS[:version]:
            writer.executescript(script.read_text(encoding="utf-8"))
        writer.executescript(f"""
            PRAGMA user_version = {version};
            INSERT INTO chat (id, title, titled, created_at, updated_at, draft, options)
                VALUES (1, 'Old', 1, 1.5, 2.5, 'a draft', '{{"temperature": 0.5}}');
            INSERT INTO message (id, chat_id, role, content, created_at)
                VALUES (2, 1, 'user', '{SECRET}', 3.5);
            INSERT INTO message (id, chat_id, parent_id, role, content, created_at, deleted_at)
                VALUES (3, 1, 2, 'assistant', 'So.', 4.5, 5.5);
            INSERT INTO reply (message_id, status, error, remedy, options, model, device, precision)
                VALUES (3, 'finished', '', '', '[]', 'SmolLM2', 'cpu', 'bf16');
        """)


@pytest.mark.parametrize("version", range(1, len(connections.MIGRATIONS) + 1))
def test_backups_of_all_versions_are_read_and_not_changed(folder, version):
    folder.mkdir()
    file = folder / "chats-2026-12-01.db"
    old_backup(file, version)
    whole = file.read_bytes()
    ((chat, (question, answer)),) = chats_of(file)
    assert (chat.title, chat.draft, chat.options.temperature) == ("Old", "a draft", 0.5)
    assert (chat.pinned, chat.system_prompt) == (False, None)
    assert (question.content, question.reply) == (SECRET, None)
    assert (answer.deleted_at, answer.parent_id, answer.reply.model) == (5.5, 2, "SmolLM2")
    assert file.read_bytes() == whole
    assert names(folder) == [file.name]
    forget_chat(folder, 1)
    assert list(chats_of(file)) == []
    assert traces(folder) == []


def test_one_of_a_newer_version_is_refused_in_so_many_words(store, folder, path):
    say(store, "hello")
    made = back_up(path, folder, now=NOON)
    with closing(sqlite3.connect(made)) as outside:
        outside.execute("PRAGMA user_version = 99")
    whole = made.read_bytes()
    with pytest.raises(BackupError, match="newer Smoldesk"):
        list(chats_of(made))
    with pytest.raises(BackupError, match="newer Smoldesk"):
        forget_chat(folder, 1)
    assert made.read_bytes() == whole


@pytest.mark.parametrize("end", [0, 50, 100, 5000])
def test_a_backup_that_is_cut_off_is_refused(store, folder, path, end):
    say(store, "hello " * 5000)
    made = back_up(path, folder, now=NOON)
    made.write_bytes(made.read_bytes()[:end])
    with pytest.raises(BackupError, match="damaged") as caught:
        list(chats_of(made))
    assert str(made) in caught.value.failure.what
    assert len(made.read_bytes()) == end


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
@given(place=st.integers(0, 2**16), junk=st.binary(min_size=1, max_size=3000))
def test_a_damaged_backup_is_read_or_refused_but_nothing_else(store, folder, path, place, junk):
    if not folder.exists():
        say(store, "Why? " * 3000, "So. " * 3000)
        back_up(path, folder, now=NOON)
    whole = bytearray((folder / "chats-2026-12-01.db").read_bytes())
    place %= len(whole)
    whole[place : place + len(junk)] = junk
    file = folder.parent / "damaged.db"
    file.write_bytes(whole)
    with suppress(BackupError):
        for chat, messages in chats_of(file):
            assert isinstance(chat, ChatRecord)
            assert all(message.chat_id == chat.id for message in messages)
    assert file.read_bytes() == whole


def test_one_that_is_gone_meanwhile_is_said(folder):
    with pytest.raises(BackupError, match="could not be read"):
        list(chats_of(folder / "chats-2026-12-01.db"))
    assert not folder.exists()


def test_reading_may_end_early(store, folder, path):
    for number in range(3):
        say(store, f"number {number}")
    made = back_up(path, folder, now=NOON)
    reading = chats_of(made)
    next(reading)
    reading.close()
    made.unlink()
