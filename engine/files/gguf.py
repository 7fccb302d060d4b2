"""A strict reader of GGUF headers, versions 2 and 3.

A file is someone else's: no count, length, size or offset in it is believed before it is checked,
so that a damaged or hostile file costs neither time nor memory. Format:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from engine.errors import ModelFileError
from engine.files.recognize import FETCH_AGAIN, file_kind, unreadable

MAX_HEADER_BYTES = 64 * 2**20
MAX_METADATA = 4096
MAX_TENSORS = 2**14
MAX_STRING_BYTES = 4 * 2**20
MAX_ARRAY_ITEMS = 2**20  # of all arrays together
MAX_DIMENSIONS = 4
MAX_ALIGNMENT = 2**16

_DEFAULT_ALIGNMENT = 32

# Number in the file -> name, values in a block, bytes of a block.
_TENSOR_TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    30: ("BF16", 1, 2),
}

# Number in the file -> how struct and numpy spell it.
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_BOOL, _STRING, _ARRAY = 7, 8, 9

# Arrays that the tokenizer is built from -> what their items must be.
_ARRAY_ITEMS: dict[str, type] = {
    "tokenizer.ggml.tokens": str,
    "tokenizer.ggml.merges": str,
    "tokenizer.ggml.token_type": int,
    "tokenizer.ggml.scores": float,
}


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """Where a tensor's bytes are. `shape` is row-major, `offset` counts from the file's start."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class GGUFFile:
    """A checked header; the weights stay in the file, mapped read-only, until asked for."""

    def __init__(
        self,
        metadata: dict[str, Any],
        tensors: dict[str, GGUFTensor],
        *,
        contents: npt.NDArray[np.uint8],
    ) -> None:
        self.metadata = metadata
        self.tensors = tensors
        self._contents = contents

    def raw(self, name: str) -> npt.NDArray[np.uint8]:
        """Return the tensor's bytes as they are in the file: a read-only view, not a copy."""
        tensor = self.tensors[name]
        return self._contents[tensor.offset : tensor.offset + tensor.nbytes]


def read_gguf(path: Path) -> GGUFFile:
    """Read and check the header of a model in GGUF form.

    Raises ModelNotFoundError if there is no such file, and ModelFileError, in a plain sentence, for
    whatever is wrong with it.
    """
    if file_kind(path) != "gguf":
        raise ModelFileError(f"{path.name} is not a GGUF file.", FETCH_AGAIN)
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise unreadable(path, error) from error
    header = _Header(mapped, path.name)
    metadata_count, tensor_count = header.read_start()
    metadata = header.read_metadata(metadata_count)
    tensors = header.read_tensors(tensor_count, metadata)
    return GGUFFile(metadata, tensors, contents=np.frombuffer(mapped, np.uint8))


