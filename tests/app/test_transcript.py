"""The transcript: thousands of messages, few widgets; what the reader looks at stays in place."""

import random
import time
from itertools import pairwise

import pytest
from event_loop import pause
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.ui.states import ReplyFacts, ReplyGrowth, ReplyStatus, ShownMessage
from app.ui.transcript.transcript import Transcript

DONE = ReplyFacts(ReplyStatus.FINISHED, "end_of_turn")
RUNNING = ReplyFacts(ReplyStatus.STREAMING)


def conversation(count: int, *, seed: int = 1) -> list[ShownMessage]:
    draw = random.Random(seed)
    messages = []
    for number in range(count):
        words = " ".join("words" for _ in range(draw.choice((1, 5, 40, 400))))
        text = f"number {number}: {words}"
        role = "user" if number % 2 == 0 else "assistant"
        messages.append(ShownMessage(number + 1, role, text, None if role == "user" else DONE))
    return messages


@pytest.fixture
def transcript(qt_app):
    view = Transcript()
    view.resize(900, 600)
    view.show()
    yield view
    view.deleteLater()
    qt_app.processEvents()


def in_sight(view: Transcript) -> dict[int, int]:
    """The y of each message that can be seen, by id."""
    room = view.viewport().height()
    return {
        message.id: shown.y()
        for message in view.messages
        if (shown := view.view(message.id)) is not None
        and shown.isVisible()
        and shown.y() < room
        and shown.y() + shown.height() > 0
    }


def laid_out_well(view: Transcript) -> None:
    """Messages in sight follow each other without overlap or hole, each as tall as it needs."""
    places = in_sight(view)
    ids = sorted(places)
    assert ids == list(range(ids[0], ids[-1] + 1))
    for above, below in pairwise(ids):
        bottom = places[above] + view.view(above).height()
        assert 0 < places[below] - bottom < 60
    for message_id in ids:
        shown = view.view(message_id)
        assert shown.fit(shown.width()) == shown.height()


