"""Settings, keys and about: they show what holds, announce what is chosen, and Esc closes them."""

from dataclasses import replace

import pytest
from event_loop import pause
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QDesktopServices, QGuiApplication, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QPlainTextEdit, QWidget

from app.settings import Settings
from app.ui.controls.system_prompt import SystemPrompt
from app.ui.dialogs.about_dialog import AboutDialog
from app.ui.dialogs.keys_dialog import KeysDialog
from app.ui.dialogs.settings_dialog import Place, SettingsDialog, options_in_words
from app.ui.icons import icon
from app.ui.keys import BY_NAME, KEYS, with_key
from app.ui.states import ModelInfo
from app.ui.theme import DARK, LIGHT, ZOOMS, Appearance, scaled_font, zoom_beside
from engine.options import SamplingOptions

INFO = ModelInfo("SmolLM2-135M-Instruct", "cpu", "CPU", "no GPU found", "bf16", 2)
SIGNALS = (
    "theme_chosen",
    "zoom_chosen",
    "device_chosen",
    "precision_chosen",
    "quiet_chosen",
    "titles_chosen",
    "system_prompt_changed",
    "usual_options_requested",
)


@pytest.fixture
def open_dialog(qt_app):
    """Shows a dialog and closes it in the end."""
    opened = []

    def show(dialog):
        opened.append(dialog)
        dialog.show()
        dialog.activateWindow()
        pause(10)
        return dialog

    yield show
    for dialog in opened:
        dialog.close()
        dialog.deleteLater()


@pytest.fixture
def settings_dialog(open_dialog, tmp_path):
    """Opens the settings; the dialog notes what it announces."""

    def show(settings=None, model=INFO, path=None):
        places = (Place("Chats", str(path or tmp_path)), Place("Log", str(tmp_path / "no" / "x")))
        dialog = SettingsDialog(settings or Settings(), model, places)
        dialog.recolour(LIGHT)
        dialog.said = []
        for name in SIGNALS:
            signal = getattr(dialog, name)
            signal.connect(lambda *values, name=name: dialog.said.append((name, *values)))
        return open_dialog(dialog)

    return show


@pytest.fixture
def appearance(qt_app):
    """The look of the program, which is put back in the end."""
    look = Appearance(qt_app)
    look.choose("light")
    yield look
    look.set_zoom(100)
    qt_app.setStyleSheet("")
    look.deleteLater()


def click(button) -> None:
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def checked(choice) -> list[str]:
    return [name for name, button in choice.buttons.items() if button.isChecked()]


def test_the_settings_show_what_holds_and_announce_nothing(settings_dialog):
    options = SamplingOptions(temperature=1.25, top_k=40, repetition_penalty=1.1)
    values = Settings("cpu", "bf16", "dark", 150, options, "Be brief.")
    dialog = settings_dialog(values)
    assert checked(dialog.theme) == ["dark"]
    assert checked(dialog.device) == ["cpu"]
    assert checked(dialog.precision) == ["bf16"]
    assert dialog.zoom.value.text() == "150 %"
    assert dialog.prompt.value() == "Be brief."
    words = "Temperature 1.25 · top-p 0.9 · top-k 40 · repetition penalty 1.1"
    assert dialog.options.text() == words
    assert dialog.in_use.text().splitlines()[1] == "CPU: no GPU found"
    dialog.show_settings(Settings())
    assert checked(dialog.device) == ["auto"]
    assert dialog.prompt.value() is None
    assert not dialog.usual.isEnabled()
    dialog.show_settings(Settings(quiet=True))
    assert checked(dialog.effort) == ["quiet"]
    assert dialog.said == []


def test_what_is_chosen_is_announced_at_once(settings_dialog):
    dialog = settings_dialog(Settings(options=SamplingOptions(top_k=3)))
    click(dialog.theme.buttons["dark"])
    click(dialog.device.buttons["cuda"])
    click(dialog.precision.buttons["fp32"])
    click(dialog.effort.buttons["quiet"])
    click(dialog.effort.buttons["full"])
    click(dialog.zoom.larger)
    click(dialog.zoom.larger)
    click(dialog.zoom.smaller)
    click(dialog.zoom.value)
    click(dialog.usual)
    click(dialog.prompt.buttons["empty"])
    click(dialog.prompt.buttons["built-in"])
    assert dialog.said == [
        ("theme_chosen", "dark"),
        ("device_chosen", "cuda"),
        ("precision_chosen", "fp32"),
        ("quiet_chosen", True),
        ("quiet_chosen", False),
        ("zoom_chosen", 110),
        ("zoom_chosen", 125),
        ("zoom_chosen", 110),
        ("zoom_chosen", 100),
        ("usual_options_requested",),
        ("system_prompt_changed", ""),
        ("system_prompt_changed", None),
    ]


