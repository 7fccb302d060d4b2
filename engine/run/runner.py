"""What drives the model by token ids for a session, on whatever device.

Invariant: `ids` is exactly what the current cache holds, also after a read was stopped or failed.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Event

import numpy as np
import torch

from engine.errors import PromptTooLongError
from engine.model.config import ModelConfig
from engine.model.llama import Llama


class Stopped(Exception):  # noqa: N818 - a signal, not an error
    """Reading was stopped on request; what was read before stays in the cache."""


class Runner(ABC):
    """Reads token ids and gives the next token's logits; `chunk_size` is for long prompts."""

    def __init__(self, config: ModelConfig, chunk_size: int) -> None:
        self._config = config
        self.chunk_size = chunk_size

    @property
    def max_positions(self) -> int:
        """How many tokens the model can remember."""
        return self._config.max_position_embeddings

    @property
    def vocab_size(self) -> int:
        """How many token ids the model knows."""
        return self._config.vocab_size

    @property
    def exact(self) -> bool:
        """Whether a token's numbers are the same to the last bit however tokens are grouped."""
        return False

    @property
    @abstractmethod
    def bytes_per_token(self) -> int:
        """What a step of one token reads: weights, and what it holds of the tokens before."""

    @property
    @abstractmethod
    def ids(self) -> list[int]:
        """The tokens that are read on from, for looking at only."""

    @abstractmethod
    def recall(self, ids: Sequence[int], *, whole_chunks: bool = False) -> int:
        """Hold the longest beginning of `ids` that need not be read, and nothing else; its length.

        `whole_chunks` is for replies that are to come out the same whatever was read before:
        rounding depends on how tokens were read, so only what was read in whole chunks, counted
        from the first token, is used again.
        """

    @abstractmethod
    def truncate(self, length: int) -> None:
        """Forget all tokens from position `length` on."""

    @abstractmethod
    def read(self, ids: Sequence[int], *, cancel: Event | None = None) -> np.ndarray:
        """Append one or more tokens; returns the logits after the last, (vocab,) fp32.

        The array is the caller's to keep. Stopped is raised soon after `cancel` is set, at the next
        layer at the latest. Raises PromptTooLongError when the tokens do not fit, DeviceError when
        memory runs out.
        """

    @abstractmethod
    def read_each(self, ids: Sequence[int], *, cancel: Event | None = None) -> np.ndarray:
        """Append one or more tokens; returns the logits after each, (n, vocab) fp32.

        For a few tokens: those of a long prompt would take gigabytes. Raises as `read`.
        """

    @abstractmethod
    def widen(self) -> bool:
        """Go on in fp32 from here, with nothing read; False if it was fp32 already.

        For the rare input whose numbers break down in a narrower precision.
        """

    def _check_room(self, count: int) -> None:
        total = len(self.ids) + count
        if total > self.max_positions:
            raise PromptTooLongError(
                f"{total:,} tokens are more than the {self.max_positions:,} that this model can "
                "remember."
            )


class ModelRunner(Runner):
    """A runner of torch's module."""

    def __init__(self, model: Llama, chunk_size: int) -> None:
        super().__init__(model.config, chunk_size)
        self._model = model

    @property
    def bytes_per_token(self) -> int:
        """The weights; see `Runner.bytes_per_token`."""
        weights = list(self._model.parameters())
        if not self._config.tie_word_embeddings:
            weights = weights[1:]  # of the embedding one row
        return sum(weight.nbytes for weight in weights)

    def widen(self) -> bool:
        """Go on with a copy of the model in fp32; see `Runner.widen`."""
        if self._model.dtype == torch.float32:
            return False
        self._model = copy.deepcopy(self._model).float()  # other sessions keep theirs
        self._start_anew()
        return True

    @abstractmethod
    def _start_anew(self) -> None:
        """Let go of all that was read: its numbers are of another precision."""


def raise_when_set(cancel: Event | None) -> None:
    """Raise Stopped if stopping was asked for."""
    if cancel is not None and cancel.is_set():
        raise Stopped


def is_out_of_memory(error: RuntimeError | MemoryError) -> bool:
    """Whether memory ran out, on any device."""
    # Only CUDA's allocator has a type for it; the others raise a bare RuntimeError.
    text = str(error).lower()
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(
        words in text for words in ("out of memory", "alloc_failed", "can't allocate memory")
    )
