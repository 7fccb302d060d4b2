"""Our engine beside llama.cpp, transformers and plain torch: same weights, threads and work.

    python tests/bench/compare.py --rounds 3 --files /tmp/compare --json
    python tests/bench/compare.py --only decode --contexts 0 --peers engine,llama-cpp-python
    python tests/bench/compare.py --model random-1.7B --peers engine:int8,llama-cpp-python:q8_0

In one run, peers take turns in every round of a row; a row's figures are medians in tokens per
second, and a ratio is ours divided by the peer's. Decode is greedy, after a prompt of so many
tokens (0: of 16), one token a step: prompt look-up is off. A peer is a kind, or a kind and its
precision as in `engine:int8`. The Q8_0 and BF16 files are made of the values in the 4-bit file, so
all peers have the same weights; `--files` keeps them. Random models of the two larger shapes need
much memory: name few peers. On a shared computer `--patience` waits for others to be quiet; a busy
one flatters ours, which waits for its threads without spinning.

The peers beside transformers are no part of the project's environment; what is missing is left out:

    pip install xllamacpp
    CMAKE_ARGS="-DGGML_NATIVE=ON" pip install --no-binary llama-cpp-python llama-cpp-python
"""

import argparse
import json
import multiprocessing
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
from peer_files import make_files
from peers import KINDS, Answer, Job, Setup, busy_seconds, serve

PEERS = {
    **{
        f"engine:{precision}": ("engine", precision) for precision in ("q4", "int8", "bf16", "fp32")
    },
    **{
        f"{kind}:{precision}": (kind, precision)
        for kind in ("llama-cpp-python", "xllamacpp")
        for precision in ("q4_1", "q8_0", "bf16")
    },
    "transformers:bf16": ("transformers", "bf16"),
    "transformers:fp32": ("transformers", "fp32"),
    **{f"{kind}:bf16": (kind, "bf16") for kind in ("no-cache", "concatenation", "repeat-kv")},
}
FILES = {"q4": "q4_1", "int8": "q8_0", "fp32": "q4_1"}
"""Which file a precision is read from, where that is not of the same name."""
SHORT = 16  # tokens before the first one that is written, at a context of 0
LONG = 1024  # tokens of a prompt that needs no warming up
SETTLE = 0.05  # seconds between two jobs: a runtime's threads spin on for a moment
QUIET = 0.3  # seconds to look whether others are at work
NOISE = 0.05  # more than this share of all cores, and they are


# What is measured, and on what.


@dataclass
class Row:
    """One kind of work and what every peer made of it: its speeds, by way of doing it."""

    task: str
    tokens: int
    speeds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    others: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.task} {self.tokens}"

    def medians(self) -> dict[str, float]:
        """Each peer's best way's median."""
        return {
            peer: max(median(runs) for runs in ways.values()) for peer, ways in self.speeds.items()
        }

    def ways(self) -> dict[str, dict[str, float]]:
        """Medians of peers that have several ways."""
        return {
            peer: {way: round(median(runs), 1) for way, runs in ways.items()}
            for peer, ways in self.speeds.items()
            if len(ways) > 1
        }


