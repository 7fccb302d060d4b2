"""The module itself and caches that grow: the CPU's runner."""

import math
from collections.abc import Sequence
from threading import Event

import numpy as np
import torch

from engine.errors import DeviceError
from engine.model.kv_cache import KVCache
from engine.model.llama import Llama
from engine.run.branches import Branches
from engine.run.runner import ModelRunner, is_out_of_memory, raise_when_set

_CHUNK_WORK = 4e10
"""Parameters times tokens in one chunk: a quarter of a second on two laptop cores.

Half as many read a sixth slower, twice as many no faster. Stop does not wait for a chunk's end.
"""


class TorchRunner(ModelRunner):
    """Runs the module as it is; any torch device will do.

    `budget` is how many bytes of what was read before may stay in memory; None: what suits this
    computer.
    """

    def __init__(
        self, model: Llama, *, chunk_size: int | None = None, budget: int | None = None
    ) -> None:
        super().__init__(model, chunk_size or _default_chunk_size(model))
        self._budget = budget
        self._branches = self._new_branches()

    @property
    def ids(self) -> list[int]:
        """The tokens that are read on from, for looking at only."""
        return self._branches.current.ids

    def recall(self, ids: Sequence[int], *, whole_chunks: bool = False) -> int:
        """Hold the longest beginning of `ids` that need not be read; see `Runner.recall`."""
        return self._branches.recall(ids, whole_chunks=whole_chunks)

    def truncate(self, length: int) -> None:
        """Forget all tokens from position `length` on."""
        self._branches.current.truncate(length)

    def read(self, ids: Sequence[int], *, cancel: Event | None = None) -> np.ndarray:
        """Append one or more tokens; see `Runner.read`."""
        last: np.ndarray = self._read(ids, logits_to_keep=1, cancel=cancel)[0]
        return last

    def read_each(self, ids: Sequence[int], *, cancel: Event | None = None) -> np.ndarray:
        """Append one or more tokens; see `Runner.read_each`."""
        return self._read(ids, logits_to_keep=len(ids), cancel=cancel)

    def _read(self, ids: Sequence[int], *, logits_to_keep: int, cancel: Event | None) -> np.ndarray:
        self._check_room(len(ids))
        while True:
            try:
                return self._forward(ids, logits_to_keep=logits_to_keep, cancel=cancel)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if not self._branches.drop_others():
                    raise DeviceError(
                        "The computer ran out of memory while replying.",
                        "Close other programs, or start a shorter conversation.",
                    ) from error

    @torch.inference_mode()
    def _forward(
        self, ids: Sequence[int], *, logits_to_keep: int, cancel: Event | None
    ) -> np.ndarray:
        """The logits after the last `logits_to_keep` of `ids`; after a failure, nothing is read."""
        branch = self._branches.current
        try:
            output = self._model(
                torch.tensor([ids], device=self._model.device),
                past_key_values=branch.cache,
                logits_to_keep=logits_to_keep,
                before_layer=lambda layer: raise_when_set(cancel),
            )
            logits: np.ndarray = output.logits[0].float().cpu().numpy()
        except BaseException:
            branch.cache.truncate(len(branch.ids))  # it counts tokens before the head is computed
            raise
        self._branches.add(ids)
        return logits

    def _new_branches(self) -> Branches[KVCache]:
        cache = KVCache(self._model.config, dtype=self._model.dtype, device=self._model.device)
        return Branches(cache, chunk_size=self.chunk_size, budget=self._budget)

    def _start_anew(self) -> None:
        self._branches = self._new_branches()


def _default_chunk_size(model: Llama) -> int:
    """How many prompt tokens to read at once.

    It depends on the model alone, never on measured speed: rounding differs a little between
    chunkings, and the same seed must give the same text.
    """
    parameters = sum(weight.numel() for weight in model.parameters())
    return max(8, min(512, 1 << round(math.log2(_CHUNK_WORK / parameters))))