def test_arrows_choose_among_buttons(settings_dialog):
    dialog = settings_dialog()
    first = dialog.theme.buttons["system"]
    first.setFocus()
    QTest.keyClick(first, Qt.Key.Key_Right)
    assert checked(dialog.theme) == ["light"]
    assert dialog.said == [("theme_chosen", "light")]


@pytest.mark.parametrize("zoom", [50, 73, 100, 300])
def test_the_size_of_text_goes_from_step_to_step_within_its_limits(settings_dialog, zoom):
    assert zoom_beside(zoom, 1) in ZOOMS
    assert zoom_beside(zoom, -1) in ZOOMS
    assert zoom_beside(zoom, -1) <= zoom <= zoom_beside(zoom, 1)
    dialog = settings_dialog(Settings(zoom=zoom))
    assert dialog.zoom.smaller.isEnabled() is (zoom > 50)
    assert dialog.zoom.larger.isEnabled() is (zoom < 300)


def test_a_folder_is_opened_only_if_it_is_one_of_this_computer(
    settings_dialog, tmp_path, monkeypatch
):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url) or True)
    (tmp_path / "chats.db").write_text("")
    dialog = settings_dialog(path=tmp_path / "chats.db")
    chats, log = dialog.folders
    click(chats.open_button)  # a file: the folder that it is in
    click(log.open_button)  # neither it nor the folder above is there
    assert [url.toLocalFile() for url in opened] == [str(tmp_path)]
    assert opened[0].isLocalFile()
    click(log.copy_button)
    assert QGuiApplication.clipboard().text() == str(tmp_path / "no" / "x")


def test_a_path_like_an_address_is_never_opened(settings_dialog, monkeypatch):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url) or True)
    dialog = settings_dialog(path="https://example.org/x")
    click(dialog.folders[0].open_button)
    assert opened == []


def test_without_a_model_the_settings_say_so(settings_dialog):
    dialog = settings_dialog(model=None)
    assert dialog.in_use.text() == "No model is loaded."
    dialog.show_model(INFO)
    assert "bf16" in dialog.in_use.text()


def test_options_are_said_in_one_line():
    assert options_in_words(SamplingOptions()) == "Temperature 0.7 · top-p 0.9"
    odd = SamplingOptions(temperature=0.0, top_p=1.0, min_p=0.05, presence_penalty=-0.5)
    assert options_in_words(odd) == "Temperature 0 · top-p 1 · min-p 0.05 · presence penalty -0.5"


@pytest.mark.parametrize("name", ["settings", "keys", "about"])
def test_esc_and_close_close_a_dialog(open_dialog, settings_dialog, name):
    for way in ("Esc", "Close", "Enter"):
        dialog = {
            "settings": settings_dialog,
            "keys": lambda: open_dialog(KeysDialog()),
            "about": lambda: open_dialog(AboutDialog(INFO)),
        }[name]()
        assert not dialog.isModal()
        if way == "Close":
            click(dialog.close_button)
        else:
            key = Qt.Key.Key_Escape if way == "Esc" else Qt.Key.Key_Return
            QTest.keyClick(dialog, key)
        assert dialog.isHidden(), way


@pytest.mark.parametrize("name", ["settings", "keys", "about"])
def test_all_that_is_shown_is_plain_text_and_every_button_has_a_name(
    open_dialog, settings_dialog, name
):
    dialog = {
        "settings": settings_dialog,
        "keys": lambda: open_dialog(KeysDialog()),
        "about": lambda: open_dialog(AboutDialog(INFO)),
    }[name]()
    for button in dialog.findChildren(QAbstractButton):
        assert (button.accessibleName() or button.text()).strip(), button
    for label in dialog.findChildren(QLabel):
        if label.text() and not isinstance(label.parent(), SystemPrompt):
            assert label.textFormat() is Qt.TextFormat.PlainText, label.text()


def test_no_two_keys_are_the_same_and_all_can_be_pressed():
    shortcuts = [key for key in KEYS if not key.listed_only]
    sequences = [QKeySequence(key.sequence).toString() for key in shortcuts]
    assert len(set(sequences)) == len(sequences)
    assert all(sequences)
    assert len(BY_NAME) == len(KEYS)
    sections = [key.section for key in KEYS]
    assert sections == sorted(sections, key=sections.index)  # each in one piece
    assert with_key("New chat", "new_chat") == "New chat (Ctrl+N)"


