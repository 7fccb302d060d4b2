"""Which device the model runs on, in which precision, with how many threads, and why."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from engine.errors import DeviceError, OptionsError
from engine.run.backends import (
    NO_GPU,
    NO_SUPPORT,
    Backend,
    DeviceName,
    Precision,
    gpu_backends,
    self_test,
    torch_dtype,
)

__all__ = ["DeviceChoice", "DeviceName", "Precision", "choose_device", "torch_dtype"]

MOST_THREADS = 256
_DEVICES: dict[str, DeviceName | None] = {"auto": None, "cuda": "cuda", "mps": "mps", "cpu": "cpu"}
_PRECISIONS: dict[str, Precision | None] = {
    "auto": None,
    "fp32": "fp32",
    "bf16": "bf16",
    "fp16": "fp16",
    "int8": "int8",
    "q4": "q4",
}
ON_CPU_ONLY: tuple[Precision, ...] = ("int8", "q4")
_ASKED_FOR = "you asked for it"


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """Where and how to run. `label` and `reason` are words for people."""

    name: DeviceName
    label: str
    reason: str
    precision: Precision  # on a CPU, torch's best; the compiled step has others
    threads: int  # for what the CPU does
    wanted: Precision | None = None  # the precision asked for


def choose_device(
    requested: str | None = None,
    *,
    precision: str | None = None,
    threads: int | None = None,
    quiet: bool = False,
    environ: Mapping[str, str] = os.environ,
    backends: Sequence[Backend] | None = None,
) -> DeviceChoice:
    """The device asked for; else the first GPU that passes its self-test; else the CPU.

    `requested`, `precision` and `threads` come from a flag or a setting; where one is None,
    SMOLDESK_DEVICE, SMOLDESK_PRECISION or SMOLDESK_THREADS counts. "auto" leaves the choice here.
    `quiet` leaves half of the threads to other programs.
    `backends` are the GPUs to consider, by default all that torch knows. Raises OptionsError for a
    value that is none, DeviceError if a device that was asked for is missing or fails.
    """
    device = _device_name(requested or environ.get("SMOLDESK_DEVICE") or "auto")
    wanted = _precision(precision or environ.get("SMOLDESK_PRECISION") or "auto")
    count = _thread_count(environ.get("SMOLDESK_THREADS") if threads is None else threads)
    if quiet:
        count = max(1, count // 2)
    if device == "cpu":
        return _cpu(_ASKED_FOR, wanted, count)
    if wanted in ON_CPU_ONLY:
        if device is None:
            return _cpu(f"only the CPU computes in {wanted}", wanted, count)
        raise DeviceError(f"{wanted} is for the CPU.", "Choose 'cpu' as the device, or bf16.")
    reasons = []
    for backend in gpu_backends() if backends is None else backends:
        if device not in (None, backend.name):
            continue
        choice, reason = _examine(backend, wanted, count, asked_for=device is not None)
        if choice is not None:
            return choice
        reasons.append(reason)
    # A GPU that fails says more than one that is missing, and that more than how torch was built.
    reasons.sort(key=lambda reason: (reason == NO_SUPPORT, reason == NO_GPU))
    reason = reasons[0] if reasons else NO_SUPPORT
    if device is None:
        return _cpu(reason, wanted, count)
    raise DeviceError(
        f"The device {device!r} cannot be used: {reason}.", "Choose 'auto' or 'cpu' instead."
    )


def cpu_features() -> Mapping[str, Any]:
    """What torch knows about this processor: names to flags and counts; empty if it cannot tell."""
    try:
        return torch.cpu.get_capabilities()
    except (AttributeError, RuntimeError):
        return {}


def cpu_precision(features: Mapping[str, Any], *, onednn: bool) -> Precision:
    """bf16 where the processor multiplies it itself and torch has the library that asks it to."""
    units = ("avx512_bf16", "amx_bf16", "bf16")  # the last is ARM's
    return "bf16" if onednn and any(features.get(unit) for unit in units) else "fp32"


def usable_cores(
    features: Mapping[str, Any], *, quota_file: Path = Path("/sys/fs/cgroup/cpu.max")
) -> int:
    """Physical cores this process may use: two threads on one core only get in each other's way.

    `quota_file` holds a container's share of time as Linux writes it: "200000 100000" or "max …".
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limits = [allowed or 1, features.get("num_physical_cores") or allowed or 1]
    try:
        time, period = quota_file.read_text(encoding="ascii").split()
        limits.append(int(time) // int(period))
    except (OSError, ValueError, ZeroDivisionError):
        pass  # no container, or no limit
    return max(1, min(limits))


def _examine(
    backend: Backend, wanted: Precision | None, threads: int, *, asked_for: bool
) -> tuple[DeviceChoice | None, str]:
    """This GPU in the first precision that passes, or None and why not."""
    missing = backend.missing()
    if missing:
        return None, missing
    failures: list[str] = []
    for precision in (wanted,) if wanted else backend.precisions:
        failure = self_test(backend, precision)
        if not failure:
            reason = _ASKED_FOR if asked_for else "it passed its self-test"
            if failures:
                reason += f", but not in {backend.precisions[0]}: {failures[0]}"
            choice = DeviceChoice(backend.name, backend.label(), reason, precision, threads, wanted)
            return choice, ""
        failures.append(failure)
    return None, f"the GPU failed its self-test: {failures[-1]}"


def _cpu(reason: str, wanted: Precision | None, threads: int) -> DeviceChoice:
    onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    best = cpu_precision(cpu_features(), onednn=onednn)
    return DeviceChoice("cpu", "CPU", reason, wanted or best, threads, wanted)


def _device_name(text: str) -> DeviceName | None:
    try:
        return _DEVICES[text.strip().lower()]
    except KeyError:
        names = ", ".join(_DEVICES)
        raise OptionsError(
            f"There is no device called {text!r}.", f"Use one of: {names}."
        ) from None


def _precision(text: str) -> Precision | None:
    name = text.strip().lower()
    if name in _PRECISIONS:
        return _PRECISIONS[name]
    remedy = f"Use one of: {', '.join(_PRECISIONS)}."
    raise OptionsError(f"There is no precision called {text!r}.", remedy)


def _thread_count(given: int | str | None) -> int:
    if given is None or given == "":
        return usable_cores(cpu_features())
    try:
        count = int(given)
    except ValueError:
        count = 0
    if not 1 <= count <= MOST_THREADS:
        raise OptionsError(
            f"The number of threads is {given!r}.",
            f"It must be a whole number from 1 to {MOST_THREADS}.",
        )
    return count
