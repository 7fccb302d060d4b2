"""Reading GGUF headers: right for good files, one plain error for all others."""

import random
import struct
import time
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.errors import ConfigError, ModelFileError, ModelNotFoundError
from engine.files.gguf import read_gguf
from engine.files.weights import load_state_dict, read_config

U32, BOOL, STRING, ARRAY = 4, 7, 8, 9
F32, Q4_0 = 0, 2


def text(value: str | bytes) -> bytes:
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def entry(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def array(key: str, kind: int, count: int, items: bytes) -> bytes:
    return entry(key, ARRAY, struct.pack("<IQ", kind, count) + items)


def tensor(
    name: str = "a", dims: tuple[int, ...] = (4,), kind: int = F32, offset: int = 0
) -> bytes:
    shape = struct.pack(f"<{len(dims)}Q", *dims)
    return text(name) + struct.pack("<I", len(dims)) + shape + struct.pack("<IQ", kind, offset)


def gguf_bytes(
    *,
    entries: list[bytes] | None = None,
    tensors: list[bytes] | None = None,
    version: int = 3,
    entry_count: int | None = None,
    tensor_count: int | None = None,
    alignment: int = 32,
    data: bytes = bytes(64),
) -> bytes:
    entries = [] if entries is None else entries
    tensors = [tensor()] if tensors is None else tensors
    counts = (
        len(tensors) if tensor_count is None else tensor_count,
        len(entries) if entry_count is None else entry_count,
    )
    head = b"GGUF" + struct.pack("<IQQ", version, *counts) + b"".join(entries + tensors)
    return head + bytes(-len(head) % alignment) + data


def refusal(tmp_path: Path, content: bytes) -> str:
    """The one sentence that a file is refused with, in a moment and without much memory."""
    path = tmp_path / "hostile.gguf"
    path.write_bytes(content)
    started = time.perf_counter()
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError) as caught:
            read_gguf(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - started < 1
    assert peak < 2**20 + 16 * len(content)
    error = caught.value
    assert error.what.startswith("hostile.gguf ")
    assert error.what.endswith(".")
    assert error.remedy
    assert len(error.what) < 400
    assert error.what.isprintable()
    return error.what


def test_what_the_gguf_package_writes_is_read_back(tmp_path, tiny_models):
    config = tiny_models.tiny_config()
    state = tiny_models.random_state(config)
    vocabulary = {
        "tokenizer.ggml.tokens": ["<|endoftext|>", "Ġa", "é", ""],
        "tokenizer.ggml.token_type": [3, 1, 1, 1],
        "tokenizer.ggml.scores": [0.5, -1.0],
        "tokenizer.ggml.add_bos_token": False,
        "general.name": "tiny",
    }
    path = tiny_models.write_gguf(
        tmp_path / "m ö 🙂 'x'.gguf", config, state, tokenizer_metadata=vocabulary
    )
    read = read_gguf(path)
    assert {key: read.metadata[key] for key in vocabulary} == vocabulary
    assert read.metadata["llama.block_count"] == 2
    embedding = read.tensors["token_embd.weight"]
    assert (embedding.type_name, embedding.shape) == ("F32", (96, 64))
    assert embedding.nbytes == 96 * 64 * 4
    raw = read.raw("token_embd.weight")
    assert not raw.flags.writeable
    expected = state["model.embed_tokens.weight"].numpy()
    assert np.array_equal(raw.view("<f4").reshape(96, 64), expected)


def test_every_scalar_and_array_type_is_read(tmp_path):
    path = tmp_path / "types.gguf"
    writer = gguf.GGUFWriter(path, arch="llama")
    values = {
        "u8": (writer.add_uint8, 200),
        "i8": (writer.add_int8, -100),
        "u16": (writer.add_uint16, 60_000),
        "i16": (writer.add_int16, -30_000),
        "u32": (writer.add_uint32, 4_000_000_000),
        "i32": (writer.add_int32, -2_000_000_000),
        "u64": (writer.add_uint64, 2**64 - 1),
        "i64": (writer.add_int64, -(2**63)),
        "f32": (writer.add_float32, 0.5),
        "f64": (writer.add_float64, 0.1),
        "bool": (writer.add_bool, True),
        "text": (writer.add_string, "grüß\n"),
        "ints": (writer.add_array, [1, -2, 3]),
        "bools": (writer.add_array, [True, False]),
        "floats": (writer.add_array, [1.5, 2.5]),
        "texts": (writer.add_array, ["", "a", "ß"]),
    }
    for key, (add, value) in values.items():
        add(key, value)
    writer.add_tensor("a", np.zeros((2, 3), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    metadata = read_gguf(path).metadata
    assert {key: metadata[key] for key in values} == {key: v for key, (_, v) in values.items()}


@pytest.mark.parametrize("version", [2, 3])
def test_both_living_versions_and_other_alignments_are_read(tmp_path, version):
    path = tmp_path / "a.gguf"
    entries = [entry("general.alignment", U32, struct.pack("<I", 64))]
    data = struct.pack("<4f", 1, 2, 3, 4)
    path.write_bytes(gguf_bytes(version=version, entries=entries, alignment=64, data=data))
    read = read_gguf(path)
    assert read.tensors["a"].offset % 64 == 0
    assert read.raw("a").view("<f4").tolist() == [1, 2, 3, 4]


HUGE = (2**15, 2**31, 2**32, 2**63, 2**64 - 1)
"""Too many, or negative when read as a signed number."""

TWICE = entry("twice", BOOL, b"\1")
HOSTILE = {
    **{f"{n} metadata entries": gguf_bytes(entry_count=n) for n in HUGE},
    **{f"{n} tensors": gguf_bytes(tensor_count=n) for n in HUGE},
    **{f"key of {n} bytes": gguf_bytes(entries=[struct.pack("<Q", n)]) for n in HUGE},
    **{
        f"text of {n} bytes": gguf_bytes(entries=[entry("k", STRING, struct.pack("<Q", n))])
        for n in HUGE
    },
    **{f"{n} array texts": gguf_bytes(entries=[array("k", STRING, n, b"")]) for n in HUGE},
    **{f"{n} array bytes": gguf_bytes(entries=[array("k", 0, n, b"")]) for n in HUGE},
    **{f"{n} array bools": gguf_bytes(entries=[array("k", BOOL, n, b"")]) for n in HUGE},
    **{f"dimension {n}": gguf_bytes(tensors=[tensor(dims=(n,))]) for n in HUGE},
    **{f"offset {n}": gguf_bytes(tensors=[tensor(offset=n & ~31)]) for n in HUGE},
    "shape product wraps to 0": gguf_bytes(tensors=[tensor(dims=(2**32, 2**32))]),
    "shape product wraps to 4": gguf_bytes(tensors=[tensor(dims=(4, 2**62 + 1))]),
    "bytes wrap": gguf_bytes(tensors=[tensor(dims=(2**62 + 4,))]),
    "offset and size wrap": gguf_bytes(tensors=[tensor(dims=(8,), offset=2**64 - 32)]),
    "dimension 0": gguf_bytes(tensors=[tensor(dims=(0,))]),
    "no dimensions": gguf_bytes(tensors=[tensor(dims=())]),
    "five dimensions": gguf_bytes(tensors=[tensor(dims=(1, 1, 1, 1, 1))]),
    "row is no whole blocks": gguf_bytes(tensors=[tensor(dims=(16, 2), kind=Q4_0)]),
    "overlap": gguf_bytes(tensors=[tensor("a", (16,)), tensor("b", (8,), offset=32)]),
    "same place": gguf_bytes(tensors=[tensor("a"), tensor("b")]),
    "offset not aligned": gguf_bytes(tensors=[tensor(offset=4)]),
    "past the end": gguf_bytes(tensors=[tensor(dims=(16,), offset=32)]),
    "one byte short": gguf_bytes(tensors=[tensor(dims=(16,))], data=bytes(63)),
    "tensor twice": gguf_bytes(tensors=[tensor(), tensor(offset=32)]),
    "key twice": gguf_bytes(entries=[TWICE, TWICE]),
    "metadata type 13": gguf_bytes(entries=[entry("k", 13, bytes(8))]),
    "metadata type -1": gguf_bytes(entries=[entry("k", 2**32 - 1, bytes(8))]),
    "array type 13": gguf_bytes(entries=[array("k", 13, 1, bytes(8))]),
    "array in array": gguf_bytes(entries=[array("k", ARRAY, 1, struct.pack("<IQ", 9, 1) * 99)]),
    "bool of 2": gguf_bytes(entries=[entry("k", BOOL, b"\2")]),
    "array bool of 2": gguf_bytes(entries=[array("k", BOOL, 2, b"\1\2")]),
    "key not UTF-8": gguf_bytes(entries=[entry(b"\xff", BOOL, b"\1")]),
    "text not UTF-8": gguf_bytes(entries=[entry("k", STRING, text(b"\xc3"))]),
    "tokens are numbers": gguf_bytes(entries=[array("tokenizer.ggml.tokens", U32, 1, bytes(4))]),
    "tokens are one text": gguf_bytes(entries=[entry("tokenizer.ggml.tokens", STRING, text("a"))]),
    "token types are texts": gguf_bytes(
        entries=[array("tokenizer.ggml.token_type", STRING, 1, text("a"))]
    ),
    "token types are bools": gguf_bytes(
        entries=[array("tokenizer.ggml.token_type", BOOL, 1, b"\1")]
    ),
    "scores are whole": gguf_bytes(entries=[array("tokenizer.ggml.scores", U32, 1, bytes(4))]),
    **{
        f"alignment {n}": gguf_bytes(
            entries=[entry("general.alignment", U32, struct.pack("<I", n))]
        )
        for n in (0, 3, 24, 2**17, 2**31, 2**32 - 1)
    },
    "alignment is a bool": gguf_bytes(entries=[entry("general.alignment", BOOL, b"\1")]),
    "alignment is a text": gguf_bytes(entries=[entry("general.alignment", STRING, text("32"))]),
    "control characters": gguf_bytes(tensors=[tensor("\x1b[2J\n", dims=(0,))]),
    "a very long name": gguf_bytes(tensors=[tensor("n" * 100_000, dims=(0,))]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_header_is_refused_at_once(tmp_path, name):
    refusal(tmp_path, HOSTILE[name])


def test_the_valid_file_that_the_hostile_ones_are_made_from_is_read(tmp_path):
    path = tmp_path / "valid.gguf"
    entries = [TWICE, array("tokenizer.ggml.tokens", STRING, 1, text("a"))]
    path.write_bytes(gguf_bytes(entries=entries, tensors=[tensor(dims=(16,))]))
    assert read_gguf(path).metadata == {"twice": True, "tokenizer.ggml.tokens": ["a"]}


@pytest.mark.parametrize("kind", [4, 10, 16, 39, 2**31, 2**32 - 1])
def test_an_unknown_tensor_type_is_named_with_what_to_get_instead(tmp_path, kind):
    path = tmp_path / "odd.gguf"
    path.write_bytes(gguf_bytes(tensors=[tensor(kind=kind)]))
    with pytest.raises(ModelFileError, match=f"type {kind}, .*Q4_K"):
        read_gguf(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (gguf_bytes(version=1), "version 1"),
        (gguf_bytes(version=0), "version 0"),
        (gguf_bytes(version=4), "version 4"),
        (b"GGUF" + struct.pack(">IQQ", 3, 1, 0), "big-endian"),
        (gguf_bytes(tensors=[]), "no weights"),
        (b"", "empty"),
        (b"GGUF", "ends too early"),
        (gguf_bytes(tensor_count=2**14 + 1, data=bytes(2**20)), "16,385 tensors"),
        (gguf_bytes(entry_count=2**12 + 1, data=bytes(2**20)), "4,097 metadata entries"),
        (gguf_bytes(tensors=[tensor(dims=(17,))]), "ends after"),
    ],
)
def test_the_refusal_says_what_is_wrong(tmp_path, content, says):
    assert says in refusal(tmp_path, content)


def test_array_items_are_limited_over_the_whole_header(tmp_path):
    # Each array alone is within the limit; all together would be 200 million Python objects.
    count = 2**20 - 1
    entries = [array(f"k{n}", 0, count, bytes(count)) for n in range(2)]
    assert "items" in refusal(tmp_path, gguf_bytes(entries=entries))


def test_a_header_beyond_all_measure_is_refused_without_reading_it(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.files.gguf.MAX_HEADER_BYTES", 1000)
    entries = [entry("k", STRING, text("x" * 2000))]
    assert "larger than any real one" in refusal(tmp_path, gguf_bytes(entries=entries))


@pytest.fixture(scope="module")
def small_file(tiny_models, tmp_path_factory) -> bytes:
    config = tiny_models.tiny_config(hidden_size=32, intermediate_size=32, vocab_size=32)
    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    vocabulary = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [f"t{i}" for i in range(32)],
        "tokenizer.ggml.token_type": [1] * 32,
    }
    state = tiny_models.random_state(config)
    tiny_models.write_gguf(path, config, state, quantization="Q4_0", tokenizer_metadata=vocabulary)
    return path.read_bytes()


def test_a_file_cut_anywhere_is_refused(tmp_path, small_file):
    path = tmp_path / "cut.gguf"
    header = read_only_header_size(small_file, tmp_path)
    ends = [*range(header + 64), *range(header + 64, len(small_file), 997), len(small_file) - 1]
    path.write_bytes(small_file)
    with path.open("r+b") as file:
        for end in sorted(set(ends), reverse=True):
            file.truncate(end)
            with pytest.raises(ModelFileError):
                read_gguf(path)


def test_damaged_bytes_give_an_expected_error_or_a_model(tmp_path, small_file, tiny_models):
    import torch

    header = read_only_header_size(small_file, tmp_path)
    chance = random.Random(0)
    path = tmp_path / "flipped.gguf"
    outcomes = {"refused": 0, "read": 0}
    for _ in range(1500):
        content = bytearray(small_file)
        for _ in range(chance.choice((1, 1, 2, 8))):
            content[chance.randrange(4, header)] = chance.choice(
                (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256))
            )
        path.write_bytes(content)
        try:
            load_state_dict(path, read_config(path), dtype=torch.float32)
            outcomes["read"] += 1
        except (ModelFileError, ConfigError):
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 100


def read_only_header_size(content: bytes, tmp_path: Path) -> int:
    path = tmp_path / "whole.gguf"
    path.write_bytes(content)
    return min(tensor.offset for tensor in read_gguf(path).tensors.values())


FOREIGN = {
    "web page": b"\n<!DOCTYPE html><html><body>Please log in</body></html>",
    "Git-LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "run code": b"PK\x03\x04" + bytes(100),
    "run code ": b"\x80\x02}q\x00.",
    "empty": b"",
    "neither": b"\x00" * 100,
}


@pytest.mark.parametrize("says", FOREIGN)
@pytest.mark.parametrize("name", ["model.gguf", "model.safetensors"])
def test_a_foreign_file_is_named_for_what_it_is(tmp_path, says, name):
    import torch

    path = tmp_path / name
    path.write_bytes(FOREIGN[says])
    config = object()
    for read in (
        read_gguf,
        read_config,
        lambda path: load_state_dict(path, config, dtype=torch.float32),
    ):
        with pytest.raises(ModelFileError) as caught:
            read(path)
        assert says.strip() in str(caught.value)


def test_a_short_safetensors_header_is_no_pickle(tmp_path, tiny_models):
    # Its first two bytes are those of a pickle of protocol 3.
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", 0x380) + b"{" + bytes(0x380))
    with pytest.raises(ModelFileError, match="not a GGUF file"):
        read_gguf(path)


def test_no_file_a_folder_and_an_unreadable_file_are_told_apart(tmp_path, monkeypatch):
    with pytest.raises(ModelNotFoundError, match="no file"):
        read_gguf(tmp_path / "none.gguf")
    with pytest.raises(ModelNotFoundError):
        read_gguf(tmp_path)
    with pytest.raises(ModelNotFoundError):
        read_gguf(tmp_path / ("x" * 5000))
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf_bytes())

    def deny(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)
    with pytest.raises(ModelFileError, match="Permission denied"):
        read_gguf(path)


def test_the_real_header_is_read_fast(default_model_path):
    started = time.perf_counter()
    read = read_gguf(default_model_path)
    assert time.perf_counter() - started < 0.3
    assert len(read.tensors) == 272
    assert len(read.metadata["tokenizer.ggml.tokens"]) == 49152
    assert len(read.metadata["tokenizer.ggml.merges"]) == 48900
    assert read.tensors["blk.0.ffn_down.weight"].shape == (576, 1536)
