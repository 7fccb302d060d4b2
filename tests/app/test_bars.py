"""The bars of the next token: they draw what the sampler did, once a frame, and only while seen."""

import time

import numpy as np
import pytest
from event_loop import pause
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QScrollArea, QToolTip, QWidget

from app.ui.panel.bar_rows import COUNT, rows_of
from app.ui.panel.bars import NextTokenBars
from app.ui.panel.token_text import percent, visible
from engine.events import Bar, Picture
from engine.options import SamplingOptions
from engine.sampling import candidates
from engine.scope import NextToken

TEXTS = [
    " the",
    "\n\n",
    "<|im_end|>",
    " مرحبا",
    " 👋🏽",
    "\ufffd",
    "\t",
    "  ",
    "\u200d",
    "<b>x</b>",
]
OPTIONS = st.builds(
    SamplingOptions,
    temperature=st.one_of(st.just(0.0), st.floats(0.05, 2.0)),
    top_p=st.one_of(st.just(1.0), st.floats(0.0, 1.0)),
    top_k=st.one_of(st.just(0), st.integers(0, 80)),
    min_p=st.one_of(st.just(0.0), st.floats(0.0, 1.0)),
    repetition_penalty=st.floats(1.0, 2.0),
    repetition_window=st.integers(0, 12),
    frequency_penalty=st.floats(-2.0, 2.0),
    presence_penalty=st.floats(-2.0, 2.0),
    temperature_last=st.booleans(),
)


def step_of(seed: int = 0, *, vocabulary: int = 500, drawn: int | None = 3) -> NextToken:
    logits = np.random.default_rng(seed).standard_normal(vocabulary).astype(np.float32) * 3
    history = tuple(token % vocabulary for token in (0, 1, 1, 5))
    return NextToken(logits, history, lambda i: TEXTS[i % len(TEXTS)], drawn)


class Counting:
    """A step that counts how often it was asked."""

    def __init__(self, step: NextToken) -> None:
        self.step = step
        self.asked: list[SamplingOptions] = []

    def picture(self, options: SamplingOptions, *, count: int) -> Picture:
        self.asked.append(options)
        return self.step.picture(options, count=count)


@pytest.fixture
def bars(qt_app):
    widget = NextTokenBars()
    widget.resize(280, 420)
    widget.show()
    pause(30)
    yield widget
    widget.close()
    widget.deleteLater()
    qt_app.processEvents()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 300), OPTIONS)
def test_the_rows_are_what_the_sampler_did(seed, vocabulary, options):
    step = step_of(seed, vocabulary=vocabulary)
    rows = rows_of(step.picture(options, count=COUNT))
    found = candidates(step.logits, step.history, options)
    chances = dict(zip(found.ids.tolist(), found.probabilities.tolist(), strict=True))
    longest = max(max(row.bar.probability, row.bar.final) for row in rows)
    assert len(rows) <= COUNT
    for row in rows:
        bar = row.bar
        assert bar.final == chances.get(bar.id, 0.0)
        assert (bar.cut_by is None) == (bar.id in chances)
        assert bool(row.tag) == (bar.cut_by is not None)
        # A bar ends at its final chance; what it was before is there as well.
        assert row.kept + row.gained == pytest.approx(bar.final / longest, abs=1e-12)
        assert row.lost == bar.probability / longest
        assert row.kept <= row.lost
        assert row.number == percent(bar.probability if row.tag else bar.final)
    assert [row.bar.id for row in rows if row.bar.drawn] == [
        row.bar.id for row in rows if row.bar.id == step.drawn
    ]


@pytest.mark.parametrize("options", [SamplingOptions(), SamplingOptions(temperature=0, top_k=3)])
def test_shows_exactly_the_picture_that_the_step_gives(bars, options):
    step = step_of()
    bars.show_step(step, options)
    pause(60)
    picture = step.picture(options, count=COUNT)
    assert bars.picture == picture
    assert tuple(row.bar for row in bars.bars.rows) == picture.bars
    assert bars.bars.rows == rows_of(picture)


