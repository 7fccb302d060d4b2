"""Packed weights kept on disk: mapped in a moment, where packing them takes seconds.

A file holds a line of JSON that says what it was made from, then norms and matrices. It is used
only if that is still what the model's files are, and if its checksum is right; else it is made
again.
"""

import contextlib
import hashlib
import json
import mmap
import os
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from engine.model.config import ModelConfig
from engine.step.packing import padded
from engine.step.weights import PackedWeights, matrix_count, size_of

_VERSION = 2
_HEADER = 2**16  # bytes; a multiple of every system's page
_SUFFIX = ".packed"
_SAMPLES, _SAMPLE = 32, 4096  # bytes; what else a file has besides its size and its time


def load_packed(
    folder: Path, sources: Sequence[Path], config: ModelConfig, precision: str
) -> PackedWeights | None:
    """The weights kept for these files in that precision; None if none can be trusted."""
    path = _place(folder, sources, precision)
    if not path.is_file():  # a pipe would keep us waiting for ever
        return None
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        header = json.loads(mapped[:_HEADER].rstrip(b"\0"))
        if header["made_from"] != _made_from(sources, config, precision):
            return None
        table = np.array(header["table"], np.int64)
        rows, columns = 2 * config.num_hidden_layers + 1, padded(config.hidden_size)
        contents = np.frombuffer(mapped, np.uint8, offset=_HEADER)
        split = rows * columns * 4
        if (
            table.shape != (matrix_count(config), 2)
            or len(contents) != split + size_of(table, config)
            or zlib.crc32(contents.data) != header["crc32"]
        ):
            return None
        norms = contents[:split].view(np.float32).reshape(rows, columns)
        return PackedWeights(contents[split:], table, norms)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def keep_packed(
    folder: Path,
    sources: Sequence[Path],
    config: ModelConfig,
    precision: str,
    weights: PackedWeights,
) -> None:
    """Keep them for the next start, if there is room; what belongs to vanished files goes."""
    path = _place(folder, sources, precision)
    crc = zlib.crc32(weights.data.data, zlib.crc32(weights.norms.data))
    header = {
        "made_from": _made_from(sources, config, precision),
        "table": weights.table.tolist(),
        "crc32": crc,
    }
    with contextlib.suppress(OSError):  # a full disk costs seconds at the next start, no more
        folder.mkdir(parents=True, exist_ok=True)
        _prune(folder)
        handle, name = tempfile.mkstemp(dir=folder, suffix=_SUFFIX + ".part")
        try:
            with open(handle, "wb") as file:
                file.write(json.dumps(header).encode().ljust(_HEADER, b"\0"))
                file.write(weights.norms.data)
                file.write(weights.data.data)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise


def _place(folder: Path, sources: Sequence[Path], precision: str) -> Path:
    name = hashlib.sha256("\n".join(str(source.resolve()) for source in sources).encode())
    return folder / f"{name.hexdigest()[:16]}-{precision}{_SUFFIX}"


def _made_from(sources: Sequence[Path], config: ModelConfig, precision: str) -> dict[str, Any]:
    """What the packed weights follow from, as JSON has it."""
    files = [[str(source.resolve()), *_stamp(source)] for source in sources]
    made_from = {
        "version": _VERSION,
        "precision": precision,
        "files": files,
        "config": asdict(config),
    }
    same: dict[str, Any] = json.loads(json.dumps(made_from))
    return same


def _stamp(source: Path) -> tuple[int, int, str]:
    """Size, time of change, and a digest of samples: copying tools give old times to new files."""
    digest = hashlib.sha256()
    with source.open("rb") as file:
        status = os.fstat(file.fileno())
        for number in range(_SAMPLES):
            file.seek(number * max(0, status.st_size - _SAMPLE) // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE))
    return status.st_size, status.st_mtime_ns, digest.hexdigest()


def _prune(folder: Path) -> None:
    """Remove what was made from files that are gone or are others now."""
    for path in folder.glob(f"*{_SUFFIX}*"):
        if not path.is_file():
            continue
        try:
            with path.open("rb") as file:
                made_from = json.loads(file.read(_HEADER).rstrip(b"\0"))["made_from"]
            files = made_from["files"]
            gone = made_from["version"] != _VERSION or not all(
                [*_stamp(Path(name))] == stamp for name, *stamp in files
            )
        except (OSError, ValueError, KeyError, TypeError):
            gone = True  # what another start left half written, too
        if gone:
            path.unlink(missing_ok=True)
