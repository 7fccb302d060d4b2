"""How fast tokens come while other programs keep the processor busy.

    python tests/bench/busy.py [--precision q4] [--seconds 6] [--json]

With no other process, with one, and with two that each keep a core busy: tokens per second, their
share of the first figure, and the 99th percentile of a step in milliseconds.
"""

import argparse
import json
import multiprocessing
import time

import numpy as np

from engine.loading import load
from engine.run.runner import Runner


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--precision", default="q4")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--json", action="store_true")
    wish = parser.parse_args()
    runner = load(wish.model, device="cpu", precision=wish.precision).new_runner()
    report = {}
    for busy in (0, 1, 2):
        others = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(busy)]
        for other in others:
            other.start()
        time.sleep(1.0)
        steps = np.array(_steps(runner, wish.seconds))
        for other in others:
            other.terminate()
            other.join()
        speed = len(steps) / steps.sum()
        report[busy] = {"tok_s": round(float(speed), 1), "p99_ms": _percentile(steps)}
        report[busy]["share"] = round(report[busy]["tok_s"] / report[0]["tok_s"], 3)
    if wish.json:
        print(json.dumps(report))
        return
    for busy, row in report.items():
        print(f"{busy} busy: {row['tok_s']} tok/s, {row['share']} of alone, p99 {row['p99_ms']} ms")


def _percentile(steps: np.ndarray) -> float:
    return round(float(np.percentile(steps, 99)) * 1000, 1)


def _spin() -> None:
    while True:
        pass


def _steps(runner: Runner, seconds: float) -> list[float]:
    """The time of each step from a short context on."""
    runner.truncate(0)
    runner.read(list(range(1000, 1016)))
    taken: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if len(runner.ids) >= 200:
            runner.truncate(16)
        began = time.perf_counter()
        runner.read([1234])
        taken.append(time.perf_counter() - began)
    return taken


if __name__ == "__main__":
    main()
