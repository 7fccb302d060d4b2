"""The tokenizer, proven on the real vocabulary against the `tokenizers` library's own pipeline."""

import hashlib
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from engine.errors import ModelFileError
from engine.files.gguf import read_gguf
from engine.text import tokenizer as tokenizer_module
from engine.text.tokenizer import Tokenizer, tokenizer_json

PUBLIC_SHA256 = "9ca9acddb6525a194ec8ac7a87f24fbba7232a9a15ffa1af0c1224fcd888e47c"
CONTROL_NAMES = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"]

ANY_TEXT = st.text(st.characters(codec="utf-8"))
PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *CONTROL_NAMES,
                *(" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "'s", "'ll", "'", ".", "、"),
                *(
                    "日本語",
                    "テキスト。",
                    "👩\u200d🚀",
                    "e\u0301",
                    "½",
                    "٣",
                    "12",
                    "x",
                    "Hello",
                    "_",
                ),
            ]
        ),
        ANY_TEXT,
    ),
    max_size=12,
).map("".join)


@pytest.fixture(scope="module")
def metadata(default_model_path: Path) -> dict[str, Any]:
    return read_gguf(default_model_path).metadata


@pytest.fixture(scope="module")
def real(metadata: dict[str, Any]) -> Tokenizer:
    return Tokenizer.from_gguf(metadata)


@pytest.fixture(scope="module")
def library(metadata: dict[str, Any]) -> Library:
    pipeline = Library.from_str(tokenizer_json(metadata))
    pipeline.encode_special_tokens = True
    return pipeline


def test_gguf_gives_back_the_public_tokenizer_file_to_the_byte(metadata: dict[str, Any]) -> None:
    assert hashlib.sha256(tokenizer_json(metadata).encode()).hexdigest() == PUBLIC_SHA256


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        ("Hello", [19556]),
        ("The capital of France is", [504, 3575, 282, 4649, 314]),
        ("Hello world! 123", [19556, 905, 17, 216, 33, 34, 35]),
        ("Café déjà vu.", [51, 1939, 2756, 32564, 90, 16739, 386, 101, 30]),
        ("\n", [198]),
    ],
)
def test_known_texts_have_their_known_ids(real: Tokenizer, text: str, ids: list[int]) -> None:
    assert real.encode(text) == ids
    assert real.decode(ids) == text


def test_both_sources_give_the_same_tokenizer(
    real: Tokenizer, metadata: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "tökenizer of “mine”.json"
    path.write_text(tokenizer_json(metadata), encoding="utf-8")
    other = Tokenizer.from_file(path)
    text = "Naïve 12,5 % «日本語» <|im_end|> 👩‍🚀\n\n  def f(x):\n\treturn x"
    assert other.encode_scaffold(text) == real.encode_scaffold(text)
    assert (other.vocab_size, other.control_ids) == (49152, frozenset(range(17)))


def test_merges_may_be_written_as_pairs(metadata: dict[str, Any]) -> None:
    description = json.loads(tokenizer_json(metadata))
    description["model"]["merges"] = [m.split(" ") for m in description["model"]["merges"]]
    assert Tokenizer.from_json(json.dumps(description)).encode("Hello world") == [19556, 905]


@given(text=PIECES)
@settings(deadline=None, max_examples=150)
def test_content_is_encoded_as_the_library_does_it(
    real: Tokenizer, library: Library, text: str
) -> None:
    assert real.encode(text) == library.encode(text, add_special_tokens=False).ids


@given(text=PIECES)
@settings(deadline=None, max_examples=150)
def test_scaffold_is_encoded_as_the_library_does_it(
    real: Tokenizer, library: Library, text: str
) -> None:
    library.encode_special_tokens = False
    try:
        expected = library.encode(text, add_special_tokens=False).ids
    finally:
        library.encode_special_tokens = True
    assert real.encode_scaffold(text) == expected


@given(text=PIECES)
@settings(deadline=None)
def test_content_never_becomes_a_control_token(real: Tokenizer, text: str) -> None:
    assert not real.control_ids.intersection(real.encode(text))


def test_no_control_name_can_be_typed(real: Tokenizer) -> None:
    for index in real.control_ids:
        name = real.token_text(index)
        assert real.id_of(name) == index
        assert real.encode_scaffold(name) == [index]
        assert index not in real.encode(name)
        assert real.decode(real.encode(name)) == name


@given(text=PIECES)
@settings(deadline=None, max_examples=300)
def test_slices_never_change_the_ids(real: Tokenizer, text: str) -> None:
    whole = real.encode(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "SLICE", 1)
        assert real.encode(text) == whole


def test_a_cut_beside_any_character_never_changes_the_ids(real: Tokenizer) -> None:
    # every character of the basic plane before whitespace and between a letter and a mark
    letters = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    text = "\n".join(f"a{letter} b {letter}.{letter}  c" for letter in letters)
    whole = real._pipeline.encode(text, add_special_tokens=False).ids
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "SLICE", 20)
        assert real.encode(text) == whole


def test_large_text_is_encoded_in_small_slices() -> None:
    for text in ("two words " * 20_000, "日本語。" * 20_000, "x,y;" * 20_000):
        slices = list(tokenizer_module._slices(text))
        assert "".join(slices) == text
        assert max(map(len, slices)) < tokenizer_module.SLICE + 50


def test_other_threads_go_on_while_a_large_text_is_encoded(real: Tokenizer) -> None:
    text = "The quick brown fox, 123 jumps. " * 60_000
    thread = threading.Thread(target=real.encode, args=(text,))
    turns, started = 0, time.perf_counter()
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        turns += 1
    elapsed = time.perf_counter() - started
    thread.join()
    # held throughout, this thread would get one or two turns; 20 ms a turn leaves room for load
    assert turns > elapsed / 0.02


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "\ud800", "\udc00\ud800", "a\udfffb", "\uffff"])
def test_odd_characters_never_raise(real: Tokenizer, text: str) -> None:
    expected = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    assert real.decode(real.encode(text)) == expected
    assert real.decode(real.encode_scaffold(text)) == expected


@given(ids=st.lists(st.integers(0, 49151), max_size=40))
@settings(deadline=None, max_examples=300)
def test_decode_is_the_librarys(real: Tokenizer, library: Library, ids: list[int]) -> None:
    assert real.decode(ids) == library.decode(ids, skip_special_tokens=True)


@given(data=st.binary(max_size=24))
@settings(deadline=None, max_examples=300)
def test_any_bytes_decode_as_in_the_library(real: Tokenizer, library: Library, data: bytes) -> None:
    # the ids of single bytes lie together, right behind the control tokens
    single = {real.token_bytes(index): index for index in range(17, 300)}
    ids = [single[bytes([byte])] for byte in data if bytes([byte]) in single]
    assert data == b"" or len(single) > 200
    assert real.decode(ids) == library.decode(ids)


def test_a_token_can_be_shown(real: Tokenizer) -> None:
    assert real.token_text(2) == "<|im_end|>"
    assert real.token_text(905) == " world"
    assert real.token_text(real.encode("👍")[-1]) == "\ufffd"
    assert real.token_bytes(198) == b"\n"
    assert real.token_bytes(2) == b""
    assert real.id_of("Hello") is None


@pytest.mark.parametrize("index", [49152, 10**9, -1])
def test_ids_that_mean_nothing_have_no_text(real: Tokenizer, index: int) -> None:
    assert real.token_bytes(index) == b""
    assert real.token_text(index) == ""
    assert real.decode([19556, index]) == "Hello"


def test_a_missing_file_is_told_in_plain_words(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"tokenizer\.json could not be read"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")
