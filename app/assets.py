"""Finds the files that travel with the program."""

import sys
from pathlib import Path


def asset(name: str) -> Path:
    """The path of `assets/<name>`, in a source tree, an installed wheel or a frozen program."""
    here = Path(__file__).resolve().parent
    frozen = getattr(sys, "_MEIPASS", None)
    roots = [here / "assets", here.parent / "assets"]
    if frozen is not None:
        roots.insert(0, Path(frozen) / "assets")
    for root in roots:
        if (root / name).is_file():
            return root / name
    raise FileNotFoundError(f"The program's own file {name} is missing.")
