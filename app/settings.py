"""What the user chose and wants to find again: one frozen value, kept as JSON."""

import contextlib
import itertools
import json
import math
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from app.ui.states import Failure

DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("auto", "fp32", "bf16", "fp16")
THEMES = ("system", "light", "dark")


@dataclass(frozen=True, slots=True)
class Settings:
    """The defaults are the documentation."""

    device: str = "auto"
    precision: str = "auto"
    theme: str = "system"
    temperature: float = 0.7
    top_p: float = 0.9


def _number(low: float, high: float) -> Callable[[Any], bool]:
    def valid(value: Any) -> bool:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and math.isfinite(value) and low <= value <= high

    return valid


_VALID: dict[str, Callable[[Any], bool]] = {
    "device": DEVICES.__contains__,
    "precision": PRECISIONS.__contains__,
    "theme": THEMES.__contains__,
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
}


class SettingsFile:
    """Reads and replaces one settings file; what it does not know in it, it keeps."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "settings.json"
        self._unknown: dict[str, Any] = {}

    def read(self) -> tuple[Settings, Failure | None]:
        """The settings, and what the user should know if the file was not as it should be.

        A damaged file is set aside under another name, so that nothing in it is lost; a single
        value that cannot be gives way to its default. Never raises for what a file may contain.
        """
        try:
            content = json.loads(self.path.read_bytes())
            if not isinstance(content, dict):
                raise ValueError("not an object")
        except FileNotFoundError:
            return Settings(), None
        except OSError:
            return Settings(), Failure(
                "Your settings could not be read, so the usual ones are used.",
                f"Check that you may read the folder {self.path.parent}.",
            )
        except (ValueError, RecursionError):  # not JSON, not UTF-8, or absurdly nested
            return Settings(), self._set_aside()
        return self._checked(content)

    def write(self, settings: Settings) -> Failure | None:
        """Replace the file as one step; says so if that cannot be done."""
        text = json.dumps({**self._unknown, **asdict(settings)}, indent=2)  # pure ASCII
        try:
            replace_file(self.path, text.encode() + b"\n")
        except OSError:
            return Failure(
                "Your settings cannot be saved, so they last until you close the window.",
                f"Check that you may write to the folder {self.path.parent}.",
            )
        return None

    def _checked(self, content: dict[str, Any]) -> tuple[Settings, Failure | None]:
        known = {field.name for field in fields(Settings)}
        self._unknown = {name: value for name, value in content.items() if name not in known}
        values = {name: value for name, value in content.items() if name in known}
        wrong = sorted(name for name, value in values.items() if not _is_valid(name, value))
        settings = Settings(**{n: v for n, v in values.items() if n not in wrong})
        if not wrong:
            return settings, None
        names = ", ".join(name.replace("_", "-") for name in wrong)
        return settings, Failure(
            f"A setting had a value that it cannot have, so its usual one is used: {names}."
        )

    def _set_aside(self) -> Failure:
        numbers = itertools.count(1)
        names = (self.path.with_name(f"settings.damaged-{n}.json") for n in numbers)
        aside = next(name for name in names if not name.exists())
        try:
            os.replace(self.path, aside)
        except OSError:
            kept = f"The damaged file is {self.path}."
        else:
            kept = f"The damaged file was kept as {aside}."
        return Failure("Your settings file is damaged, so the usual settings are used.", kept)


def _is_valid(name: str, value: Any) -> bool:
    try:
        return _VALID[name](value)
    except (TypeError, OverflowError):  # a list in a tuple of names, a number beyond all floats
        return False


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` so that a reader finds the old file or the new one, never a part.

    No wait for the disk itself: this runs on the window's thread, and a settings file that a power
    cut leaves empty is noticed and set aside when it is read.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read_geometry(folder: Path) -> bytes:
    """Where the window was, in Qt's own form, which Qt checks; empty if that is not known."""
    with contextlib.suppress(OSError):
        return (folder / "window").read_bytes()[:4096]
    return b""


def write_geometry(folder: Path, geometry: bytes) -> None:
    """Remember where the window was; to fail at that is not worth a word."""
    with contextlib.suppress(OSError):
        replace_file(folder / "window", geometry)
