"""Find in the open chat: every hit is counted, marked and gone to, by keys alone."""

import pytest
from fake_engine import FakeEngine
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication


@pytest.fixture
def smoldesk(open_window, wait_until):
    """A long chat in which "needle" stands in the questions 3 (twice), 17 and 30."""
    smoldesk = open_window(FakeEngine(reply_text="Some **words** that say little. " * 12))
    for number in range(32):
        needles = {3: " a needle and a Needle", 17: " needle", 30: " nEEdle"}.get(number, "")
        smoldesk.chat.submit(f"question {number}{needles}")
        wait_until(lambda: smoldesk.scheduler.idle)
    return smoldesk


def find(smoldesk, wait_until, text: str):
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    bar = smoldesk.window.find_bar
    assert QApplication.focusWidget() is bar.field
    QTest.keyClicks(bar.field, text)
    wait_until(lambda: not bar._resting.isActive())
    return bar


def current(smoldesk) -> list[str]:
    """The texts of the messages in sight in which a hit stands out."""
    found = []
    transcript = smoldesk.window.transcript
    for message in transcript.messages:
        view = transcript.view(message.id)
        if view is None or not transcript.viewport().rect().intersects(view.geometry()):
            continue
        grounds = {m.format.background().color().name() for m in view.text.extraSelections()}
        if view.palette().accent().color().name() in grounds:
            found.append(message.text)
    return found


def test_enter_goes_from_hit_to_hit_and_round(smoldesk, wait_until):
    bar = find(smoldesk, wait_until, "needle")
    assert bar.words.text() == "4 of 4"
    assert current(smoldesk) == ["question 30 nEEdle"]
    seen = []
    for _ in range(4):
        QTest.keyClick(bar.field, Qt.Key.Key_Return)
        seen += current(smoldesk)
    assert [text.split()[1] for text in seen] == ["3", "3", "17", "30"]
    QTest.keyClick(bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert (bar.words.text(), current(smoldesk)) == ("3 of 4", ["question 17 needle"])
    QTest.keyClick(bar.field, Qt.Key.Key_F3)
    assert bar.words.text() == "4 of 4"
    QTest.keyClick(bar.field, Qt.Key.Key_F3, Qt.KeyboardModifier.ShiftModifier)
    assert bar.words.text() == "3 of 4"


def test_what_is_not_there_is_said(smoldesk, wait_until):
    bar = find(smoldesk, wait_until, "haystack")
    assert bar.words.text() == "Not found"
    assert not bar.next.isEnabled()
    QTest.keyClick(bar.field, Qt.Key.Key_Return)
    bar.field.clear()
    wait_until(lambda: not bar._resting.isActive())
    assert bar.words.text() == ""


def test_esc_closes_and_nothing_is_marked(smoldesk, wait_until):
    bar = find(smoldesk, wait_until, "words")
    assert current(smoldesk)
    QTest.keyClick(bar.field, Qt.Key.Key_Escape)
    assert bar.isHidden()
    views = smoldesk.window.transcript._views.values()
    assert not any(view.text.extraSelections() for view in views)
    assert QApplication.focusWidget() is smoldesk.window.composer.text


def test_another_chat_is_counted_anew(smoldesk, wait_until):
    bar = find(smoldesk, wait_until, "question")
    assert bar.words.text() == "32 of 32"
    first = smoldesk.chat.conversation.chat.id
    smoldesk.chats.new_chat()
    assert bar.words.text() == "Not found"
    smoldesk.chat.submit("one more question")
    wait_until(lambda: smoldesk.scheduler.idle)
    assert bar.words.text().endswith("of 1")
    smoldesk.chats.open_chat(first)
    assert bar.words.text().endswith("of 32")
    QTest.keyClick(bar.field, Qt.Key.Key_Return)
    assert current(smoldesk)
