"""What compare.py measures: each peer reads a prompt and writes greedily, in a child process.

A runtime has a process of its own, because OpenMP libraries that share one wait for each other by
spinning. A child sleeps at its pipe until it is given a job, and only one is ever at work. All
peers have the same weights, keep what they have read, and are asked for the last position's
logits only.
"""

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

UBATCHES = (512, 2048)
"""llama.cpp's n_ubatch: how much of a prompt it reads at a time; a row takes the better one."""


@dataclass(frozen=True)
class Setup:
    """What a child is started with; `context` is how many tokens there must be room for."""

    runtime: str
    precision: str
    file: Path
    threads: int
    context: int
    home: Path


@dataclass(frozen=True)
class Job:
    """Read `ids`, timed, if `steps` is 0; else make so many timed one-token steps after them."""

    kind: str
    ids: list[int]
    steps: int = 0


@dataclass(frozen=True)
class Answer:
    """`speeds` in tokens per second, one for each way of doing the job.

    `others` is the share of all cores that other processes took meanwhile. `outside_us` is what a
    step spends in this file and not in the peer, where that can be told.
    """

    speeds: dict[str, float]
    others: float
    version: str
    outside_us: float = 0.0


class OurEngine:
    """The engine as the program uses it: a session that completes a prompt.

    But for prompt look-up, which the peers do not do: what is written after a prompt without sense
    soon repeats itself, and would be guessed.
    """

    def __init__(self, setup: Setup) -> None:
        os.environ["SMOLDESK_HOME"] = str(setup.home)  # prepared weights do not go to the user's
        from engine.openmp import share_cores

        share_cores()
        from engine import session
        from engine.loading import load
        from engine.prompt_lookup import OneByOne

        session.reader_for = OneByOne  # no guesses
        self.engine = load(
            setup.file, device="cpu", precision=setup.precision, threads=setup.threads
        )
        self.session = self.engine.session()
        self.version = f"{self.engine.device.precision} on {self.engine.device.label}"

    def prefill(self, ids: list[int]) -> dict[str, float]:
        self.session = self.engine.session()
        return {"": self._complete(ids, 1).time_to_first_token}

    def decode(self, ids: list[int], steps: int) -> float:
        statistics = self._complete(ids, steps + 1)
        if statistics.new_tokens <= steps // 2:
            raise RuntimeError(f"the reply ended after {statistics.new_tokens} tokens")
        return steps / statistics.tokens_per_second

    def _complete(self, ids: list[int], new_tokens: int) -> Any:
        from engine.options import SamplingOptions

        options = SamplingOptions(temperature=0, max_new_tokens=new_tokens, end_loops=False)
        return list(self.session.complete(ids, options))[-1].statistics


class LlamaCppPython:
    """llama.cpp through llama-cpp-python's low-level functions: llama_decode and numpy's argmax."""

    def __init__(self, setup: Setup) -> None:
        import llama_cpp

        self.lib, self.setup = llama_cpp, setup
        self.quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)  # kept alive
        llama_cpp.llama_log_set(self.quiet, None)
        llama_cpp.llama_backend_init()
        parameters = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(bytes(setup.file), parameters)
        if not self.model:
            raise RuntimeError("llama.cpp did not take the file")
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(
            llama_cpp.llama_model_get_vocab(self.model)
        )
        self.contexts: dict[int, Any] = {}
        self.held: list[int] = []
        self.first = 0
        features = llama_cpp.llama_print_system_info().decode().strip()
        self.version = f"{llama_cpp.__version__}; {features}"

    def prefill(self, ids: list[int]) -> dict[str, float]:
        seconds = {}
        for size in reversed(UBATCHES if len(ids) > UBATCHES[0] else UBATCHES[:1]):
            context = self._context(size)
            started = time.perf_counter()
            self._read(context, ids, size)
            seconds[f"n_ubatch {size}"] = time.perf_counter() - started
        return seconds

    def decode(self, ids: list[int], steps: int) -> float:
        context = self._context(UBATCHES[0])
        if self.held != ids:
            self._read(context, ids, UBATCHES[0])
        token, inside = self.first, 0.0
        started = time.perf_counter()
        for _ in range(steps):
            before = time.perf_counter()
            self._decode(context, [token])
            inside += time.perf_counter() - before
            token = self._best(context)
        seconds = time.perf_counter() - started
        self.outside_us = (seconds - inside) / steps * 1e6
        self.lib.llama_memory_seq_rm(self.lib.llama_get_memory(context), 0, len(ids), -1)
        return seconds

    def _context(self, ubatch: int) -> Any:
        if ubatch not in self.contexts:
            parameters = self.lib.llama_context_default_params()
            parameters.n_ctx = self.setup.context
            parameters.n_batch = parameters.n_ubatch = ubatch
            parameters.n_threads = parameters.n_threads_batch = self.setup.threads
            parameters.flash_attn_type = self.lib.LLAMA_FLASH_ATTN_TYPE_ENABLED
            self.contexts[ubatch] = self.lib.llama_init_from_model(self.model, parameters)
            self._read(self.contexts[ubatch], list(range(3, 67)), ubatch)  # wakes its threads
        return self.contexts[ubatch]

    def _read(self, context: Any, ids: list[int], size: int) -> None:
        self.lib.llama_memory_clear(self.lib.llama_get_memory(context), True)
        for start in range(0, len(ids), size):
            self._decode(context, ids[start : start + size])
        self.held, self.first = ids, self._best(context)

    def _decode(self, context: Any, ids: Sequence[int]) -> None:
        tokens = (self.lib.llama_token * len(ids))(*ids)
        if self.lib.llama_decode(context, self.lib.llama_batch_get_one(tokens, len(ids))):
            raise RuntimeError("llama_decode failed")

    def _best(self, context: Any) -> int:
        import numpy as np

        logits = self.lib.llama_get_logits_ith(context, -1)
        return int(np.ctypeslib.as_array(logits, (self.vocab_size,)).argmax())


