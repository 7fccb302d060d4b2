"""The keys and values of what was read, as bf16, in the order in which the step reads them."""

import numpy as np
import numpy.typing as npt

from engine.model.config import ModelConfig
from engine.step.packing import LANES
from engine.step.plan import MOST_TOKENS, SPAN

_Words = npt.NDArray[np.uint16]


class StepCache:
    """`keys` (layer, kv_head, capacity / 16, head_dim, 16), `values` (…, capacity, head_dim).

    `length` positions are in use. It grows by doubling, so that a short chat takes little memory.
    """

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._outer = config.num_hidden_layers, config.num_key_value_heads
        self._head_dim = config.head_dim
        self._longest = -(-(config.max_position_embeddings + MOST_TOKENS) // SPAN) * SPAN
        self.length = 0
        self.capacity = 0
        self.keys, self.values = self._empty(0)

    @property
    def nbytes(self) -> int:
        """Bytes of the positions in use."""
        layers, heads = self._outer
        return layers * heads * self.length * self._head_dim * 4

    def reserve(self, length: int) -> None:
        """Make room for so many positions. Raises MemoryError, and is then as before."""
        if length <= self.capacity:
            return
        capacity = 2 * SPAN
        while capacity < length:
            capacity *= 2
        capacity = min(capacity, self._longest)
        keys, values = self._empty(capacity)
        self._copy(self.length, keys, values)
        self.keys, self.values, self.capacity = keys, values, capacity

    def truncate(self, length: int) -> None:
        """Forget all positions from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot cut a cache of {self.length} positions to {length}")
        self.length = length

    def copy_prefix(self, length: int) -> "StepCache":
        """Another cache with the first `length` positions."""
        copy = StepCache(self._config)
        copy.reserve(length)
        self._copy(length, copy.keys, copy.values)
        copy.length = length
        return copy

    def _empty(self, capacity: int) -> tuple[_Words, _Words]:
        tiles = capacity // LANES
        return (
            np.empty((*self._outer, tiles, self._head_dim, LANES), np.uint16),
            np.empty((*self._outer, capacity, self._head_dim), np.uint16),
        )

    def _copy(self, length: int, keys: _Words, values: _Words) -> None:
        tiles = -(-length // LANES)
        keys[:, :, :tiles] = self.keys[:, :, :tiles]
        values[:, :, :length] = self.values[:, :, :length]
