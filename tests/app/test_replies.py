"""Replies as records: going on, stopping, deleting, failing; what the store holds of each."""

import hashlib
import sqlite3
import threading
import time
from dataclasses import replace

import pytest
from event_loop import pause
from fake_engine import FakeEngine
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.store.chats import ChatStore
from app.ui.states import ChatState, ReplyStatus
from engine.errors import EngineError


def ready(smoldesk) -> bool:
    return smoldesk.chat.state is ChatState.READY and bool(smoldesk.chat.last_reply)


def record(smoldesk):
    return smoldesk.chat.last_reply


def test_a_reply_that_goes_on_is_one_reply_with_all_its_tokens(open_window, wait_until):
    engine = FakeEngine(reply_text="one two", reason="length")
    smoldesk = open_window(engine)
    smoldesk.chat.submit("go")
    wait_until(lambda: ready(smoldesk))
    assert record(smoldesk).reply.token_ids == (0, 1)
    view = smoldesk.window.transcript.view(record(smoldesk).id)
    assert view.go_on.isVisible()
    engine.reply_text, engine.reason = " three", "end_of_turn"
    smoldesk.window.panel.sampling.temperature.slider.setValue(30)
    QTest.mouseClick(view.go_on, Qt.MouseButton.LeftButton)
    wait_until(lambda: ready(smoldesk) and len(engine.prompts) == 2)
    told = engine.prompts[-1][-1]
    assert (told.role, told.content, told.token_ids) == ("assistant", "one two", (0, 1))
    reply = record(smoldesk).reply
    assert record(smoldesk).content == "one two three"
    assert reply.token_ids == (0, 1, 0)
    assert [first for first, _ in reply.options] == [0, 2]
    assert [options.temperature for _, options in reply.options] == [0.7, 0.3]
    assert (reply.model, reply.device, reply.precision) == (engine.name, "cpu", "bf16")
    assert view.text.text() == "one two three"
    assert not view.go_on.isVisible()


def test_a_reply_that_goes_on_and_breaks_off_keeps_all_of_its_text(open_window, wait_until):
    engine = FakeEngine(reply_text="one two", reason="length")
    smoldesk = open_window(engine)
    smoldesk.chat.submit("go")
    wait_until(lambda: ready(smoldesk))
    engine.reply_text, engine.reply_error, engine.error_after = " three four", EngineError("No."), 1
    smoldesk.chat.go_on(record(smoldesk).id)
    wait_until(lambda: ready(smoldesk) and len(engine.prompts) == 2)
    assert record(smoldesk).content == "one two three"
    assert record(smoldesk).reply.token_ids == (0, 1, 0)
    engine.reply_error = None
    smoldesk.chat.go_on(record(smoldesk).id)
    wait_until(lambda: ready(smoldesk) and len(engine.prompts) == 3)
    assert engine.prompts[-1][-1].content == "one two three"


def test_a_chat_deleted_while_its_reply_runs_comes_back_with_what_it_had(open_window, wait_until):
    smoldesk = open_window(FakeEngine(reply_text="word " * 500, per_token=0.002))
    smoldesk.chat.submit("go")
    wait_until(lambda: record(smoldesk) and len(record(smoldesk).content) > 30)
    chat_id = smoldesk.chat.conversation.chat.id
    smoldesk.chats.delete(chat_id)
    assert smoldesk.window.transcript.welcome.isVisible()
    assert "was deleted" in smoldesk.window.notice.words.text()
    wait_until(lambda: smoldesk.scheduler.idle)
    QTest.mouseClick(smoldesk.window.notice.action, Qt.MouseButton.LeftButton)
    assert smoldesk.chat.conversation.chat.id == chat_id
    assert len(record(smoldesk).content) > 30
    assert record(smoldesk).reply.reason == "stopped"
    assert smoldesk.window.sidebar.list.model().rowCount() == 1


def test_what_every_reply_is_made_of_is_on_disk(open_window, wait_until, tmp_path):
    smoldesk = open_window(FakeEngine(reply_text="a b"), data=tmp_path)
    smoldesk.chat.submit("go")
    wait_until(lambda: ready(smoldesk))
    expected = record(smoldesk)
    assert smoldesk.end()
    store = ChatStore(tmp_path / "chats.db", on_problem=pytest.fail)
    (chat,) = store.chats()
    assert chat.title == "go"
    kept = store.messages(chat.id)[-1]
    store.close(2)
    assert kept == expected
    assert kept.reply.seed == 7
    assert kept.reply.statistics.new_tokens == 2
    assert len(kept.reply.options) == 1


