"""Typing, sending, streaming, stopping: the window with an engine that has no model."""

import time

import pytest
from event_loop import pause
from fake_engine import DEFAULT_REPLY, FakeEngine
from PySide6.QtCore import QEvent, QMimeData, Qt
from PySide6.QtGui import QInputMethodEvent, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.ui.dialogs.settings_dialog import SettingsDialog
from app.ui.sidebar.chat_model import LINE_ROLE
from app.ui.states import Activity, ChatState, Failure, ModelState, ReplyStatus
from engine.errors import EngineError


def ask(smoldesk, text: str) -> None:
    field = smoldesk.window.composer.text
    field.setFocus()
    QTest.keyClicks(field, text)
    QTest.keyClick(field, Qt.Key.Key_Return)


def messages(smoldesk):
    return smoldesk.window.transcript.messages


def last_view(smoldesk):
    return smoldesk.window.transcript.view(messages(smoldesk)[-1].id)


def question_view(smoldesk):
    return smoldesk.window.transcript.view(messages(smoldesk)[-2].id)


def footer(smoldesk) -> str:
    return last_view(smoldesk).actions.words.text()


def ready(smoldesk) -> bool:
    return smoldesk.chat.state is ChatState.READY


def answered(smoldesk) -> bool:
    return ready(smoldesk) and len(messages(smoldesk)) > 1


def failed(smoldesk) -> bool:
    return answered(smoldesk) and messages(smoldesk)[-1].reply.status is ReplyStatus.FAILED


def test_a_question_typed_and_sent_with_enter_is_answered_on_screen(open_window, wait_until):
    engine = FakeEngine()
    smoldesk = open_window(engine)
    ask(smoldesk, "Why is the sky blue?")
    assert smoldesk.window.composer.text.toPlainText() == ""
    wait_until(lambda: answered(smoldesk))
    view = last_view(smoldesk)
    assert question_view(smoldesk).text.text() == "Why is the sky blue?"
    assert view.text.text() == DEFAULT_REPLY
    assert "Complete" in footer(smoldesk)
    assert "tokens/s" in footer(smoldesk)
    assert "first word after" in footer(smoldesk)
    assert "MainThread" not in engine.threads_seen


def test_the_next_turn_sends_the_dialog_with_the_reply_as_the_tokens_it_was_made_of(
    open_window, wait_until
):
    engine = FakeEngine(reply_text="Blue it is")
    smoldesk = open_window(engine)
    for question in ("one", "two"):
        ask(smoldesk, question)
        wait_until(lambda: ready(smoldesk))
    first, second = engine.prompts
    assert [(m.role, m.content) for m in first] == [("user", "one")]
    assert [(m.role, m.content, m.token_ids) for m in second] == [
        ("user", "one", None),
        ("assistant", "Blue it is", (0, 1, 2)),
        ("user", "two", None),
    ]


def test_shift_enter_breaks_the_line_and_an_empty_message_is_not_sent(open_window, wait_until):
    smoldesk = open_window()
    field = smoldesk.window.composer.text
    QTest.keyClick(field, Qt.Key.Key_Return)
    QTest.keyClicks(field, "  ")
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert not messages(smoldesk)
    field.clear()
    QTest.keyClicks(field, "one")
    QTest.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClicks(field, "two")
    assert field.toPlainText() == "one\ntwo"
    assert not messages(smoldesk)
    QTest.keyClick(field, Qt.Key.Key_Enter)
    assert messages(smoldesk)[0].text == "one\ntwo"


def test_enter_within_a_composition_does_not_send(open_window):
    smoldesk = open_window()
    field = smoldesk.window.composer.text
    QTest.keyClicks(field, "a")
    QApplication.sendEvent(field, QInputMethodEvent("にほん", []))
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert not messages(smoldesk)
    commit = QInputMethodEvent("", [])
    commit.setCommitString("日本")
    QApplication.sendEvent(field, commit)
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert messages(smoldesk)[0].text == "a日本"


def test_a_question_asked_while_the_model_loads_waits_visibly_and_is_then_answered(
    open_window, wait_until
):
    smoldesk = open_window(FakeEngine(loading=0.4))
    ask(smoldesk, "early")
    assert smoldesk.chat.state is ChatState.WAITING
    wait_until(lambda: smoldesk.model.state is ModelState.LOADING)
    assert "as soon as the model is ready" in smoldesk.window.status.words.text()
    assert question_view(smoldesk).text.text() == "early"
    wait_until(lambda: ready(smoldesk))
    assert last_view(smoldesk).text.text() == DEFAULT_REPLY


