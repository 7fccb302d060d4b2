"""A model's folder as the Hub lays it out: `config.json` beside one or more safetensors files."""

import json
import os
import re
from pathlib import Path
from typing import Any, Literal

from engine.errors import ModelFileError, ModelNotFoundError
from engine.files.recognize import (
    FETCH_AGAIN,
    PICKLE_SUFFIXES,
    SAFE_FORMATS,
    FileKind,
    file_kind,
    unreadable,
)

SINGLE_FILE = "model.safetensors"
SHARD_INDEX = "model.safetensors.index.json"

_MAX_JSON_BYTES = 16 * 2**20
_MAX_SHARDS = 1000

# A plain name and nothing that could lead out of the folder.
_SHARD_NAME = re.compile(r"\w[\w.-]*\.safetensors")


def model_form(path: Path) -> FileKind | Literal["folder"]:
    """Return whether `path` is a GGUF file, a safetensors file or a folder.

    Raises as `file_kind` does for any other file.
    """
    return "folder" if os.path.isdir(path) else file_kind(path)


def weight_files(folder: Path) -> list[Path]:
    """Return the folder's safetensors files: the single one, or all that the index names.

    Raises ModelNotFoundError if the folder holds no weights at all, and ModelFileError if a part is
    missing, the index is damaged, or the weights are only there in a format that can run code.
    """
    if os.path.isfile(folder / SINGLE_FILE):
        return [folder / SINGLE_FILE]
    if os.path.isfile(folder / SHARD_INDEX):
        return _shards(folder)
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise unreadable(folder, error) from error
    pickles = [name for name in names if name.lower().endswith(PICKLE_SUFFIXES)]
    if pickles:
        raise ModelFileError(f"{folder} has its weights only as {pickles[0]}.", SAFE_FORMATS)
    raise ModelNotFoundError(
        f"There are no weights in {folder}.", f"A model's folder has a file {SINGLE_FILE}."
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read a small JSON file that must hold one object. Raises ModelFileError if it does not."""
    if not os.path.isfile(path):
        raise ModelFileError(
            f"{path.name} is missing in {path.parent}.", "Get the model's whole folder."
        )
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_JSON_BYTES + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        value = json.loads(text) if len(text) <= _MAX_JSON_BYTES else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ModelFileError(f"{path.name} is damaged: it is not a table in JSON.", FETCH_AGAIN)
    return value


def _shards(folder: Path) -> list[Path]:
    places = read_json(folder / SHARD_INDEX).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ModelFileError(f"{SHARD_INDEX} is damaged: it names no files.", FETCH_AGAIN)
    for name in places.values():
        if not isinstance(name, str) or not _SHARD_NAME.fullmatch(name):
            raise ModelFileError(
                f"{SHARD_INDEX} names {str(name)[:80]!r}, which is no plain safetensors file name.",
                FETCH_AGAIN,
            )
    names = sorted(set(places.values()))
    if len(names) > _MAX_SHARDS:
        raise ModelFileError(f"{SHARD_INDEX} names {len(names):,} files.", FETCH_AGAIN)
    missing = [name for name in names if not os.path.isfile(folder / name)]
    if missing:
        raise ModelFileError(
            f"{len(missing)} of {len(names)} parts of the model are missing in {folder}: "
            f"{', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''}.",
            "Get the missing files.",
        )
    return [folder / name for name in names]
