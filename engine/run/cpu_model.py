"""A model made ready for the compiled step: its precision, its packed weights, compiled code."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event

from engine.errors import EngineError, OptionsError, StoppedError
from engine.files.gguf import GGUFFile
from engine.files.weights import StoredWeights, open_weights, source_files
from engine.model.config import ModelConfig
from engine.places import data_dir
from engine.run.backends import Precision
from engine.run.runner import Runner

STEP_PRECISIONS: tuple[Precision, ...] = ("q4", "int8", "bf16")
"""What the compiled step can do; torch does the others."""

_FOUR_BITS = ("Q4_0", "Q4_1")
_COMPILING = 0.9  # where progress stands while numba compiles, seconds at the very first start


class NoStepError(Exception):
    """The compiled step cannot run here; why not, in plain words."""


def runners_for(
    path: Path,
    config: ModelConfig,
    header: GGUFFile | None = None,
    *,
    wanted: Precision | None,
    threads: int,
    progress: Callable[[float], None],
    cancel: Event | None,
) -> tuple[Callable[[], Runner], Precision]:
    """What makes runners that share the model's weights, and the precision of these.

    That is the one asked for, or the file's own 4 bits, or 8. What was prepared before is used
    again. Raises NoStepError, OptionsError for 4 bits of a file that has none, StoppedError soon
    after `cancel` is set, and what `open_weights` does.
    """
    if config.head_dim % 32:  # rotary embedding turns halves, and a vector is 16 numbers
        raise NoStepError(f"heads of {config.head_dim} numbers are unusual")
    try:
        from engine.run.cpu_runner import CpuRunner
        from engine.step.convert import kinds_for, pack
        from engine.step.store import keep_packed, load_packed
    except (ImportError, OSError) as error:  # no numba for this platform or Python
        raise NoStepError(f"numba is missing ({error})") from error

    def before_matrix(share: float) -> None:
        if cancel is not None and cancel.is_set():
            raise StoppedError("Loading the model was stopped.")
        progress(share * _COMPILING)

    folder = data_dir() / "prepared"
    with open_weights(path, config, header) as stored:
        precision = wanted or ("q4" if _has_4_bits(stored) else "int8")
        if precision == "q4" and not _has_4_bits(stored):
            raise OptionsError(
                f"{path.name} has no weights of 4 bits (Q4_0 or Q4_1).", "Choose int8 or bf16."
            )
        files = source_files(path)
        weights = load_packed(folder, files, config, precision)
        if weights is None:
            weights = pack(stored, config, kinds_for(stored, config, precision), before_matrix)
            keep_packed(folder, files, config, precision, weights)
    before_matrix(1.0)
    new_runner = partial(CpuRunner, config, weights, threads=threads)
    _try_out(new_runner)
    progress(1.0)
    return new_runner, precision


def _has_4_bits(stored: StoredWeights) -> bool:
    return any(tensor.type_name in _FOUR_BITS for tensor in stored.values())


def _try_out(new_runner: Callable[[], Runner]) -> None:
    """Compile, or load what was compiled; also fetches mapped weights from the disk."""
    try:
        new_runner().read([0])
    except EngineError:
        raise
    except Exception as error:  # whatever numba and LLVM may raise
        raise NoStepError(f"its code was not compiled ({type(error).__name__})") from error
