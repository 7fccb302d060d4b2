"""Reads the vocabulary of a byte-level BPE tokenizer from a tokenizer.json or from GGUF metadata.

Whatever is wrong with the source is found here, so that what comes out is always usable.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import ModelFileError

MAX_TOKENS = 1_000_000
MAX_TOKEN_LENGTH = 1_000

_GGUF_NORMAL, _GGUF_CONTROL, _GGUF_USER_DEFINED = 1, 3, 4
_GGUF_TOKEN_TYPES = range(1, 7)
# How GGUF files name the rule that cuts text into words: does it take each digit alone?
_GGUF_DIGITS_ALONE = {"smollm": True, "gpt-2": False}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`tokens` by id, in the byte-level spelling; `merges` in the order of their rank.

    `added` maps the tokens that are recognised as a whole (never built from merges) to their ids;
    `control_ids` are those of them that are never shown. `digits_alone`: every digit is a word.
    """

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    added: Mapping[str, int]
    control_ids: frozenset[int]
    digits_alone: bool

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        """The vocabulary in the text of a tokenizer.json. Raises ModelFileError."""
        try:
            description = json.loads(text)
        except (ValueError, RecursionError):
            raise _damaged("The tokenizer file is not valid JSON.") from None
        return cls.from_description(description)

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> "Vocabulary":
        """The vocabulary in a GGUF file's metadata. Raises ModelFileError."""
        return cls.from_description(gguf_description(metadata))

    @classmethod
    def from_description(cls, description: object) -> "Vocabulary":
        """The vocabulary in a parsed tokenizer.json. Raises ModelFileError."""
        top = _mapping(description, "the whole")
        digits_alone = _read_pipeline(top)
        model = _mapping(top.get("model"), "`model`")
        _require_plain_bpe(model)
        vocab = _read_vocab(_mapping(model.get("vocab"), "`model.vocab`"))
        added, control_ids = _read_added(top.get("added_tokens"))
        tokens = _in_order_of_ids(vocab, added)
        merges = _read_merges(model.get("merges"), vocab)
        _require_unspeakable(added, merges)
        return cls(tokens, merges, added, control_ids, digits_alone)


def tokenizer_json(metadata: Mapping[str, Any]) -> str:
    """The text of the tokenizer.json that a GGUF file was made from. Raises ModelFileError."""
    return json.dumps(gguf_description(metadata), indent=2, ensure_ascii=False)


def gguf_description(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """GGUF metadata in the form of a parsed tokenizer.json, keys in the Hub's order.

    Source: the `tokenizer.ggml.*` keys of the GGUF specification. Raises ModelFileError.
    """
    kind = metadata.get("tokenizer.ggml.model")
    if kind != "gpt2":
        raise _foreign(f"Its tokenizer is of the kind {_shown(kind)}, not byte-level BPE.")
    rule = metadata.get("tokenizer.ggml.pre")
    if not isinstance(rule, str) or rule not in _GGUF_DIGITS_ALONE:
        raise _foreign(f"Its tokenizer cuts text into words by the unknown rule {_shown(rule)}.")
    tokens = _strings(metadata.get("tokenizer.ggml.tokens"), "list of tokens")
    merges = _strings(metadata.get("tokenizer.ggml.merges"), "list of merges")
    types = metadata.get("tokenizer.ggml.token_type", [_GGUF_NORMAL] * len(tokens))
    if not isinstance(types, list | tuple) or len(types) != len(tokens):
        raise _damaged("The tokenizer's list of token types does not match its list of tokens.")
    if any(kind not in _GGUF_TOKEN_TYPES for kind in types):
        raise _damaged("The tokenizer's list of token types has a value that means nothing.")
    byte_level = {"type": "ByteLevel", "add_prefix_space": False}
    options = {"trim_offsets": True, "use_regex": True}
    words: list[dict[str, Any]] = [{**byte_level, **options}]
    if _GGUF_DIGITS_ALONE[rule]:
        words.insert(0, {"type": "Digits", "individual_digits": True})
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _added_token(index, tokens[index], special=kind == _GGUF_CONTROL)
            for index, kind in enumerate(types)
            if kind in (_GGUF_CONTROL, _GGUF_USER_DEFINED)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": words},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, **options},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": list(merges),
        },
    }