class XLlamaCpp:
    """llama.cpp's server inside xllamacpp, which has nothing lower; times are the server's own."""

    def __init__(self, setup: Setup) -> None:
        import importlib.metadata

        import xllamacpp

        self.lib, self.setup = xllamacpp, setup
        self.servers: dict[int, Any] = {}
        features = xllamacpp.get_system_info().strip()
        self.version = f"{importlib.metadata.version('xllamacpp')}; {features}"

    def prefill(self, ids: list[int]) -> dict[str, float]:
        return {
            f"n_ubatch {size}": self._timings(size, ids, 1, keep=False)["prompt_ms"] / 1000
            for size in reversed(UBATCHES if len(ids) > UBATCHES[0] else UBATCHES[:1])
        }

    def decode(self, ids: list[int], steps: int) -> float:
        timings = self._timings(UBATCHES[0], ids, steps + 1, keep=True)
        if timings["predicted_n"] != steps + 1:
            raise RuntimeError(f"the reply ended after {timings['predicted_n']} tokens")
        return timings["predicted_ms"] / 1000  # counted from the first token on, so `steps` steps

    def _timings(self, ubatch: int, ids: list[int], new_tokens: int, *, keep: bool) -> Any:
        if ubatch not in self.servers:
            self.servers[ubatch] = self._server(ubatch)
        request = {
            "prompt": ids,
            "n_predict": new_tokens,
            "temperature": 0,
            "samplers": ["temperature"],
            "ignore_eos": True,
            "cache_prompt": keep,
        }
        return self.servers[ubatch].handle_completions(request)["timings"]

    def _server(self, ubatch: int) -> Any:
        parameters = self.lib.CommonParams()
        parameters.model.path = str(self.setup.file)
        parameters.n_ctx = self.setup.context
        parameters.n_parallel = 1
        parameters.n_batch = parameters.n_ubatch = ubatch
        parameters.cpuparams.n_threads = self.setup.threads
        parameters.cpuparams_batch.n_threads = self.setup.threads
        kinds = self.lib.llama_flash_attn_type
        parameters.flash_attn_type = kinds.LLAMA_FLASH_ATTN_TYPE_ENABLED
        parameters.fit_params = False
        parameters.cache_ram_mib = 0
        parameters.n_ctx_checkpoints = 0
        parameters.port = 0  # it listens whether asked to or not: any free one
        parameters.verbosity = -1
        return self.lib.Server(parameters)


KINDS: dict[str, str] = {
    "engine": "engine",
    "llama-cpp-python": "llama-cpp-python",
    "xllamacpp": "xllamacpp",
    "transformers": "torch",
    "no-cache": "torch",
    "concatenation": "torch",
    "repeat-kv": "torch",
}
"""Each kind of peer, and the runtime it shares a process with."""


def serve(pipe: Connection, setup: Setup) -> None:
    """A child's life: answer each job with an Answer, or with words for why that cannot be."""
    warnings.filterwarnings("ignore", category=FutureWarning)  # renamed arguments of transformers
    peers: dict[str, Any] = {}
    while (job := received(pipe)) is not None:
        try:
            if job.kind not in peers:
                peers[job.kind] = make(job.kind, setup)
            answer: Answer | str = work(peers[job.kind], job)
        # A peer that cannot do this is left out, whatever it raised.
        except Exception as error:
            answer = f"{type(error).__name__}: {error}".splitlines()[0]
        pipe.send(answer)


def received(pipe: Connection) -> Job | None:
    """The next job; None if there is none any more, also because the parent has ended."""
    try:
        return pipe.recv()
    except EOFError:
        return None


def make(kind: str, setup: Setup) -> Any:
    """The peer of that kind."""
    own = {"engine": OurEngine, "llama-cpp-python": LlamaCppPython, "xllamacpp": XLlamaCpp}
    if kind in own:
        return own[kind](setup)
    from torch_peers import Reference, Transformers

    return Transformers(setup) if kind == "transformers" else Reference(setup, kind)


def work(peer: Any, job: Job) -> Answer:
    """Do one job and see what else the computer did meanwhile."""
    started, busy, own = time.perf_counter(), busy_seconds(), time.process_time()
    if job.steps:
        speeds = {"": job.steps / peer.decode(job.ids, job.steps)}
    else:
        speeds = {way: len(job.ids) / seconds for way, seconds in peer.prefill(job.ids).items()}
    others = busy_seconds() - busy - (time.process_time() - own)
    share = others / (time.perf_counter() - started) / (os.cpu_count() or 1)
    return Answer(speeds, max(0.0, share), peer.version, getattr(peer, "outside_us", 0.0))


def busy_seconds() -> float:
    """Time all cores have worked since the start of the computer; 0 where that is not told."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return 0.0
    idle = int(fields[3]) + int(fields[4])
    return (sum(map(int, fields[:8])) - idle) / os.sysconf("SC_CLK_TCK")