def test_a_storm_of_calls_costs_one_computation_a_frame_and_ends_with_the_last(bars):
    step = Counting(step_of())
    began = time.monotonic()
    for number in range(400):
        bars.show_step(step, SamplingOptions(temperature=0.1 + number / 400))
        if number % 20 == 19:
            pause(2)
    pause(60)
    frames = (time.monotonic() - began) / 0.015 + 2
    assert 1 <= len(step.asked) <= min(frames, 30)
    assert step.asked[-1].temperature == 0.1 + 399 / 400


def test_nothing_is_computed_while_hidden_and_the_last_when_shown_again(bars):
    bars.hide()
    step = Counting(step_of())
    bars.show_step(step, SamplingOptions(temperature=0.3))
    bars.show_step(step, SamplingOptions(temperature=0.4))
    pause(60)
    assert step.asked == []
    bars.show()
    pause(60)
    assert [options.temperature for options in step.asked] == [0.4]


def test_nothing_is_computed_while_scrolled_away(qt_app):
    page, bars, area = QWidget(), NextTokenBars(), QScrollArea()
    page.setFixedSize(300, 2000)
    bars.setParent(page)
    bars.setGeometry(0, 1500, 280, 400)
    area.setWidget(page)
    area.resize(320, 300)
    area.show()
    pause(30)
    step = Counting(step_of())
    bars.show_step(step, SamplingOptions())
    pause(60)
    assert step.asked == []
    area.verticalScrollBar().setValue(1500)
    pause(100)
    assert len(step.asked) == 1
    area.close()
    area.deleteLater()


def test_nothing_and_broken_numbers_show_the_invitation(bars):
    assert bars.empty.isVisible()
    bars.show_step(step_of(), SamplingOptions())
    pause(60)
    assert not bars.empty.isVisible()
    assert bars.bars.isVisible()
    broken = NextToken(np.array([1.0, np.nan], np.float32), (), str)
    bars.show_step(broken, SamplingOptions())
    pause(60)
    assert bars.empty.isVisible()
    assert not bars.bars.isVisible()
    bars.show_step(step_of(), SamplingOptions())
    pause(60)
    bars.show_step(None, SamplingOptions())
    assert bars.empty.isVisible()
    assert bars.picture is None


def picture_of(*bars: Bar, kept: int = 1, left_out: float = 0.0, unseen: float = 0.0) -> Picture:
    return Picture(bars, kept, left_out, unseen)


