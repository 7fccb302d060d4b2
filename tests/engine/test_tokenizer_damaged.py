"""Tokenizer files that are damaged or of another kind: one typed error, never a crash."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ModelFileError
from engine.text import tokenizer as tokenizer_module
from engine.text import vocabulary as vocabulary_module
from engine.text.tokenizer import Tokenizer, tokenizer_json

Description = dict[str, Any]
Damage = Callable[[Description], Any]

GGUF: dict[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["<|end|>", "a", "b", "Ġ", "1", "ab", "Ġab"],
    "tokenizer.ggml.token_type": [3, 1, 1, 1, 1, 1, 1],
    "tokenizer.ggml.merges": ["a b", "Ġ ab"],
}


def small() -> Description:
    description: Description = json.loads(tokenizer_json(GGUF))
    return description


def test_the_small_tokenizer_is_whole_before_it_is_damaged() -> None:
    tokenizer = Tokenizer.from_json(json.dumps(small()))
    assert tokenizer.encode("ab ab1") == Tokenizer.from_gguf(GGUF).encode("ab ab1") == [5, 6, 4]


def test_added_tokens_may_lie_past_the_vocabulary() -> None:
    description = small()
    description["added_tokens"].append({"id": 7, "content": "<|pad|>", "special": True})
    description["added_tokens"].append({"id": 8, "content": "<tool>", "special": False})
    tokenizer = Tokenizer.from_json(json.dumps(description))
    assert tokenizer.encode_scaffold("ab<|pad|>ab<tool>") == [5, 7, 5, 8]
    assert tokenizer.control_ids == {0, 7}
    assert tokenizer.decode([5, 7, 8]) == "ab<tool>"


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("model"),
        lambda d: d.update(model=[]),
        lambda d: d["model"].update(type="WordPiece"),
        lambda d: d["model"].update(type="Unigram", vocab=[["a", 0.0]]),
        lambda d: d["model"].update(vocab=["a"]),
        lambda d: d["model"].update(vocab={}, merges=[]) or d.update(added_tokens=[]),
        lambda d: d["model"]["vocab"].update(x=99),
        lambda d: d["model"]["vocab"].update(x=-1),
        lambda d: d["model"]["vocab"].update(x=2**70),
        lambda d: d["model"]["vocab"].update(x=1),
        lambda d: d["model"]["vocab"].update(x=True),
        lambda d: d["model"]["vocab"].update(x=1.0),
        lambda d: d["model"]["vocab"].update({"x": "7"}),
        lambda d: d["model"]["vocab"].update({"": 7}),
        lambda d: d["model"]["vocab"].update({"\ud800": 7}),
        lambda d: d["model"]["vocab"].update({"x" * 5000: 7}),
        lambda d: d["model"].update(merges={"a": "b"}),
        lambda d: d["model"].update(merges=["a z"]),
        lambda d: d["model"].update(merges=["b a"]),
        lambda d: d["model"].update(merges=["ab"]),
        lambda d: d["model"].update(merges=["a  b"]),
        lambda d: d["model"].update(merges=[["a", "b", "c"]]),
        lambda d: d["model"].update(merges=[["a", 1]]),
        lambda d: d["model"].update(merges=[7]),
        lambda d: d["model"].update(ignore_merges=True),
        lambda d: d["model"].update(byte_fallback=True),
        lambda d: d["model"].update(dropout=0.5),
        lambda d: d["model"].update(unk_token="a"),
        lambda d: d["model"].update(end_of_word_suffix="</w>"),
        lambda d: d.update(added_tokens={"0": "<|end|>"}),
        lambda d: d.update(added_tokens=["<|end|>"]),
        lambda d: d["added_tokens"][0].update(id=1),
        lambda d: d["added_tokens"][0].update(id="0"),
        lambda d: d["added_tokens"][0].update(content=""),
        lambda d: d["added_tokens"][0].update(content=["x"]),
        lambda d: d["added_tokens"][0].update(lstrip=True),
        lambda d: d["added_tokens"].append(d["added_tokens"][0]),
        lambda d: d["added_tokens"].append({"id": 7, "content": " x"}),
        lambda d: d["added_tokens"].append({"id": 9, "content": "<x>"}),
        lambda d: d.update(normalizer={"type": "NFC"}),
        lambda d: d.update(decoder=None),
        lambda d: d.update(decoder={"type": "Metaspace"}),
        lambda d: d.update(post_processor={"type": "TemplateProcessing"}),
        lambda d: d.update(pre_tokenizer=None),
        lambda d: d.update(pre_tokenizer={"type": "Whitespace"}),
        lambda d: d["pre_tokenizer"].update(pretokenizers=[]),
        lambda d: d["pre_tokenizer"]["pretokenizers"][0].update(individual_digits=False),
        lambda d: d["pre_tokenizer"]["pretokenizers"][1].update(add_prefix_space=True),
        lambda d: d["pre_tokenizer"]["pretokenizers"][1].update(use_regex=False),
    ],
)
def test_a_damaged_or_foreign_tokenizer_is_refused(damage: Damage) -> None:
    description = small()
    damage(description)
    with pytest.raises(ModelFileError) as caught:
        Tokenizer.from_json(json.dumps(description))
    assert caught.value.what.endswith(".")
    assert caught.value.remedy.endswith(".")


@pytest.mark.parametrize("token", ["a", "ab", "Ġab"])
def test_a_control_token_that_could_be_typed_is_refused(token: str) -> None:
    description = small()
    index = description["model"]["vocab"][token]
    description["added_tokens"].append({"id": index, "content": token, "special": True})
    with pytest.raises(ModelFileError, match="typed as ordinary text"):
        Tokenizer.from_json(json.dumps(description))


@pytest.mark.parametrize(
    "changes",
    [
        {"tokenizer.ggml.model": "llama"},
        {"tokenizer.ggml.model": None},
        {"tokenizer.ggml.pre": "llama-bpe"},
        {"tokenizer.ggml.pre": None},
        {"tokenizer.ggml.pre": ["smollm"]},
        {"tokenizer.ggml.tokens": None},
        {"tokenizer.ggml.tokens": "abc"},
        {"tokenizer.ggml.tokens": []},
        {"tokenizer.ggml.tokens": [1, 2, 3, 4, 5, 6, 7]},
        {"tokenizer.ggml.tokens": ["<|end|>", "a", "b", "Ġ", "1", "ab", "ab"]},
        {"tokenizer.ggml.merges": None},
        {"tokenizer.ggml.merges": [1]},
        {"tokenizer.ggml.merges": ["a c"]},
        {"tokenizer.ggml.token_type": [3]},
        {"tokenizer.ggml.token_type": 3},
        {"tokenizer.ggml.token_type": [9] * 7},
        {"tokenizer.ggml.token_type": ["3"] * 7},
        {"tokenizer.ggml.token_type": [3] * 7},
    ],
)
def test_damaged_or_foreign_gguf_metadata_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError):
        Tokenizer.from_gguf({**GGUF, **changes})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe{}",
        b"<!doctype html><html>",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        b"[" * 100_000,
        b"9" * 100_000,
        b'{"model": ' * 50_000,
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        Tokenizer.from_file(path)


def test_files_and_lists_of_absurd_size_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(small()), encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(tokenizer_module, "MAX_FILE_BYTES", 100)
        with pytest.raises(ModelFileError, match="not a tokenizer"):
            Tokenizer.from_file(path)
    with monkeypatch.context() as patch:
        patch.setattr(vocabulary_module, "MAX_TOKENS", 3)
        with pytest.raises(ModelFileError, match="far too long"):
            Tokenizer.from_file(path)
    assert Tokenizer.from_file(path).vocab_size == 7


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every value inside a parsed JSON value."""
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    else:
        inner = []
    return [path] * bool(path) + [p for key, item in inner for p in _places(item, (*path, key))]


PLACES = _places(small())
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["a", "ab", "Ġ", "ByteLevel", "BPE", "Sequence", 0, 1, 7, 2**32, -1]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), ANYTHING), min_size=1, max_size=3))
@settings(deadline=None, max_examples=400)
def test_any_change_gives_a_working_tokenizer_or_the_typed_error(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    description = small()
    for path, value in changes:
        target: Any = description
        try:
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):
            continue
    try:
        tokenizer = Tokenizer.from_json(json.dumps(description))
    except ModelFileError:
        return
    ids = tokenizer.encode("ab a1 <|end|> 日本")
    assert not tokenizer.control_ids.intersection(ids)
    assert all(0 <= index < tokenizer.vocab_size for index in ids)
