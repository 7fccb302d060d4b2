"""What is done to messages and chats beyond asking: edited, deleted, branched off, pinned."""

import sqlite3
import time

import pytest
from fake_engine import FakeEngine
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QMenu

from app.ui.sidebar.groups import Heading, grouped
from app.ui.states import ChatLine, ChatState, ReplyStatus

DAY = 24 * 3600.0


@pytest.fixture
def smoldesk(open_window, wait_until):
    """A window with a chat of two questions and their replies."""
    smoldesk = open_window(FakeEngine())
    for text in ("first", "second"):
        ask(smoldesk, wait_until, text)
    return smoldesk


def ask(smoldesk, wait_until, text: str) -> None:
    smoldesk.chat.submit(text)
    wait_until(lambda: smoldesk.chat.state is ChatState.READY and smoldesk.scheduler.idle)


def texts(smoldesk) -> list[str]:
    return [message.text for message in smoldesk.window.transcript.messages]


def ids(smoldesk) -> list[int]:
    return [message.id for message in smoldesk.window.transcript.messages]


def listed(smoldesk) -> list[int]:
    return [record.id for record in smoldesk.chats.library.records()]


def open_id(smoldesk) -> int:
    return smoldesk.chat.conversation.chat.id


def press(smoldesk, message_id: int, words: str) -> None:
    """Choose from a message's menu."""
    menu = QMenu()
    smoldesk.window.transcript.view(message_id)._fill_menu(menu)
    (action,) = [action for action in menu.actions() if action.text().startswith(words)]
    action.trigger()


def test_an_edited_reply_is_another_version_and_what_the_model_said(smoldesk, wait_until):
    said = texts(smoldesk)[1]
    press(smoldesk, ids(smoldesk)[1], "Edit")
    field = smoldesk.window.composer
    assert field.text.toPlainText() == said
    smoldesk.chat.submit("What I would have said.")
    assert texts(smoldesk) == ["first", "What I would have said."]
    last = smoldesk.window.transcript.messages[-1]
    assert (last.version, last.versions) == (2, 2)
    assert last.reply.status is ReplyStatus.FINISHED
    view = smoldesk.window.transcript.view(last.id)
    assert "Edited by you" in view.actions.words.text()
    assert not view.go_on.isHidden()  # the model may go on with one's own words
    smoldesk.chat.go_on(last.id)
    wait_until(lambda: smoldesk.scheduler.idle)
    assert texts(smoldesk)[-1].startswith("What I would have said.The sky")
    assert smoldesk.chat.conversation[last.id].reply.model
    smoldesk.chat.show_version(last.id, -1)
    assert texts(smoldesk)[:2] == ["first", said]
    assert len(texts(smoldesk)) == 4  # what followed the first version is there still


def test_a_deleted_message_takes_what_follows_and_undo_brings_all_back(smoldesk, wait_until):
    before = texts(smoldesk)
    chat = open_id(smoldesk)
    press(smoldesk, ids(smoldesk)[1], "Delete")
    assert texts(smoldesk) == ["first"]
    notice = smoldesk.window.notice
    assert "3 messages were deleted" in notice.words.text()
    assert smoldesk.store.flush(5)
    assert [record.content for record in smoldesk.store.messages(chat)] == ["first"]
    smoldesk.chats.new_chat()
    notice.action.click()
    assert open_id(smoldesk) == chat
    assert texts(smoldesk) == before
    assert smoldesk.store.flush(5)
    assert [record.content for record in smoldesk.store.messages(chat)] == before
    press(smoldesk, ids(smoldesk)[3], "Delete")
    assert texts(smoldesk) == before[:3]
    smoldesk.keys.act("regenerate")  # a question without a reply gets one
    wait_until(lambda: smoldesk.scheduler.idle)
    assert len(texts(smoldesk)) == 4


def test_nothing_is_deleted_while_a_reply_is_written(open_window, wait_until):
    smoldesk = open_window(FakeEngine(per_token=0.05))
    smoldesk.chat.submit("go")
    wait_until(lambda: smoldesk.chat.state is ChatState.ANSWERING)
    smoldesk.chat.delete(ids(smoldesk)[0])
    smoldesk.chat.edit(ids(smoldesk)[1])
    assert len(ids(smoldesk)) == 2
    assert smoldesk.chat.conversation.editing is None
    smoldesk.chat.stop()
    wait_until(lambda: smoldesk.scheduler.idle)


def test_a_chat_branches_off_and_both_go_on_by_themselves(smoldesk, wait_until):
    first, before = open_id(smoldesk), texts(smoldesk)
    press(smoldesk, ids(smoldesk)[1], "New chat")
    second = open_id(smoldesk)
    assert second != first
    assert texts(smoldesk) == before[:2]
    ask(smoldesk, wait_until, "another second")
    assert listed(smoldesk) == [second, first]
    smoldesk.chats.open_chat(first)
    assert texts(smoldesk) == before
    smoldesk.chats.duplicate(first)
    assert texts(smoldesk) == before
    assert smoldesk.store.flush(5)
    assert len(smoldesk.store.chats()) == 3


