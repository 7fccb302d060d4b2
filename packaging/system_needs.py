"""What Smoldesk needs of the operating system, and how to get it there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

LIBRARIES = Path(__file__).with_name("linux_libraries.txt")
INSTALL_COMMANDS = {
    "apt-get": "apt-get install -y --no-install-recommends",
    "dnf": "dnf install -y",
    "pacman": "pacman -S --needed --noconfirm",
}
SECONDS_TO_END = 5


class SetUpError(Exception):
    """Something the user can put right; its text says what happened and what to do."""

    def __init__(self, text: str, *, exit_code: int = 1) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Needed(NamedTuple):
    """Something the system must bring, and its package for each of `INSTALL_COMMANDS`."""

    name: str
    packages: dict[str, str]


def call(command: list[str], *, folder: Path, environ: Mapping[str, str] = os.environ) -> int:
    """Runs a program in the foreground; its exit code. Ctrl+C ends it too."""
    sys.stdout.flush()
    with subprocess.Popen(command, cwd=folder, env=environ) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:
            try:  # the terminal sent Ctrl+C to it as well: let it tidy up
                child.wait(SECONDS_TO_END)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                child.kill()
                child.wait()
            raise


def has_screen() -> bool:
    """Whether a window can be shown."""
    places = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform != "linux" or any(os.environ.get(place) for place in places)


def has_nvidia_gpu() -> bool:
    """Whether NVIDIA's driver sees a GPU."""
    if any(Path("/proc/driver/nvidia/gpus").glob("*")):
        return True
    try:  # in WSL and some containers only this knows
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"GPU " in listed.stdout


def missing_modules() -> list[Needed]:
    """What this Python lacks for making an environment; Debian packs it apart."""
    from importlib.util import find_spec

    if find_spec("venv") and find_spec("ensurepip"):
        return []
    apart = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    packages = {"apt-get": apart, "dnf": "python3-libs", "pacman": "python"}
    return [Needed("Python's venv and ensurepip modules", packages)]


def missing_libraries(*, screen: bool) -> list[Needed]:
    """The libraries of Qt that a Linux system lacks; `screen` asks for those of a window too."""
    if sys.platform != "linux":
        return []
    from ctypes import CDLL

    missing = []
    for line in LIBRARIES.read_text(encoding="utf-8").splitlines():
        if line.startswith("always") or (screen and line.startswith("screen")):
            _, library, *packages = line.split()
            try:
                CDLL(library)
            except OSError:
                missing.append(Needed(library, dict(zip(INSTALL_COMMANDS, packages, strict=True))))
    return missing


def provide(missing: list[Needed]) -> None:
    """Installs what is missing where that is ours to do, as root on Debian; or says how to."""
    if not missing:
        return
    names = ", ".join(needed.name for needed in missing)
    manager = next((name for name in INSTALL_COMMANDS if shutil.which(name)), None)
    if manager is None:
        raise SetUpError(
            f"This system lacks {names}. Install that in your system's own way, then run the same "
            "command again."
        )
    packages = sorted({needed.packages[manager] for needed in missing})
    command = f"{INSTALL_COMMANDS[manager]} {' '.join(packages)}"
    root = os.name == "posix" and os.geteuid() == 0
    if root and manager == "apt-get":
        apt_get_install(packages, command=command)
        return
    raise SetUpError(
        f"This system lacks {names}. Install that with the command below, then run the same "
        f"command as now again.\n\n    {'' if root else 'sudo '}{command}\n"
    )


def apt_get_install(packages: list[str], *, command: str) -> None:
    """Installs Debian packages; in a bare container the list of packages must be fetched first."""
    print(f"== Installing system packages: {' '.join(packages)}", flush=True)
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    patient = ["-q", "-o", "DPkg::Lock::Timeout=120"]
    folder = Path("/")
    call(["apt-get", "update", *patient], folder=folder, environ=environ)
    if call([*command.split(), *patient], folder=folder, environ=environ) != 0:
        raise SetUpError(
            "apt-get could not install what is missing; its own words are above. Put that right, "
            f"then run the same command again, or try this by hand:\n\n    {command}\n"
        )
