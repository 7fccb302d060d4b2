"""Titles by the model: only where wanted, only when idle, never over the user's own."""

import pytest
from event_loop import pause
from fake_engine import FakeEngine

from app.settings import Settings, SettingsFile
from app.title_finder import title_in


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("A Title of Some Words", "A Title of Some Words"),
        ('Title: "The Sea"\n\nIt is about', "The Sea"),
        ("**Why the sky is blue.**", "Why the sky is blue"),
        ("\n\n# Colours", "Colours"),
        ("", ""),
        ("one two three four five six seven eight nine ten eleven", ""),
        ("x" * 200, ""),
    ],
)
def test_a_title_is_found_in_what_the_model_says(said, title):
    assert title_in(said) == title


@pytest.fixture
def open_with(open_window, tmp_path):
    def open_it(engine, *, wanted: bool):
        SettingsFile(tmp_path / "config").write(Settings(suggest_titles=wanted))
        smoldesk = open_window(engine)
        smoldesk.titles._resting.setInterval(20)
        return smoldesk

    return open_it


def ask(smoldesk, wait_until, text):
    smoldesk.chat.submit(text)
    wait_until(lambda: smoldesk.scheduler.idle)


def titles(smoldesk):
    return [record.title for record in smoldesk.chats.library.records()]


def test_the_model_names_a_chat_once_when_it_is_idle(open_with, wait_until):
    engine = FakeEngine(reply_text="Blue Sky")
    smoldesk = open_with(engine, wanted=True)
    ask(smoldesk, wait_until, "why is the sky so very blue?")
    wait_until(lambda: titles(smoldesk) == ["Blue Sky"])
    assert "why is the sky" in engine.prompts[-1][0].content
    assert [m.text for m in smoldesk.window.transcript.messages][1] == "Blue Sky"  # the reply
    asked = len(engine.prompts)
    ask(smoldesk, wait_until, "and again")
    pause(100)
    assert len(engine.prompts) == asked + 1
    assert smoldesk.store.flush(5)
    assert smoldesk.store.chats()[0].title == "Blue Sky"


def test_nothing_is_asked_unless_it_is_wanted(open_with, wait_until):
    engine = FakeEngine(reply_text="Blue Sky")
    smoldesk = open_with(engine, wanted=False)
    ask(smoldesk, wait_until, "why?")
    pause(100)
    assert titles(smoldesk) == ["why?"]
    assert len(engine.prompts) == 1


def test_a_title_of_ones_own_stays(open_with, wait_until):
    engine = FakeEngine(reply_text="Blue Sky", per_token=0.1)
    smoldesk = open_with(engine, wanted=True)
    ask(smoldesk, wait_until, "why?")
    wait_until(lambda: len(engine.prompts) == 2)  # it is being found
    smoldesk.chats.rename(smoldesk.chat.conversation.chat.id, "mine")
    pause(500)
    assert titles(smoldesk) == ["mine"]


def test_a_question_does_not_wait_for_a_title(open_with, wait_until):
    engine = FakeEngine(reply_text="Blue Sky")
    smoldesk = open_with(engine, wanted=True)
    ask(smoldesk, wait_until, "why?")
    engine.per_token, engine.reply_text = 0.05, "a long title " * 20
    wait_until(lambda: len(engine.prompts) == 2)
    engine.per_token, engine.reply_text = 0.0, "at once"
    ask(smoldesk, wait_until, "next")
    assert smoldesk.window.transcript.messages[-1].text == "at once"


def test_a_temporary_chat_is_not_named(open_with, wait_until):
    engine = FakeEngine(reply_text="Blue Sky")
    smoldesk = open_with(engine, wanted=True)
    smoldesk.chats.new_temporary_chat()
    ask(smoldesk, wait_until, "why?")
    pause(100)
    assert len(engine.prompts) == 1
