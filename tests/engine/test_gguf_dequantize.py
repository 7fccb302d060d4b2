"""Unpacking quantized weights: the same numbers as the format's own Python package."""

import time

import gguf
import numpy as np
import pytest

from engine.files.dequantize import BLOCKS, dequantize
from engine.files.gguf import read_gguf


@pytest.mark.parametrize("type_name", BLOCKS)
def test_random_blocks_unpack_as_the_gguf_package_does(type_name):
    values, block_bytes, _ = BLOCKS[type_name]
    rows, columns = 1300, 256  # more than is unpacked at once
    raw = np.random.default_rng(7).integers(
        0, 256, rows * columns // values * block_bytes, np.uint8
    )
    with np.errstate(all="ignore"):
        expected = gguf.dequantize(raw, gguf.GGMLQuantizationType[type_name])
    unpacked = dequantize(raw, type_name, (rows, columns))
    assert unpacked.dtype == np.float32
    assert unpacked.shape == (rows, columns)
    # As bits: random scales include infinities and NaN.
    assert np.array_equal(unpacked.view(np.uint32), expected.reshape(rows, columns).view(np.uint32))


@pytest.mark.parametrize("type_name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "BF16"])
def test_quantized_numbers_come_back_close(type_name):
    numbers = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)
    packed = gguf.quantize(numbers, gguf.GGMLQuantizationType[type_name])
    unpacked = dequantize(packed.view(np.uint8).reshape(-1), type_name, numbers.shape)
    tolerance = 0.3 if type_name.startswith(("Q4", "Q5")) else 0.03
    assert np.abs(unpacked - numbers).max() < tolerance


def test_the_result_is_memory_of_its_own():
    raw = np.zeros(16, np.uint8)
    unpacked = dequantize(raw, "F32", (4,))
    assert unpacked.flags.writeable
    assert not np.shares_memory(raw, unpacked)


def test_the_real_model_unpacks_quickly(default_model_path):
    read = read_gguf(default_model_path)
    started = time.perf_counter()
    for name, tensor in read.tensors.items():
        dequantize(read.raw(name), tensor.type_name, tensor.shape)
    assert time.perf_counter() - started < 3
