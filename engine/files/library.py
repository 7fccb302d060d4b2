"""Which models are installed, and which one is meant."""

import os
import reprlib
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.errors import EngineError, ModelNotFoundError
from engine.files.catalog import DEFAULT_MODEL
from engine.files.hub_folder import SHARD_INDEX, SINGLE_FILE, weight_files
from engine.files.recognize import FileKind, file_kind, unreadable


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A model on this computer. `path` is the file or folder to load, `bytes` its weights' size."""

    name: str
    path: Path
    bytes: int
    kind: FileKind


def installed_models(models_dir: Path) -> list[InstalledModel]:
    """Return the models in the subfolders of `models_dir`, sorted by name.

    What is half-done, damaged at first sight or something else is left out. No folder means no
    models; one that cannot be read raises EngineError.
    """
    try:
        models_dir.lstat()
    except FileNotFoundError:
        return []
    except OSError as error:  # a folder above it is closed to us, or is a file
        raise unreadable(models_dir, error) from error
    models: list[InstalledModel] = []
    for folder in _entries(models_dir):
        if folder.name.startswith(".") or not os.path.isdir(folder):
            continue
        # Not readable, or taken away meanwhile: no model for us.
        with suppress(EngineError, OSError):
            models += _models_in(folder)
    return models


def find_model(spec: str | Path | None, models_dir: Path) -> InstalledModel:
    """Return the model meant by `spec`: an installed one's name, or a path to a file or folder.

    None means the default model, or else the first one installed. Raises ModelNotFoundError,
    saying how to get a model, and ModelFileError for a path to something that is no model.
    """
    if isinstance(spec, Path):
        return _model_at(spec)
    installed = installed_models(models_dir)
    if spec is None:
        if not installed:
            _say_what_is_wrong(models_dir)
            raise ModelNotFoundError(f"No model is installed in {models_dir} yet.", _how_to_fetch())
        by_name = {model.name: model for model in installed}
        return by_name.get(DEFAULT_MODEL.name, installed[0])
    for model in installed:
        if model.name == spec:
            return model
    path = Path(os.path.expanduser(spec))
    if spec and os.path.exists(path):
        return _model_at(path)
    names = ", ".join(model.name for model in installed) or "none"
    raise ModelNotFoundError(
        f"There is no model {reprlib.repr(spec)}, neither by name nor as a path "
        f"(installed: {names}).",
        "Use one of those names, or the path of a model." if installed else _how_to_fetch(),
    )


def _how_to_fetch() -> str:
    """A command that works as it stands: in a source tree `smoldesk-cli` is not on the PATH."""
    here = f'"{sys.executable}" -m engine'
    command = "smoldesk-cli" if shutil.which("smoldesk-cli") else here
    return f"Run `{command} models --fetch-default` to get the default model."


def _say_what_is_wrong(models_dir: Path) -> None:
    """Raise the reason why a model that seems to be there is none: it may not be read, or is cut.

    Only asked when there is no other, so that one damaged file never stands in the way.
    """
    if not os.path.isdir(models_dir):
        return
    for folder in _entries(models_dir):
        if not folder.name.startswith(".") and os.path.isdir(folder):
            for path in _entries(folder):
                if path.suffix.lower() in (".gguf", ".safetensors"):
                    file_kind(path)


def _model_at(path: Path) -> InstalledModel:
    if not os.path.isdir(path):
        kind = file_kind(path)
        name = path.absolute().parent.name if path.name == SINGLE_FILE else path.stem
        return InstalledModel(name, path, os.path.getsize(path), kind)
    models = _models_in(path)
    if len(models) == 1:
        return models[0]
    if models:
        names = ", ".join(model.path.name for model in models)
        raise ModelNotFoundError(f"{path} holds several models: {names}.", "Give one's own path.")
    for weights in weight_files(path):  # say what is wrong with weights that are there
        file_kind(weights)
    raise ModelNotFoundError(
        f"{path} holds no complete model.", "A safetensors file needs its config.json beside it."
    )


def _models_in(folder: Path) -> list[InstalledModel]:
    """A folder's models: usually one, named like the folder."""
    files = [path for path in _entries(folder) if os.path.isfile(path)]
    found: list[tuple[Path, int, FileKind]] = [
        (path, os.path.getsize(path), "gguf")
        for path in files
        if path.suffix.lower() == ".gguf" and _is(path, "gguf")
    ]
    names = {path.name for path in files}
    if "config.json" in names and names & {SINGLE_FILE, SHARD_INDEX}:
        with suppress(EngineError):
            weights = weight_files(folder)
            if all(_is(path, "safetensors") for path in weights):
                found.append((folder, sum(map(os.path.getsize, weights)), "safetensors"))
    name = folder.absolute().name
    if len(found) == 1:
        return [InstalledModel(name, *found[0])]
    return [
        InstalledModel(f"{name}/{path.name if kind == 'gguf' else kind}", path, size, kind)
        for path, size, kind in found
    ]


def _is(path: Path, kind: FileKind) -> bool:
    try:
        return file_kind(path) == kind
    except EngineError:
        return False


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from error
