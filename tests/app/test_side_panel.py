"""The side panel: what it shows is what holds, and it announces only what the user changes."""

from dataclasses import replace

import pytest
from event_loop import pause
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt
from PySide6.QtGui import QKeyEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QSlider,
    QTabBar,
)

from app.ui.controls import system_prompt
from app.ui.panel import reply_end
from app.ui.panel.option_table import MAIN, MORE
from app.ui.panel.reply_end import escaped, stop_texts
from app.ui.panel.seed_choice import GREATEST
from app.ui.panel.side_panel import PANEL_WIDTH, SidePanel
from app.ui.presets import BUILT_IN, SAMPLERS, Preset
from app.ui.states import ModelInfo
from app.ui.theme import LIGHT, Appearance
from engine.events import Bar, Picture
from engine.options import RANGES, SamplingOptions

NUMBERS = (*MAIN, *MORE)


class Step:
    """A step that keeps the options it was asked about."""

    def __init__(self) -> None:
        self.asked: list[SamplingOptions] = []

    def picture(self, options: SamplingOptions, *, count: int) -> Picture:
        self.asked.append(options)
        return Picture((Bar(1, 0.9, 1.0, None, " a"),), 1, 0.1, 0.0)


class Heard:
    """All that a panel announced, in order."""

    def __init__(self, panel) -> None:
        self.changes: list[dict] = []
        self.prompts: list[str | None] = []
        self.presets: list[tuple[Preset, ...]] = []
        self.defaults = 0
        panel.options_changed.connect(self.changes.append)
        panel.system_prompt_changed.connect(self.prompts.append)
        panel.presets_changed.connect(self.presets.append)
        panel.default_requested.connect(self._on_default)

    def _on_default(self) -> None:
        self.defaults += 1

    @property
    def anything(self) -> bool:
        return bool(self.changes or self.prompts or self.presets or self.defaults)


@pytest.fixture
def side(qt_app):
    panel = SidePanel()
    Appearance(qt_app).choose("light")
    panel.resize(panel.width(), 900)
    panel.show()
    panel.activateWindow()
    pause(20)
    yield panel
    panel.close()
    panel.deleteLater()
    qt_app.processEvents()


@pytest.fixture
def panel(side):
    side.sampling.more.button.setChecked(True)
    return side.sampling


@pytest.fixture
def heard(panel):
    return Heard(panel)


def enter(field, text: str) -> None:
    field.setFocus()
    field.selectAll()
    QTest.keyClick(field, Qt.Key.Key_Delete)
    if text.isascii():
        QTest.keyClicks(field, text)
    else:  # QTest knows no other keys
        field.lineEdit().insert(text)
    QTest.keyClick(field, Qt.Key.Key_Return)


EVERYTHING = SamplingOptions(
    temperature=1.25,
    top_p=0.55,
    top_k=40,
    min_p=0.125,
    repetition_penalty=1.3,
    repetition_window=100,
    frequency_penalty=-0.5,
    presence_penalty=0.75,
    temperature_last=True,
    max_new_tokens=300,
    stop_texts=("\n\n", "User:", " "),
    seed=2**63 - 1,
    end_loops=False,
)


