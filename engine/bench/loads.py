"""How long loading takes, the first time and every other: each in a process of its own.

Run as a program, `python -m engine.bench.loads MODEL DEVICE PRECISION THREADS` is such a process.
Of the engine it imports only what is named here before its clock starts, which loads next to
nothing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from engine.bench import Say
from engine.errors import EngineError
from engine.openmp import share_cores

_WITH = {"first": "all preparing and compiling included", "second": "from what was kept"}


def load_times(
    model: Path,
    *,
    device: str,
    precision: str,
    threads: int,
    rounds: int,
    say: Say,
) -> dict[str, float]:
    """Seconds until a model answers, `first` with nothing prepared and `second` right after it.

    Counted is everything after `import torch`: the engine's own imports, reading the model's files
    (which the system still has in memory), converting or mapping weights, compiling, and the first
    two tokens of a reply. The model stands in an empty folder that is also the process's
    SMOLDESK_HOME, so nothing of the user's is used or changed. Raises EngineError.
    """
    seconds: dict[str, list[float]] = {"first": [], "second": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="smoldesk-bench-") as folder:
            alone = _place_alone(model, Path(folder) / "model")
            for name, measured in seconds.items():
                command = [str(alone), device, precision, str(threads)]
                measured.append(_in_new_process(command, Path(folder)))
                say(f"{name} load: {measured[-1]:.2f} s ({_WITH[name]})")
    return {name: median(measured) for name, measured in seconds.items()}


def _place_alone(model: Path, folder: Path) -> Path:
    """The model's own files and nothing else in a new folder; they are linked, or else copied."""
    folder.mkdir()
    for file in _own_files(model):
        try:
            # Resolved: a link to a link would point to where nothing is, as in the Hub's cache.
            os.link(file.resolve(), folder / file.name)
        except OSError:  # another disk, or one that knows no links
            shutil.copy2(file, folder / file.name)
    return folder if model.is_dir() else folder / model.name


def _own_files(model: Path) -> Iterator[Path]:
    from engine.files.hub_folder import model_form, weight_files

    if model_form(model) == "gguf":
        yield model
        return
    yield from weight_files(model) if model.is_dir() else [model]
    beside = model if model.is_dir() else model.parent
    yield from beside.glob("*.json")
    yield from beside.glob("*.jinja")


def _in_new_process(arguments: list[str], home: Path) -> float:
    environment = os.environ | {"SMOLDESK_HOME": str(home)}
    environment.pop("SMOLDESK_COMPILED", None)  # it may be set to where our own compiled code is
    done = subprocess.run(
        [sys.executable, "-m", "engine.bench.loads", *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:]
        raise EngineError("The model could not be loaded in a process of its own.", *reason)
    return float(done.stdout)


def _load(model: str, device: str, precision: str, threads: str) -> float:
    share_cores()
    import torch  # noqa: F401 - before the clock starts

    started = time.perf_counter()
    from engine.loading import load
    from engine.options import SamplingOptions

    engine = load(Path(model), device=device, precision=precision, threads=int(threads))
    ids = engine.tokenizer.encode("Once upon a time")
    options = SamplingOptions(temperature=0, max_new_tokens=2, end_loops=False)
    for _ in engine.session().complete(ids, options):
        pass
    return time.perf_counter() - started


if __name__ == "__main__":
    try:
        print(_load(*sys.argv[1:]))
    except EngineError as error:
        sys.exit(str(error))
