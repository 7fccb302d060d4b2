"""The model and one conversation's cache, driven by token ids.

Invariant: `ids` is exactly what the cache holds, also after a read was stopped or failed.
"""

import copy
import math
from collections.abc import Callable, Sequence
from threading import Event

import numpy as np
import torch

from engine.errors import DeviceError, PromptTooLongError
from engine.model.kv_cache import KVCache
from engine.model.llama import Llama

_CHUNK_WORK = 4e10
"""Parameters times tokens in one chunk: a quarter of a second on two laptop cores.

Half as many read a sixth slower, twice as many no faster. Stop does not wait for a chunk's end.
"""


class Stopped(Exception):  # noqa: N818 - a signal, not an error
    """Reading was stopped on request; what was read before stays in the cache."""


class TorchRunner:
    """Reads token ids and gives the next token's logits, on any torch device."""

    def __init__(self, model: Llama, *, chunk_size: int | None = None) -> None:
        self._model = model
        self._cache: KVCache | None = None
        self.ids: list[int] = []
        self.chunk_size = chunk_size or _default_chunk_size(model)

    @property
    def max_positions(self) -> int:
        """How many tokens the model can remember."""
        return self._model.config.max_position_embeddings

    @property
    def vocab_size(self) -> int:
        """How many token ids the model knows."""
        return self._model.config.vocab_size

    def truncate(self, length: int) -> None:
        """Forget all tokens from position `length` on."""
        if self._cache is not None:
            self._cache.truncate(length)
        del self.ids[length:]

    @torch.inference_mode()
    def read(self, ids: Sequence[int], *, cancel: Event | None = None) -> np.ndarray:
        """Append one or more tokens; returns the logits after the last, (vocab,) fp32.

        `cancel` is looked at before each layer; then Stopped is raised. Raises PromptTooLongError
        when the tokens do not fit, DeviceError when memory runs out.
        """
        if len(self.ids) + len(ids) > self.max_positions:
            raise PromptTooLongError(
                f"{len(self.ids) + len(ids):,} tokens are more than the "
                f"{self.max_positions:,} that this model can remember."
            )
        try:
            output = self._model(
                torch.tensor([ids], device=self._model.device),
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
                before_layer=_raise_when_set(cancel),
            )
            logits: np.ndarray = output.logits[0, -1].float().cpu().numpy()
        except RuntimeError as error:
            if not _is_out_of_memory(error):
                raise
            raise DeviceError(
                "The computer ran out of memory while replying.",
                "Close other programs, or start a shorter conversation.",
            ) from error
        self._cache = output.past_key_values
        self.ids.extend(ids)
        return logits

    def widen(self) -> bool:
        """Go on in fp32 from here, with nothing read; False if it was fp32 already.

        For the rare input whose numbers break down in a narrower precision.
        """
        if self._model.dtype == torch.float32:
            return False
        self._model = copy.deepcopy(self._model).float()  # other sessions keep theirs
        self._cache = None
        self.ids.clear()
        return True


def _default_chunk_size(model: Llama) -> int:
    """How many prompt tokens to read at once.

    It depends on the model and device alone, never on measured speed: rounding differs a little
    between chunkings, and the same seed must give the same text.
    """
    if model.device.type != "cpu":
        return 512
    parameters = sum(weight.numel() for weight in model.parameters())
    return max(8, min(512, 1 << round(math.log2(_CHUNK_WORK / parameters))))


def _raise_when_set(cancel: Event | None) -> Callable[[int], None] | None:
    if cancel is None:
        return None

    def check(layer: int) -> None:
        if cancel.is_set():
            raise Stopped

    return check


def _is_out_of_memory(error: RuntimeError) -> bool:
    # The CPU's allocator raises a bare RuntimeError; its text is all there is to know it by.
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