class TestShowing:
    def test_shows_every_option_and_announces_nothing(self, panel, heard):
        panel.show_options(EVERYTHING)
        for name in NUMBERS:
            slider = panel.sliders[name]
            value = getattr(EVERYTHING, name)
            assert slider.box.value() == pytest.approx(value)
            assert slider.slider.value() == round(value * slider.scale.steps)
        assert panel.temperature_last.isChecked()
        assert not panel.end_loops.isChecked()
        assert panel.length.check.isChecked()
        assert panel.length.option.box.value() == 300
        assert panel.stop_texts.field.toPlainText() == "\\n\\n\nUser:\n\\s"
        assert panel.seed.same.isChecked()
        assert panel.seed.field.text() == str(2**63 - 1)
        assert "then temperature" in panel.order.text()
        panel.show_options(SamplingOptions())
        panel.show_system_prompt("Be brief.")
        panel.show_presets((Preset("Mine", EVERYTHING),))
        panel.set_usual(EVERYTHING)
        panel.show_last_seed(7)
        panel.show_next_token(Step())
        pause(60)
        assert not panel.length.check.isChecked()
        assert panel.seed.new.isChecked()
        assert "penalties, temperature" in panel.order.text()
        assert not heard.anything

    @pytest.mark.parametrize(
        ("name", "value", "end"),
        [("top_k", 5000, 200), ("repetition_window", 8192, 512), ("max_new_tokens", 9000, 2048)],
    )
    def test_a_value_beyond_the_slider_is_kept_as_it_is(self, panel, heard, name, value, end):
        slider = panel.length.option if name == "max_new_tokens" else panel.sliders[name]
        panel.show_options(SamplingOptions(**{name: value}))
        assert slider.box.value() == value
        assert slider.slider.value() == slider.slider.maximum() == end
        QTest.keyClick(slider.slider, Qt.Key.Key_End)
        slider.box.setFocus()
        QTest.keyClick(slider.box, Qt.Key.Key_Return)
        panel.temperature.slider.setFocus()
        assert not heard.anything
        QTest.keyClick(panel.temperature.slider, Qt.Key.Key_Right)
        assert heard.changes == [{"temperature": 0.71}]

    def test_a_value_finer_than_the_slider_is_not_rounded_by_showing_it(self, panel, heard):
        panel.show_options(SamplingOptions(min_p=0.1234567))
        enter(panel.sliders["top_k"].box, "5")
        assert heard.changes == [{"top_k": 5}]
        assert panel.sliders["min_p"].box.text() == "0.123"

    def test_the_bars_follow_the_options(self, panel):
        step = Step()
        panel.show_next_token(step)
        pause(40)
        panel.temperature.slider.setValue(150)
        pause(40)
        panel.show_options(SamplingOptions(top_k=3))
        pause(40)
        assert step.asked[-2].temperature == 1.5
        assert step.asked[-1] == SamplingOptions(top_k=3)


class TestNumbers:
    @pytest.mark.parametrize("name", NUMBERS)
    def test_every_slider_and_box_announces_valid_values_from_end_to_end(self, panel, heard, name):
        slider = panel.sliders[name]
        low, high = RANGES[name]
        for key in (Qt.Key.Key_End, Qt.Key.Key_Home, Qt.Key.Key_Right):
            QTest.keyClick(slider.slider, key)
        enter(slider.box, str(high))
        enter(slider.box, str(low))
        options = SamplingOptions()
        for change in heard.changes:
            assert set(change) == {name}
            options = replace(options, **change)  # raises if it is not valid
            assert type(change[name]) is type(low)
        assert {getattr(options, name)} == {low}
        assert any(change[name] == high for change in heard.changes)

    @pytest.mark.parametrize("name", NUMBERS)
    @pytest.mark.parametrize("part", ["slider", "label"])
    def test_a_double_click_goes_back_to_the_usual_value(self, panel, heard, name, part):
        panel.set_usual(EVERYTHING)
        widget = getattr(panel.sliders[name], part)
        QTest.mouseDClick(widget, Qt.MouseButton.LeftButton, pos=QPoint(3, 8))
        assert heard.changes[-1] == {name: getattr(EVERYTHING, name)}
        assert panel.sliders[name].box.value() == pytest.approx(getattr(EVERYTHING, name))

    def test_dragging_announces_all_the_way(self, panel, heard):
        slider = panel.temperature.slider
        QTest.mousePress(slider, Qt.MouseButton.LeftButton, pos=QPoint(20, 10))
        for x in range(30, 200, 10):
            QTest.mouseMove(slider, QPoint(x, 10))
        QTest.mouseRelease(slider, Qt.MouseButton.LeftButton, pos=QPoint(190, 10))
        values = [change["temperature"] for change in heard.changes]
        assert len(values) > 10
        assert values == sorted(values)

    @pytest.mark.parametrize(
        ("name", "typed", "value"),
        [
            ("top_k", "1,000", 1000),
            ("top_k", "1 000", 1000),
            ("top_k", "12.6", 13),
            ("top_k", "off", 0),
            ("top_k", "9999999", 1_000_000),
            ("top_k", "-3", 0),
            ("top_p", "0,35", 0.35),
            ("frequency_penalty", "−1.5", -1.5),
            ("min_p", "0.005", 0.005),
        ],
    )
    def test_a_box_takes_what_is_meant(self, panel, name, typed, value):
        panel.show_options(SamplingOptions(top_k=7))
        enter(panel.sliders[name].box, typed)
        assert panel.sliders[name].box.value() == pytest.approx(value)

    @pytest.mark.parametrize("typed", ["abc", "", "1,2,3", "nan", "1e999"])
    def test_nonsense_leaves_the_value(self, panel, heard, typed):
        panel.show_options(SamplingOptions(top_k=7))
        enter(panel.sliders["top_k"].box, typed)
        assert panel.sliders["top_k"].box.text() == "7"
        assert not heard.anything

    def test_escape_puts_back_what_was_there_and_is_left_to_others_otherwise(self, panel, heard):
        box = panel.temperature.box
        box.setFocus()

        def claimed() -> bool:
            escape = QKeyEvent(
                QEvent.Type.ShortcutOverride, Qt.Key.Key_Escape, Qt.KeyboardModifier.NoModifier
            )
            escape.ignore()
            QApplication.sendEvent(box, escape)
            return escape.isAccepted()

        assert not claimed()
        box.selectAll()
        QTest.keyClicks(box, "1.9")
        assert claimed()
        QTest.keyClick(box, Qt.Key.Key_Escape)
        assert box.text() == "0.70"
        assert not claimed()
        QTest.keyClick(box, Qt.Key.Key_Return)
        assert not heard.anything

    def test_the_wheel_scrolls_and_changes_nothing(self, panel, heard):
        for widget in (panel.temperature.slider, panel.temperature.box, panel.presets.box):
            wheel = QWheelEvent(
                QPointF(5, 5),
                widget.mapToGlobal(QPointF(5, 5)),
                QPoint(),
                QPoint(0, 120),
                Qt.MouseButton.NoButton,
                Qt.KeyboardModifier.NoModifier,
                Qt.ScrollPhase.NoScrollPhase,
                False,
            )
            QApplication.sendEvent(widget, wheel)
        assert not heard.anything