class Children:
    """One process for each runtime and precision; started when first needed."""

    def __init__(
        self, files: dict[str, Path], *, home: Path, wish: argparse.Namespace, context: int
    ) -> None:
        self.files, self.home, self.context = files, home, context
        self.threads, self.patience = wish.threads, wish.patience
        self.running: dict[tuple[str, str], tuple] = {}
        self.left_out: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self.outside_us: dict[str, float] = {}

    def ask(self, peer: str, ids: list[int], steps: int = 0) -> Answer | None:
        """Have a peer do a job; None, and a line that says why, once it is found that it cannot."""
        if peer in self.left_out:
            return None
        job = Job(PEERS[peer][0], ids, steps)
        until = time.monotonic() + self.patience
        wait_for_quiet(until)
        answer = self._answer(peer, job)
        while isinstance(answer, Answer) and answer.others > NOISE and time.monotonic() < until:
            wait_for_quiet(until)
            answer = self._answer(peer, job)
        if isinstance(answer, str):
            self.left_out[peer] = answer
            print(f"{peer} is left out: {answer}", file=sys.stderr)
            return None
        self.versions[peer] = answer.version
        if answer.outside_us:
            self.outside_us[peer] = round(answer.outside_us, 1)
        return answer

    def _answer(self, peer: str, job: Job) -> Answer | str:
        kind, precision = PEERS[peer]
        key = KINDS[kind], precision
        if key not in self.running:
            self.running[key] = self._start(*key)
        pipe = self.running[key][1]
        try:
            pipe.send(job)
            return pipe.recv()
        except (EOFError, OSError):
            return "its process broke off"

    def _start(self, runtime: str, precision: str) -> tuple:
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe()
        setup = Setup(
            runtime,
            precision,
            self.files[FILES.get(precision, precision)],
            self.threads,
            self.context,
            self.home,
        )
        child = spawn.Process(target=serve, args=(theirs, setup), daemon=True)
        child.start()
        theirs.close()
        return child, ours

    def stop(self) -> None:
        """Let all children end."""
        for child, pipe in self.running.values():
            if child.is_alive():
                pipe.send(None)
            child.join(1)
            child.terminate()  # in the midst of a job, if this run was broken off


def wait_for_quiet(until: float) -> None:
    """Let the last runtime's threads stop spinning; and others finish, if `until` allows."""
    while True:
        busy, started = busy_seconds(), time.monotonic()
        time.sleep(SETTLE if started >= until else QUIET)
        now = time.monotonic()
        cores = (busy_seconds() - busy) / (now - started)
        if now >= until or cores < NOISE * multiprocessing.cpu_count():
            return


def measure(children: Children, wish: argparse.Namespace) -> Iterator[Row]:
    """Row by row; a prompt's own row comes just before the decoding after it, which keeps it."""
    numbers = np.random.default_rng(0).integers(3, 40_000, size=100_000)
    prompts = set(wish.prompts) if "prefill" in wish.only else set()
    contexts = {n or SHORT for n in wish.contexts} if "decode" in wish.only else set()
    for length in sorted(prompts | contexts):
        ids = numbers[:length].tolist()
        for task in ("prefill", "decode"):
            if length in (prompts if task == "prefill" else contexts):
                yield fill(Row(task, length), children, ids, wish)


def fill(row: Row, children: Children, ids: list[int], wish: argparse.Namespace) -> Row:
    """All rounds of a row, after one that is not counted; a long prompt needs no warming up."""
    warm_up = row.task == "decode" or row.tokens <= LONG
    for number in range(0 if warm_up else 1, wish.rounds + 1):
        for peer in wish.peers:
            steps = steps_for(peer, len(ids), wish.new_tokens) if row.task == "decode" else 0
            answer = children.ask(peer, ids, steps)
            if answer is None or number == 0:
                continue
            for way, speed in answer.speeds.items():
                row.speeds.setdefault(peer, {}).setdefault(way, []).append(speed)
            row.others.append(answer.others)
    for peer in children.left_out:
        row.speeds.pop(peer, None)
    return row


