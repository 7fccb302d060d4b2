"""Where the time of a step goes: before (the module in torch) and after (the compiled step).

    python tests/bench/profile_step.py [MODEL]

For one token after nothing and after 4,096, and for prompts of 512 and 4,096. In the compiled step
the leader's own clock is read around each phase, so waiting for other threads is part of a phase.
`profile.md` keeps what was found.
"""

import os
import sys
import tempfile
import time
from collections import defaultdict
from statistics import median

os.environ["SMOLDESK_COMPILED"] = tempfile.mkdtemp()  # these kernels are not for keeping

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.loading import load
from engine.run.runner import Runner
from engine.step import kernels, simd

PHASES = ("normalise", "qkv", "rotate", "attend", "merge", "output", "gate and up", "round")
PHASES += ("down", "head")
CASES = (("one token", 0, 1), ("one token", 4096, 1), ("prompt", 0, 512), ("prompt", 0, 4096))
ROUNDS = 9

spent = np.zeros(len(PHASES), np.int64)
_SPENT = spent.ctypes.data
_share = kernels._share


@intrinsic
def cycles(typing):
    """The processor's count of cycles."""

    def generate(context, builder, sig, args):
        kind = ir.FunctionType(ir.IntType(64), [])
        return builder.call(builder.module.declare_intrinsic("llvm.readcyclecounter", (), kind), [])

    return types.int64(), generate


@simd.kernel
def _timed_share(plan, phase, member, dims, group):
    began = cycles()
    _share(plan, phase, member, dims, group)
    simd.add_shared(_SPENT + 8 * phase, cycles() - began)


def main() -> None:
    """Print a table for each case."""
    kernels._share = _timed_share
    model = sys.argv[1] if len(sys.argv) > 1 else None
    ids = np.random.default_rng(0).integers(1000, 40_000, 8192).tolist()
    for precision in ("q4", "int8"):
        runner = load(model, device="cpu", precision=precision).new_runner()
        for name, behind, count in CASES:
            _show(
                f"{precision}, {name} of {count:,} after {behind:,}",
                *_step(runner, ids, behind, count),
            )
    runner = load(model, device="cpu", precision="fp32").new_runner()
    for name, behind, count in CASES:
        _show(f"torch, {name} of {count:,} after {behind:,}", *_torch(runner, ids, behind, count))


def _read(runner: Runner, ids: list[int]) -> None:
    for start in range(0, len(ids), runner.chunk_size):
        runner.read(ids[start : start + runner.chunk_size])


def _step(
    runner: Runner, ids: list[int], behind: int, count: int
) -> tuple[float, dict[str, float]]:
    """Seconds, and the share of each phase; the median round's."""
    runner.truncate(0)
    if behind:
        _read(runner, ids[:behind])
    rounds = []
    for _ in range(ROUNDS):
        runner.truncate(behind)
        spent[:] = 0
        began = time.perf_counter()
        _read(runner, ids[behind : behind + count])
        rounds.append((time.perf_counter() - began, spent.copy()))
    seconds = median(seconds for seconds, _ in rounds)
    _, counts = min(rounds, key=lambda each: abs(each[0] - seconds))
    return seconds, dict(zip(PHASES, (counts / counts.sum()).tolist(), strict=True))


def _torch(
    runner: Runner, ids: list[int], behind: int, count: int
) -> tuple[float, dict[str, float]]:
    """The same for the module, by kinds of operations."""
    runner.truncate(0)
    if behind:
        _read(runner, ids[:behind])
    measured = []
    for _ in range(3):
        runner.truncate(behind)
        began = time.perf_counter()
        _read(runner, ids[behind : behind + count])
        measured.append(time.perf_counter() - began)
    runner.truncate(behind)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        _read(runner, ids[behind : behind + count])
    times: dict[str, float] = defaultdict(float)
    for event in profile.key_averages():
        times[event.key.removeprefix("aten::")] += event.self_cpu_time_total
    total = sum(times.values())
    return median(measured), {name: value / total for name, value in times.items()}


def _show(title: str, seconds: float, shares: dict[str, float]) -> None:
    print(f"{title}: {1000 * seconds:.2f} ms")
    for name, share in sorted(shares.items(), key=lambda each: -each[1])[:10]:
        if share >= 0.005:
            print(f"    {name:<34}{100 * share:5.1f} %{1000 * seconds * share:10.2f} ms")


if __name__ == "__main__":
    main()