class TestPresets:
    def test_shows_the_one_that_holds_or_custom(self, panel):
        box = panel.presets.box
        for preset in BUILT_IN:
            panel.show_options(replace(preset.options, seed=3, stop_texts=("x",)))
            assert box.currentText() == preset.name
        panel.show_options(SamplingOptions(temperature=0.33))
        assert box.currentIndex() == -1
        assert box.placeholderText() == "Custom"

    def test_sets_the_samplers_and_nothing_else(self, panel, heard):
        panel.show_options(EVERYTHING)
        panel.presets.box.activated.emit(panel.presets.box.findText("Creative"))
        (changes,) = heard.changes
        assert set(changes) <= set(SAMPLERS)
        now = replace(EVERYTHING, **changes)
        for name in SAMPLERS:
            assert getattr(now, name) == getattr(BUILT_IN[2].options, name)
        assert panel.presets.box.currentText() == "Creative"
        panel.presets.box.activated.emit(panel.presets.box.findText("Creative"))
        assert len(heard.changes) == 1  # it holds already

    def test_saves_shows_and_deletes_ones_own(self, panel, heard):
        panel.show_options(EVERYTHING)
        panel.presets.save.trigger()
        enter(panel.presets.naming.field, "  My   own ")
        (own,) = heard.presets[-1]
        assert own.name == "My own"
        assert own.options == SamplingOptions(
            **{name: getattr(EVERYTHING, name) for name in SAMPLERS}
        )
        assert panel.presets.box.currentText() == "My own"
        assert panel.presets.naming.isHidden()
        panel.presets.delete.trigger()
        assert heard.presets[-1] == ()
        assert panel.presets.box.findText("My own") == -1
        assert panel.presets.box.currentIndex() == -1
        assert not heard.changes

    def test_a_name_that_is_ones_own_is_replaced_and_a_built_in_one_refused(self, panel, heard):
        panel.show_presets((Preset("Mine", SamplingOptions(temperature=0.1)),))
        panel.show_options(EVERYTHING)
        panel.presets.save.trigger()
        enter(panel.presets.naming.field, "greedy")
        assert "taken" in panel.presets.naming.trouble.text()
        assert not heard.presets
        enter(panel.presets.naming.field, "MINE")
        assert [(p.name, p.options.temperature) for p in heard.presets[-1]] == [("MINE", 1.25)]

    def test_escape_leaves_the_naming(self, panel, heard):
        panel.presets.save.trigger()
        QTest.keyClicks(panel.presets.naming.field, "x")
        QTest.keyClick(panel.presets.naming.field, Qt.Key.Key_Escape)
        assert panel.presets.naming.isHidden()
        assert not heard.anything

    def test_only_ones_own_can_be_deleted(self, panel):
        mine = Preset("Mine", SamplingOptions(temperature=0.1))
        panel.show_presets((mine,))
        panel.show_options(BUILT_IN[0].options)
        assert not panel.presets.delete.isEnabled()
        panel.show_options(mine.options)
        assert panel.presets.delete.isEnabled()

    def test_of_two_that_are_alike_the_chosen_one_stays(self, panel):
        mine = Preset("Mine", BUILT_IN[0].options)
        panel.show_presets((mine,))
        panel.show_options(BUILT_IN[1].options)
        place = panel.presets.box.findText("Mine")
        panel.presets.box.setCurrentIndex(place)
        panel.presets.box.activated.emit(place)
        assert panel.presets.box.currentText() == "Mine"

    def test_for_new_chats_and_back_to_the_usual(self, panel, heard):
        panel.set_usual(SamplingOptions(temperature=0.5))
        panel.show_options(EVERYTHING)
        panel.presets.use_for_new.trigger()
        assert heard.defaults == 1
        panel.presets.reset.trigger()
        assert replace(EVERYTHING, **heard.changes[-1]) == SamplingOptions(temperature=0.5)
        assert panel.stop_texts.field.toPlainText() == ""


