"""Typing, sending, streaming, stopping: the window with an engine that has no model."""

import time

import pytest
from event_loop import pause
from fake_engine import DEFAULT_REPLY, FakeEngine
from PySide6.QtCore import QEvent, QMimeData, Qt
from PySide6.QtGui import QInputMethodEvent, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QPushButton, QSlider

from app.ui.states import ChatState, Failure, ModelState
from engine.errors import EngineError


def ask(smoldesk, text: str) -> None:
    field = smoldesk.window.composer.text
    field.setFocus()
    QTest.keyClicks(field, text)
    QTest.keyClick(field, Qt.Key.Key_Return)


def last_view(smoldesk):
    return smoldesk.window.transcript.turn_view(smoldesk.chat.turns[-1].id)


def ready(smoldesk) -> bool:
    return smoldesk.chat.state is ChatState.READY


def test_a_question_typed_and_sent_with_enter_is_answered_on_screen(open_window, wait_until):
    engine = FakeEngine()
    smoldesk = open_window(engine)
    ask(smoldesk, "Why is the sky blue?")
    assert smoldesk.window.composer.text.toPlainText() == ""
    wait_until(lambda: smoldesk.chat.turns and smoldesk.chat.turns[-1].finished)
    view = last_view(smoldesk)
    assert view.question.text() == "Why is the sky blue?"
    assert view.reply.text() == DEFAULT_REPLY
    assert "Complete" in view.footer.text()
    assert "tokens/s" in view.footer.text()
    assert "first word after" in view.footer.text()
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
    assert not smoldesk.chat.turns
    field.clear()
    QTest.keyClicks(field, "one")
    QTest.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClicks(field, "two")
    assert field.toPlainText() == "one\ntwo"
    assert not smoldesk.chat.turns
    QTest.keyClick(field, Qt.Key.Key_Enter)
    assert smoldesk.chat.turns[0].text == "one\ntwo"


def test_enter_within_a_composition_does_not_send(open_window):
    smoldesk = open_window()
    field = smoldesk.window.composer.text
    QTest.keyClicks(field, "a")
    QApplication.sendEvent(field, QInputMethodEvent("にほん", []))
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert not smoldesk.chat.turns
    commit = QInputMethodEvent("", [])
    commit.setCommitString("日本")
    QApplication.sendEvent(field, commit)
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert smoldesk.chat.turns[0].text == "a日本"


def test_a_question_asked_while_the_model_loads_waits_visibly_and_is_then_answered(
    open_window, wait_until
):
    smoldesk = open_window(FakeEngine(loading=0.4))
    ask(smoldesk, "early")
    assert smoldesk.chat.state is ChatState.WAITING
    wait_until(lambda: smoldesk.model.state is ModelState.LOADING)
    assert "as soon as the model is ready" in smoldesk.window.status.words.text()
    assert last_view(smoldesk).question.text() == "early"
    wait_until(lambda: ready(smoldesk))
    assert last_view(smoldesk).reply.text() == DEFAULT_REPLY


def test_stopping_a_question_that_waits_gives_its_text_back(open_window, wait_until):
    smoldesk = open_window(FakeEngine(loading=0.4))
    ask(smoldesk, "early")
    QTest.keyClick(smoldesk.window, Qt.Key.Key_Escape)
    assert smoldesk.chat.state is ChatState.READY
    assert smoldesk.window.composer.text.toPlainText() == "early"
    assert not smoldesk.chat.turns
    wait_until(lambda: smoldesk.model.state is ModelState.READY)


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
    assert view.reply.text().startswith("word word")
    assert view.reply.text() == smoldesk.chat.turns[-1].finished.text.rstrip()
    assert "Stopped by you" in view.footer.text()
    assert smoldesk.window.composer.button.text() == "Send"


def test_stop_while_the_prompt_is_read(open_window, wait_until):
    smoldesk = open_window(FakeEngine(reading=3, prompt_tokens=8000))
    ask(smoldesk, "long")
    wait_until(lambda: "of 8,000 tokens" in smoldesk.window.status.words.text())
    QTest.keyClick(smoldesk.window, Qt.Key.Key_Escape)
    assert smoldesk.chat.state is ChatState.STOPPING
    wait_until(lambda: ready(smoldesk), seconds=1)
    assert "The reply is empty" in last_view(smoldesk).footer.text()


