"""Settings: what was chosen is found again, and no file can do harm."""

import json
import os
import sys
from dataclasses import fields, replace

import pytest
from fake_engine import FakeEngine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.settings import Settings, SettingsFile, read_geometry, write_geometry
from app.ui.presets import USUAL, Preset
from app.ui.theme import DARK
from engine.options import OPTION_NAMES, SamplingOptions

ALL_CHANGED = SamplingOptions(
    temperature=1.25,
    top_p=0.5,
    top_k=40,
    min_p=0.05,
    repetition_penalty=1.3,
    repetition_window=128,
    frequency_penalty=0.5,
    presence_penalty=-0.5,
    temperature_last=True,
    max_new_tokens=200,
    stop_texts=("END", "\n\n", "\ud800"),
    seed=2**63 - 1,
    end_loops=False,
)
CHOSEN = Settings(
    device="cpu",
    precision="fp32",
    theme="dark",
    zoom=150,
    options=ALL_CHANGED,
    system_prompt="Be brief. 👋",
    presets=(Preset("Mine", ALL_CHANGED), Preset("Usual", SamplingOptions())),
    quiet=True,
    suggest_titles=True,
    sidebar_shown=False,
    panel_shown=False,
)


def written(folder) -> dict:
    return json.loads((folder / "settings.json").read_text())


def read(folder, content):
    (folder / "settings.json").write_text(json.dumps(content))
    return SettingsFile(folder).read()


def test_what_was_chosen_is_found_again(tmp_path):
    usual = USUAL
    assert all(getattr(ALL_CHANGED, name) != getattr(usual, name) for name in OPTION_NAMES)
    for chosen in (CHOSEN, Settings(), Settings(system_prompt="")):
        assert SettingsFile(tmp_path / "new" / "folder").write(chosen) is None
        assert SettingsFile(tmp_path / "new" / "folder").read() == (chosen, None)
    assert os.listdir(tmp_path / "new" / "folder") == ["settings.json"]


def test_of_options_only_those_are_kept_that_differ_from_the_usual_ones(tmp_path):
    mine = Preset("Mine", SamplingOptions(min_p=0.1))
    SettingsFile(tmp_path).write(Settings(options=replace(USUAL, top_k=5), presets=(mine,)))
    assert written(tmp_path)["options"] == {"top_k": 5}
    assert written(tmp_path)["presets"] == [{"name": "Mine", "options": {"min_p": 0.1}}]


def test_former_settings_become_options_and_are_then_no_longer_kept(tmp_path):
    settings, problem = read(tmp_path, {"temperature": 1.5, "top_p": 0.4, "theme": "dark"})
    assert settings == Settings(theme="dark", options=replace(USUAL, temperature=1.5, top_p=0.4))
    assert problem is None
    file = SettingsFile(tmp_path)
    file.write(file.read()[0])
    assert "temperature" not in written(tmp_path)
    assert written(tmp_path)["options"] == {"temperature": 1.5, "top_p": 0.4}
    both = {"temperature": 1.5, "options": {"temperature": 0.2}}
    assert read(tmp_path, both)[0].options.temperature == 0.2  # the newer place counts


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"options": {"temperature": 9, "top_k": 5}}, "temperature"),
        ({"options": {"stop_texts": "END", "top_k": 5}}, "stop-texts"),
        ({"options": {"stop_texts": [1], "top_k": 5}}, "stop-texts"),
        ({"options": {"seed": -1, "max_new_tokens": 0, "top_k": 5}}, "max-new-tokens, seed"),
        ({"options": {"top_k": 5}, "temperature": "warm"}, "temperature"),
    ],
)
def test_one_wrong_option_leaves_the_others_as_they_were(tmp_path, content, named):
    settings, problem = read(tmp_path, content)
    assert settings == Settings(options=replace(USUAL, top_k=5))
    assert problem.what.endswith(f"used: {named}.")


def test_a_wrong_preset_leaves_the_others_as_they_were(tmp_path):
    good = {"name": "Mine", "options": {"top_k": 5}}
    wrong = ({"name": ""}, {"name": 3}, 7, None, {"options": {}}, {"name": "x" * 1000})
    settings, problem = read(tmp_path, {"presets": [*wrong, good]})
    assert settings == Settings(presets=(Preset("Mine", SamplingOptions(top_k=5)),))
    assert problem.what.endswith("presets.")
    settings, problem = read(tmp_path, {"presets": [good] * 101})
    assert len(settings.presets) == 100
    assert problem is not None


def test_the_longest_system_prompt_is_kept_and_a_longer_one_is_not(tmp_path):
    assert read(tmp_path, {"system_prompt": "x" * 100_000})[1] is None
    settings, problem = read(tmp_path, {"system_prompt": "x" * 100_001})
    assert settings == Settings()
    assert "system-prompt" in problem.what


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