def test_the_dialog_of_keys_lists_every_key_of_the_table(open_dialog):
    dialog = open_dialog(KeysDialog())
    labels = [label.text() for label in dialog.findChildren(QLabel)]
    rows = [widget.accessibleName() for widget in dialog.findChildren(QWidget)]
    for key in KEYS:
        assert key.text in labels
        assert f"{key.text}: {key.native}" in rows
    assert replace(KEYS[0], sequence="Ctrl++").caps == ("Ctrl", "+")
    assert replace(KEYS[0], sequence="Ctrl+Shift+C").caps == ("Ctrl", "Shift", "C")
    assert BY_NAME["send"].caps == ("Enter",)


def test_about_gives_versions_to_copy_and_nothing_of_a_chat(open_dialog):
    dialog = open_dialog(AboutDialog(INFO))
    click(dialog.copy_button)
    copied = QGuiApplication.clipboard().text()
    for word in ("Smoldesk", "Python", "Qt", "PyTorch", "CPU", "bf16"):
        assert word in copied
    shown = " ".join(label.text() for label in dialog.findChildren(QLabel))
    for licence in ("Apache License 2.0", "BSD-3-Clause", "LGPL-3.0"):
        assert licence in shown


def test_zoom_reaches_every_widget_with_and_without_a_font_of_its_own(appearance, open_dialog):
    said = []
    appearance.zoomed.connect(said.append)
    dialog = open_dialog(AboutDialog(INFO))
    plain = dialog.copy_button
    heading = next(x for x in dialog.findChildren(QLabel) if x.text() == "Smoldesk")
    usual, large = plain.font().pointSizeF(), heading.font().pointSizeF()
    field = QPlainTextEdit(dialog)
    field.setFont(scaled_font(field.font(), 1.5))
    field.show()
    for percent in (200, 50, 300, 125):
        appearance.set_zoom(percent)
        pause(10)
        assert plain.font().pointSizeF() == pytest.approx(usual * percent / 100)
        assert heading.font().pointSizeF() == pytest.approx(large * percent / 100)
        inside = field.viewport().font().pointSizeF()  # in which the placeholder is drawn
        assert inside == pytest.approx(1.5 * usual * percent / 100)
        appearance.choose("dark")  # a new style sheet does not bring the old fonts back
        pause(10)
        assert heading.font().pointSizeF() == pytest.approx(large * percent / 100)
        later = QLabel()
        assert later.font().pointSizeF() == pytest.approx(usual * percent / 100)
    appearance.set_zoom(10_000)
    assert appearance.zoom == 300
    appearance.set_zoom(100)
    assert QApplication.font().pointSizeF() == pytest.approx(usual)
    assert heading.font().pointSizeF() == pytest.approx(large)
    assert said == [2.0, 0.5, 3.0, 1.25, 3.0, 1.0]


def test_a_second_window_does_not_begin_with_the_zoom_of_the_first(appearance, qt_app):
    usual = qt_app.font().pointSizeF()
    appearance.set_zoom(200)
    again = Appearance(qt_app)
    again.set_zoom(100)
    assert qt_app.font().pointSizeF() == pytest.approx(usual)
    again.deleteLater()


@pytest.mark.parametrize("percent", [100, 300])
def test_nothing_in_a_dialog_is_wider_than_it_unless_the_screen_is_small(
    appearance, settings_dialog, percent
):
    dialog = settings_dialog()
    appearance.set_zoom(percent)
    pause(30)
    page = dialog.scroll.widget()
    room = dialog.screen().availableGeometry().width() * 0.9
    if page.minimumSizeHint().width() < room - 30:
        assert dialog.scroll.horizontalScrollBar().maximum() == 0
    assert dialog.width() <= room


def test_an_icon_is_sharp_at_twice_the_size():
    for size, scale in ((20, 1.0), (40, 1.0), (20, 2.0), (60, 2.0)):
        pixmap = icon("settings", DARK.text).pixmap(QSize(size, size), scale)
        assert pixmap.width() == round(size * scale)


def test_fonts_scale_in_whatever_unit_they_are_kept(qt_app):
    font = qt_app.font()
    font.setPixelSize(20)
    assert scaled_font(font, 1.5).pixelSize() == 30
    font.setPointSizeF(10)
    assert scaled_font(font, 1.5).pointSizeF() == 15