def test_thousands_of_messages_cost_a_few_widgets_and_little_time(transcript):
    messages = conversation(5000)
    began = time.perf_counter()
    transcript.show_conversation(messages)
    opened = time.perf_counter() - began
    assert len(transcript._views) < 40
    assert messages[-1].id in in_sight(transcript)
    bar = transcript.verticalScrollBar()
    began = time.perf_counter()
    for value in range(0, bar.maximum(), bar.maximum() // 50):
        bar.setValue(value)
        laid_out_well(transcript)
    scrolled = (time.perf_counter() - began) / 50
    assert len(transcript._views) < 60
    # Loose, for a busy machine: laying all of it out would take some hundred times as long.
    assert opened < 1
    assert scrolled < 0.2


def test_home_and_end_reach_the_first_and_the_last(transcript):
    transcript.show_conversation(conversation(300))
    QTest.keyClick(transcript, Qt.Key.Key_Home)
    assert 1 in in_sight(transcript)
    assert transcript.view(1).y() > 0
    QTest.keyClick(transcript, Qt.Key.Key_End)
    assert 300 in in_sight(transcript)
    last = transcript.view(300)
    assert 0 < transcript.viewport().height() - (last.y() + last.height()) < 60


@pytest.mark.parametrize("seed", range(4))
def test_what_is_looked_at_never_moves_by_itself(transcript, seed):
    messages = conversation(400, seed=seed)
    messages.append(ShownMessage(401, "user", "go"))
    messages.append(ShownMessage(402, "assistant", "", RUNNING))
    transcript.show_conversation(messages)
    bar = transcript.verticalScrollBar()
    draw = random.Random(seed)
    bar.setValue(draw.randrange(bar.maximum() // 4, bar.maximum() // 2))
    before = in_sight(transcript)
    for number in range(50):
        transcript.append_reply(ReplyGrowth(402, f"line {number}\n\n", number, 1.0))
        QApplication.processEvents()
    assert in_sight(transcript) == before
    # A message far above turns out to be of another height than was thought.
    changed = [m if m.id != 3 else ShownMessage(3, "user", "much more\n" * 200) for m in messages]
    transcript.show_messages(changed)
    assert in_sight(transcript) == before


def test_dragging_the_bar_step_by_step_moves_by_as_much(transcript):
    transcript.show_conversation(conversation(300))
    bar = transcript.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    laid_out_well(transcript)
    for _ in range(100):
        before = in_sight(transcript)
        bar.setValue(bar.value() - 30)
        after = in_sight(transcript)
        moved = {after[message_id] - before[message_id] for message_id in before.keys() & after}
        assert moved == {30}


def test_it_follows_at_the_end_and_only_there(transcript):
    messages = [*conversation(20), ShownMessage(21, "assistant", "", RUNNING)]
    transcript.show_conversation(messages)
    bar = transcript.verticalScrollBar()
    for number in range(30):
        transcript.append_reply(ReplyGrowth(21, "more\n\n", number, 1.0))
        pause(1)
        assert bar.value() == bar.maximum()
    assert transcript.jump.isHidden()
    bar.setValue(bar.maximum() - 200)
    assert transcript.jump.isVisible()
    place = bar.value()
    for number in range(30):
        transcript.append_reply(ReplyGrowth(21, "more\n\n", number, 1.0))
        pause(1)
    assert bar.value() == place
    QTest.mouseClick(transcript.jump, Qt.MouseButton.LeftButton)
    assert bar.value() == bar.maximum()


def test_a_message_with_a_selection_is_kept_however_far_away(transcript):
    transcript.show_conversation(conversation(300))
    text = transcript.view(300).text
    cursor = text.textCursor()
    cursor.setPosition(3)
    cursor.setPosition(9, QTextCursor.MoveMode.KeepAnchor)
    text.setTextCursor(cursor)
    QTest.keyClick(transcript, Qt.Key.Key_Home)
    assert 300 not in in_sight(transcript)
    assert transcript.view(300).text.textCursor().selectedText() == "ber 29"
    QTest.keyClick(transcript, Qt.Key.Key_End)
    assert transcript.view(300).text is text


@pytest.mark.parametrize("where", ["before", "inside", "end", "upward"])
@pytest.mark.parametrize(
    "rest", ["and *then* on", "** bold\n\n- a\n- b\n\n```\ncode", "\n===\nmore"]
)
def test_a_selection_survives_streaming_markdown(transcript, where, rest):
    begun = "First *paragraph* here.\n\nThe second one "
    messages = [ShownMessage(1, "user", "go"), ShownMessage(2, "assistant", begun, RUNNING)]
    transcript.show_conversation(messages)
    text = transcript.view(2).text
    length = len(text.text())
    places = {"before": (2, 9), "inside": (28, 33), "end": (4, length), "upward": (length, 4)}
    start, end = places[where]
    cursor = text.textCursor()
    cursor.setPosition(start)
    cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
    text.setTextCursor(cursor)
    selected = text.textCursor().selectedText()
    for number, character in enumerate(rest):
        transcript.append_reply(ReplyGrowth(2, character, number, 1.0))
        text.render_now()
        assert text.textCursor().selectedText() == selected
    assert text.textCursor().position() == end


def test_a_new_width_keeps_the_first_message_in_sight(transcript):
    transcript.show_conversation(conversation(300))
    bar = transcript.verticalScrollBar()
    bar.setValue(bar.maximum() // 3)
    for width in (500, 1300, 420, 900):
        first = min(in_sight(transcript))
        transcript.resize(width, 600)
        QApplication.processEvents()
        assert min(in_sight(transcript)) in (first, first + 1)
        laid_out_well(transcript)


def test_keys_scroll_also_from_within_a_message(transcript):
    transcript.show_conversation(conversation(100))
    last = transcript.view(100).text
    last.setFocus()
    bar = transcript.verticalScrollBar()
    before = bar.value()
    QTest.keyClick(last, Qt.Key.Key_PageUp)
    assert bar.value() < before
    place = bar.value()
    QTest.keyClick(last, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert bar.value() == place
    assert last.textCursor().hasSelection()


def test_another_conversation_is_shown_from_its_end(transcript):
    transcript.show_conversation(conversation(200))
    transcript.verticalScrollBar().setValue(0)
    transcript.show_conversation(conversation(50, seed=2))
    assert 50 in in_sight(transcript)
    transcript.show_conversation([])
    assert transcript.welcome.isVisible()
    assert not transcript._views


def test_pulling_a_selection_beyond_the_edge_scrolls(transcript):
    messages = [ShownMessage(1, "user", "\n".join(f"line {n}" for n in range(200)))]
    transcript.show_conversation(messages)
    bar = transcript.verticalScrollBar()
    bar.setValue(0)
    text = transcript.view(1).text
    QTest.mousePress(text.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(5, 5))
    below = text.mapFrom(transcript.viewport(), QPoint(5, transcript.viewport().height() + 40))
    QTest.mouseMove(text.viewport(), below)
    pause(20)
    assert bar.value() > 0
    QTest.mouseRelease(text.viewport(), Qt.MouseButton.LeftButton, pos=below)


def test_of_a_very_long_question_the_beginning_is_shown_and_all_of_it_on_request(transcript):
    text = "some words " * 3000
    transcript.show_conversation([ShownMessage(1, "user", text)])
    view = transcript.view(1)
    assert view.text.text().endswith("…")
    assert len(view.text.text()) < 2100
    QTest.mouseClick(view.unfold, Qt.MouseButton.LeftButton)
    pause(20)
    assert view.text.text() == text
    assert view.unfold.isHidden()
    laid_out_well(transcript)
    transcript.show_conversation([ShownMessage(2, "user", "short")])
    assert transcript.view(2).unfold.isHidden()