def test_a_question_that_waits_can_be_stopped_and_asked_again(open_window, wait_until):
    smoldesk = open_window(FakeEngine(loading=0.4))
    ask(smoldesk, "early")
    assert "Waiting" in last_view(smoldesk).pending.text()
    QTest.keyClick(smoldesk.window, Qt.Key.Key_Escape)
    assert smoldesk.chat.state is ChatState.READY
    assert "The reply is empty" in footer(smoldesk)
    QTest.mouseClick(last_view(smoldesk).regenerate, Qt.MouseButton.LeftButton)
    assert smoldesk.chat.state is ChatState.WAITING
    wait_until(lambda: ready(smoldesk))
    assert [m.text for m in messages(smoldesk)] == ["early", DEFAULT_REPLY]


@pytest.mark.parametrize("how", ["key", "button"])
def test_stop_ends_the_reply_at_once_and_keeps_what_there_is(open_window, wait_until, how):
    smoldesk = open_window(FakeEngine(reply_text="word " * 1000, per_token=0.005))
    ask(smoldesk, "go")
    wait_until(lambda: smoldesk.chat.state is ChatState.ANSWERING)
    pause(50)
    began = time.perf_counter()
    if how == "key":
        QTest.keyClick(smoldesk.window, Qt.Key.Key_Escape)
    else:
        assert smoldesk.window.composer.button.text() == "Stop"
        QTest.mouseClick(smoldesk.window.composer.button, Qt.MouseButton.LeftButton)
    wait_until(lambda: ready(smoldesk))
    assert time.perf_counter() - began < 0.5
    view = last_view(smoldesk)
    assert view.text.text().startswith("word word")
    assert view.text.text() == messages(smoldesk)[-1].text.rstrip()
    assert "Stopped by you" in footer(smoldesk)
    assert smoldesk.window.composer.button.text() == "Send"


def test_stop_while_the_prompt_is_read(open_window, wait_until):
    smoldesk = open_window(FakeEngine(reading=3, prompt_tokens=8000))
    ask(smoldesk, "long")
    wait_until(lambda: "of 8,000 tokens" in smoldesk.window.status.words.text())
    QTest.keyClick(smoldesk.window, Qt.Key.Key_Escape)
    assert smoldesk.chat.state is ChatState.STOPPING
    wait_until(lambda: ready(smoldesk), seconds=1)
    assert "The reply is empty" in footer(smoldesk)


def test_an_empty_reply_is_shown_as_such(open_window, wait_until):
    smoldesk = open_window(FakeEngine(reply_text=""))
    ask(smoldesk, "hm")
    wait_until(lambda: answered(smoldesk))
    view = last_view(smoldesk)
    assert footer(smoldesk).startswith("The reply is empty.")
    assert view.text.isHidden()
    assert view.pending.isHidden()


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("end_of_turn", "Complete"),
        ("length", "greatest length"),
        ("stop_text", "stop text"),
        ("context_full", "memory is full"),
        ("loop", "repeated itself"),
        ("error", "Broke off"),
    ],
)
def test_every_end_of_a_reply_is_said(open_window, wait_until, reason, words):
    smoldesk = open_window(FakeEngine(reason=reason))
    ask(smoldesk, "hm")
    wait_until(lambda: answered(smoldesk))
    assert words in footer(smoldesk)


def test_a_question_that_fails_is_kept_and_can_be_asked_again_or_edited(open_window, wait_until):
    engine = FakeEngine(reply_error=EngineError("It has 9,000 tokens.", "Shorten it."))
    smoldesk = open_window(engine)
    ask(smoldesk, "much too long")
    wait_until(lambda: failed(smoldesk))
    view = last_view(smoldesk)
    assert view.failure.words.text() == "It has 9,000 tokens. Shorten it."
    QTest.mouseClick(view.failure.retry, Qt.MouseButton.LeftButton)
    wait_until(lambda: len(engine.prompts) == 2 and failed(smoldesk))
    assert len(messages(smoldesk)) == 2  # the failure was replaced
    engine.reply_error = None
    QTest.keyClicks(smoldesk.window.composer.text, "typed since")
    QTest.mouseClick(last_view(smoldesk).failure.edit, Qt.MouseButton.LeftButton)
    field = smoldesk.window.composer.text
    assert field.toPlainText() == "much too long"
    assert smoldesk.window.composer.editing.isVisible()
    field.setPlainText("shorter")
    QTest.keyClick(field, Qt.Key.Key_Return)
    wait_until(lambda: answered(smoldesk))
    assert [m.content for m in engine.prompts[-1]] == ["shorter"]
    assert messages(smoldesk)[0].versions == 2
    assert not smoldesk.window.composer.editing.isVisible()


