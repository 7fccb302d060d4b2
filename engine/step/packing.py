"""Matrices as the step reads them: tiles of 16 rows, and of each tile 32 columns after the other.

16 rows fill a vector, so each row of a tile has a lane of its own and nothing is ever added up
across lanes. A group, 16 rows by 32 columns, holds:

    BF16  16 numbers of 2 bytes for each column
    INT8  16 scales (fp16), then for each pair of columns 16 pairs of signed bytes
    Q4    16 scales, 16 minima (fp16), then for each 8 columns 16 pairs of 16-bit words: the pair of
          row r holds columns 0, 2, 4, 6 in the nibbles of the first and 1, 3, 5, 7 of the second

Rows are filled up to 32 and columns to 32, with zeros: a matrix's rows are the next one's columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.files.codes import GROUP, Codes

LANES = 16
"""Rows of a tile."""
BF16, INT8, Q4 = 0, 1, 2
"""How a matrix is stored."""
GROUP_BYTES = (LANES * 2 * GROUP, LANES * (2 + GROUP), LANES * (2 + 2 + GROUP // 2))
"""For each of those: bytes of 16 rows by 32 columns."""

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A packed matrix: BF16, INT8 or Q4, and its bytes."""

    kind: int
    data: Bytes


def padded(size: int) -> int:
    """Up to a whole number of groups."""
    return -(-size // GROUP) * GROUP


def packed_size(kind: int, rows: int, columns: int) -> int:
    """Bytes of a matrix."""
    return padded(rows) // LANES * (padded(columns) // GROUP) * GROUP_BYTES[kind]


def quantized(weights: Floats) -> Codes:
    """8 bits a weight, with a scale for each 32 columns; what is not finite makes the scale NaN."""
    rows, columns = weights.shape
    groups = _filled(weights, rows, padded(columns)).reshape(rows, -1, GROUP)
    largest = np.abs(groups).max(axis=2)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scales = (largest / 127).astype(np.float16)
        exact = groups / scales.astype(np.float32)[:, :, None]
        codes = np.rint(np.nan_to_num(exact, posinf=0, neginf=0)).clip(-127, 127).astype(np.int8)
        scales[~np.isfinite(largest)] = np.nan
    return Codes(codes.reshape(rows, -1), scales, None)


def pack_bf16(weights: npt.NDArray[np.uint16]) -> Matrix:
    """Pack (rows, columns) of bf16, given by their bits."""
    columns = padded(weights.shape[1])
    tiles = _filled(weights, padded(len(weights)), columns).reshape(-1, LANES, columns)
    return Matrix(BF16, np.ascontiguousarray(tiles.swapaxes(1, 2)).reshape(-1).view(np.uint8))


def pack_codes(weights: Codes) -> Matrix:
    """Pack weights of 8 bits, or of 4 where each group has a minimum."""
    rows = padded(len(weights.codes))
    codes = _filled(weights.codes, rows, padded(weights.codes.shape[1]))
    tiles = rows // LANES
    scales = _lanes_last(weights.scales, rows)
    if weights.minima is None:
        pairs = codes.reshape(tiles, LANES, -1, GROUP // 2, 2).transpose(0, 2, 3, 1, 4)
        return Matrix(INT8, _joined(scales, pairs))
    # (tile, row, group, line, place in the word, which of the two words)
    nibbles = codes.astype(np.uint16).reshape(tiles, LANES, -1, 4, 4, 2)
    words = nibbles[:, :, :, :, 0].copy()
    for place in range(1, 4):
        words |= nibbles[:, :, :, :, place] << np.uint16(4 * place)
    minima = _lanes_last(weights.minima, rows)
    return Matrix(Q4, _joined(scales, minima, words.transpose(0, 2, 3, 1, 4)))


def interleaved(first: Codes, second: Codes) -> Codes:
    """Rows of two matrices of one kind: 16 of the one and 16 of the other, in turn."""
    minima = None
    if first.minima is not None and second.minima is not None:
        minima = interleaved_rows(first.minima, second.minima)
    return Codes(
        interleaved_rows(first.codes, second.codes),
        interleaved_rows(first.scales, second.scales),
        minima,
    )


def interleaved_rows(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same for two arrays (rows, n)."""
    both = [_filled(matrix, padded(len(matrix)), matrix.shape[1]) for matrix in (first, second)]
    columns = first.shape[1]
    return np.stack([matrix.reshape(-1, LANES, columns) for matrix in both], 1).reshape(-1, columns)


def stacked(parts: Sequence[Codes]) -> Codes:
    """Rows of several matrices of one kind, one below the other."""
    minima = [part.minima for part in parts if part.minima is not None]
    return Codes(
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.scales for part in parts]),
        np.concatenate(minima) if minima else None,
    )


def _filled(matrix: npt.NDArray[Any], rows: int, columns: int) -> npt.NDArray[Any]:
    """With zeros below and to the right."""
    if matrix.shape == (rows, columns):
        return matrix
    filled = np.zeros((rows, columns), matrix.dtype)
    filled[: matrix.shape[0], : matrix.shape[1]] = matrix
    return filled


def _lanes_last(numbers: npt.NDArray[np.float16], rows: int) -> npt.NDArray[Any]:
    """(rows, groups) -> (tile, group, lane)."""
    return (
        _filled(numbers, rows, numbers.shape[1]).reshape(-1, LANES, numbers.shape[1]).swapaxes(1, 2)
    )


def _joined(*parts: npt.NDArray[Any]) -> Bytes:
    """What belongs to each (tile, group), end to end."""
    tiles, groups = parts[0].shape[:2]
    rows = [np.ascontiguousarray(part).view(np.uint8).reshape(tiles, groups, -1) for part in parts]
    return np.concatenate(rows, axis=2).reshape(-1)
