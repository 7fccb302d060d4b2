"""The set-up script: what it decides, without a network, pip or apt."""

import http.server
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

PACKAGING = Path(__file__).parents[2] / "packaging"
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
PROJECT = """
[build-system]
requires = ["hatchling"]
[project]
name = "smoldesk"
dependencies = ["numpy>=2", "torch>=2.13,<2.14"]
[tool.ruff]
line-length = 100
"""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PACKAGING / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def needs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """packaging/system_needs.py, on a Linux system of the test's own making."""
    module = load("system_needs")
    monkeypatch.setitem(sys.modules, "system_needs", module)
    return module


class Computer:
    """A repository with nothing set up, where programs are recorded instead of run."""

    def __init__(self, dev: ModuleType, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dev = dev
        self.calls: list[list[str]] = []
        self.environs: list[dict[str, str]] = []
        self.provided: list[Any] = []
        self.failing: Callable[[list[str]], bool] = lambda command: False
        self.during: Callable[[list[str]], None] = lambda command: None
        self.made = 0
        (root / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
        self.model = root / "home" / "model.gguf"
        environment = root / ".venv"
        for name, value in {
            "ROOT": root,
            "ENVIRONMENT": environment,
            "PYTHON": environment / "bin" / "python",
            "STAMP": environment / "dev-stamp.json",
            "LOCK": environment / "dev-lock",
            "call": self.call,
            "become": self.become,
            "provide": self.provided.append,
            "missing_modules": lambda: ["venv"],
            "missing_libraries": lambda screen: ["Qt for a screen" if screen else "Qt"],
            "has_nvidia_gpu": lambda: False,
            "in_reach": lambda url: True,
            "default_model_path": lambda: self.model,
        }.items():
            monkeypatch.setattr(dev, name, value)
        monkeypatch.setattr("venv.EnvBuilder", lambda **_: SimpleNamespace(create=self.create))
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.delenv("QT_QPA_PLATFORM", raising=False)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        monkeypatch.setenv("DISPLAY", ":0")

    def create(self, environment: Path) -> None:
        self.made += 1
        (environment / "bin").mkdir()
        (environment / "bin" / "python").touch()

    def call(self, command: list[str], *, folder: Path, environ: Any = None) -> int:
        self.calls.append(command[1:])
        self.environs.append(dict(environ or {}))
        self.during(command)
        if self.failing(command):
            return 1
        if "--fetch-default" in command:
            self.model.parent.mkdir(exist_ok=True)
            self.model.write_bytes(b"model")
        return 0

    def become(self, arguments: list[str]) -> int:
        self.calls.append(arguments)
        return 0

    def main(self, *arguments: str) -> int:
        self.calls.clear()
        self.environs.clear()
        self.provided.clear()
        return int(self.dev.main(list(arguments)))

    def installs(self) -> list[list[str]]:
        """What followed `pip install`, call by call."""
        return [call[4:] for call in self.calls if call[:2] == ["-m", "pip"]]


@pytest.fixture
def computer(needs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Computer:
    return Computer(load("dev"), tmp_path, monkeypatch)


APP = ["-P", "-m", "app"]
FETCH = ["-P", "-m", "engine", "models", "--fetch-default"]


def test_first_run_makes_everything_and_then_opens_the_window(computer: Computer) -> None:
    assert computer.main("run", "--model", "a b") == 0
    assert computer.made == 1
    assert computer.provided == [["venv", "Qt for a screen"]]
    assert [call[4:] if "pip" in call else call for call in computer.calls] == [
        ["--index-url", computer.dev.CPU_INDEX, "torch>=2.13,<2.14"],
        ["--editable", "."],
        FETCH,
        [*APP, "--model", "a b"],
    ]


def test_second_run_only_opens_the_window(computer: Computer) -> None:
    computer.main("run")
    assert computer.main("run", "--theme", "dark") == 0
    assert computer.calls == [[*APP, "--theme", "dark"]]
    assert computer.provided == []


def test_tests_add_their_packages_and_the_window_needs_no_more(computer: Computer) -> None:
    computer.main("run")
    computer.main("test")
    assert ["--editable", ".[test]"] in computer.installs()
    for again in ("test", "run"):
        computer.main(again)
        assert computer.installs() == []
    assert computer.made == 1


def test_changed_dependencies_are_installed_and_other_settings_are_not(computer: Computer) -> None:
    computer.main("run")
    project = computer.dev.ROOT / "pyproject.toml"
    project.write_text(PROJECT.replace("100", "90"), encoding="utf-8")
    computer.main("run")
    assert computer.installs() == []
    project.write_text(PROJECT.replace("2.13,<2.14", "2.14,<2.15"), encoding="utf-8")
    computer.main("run")
    assert computer.installs()[0][-1] == "torch>=2.14,<2.15"
    assert computer.made == 1


def test_libraries_for_a_screen_are_asked_for_once_a_window_is_wanted(computer: Computer) -> None:
    computer.main("test")
    assert computer.provided == [["venv", "Qt"]]
    computer.main("run")
    assert computer.provided == [["Qt for a screen"]]
    for again in ("test", "run"):
        computer.main(again)
        assert computer.provided == []


def spoil_interrupted(dev: ModuleType) -> None:
    dev.write_stamp(unfinished=True)


def spoil_moved(dev: ModuleType) -> None:
    dev.write_stamp(made_for=[VERSION, "/elsewhere"])


def spoil_other_python(dev: ModuleType) -> None:
    dev.write_stamp(made_for=["3.10", str(dev.ROOT)])


def spoil_python_gone(dev: ModuleType) -> None:
    dev.PYTHON.unlink()
    dev.PYTHON.symlink_to(dev.ROOT / "uninstalled")


def spoil_not_one_of_ours(dev: ModuleType) -> None:
    dev.STAMP.unlink()
    dev.PYTHON.write_text("#!/bin/sh\nexit 1\n")
    dev.PYTHON.chmod(0o755)


def spoil_stamp_cut_off(dev: ModuleType) -> None:
    dev.STAMP.write_text('{"made_for": [')
    dev.PYTHON.write_text("#!/bin/sh\nexit 1\n")
    dev.PYTHON.chmod(0o755)


@pytest.mark.skipif(os.name == "nt", reason="links and shell scripts")
@pytest.mark.parametrize(
    "spoil",
    [
        spoil_interrupted,
        spoil_moved,
        spoil_other_python,
        spoil_python_gone,
        spoil_not_one_of_ours,
        spoil_stamp_cut_off,
    ],
)
def test_broken_environment_is_made_anew(
    computer: Computer, spoil: Callable[[ModuleType], None]
) -> None:
    computer.main("run")
    (computer.dev.ENVIRONMENT / "lib64").symlink_to("lib")
    left_over = computer.dev.ENVIRONMENT / "lib" / "old.py"
    left_over.parent.mkdir()
    left_over.touch()
    spoil(computer.dev)
    assert computer.main("run") == 0
    assert computer.made == 2
    assert not left_over.exists()
    assert len(computer.installs()) == 2


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands for Python")
def test_working_environment_made_by_hand_is_kept(computer: Computer) -> None:
    computer.dev.ENVIRONMENT.mkdir()
    computer.create(computer.dev.ENVIRONMENT)
    computer.dev.PYTHON.write_text(f"#!/bin/sh\necho {VERSION}\n")
    computer.dev.PYTHON.chmod(0o755)
    computer.main("test")
    assert computer.made == 1  # by this test
    assert len(computer.installs()) == 2
    computer.main("test")
    assert computer.installs() == []


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit])
def test_pip_cut_off_half_way_leaves_a_mark(
    computer: Computer, ending: type[BaseException]
) -> None:
    def cut_off(command: list[str]) -> None:
        if "--editable" in command:
            raise ending

    computer.during = cut_off
    if ending is KeyboardInterrupt:
        assert computer.main("run") == 130
    else:
        with pytest.raises(SystemExit):
            computer.main("run")
    computer.during = lambda command: None
    assert computer.main("run") == 0
    assert computer.made == 2


def test_failing_pip_is_one_sentence_and_keeps_what_works(
    computer: Computer, capsys: pytest.CaptureFixture[str]
) -> None:
    computer.main("run")
    computer.failing = lambda command: "pip" in command
    assert computer.main("test") == 1
    assert "Check the network" in capsys.readouterr().err
    assert computer.main("run") == 0
    assert computer.made == 1


def test_pip_is_kept_inside_the_environment(computer: Computer) -> None:
    computer.main("run")
    assert computer.environs[0]["PIP_USER"] == "0"


@pytest.mark.parametrize(
    ("platform", "gpu", "reach", "small_build"),
    [
        ("linux", False, True, True),
        ("linux", False, False, False),
        ("linux", True, True, False),
        ("darwin", False, True, False),
        ("win32", False, True, False),
    ],
)
def test_pytorch_comes_from_the_cpu_index_only_where_that_spares_cuda(
    computer: Computer,
    monkeypatch: pytest.MonkeyPatch,
    *,
    platform: str,
    gpu: bool,
    reach: bool,
    small_build: bool,
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(computer.dev, "has_nvidia_gpu", lambda: gpu)
    monkeypatch.setattr(computer.dev, "in_reach", lambda url: reach)
    expected = ["--index-url", computer.dev.CPU_INDEX] if small_build else []
    assert computer.dev.torch_index() == expected


@pytest.mark.parametrize(
    ("answer", "found"), [(b"GPU 0: NVIDIA\n", True), (b"No devices were found\n", False)]
)
def test_gpu_is_what_the_driver_lists(
    needs: ModuleType, monkeypatch: pytest.MonkeyPatch, answer: bytes, found: bool
) -> None:
    monkeypatch.setattr(needs, "Path", lambda _: SimpleNamespace(glob=lambda _: []))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=answer))
    assert needs.has_nvidia_gpu() is found