def test_a_reply_that_breaks_off_keeps_its_text_in_the_dialog(open_window, wait_until):
    engine = FakeEngine(
        reply_text="one two three four", reply_error=EngineError("No memory."), error_after=2
    )
    smoldesk = open_window(engine)
    ask(smoldesk, "go")
    wait_until(lambda: failed(smoldesk))
    assert last_view(smoldesk).text.text() == "one two"
    assert "No memory." in last_view(smoldesk).failure.words.text()
    engine.reply_error = None
    ask(smoldesk, "on")
    wait_until(lambda: ready(smoldesk))
    assert [m.content for m in engine.prompts[-1]] == ["go", "one two", "on"]


def test_a_bug_in_the_engine_ends_the_turn_and_offers_its_details(open_window, wait_until):
    engine = FakeEngine(reply_error=ValueError("secret words of the chat"))
    smoldesk = open_window(engine)
    ask(smoldesk, "secret words of the chat")
    wait_until(lambda: failed(smoldesk))
    failure = messages(smoldesk)[-1].reply.failure
    assert "ValueError" in failure.details
    assert "fake_engine.py" in failure.details
    assert "secret" not in failure.details
    QTest.mouseClick(last_view(smoldesk).failure.copy, Qt.MouseButton.LeftButton)
    assert QApplication.clipboard().text() == failure.details
    engine.reply_error = None
    ask(smoldesk, "again")
    wait_until(lambda: ready(smoldesk))
    assert last_view(smoldesk).text.text() == DEFAULT_REPLY


def test_a_model_that_cannot_be_loaded_is_said_and_can_be_tried_again(open_window, wait_until):
    engine = FakeEngine(load_error=EngineError("No model is here.", "Fetch one."))
    smoldesk = open_window(engine)
    pause(1100)
    assert engine.loads == 1  # not again and again by itself
    notice = smoldesk.window.notice
    wait_until(notice.isVisible)
    assert notice.words.text() == "No model is here. Fetch one."
    assert smoldesk.window.status.words.text() == "There is no model to answer."
    QTest.mouseClick(notice.action, Qt.MouseButton.LeftButton)
    wait_until(lambda: engine.loads == 2 and notice.isVisible())
    ask(smoldesk, "anyone?")
    assert notice.isHidden()  # it is said once, where the reply should have been
    wait_until(lambda: failed(smoldesk))
    assert notice.isHidden()
    engine.load_error = None
    QTest.mouseClick(last_view(smoldesk).failure.retry, Qt.MouseButton.LeftButton)
    wait_until(lambda: ready(smoldesk))
    assert last_view(smoldesk).text.text() == DEFAULT_REPLY