class Given:
    """A step whose picture is given."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def picture(self, _options: SamplingOptions, *, count: int) -> Picture:
        return self._picture


@pytest.mark.parametrize(
    ("kept", "left_out", "unseen", "words"),
    [
        (1, 0.0, 0.0, "Only 1 token can come."),
        (7, 0.124, 0.0, "7 tokens can come, 12.4 % of the chances left out."),
        (40000, 0.0, 0.021, "40,000 tokens can come, 2.1 % on tokens not shown."),
        (20, 0.0004, 0.0009, "20 tokens can come."),
    ],
)
def test_the_line_says_how_many_can_come_and_what_is_not_shown(bars, kept, left_out, unseen, words):
    bar = Bar(1, 0.5, 0.5, None, " the")
    bars.show_step(
        Given(picture_of(bar, kept=kept, left_out=left_out, unseen=unseen)), SamplingOptions()
    )
    pause(60)
    assert bars.line.text().replace("\u00a0", " ") == words


def test_screen_readers_hear_the_three_likeliest_in_words(bars):
    given_bars = [Bar(n, 0.4 / n, 0.4 / n, None, f" word{n}") for n in range(1, 5)]
    cut = Bar(9, 0.05, 0.0, "top_p", " cut")
    bars.show_step(Given(picture_of(cut, *given_bars, kept=4)), SamplingOptions())
    pause(600)
    described = bars.bars.accessibleDescription().replace("\u00a0", " ")
    assert "␣word1 40.0 %; ␣word2 20.0 %; ␣word3 13.3 %" in described
    assert "word4" not in described
    assert "cut" not in described


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", "␣the"),
        ("a b ", "a b␣"),
        ("   ", "␣␣␣"),
        ("\n\n", "↵↵"),
        ("\t", "⇥"),
        ("\ufffd", "▯"),
        ("\u202e", "⟨202E⟩"),
        ("\x00", "⟨0⟩"),
        ("\ud800", "⟨D800⟩"),
        ("\u0301", "◌\u0301"),
        ("", "(no text)"),
        ("<|im_end|>", "end of reply"),
        ("<|reserved_7|>", "<|reserved_7|>"),
        ("<b>", "<b>"),
    ],
)
def test_what_cannot_be_seen_gets_a_mark(text, shown):
    assert visible(text) == shown


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_every_text_becomes_one_short_line_that_can_be_drawn(text):
    shown = visible(text)
    assert shown
    assert "\n" not in shown
    shown.encode("utf-8")  # no half characters


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0 %"), (1e-9, "<0.1 %"), (0.1234, "12.3 %"), (0.9999, ">99.9 %"), (1.0, "100 %")],
)
def test_a_percentage_is_never_0_or_100_for_what_is_not(share, words):
    assert percent(share).replace("\u00a0", " ") == words


def test_strange_texts_are_painted_and_leave_the_other_rows_as_they_are(bars):
    plain = [Bar(n, 0.3, 0.3, None, "a") for n in range(3)]
    strange = [plain[0], Bar(1, 0.3, 0.3, None, "👨‍👩‍👧‍👦 مرحبا \u202e" * 9), plain[2]]
    pictures = []
    for row in (plain, strange):
        bars.show_step(Given(picture_of(*row)), SamplingOptions())
        pause(60)
        pictures.append(bars.bars.grab().toImage())
    height = bars.bars.height() // COUNT
    for place in (0, 2):
        first, second = (image.copy(0, place * height, 280, height) for image in pictures)
        assert first == second
    middle = [image.copy(0, height, 280, height) for image in pictures]
    assert middle[0] != middle[1]


def test_a_right_to_left_word_stands_at_the_left_as_all_do(bars):
    rows = [Bar(n, 0.3, 0.3, None, text) for n, text in enumerate([" مر", " ab"])]
    bars.show_step(Given(picture_of(*rows)), SamplingOptions())
    pause(60)
    image = bars.bars.grab().toImage()
    height = bars.bars.height() // COUNT
    ground = image.pixel(0, height * 5)

    def space(place: int) -> set[tuple[int, int]]:
        """The ink of the mark for the space, which comes first, in the lower half of its row."""
        return {
            (x, y)
            for x in range(12, 23)
            for y in range(height // 2, height - 1)
            if image.pixel(x, place * height + y) != ground
        }

    assert len(space(0)) > 5
    assert space(0) == space(1)


def test_the_tooltip_of_a_row_shows_a_token_as_it_is_typed(bars):
    cut = Bar(77, 0.25, 0.0, "min_p", "<b>x</b>", drawn=True)
    bars.show_step(Given(picture_of(Bar(1, 0.5, 1.0, None, "a"), cut)), SamplingOptions())
    pause(60)
    rows = bars.bars
    assert [line.replace("\u00a0", " ") for line in rows.explanation(rows.rows[1])] == [
        "“<b>x</b>”, token 77",
        "Before the cuts: 25.0 %",
        "In the end: 0 %",
        "Left out by min-p",
        "This is the token that came.",
    ]
    place = QPoint(20, round(rows.height() / COUNT * 1.5))
    QApplication.sendEvent(
        rows, QHelpEvent(QHelpEvent.Type.ToolTip, place, rows.mapToGlobal(place))
    )
    assert "&lt;b&gt;x" in QToolTip.text()
    QToolTip.hideText()


def test_the_bars_ask_for_no_keyboard_focus(bars):
    assert bars.bars.focusPolicy() == Qt.FocusPolicy.NoFocus