class TestMore:
    def test_opens_and_closes_by_key(self, side):
        button = side.sampling.more.button
        button.setFocus()
        QTest.keyClick(button, Qt.Key.Key_Space)
        assert side.sampling.stop_texts.isVisible()
        assert "Opened" in button.accessibleDescription()
        QTest.keyClick(button, Qt.Key.Key_Space)
        assert not side.sampling.stop_texts.isVisible()

    def test_check_boxes(self, panel, heard):
        panel.temperature_last.click()
        panel.end_loops.click()
        assert heard.changes == [{"temperature_last": True}, {"end_loops": False}]
        assert "then temperature" in panel.order.text()

    def test_a_limit_of_length_is_switched_and_kept(self, panel, heard):
        panel.length.check.click()
        enter(panel.length.option.box, "5000")
        panel.length.check.click()
        panel.length.check.click()
        assert [c["max_new_tokens"] for c in heard.changes] == [512, 5000, None, 5000]
        assert panel.length.option.slider.value() == 2048

    def test_a_seed_is_typed_whole_and_what_is_none_is_told(self, panel, heard):
        panel.seed.same.click()
        assert heard.changes == [{"seed": 0}]
        enter(panel.seed.field, str(GREATEST))
        assert heard.changes[-1] == {"seed": GREATEST}
        count = len(heard.changes)
        for typed in (str(GREATEST + 1), "-1", "1.5e3", "x"):
            panel.seed.field.selectAll()
            QTest.keyClicks(panel.seed.field, typed)
            assert "whole number" in panel.seed.trouble.text()
        panel.temperature.slider.setFocus()
        assert panel.seed.field.text() == str(heard.changes[-1]["seed"])
        assert panel.seed.trouble.isHidden()
        assert all(0 <= change["seed"] <= GREATEST for change in heard.changes[count:])

    def test_escape_in_the_seed_puts_back_what_was_there(self, panel, heard):
        panel.show_options(SamplingOptions(seed=41))
        panel.seed.field.setFocus()
        panel.seed.field.selectAll()
        QTest.keyClicks(panel.seed.field, "99")
        QTest.keyClick(panel.seed.field, Qt.Key.Key_Escape)
        assert panel.seed.field.text() == "41"
        assert heard.changes[-1] == {"seed": 41}

    def test_the_last_seed_can_be_kept(self, panel, heard):
        assert panel.seed.fix.isHidden()
        panel.show_last_seed(1234)
        assert "1234" in panel.seed.last.text()
        panel.seed.fix.click()
        assert heard.changes == [{"seed": 1234}]
        assert panel.seed.same.isChecked()
        panel.seed.new.click()
        assert heard.changes[-1] == {"seed": None}

    def test_stop_texts_are_taken_while_they_are_typed(self, panel, heard):
        panel.stop_texts.field.setPlainText("User:\n\n\\n\\n\n###\nUser:")
        assert heard.changes[-1] == {"stop_texts": ("User:", "\n\n", "###")}

    @pytest.mark.parametrize(
        ("typed", "why"),
        [("\n".join(f"s{n}" for n in range(17)), "more than 16"), ("x" * 201, "longer than 200")],
    )
    def test_bad_stop_texts_keep_the_last_and_say_why(self, panel, heard, typed, why):
        field = panel.stop_texts.field
        field.setPlainText("User:")
        field.setPlainText(typed)
        assert why in panel.stop_texts.trouble.text()
        assert panel.stop_texts.trouble.isVisible()
        assert heard.changes == [{"stop_texts": ("User:",)}]
        panel.temperature.slider.setValue(3)
        assert field.toPlainText() == typed
        field.setPlainText("y")
        assert panel.stop_texts.trouble.isHidden()
        assert heard.changes[-1] == {"stop_texts": ("y",)}