def test_new_chat_begins_anew_and_the_old_one_is_a_click_away(open_window, wait_until):
    engine = FakeEngine()
    smoldesk = open_window(engine)
    ask(smoldesk, "one")
    wait_until(lambda: answered(smoldesk))
    QTest.keyClick(smoldesk.window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    assert smoldesk.window.transcript.welcome.isVisible()
    ask(smoldesk, "two")
    wait_until(lambda: answered(smoldesk))
    assert [m.content for m in engine.prompts[-1]] == ["two"]
    QTest.keyClick(smoldesk.window, Qt.Key.Key_Down, Qt.KeyboardModifier.ControlModifier)
    assert question_view(smoldesk).text.text() == "one"
    assert last_view(smoldesk).text.text() == DEFAULT_REPLY
    assert "Complete" in footer(smoldesk)


def test_a_reply_goes_on_while_another_chat_is_open(open_window, wait_until):
    engine = FakeEngine(reply_text="word " * 300, per_token=0.002)
    smoldesk = open_window(engine)
    sidebar = smoldesk.window.sidebar
    ask(smoldesk, "first")
    wait_until(lambda: smoldesk.chat.state is ChatState.ANSWERING)
    first = smoldesk.chat.conversation.chat.id
    QTest.mouseClick(sidebar.new_chat, Qt.MouseButton.LeftButton)
    assert ready(smoldesk)
    assert smoldesk.window.transcript.welcome.isVisible()
    assert activity(sidebar, first) is Activity.ANSWERING
    ask(smoldesk, "second")  # waits, visibly
    assert smoldesk.chat.state is ChatState.WAITING
    assert "Waiting for its turn" in last_view(smoldesk).pending.text()
    second = smoldesk.chat.conversation.chat.id
    assert activity(sidebar, second) is Activity.WAITING
    wait_until(lambda: activity(sidebar, first) is Activity.UNREAD)
    wait_until(lambda: answered(smoldesk))
    smoldesk.chats.open_chat(first)
    assert activity(sidebar, first) is Activity.QUIET
    assert last_view(smoldesk).text.text().split() == ["word"] * 300
    assert [m.content for m in engine.prompts[1]] == ["second"]


def activity(sidebar, chat_id: int) -> Activity:
    model = sidebar.list.model()
    lines = [model.index(row, 0).data(LINE_ROLE) for row in range(model.rowCount())]
    return next(line.activity for line in lines if line.id == chat_id)


def test_keys_go_from_chat_to_chat(open_window, wait_until):
    smoldesk = open_window()
    for name in ("one", "two", "three"):
        ask(smoldesk, name)
        wait_until(lambda: answered(smoldesk))
        QTest.keyClick(smoldesk.window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    seen = []
    for _ in range(4):
        QTest.keyClick(smoldesk.window, Qt.Key.Key_Down, Qt.KeyboardModifier.ControlModifier)
        seen.append(question_view(smoldesk).text.text())
    assert seen == ["three", "two", "one", "one"]
    QTest.keyClick(smoldesk.window, Qt.Key.Key_Up, Qt.KeyboardModifier.ControlModifier)
    assert question_view(smoldesk).text.text() == "two"
    assert smoldesk.window.composer.text.hasFocus()


def test_the_newest_notice_is_in_front_and_older_ones_come_back(open_window, wait_until):
    engine = FakeEngine(load_error=EngineError("No model is here.", "Fetch one."))
    smoldesk = open_window(engine)
    notice, field = smoldesk.window.notice, smoldesk.window.composer.text
    wait_until(lambda: "No model" in notice.words.text())
    smoldesk.window.tell(Failure("The settings are damaged."))
    assert notice.words.text() == "The settings are damaged."
    data = QMimeData()
    for length in (300_000, 400_000):
        data.setText("x" * length)
        field.insertFromMimeData(data)
        assert f"{length:,} characters" in notice.words.text()
    QTest.keyClicks(field, "x")  # what was refused is over
    assert notice.words.text() == "The settings are damaged."
    assert not notice.action.isVisible()
    QTest.mouseClick(notice.close_button, Qt.MouseButton.LeftButton)
    assert "No model" in notice.words.text()
    assert notice.action.isVisible()
    QTest.mouseClick(notice.close_button, Qt.MouseButton.LeftButton)
    assert notice.isHidden()


def test_the_slider_changes_the_very_next_token(open_window, wait_until):
    engine = FakeEngine(reply_text="word " * 200, per_token=0.005)
    smoldesk = open_window(engine)
    ask(smoldesk, "go")
    wait_until(lambda: len(engine.temperatures) > 5)
    smoldesk.window.panel.sampling.temperature.slider.setValue(150)
    seen = len(engine.temperatures)
    wait_until(lambda: len(engine.temperatures) > seen + 2)
    assert engine.temperatures[0] == 0.7
    assert engine.temperatures[seen + 1] == 1.5
    assert smoldesk.window.panel.sampling.temperature.box.value() == 1.5
    QTest.keyClick(smoldesk.window, Qt.Key.Key_Escape)
    wait_until(lambda: ready(smoldesk))


def test_slider_and_number_agree_and_a_double_click_resets(open_window):
    smoldesk = open_window()
    for option, name, usual in (
        (smoldesk.window.panel.sampling.temperature, "temperature", 0.7),
        (smoldesk.window.panel.sampling.top_p, "top_p", 0.9),
    ):
        option.box.setFocus()
        option.box.selectAll()
        QTest.keyClicks(option.box, "0.35")
        QTest.keyClick(option.box, Qt.Key.Key_Return)
        assert option.slider.value() == 35
        assert getattr(smoldesk.chat.options, name) == 0.35
        QTest.keyClick(option.slider, Qt.Key.Key_Right)
        assert option.box.value() == pytest.approx(0.36)
        assert getattr(smoldesk.chat.options, name) == pytest.approx(0.36)
        QTest.mouseDClick(option.slider, Qt.MouseButton.LeftButton)
        assert option.box.value() == usual
        assert getattr(smoldesk.chat.options, name) == usual


def test_model_and_device_with_its_reason_are_shown(open_window, wait_until):
    smoldesk = open_window()
    wait_until(lambda: smoldesk.model.state is ModelState.READY)
    header = smoldesk.window.header
    assert header.model.text() == "SmolLM2-135M-Instruct"
    assert header.device.text() == "CPU · bf16"
    assert "no GPU found" in header.device.toolTip()
    facts = [line.text() for line in smoldesk.window.panel.scope.model.lines]
    assert "CPU: no GPU found" in facts


def test_the_view_follows_only_at_the_end_and_jumps_there_on_request(open_window, wait_until):
    smoldesk = open_window(FakeEngine(reply_text="word\n" * 400, per_token=0.002))
    ask(smoldesk, "go")
    transcript = smoldesk.window.transcript
    bar = transcript.verticalScrollBar()
    wait_until(lambda: bar.maximum() > 300)
    assert bar.value() == bar.maximum()
    assert transcript.jump.isHidden()
    bar.setValue(100)
    pause(100)
    assert bar.value() == 100
    assert transcript.jump.isVisible()
    QTest.mouseClick(transcript.jump, Qt.MouseButton.LeftButton)
    assert bar.value() == bar.maximum()
    pause(60)
    assert bar.value() == bar.maximum()
    assert transcript.jump.isHidden()
    QTest.keyClick(smoldesk.window, Qt.Key.Key_Escape)
    wait_until(lambda: ready(smoldesk))


@pytest.mark.parametrize("upward", [False, True])
def test_a_selection_that_reaches_the_end_survives_streaming(open_window, wait_until, upward):
    smoldesk = open_window(FakeEngine(reply_text="word " * 400, per_token=0.002))
    ask(smoldesk, "go")
    wait_until(lambda: messages(smoldesk)[-1].text.count("word") > 5)
    reply = last_view(smoldesk).text
    ends = (0, len(reply.text()))
    cursor = reply.textCursor()
    cursor.setPosition(ends[upward])
    cursor.setPosition(ends[not upward], QTextCursor.MoveMode.KeepAnchor)
    reply.setTextCursor(cursor)
    selected = reply.textCursor().selectedText()
    length = len(reply.text())
    wait_until(lambda: len(reply.text()) > length + 50)
    assert reply.textCursor().selectedText() == selected != ""
    QTest.keyClick(smoldesk.window, Qt.Key.Key_Escape)
    wait_until(lambda: ready(smoldesk))


HOSTILE = {  # what is typed or generated, and how a reply of that shows; a question shows as typed
    "html": ("<b>bold</b> <img src='file:///etc/passwd'> &amp; <script>", None),
    "image": ("![x](http://example.org/x.png)", "!x (http://example.org/x.png)"),
    "bidi": ("abc \u202e def \u2066 ghi \u2069", None),
    "emoji and joiners": ("👩‍👩‍👧‍👦 é é \u200b", None),
    "tabs and blank lines": ("one\n\n\n two", "one\ntwo"),
}


@pytest.mark.parametrize(("text", "shown"), HOSTILE.values(), ids=HOSTILE.keys())
def test_text_is_shown_as_the_text_it_is(open_window, wait_until, text, shown):
    smoldesk = open_window(FakeEngine(reply_text=text))
    smoldesk.chat.submit(text)
    wait_until(lambda: answered(smoldesk))
    assert question_view(smoldesk).text.text() == text
    assert last_view(smoldesk).text.text() == (text if shown is None else shown)


@pytest.mark.parametrize("character", ["\0", "\ufdd0", "\ufdd1", "\ud800"])
def test_what_is_no_character_harms_nothing(open_window, wait_until, character):
    smoldesk = open_window(FakeEngine(reply_text=f"a{character}b"))
    smoldesk.window.composer.text.insertPlainText(f"a{character}b")
    QTest.keyClick(smoldesk.window.composer.text, Qt.Key.Key_Return)
    wait_until(lambda: answered(smoldesk))
    view = last_view(smoldesk)
    for text in (question_view(smoldesk).text.text(), view.text.text(), messages(smoldesk)[0].text):
        assert text[0] == "a"
        assert text[-1] == "b"
        assert len(text) <= 3
    messages(smoldesk)[0].text.encode()  # what goes to the engine is whole


@pytest.mark.parametrize("text", ["word " * 16000, "x" * 80_000, "line of text\n" * 6000])
def test_a_large_paste_neither_freezes_nor_is_lost(open_window, text):
    smoldesk = open_window()
    data = QMimeData()
    data.setText(text)
    began = time.perf_counter()
    smoldesk.window.composer.text.insertFromMimeData(data)
    QApplication.processEvents()
    assert time.perf_counter() - began < 0.5
    assert smoldesk.window.composer.text.toPlainText() == text
    assert smoldesk.window.composer.height() <= smoldesk.window.height() // 3 + 40
    began = time.perf_counter()
    smoldesk.chat.submit(text)
    QApplication.processEvents()
    assert time.perf_counter() - began < 0.8


@pytest.mark.parametrize("text", ["word " * 200_000, "x" * 1_000_000])
def test_a_megabyte_is_refused_at_once_in_a_plain_sentence(open_window, text):
    smoldesk = open_window()
    QTest.keyClicks(smoldesk.window.composer.text, "before")
    data = QMimeData()
    data.setText(text)
    began = time.perf_counter()
    smoldesk.window.composer.text.insertFromMimeData(data)
    QApplication.processEvents()
    assert time.perf_counter() - began < 0.1
    assert smoldesk.window.composer.text.toPlainText() == "before"
    assert "1,000,006 characters" in smoldesk.window.notice.words.text()


def test_a_long_unbroken_reply_stays_fluid(open_window, wait_until):
    smoldesk = open_window(FakeEngine(reply_text="x" * 60_000))
    ask(smoldesk, "go")
    wait_until(lambda: answered(smoldesk), seconds=2)
    began = time.perf_counter()
    last_view(smoldesk).append_text("y" * 100)
    QApplication.processEvents()
    assert time.perf_counter() - began < 0.15


def test_the_composer_grows_to_a_third_of_the_window_and_shrinks_again(open_window, wait_until):
    smoldesk = open_window()
    composer = smoldesk.window.composer
    small = composer.height()
    composer.text.insertPlainText("a\nb\nc")
    wait_until(lambda: composer.height() > small)
    composer.text.insertPlainText("\n" * 200)
    wait_until(lambda: composer.height() > 3 * small)
    assert composer.height() < smoldesk.window.height() * 0.4
    composer.text.clear()
    wait_until(lambda: composer.height() == small)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_enough_contrast(theme):
    from app.ui.theme import DARK, LIGHT

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        lin = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * lin[0] + 0.7152 * lin[1] + 0.0722 * lin[2]

    c = {"light": LIGHT, "dark": DARK}[theme]
    for text, ground in (
        (c.text, c.ground),
        (c.text, c.question),
        (c.text, c.selection),
        (c.text, c.notice_ground),
        (c.muted, c.ground),
        (c.muted, c.panel),
        (c.muted, c.hover),
        (c.accent, c.field),
        (c.on_accent, c.accent),
        (c.on_accent, c.accent_hover),
        (c.danger, c.danger_ground),
    ):
        light, dark = sorted((luminance(text), luminance(ground)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)


def test_a_choice_of_appearance_is_used_at_once_and_found_again(open_window, tmp_path):
    from app.ui.theme import DARK, LIGHT

    smoldesk = open_window(config=tmp_path / "one", theme="light")
    assert smoldesk.appearance.colours == LIGHT
    QTest.keyClick(smoldesk.window, Qt.Key.Key_Comma, Qt.KeyboardModifier.ControlModifier)
    dialog = smoldesk.window.findChild(SettingsDialog)
    assert dialog.isVisible()
    QTest.mouseClick(dialog.theme.buttons["dark"], Qt.MouseButton.LeftButton)
    assert smoldesk.appearance.colours == DARK
    assert QApplication.palette().window().color().name() == DARK.ground
    smoldesk.preferences.save()
    again = tmp_path / "two"  # other chats, the same settings
    assert open_window(config=tmp_path / "one", data=again).appearance.colours == DARK


def test_closing_the_window_remembers_its_size(open_window, tmp_path):
    smoldesk = open_window(config=tmp_path / "one")
    smoldesk.window.resize(700, 500)
    QApplication.processEvents()
    QApplication.sendEvent(smoldesk.window, QEvent(QEvent.Type.Close))
    smoldesk.window.close()
    again = open_window(config=tmp_path / "one", data=tmp_path / "two")
    assert again.window.size().toTuple() == (700, 500)
