"""What a step works on: the record that the kernels read, and the memory behind its addresses."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.model.config import ModelConfig
from engine.step.packing import LANES, padded
from engine.step.weights import PackedWeights

SPAN = 128
"""Positions whose attention is one unit of work."""
MOST_TOKENS = 128
"""How many tokens one step may read."""
AHEAD = 2048
"""Bytes that a kernel may fetch, but not use, beyond a matrix."""

NORMALISE, QKV, ROTATE, ATTEND, MERGE, OUTPUT, GATE_UP, ROUND, DOWN, HEAD = range(10)
"""The phases of a step: five multiply a matrix, a unit being 16 of its rows; ATTEND has units of
its own; the unit of the others is a token.
"""

_ADDRESSES = (
    "ticket done ids hidden projected attended inner inputs codes scales sums logits "
    "head matrices weights embedding norms rotation keys values scratch parts"
)
_SIZES = (
    "members closing batch count position wanted layers phase layer units stalls width hidden_size "
    "projected_stride query_size key_size key_heads inner_size input_stride code_stride "
    "scale_stride vocabulary head_kind embedding_kind capacity "
    "norm part_size scratch_size"
)
PLAN = np.dtype(
    [(name, np.int64) for name in (_ADDRESSES + " " + _SIZES).split()]
    + [("epsilon", np.float32), ("query_scale", np.float32)]
)


class Plan:
    """The record `plan` (1,), and every buffer that it points to.

    Addresses of a cache, and what `describe` sets, are all that changes from step to step.
    """

    def __init__(self, config: ModelConfig, weights: PackedWeights, *, members: int) -> None:
        self.record = np.zeros(1, PLAN)
        self.weights = weights
        self.vocabulary = padded(config.vocab_size)
        query_size = config.num_attention_heads * config.head_dim
        key_size = config.num_key_value_heads * config.head_dim
        width, inner = padded(config.hidden_size), padded(config.intermediate_size)
        longest = max(width, inner, padded(query_size))
        projected = padded(query_size + 2 * key_size)
        spans = -(-(config.max_position_embeddings + MOST_TOKENS) // SPAN)
        rows = 4 * config.group_size  # whose attention is computed at once
        part = rows * (config.head_dim + LANES)
        scratch = rows * (config.head_dim + SPAN) + part
        heads = config.num_key_value_heads
        parts = max(MOST_TOKENS // 4 * heads, (8 * members + heads) * spans)

        self._counters = np.zeros(32, np.int64)  # two, each on a line of its own
        self.ids = np.zeros(MOST_TOKENS, np.int64)
        self.rotation = _rotation(config)
        self._buffers: dict[str, npt.NDArray[Any]] = {
            "ids": self.ids,
            "hidden": np.zeros((MOST_TOKENS, width), np.float32),
            "projected": np.zeros((MOST_TOKENS, projected), np.float32),
            "attended": np.zeros((MOST_TOKENS, longest), np.float32),
            "inner": np.zeros((MOST_TOKENS, longest), np.float32),
            "inputs": np.zeros((MOST_TOKENS, longest), np.float32),
            "codes": np.zeros((MOST_TOKENS, longest), np.int16),
            "scales": np.zeros((MOST_TOKENS, longest // LANES), np.float32),
            "sums": np.zeros((MOST_TOKENS, longest // LANES), np.float32),
            "matrices": np.ascontiguousarray(weights.table[2:]),
            "weights": weights.data,
            "norms": weights.norms,
            "rotation": self.rotation,
            "scratch": np.zeros((members, scratch), np.float32),
            "parts": np.empty((parts, part), np.float32),
        }
        base = weights.data.ctypes.data
        self.set(
            ticket=self._counters.ctypes.data,
            done=self._counters[16:].ctypes.data,
            members=members,
            **{name: array.ctypes.data for name, array in self._buffers.items()},
            embedding=base + int(weights.table[0, 0]),
            embedding_kind=int(weights.table[0, 1]),
            head=base + int(weights.table[1, 0]),
            head_kind=int(weights.table[1, 1]),
            layers=config.num_hidden_layers,
            width=width,
            hidden_size=config.hidden_size,
            projected_stride=projected * 4,
            query_size=query_size,
            key_size=key_size,
            key_heads=config.num_key_value_heads,
            inner_size=inner,
            input_stride=longest * 4,
            code_stride=longest * 2,
            scale_stride=longest // LANES * 4,
            vocabulary=self.vocabulary,
            part_size=part * 4,
            scratch_size=scratch * 4,
            epsilon=config.rms_norm_eps,
            query_scale=math.log2(math.e) / math.sqrt(config.head_dim),
        )

    @property
    def address(self) -> int:
        """Of the record."""
        return self.record.ctypes.data

    def set(self, **fields: float) -> None:
        """Write fields of the record."""
        for name, value in fields.items():
            self.record[name] = value

    def new_logits(self, count: int) -> npt.NDArray[np.float32]:
        """An array for the logits of so many tokens: (padded count, padded vocabulary)."""
        return np.empty((_padded_count(count), self.vocabulary), np.float32)

    def describe(
        self, ids: Sequence[int], position: int, logits: npt.NDArray[np.float32] | None
    ) -> None:
        """The next step: `ids` from `position` on, and an array for the logits of all of them, of
        the last alone, or None. It is of `new_logits`, and must live until the step is done.
        """
        self.ids[: len(ids)] = ids
        self.set(count=len(ids), batch=_padded_count(len(ids)), position=position, wanted=0)
        if logits is not None:
            self.set(logits=logits.ctypes.data, wanted=1 if len(logits) == 1 else 2)


def _padded_count(count: int) -> int:
    """Tokens are multiplied eight at a time; what is left, one or four."""
    return 1 if count == 1 else -(-count // 4) * 4


def _rotation(config: ModelConfig) -> npt.NDArray[np.float32]:
    """Cosines, then sines, of every position's angles: (positions, head_dim)."""
    half = config.head_dim // 2
    frequency = config.rope_theta ** (-np.arange(half, dtype=np.float64) / half)
    # Angles as `rotation_at` has them, in fp32.
    places = np.arange(config.max_position_embeddings + MOST_TOKENS, dtype=np.float32)
    angles = places[:, None] * frequency.astype(np.float32)
    return np.concatenate((np.cos(angles), np.sin(angles)), axis=1)