@given(
    st.lists(
        # Not of all characters: Qt warns of scripts for which this computer has no font.
        st.text(
            "a\\nst u0 é漢👋\n\t\r\0\x1b\u00a0\u2028\u2029\u200b\ufdd0", min_size=1, max_size=20
        ),
        unique=True,
    ).map(tuple)
)
def test_stop_texts_survive_being_shown(texts):
    shown = "\n".join(map(escaped, texts))
    assert shown.count("\n") == max(0, len(texts) - 1)
    field = reply_end.StopTexts()
    field.show_value(texts)
    assert stop_texts(field.field.toPlainText()) == texts


class TestSystemPrompt:
    def test_three_choices_and_the_own_text_is_kept(self, panel, heard):
        prompt = panel.system_prompt
        prompt.buttons["own"].click()
        QTest.keyClicks(prompt.field, "Hi")
        prompt.buttons["empty"].click()
        prompt.buttons["built-in"].click()
        assert prompt.field.isHidden()
        prompt.buttons["own"].click()
        assert prompt.field.toPlainText() == "Hi"
        assert heard.prompts == ["", "H", "Hi", "", None, "Hi"]

    def test_an_echo_of_what_is_being_typed_changes_nothing(self, panel, heard):
        prompt = panel.system_prompt
        panel.system_prompt_changed.connect(panel.show_system_prompt)
        prompt.buttons["own"].click()
        assert prompt.field.isVisible()
        QTest.keyClicks(prompt.field, "a")
        QTest.keyClick(prompt.field, Qt.Key.Key_Backspace)
        assert prompt.field.isVisible()
        assert heard.prompts == ["", "a", ""]

    @pytest.mark.parametrize(
        ("value", "button"), [(None, "built-in"), ("", "empty"), ("Be kind.", "own")]
    )
    def test_shows_each_kind(self, panel, heard, value, button):
        panel.show_system_prompt("something else")
        panel.show_system_prompt(value)
        assert panel.system_prompt.buttons[button].isChecked()
        assert panel.system_prompt.value() == value
        assert not heard.anything

    def test_a_text_that_is_too_long_is_refused_in_words(self, panel, heard):
        panel.show_system_prompt("x")
        data = QMimeData()
        data.setText("y" * system_prompt.MAX_CHARACTERS)
        panel.system_prompt.field.insertFromMimeData(data)
        assert panel.system_prompt.field.toPlainText() == "x"
        assert "100,000" in panel.system_prompt.trouble.text()
        assert not heard.anything

    def test_half_characters_leave_as_whole_ones(self, panel, heard):
        panel.system_prompt.buttons["own"].click()
        panel.system_prompt.field.insertPlainText("a\ud800b")
        heard.prompts[-1].encode()