def steps_for(peer: str, length: int, new_tokens: int) -> int:
    """The slow ones make fewer steps."""
    if peer.startswith("no-cache"):
        return max(1, min(new_tokens, 2048 // length) - 1)
    return new_tokens - 1


# What is printed.


def best_of_llama_cpp(medians: dict[str, float]) -> float | None:
    """The fastest of its builds and precisions."""
    return max((speed for peer, speed in medians.items() if "llama" in peer), default=None)


def ratios(row: Row) -> dict[str, dict[str, dict[str, float]]]:
    """Our precision → peer → both medians and ours divided by the peer's."""
    medians = row.medians()
    others = {peer: speed for peer, speed in medians.items() if not peer.startswith("engine")}
    if (best := best_of_llama_cpp(medians)) is not None:
        others["best of llama.cpp"] = best
    return {
        mine: {
            peer: {
                "engine": round(speed, 2),
                "peer": round(other, 2),
                "ratio": round(speed / other, 2),
            }
            for peer, other in others.items()
        }
        for mine, speed in medians.items()
        if mine.startswith("engine")
    }


def table(row: Row) -> str:
    """A row as text: peers down, our precisions across."""
    compared, speeds = ratios(row), row.medians()
    if (best := best_of_llama_cpp(speeds)) is not None:
        speeds["best of llama.cpp"] = best
    lines = [f"{row.name:28}{'tok/s':>10}" + "".join(f"{mine:>13}" for mine in compared)]
    for peer, speed in speeds.items():
        line = f"  {peer:26}{speed:10.1f}"
        for peers in compared.values():
            line += f"{'× ' + format(peers[peer]['ratio'], '.2f') if peer in peers else '':>13}"
        lines.append(line.rstrip())
    lines.append(f"  others took {median(row.others or [0]):.0%} of the computer")
    return "\n".join(lines)


def processor() -> str:
    """Its name, and on Linux its family and model: a cloud's names say little."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n", 1)[0].splitlines()
    except OSError:
        return platform.processor()
    values = {key.strip(): value.strip() for key, _, value in (ln.partition(":") for ln in lines)}
    name = values.get("model name", platform.processor())
    return f"{name} (family {values.get('cpu family')}, model {values.get('model')})"


def result_of(rows: list[Row], children: Children, wish: argparse.Namespace) -> dict:
    """Everything, for --json."""
    return {
        "machine": {
            "processor": processor(),
            "cores": multiprocessing.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "model": wish.model or "default",
        "threads": wish.threads,
        "rounds": wish.rounds,
        "versions": children.versions,
        "left_out": children.left_out,
        "outside_llama_decode_us_a_step": children.outside_us,
        "rows": {
            row.name: {
                "median_tok_s": {peer: round(speed, 2) for peer, speed in row.medians().items()},
                "ways_tok_s": row.ways(),
                "others_share": {
                    "median": round(median(row.others or [0]), 3),
                    "most": round(max(row.others, default=0), 3),
                },
                "ratios": ratios(row),
            }
            for row in rows
        },
    }


# The command line.


def whole_numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def chosen_peers(text: str) -> list[str]:
    """Full names; a kind stands for all its precisions."""
    found = []
    for name in text.split(","):
        matching = [peer for peer in PEERS if peer == name or peer.split(":")[0] == name]
        if not matching:
            raise argparse.ArgumentTypeError(f"no peer {name!r}; there are {', '.join(PEERS)}")
        found += matching
    return found


def chosen_tasks(text: str) -> list[str]:
    tasks = text.split(",")
    if not set(tasks) <= {"decode", "prefill"}:
        raise argparse.ArgumentTypeError("decode, prefill or both")
    return tasks


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a GGUF file of 4 bits, random-360M or random-1.7B")
    parser.add_argument("--files", type=Path, help="folder for the files made; kept")
    parser.add_argument("--peers", type=chosen_peers, default=list(PEERS))
    parser.add_argument("--only", type=chosen_tasks, default=["decode", "prefill"])
    parser.add_argument("--contexts", type=whole_numbers, default=[0, 512, 2048, 4096])
    parser.add_argument("--prompts", type=whole_numbers, default=[512, 4096])
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--patience",
        type=float,
        default=0,
        help="seconds to wait, for each job, until other programs leave it alone",
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Measure row by row, showing each as soon as it is known."""
    wish = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and the children are ended, too
    longest = max(wish.contexts + wish.prompts) + wish.new_tokens
    with tempfile.TemporaryDirectory() as folder:
        files = wish.files or Path(folder)
        files.mkdir(parents=True, exist_ok=True)
        children = Children(
            make_files(wish.model, files),
            home=files / "home",
            wish=wish,
            context=-(-longest // 4096) * 4096,
        )
        rows = []
        try:
            for row in measure(children, wish):
                rows.append(row)
                print(table(row), end="\n\n", flush=True, file=sys.stderr if wish.json else None)
        finally:
            children.stop()
        if wish.json:
            print(json.dumps(result_of(rows, children, wish)))


if __name__ == "__main__":
    main()
