"""Sets Smoldesk up on a fresh computer, then opens its window or checks its code.

Only the standard library is used, and all packages go into `.venv` beside pyproject.toml. A stamp
in there remembers what is in place, so that the next start has nothing to do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from system_needs import (
    SetUpError,
    call,
    has_nvidia_gpu,
    has_screen,
    missing_libraries,
    missing_modules,
    provide,
)

HELP = """usage: python3 packaging/dev.py COMMAND [ARGUMENTS]

  run [ARGUMENTS]   open the chat window; arguments go to it (run --help lists them)
  test              every check: formatting, lint, types, import rules, tests
  test ARGUMENTS    pytest alone, with these arguments (test tests/engine -k cache)
  cli [ARGUMENTS]   the engine's command line (cli --help lists its commands)

Each first sets up what it needs: system libraries, packages in .venv, the default model.
"""

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = ENVIRONMENT / "dev-stamp.json"
LOCK = ENVIRONMENT / "dev-lock"
PYTHON_VERSIONS = ((3, 11), (3, 12), (3, 13))
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
NO_SCREEN_NEEDED = {"--offscreen", "--help", "-h", "--version"}
CHECKS = [
    ("Formatting", ["-m", "ruff", "format", "--check", "."]),
    ("Lint", ["-m", "ruff", "check", "."]),
    ("Types", ["-m", "mypy"]),
    ("Import rules", ["-c", "from importlinter.cli import lint_imports_command as c; c()"]),
    ("Tests", ["-m", "pytest"]),
]


def main(arguments: list[str]) -> int:
    """Carries out one command; the process's exit code."""
    commands = {"run": run, "test": test, "cli": cli}
    try:
        require_python(sys.version_info[:2])
        if arguments and arguments[0] in commands:
            return commands[arguments[0]](arguments[1:])
        print(HELP, end="")
        return 0 if arguments in (["--help"], ["-h"]) else 2
    except SetUpError as error:
        print(f"\n{error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"\nThe set-up cannot go on: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130


def run(arguments: list[str]) -> int:
    """Opens the window."""
    shown = "QT_QPA_PLATFORM" not in os.environ and not NO_SCREEN_NEEDED.intersection(arguments)
    if shown and not has_screen():
        raise SetUpError(
            "There is no screen to open a window on (neither DISPLAY nor WAYLAND_DISPLAY is set).\n"
            "To run without one: python3 packaging/dev.py run --offscreen",
            exit_code=2,
        )
    set_up(extra="", screen=shown)
    try:
        fetch_default_model()
    except SetUpError as error:  # someone offline may well have another model
        print(f"\n{error}\nThe window opens without it.\n", file=sys.stderr)
    return become(["-P", "-m", "app", *arguments])


def cli(arguments: list[str]) -> int:
    """Hands over to the engine's command line."""
    set_up(extra="", screen=False)
    return become(["-P", "-m", "engine", *arguments])


def test(arguments: list[str]) -> int:
    """Runs every check, or pytest alone when it is given arguments."""
    set_up(extra="test", screen=False)
    fetch_default_model()
    checks = [("Tests", ["-m", "pytest", *arguments])] if arguments else CHECKS
    environ = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    lines, failed = [], False
    for name, command in checks:
        print(f"\n== {name}", flush=True)
        started = time.monotonic()
        passed = call([str(PYTHON), *command], folder=ROOT, environ=environ) == 0
        seconds = time.monotonic() - started
        lines.append(f"{name:<13} {'ok' if passed else 'FAILED':<7} {seconds:6.1f} s")
        failed = failed or not passed
    print("\n== Summary", *lines, sep="\n", flush=True)
    return 1 if failed else 0


def require_python(version: tuple[int, ...]) -> None:
    """Refuses a Python that the project does not run with."""
    if version not in PYTHON_VERSIONS:
        raise SetUpError(
            f"Smoldesk runs with Python 3.11, 3.12 or 3.13, and this is {version[0]}.{version[1]}: "
            "start this script with one of those, for example python3.12 packaging/dev.py run"
        )


def set_up(*, extra: str, screen: bool) -> None:
    """Brings the system's libraries and `.venv` to what is asked for; quick when they are there.

    `extra` names the group of optional dependencies wanted, "" for none.
    """
    wanted = requirements()
    ENVIRONMENT.mkdir(exist_ok=True)
    with one_at_a_time():
        stamp = read_stamp()
        sound = is_sound(stamp)
        libraries = "for a screen" if screen else "without a screen"
        if not sound or stamp.get("libraries") not in ("for a screen", libraries):
            provide([*([] if sound else missing_modules()), *missing_libraries(screen=screen)])
        if not sound:
            make_environment()
            stamp = {}
        if stamp.get("libraries") != "for a screen":
            write_stamp(libraries=libraries)
        if stamp.get("requirements") != wanted or extra not in ("", stamp.get("extra")):
            install(wanted, extra=extra)
            write_stamp(made_for=made_for(), requirements=wanted, extra=extra)


def requirements() -> dict[str, Any]:
    """The parts of pyproject.toml that decide what is installed."""
    import tomllib  # not there in Pythons that are too old, which get a plain sentence instead

    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {name: tables[name] for name in ("build-system", "project")}


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Makes a second set-up of this folder wait; the lock ends with the process that holds it."""
    with LOCK.open("w") as lock:
        if not try_lock(lock):
            print("Another set-up is at work in this folder; waiting for it.", flush=True)
            while not try_lock(lock):
                time.sleep(0.2)
        yield


def try_lock(lock: TextIO) -> bool:
    """Takes the operating system's lock on an open file, unless another process has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def read_stamp() -> dict[str, Any]:
    """What is in place; empty if nothing is known."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(**changes: object) -> None:
    """Changes some entries of the stamp, all at once."""
    draft = STAMP.with_suffix(".new")
    draft.write_text(json.dumps({**read_stamp(), **changes}, indent=1), encoding="utf-8")
    draft.replace(STAMP)


def made_for() -> list[str]:
    """What an environment is tied to: it works for no other Python and in no other folder."""
    return [f"{sys.version_info[0]}.{sys.version_info[1]}", str(ROOT)]


def is_sound(stamp: dict[str, Any]) -> bool:
    """Whether `.venv` works: whole, for this Python, in this folder."""
    if not PYTHON.exists() or stamp.get("unfinished"):
        return False
    if stamp:
        return bool(stamp.get("made_for") == made_for())
    # Someone made it by hand: it is theirs, and kept if it works.
    question = "import pip, sys; print('%d.%d' % sys.version_info[:2])"
    answer = subprocess.run([str(PYTHON), "-c", question], capture_output=True, text=True)
    return answer.stdout.strip() == made_for()[0]


def make_environment() -> None:
    """Makes `.venv` anew; whatever was there is broken, half made or of unknown origin."""
    import venv

    print("== Making the environment .venv", flush=True)
    for entry in ENVIRONMENT.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry != LOCK:
            entry.unlink()
    write_stamp(unfinished=True)
    try:
        venv.EnvBuilder(with_pip=True, symlinks=os.name != "nt").create(ENVIRONMENT)
    except subprocess.CalledProcessError as error:
        raise SetUpError(
            f"Python could not make an environment in {ENVIRONMENT} ({error}). "
            "Check that this Python is complete (it needs its venv and ensurepip modules)."
        ) from None
    write_stamp(unfinished=False, made_for=made_for())


def install(wanted: dict[str, Any], *, extra: str) -> None:
    """Installs PyTorch in the build that fits this computer, then the project with the rest."""
    torch = next(name for name in wanted["project"]["dependencies"] if name.startswith("torch"))
    print("== Installing PyTorch", flush=True)
    pip_install([*torch_index(), torch])
    print("== Installing Smoldesk and what it needs", flush=True)
    pip_install(["--editable", f".[{extra}]" if extra else "."])


def pip_install(arguments: list[str]) -> None:
    """Runs pip in the environment; an install that is cut off leaves it marked as unfinished."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", *arguments]
    write_stamp(unfinished=True)
    code = call(command, folder=ROOT, environ={**os.environ, "PIP_USER": "0"})
    write_stamp(unfinished=False)
    if code != 0:
        raise SetUpError(
            "pip could not install what Smoldesk needs; its own words are above. Check the network "
            "and the free disk space, then run the same command again."
        )


