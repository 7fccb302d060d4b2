"""Weights as a GGUF file packs them -> float32.

Each function takes blocks, uint8 (n, block bytes), and returns float32 (n, block values). The
layouts are those of ggml's `ggml-quants.c`; d is a block's scale, m its minimum, q the codes.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

_VALUES_AT_ONCE = 2**18  # keeps the intermediate arrays in the processor's cache


def dequantize(raw: Bytes, type_name: str, shape: tuple[int, ...]) -> Floats:
    """Unpack a whole tensor's bytes into a new array of `shape` (row-major).

    `type_name` is a key of BLOCKS; the sizes must fit each other, as a checked header's do.
    """
    block_values, block_bytes, unpack = BLOCKS[type_name]
    blocks = raw.reshape(-1, block_bytes)
    out = np.empty((len(blocks), block_values), np.float32)
    step = _VALUES_AT_ONCE // block_values
    # Damaged weights may hold infinities; that is not this function's to judge.
    with np.errstate(all="ignore"):
        for start in range(0, len(blocks), step):
            out[start : start + step] = unpack(blocks[start : start + step])
    return out.reshape(shape)


def _f32(blocks: Bytes) -> Floats:
    return blocks.view("<f4").astype(np.float32, copy=False)


def _f16(blocks: Bytes) -> Floats:
    return blocks.view("<f2").astype(np.float32)


def _bf16(blocks: Bytes) -> Floats:
    # The upper half of a float32.
    return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _q4_0(blocks: Bytes) -> Floats:
    return _float_at(blocks, 0) * (nibbles(blocks[:, 2:]).view(np.int8) - np.int8(8))


def _q4_1(blocks: Bytes) -> Floats:
    return _float_at(blocks, 0) * nibbles(blocks[:, 4:]) + _float_at(blocks, 2)


def _q5_0(blocks: Bytes) -> Floats:
    q = nibbles(blocks[:, 6:]) | fifth_bits(blocks[:, 2:6])
    return _float_at(blocks, 0) * (q.view(np.int8) - np.int8(16))


def _q5_1(blocks: Bytes) -> Floats:
    q = nibbles(blocks[:, 8:]) | fifth_bits(blocks[:, 4:8])
    return _float_at(blocks, 0) * q + _float_at(blocks, 2)


def _q8_0(blocks: Bytes) -> Floats:
    return _float_at(blocks, 0) * blocks[:, 2:].view(np.int8)


def _q4_k(blocks: Bytes) -> Floats:
    scale, minimum = _k_scales(blocks)
    q = nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return (scale * q - minimum).reshape(-1, 256)


def _q5_k(blocks: Bytes) -> Floats:
    scale, minimum = _k_scales(blocks)
    q = nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    # Bit g of byte i is the fifth bit of value i in group g.
    fifth = blocks[:, 16:48].reshape(-1, 1, 32) >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    return (scale * (q | (fifth & 1) << 4) - minimum).reshape(-1, 256)


def _q6_k(blocks: Bytes) -> Floats:
    # Two halves of 128 values: 64 bytes of low nibbles, 32 bytes of four upper bit pairs each.
    low = nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    pairs = blocks[:, 128:192].reshape(-1, 2, 1, 32)
    high = pairs >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1) & 3
    q = ((low | high << 4).view(np.int8) - np.int8(32)).reshape(-1, 16, 16)
    scale = _float_at(blocks, 208) * blocks[:, 192:208].view(np.int8)
    return (scale[:, :, None] * q).reshape(-1, 256)


BLOCKS: dict[str, tuple[int, int, Callable[[Bytes], Floats]]] = {
    "F32": (1, 4, _f32),
    "F16": (1, 2, _f16),
    "BF16": (1, 2, _bf16),
    "Q4_0": (32, 18, _q4_0),
    "Q4_1": (32, 20, _q4_1),
    "Q5_0": (32, 22, _q5_0),
    "Q5_1": (32, 24, _q5_1),
    "Q8_0": (32, 34, _q8_0),
    "Q4_K": (256, 144, _q4_k),
    "Q5_K": (256, 176, _q5_k),
    "Q6_K": (256, 210, _q6_k),
}
"""Type name -> values in a block, bytes of a block, and what unpacks it."""


def _float_at(blocks: Bytes, start: int) -> Floats:
    """The 16-bit float at one place of each block, (n, 1)."""
    return blocks[:, start : start + 2].copy().view("<f2").astype(np.float32)


def nibbles(packed: Bytes) -> Bytes:
    """(..., k) bytes -> (..., 2k) codes: all lower halves, then all upper halves."""
    return np.concatenate((packed & 15, packed >> 4), axis=-1)


def fifth_bits(packed: Bytes) -> Bytes:
    """(n, 4) bytes of one bit a value -> (n, 32) of 0 or 16."""
    bits = np.unpackbits(packed, axis=-1, bitorder="little")
    return bits << np.uint8(4)


def _k_scales(blocks: Bytes) -> tuple[Floats, Floats]:
    """Scale and minimum of the 8 groups of 32 in each block, both (n, 8, 1).

    Sixteen 6-bit codes share 12 bytes: the first eight lie in the lower bits of bytes 0-7, the
    last eight in the nibbles of bytes 8-11 and the upper bits of bytes 0-7.
    """
    first, second, third = (blocks[:, start : start + 4] for start in (4, 8, 12))
    scale = np.concatenate((first & 63, third & 15 | first >> 6 << 4), axis=-1)
    minimum = np.concatenate((second & 63, third >> 4 | second >> 6 << 4), axis=-1)
    d, d_minimum = _float_at(blocks, 0), _float_at(blocks, 2)
    return (d * scale)[:, :, None], (d_minimum * minimum)[:, :, None]
