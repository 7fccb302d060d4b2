"""Starting: what is imported, what is said when there is no screen, what the command line takes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.display import missing_library_sentence
from app.ui.states import ModelState
from app.ui.status_line import StatusLine


def run(*command: str, **environ: str | None) -> subprocess.CompletedProcess:
    without = {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM", "XDG_SESSION_TYPE"}
    clean = {name: value for name, value in os.environ.items() if name not in without}
    clean |= {name: value for name, value in environ.items() if value is not None}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=clean, timeout=60
    )


def test_views_and_wiring_leave_torch_and_numpy_out():
    imports = "import app.ui, app.ui.main_window, app.bootstrap, sys"
    result = run("-c", f"{imports}; print({{'torch', 'numpy'}} & {{*sys.modules}})")
    assert result.stdout.strip() == "set()", result.stderr


def test_the_command_line_itself_loads_neither_qt_nor_torch():
    words = "import app.__main__, sys; print({'torch', 'PySide6'} & {*sys.modules})"
    assert run("-c", words).stdout.strip() == "set()"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="there is always a screen")
@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"DISPLAY": ":99"},
        {"DISPLAY": "127.0.0.1:77"},
        {"DISPLAY": "nonsense"},
        {"WAYLAND_DISPLAY": "wayland-none", "XDG_RUNTIME_DIR": "/nowhere"},
        {"WAYLAND_DISPLAY": "wayland-none", "DISPLAY": ":99"},
        {"QT_QPA_PLATFORM": "xcb"},
        {"QT_QPA_PLATFORM": "xcb", "DISPLAY": ":99"},
        {"QT_QPA_PLATFORM": "wayland"},
    ],
)
def test_no_screen_is_a_plain_sentence_that_names_offscreen(environ):
    began = time.monotonic()
    result = run("-m", "app", **environ)
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert "screen" in result.stderr or "system library" in result.stderr
    assert "--offscreen" in result.stderr or "sudo apt install" in result.stderr
    assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    ("message", "package"),
    [
        ("libxcb-cursor.so.0: cannot open shared object file: No such file", "libxcb-cursor0"),
        ("libEGL.so.1: cannot open shared object file", "libegl1"),
        ("libGL.so.1: cannot open shared object file", "libgl1"),
        ("libxkbcommon-x11.so.0: cannot open", "libxkbcommon-x11-0"),
        ("libglib-2.0.so.0: cannot open shared object file", "libglib2.0-0"),
        ("libfontconfig.so.1: cannot open shared object file", "libfontconfig1"),
    ],
)
def test_a_missing_library_is_named_with_the_package_that_has_it(message, package):
    sentence = missing_library_sentence(message)
    assert message.partition(":")[0] in sentence
    assert sentence.endswith(f"sudo apt install {package}")


def test_a_library_missing_in_qt_itself_is_a_plain_sentence(tmp_path):
    (tmp_path / "PySide6").mkdir()
    (tmp_path / "PySide6" / "__init__.py").write_text(
        "raise ImportError('libEGL.so.1: cannot open shared object file: No such file')"
    )
    result = run("-m", "app", "--offscreen", PYTHONPATH=str(tmp_path))
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "libegl1" in result.stderr


def test_version_and_wrong_arguments():
    assert run("-m", "app", "--version").stdout.startswith("smoldesk 0.")
    wrong = run("-m", "app", "--theme", "purple")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


def test_the_self_test_drives_the_real_window_with_the_real_model(default_model_path):
    """The window, the worker and the engine together, through key presses."""
    result = run(
        "-m", "app", "--self-test", "--offscreen", "--json", "--model", str(default_model_path)
    )
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["ok"] is True
    assert set(told) == {
        *("ok", "window_ms", "model_ready_ms", "ttft_ms", "tokens_per_s"),
        *("device", "precision", "reply", "chats"),
    }
    assert told["window_ms"] < told["model_ready_ms"]
    assert told["reply"].strip()
    assert told["tokens_per_s"] > 0
    assert result.stderr == ""


def test_a_self_test_without_a_model_says_why_and_fails(tmp_path):
    nothing = tmp_path / "none.gguf"
    result = run("-m", "app", "--self-test", "--offscreen", "--json", "--model", str(nothing))
    assert result.returncode == 1
    assert json.loads(result.stdout)["ok"] is False
    assert "Traceback" not in result.stderr
    assert "none.gguf" in result.stderr


def test_a_second_start_with_the_same_chats_brings_the_first_window_forward(tmp_path):
    fake = str(Path(__file__).with_name("fake_engine.py"))
    command = [sys.executable, fake, "--folder", str(tmp_path), "--say-when", "window"]
    environ = os.environ | {"QT_QPA_PLATFORM": "offscreen"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as first:
        try:
            assert first.stdout.readline() == "window\n"
            second = subprocess.run(
                command, capture_output=True, text=True, env=environ, timeout=60
            )
            assert second.returncode == 0
            assert "brought to the front" in second.stdout
            assert second.stderr == ""
            assert first.stdout.readline() == "raised\n"
            first.kill()  # the lock and the socket of a program that was killed are no obstacle
            first.wait()
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as third:
                assert third.stdout.readline() == "window\n"
                third.terminate()
        finally:
            first.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Qt finds its plugins itself")
def test_a_platform_that_qt_does_not_know_is_named(home):
    result = run("-m", "app", QT_QPA_PLATFORM="nonsense")
    assert result.returncode == 2
    assert "nonsense" in result.stderr
    assert "offscreen" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_long_start_says_that_only_the_first_is_so_long(qt_app, wait_until):
    status = StatusLine()
    status._long_start.setInterval(20)
    status.set_model_state(ModelState.LOADING)
    assert "Starting" in status.words.text()
    wait_until(lambda: "only this once" in status.words.text())
    status.set_model_state(ModelState.READY)
    assert "Enter sends" in status.words.text()
    status.set_model_state(ModelState.LOADING)
    assert "Starting" in status.words.text()
    status.deleteLater()