def torch_index() -> list[str]:
    """The arguments that lead pip to the right build of PyTorch.

    On Linux the build on PyPI brings several gigabytes of CUDA, which only NVIDIA's GPUs use;
    elsewhere it is the right one.
    """
    if sys.platform != "linux" or has_nvidia_gpu():
        return []
    if in_reach(f"{CPU_INDEX}/torch/"):
        return ["--index-url", CPU_INDEX]
    print("PyTorch's index of CPU builds is out of reach, so pip's own settings decide;")
    print("its usual build for Linux is a download of several gigabytes.", flush=True)
    return []


def in_reach(url: str) -> bool:
    """Whether a web server answers for this address within a few seconds."""
    import ssl
    import urllib.request

    request = urllib.request.Request(url, method="HEAD", headers={"User-Agent": "smoldesk"})
    try:
        urllib.request.urlopen(request, timeout=4).close()
    except OSError as error:
        # A bare system has no certificates to check with; pip brings its own and does check.
        return isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError)
    return True


def fetch_default_model() -> None:
    """Fetches the default model with the engine's own command, unless it is where it was put."""
    # A home moved since then has no model yet.
    names = ("SMOLDESK_HOME", "HOME", "XDG_DATA_HOME", "LOCALAPPDATA")
    homes = [os.environ.get(name) for name in names]
    with one_at_a_time():
        known = read_stamp().get("model", {})
        if known.get("homes") == homes and has_size(known["path"], known["bytes"]):
            return
        fetch = [str(PYTHON), "-P", "-m", "engine", "models", "--fetch-default"]
        if call(fetch, folder=ROOT) != 0:
            raise SetUpError(
                "The default model could not be fetched; the reason is above. Check the network, "
                "then run the same command again."
            )
        path = default_model_path()
        model = {"homes": homes, "path": str(path), "bytes": path.stat().st_size}
        write_stamp(model=model)


def default_model_path() -> Path:
    """Where the engine keeps the default model."""
    question = "from engine.places import models_dir; print(models_dir())"
    command = [str(PYTHON), "-X", "utf8", "-c", question]
    answer = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    name = "SmolLM2-135M-Instruct"
    return Path(answer.stdout.strip()) / name / f"{name}.Q4_1.gguf"


def has_size(path: str, size: int) -> bool:
    """Whether a file is there with all its bytes."""
    try:
        return os.stat(path).st_size == size
    except OSError:
        return False


def become(arguments: list[str]) -> int:
    """Goes on as the environment's Python, which then gets every signal itself."""
    command = [str(PYTHON), *arguments]
    if os.name != "nt":  # where exec would return to the prompt at once
        sys.stdout.flush()
        os.execv(command[0], command)
    return call(command, folder=Path.cwd())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