class TestScope:
    def test_asks_for_the_prompt_when_it_is_seen_and_on_refresh(self, side):
        asked = []
        side.scope.prompt_wanted.connect(lambda: asked.append(1))
        side.tabs.setCurrentIndex(1)
        assert len(asked) == 1
        side.scope.refresh.click()
        assert len(asked) == 2
        side.tabs.setCurrentIndex(0)
        assert len(asked) == 2

    def test_shows_the_prompt_word_for_word(self, side):
        text = "<|im_start|>user\n<b>5 < 6</b> &amp; مرحبا<|im_end|>\n"
        side.tabs.setCurrentIndex(1)
        side.scope.show_prompt([(text, False)], 1234)
        assert side.scope.text.toPlainText() == text
        assert side.scope.text.isReadOnly()
        assert side.scope.count.text() == "1,234 tokens"
        side.scope.show_no_prompt()
        assert side.scope.text.toPlainText() == ""
        assert side.scope.none.isVisible()

    def test_only_real_control_tokens_stand_out(self, side):
        side.recolour(LIGHT)
        side.tabs.setCurrentIndex(1)
        parts = [("<|im_start|>", True), ("user\n👋 say <|im_end|>", False), ("<|im_end|>", True)]
        side.scope.show_prompt(parts, 9)
        marked = []
        block = side.scope.text.document().begin()
        while block.isValid():
            for span in block.layout().formats():
                marked.append(block.text()[span.start : span.start + span.length])
            block = block.next()
        assert marked[0] == "<|im_start|>"
        assert len(marked) == 2
        text = side.scope.text.toPlainText()
        assert text.endswith("say <|im_end|><|im_end|>")

    @pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 300_000, "\u202e"])
    def test_strange_prompts_are_shown(self, side, text):
        side.tabs.setCurrentIndex(1)
        side.scope.show_prompt([(text, False)], 1)
        shown = side.scope.text.toPlainText()
        assert len(shown) == len(text)
        assert "\0" not in shown
        assert side.scope.count.text() == "1 token"

    def test_says_what_the_model_is_and_why_it_runs_there(self, side):
        lines = side.scope.model.lines
        assert lines[0].text() == "No model is loaded yet."
        side.scope.show_model(ModelInfo("<b>M</b>", "cpu", "CPU", "no GPU was found", "bf16", 4))
        assert lines[0].text() == "<b>M</b>"
        assert lines[0].textFormat() == Qt.TextFormat.PlainText
        assert lines[1].text() == "CPU: no GPU was found"
        assert "16-bit" in lines[2].text()
        assert lines[3].text() == "Threads: 4"


class TestWhole:
    def test_arrows_change_the_tab(self, side):
        side.tabs.setFocus()
        QTest.keyClick(side.tabs, Qt.Key.Key_Right)
        assert side.scope.isVisible()
        QTest.keyClick(side.tabs, Qt.Key.Key_Left)
        assert side.sampling.isVisible()

    def test_tab_reaches_every_control_of_the_page(self, side):
        side.sampling.more.button.setChecked(True)
        side.tabs.setFocus()
        reached = set()
        for _ in range(80):
            reached.add(QApplication.focusWidget())
            side.focusNextChild()
        kinds = (QSlider, QComboBox, QPlainTextEdit)
        wanted = [w for kind in kinds for w in side.sampling.findChildren(kind) if w.isVisible()]
        assert len(wanted) > 8
        assert not [w.accessibleName() for w in wanted if w not in reached]
        assert side.sampling.more.button in reached
        assert side.tabs in reached

    def test_every_control_has_a_name(self, side):
        kinds = (QSlider, QComboBox, QPlainTextEdit, QLineEdit, QTabBar)
        for kind in kinds:
            for widget in side.findChildren(kind):
                inner = widget.objectName() == "qt_spinbox_lineedit"
                assert widget.accessibleName() or inner, widget
        for button in side.findChildren(QAbstractButton):
            inner = isinstance(button.parent(), QTabBar)
            assert inner or button.accessibleName() or button.text(), button

    @pytest.mark.parametrize("zoom", [100, 200, 300])
    def test_nothing_is_wider_than_the_panel_however_long_a_name_is(self, qt_app, zoom):
        appearance, side = Appearance(qt_app), SidePanel()
        try:
            appearance.choose("light")
            appearance.set_zoom(zoom)
            side.sampling.more.button.setChecked(True)
            side.sampling.show_presets((Preset("W" * 60, EVERYTHING),))
            side.sampling.show_options(EVERYTHING)
            side.sampling.show_last_seed(GREATEST)
            side.resize(side.sizeHint())
            side.show()
            pause(30)
            assert (side.width() > PANEL_WIDTH) == (zoom > 100)
            assert side.sampling.widget().width() <= side.sampling.viewport().width()
            assert side.sampling.bars.heading.font().pointSizeF() == qt_app.font().pointSizeF()
        finally:
            appearance.set_zoom(100)
            side.close()
            side.deleteLater()
