"""What the user chose and wants to find again: one frozen value, kept as JSON."""

import contextlib
import itertools
import json
import os
import tempfile
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from app.ui.presets import LONGEST_NAME, MOST_OWN, USUAL, Preset
from app.ui.states import Failure
from engine.errors import OptionsError
from engine.options import OPTION_NAMES, SamplingOptions

DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("auto", "q4", "int8", "bf16", "fp16", "fp32")
THEMES = ("system", "light", "dark")
ZOOM = (50, 300)  # per cent
LONGEST_SYSTEM_PROMPT = 100_000  # characters

_PLAIN = SamplingOptions()  # what presets are written as differences from
_FORMER = ("temperature", "top_p")  # once settings of their own, now among the options


@dataclass(frozen=True, slots=True)
class Settings:
    """The defaults are the documentation."""

    device: str = "auto"
    precision: str = "auto"
    theme: str = "system"
    zoom: int = 100  # per cent of the system's size of text
    options: SamplingOptions = USUAL  # of new chats
    system_prompt: str | None = None  # of new chats; None: the model's built-in one
    presets: tuple[Preset, ...] = ()  # the user's own
    quiet: bool = False  # half of the processor is left to other programs
    suggest_titles: bool = False  # the model finds a title for a chat, while it is idle
    sidebar_shown: bool = True
    panel_shown: bool = True
    open_chat: int | None = None  # that was open last


class SettingsFile:
    """Reads and replaces one settings file; what it does not know in it, it keeps."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "settings.json"
        self._form = SettingsForm()

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
        settings, wrong = self._form.read(content)
        if not wrong:
            return settings, None
        names = ", ".join(name.replace("_", "-") for name in wrong)
        return settings, Failure(
            f"A setting had a value that it cannot have, so its usual one is used: {names}."
        )

    def write(self, settings: Settings) -> Failure | None:
        """Replace the file as one step; says so if that cannot be done."""
        text = json.dumps(self._form.written(settings), indent=2)  # pure ASCII
        try:
            replace_file(self.path, text.encode() + b"\n")
        except OSError:
            return Failure(
                "Your settings cannot be saved, so they last until you close the window.",
                f"Check that you may write to the folder {self.path.parent}.",
            )
        return None

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


class SettingsForm:
    """Settings as JSON values and back; whatever else was read is written again."""

    def __init__(self) -> None:
        self._unknown: dict[str, Any] = {}
        self._unknown_options: dict[str, Any] = {}
        self._unknown_in_presets: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def read(self, content: dict[str, Any]) -> tuple[Settings, list[str]]:
        """The settings, and the names of those whose value cannot be."""
        known = {field.name for field in fields(Settings)}
        self._unknown = {n: v for n, v in content.items() if n not in known | set(_FORMER)}
        values = {n: v for n, v in content.items() if n in known - {"options", "presets"}}
        wrong = [name for name, value in values.items() if not _is_valid(name, value)]
        former = {name: content[name] for name in _FORMER if name in content}
        options, self._unknown_options, wrong_options = _options(
            content.get("options", {}), former, base=USUAL
        )
        presets, wrong_presets = self._presets(content.get("presets", []))
        right = {name: value for name, value in values.items() if name not in wrong}
        settings = Settings(**right, options=options, presets=presets)
        return settings, sorted([*wrong, *wrong_options, *wrong_presets])

    def written(self, settings: Settings) -> dict[str, Any]:
        """What JSON keeps; of options only those that differ from the usual ones."""
        values = {field.name: getattr(settings, field.name) for field in fields(Settings)}
        values["options"] = {**self._unknown_options, **_different(settings.options, USUAL)}
        values["presets"] = [self._written_preset(preset) for preset in settings.presets]
        return {**self._unknown, **values}

    def _presets(self, content: Any) -> tuple[tuple[Preset, ...], list[str]]:
        self._unknown_in_presets = {}
        presets: list[Preset] = []
        right = isinstance(content, list) and len(content) <= MOST_OWN
        for item in content[:MOST_OWN] if isinstance(content, list) else ():
            name = item.get("name") if isinstance(item, dict) else None
            if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
                right = False
                continue
            options, unknown_options, wrong = _options(item.get("options", {}), {}, base=_PLAIN)
            right = right and not wrong
            unknown = {n: v for n, v in item.items() if n not in ("name", "options")}
            self._unknown_in_presets.setdefault(name, (unknown, unknown_options))
            presets.append(Preset(name, options))
        return tuple(presets), [] if right else ["presets"]

    def _written_preset(self, preset: Preset) -> dict[str, Any]:
        unknown, unknown_options = self._unknown_in_presets.get(preset.name, ({}, {}))
        options = {**unknown_options, **_different(preset.options, _PLAIN)}
        return {**unknown, "name": preset.name, "options": options}


def _is_valid(name: str, value: Any) -> bool:
    text = value if isinstance(value, str) else None
    return {
        "device": text in DEVICES,
        "precision": text in PRECISIONS,
        "theme": text in THEMES,
        "zoom": type(value) is int and ZOOM[0] <= value <= ZOOM[1],
        "system_prompt": value is None or (text is not None and len(text) <= LONGEST_SYSTEM_PROMPT),
        "quiet": isinstance(value, bool),
        "suggest_titles": isinstance(value, bool),
        "sidebar_shown": isinstance(value, bool),
        "panel_shown": isinstance(value, bool),
        "open_chat": value is None or type(value) is int,
    }[name]


def _options(
    content: Any, former: dict[str, Any], *, base: SamplingOptions
) -> tuple[SamplingOptions, dict[str, Any], list[str]]:
    """The options in `content` over `base`, what is unknown in it, and what cannot be."""
    if not isinstance(content, dict):
        options, unknown, wrong = _options({}, former, base=base)
        return options, unknown, [*wrong, "options"]
    values: dict[str, Any] = {}
    wrong = []
    for name, value in {**former, **content}.items():
        if name not in OPTION_NAMES:
            continue
        fitting: Any = tuple(value) if isinstance(value, list) else value
        try:
            SamplingOptions(**{name: fitting})
        except OptionsError:
            wrong.append(name)
        else:
            values[name] = fitting
    unknown = {name: value for name, value in content.items() if name not in OPTION_NAMES}
    return replace(base, **values), unknown, wrong


def _different(options: SamplingOptions, base: SamplingOptions) -> dict[str, Any]:
    usual = asdict(base)
    return {name: value for name, value in asdict(options).items() if value != usual[name]}


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