def test_pinned_chats_stay_above_and_archived_ones_out_of_sight(smoldesk, wait_until):
    first = open_id(smoldesk)
    smoldesk.chats.new_chat()
    ask(smoldesk, wait_until, "other")
    second = open_id(smoldesk)
    assert listed(smoldesk) == [second, first]
    smoldesk.chats.pin(first, True)
    assert listed(smoldesk) == [first, second]
    model = smoldesk.window.sidebar.list.chats
    rows = [model.line(row) for row in range(model.rowCount())]
    assert [row.title for row in rows if isinstance(row, Heading)] == ["Pinned", "Today"]
    smoldesk.chats.archive(second, True)
    assert listed(smoldesk) == [first]
    assert open_id(smoldesk) == first
    assert [record.id for record in smoldesk.chats.library.records(archived=True)] == [second]
    smoldesk.window.notice.action.click()  # Undo
    assert listed(smoldesk) == [first, second]
    assert open_id(smoldesk) == second
    smoldesk.chats.archive(second, True)
    smoldesk.chats.open_chat(second)
    ask(smoldesk, wait_until, "it is of use again")
    assert listed(smoldesk) == [first, second]


def test_a_temporary_chat_is_nowhere_on_the_disk(open_window, wait_until, tmp_path):
    engine = FakeEngine()
    smoldesk = open_window(engine)
    ask(smoldesk, wait_until, "an ordinary question")
    ordinary = open_id(smoldesk)
    engine.reply_text = "a secret reply"
    smoldesk.chats.new_temporary_chat()
    smoldesk.window.composer.text.setPlainText("a secret draft")
    smoldesk.chat.keep_draft("a secret draft")
    smoldesk.chat.save()
    ask(smoldesk, wait_until, "a secret question")
    smoldesk.chat.change_system_prompt("a secret prompt")
    smoldesk.chat.regenerate(ids(smoldesk)[1])
    wait_until(lambda: smoldesk.scheduler.idle)
    temporary = open_id(smoldesk)
    assert listed(smoldesk) == [ordinary]
    smoldesk.chats.delete(temporary)  # nothing to put into the trash
    smoldesk.chats.open_chat(ordinary)
    notice = smoldesk.window.notice
    assert "temporary" in notice.words.text()
    notice.action.click()
    assert texts(smoldesk) == ["a secret question", "a secret reply"]
    smoldesk.chats.open_chat(ordinary)
    assert smoldesk.store.flush(5)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(b"an ordinary question" in file.read_bytes() for file in files)
    assert not [file for file in files if b"secret" in file.read_bytes()]


def test_the_trash_gives_back_and_forgets(smoldesk, wait_until):
    chat, before = open_id(smoldesk), texts(smoldesk)
    smoldesk.chats.delete(chat)
    assert [record.id for record in smoldesk.chats.library.deleted()] == [chat]
    smoldesk.chats.restore(chat)
    assert texts(smoldesk) == before
    smoldesk.chats.delete(chat)
    smoldesk.chats.forget([chat])
    assert smoldesk.chats.library.deleted() == []
    assert smoldesk.store.flush(5)
    with sqlite3.connect(smoldesk.store._path) as found:
        assert found.execute("SELECT count(*) FROM message").fetchone() == (0,)
    found.close()
    smoldesk.chats.restore(chat)  # too late
    assert listed(smoldesk) == []


def lines_of(ages: list[float], *, pinned: int = 0, now: float) -> list[ChatLine]:
    return [
        ChatLine(number, f"chat {number}", now - age * DAY, pinned=number <= pinned)
        for number, age in enumerate(ages, 1)
    ]


def test_chats_are_grouped_by_the_day_of_their_last_use():
    now = time.mktime((2026, 6, 15, 12, 0, 0, 0, 0, -1))
    ages = [0, 0.1, 1, 3, 7, 20, 40, 100, 400, 800]
    rows = grouped(lines_of(ages, now=now), now=now)
    assert [row.title for row in rows if isinstance(row, Heading)] == [
        *("Today", "Yesterday", "Previous 7 days", "Previous 30 days"),
        *("May", "March", "2025", "2024"),
    ]
    assert [row for row in rows if isinstance(row, ChatLine)] == lines_of(ages, now=now)
    assert len({row.id for row in rows}) == len(rows)
    assert grouped(lines_of([0, 0.2], now=now), now=now) == lines_of([0, 0.2], now=now)
    odd = grouped(lines_of([-400, 0, 1e9], now=now), now=now)  # clocks that were wrong
    assert next(row.title for row in odd if isinstance(row, Heading)) == "Today"
    pinned = grouped(lines_of([500, 0], pinned=1, now=now), now=now)
    assert [row.title for row in pinned if isinstance(row, Heading)] == ["Pinned", "Today"]


def test_a_heading_is_no_chat(smoldesk):
    bar = smoldesk.window.sidebar
    now = time.time()
    bar.show_chats(lines_of([0, 1, 2], now=now))
    chats = bar.list
    heading = chats.chats.index(0)
    place = chats.visualRect(heading).center()
    assert chats._chat_at(place).isValid() is False
    assert chats._chat_at(chats.visualRect(chats.chats.index(1)).center()).isValid()
    assert chats._chat_at(QPoint(5, 5000)).isValid() is False
    assert not heading.flags()