def test_an_empty_reply_is_shown_as_such(open_window, wait_until):
    smoldesk = open_window(FakeEngine(reply_text=""))
    ask(smoldesk, "hm")
    wait_until(lambda: ready(smoldesk) and smoldesk.chat.turns)
    view = last_view(smoldesk)
    assert view.footer.text().startswith("The reply is empty.")
    assert view.reply.isHidden()
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
    wait_until(lambda: ready(smoldesk) and smoldesk.chat.turns)
    assert words in last_view(smoldesk).footer.text()


def test_a_question_that_fails_is_kept_and_can_be_asked_again_or_edited(open_window, wait_until):
    engine = FakeEngine(reply_error=EngineError("It has 9,000 tokens.", "Shorten it."))
    smoldesk = open_window(engine)
    ask(smoldesk, "much too long")
    wait_until(lambda: smoldesk.chat.turns and smoldesk.chat.turns[-1].failure)
    view = last_view(smoldesk)
    assert view.failure_box.findChild(QLabel).text() == "It has 9,000 tokens. Shorten it."
    retry, edit = view.failure_box.findChildren(QPushButton)
    QTest.mouseClick(retry, Qt.MouseButton.LeftButton)
    wait_until(lambda: len(engine.prompts) == 2 and ready(smoldesk))
    assert len(smoldesk.chat.turns) == 1
    _, edit = last_view(smoldesk).failure_box.findChildren(QPushButton)
    QTest.keyClicks(smoldesk.window.composer.text, "typed since")
    QTest.mouseClick(edit, Qt.MouseButton.LeftButton)
    assert smoldesk.window.composer.text.toPlainText() == "much too long\n\ntyped since"
    assert not smoldesk.chat.turns
    assert smoldesk.window.transcript.welcome.isVisible()
    engine.reply_error = None
    QTest.keyClick(smoldesk.window.composer.text, Qt.Key.Key_Return)
    wait_until(lambda: ready(smoldesk))
    assert [m.content for m in engine.prompts[-1]] == ["much too long\n\ntyped since"]


def test_a_reply_that_breaks_off_keeps_its_text_in_the_dialog(open_window, wait_until):
    engine = FakeEngine(
        reply_text="one two three four", reply_error=EngineError("No memory."), error_after=2
    )
    smoldesk = open_window(engine)
    ask(smoldesk, "go")
    wait_until(lambda: smoldesk.chat.turns and smoldesk.chat.turns[-1].failure)
    assert last_view(smoldesk).reply.text() == "one two"
    assert "No memory." in last_view(smoldesk).failure_box.findChild(QLabel).text()
    engine.reply_error = None
    ask(smoldesk, "on")
    wait_until(lambda: ready(smoldesk))
    assert [m.content for m in engine.prompts[-1]] == ["go", "one two", "on"]


def test_a_bug_in_the_engine_ends_the_turn_and_offers_its_details(open_window, wait_until):
    engine = FakeEngine(reply_error=ValueError("secret words of the chat"))
    smoldesk = open_window(engine)
    ask(smoldesk, "secret words of the chat")
    wait_until(lambda: smoldesk.chat.turns and smoldesk.chat.turns[-1].failure)
    failure = smoldesk.chat.turns[-1].failure
    assert "ValueError" in failure.details
    assert "fake_engine.py" in failure.details
    assert "secret" not in failure.details
    copy = last_view(smoldesk).failure_box.findChildren(QPushButton)[-1]
    QTest.mouseClick(copy, Qt.MouseButton.LeftButton)
    assert QApplication.clipboard().text() == failure.details
    engine.reply_error = None
    ask(smoldesk, "again")
    wait_until(lambda: ready(smoldesk))
    assert last_view(smoldesk).reply.text() == DEFAULT_REPLY


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
    wait_until(lambda: smoldesk.chat.turns and smoldesk.chat.turns[-1].failure)
    assert notice.isHidden()
    engine.load_error = None
    retry = last_view(smoldesk).failure_box.findChildren(QPushButton)[0]
    QTest.mouseClick(retry, Qt.MouseButton.LeftButton)
    wait_until(lambda: ready(smoldesk))
    assert last_view(smoldesk).reply.text() == DEFAULT_REPLY


