"""The module itself and a cache that grows: the CPU's runner."""

import math
from collections.abc import Sequence
from threading import Event

import numpy as np
import torch

from engine.errors import DeviceError
from engine.model.kv_cache import KVCache
from engine.model.llama import Llama
from engine.run.runner import Runner, is_out_of_memory, raise_when_set

_CHUNK_WORK = 4e10
"""Parameters times tokens in one chunk: a quarter of a second on two laptop cores.

Half as many read a sixth slower, twice as many no faster. Stop does not wait for a chunk's end.
"""


class TorchRunner(Runner):
    """Runs the module as it is; any torch device will do."""

    def __init__(self, model: Llama, *, chunk_size: int | None = None) -> None:
        super().__init__(model, chunk_size or _default_chunk_size(model))
        self._cache: KVCache | None = None

    def truncate(self, length: int) -> None:
        """Forget all tokens from position `length` on."""
        if self._cache is not None:
            self._cache.truncate(length)
        del self.ids[length:]

    @torch.inference_mode()
    def read(self, ids: Sequence[int], *, cancel: Event | None = None) -> np.ndarray:
        """Append one or more tokens; see `Runner.read`."""
        self._check_room(len(ids))
        try:
            output = self._model(
                torch.tensor([ids], device=self._model.device),
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
                before_layer=lambda layer: raise_when_set(cancel),
            )
            logits: np.ndarray = output.logits[0, -1].float().cpu().numpy()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise DeviceError(
                "The computer ran out of memory while replying.",
                "Close other programs, or start a shorter conversation.",
            ) from error
        self._cache = output.past_key_values
        self.ids.extend(ids)
        return logits

    def _drop_cache(self) -> None:
        self._cache = None


def _default_chunk_size(model: Llama) -> int:
    """How many prompt tokens to read at once.

    It depends on the model alone, never on measured speed: rounding differs a little between
    chunkings, and the same seed must give the same text.
    """
    parameters = sum(weight.numel() for weight in model.parameters())
    return max(8, min(512, 1 << round(math.log2(_CHUNK_WORK / parameters))))
