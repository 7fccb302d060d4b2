"""Every fact about what must be loaded before what, each with its reason."""

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from engine.openmp import share_cores


def before_qt() -> None:
    """Windows: torch 2.9 and later, imported after Qt, fail to load their libraries.

    Qt brings an older C++ runtime of the same name (pytorch#169429), so the library that needs the
    newer one goes first. It is small; torch itself still waits for the engine's thread.
    """
    if sys.platform == "win32":
        folder = _torch_libraries()
        if folder is not None:
            os.add_dll_directory(str(folder))
            with contextlib.suppress(OSError):  # the import of torch will say it better
                ctypes.WinDLL(str(folder / "c10.dll"))


def before_torch() -> None:
    """Loads torch's big library in a way that lets go of the GIL, so that the window stays fluid.

    `import torch` holds the GIL while the loader works, some hundred milliseconds; ctypes does not.
    """
    share_cores()
    folder = _torch_libraries()
    if folder is None or "torch" in sys.modules:
        return
    name = {"darwin": "libtorch_cpu.dylib", "win32": "torch_cpu.dll"}.get(
        sys.platform, "libtorch_cpu.so"
    )
    with contextlib.suppress(OSError):  # the import of torch will say it better
        ctypes.CDLL(str(folder / name))


@contextlib.contextmanager
def unswept() -> Iterator[None]:
    """For the import of torch: what it leaves in memory is never searched for garbage.

    Its some hundred thousand objects stay for good, and every full search of them would stop all
    threads, the window's too, for a tenth of a second.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _torch_libraries() -> Path | None:
    spec = find_spec("torch")  # finds, without importing
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "lib"