@pytest.mark.parametrize("trouble", [FileNotFoundError(), subprocess.TimeoutExpired("smi", 10)])
def test_no_driver_is_no_gpu(
    needs: ModuleType, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise trouble

    monkeypatch.setattr(needs, "Path", lambda _: SimpleNamespace(glob=lambda _: []))
    monkeypatch.setattr(subprocess, "run", fail)
    assert needs.has_nvidia_gpu() is False


@pytest.fixture
def server() -> Iterator[str]:
    """A web server that knows the page /there and nothing else."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200 if self.path == "/there" else 403)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_index_is_in_reach_if_it_answers(needs: ModuleType, server: str) -> None:
    dev = load("dev")
    assert dev.in_reach(f"{server}/there")
    assert not dev.in_reach(f"{server}/blocked")
    assert not dev.in_reach("http://127.0.0.1:1/nobody")


def test_index_is_in_reach_without_certificates_to_check_it(
    needs: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ssl
    import urllib.error

    def refuse(*_: object, **__: object) -> None:
        raise urllib.error.URLError(ssl.SSLCertVerificationError("no certificates"))

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    assert load("dev").in_reach("https://example.org")


def test_model_is_fetched_again_when_it_is_gone_or_cut_or_home_moved(
    computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    computer.main("run")
    computer.model.unlink()
    computer.main("run")
    assert FETCH in computer.calls
    computer.model.write_bytes(b"mod")
    computer.main("run")
    assert FETCH in computer.calls
    monkeypatch.setenv("SMOLDESK_HOME", "/somewhere/else")
    computer.main("run")
    assert FETCH in computer.calls
    computer.main("run")
    assert FETCH not in computer.calls


def test_without_the_model_the_window_opens_and_the_tests_do_not(
    computer: Computer, capsys: pytest.CaptureFixture[str]
) -> None:
    computer.failing = lambda command: "--fetch-default" in command
    assert computer.main("run") == 0
    assert computer.calls[-1] == APP
    assert "The window opens without it" in capsys.readouterr().err
    assert computer.main("test") == 1
    assert not [call for call in computer.calls if "pytest" in call]


def test_no_screen_is_said_before_anything_is_done(
    computer: Computer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DISPLAY")
    assert computer.main("run") == 2
    assert "--offscreen" in capsys.readouterr().err
    assert computer.made == 0
    assert computer.main("run", "--offscreen", "--self-test") == 0
    assert computer.calls[-1] == [*APP, "--offscreen", "--self-test"]
    assert computer.main("run", "--help") == 0


@pytest.mark.parametrize("name", ["WAYLAND_DISPLAY", "QT_QPA_PLATFORM"])
def test_other_screens_than_x11_will_do(
    computer: Computer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("DISPLAY")
    monkeypatch.setenv(name, "vnc")
    assert computer.main("run") == 0


def test_whole_gate_runs_to_its_end_and_names_what_failed(
    computer: Computer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert computer.main("test") == 0
    computer.failing = lambda command: "mypy" in command
    assert computer.main("test") == 1
    assert [call[1] for call in computer.calls if call[0] == "-m"] == [
        "ruff",
        "ruff",
        "mypy",
        "pytest",
    ]
    assert any("importlinter" in call[1] for call in computer.calls)
    assert all(environ["QT_QPA_PLATFORM"] == "offscreen" for environ in computer.environs)
    summary = capsys.readouterr().out.rsplit("== Summary", 1)[1].splitlines()
    assert [line.split()[-3] for line in summary if line] == ["ok", "ok", "FAILED", "ok", "ok"]


def test_arguments_of_test_go_to_pytest_alone(computer: Computer) -> None:
    computer.main("test")
    computer.failing = lambda command: "pytest" in command
    assert computer.main("test", "tests/engine", "-k", "a or b") == 1
    assert computer.calls == [["-m", "pytest", "tests/engine", "-k", "a or b"]]


def test_cli_hands_over_to_the_engine(computer: Computer) -> None:
    assert computer.main("cli", "chat", "--json") == 0
    assert computer.calls[-1] == ["-P", "-m", "engine", "chat", "--json"]


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--help"], 0), (["-h"], 0), ([], 2), (["tests"], 2)]
)
def test_help(
    computer: Computer, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int
) -> None:
    assert computer.main(*arguments) == code
    assert "pytest alone" in capsys.readouterr().out
    assert computer.made == 0


@pytest.mark.parametrize("version", [(2, 7), (3, 10), (3, 14)])
def test_unfit_python_is_one_sentence(
    computer: Computer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    version: tuple[int, int],
) -> None:
    monkeypatch.setattr(sys, "version_info", (*version, 0))
    assert computer.main("run") == 1
    error = capsys.readouterr().err.strip()
    assert error.startswith("Smoldesk runs with Python 3.11, 3.12 or 3.13, and this is ")
    assert "\n" not in error


def test_refusal_of_the_system_is_no_traceback(
    computer: Computer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied", ".venv")

    monkeypatch.setattr(computer.dev, "set_up", refuse)
    assert computer.main("test") == 1
    assert "Permission denied: '.venv'" in capsys.readouterr().err


def test_second_set_up_waits_for_the_first(
    computer: Computer, capsys: pytest.CaptureFixture[str]
) -> None:
    computer.dev.ENVIRONMENT.mkdir()
    order = []

    def second() -> None:
        with computer.dev.one_at_a_time():
            order.append("second")

    with computer.dev.one_at_a_time():
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert "waiting" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's libraries")
def test_libraries_are_those_the_loader_cannot_find(
    needs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = tmp_path / "libraries.txt"
    table.write_text(
        "# comment\nalways libc.so.6 a b c\nalways libnone.so.1 apt1 dnf1 pac1\n"
        "screen libnone.so.2 apt2 dnf2 pac2\n"
    )
    monkeypatch.setattr(needs, "LIBRARIES", table)
    assert [needed.name for needed in needs.missing_libraries(screen=False)] == ["libnone.so.1"]
    both = needs.missing_libraries(screen=True)
    assert both[1].packages == {"apt-get": "apt2", "dnf": "dnf2", "pacman": "pac2"}


def test_each_library_has_a_package_for_each_manager(needs: ModuleType) -> None:
    lines = needs.LIBRARIES.read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    assert rows
    for row in rows:
        assert row[0] in ("always", "screen"), row
        assert len(row) == 2 + len(needs.INSTALL_COMMANDS), row


def test_python_without_its_venv_modules_names_debians_package(
    needs: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert needs.missing_modules() == []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (needed,) = needs.missing_modules()
    assert needed.packages["apt-get"] == f"python{VERSION}-venv"


def lacking(needs: ModuleType) -> list[Any]:
    return [
        needs.Needed("libA.so.1", {"apt-get": "liba1", "dnf": "a", "pacman": "both"}),
        needs.Needed("libB.so.2", {"apt-get": "libb2", "dnf": "b", "pacman": "both"}),
    ]


@pytest.mark.parametrize(
    ("manager", "user", "command"),
    [
        ("apt-get", 1000, "sudo apt-get install -y --no-install-recommends liba1 libb2"),
        ("dnf", 1000, "sudo dnf install -y a b"),
        ("dnf", 0, "    dnf install -y a b"),
        ("pacman", 1000, "sudo pacman -S --needed --noconfirm both"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="POSIX users")
def test_missing_libraries_are_named_with_one_command(
    needs: ModuleType, monkeypatch: pytest.MonkeyPatch, manager: str, user: int, command: str
) -> None:
    monkeypatch.setattr(needs.shutil, "which", lambda name: name if name == manager else None)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(needs.SetUpError, match=r"libA\.so\.1, libB\.so\.2") as caught:
        needs.provide(lacking(needs))
    assert command in str(caught.value)


def test_unknown_package_manager_still_names_the_libraries(
    needs: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs.shutil, "which", lambda name: None)
    with pytest.raises(needs.SetUpError, match=r"libA\.so\.1, libB\.so\.2"):
        needs.provide(lacking(needs))
    needs.provide([])


@pytest.mark.skipif(os.name == "nt", reason="POSIX users")
@pytest.mark.parametrize("works", [True, False])
def test_root_on_debian_gets_them_installed(
    needs: ModuleType, monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    commands = []

    def call(command: list[str], **_: object) -> int:
        commands.append(command)
        return 0 if works else 100

    monkeypatch.setattr(needs, "call", call)
    monkeypatch.setattr(needs.shutil, "which", lambda name: name)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if works:
        needs.provide(lacking(needs))
    else:
        with pytest.raises(needs.SetUpError, match="apt-get could not install"):
            needs.provide(lacking(needs))
    assert [command[:2] for command in commands] == [["apt-get", "update"], ["apt-get", "install"]]
    assert {"liba1", "libb2"} <= set(commands[1])


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("stubborn", [False, True])
def test_ctrl_c_ends_the_child_too(
    needs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stubborn: bool
) -> None:
    """It may tidy up; if it does not end by itself it is killed."""
    monkeypatch.setattr(needs, "SECONDS_TO_END", 0.2)
    sign = tmp_path / "pid"
    script = (
        "import os, pathlib, signal, sys, time\n"
        "pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\n"
        f"time.sleep({30 if stubborn else 0.3})\n"
    )

    def interrupt() -> None:
        while not (sign.exists() and sign.read_text()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        needs.call([sys.executable, "-c", script, str(sign)], folder=tmp_path)
    thread.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int(sign.read_text()), 0)


def test_exit_code_of_a_program_comes_back(needs: ModuleType, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os, sys; sys.exit(len(os.listdir('.')) + 7)"]
    assert needs.call(command, folder=tmp_path) == 7


def test_stamp_is_replaced_whole(computer: Computer) -> None:
    computer.dev.ENVIRONMENT.mkdir()
    computer.dev.write_stamp(a=1)
    computer.dev.write_stamp(b=[2])
    assert json.loads(computer.dev.STAMP.read_text()) == {"a": 1, "b": [2]}
    assert [path.name for path in computer.dev.ENVIRONMENT.iterdir()] == ["dev-stamp.json"]
    for damaged in ("", "[]", "\x00"):
        computer.dev.STAMP.write_text(damaged)
        assert computer.dev.read_stamp() == {}


def test_old_python_can_read_the_scripts_at_all() -> None:
    """The refusal of an old Python must not be a syntax error there."""
    import ast

    for name in ("dev.py", "system_needs.py"):
        ast.parse((PACKAGING / name).read_text(encoding="utf-8"), feature_version=(3, 8))