def test_a_full_disk_is_told_and_nothing_is_lost_once_there_is_room(
    open_window, wait_until, tmp_path
):
    smoldesk = open_window(data=tmp_path)
    # Another program holds the file for a while.
    other = sqlite3.connect(tmp_path / "chats.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    smoldesk.chat.submit("go")
    wait_until(lambda: smoldesk.window.notice.isVisible(), seconds=20)
    assert smoldesk.window.notice.words.text()
    wait_until(lambda: ready(smoldesk))  # the chat goes on meanwhile
    other.execute("ROLLBACK")
    other.close()
    assert smoldesk.store.flush(10)
    wait_until(smoldesk.window.notice.isHidden)  # and that it is over is told, too


def test_counting_and_looking_ahead_are_done_elsewhere(open_window, wait_until):
    engine = FakeEngine()
    seen = set()
    count = engine.count_tokens
    engine.count_tokens = lambda text: (seen.add(threading.current_thread()), count(text))[1]
    smoldesk = open_window(engine)
    smoldesk.window.resize(1400, 900)  # there is room for the panel, in which it is seen
    smoldesk.window.composer.text.setPlainText("five words are in here")
    gauge = smoldesk.window.status.gauge
    wait_until(lambda: "5 of 8,192" in gauge.words.text() or "+ 5" in gauge.words.text())
    assert threading.main_thread() not in seen
    smoldesk.window.composer.text.setPlainText("")
    wait_until(lambda: "5" not in gauge.words.text().split(" of ")[0])
    smoldesk.chat.submit("go")
    wait_until(lambda: ready(smoldesk))
    wait_until(lambda: engine.looks)
    assert [m.role for m in engine.looks[-1]] == ["user", "assistant"]
    wait_until(lambda: smoldesk.window.panel.scope.text.toPlainText())
    assert "<user>go" in smoldesk.window.panel.scope.text.toPlainText()


def test_a_text_that_does_not_fit_says_so_before_it_is_sent(open_window, wait_until):
    engine = FakeEngine(context_length=100)
    smoldesk = open_window(engine)
    smoldesk.window.composer.text.setPlainText("word " * 120)
    gauge = smoldesk.window.status.gauge
    wait_until(lambda: gauge.too_long)
    assert "Too long" in gauge.words.text()
    assert "Shorten" in gauge.toolTip()


def test_a_reply_knows_which_file_its_model_is(open_window, wait_until, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"weights")
    smoldesk = open_window(FakeEngine(path=path))
    digest = hashlib.sha256(b"weights").hexdigest()
    wait_until(lambda: smoldesk.recorder._digests.get(str(path)) == digest)
    smoldesk.chat.submit("go")
    wait_until(lambda: ready(smoldesk))
    assert smoldesk.chat.last_reply.reply.model_digest == digest


def test_no_look_ahead_delays_a_reply(open_window, wait_until):
    engine = FakeEngine()
    waited = threading.Event()

    def look_ahead(messages, *, cancel):
        waited.set()
        assert cancel.wait(5), "the look was not given up"

    smoldesk = open_window(engine)
    smoldesk.window.resize(1400, 900)
    smoldesk.chat.submit("one")
    wait_until(lambda: ready(smoldesk))
    engine.look_ahead = look_ahead
    smoldesk.look.again()
    wait_until(waited.is_set)
    began = time.monotonic()
    smoldesk.chat.submit("two")
    wait_until(lambda: len(engine.prompts) == 2 and ready(smoldesk))
    assert time.monotonic() - began < 2


def test_versions_of_a_reply_and_the_way_between_them(open_window, wait_until):
    engine = FakeEngine(reply_text="first")
    smoldesk = open_window(engine)
    smoldesk.chat.submit("go")
    wait_until(lambda: ready(smoldesk))
    engine.reply_text = "second"
    control = Qt.KeyboardModifier.ControlModifier
    QTest.keyClick(smoldesk.window, Qt.Key.Key_R, control)
    wait_until(lambda: ready(smoldesk) and len(engine.prompts) == 2)
    shown = smoldesk.window.transcript.messages[-1]
    assert (shown.text, shown.version, shown.versions) == ("second", 2, 2)
    view = smoldesk.window.transcript.view(shown.id)
    assert view.actions.version.text() == "2/2"
    QTest.mouseClick(view.actions.previous, Qt.MouseButton.LeftButton)
    assert smoldesk.window.transcript.messages[-1].text == "first"
    QTest.keyClick(smoldesk.window, Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    assert smoldesk.window.transcript.messages[-1].text == "second"


def test_a_bug_in_a_reply_keeps_its_details_for_this_session_only(open_window, wait_until):
    smoldesk = open_window(FakeEngine(reply_error=ValueError("x")))
    smoldesk.chat.submit("go")
    wait_until(lambda: ready(smoldesk))
    shown = smoldesk.window.transcript.messages[-1]
    assert shown.reply.status is ReplyStatus.FAILED
    assert shown.reply.failure.details
    assert "ValueError" not in str(replace(record(smoldesk), created_at=0.0))
    pause(20)


def test_what_is_written_while_editing_and_the_draft_beside_it_are_kept_apart(
    open_window, wait_until
):
    smoldesk = open_window()
    field = smoldesk.window.composer.text
    smoldesk.chat.submit("one")
    wait_until(lambda: ready(smoldesk))
    first = smoldesk.chat.conversation.chat.id
    field.setPlainText("a draft")
    smoldesk.chat.edit_last()
    assert field.toPlainText() == "one"
    field.setPlainText("one, better")
    smoldesk.chats.new_chat()
    assert field.toPlainText() == ""
    assert smoldesk.window.composer.editing.isHidden()
    smoldesk.chats.open_chat(first)
    assert field.toPlainText() == "one, better"
    assert smoldesk.window.composer.editing.isVisible()
    QTest.keyClick(field, Qt.Key.Key_Return)
    wait_until(lambda: ready(smoldesk) and smoldesk.chat.conversation.path()[0].content != "one")
    assert field.toPlainText() == "a draft"
    assert smoldesk.chat.conversation.chat.draft == "a draft"
    smoldesk.chat.edit_last()
    QTest.keyClick(smoldesk.window, Qt.Key.Key_Escape)
    assert field.toPlainText() == "a draft"


def test_one_chats_system_prompt_is_never_offered_in_another(open_window, wait_until):
    smoldesk = open_window()
    panel = smoldesk.window.panel.sampling.system_prompt
    panel.buttons["own"].click()
    panel.field.setPlainText("the secret of A")
    smoldesk.chat.submit("one")
    wait_until(lambda: ready(smoldesk))
    smoldesk.chats.new_chat()
    panel.buttons["own"].click()
    assert panel.field.toPlainText() == ""
    assert smoldesk.chat.conversation.chat.system_prompt == ""


def test_the_gauge_counts_what_an_edited_message_leaves(open_window, wait_until):
    engine = FakeEngine(prompt_tokens=100)
    smoldesk = open_window(engine)
    gauge = smoldesk.window.status.gauge
    for text in ("one", "two"):
        engine.prompt_tokens += 50
        smoldesk.chat.submit(text)
        wait_until(lambda: ready(smoldesk))
    whole_chat = gauge.words.text()
    smoldesk.chat.edit_last()
    wait_until(lambda: gauge.words.text() != whole_chat)
    assert gauge.words.text().startswith("165")  # what the first reply left: 150 and 15 words
    smoldesk.chat.stop_editing()
    wait_until(lambda: gauge.words.text() == whole_chat)


def test_another_chats_prompt_is_never_shown(open_window, wait_until):
    smoldesk = open_window(FakeEngine())
    smoldesk.window.resize(1400, 900)
    smoldesk.chat.submit("the secret of A")
    wait_until(lambda: ready(smoldesk))
    scope = smoldesk.window.panel.scope
    wait_until(lambda: "secret" in scope.text.toPlainText())
    smoldesk.chats.new_chat()
    assert "secret" not in scope.text.toPlainText()


def test_a_deleted_chat_is_opened_by_its_undo_only(open_window, wait_until):
    smoldesk = open_window()
    smoldesk.chat.submit("one")
    wait_until(lambda: ready(smoldesk))
    first = smoldesk.chat.conversation.chat.id
    smoldesk.chats.delete(first)
    smoldesk.chats.open_chat(first)  # as a choice in the list that came a moment too late
    smoldesk.chats.rename(first, "new name")
    assert smoldesk.chat.conversation.chat.id != first
    assert smoldesk.window.sidebar.list.model().rowCount() == 0
    smoldesk.chats.restore(first)
    assert smoldesk.chat.conversation.chat.id == first
    assert smoldesk.chat.conversation.chat.title == "one"
    listed = smoldesk.window.sidebar.list
    assert listed.currentIndex().data() == "one"
    assert listed.selectionModel().hasSelection()


def test_while_a_reply_streams_the_bars_show_the_step_that_made_its_last_token(
    open_window, wait_until
):
    engine = FakeEngine(reply_text="one two three four", per_token=0.05)
    smoldesk = open_window(engine)
    smoldesk.window.resize(1400, 900)
    bars = smoldesk.window.panel.sampling.bars
    seen = set()
    smoldesk.chat.submit("go")
    late = time.monotonic() + 10
    while not ready(smoldesk) or smoldesk.chat.state.busy:
        assert time.monotonic() < late
        pause(5)
        seen |= {bar.text for bar in bars.picture.bars if bar.drawn} if bars.picture else set()
    assert {"one", " two", " three"} <= seen
    top_p = smoldesk.window.panel.sampling.top_p.slider
    top_p.setValue(50)
    wait_until(lambda: any(bar.cut_by == "top_p" for bar in bars.picture.bars))
    top_p.setValue(95)
    wait_until(lambda: not any(bar.cut_by for bar in bars.picture.bars))
