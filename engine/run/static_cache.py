"""Keys and values of a whole context, reserved once, at addresses that never change.

Invariant: every number in it is finite unless the model's own numbers broke down. What a mask hides
is still multiplied, by 0, and 0 * NaN is NaN.
"""

import torch
from torch import Tensor

from engine.model.config import ModelConfig

_SHORTEST_STRETCH = 512


class StaticCache:
    """Room for `max_position_embeddings` positions in every layer.

    It does not know how many of them are in use: its owner does, and says so to the device in a
    tensor. So a step is the same calls at every position, and can be captured and replayed.
    """

    def __init__(
        self, config: ModelConfig, *, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        self.positions = config.max_position_embeddings
        # A layer's keys and values lie together, so that one call writes both.
        shape = (
            config.num_hidden_layers,
            2 * config.num_key_value_heads,
            config.max_position_embeddings,
            config.head_dim,
        )
        self._numbers = torch.zeros(shape, dtype=dtype, device=device)

    def stretch(self, length: int) -> int:
        """How many positions to look at when `length` are in use: a power of two from 512 on.

        Few different shapes, so few graphs, and no more than twice the work.
        """
        return min(max(_SHORTEST_STRETCH, 1 << (length - 1).bit_length()), self.positions)

    def write(self, layer: int, positions: Tensor, keys_values: Tensor) -> None:
        """Put the keys' heads, then the values', (n, 2 * kv_heads, head_dim), at `positions` (n,).

        `positions` is on the cache's device and is read there, when the call is carried out.
        """
        # Not index_copy_: on Apple's GPUs it takes time for all positions, not for the new ones.
        self._numbers[layer][:, positions] = keys_values.transpose(0, 1)

    def read(self, layer: int, stretch: int) -> tuple[Tensor, Tensor]:
        """The first `stretch` positions of a layer: views, (kv_heads, stretch, head_dim) each."""
        keys, values = self._numbers[layer, :, :stretch].chunk(2)
        return keys, values

    def forget(self, start: int, end: int) -> None:
        """Blank the positions from `start` up to `end`."""
        self._numbers[:, :, start:end] = 0
