"""The model and one conversation's cache on a GPU: a step is captured once, then replayed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from engine.errors import DeviceError
from engine.model.llama import Llama
from engine.run.branches import ReadTokens
from engine.run.capture import Capture, Step, capture_for
from engine.run.fused_llama import FusedLlama
from engine.run.runner import ModelRunner, Stopped, is_out_of_memory, raise_when_set
from engine.run.static_cache import StaticCache

_CHUNK_SIZE = 512


class GpuRunner(ModelRunner):
    """Few kernels, and one launch for all that a step needs.

    Memory for the whole context is taken with the first token, and steps are bound to its
    addresses, so there is one branch. `capture` makes steps ready for replay; None means what suits
    the model's device.
    """

    def __init__(
        self, model: Llama, *, chunk_size: int | None = None, capture: Capture | None = None
    ) -> None:
        super().__init__(model, chunk_size or _CHUNK_SIZE)
        self._capture = capture or capture_for(model.device)
        self._decoder: _Decoder | None = None
        self._tokens = ReadTokens(self.chunk_size)

    @property
    def ids(self) -> list[int]:
        """The tokens that are read on from, for looking at only."""
        return self._tokens.ids

    @property
    def capture_failure(self) -> str:
        """Why steps run kernel by kernel although they were to be captured; "" if they are not."""
        return "" if self._decoder is None else self._decoder.capture_failure

    def recall(self, ids: Sequence[int], *, whole_chunks: bool = False) -> int:
        """Hold the longest beginning of `ids` that need not be read; see `Runner.recall`."""
        length = self._tokens.reusable(ids, whole_chunks=whole_chunks)
        self.truncate(length)
        return length

    @torch.inference_mode()
    def truncate(self, length: int) -> None:
        """Forget all tokens from position `length` on."""
        if not 0 <= length <= len(self.ids):
            raise ValueError(f"cannot cut a cache of {len(self.ids)} positions to {length}")
        self._forget(length, len(self.ids))
        self._tokens.truncate(length)

    @torch.inference_mode()
    def read(self, ids: Sequence[int], *, cancel: Event | None = None) -> np.ndarray:
        """Append one or more tokens; see `Runner.read`."""
        with self._reading(len(ids)) as decoder:
            if len(ids) == 1:
                raise_when_set(cancel)
                logits = decoder.step(ids[0], len(self.ids))
                self._tokens.add(ids)
            else:
                for hidden in self._chunks(decoder, ids, cancel):
                    last = hidden[-1:]
                logits = decoder.logits(last).reshape(-1)
        return logits

    @torch.inference_mode()
    def read_each(self, ids: Sequence[int], *, cancel: Event | None = None) -> np.ndarray:
        """Append one or more tokens; see `Runner.read_each`."""
        if len(ids) == 1:
            logits: np.ndarray = self.read(ids, cancel=cancel)
            return logits[None]
        with self._reading(len(ids)) as decoder:
            rows = [decoder.logits(hidden) for hidden in self._chunks(decoder, ids, cancel)]
            return np.concatenate(rows)

    def _start_anew(self) -> None:
        self._decoder = None
        self._tokens = ReadTokens(self.chunk_size)

    def _chunks(
        self, decoder: "_Decoder", ids: Sequence[int], cancel: Event | None
    ) -> Iterator[Tensor]:
        """Read chunk by chunk; yields each one's hidden states, (n, hidden_size)."""
        for start in range(0, len(ids), self.chunk_size):
            chunk = ids[start : start + self.chunk_size]
            hidden = decoder.chunk(chunk, len(self.ids), cancel)
            self._tokens.add(chunk)
            yield hidden

    @contextmanager
    def _reading(self, count: int) -> Iterator["_Decoder"]:
        """What to read `count` tokens with; failures leave nothing behind and are said plainly."""
        end = len(self.ids) + count
        if count < 1:
            raise ValueError("there are no tokens to read")
        self._check_room(count)
        try:
            if self._decoder is None:
                self._decoder = _Decoder(self._model, self._capture)
            yield self._decoder
        except Stopped:
            self._forget(len(self.ids), end)
            raise
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            self._forget(len(self.ids), end)
            raise DeviceError(
                "The GPU ran out of memory while replying.",
                "Close other programs that use it, or choose the CPU as the device.",
            ) from error

    def _forget(self, start: int, end: int) -> None:
        if self._decoder is not None:
            self._decoder.cache.forget(start, end)


class _StepTensors(NamedTuple):
    """Where a step finds its token id and position, (1,) each, and leaves its logits, (vocab,)."""

    token: Tensor
    position: Tensor
    logits: Tensor


class _Decoder:
    """The network with a cache, and steps on it ready to be run."""

    def __init__(self, model: Llama, capture: Capture) -> None:
        device = model.device
        self.cache = StaticCache(model.config, dtype=model.dtype, device=device)
        self.capture_failure = ""
        self._network = FusedLlama(model, self.cache)
        self._capture = capture
        self._steps: dict[int, Step] = {}  # by the stretch of the cache that they look at
        self._tensors = _StepTensors(
            token=torch.zeros(1, dtype=torch.long, device=device),
            position=torch.zeros(1, dtype=torch.long, device=device),
            logits=torch.zeros(model.config.vocab_size, device=device),
        )
        # Pinned memory is what a GPU can write to by itself.
        self._arrived = torch.zeros(model.config.vocab_size, pin_memory=device.type == "cuda")

    def step(self, token_id: int, position: int) -> np.ndarray:
        """Read one token at `position`; returns the logits after it, (vocab,) fp32."""
        self._tensors.token.fill_(token_id)
        self._tensors.position.fill_(position)
        stretch = self.cache.stretch(position + 1)
        if stretch not in self._steps:
            step = partial(_take_step, self._network, self._tensors, stretch=stretch)
            self._steps[stretch] = self._ready(step)
        self._steps[stretch]()
        self._arrived.copy_(self._tensors.logits)
        return self._arrived.numpy().copy()

    def chunk(self, ids: Sequence[int], start: int, cancel: Event | None) -> Tensor:
        """Read tokens at the positions from `start` on; returns hidden states, (n, hidden_size)."""
        device, end = self._tensors.token.device, start + len(ids)
        return self._network.hidden(
            torch.tensor(ids, device=device),
            torch.arange(start, end, device=device),
            stretch=self.cache.stretch(end),
            before_layer=partial(raise_when_set, cancel),
        )

    def logits(self, hidden: Tensor) -> np.ndarray:
        """(n, hidden_size) on the GPU to (n, vocab) fp32 here."""
        logits: np.ndarray = self._network.logits(hidden).float().cpu().numpy()
        return logits

    def _ready(self, step: Step) -> Step:
        """The step captured, or as it is once capturing has failed."""
        if self.capture_failure:
            return step
        try:
            return self._capture(step)
        except RuntimeError as error:
            self.capture_failure = str(error).partition("\n")[0] or type(error).__name__
            return step


def _take_step(network: FusedLlama, tensors: _StepTensors, *, stretch: int) -> None:
    """What is captured. No method: a step that knew its owner would keep the cache alive."""
    hidden = network.hidden(tensors.token, tensors.position, stretch=stretch)
    tensors.logits.copy_(network.logits(hidden)[0])
