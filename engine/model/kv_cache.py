"""The keys and values of every token read so far, for all layers, in two tensors."""

from copy import copy
from math import prod
from typing import Self

import torch
from torch import Tensor

from engine.model.config import ModelConfig

_LEAST_CAPACITY = 256


class KVCache:
    """Takes memory when it is first written, and grows by doubling.

    `length` positions are valid in every layer.
    Keys are stored after rotation and before heads are shared out to their group, so a position
    costs `2 * layers * kv_heads * head_dim` numbers.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        batch_size: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.length = 0
        shape = (
            config.num_hidden_layers,
            batch_size,
            config.num_key_value_heads,
            0,
            config.head_dim,
        )
        self._position_nbytes = 2 * prod((*shape[:3], *shape[4:])) * dtype.itemsize
        self._keys = torch.empty(shape, dtype=dtype, device=device)
        self._values = torch.empty(shape, dtype=dtype, device=device)

    @property
    def capacity(self) -> int:
        """How many positions fit before the next growth."""
        return self._keys.shape[3]

    @property
    def batch_size(self) -> int:
        """How many sequences are kept."""
        return self._keys.shape[1]

    @property
    def nbytes(self) -> int:
        """How many bytes the valid positions take."""
        return self.length * self._position_nbytes

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write new positions of one layer; return all of that layer's, the new ones included.

        In: (batch, kv_heads, new, head_dim) each; out: (batch, kv_heads, length + new, head_dim).
        `length` stays: every layer of a step writes at the same place, `advance` ends the step.
        Gradients flow through the new positions; those read before are constants.
        """
        start, end = self.length, self.length + keys.shape[2]
        if end > self.capacity:
            self._reserve(_capacity_for(end))
        self._keys[layer, :, :, start:end] = keys.detach()
        self._values[layer, :, :, start:end] = values.detach()
        if keys.requires_grad:
            past_keys = self._keys[layer, :, :, :start].clone()
            past_values = self._values[layer, :, :, :start].clone()
            return torch.cat((past_keys, keys), dim=2), torch.cat((past_values, values), dim=2)
        return self._keys[layer, :, :, :end], self._values[layer, :, :, :end]

    def advance(self, count: int) -> None:
        """Count `count` positions as valid, once every layer has written them."""
        self.length += count

    def truncate(self, length: int) -> None:
        """Forget everything from position `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot cut a cache of {self.length} positions to {length}")
        self.length = length

    def copy_prefix(self, length: int) -> Self:
        """The first `length` positions as a cache of its own."""
        if not 0 <= length <= self.length:
            raise ValueError(f"a cache of {self.length} positions has no first {length}")
        copied = copy(self)
        copied.length = length
        copied._reserve(_capacity_for(length))
        return copied

    def _reserve(self, capacity: int) -> None:
        """Move what is valid into new tensors: both or, where memory runs out, none."""
        self._keys, self._values = (
            self._widened(self._keys, capacity),
            self._widened(self._values, capacity),
        )

    def _widened(self, old: Tensor, capacity: int) -> Tensor:
        new = old.new_empty((*old.shape[:3], capacity, old.shape[4]))
        new[:, :, :, : self.length] = old[:, :, :, : self.length]
        return new


def _capacity_for(length: int) -> int:
    """A power of two, so that growing copies each position once on average."""
    return max(_LEAST_CAPACITY, 1 << (length - 1).bit_length())