class _Header:
    """A position in the file that never moves past its end or past the largest sensible header."""

    def __init__(self, data: mmap.mmap, file_name: str) -> None:
        self._data = data
        self._file_name = file_name
        self._size = len(data)
        self._limit = min(self._size, MAX_HEADER_BYTES)
        self._position = 0
        self._array_items = 0

    def read_start(self) -> tuple[int, int]:
        """Return how many metadata entries and how many tensors follow."""
        self._take(4)
        version = self._number("<I")
        if version and version % 2**16 == 0:
            self._refuse("it is written for big-endian machines", damaged=False)
        if version not in (2, 3):
            self._refuse(f"it is GGUF version {version}, and only 2 and 3 are known", damaged=False)
        tensors, metadata = self._number("<Q"), self._number("<Q")
        if metadata > MAX_METADATA:
            self._refuse(f"it claims {metadata:,} metadata entries")
        if tensors > MAX_TENSORS:
            self._refuse(f"it claims {tensors:,} tensors")
        return metadata, tensors

    def read_metadata(self, count: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        for _ in range(count):
            key = self._string()
            if key in metadata:
                self._refuse(f"the metadata {_shown(key)} is there twice")
            metadata[key] = self._value(key, self._number("<I"))
        for key, item in _ARRAY_ITEMS.items():
            values = metadata.get(key, [])
            if not isinstance(values, list) or any(type(value) is not item for value in values):
                self._refuse(f"{key} is not a list of the right kind")
        return metadata

    def read_tensors(self, count: int, metadata: dict[str, Any]) -> dict[str, GGUFTensor]:
        if count == 0:
            self._refuse("it has a vocabulary at most, and no weights", damaged=False)
        alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        whole = isinstance(alignment, int) and not isinstance(alignment, bool)
        if not whole or not 0 < alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
            self._refuse("its alignment is not a power of two of a sensible size")
        found: dict[str, GGUFTensor] = {}
        for _ in range(count):
            tensor = self._tensor(alignment)
            if tensor.name in found:
                self._refuse(f"the tensor {_shown(tensor.name)} is there twice")
            found[tensor.name] = tensor
        start = -(-self._position // alignment) * alignment
        placed = {
            name: GGUFTensor(
                name, tensor.type_name, tensor.shape, start + tensor.offset, tensor.nbytes
            )
            for name, tensor in found.items()
        }
        self._check_places(placed)
        return placed

    def _check_places(self, tensors: dict[str, GGUFTensor]) -> None:
        end = 0
        for tensor in sorted(tensors.values(), key=lambda tensor: tensor.offset):
            if tensor.offset < end:
                self._refuse(f"the tensor {_shown(tensor.name)} overlaps another")
            end = tensor.offset + tensor.nbytes
            if end > self._size:
                self._refuse(
                    f"it ends after {self._size:,} bytes, "
                    f"inside or before the tensor {_shown(tensor.name)}"
                )

    def _tensor(self, alignment: int) -> GGUFTensor:
        """One entry; its offset still counts from the start of the weights."""
        name = self._string()
        dimensions = self._number("<I")
        if not 1 <= dimensions <= MAX_DIMENSIONS:
            self._refuse(f"the tensor {_shown(name)} claims {dimensions:,} dimensions")
        shape = tuple(self._number("<Q") for _ in range(dimensions))[::-1]
        number = self._number("<I")
        if number not in _TENSOR_TYPES:
            known = ", ".join(known_name for known_name, _, _ in _TENSOR_TYPES.values())
            raise ModelFileError(
                f"{self._file_name} has weights of type {number}, which is not supported.",
                f"Get a file of this model with weights of these types: {known}.",
            )
        type_name, block_values, block_bytes = _TENSOR_TYPES[number]
        values = math.prod(shape)
        if values == 0 or shape[-1] % block_values:
            self._refuse(f"the tensor {_shown(name)} has an impossible shape for {type_name}")
        nbytes = values // block_values * block_bytes
        offset = self._number("<Q")
        if offset % alignment:
            self._refuse(f"the tensor {_shown(name)} does not start at a multiple of the alignment")
        return GGUFTensor(name, type_name, shape, offset, nbytes)

    def _value(self, key: str, type_number: int) -> Any:
        if type_number == _STRING:
            return self._string()
        if type_number == _BOOL:
            return self._bools(1)[0]
        if type_number == _ARRAY:
            return self._array(key)
        if type_number not in _SCALARS:
            self._refuse(f"the metadata {_shown(key)} is of the unknown type {type_number}")
        return self._number(_SCALARS[type_number])

    def _array(self, key: str) -> list[Any]:
        type_number, count = self._number("<I"), self._number("<Q")
        self._array_items += count
        if self._array_items > MAX_ARRAY_ITEMS:
            self._refuse(f"the metadata {_shown(key)} claims {count:,} items")
        if type_number == _STRING:
            return self._strings(count)
        if type_number == _BOOL:
            return self._bools(count)
        if type_number not in _SCALARS:
            self._refuse(f"the metadata {_shown(key)} has items of the unknown type {type_number}")
        dtype = np.dtype(_SCALARS[type_number])
        start = self._take(count * dtype.itemsize)
        values: list[Any] = np.frombuffer(self._data, dtype, count, start).tolist()
        return values

    def _bools(self, count: int) -> list[bool]:
        start = self._take(count)
        values = self._data[start : start + count]
        if values.strip(b"\0\1"):
            self._refuse("a yes-or-no value is neither")
        return [value == 1 for value in values]

    def _string(self) -> str:
        return self._strings(1)[0]

    def _strings(self, count: int) -> list[str]:
        """Without a call per string: a vocabulary has a hundred thousand of them."""
        data, limit, position = self._data, self._limit, self._position
        length_at = struct.Struct("<Q").unpack_from
        strings: list[str] = []
        try:
            for _ in range(count):
                start = position + 8
                if start > limit:
                    self._refuse_end()
                (length,) = length_at(data, position)
                if length > MAX_STRING_BYTES:
                    self._refuse(f"a text in it claims to be {length:,} bytes long")
                position = start + length
                if position > limit:
                    self._refuse_end()
                strings.append(data[start:position].decode())
        except UnicodeDecodeError:
            self._refuse("a text in it is not valid UTF-8")
        self._position = position
        return strings

    def _number(self, form: str) -> Any:
        return struct.unpack_from(form, self._data, self._take(struct.calcsize(form)))[0]

    def _take(self, nbytes: int) -> int:
        """Move over `nbytes` bytes that are really there; return where they start."""
        start = self._position
        if start + nbytes > self._limit:
            self._refuse_end()
        self._position = start + nbytes
        return start

    def _refuse_end(self) -> NoReturn:
        if self._limit < self._size:
            self._refuse("its header is larger than any real one")
        self._refuse(f"it ends too early, after {self._size:,} bytes")

    def _refuse(self, reason: str, *, damaged: bool = True) -> NoReturn:
        verdict = "is damaged" if damaged else "cannot be used"
        remedy = FETCH_AGAIN if damaged else "Get a newer GGUF file of a whole model."
        raise ModelFileError(f"{self._file_name} {verdict}: {reason}.", remedy) from None


def _shown(name: str) -> str:
    """A name from the file, fit for a sentence."""
    return repr(name if len(name) <= 80 else name[:77] + "...")
