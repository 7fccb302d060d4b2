"""Settings: what was chosen is found again, and no file can do harm."""

import json
import os
import sys

import pytest
from fake_engine import FakeEngine
from hypothesis import given
from hypothesis import strategies as st

from app.settings import Settings, SettingsFile, read_geometry, write_geometry


def test_what_was_chosen_is_found_again(tmp_path):
    chosen = Settings("cpu", "fp32", "dark", 1.25, 0.5)
    assert SettingsFile(tmp_path / "new" / "folder").write(chosen) is None
    assert SettingsFile(tmp_path / "new" / "folder").read() == (chosen, None)
    assert os.listdir(tmp_path / "new" / "folder") == ["settings.json"]


def test_a_flag_goes_before_the_environment_and_that_before_a_setting(
    open_window, wait_until, tmp_path, monkeypatch
):
    config = tmp_path / "config"
    SettingsFile(config).write(Settings(device="mps", precision="fp16"))

    def chosen(**start):
        engine = FakeEngine()
        open_window(engine, config=config, **start)
        wait_until(lambda: engine.loads == 1, "the model to be asked for")
        return engine.chosen

    monkeypatch.delenv("SMOLDESK_DEVICE", raising=False)
    monkeypatch.delenv("SMOLDESK_PRECISION", raising=False)
    assert chosen() == ("mps", "fp16")
    monkeypatch.setenv("SMOLDESK_DEVICE", "cuda")
    monkeypatch.setenv("SMOLDESK_PRECISION", "bf16")
    assert chosen() == ("cuda", "bf16")
    assert chosen(device="auto", precision="fp32") == ("auto", "fp32")


def test_without_a_file_the_defaults_hold_and_nothing_is_written(tmp_path):
    assert SettingsFile(tmp_path).read() == (Settings(), None)
    assert os.listdir(tmp_path) == []


def test_what_a_newer_version_wrote_is_kept(tmp_path):
    (tmp_path / "settings.json").write_text('{"theme": "dark", "zoom": [1, {"a": "\\ud800"}]}')
    file = SettingsFile(tmp_path)
    settings, problem = file.read()
    assert settings.theme == "dark"
    assert problem is None
    file.write(settings)
    assert json.loads((tmp_path / "settings.json").read_text())["zoom"] == [1, {"a": "\ud800"}]


@pytest.mark.parametrize(
    "text",
    [
        *('{"theme": 3}', '{"theme": ["dark"]}', '{"theme": "purple"}', '{"theme": null}'),
        *('{"theme": {}}', '{"device": "gpu"}', '{"precision": true}'),
        *('{"temperature": -0.1}', '{"temperature": 2.1}', '{"temperature": NaN}'),
        *('{"temperature": Infinity}', '{"temperature": true}', '{"temperature": "1"}'),
        *(f'{{"temperature": 1{"0" * 400}}}', '{"top_p": -1}', '{"top_p": 1e999}'),
    ],
)
def test_a_value_that_cannot_be_gives_way_to_its_default(tmp_path, text):
    (tmp_path / "settings.json").write_text(text)
    settings, problem = SettingsFile(tmp_path).read()
    assert settings == Settings()
    (name,) = json.loads(text)
    assert name.replace("_", "-") in problem.what


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[1]", b"null", b"\xff\xfe", b'{"theme": "dark"', b"\0" * 50),
        *(b"[" * 100_000, b'{"temperature": ' + b"1" * 5000 + b"}"),
    ],
)
def test_a_damaged_file_is_set_aside_and_nothing_in_it_is_lost(tmp_path, content):
    for number in (1, 2):
        (tmp_path / "settings.json").write_bytes(content)
        settings, problem = SettingsFile(tmp_path).read()
        assert settings == Settings()
        assert "damaged" in problem.what
        aside = tmp_path / f"settings.damaged-{number}.json"
        assert aside.read_bytes() == content
        assert str(aside) in problem.remedy
        assert not (tmp_path / "settings.json").exists()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    content=st.dictionaries(
        st.sampled_from(["theme", "device", "precision", "temperature", "top_p", "other"]), _JSON
    )
)
def test_whatever_a_file_holds_the_settings_are_valid(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("settings")
    (folder / "settings.json").write_text(json.dumps(content))
    settings, _ = SettingsFile(folder).read()
    assert SettingsFile(folder).write(settings) is None
    again, problem = SettingsFile(folder).read()
    assert again == settings
    assert problem is None


def unusable(kind: str, folder) -> None:
    """A place where a folder should be, but which cannot be used as one, even by root."""
    if kind == "a file is in its place":
        folder.write_text("not a folder")
    else:
        folder.symlink_to(folder.parent / "nowhere" / "x" / "..")


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("kind", ["a file is in its place", "a link into the void"])
def test_a_folder_that_cannot_be_used_is_said_once_and_the_program_goes_on(
    open_window, wait_until, tmp_path, kind
):
    unusable(kind, tmp_path / "config")
    smoldesk = open_window(FakeEngine(), config=tmp_path / "config")
    notice = smoldesk.window.notice
    said = [notice.words.text()] if notice.isVisible() else []
    notice.show_next()
    smoldesk.window.panel.temperature.slider.setValue(30)
    smoldesk.save_settings()
    said.append(notice.words.text())
    assert "cannot be saved" in said[-1]
    assert str(tmp_path / "config") in said[-1]
    notice.show_next()
    smoldesk.window.panel.temperature.slider.setValue(40)
    smoldesk.save_settings()
    assert notice.isHidden()
    smoldesk.chat.submit("on?")
    wait_until(lambda: smoldesk.chat.turns[0].finished)


def test_sliders_are_found_again_by_the_next_start(open_window, tmp_path):
    first = open_window(config=tmp_path / "one")
    first.window.panel.temperature.slider.setValue(120)
    first.window.panel.top_p.slider.setValue(55)
    first.end()  # not yet saved by itself: quitting does
    second = open_window(config=tmp_path / "one")
    assert second.window.panel.temperature.box.value() == 1.2
    assert second.window.panel.top_p.slider.value() == 55
    assert second.chat.options.current.temperature == 1.2


def test_the_command_line_overrules_the_settings_but_does_not_change_them(open_window, tmp_path):
    SettingsFile(tmp_path / "one").write(Settings(theme="light"))
    smoldesk = open_window(config=tmp_path / "one", theme="dark")
    assert smoldesk.window.panel.theme.buttons["dark"].isChecked()
    smoldesk.window.panel.top_p.slider.setValue(10)
    smoldesk.save_settings()
    settings, _ = SettingsFile(tmp_path / "one").read()
    assert settings == Settings(theme="light", top_p=0.1)


@pytest.mark.parametrize("content", [b"", b"junk", b"\0" * 10_000])
def test_a_damaged_place_of_the_window_does_no_harm(open_window, tmp_path, content):
    write_geometry(tmp_path / "one", content)
    assert read_geometry(tmp_path / "one") == content[:4096]
    window = open_window(config=tmp_path / "one").window
    assert window.isVisible()
    assert window.width() >= window.minimumWidth()