def _added_token(index: int, content: str, *, special: bool) -> dict[str, Any]:
    return {
        "id": index,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def _read_pipeline(top: Mapping[str, Any]) -> bool:
    """Whether every digit is a word of its own; refuses any pipeline but byte-level BPE's."""
    if top.get("normalizer") is not None:
        raise _foreign("Its tokenizer changes the text before reading it.")
    for name in ("decoder", "post_processor"):
        step = top.get(name)
        if not ((step is None and name == "post_processor") or _type(step) == "ByteLevel"):
            raise _foreign(f"Its tokenizer has a {name} that is not byte-level.")
    steps = top.get("pre_tokenizer")
    if isinstance(steps, dict) and _type(steps) == "Sequence":
        steps = steps.get("pretokenizers")
    steps = steps if isinstance(steps, list) else [steps]
    kinds = [_type(step) for step in steps]
    if kinds not in (["ByteLevel"], ["Digits", "ByteLevel"]):
        raise _foreign("Its tokenizer cuts text into words in an unknown way.")
    byte_level = steps[-1]
    prefix_space = byte_level.get("add_prefix_space", True)
    if prefix_space is not False or byte_level.get("use_regex", True) is not True:
        raise _foreign("Its tokenizer cuts text into words in an unknown way.")
    if len(steps) == 2 and steps[0].get("individual_digits") is not True:
        raise _foreign("Its tokenizer cuts numbers in an unknown way.")
    return len(steps) == 2


def _require_plain_bpe(model: Mapping[str, Any]) -> None:
    if _type(model) != "BPE":
        raise _foreign(f"Its tokenizer is of the kind {_shown(_type(model))}, not BPE.")
    for name in (
        "dropout",
        "unk_token",
        "continuing_subword_prefix",
        "end_of_word_suffix",
        "byte_fallback",
        "ignore_merges",
    ):
        if model.get(name):
            raise _foreign(f"Its tokenizer uses `{name}`.")


def _read_vocab(vocab: Mapping[str, Any]) -> dict[str, int]:
    _require_tokens(list(vocab), "vocabulary")
    if any(type(index) is not int for index in vocab.values()):
        raise _damaged("A token's id in the tokenizer is not a whole number.")
    return dict(vocab)


def _read_added(entries: object) -> tuple[dict[str, int], frozenset[int]]:
    """Added tokens with their ids, and the ids of the control tokens among them."""
    if entries is None:
        entries = []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _damaged("The tokenizer's `added_tokens` is not a list of descriptions.")
    contents = [entry.get("content") for entry in entries]
    ids = [entry.get("id") for entry in entries]
    _require_tokens(contents, "`added_tokens`")
    if any(type(index) is not int for index in ids) or len(set(contents)) < len(contents):
        raise _damaged("An entry of the tokenizer's `added_tokens` has no id or appears twice.")
    for entry in entries:
        if any(entry.get(flag) for flag in ("lstrip", "rstrip", "single_word")):
            raise _foreign("Its tokenizer has added tokens that take in the text around them.")
    added = dict(zip(contents, ids, strict=True))
    return added, frozenset(entry["id"] for entry in entries if entry.get("special") is True)


def _in_order_of_ids(vocab: Mapping[str, int], added: Mapping[str, int]) -> tuple[str, ...]:
    if any(vocab.get(token, index) != index for token, index in added.items()):
        raise _damaged("The tokenizer gives one token two ids.")
    ids = {**vocab, **added}
    tokens = sorted(ids, key=ids.__getitem__)
    if not tokens or [ids[token] for token in tokens] != list(range(len(tokens))):
        raise _damaged("The tokenizer has no tokens, or their ids have gaps or appear twice.")
    return tuple(tokens)


def _read_merges(merges: object, vocab: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    """Merges are written as "a b" (older files) or as ["a", "b"]."""
    if not isinstance(merges, list) or len(merges) > MAX_TOKENS:
        raise _damaged("The tokenizer's `merges` is not a list, or is far too long.")
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise _damaged("A merge of the tokenizer is not a pair of tokens.")
        left, right = pair
        if not isinstance(left, str) or not isinstance(right, str):
            raise _damaged("A merge of the tokenizer is not a pair of tokens.")
        if not (left in vocab and right in vocab and left + right in vocab):
            raise _damaged("A merge of the tokenizer names a token that is not in its vocabulary.")
    return tuple((left, right) for left, right in pairs)


def _require_unspeakable(added: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> None:
    """Ordinary text must never turn into an added token.

    BPE starts from single characters and only ever adds what a merge makes.
    """
    spoken = {left + right for left, right in merges}
    for token in added:
        if len(token) == 1 or token in spoken:
            raise _damaged("A control token of the tokenizer could be typed as ordinary text.")
        if token != token.strip():
            raise _foreign("Its tokenizer has an added token that begins or ends with a space.")


def _require_tokens(tokens: Sequence[object], where: str) -> None:
    if len(tokens) > MAX_TOKENS:
        raise _damaged(f"The tokenizer's {where} is far too long.")
    if not all(isinstance(token, str) and 0 < len(token) <= MAX_TOKEN_LENGTH for token in tokens):
        raise _damaged(f"A token in the tokenizer's {where} is empty, too long or not a text.")
    try:
        "".join(map(str, tokens)).encode()
    except UnicodeEncodeError:
        raise _damaged(f"A token in the tokenizer's {where} is not valid text.") from None


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _damaged(f"In the tokenizer file, {where} is not an object.")
    return value


def _strings(value: object, where: str) -> Sequence[str]:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return value
    raise _damaged(f"The tokenizer's {where} is missing or is not a list of texts.")


def _type(value: object) -> object:
    return value.get("type") if isinstance(value, Mapping) else None


def _shown(value: object) -> str:
    return repr(value)[:60]


def _damaged(what: str) -> ModelFileError:
    return ModelFileError(what, "The file is damaged; fetch the model again.")


def _foreign(what: str) -> ModelFileError:
    return ModelFileError(
        f"This is not a SmolLM model. {what}", "Choose a SmolLM or SmolLM2 model."
    )
