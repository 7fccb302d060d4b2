"""Whether a window can be shown at all, asked before Qt would end the program without a word."""

import ctypes
import os
import re
import socket
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

_OTHER_WAY = "To run without a screen, add --offscreen."


def display_problem(environ: Mapping[str, str] = os.environ) -> str | None:
    """One plain sentence or two on why no window can be shown here, or None if one can.

    Asks the display itself (a connection, closed at once) and loads the plugin that Qt will load
    anyway, so it costs about as much as what it spares. Only X11 and Wayland can be missing.
    """
    if sys.platform in ("win32", "darwin"):
        return None
    asked = [name.partition(":")[0] for name in environ.get("QT_QPA_PLATFORM", "").split(";")]
    if any(asked) and not any(name.startswith(("xcb", "wayland")) for name in asked):
        return _unknown_platform(asked)
    wayland = environ.get("WAYLAND_DISPLAY") and "xcb" not in asked
    if wayland and _wayland_answers(environ):
        return None
    if not environ.get("DISPLAY"):
        return f"There is no screen to show the window on. {_OTHER_WAY}"
    missing = _missing_library()
    if missing:
        return missing_library_sentence(missing)
    if not _x11_answers():
        return f"The screen {environ['DISPLAY']} cannot be reached. {_OTHER_WAY}"
    return None


def _unknown_platform(asked: list[str]) -> str | None:
    """Qt ends the program without a word if it has none of the plugins that were asked for."""
    folder = _platform_plugins()
    if folder is None or not folder.is_dir():
        return None
    known = sorted(path.stem.removeprefix("libq") for path in folder.glob("libq*.so"))
    if not known or any(name in known for name in asked):
        return None
    return (
        f"QT_QPA_PLATFORM asks for {';'.join(asked)}, which is not among {', '.join(known)}. "
        "Unset it, or choose one of these."
    )


def missing_library_sentence(message: str) -> str:
    """What to do about a loader's `message`, which begins with the library's name."""
    name = re.match(r"\s*(lib[\w.+-]+)", message)
    if name is None:
        return f"A system library is missing: {message} {_OTHER_WAY}"
    # Debian's rule: the name and its version's number, with a dash between two digits:
    # libfoo.so.1 -> libfoo1, libx11.so.6 -> libx11-6, libfoo-2.0.so.0 -> libfoo2.0-0.
    stem, _, version = name[1].partition(".so.")
    stem = re.sub(r"-(?=\d)", "", stem.lower()).replace("_", "-")
    package = f"{stem}{'-' if stem[-1:].isdigit() else ''}{version.partition('.')[0]}"
    return (
        f"The system library {name[1]} is missing, so no window can be shown. On Debian or "
        f"Ubuntu, install it with: sudo apt install {package}"
    )


def _wayland_answers(environ: Mapping[str, str]) -> bool:
    path = Path(environ.get("XDG_RUNTIME_DIR", "")) / environ["WAYLAND_DISPLAY"]
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(str(path))
    except OSError:
        return False
    return True


def _missing_library() -> str:
    """The loader's complaint about Qt's plugin for X11, or nothing."""
    folder = _platform_plugins()
    plugin = folder / "libqxcb.so" if folder is not None else None
    if plugin is None or not plugin.is_file():
        return ""  # another way of packing Qt, where this cannot be known
    try:
        ctypes.CDLL(str(plugin))
    except OSError as error:
        return str(error)
    return ""


def _platform_plugins() -> Path | None:
    spec = find_spec("PySide6")  # finds, without importing
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "Qt" / "plugins" / "platforms"


def _x11_answers() -> bool:
    """Whether the X server named by DISPLAY lets us in; it also checks who may connect."""
    try:
        xcb = ctypes.CDLL("libxcb.so.1")
    except OSError:
        return True  # without a way to ask, let Qt try
    xcb.xcb_connect.restype = ctypes.c_void_p
    xcb.xcb_connect.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    xcb.xcb_connection_has_error.argtypes = [ctypes.c_void_p]
    xcb.xcb_disconnect.argtypes = [ctypes.c_void_p]
    connection = xcb.xcb_connect(None, None)
    failed = bool(xcb.xcb_connection_has_error(connection))
    xcb.xcb_disconnect(connection)
    return not failed