def test_new_chat_begins_anew_and_the_old_one_is_a_click_away(open_window, wait_until):
    engine = FakeEngine()
    smoldesk = open_window(engine)
    ask(smoldesk, "one")
    wait_until(lambda: ready(smoldesk) and smoldesk.chat.turns)
    QTest.keyClick(smoldesk.window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    assert smoldesk.window.transcript.welcome.isVisible()
    ask(smoldesk, "two")
    wait_until(lambda: ready(smoldesk) and smoldesk.chat.turns)
    assert [m.content for m in engine.prompts[-1]] == ["two"]
    QTest.mouseClick(smoldesk.window.header.previous_chat, Qt.MouseButton.LeftButton)
    assert last_view(smoldesk).question.text() == "one"
    assert last_view(smoldesk).reply.text() == DEFAULT_REPLY
    assert "Complete" in last_view(smoldesk).footer.text()


def test_new_chat_while_a_reply_runs_keeps_it_in_the_old_chat(open_window, wait_until):
    smoldesk = open_window(FakeEngine(reply_text="word " * 1000, per_token=0.002))
    ask(smoldesk, "go")
    wait_until(lambda: smoldesk.chat.state is ChatState.ANSWERING)
    QTest.mouseClick(smoldesk.window.header.new_chat, Qt.MouseButton.LeftButton)
    wait_until(lambda: ready(smoldesk))
    assert not smoldesk.chat.turns
    assert smoldesk.window.transcript.welcome.isVisible()
    QTest.mouseClick(smoldesk.window.header.previous_chat, Qt.MouseButton.LeftButton)
    assert last_view(smoldesk).reply.text().startswith("word")
    assert "Stopped by you" in last_view(smoldesk).footer.text()


def test_every_chat_of_the_session_can_be_reached_again(open_window, wait_until):
    smoldesk = open_window()
    header = smoldesk.window.header
    assert header.previous_chat.isHidden()
    for name in ("one", "two", "three"):
        ask(smoldesk, name)
        wait_until(lambda: ready(smoldesk) and smoldesk.chat.turns)
        QTest.mouseClick(header.new_chat, Qt.MouseButton.LeftButton)
    seen = []
    for _ in range(6):
        QTest.keyClick(smoldesk.window, Qt.Key.Key_Up, Qt.KeyboardModifier.ControlModifier)
        seen.append(last_view(smoldesk).question.text())
    assert seen == ["three", "two", "one"] * 2
    assert smoldesk.window.composer.text.hasFocus()
    QTest.mouseClick(header.new_chat, Qt.MouseButton.LeftButton)
    QTest.mouseClick(header.new_chat, Qt.MouseButton.LeftButton)  # an empty one is not kept twice
    QTest.mouseClick(header.previous_chat, Qt.MouseButton.LeftButton)
    assert last_view(smoldesk).question.text() == "one"


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
    smoldesk.window.panel.temperature.slider.setValue(150)
    seen = len(engine.temperatures)
    wait_until(lambda: len(engine.temperatures) > seen + 2)
    assert engine.temperatures[0] == 0.7
    assert engine.temperatures[seen + 1] == 1.5
    assert smoldesk.window.panel.temperature.box.value() == 1.5
    QTest.keyClick(smoldesk.window, Qt.Key.Key_Escape)
    wait_until(lambda: ready(smoldesk))


def test_slider_and_number_agree_and_a_double_click_resets(open_window):
    smoldesk = open_window()
    for option, name, usual in (
        (smoldesk.window.panel.temperature, "temperature", 0.7),
        (smoldesk.window.panel.top_p, "top_p", 0.9),
    ):
        option.box.setFocus()
        option.box.selectAll()
        QTest.keyClicks(option.box, "0.35")
        QTest.keyClick(option.box, Qt.Key.Key_Return)
        assert option.slider.value() == 35
        assert getattr(smoldesk.chat.options.current, name) == 0.35
        QTest.keyClick(option.slider, Qt.Key.Key_Right)
        assert option.box.value() == pytest.approx(0.36)
        assert getattr(smoldesk.chat.options.current, name) == pytest.approx(0.36)
        QTest.mouseDClick(option.slider, Qt.MouseButton.LeftButton)
        assert option.box.value() == usual
        assert getattr(smoldesk.chat.options.current, name) == usual


def test_model_and_device_with_its_reason_are_shown(open_window, wait_until):
    smoldesk = open_window()
    wait_until(lambda: smoldesk.model.state is ModelState.READY)
    header = smoldesk.window.header
    assert header.model.text() == "SmolLM2-135M-Instruct"
    assert header.device.text() == "CPU · bf16"
    assert "no GPU found" in header.device.toolTip()
    facts = [line.text() for line in smoldesk.window.panel.model.lines]
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
    wait_until(lambda: smoldesk.chat.turns[-1].reply_text.count("word") > 5)
    reply = last_view(smoldesk).reply
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


HOSTILE = {
    "html": "<b>bold</b> <img src='file:///etc/passwd'> &amp; <script>",
    "markdown image": "![x](http://example.org/x.png)",
    "bidi": "abc \u202e def \u2066 ghi \u2069",
    "emoji and joiners": "👩‍👩‍👧‍👦 é é \u200b",
    "tabs and blank lines": "\tone\n\n\n two",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_text_is_shown_as_the_text_it_is(open_window, wait_until, text):
    smoldesk = open_window(FakeEngine(reply_text=text))
    smoldesk.chat.submit(text)
    wait_until(lambda: ready(smoldesk) and smoldesk.chat.turns)
    assert last_view(smoldesk).question.text() == text
    assert last_view(smoldesk).reply.text() == text


@pytest.mark.parametrize("character", ["\0", "\ufdd0", "\ufdd1", "\ud800"])
def test_what_is_no_character_harms_nothing(open_window, wait_until, character):
    smoldesk = open_window(FakeEngine(reply_text=f"a{character}b"))
    smoldesk.window.composer.text.insertPlainText(f"a{character}b")
    QTest.keyClick(smoldesk.window.composer.text, Qt.Key.Key_Return)
    wait_until(lambda: ready(smoldesk) and smoldesk.chat.turns)
    view = last_view(smoldesk)
    for text in (view.question.text(), view.reply.text(), smoldesk.chat.turns[0].text):
        assert text[0] == "a"
        assert text[-1] == "b"
        assert len(text) <= 3
    smoldesk.chat.turns[0].text.encode()  # what goes to the engine is whole


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
    wait_until(lambda: ready(smoldesk) and smoldesk.chat.turns, seconds=2)
    began = time.perf_counter()
    last_view(smoldesk).append_reply("y" * 100)
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


def test_everything_that_can_be_used_has_a_name_and_is_reached_by_tab(open_window, wait_until):
    smoldesk = open_window()
    smoldesk.window.resize(1100, 700)
    wait_until(lambda: smoldesk.model.state is ModelState.READY)
    wait_until(smoldesk.window.panel.isVisible)
    controls = [
        widget
        for kind in (QAbstractButton, QSlider)
        for widget in smoldesk.window.findChildren(kind)
        if widget.isVisible()
    ]
    panel = smoldesk.window.panel
    controls += [smoldesk.window.composer.text, panel.temperature.box, panel.top_p.box]
    reached = set()
    smoldesk.window.composer.text.setPlainText("x")  # so that Send can be used
    smoldesk.window.composer.text.setFocus()
    for _ in range(40):
        reached.add(QApplication.focusWidget())
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
    for widget in controls:
        name = widget.accessibleName() or (
            widget.text() if isinstance(widget, QAbstractButton) else ""
        )
        assert name, widget
        if not (isinstance(widget, QAbstractButton) and widget.group()):
            assert widget in reached, (name, widget)
    assert any(button in reached for button in panel.theme.buttons.values())


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
    QTest.mouseClick(smoldesk.window.panel.theme.buttons["dark"], Qt.MouseButton.LeftButton)
    assert smoldesk.appearance.colours == DARK
    assert QApplication.palette().window().color().name() == DARK.ground
    smoldesk.save_settings()
    assert open_window(config=tmp_path / "one").appearance.colours == DARK


def test_closing_the_window_remembers_its_size(open_window, tmp_path):
    smoldesk = open_window(config=tmp_path / "one")
    smoldesk.window.resize(700, 500)
    QApplication.processEvents()
    QApplication.sendEvent(smoldesk.window, QEvent(QEvent.Type.Close))
    smoldesk.window.close()
    again = open_window(config=tmp_path / "one")
    assert again.window.size().toTuple() == (700, 500)
