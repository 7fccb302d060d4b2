"""Weights as whole numbers with scales, as some of GGUF's block types keep them: nothing is lost.

Weight = scale * code, or scale * code + minimum where there are minima.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.files.dequantize import Bytes, fifth_bits, nibbles

Halves = npt.NDArray[np.float16]

GROUP = 32
"""Neighbours in a row that share a scale."""


@dataclass(frozen=True, slots=True)
class Codes:
    """`codes` (rows, columns) int8; `scales` and `minima` (rows, columns / 32) fp16.

    Without minima codes are signed and use up to 8 bits; with minima they go from 0 to 15.
    """

    codes: npt.NDArray[np.int8]
    scales: Halves
    minima: Halves | None


def block_codes(raw: Bytes, type_name: str, shape: tuple[int, ...]) -> Codes:
    """A matrix's codes from its bytes in a GGUF file; `type_name` is one of CODED."""
    block_bytes, unpack = CODED[type_name]
    codes, scales, minima = unpack(raw.reshape(-1, block_bytes))
    rows = shape[0]
    return Codes(
        codes.view(np.int8).reshape(shape),
        scales.reshape(rows, -1),
        None if minima is None else minima.reshape(rows, -1),
    )


_Unpacked = tuple[npt.NDArray[np.int8] | Bytes, Halves, Halves | None]


def _q4_0(blocks: Bytes) -> _Unpacked:
    scales = _halves(blocks, 0)
    with np.errstate(over="ignore", invalid="ignore"):  # a damaged file's; seen when it is used
        return nibbles(blocks[:, 2:]), scales, np.float16(-8) * scales


def _q4_1(blocks: Bytes) -> _Unpacked:
    return nibbles(blocks[:, 4:]), _halves(blocks, 0), _halves(blocks, 2)


def _q5_0(blocks: Bytes) -> _Unpacked:
    codes = nibbles(blocks[:, 6:]) | fifth_bits(blocks[:, 2:6])
    return codes.view(np.int8) - np.int8(16), _halves(blocks, 0), None


def _q8_0(blocks: Bytes) -> _Unpacked:
    return blocks[:, 2:].copy(), _halves(blocks, 0), None


CODED: dict[str, tuple[int, Callable[[Bytes], _Unpacked]]] = {
    "Q4_0": (18, _q4_0),
    "Q4_1": (20, _q4_1),
    "Q5_0": (22, _q5_0),
    "Q8_0": (34, _q8_0),
}
"""Type name -> bytes of a block of 32, and what unpacks it."""


def _halves(blocks: Bytes, start: int) -> Halves:
    return blocks[:, start : start + 2].copy().view("<f2")
