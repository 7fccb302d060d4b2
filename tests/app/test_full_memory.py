"""A conversation that is longer than the model can remember: the window says what is forgotten."""

import pytest
from fake_engine import FakeEngine
from PySide6.QtWidgets import QApplication

from app.ui.context_gauge import ContextGauge
from app.ui.states import ReplyFacts, ReplyStatus, ShownMessage
from app.ui.transcript.transcript import Transcript

CHAT_READY = "READY"


@pytest.fixture
def gauge(qt_app):
    view = ContextGauge()
    view.set_limits(1000, 900)
    yield view
    view.deleteLater()


def answered(smoldesk) -> bool:
    return smoldesk.chat.state.name == CHAT_READY


def marked(smoldesk) -> list[int]:
    """The places of the messages above which the line is."""
    messages = smoldesk.window.transcript.messages
    return [place for place, message in enumerate(messages) if message.memory_begins]


def test_a_line_shows_where_the_memory_begins(open_window, wait_until):
    engine = FakeEngine()
    smoldesk = open_window(engine)
    for left_out, places in ((0, []), (0, []), (2, [2]), (4, [4]), (0, [])):
        engine.left_out_messages = left_out
        smoldesk.chat.submit("go on")
        wait_until(lambda: answered(smoldesk))
        assert marked(smoldesk) == places
    ids = [message.id for message in smoldesk.window.transcript.messages]
    smoldesk.chat.regenerate(ids[-1])
    wait_until(lambda: answered(smoldesk))
    assert marked(smoldesk) == []
    engine.left_out_messages = 6
    smoldesk.chat.regenerate(smoldesk.window.transcript.messages[-1].id)
    wait_until(lambda: answered(smoldesk))
    assert marked(smoldesk) == [6]
    smoldesk.chat.show_version(smoldesk.window.transcript.messages[-1].id, -1)
    assert marked(smoldesk) == []
    smoldesk.chat.show_version(smoldesk.window.transcript.messages[-1].id, 1)
    assert marked(smoldesk) == [6]
    chat = smoldesk.chat.conversation.chat.id
    smoldesk.chats.new_chat()
    smoldesk.chats.open_chat(chat)
    assert marked(smoldesk) == [6]


def test_questions_without_an_answer_do_not_shift_the_line(open_window, wait_until):
    engine = FakeEngine(reply_text="")
    smoldesk = open_window(engine)
    smoldesk.chat.submit("no answer to this")
    wait_until(lambda: answered(smoldesk))
    engine.reply_text = "so"
    engine.left_out_messages = 0
    smoldesk.chat.submit("first")
    wait_until(lambda: answered(smoldesk))
    engine.left_out_messages = 2  # "first" and its reply
    smoldesk.chat.submit("second")
    wait_until(lambda: answered(smoldesk))
    messages = smoldesk.window.transcript.messages
    assert [messages[place].text for place in marked(smoldesk)] == ["second"]


def test_the_line_has_room_of_its_own_and_goes_again(qt_app):
    view = Transcript()
    view.resize(900, 600)
    view.show()
    done = ReplyFacts(ReplyStatus.FINISHED, "end_of_turn")
    plain = [ShownMessage(1, "user", "one"), ShownMessage(2, "assistant", "two", done)]
    for place, first in enumerate(plain):
        view.show_conversation(plain)
        QApplication.processEvents()
        before = view.view(first.id).height()
        marked = list(plain)
        marked[place] = ShownMessage(
            first.id, first.role, first.text, first.reply, memory_begins=True
        )
        view.show_messages(marked)
        QApplication.processEvents()
        shown = view.view(first.id)
        line = shown.memory_line
        assert shown.height() == before + line.height()
        assert shown.text.mapTo(shown, shown.text.rect().topLeft()).y() >= line.height()
        assert "memory" in line.words.text()
        view.show_messages(plain)
        QApplication.processEvents()
        assert view.view(first.id).memory_line is None
        assert view.view(first.id).height() == before
    view.deleteLater()


def test_the_numbers_are_those_of_the_conversation(gauge):
    gauge.set_frame(30)
    gauge.set_used(420)
    assert gauge.words.text() == "420 of 1,000 tokens"
    assert gauge.bar.value() == 420
    gauge.set_draft(7)
    assert gauge.words.text() == "420 + 7 of 1,000 tokens"
    gauge.set_draft(0)
    gauge.set_growth(5)
    assert gauge.words.text() == "425 of 1,000 tokens"


def test_it_warns_before_messages_are_left_out(gauge):
    gauge.set_used(700)
    gauge.set_draft(200)
    assert (gauge.words.property("role"), "left out" in gauge.toolTip()) == ("muted", False)
    gauge.set_draft(201)
    assert (gauge.words.property("role"), "left out" in gauge.toolTip()) == ("danger", True)


def test_a_full_memory_is_no_reason_to_shorten_a_message(gauge):
    gauge.set_used(990)
    gauge.set_frame(30)
    gauge.set_draft(500)
    assert not gauge.too_long
    assert "left out" in gauge.toolTip()
    gauge.set_draft(969)
    assert not gauge.too_long
    gauge.set_draft(970)
    assert gauge.too_long
    assert "1,000 of 1,000" in gauge.words.text()
    assert "Shorten" in gauge.toolTip()


def test_a_long_system_prompt_leaves_less_room(open_window, wait_until):
    smoldesk = open_window(FakeEngine(context_length=100))
    smoldesk.window.composer.text.setPlainText("word " * 60)
    gauge = smoldesk.window.status.gauge
    wait_until(lambda: "60" in gauge.words.text())
    assert not gauge.too_long
    smoldesk.window.panel.sampling.system_prompt_changed.emit("word " * 50)
    wait_until(lambda: gauge.too_long)
    smoldesk.chats.new_chat()
    smoldesk.window.composer.text.setPlainText("word " * 60)
    wait_until(lambda: "60" in gauge.words.text() and not gauge.too_long)
