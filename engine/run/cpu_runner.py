"""The compiled step as a runner: what a CPU runs models with."""

from collections.abc import Iterator, Sequence
from threading import Event

import numpy as np
import numpy.typing as npt

from engine.errors import DeviceError
from engine.model.config import ModelConfig
from engine.run.branches import Branches
from engine.run.runner import Runner, raise_when_set
from engine.step.cache import StepCache
from engine.step.compiled import compiled
from engine.step.plan import MOST_TOKENS, Plan
from engine.step.team import Team
from engine.step.weights import PackedWeights, parameter_count

_CHUNK_WORK = 2e10
"""Weights times tokens in one step of a prompt, which Stop has to wait for: a tenth of a second."""
_FEWEST_TOKENS = 16

Logits = npt.NDArray[np.float32]


class CpuRunner(Runner):
    """Reads a prompt in steps of many tokens, and a reply in steps of one, with the same code.

    A token's numbers are the same to the last bit in whatever company it is read. `budget` is how
    many bytes of what was read before may stay in memory; None: what suits this computer.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: PackedWeights,
        *,
        threads: int,
        chunk_size: int | None = None,
        budget: int | None = None,
    ) -> None:
        fitting = int(_CHUNK_WORK / parameter_count(config)) // 8 * 8
        super().__init__(config, chunk_size or max(_FEWEST_TOKENS, min(MOST_TOKENS, fitting)))
        self._plan = Plan(config, weights, members=threads)
        kernels = compiled(config.head_dim, config.group_size)
        self.team = Team(kernels, self._plan, threads)
        self._branches = Branches(StepCache(config), chunk_size=self.chunk_size, budget=budget)

    @property
    def exact(self) -> bool:
        """True."""
        return True

    @property
    def ids(self) -> list[int]:
        """The tokens that are read on from, for looking at only."""
        return self._branches.current.ids

    @property
    def bytes_per_token(self) -> int:
        """What a step of one token reads: all weights, one row of the embedding, the cache."""
        return self._plan.weights.bytes_per_token + self._branches.current.cache.nbytes

    def recall(self, ids: Sequence[int], *, whole_chunks: bool = False) -> int:
        """Hold the longest beginning of `ids` that need not be read; see `Runner.recall`.

        `whole_chunks` is of no concern here: chunks do not change the numbers.
        """
        return self._branches.recall(ids, whole_chunks=False)

    def truncate(self, length: int) -> None:
        """Forget all tokens from position `length` on."""
        self._branches.current.truncate(length)

    def read(self, ids: Sequence[int], *, cancel: Event | None = None) -> Logits:
        """Append one or more tokens; see `Runner.read`."""
        *_, last = self._read(ids, cancel, each=False)
        logits: Logits = last[0]
        return logits

    def read_each(self, ids: Sequence[int], *, cancel: Event | None = None) -> Logits:
        """Append one or more tokens; see `Runner.read_each`."""
        return np.concatenate(list(self._read(ids, cancel, each=True)))

    def widen(self) -> bool:
        """False: activations are in fp32 already."""
        return False

    def _read(self, ids: Sequence[int], cancel: Event | None, *, each: bool) -> Iterator[Logits]:
        """Read in chunks; logits after each of a chunk's tokens, or (1, vocab) after its last."""
        if not ids:
            raise ValueError("there are no tokens to read")
        self._prepare(len(ids))
        for start in range(0, len(ids), self.chunk_size):
            raise_when_set(cancel)
            yield self._step(ids[start : start + self.chunk_size], each)

    def _prepare(self, count: int) -> None:
        """Make room for `count` tokens more."""
        self._check_room(count)
        cache = self._branches.current.cache
        while True:
            try:
                # A step fills whole tiles and groups of tokens, of which the last are not used.
                cache.reserve(cache.length + count + MOST_TOKENS)
                return
            except MemoryError as error:
                if not self._branches.drop_others():
                    raise DeviceError(
                        "The computer ran out of memory while replying.",
                        "Close other programs, or start a shorter conversation.",
                    ) from error

    def _step(self, ids: Sequence[int], each: bool) -> Logits:
        cache = self._branches.current.cache
        count = len(ids) if each else 1
        logits = self._plan.new_logits(count)
        self._plan.describe(ids, cache.length, logits)
        self._plan.set(
            keys=cache.keys.ctypes.data, values=cache.values.ctypes.data, capacity=cache.capacity
        )
        self.team.step()
        cache.length += len(ids)
        self._branches.add(ids)
        return logits[:count, : self.vocab_size]