@pytest.mark.parametrize("quiet", [False, True])
def test_a_quiet_engine_is_asked_for_where_the_setting_says_so(
    open_window, wait_until, tmp_path, quiet
):
    SettingsFile(tmp_path / "config").write(Settings(quiet=quiet))
    engine = FakeEngine()
    open_window(engine, config=tmp_path / "config")
    wait_until(lambda: engine.loads == 1, "the model to be asked for")
    assert engine.quiet == quiet


def test_without_a_file_the_defaults_hold_and_nothing_is_written(tmp_path):
    assert SettingsFile(tmp_path).read() == (Settings(), None)
    assert os.listdir(tmp_path) == []


def test_what_a_newer_version_wrote_is_kept(tmp_path):
    content = {
        "theme": "dark",
        "sound": [1, {"a": "\ud800"}],
        "options": {"top_k": 5, "mirostat": {"tau": 5}},
        "presets": [{"name": "Mine", "icon": "star", "options": {"min_p": 0.1, "xtc": True}}],
    }
    (tmp_path / "settings.json").write_text(json.dumps(content))
    file = SettingsFile(tmp_path)
    settings, problem = file.read()
    assert settings.theme == "dark"
    assert problem is None
    file.write(settings)
    assert {name: written(tmp_path)[name] for name in content} == content


@pytest.mark.parametrize(
    "text",
    [
        *('{"theme": 3}', '{"theme": ["dark"]}', '{"theme": "purple"}', '{"theme": null}'),
        *('{"theme": {}}', '{"device": "gpu"}', '{"precision": true}'),
        *('{"zoom": 49}', '{"zoom": 301}', '{"zoom": true}', '{"zoom": 100.0}', '{"zoom": "100"}'),
        *('{"options": []}', '{"options": null}', '{"presets": {}}', '{"presets": null}'),
        *('{"system_prompt": 3}', '{"sidebar_shown": 1}', '{"panel_shown": null}'),
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


FIELDS = [field.name for field in fields(Settings)]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    content=st.dictionaries(
        st.sampled_from([*FIELDS, "temperature", "top_p", "other"]),
        _JSON
        | st.dictionaries(st.sampled_from([*OPTION_NAMES, "other"]), _JSON)
        | st.lists(st.fixed_dictionaries({"name": st.text() | _JSON, "options": _JSON})),
    )
)
def test_whatever_a_file_holds_the_settings_are_valid(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("settings")
    (folder / "settings.json").write_text(json.dumps(content))
    found, _ = SettingsFile(folder).read()
    assert SettingsFile(folder).write(found) is None
    again, problem = SettingsFile(folder).read()
    assert again == found
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
    open_window, tmp_path, kind
):
    unusable(kind, tmp_path / "config")
    smoldesk = open_window(FakeEngine(), config=tmp_path / "config")
    notice = smoldesk.window.notice
    said = [notice.words.text()] if notice.isVisible() else []
    notice.show_next()
    smoldesk.preferences.change(zoom=110)
    smoldesk.preferences.save()
    said.append(notice.words.text())
    assert "cannot be saved" in said[-1]
    assert str(tmp_path / "config") in said[-1]
    notice.show_next()
    smoldesk.preferences.change(zoom=125)
    smoldesk.preferences.save()
    assert notice.isHidden()


def test_what_was_changed_is_found_again_by_the_next_start(open_window, tmp_path):
    first = open_window(config=tmp_path / "one")
    first.preferences.change(zoom=125, options=SamplingOptions(top_k=5))
    first.end()  # not yet saved by itself: quitting does
    second = open_window(config=tmp_path / "one")
    assert second.preferences.settings.zoom == 125
    assert second.preferences.settings.options.top_k == 5


def test_the_command_line_overrules_the_settings_but_does_not_change_them(open_window, tmp_path):
    SettingsFile(tmp_path / "one").write(Settings(theme="light"))
    smoldesk = open_window(config=tmp_path / "one", theme="dark")
    assert smoldesk.appearance.colours is DARK
    smoldesk.preferences.change(panel_shown=False)
    smoldesk.preferences.save()
    settings, _ = SettingsFile(tmp_path / "one").read()
    assert settings == Settings(theme="light", panel_shown=False)


@pytest.mark.parametrize("content", [b"", b"junk", b"\0" * 10_000])
def test_a_damaged_place_of_the_window_does_no_harm(open_window, tmp_path, content):
    write_geometry(tmp_path / "one", content)
    assert read_geometry(tmp_path / "one") == content[:4096]
    window = open_window(config=tmp_path / "one").window
    assert window.isVisible()
    assert window.width() >= window.minimumWidth()
