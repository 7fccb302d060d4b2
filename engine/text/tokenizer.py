"""Text to token ids and back: byte-level BPE around the `tokenizers` library.

Ordinary text never becomes a control token, whatever it says.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as _Pipeline
from tokenizers import models, pre_tokenizers

from engine.errors import ModelFileError
from engine.text.vocabulary import Vocabulary, tokenizer_json

__all__ = ["Tokenizer", "tokenizer_json"]

MAX_FILE_BYTES = 64 * 2**20

SLICE = 4_000
"""Characters that are encoded at once, at least; `tokenizers` can keep other threads waiting."""

# Where text may be cut without changing its ids: where the pre-tokenizer ends a word whatever
# comes before and after. No word goes on over whitespace that follows something else, nor from a
# letter to one of these marks ("'" is not among them: "'s" is a word).
_CUT = re.compile(
    r"(?<=\S)(?=[ \n\r\t])"
    r"|(?<=[A-Za-z\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fa5\uac00-\ud7a3])"
    r"(?=[,.!?;:()\[\]{}\u3001\u3002\uff01\uff0c\uff1f\u300c\u300d])"
)
_SURROGATES = re.compile("[\ud800-\udfff]")


class Tokenizer:
    """A model's vocabulary in use. Safe to use from several threads at once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokens = vocabulary.tokens
        self._added = dict(vocabulary.added)
        self.control_ids = vocabulary.control_ids
        self.longest_token = max(map(len, vocabulary.tokens))
        """In bytes; no token stands for more characters than that."""
        self._pipeline = _pipeline(vocabulary)
        names = sorted(self._added, key=len, reverse=True)
        self._names = re.compile("|".join(map(re.escape, names))) if names else None

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        """From the text of a tokenizer.json. Raises ModelFileError."""
        return cls(Vocabulary.from_json(text))

    @classmethod
    def from_file(cls, path: Path | str) -> "Tokenizer":
        """From a tokenizer.json. Raises ModelFileError."""
        path = Path(path)
        if path.exists() and not path.is_file():  # a pipe would keep us waiting for ever
            raise ModelFileError(f"{path.name} is not a file.", "Fetch the model again.")
        try:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise ModelFileError(
                f"The tokenizer file {path.name} could not be read: {error.strerror}.",
                "Check that it exists and that you may read it.",
            ) from None
        try:
            if len(data) > MAX_FILE_BYTES:
                raise ValueError
            return cls.from_json(data.decode("utf-8"))
        except ValueError:
            raise ModelFileError(
                f"The file {path.name} is not a tokenizer.", "Fetch the model again."
            ) from None

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> "Tokenizer":
        """From a GGUF file's metadata. Raises ModelFileError."""
        return cls(Vocabulary.from_gguf(metadata))

    @property
    def vocab_size(self) -> int:
        """How many ids there are; they run from 0."""
        return len(self._tokens)

    def encode(self, text: str) -> list[int]:
        """The ids of a text taken as content: no id of a control token is ever among them.

        Lone surrogates are read as U+FFFD. Bytes for which the vocabulary has no token (the real
        one lacks 21, such as 0x04) have no id.
        """
        ids: list[int] = []
        for part in _slices(_SURROGATES.sub("\ufffd", text)):
            # The batch call lets other threads run meanwhile; `encode` does not.
            (encoding,) = self._pipeline.encode_batch_fast([part], add_special_tokens=False)
            ids += encoding.ids
        return ids

    def encode_scaffold(self, text: str) -> list[int]:
        """The ids of a text written by a chat template: names of control tokens become these."""
        ids: list[int] = []
        for piece in self.split_names(text):
            ids += [piece] if isinstance(piece, int) else self.encode(piece)
        return ids

    def split_names(self, text: str) -> Iterator[str | int]:
        """The text cut at the names of control and other added tokens, these as ids."""
        start = 0
        for found in self._names.finditer(text) if self._names else ():
            if found.start() > start:
                yield text[start : found.start()]
            yield self._added[found.group()]
            start = found.end()
        if start < len(text):
            yield text[start:]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids without control tokens; broken UTF-8 becomes U+FFFD."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one token; none for a control token.

        None either for an id past the vocabulary: an embedding may be padded with rows that mean
        nothing.
        """
        if token_id in self.control_ids or not 0 <= token_id < len(self._tokens):
            return b""
        token = self._tokens[token_id]
        try:
            return token.translate(_BYTE_OF).encode("latin-1")
        except UnicodeEncodeError:  # not in the byte-level spelling: it stands for itself
            return token.encode()

    def token_text(self, token_id: int) -> str:
        """One token for display: control tokens by name, parts of a character as U+FFFD."""
        if token_id in self.control_ids:
            return self._tokens[token_id]
        return self.token_bytes(token_id).decode("utf-8", "replace")

    def id_of(self, name: str) -> int | None:
        """The id of the control (or other added) token of this name."""
        return self._added.get(name)


def _pipeline(vocabulary: Vocabulary) -> _Pipeline:
    """Content only: the added tokens are left out, so nothing can ever match them."""
    vocab = {token: index for index, token in enumerate(vocabulary.tokens)}
    pipeline = _Pipeline(models.BPE(vocab=vocab, merges=list(vocabulary.merges)))
    words: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    ]
    if vocabulary.digits_alone:
        words.insert(0, pre_tokenizers.Digits(individual_digits=True))
    pipeline.pre_tokenizer = pre_tokenizers.Sequence(words)
    return pipeline


def _slices(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        cut = _CUT.search(text, start + SLICE)
        end = cut.start() if cut else len(text)
        yield text[start:end]
        start = end


def _byte_spelling() -> dict[int, int]:
    """Characters of the byte-level spelling -> bytes.

    Source: `bytes_to_unicode` of GPT-2. Printable Latin-1 stands for itself; the other bytes, in
    order, for the characters from U+0100 on. Latin-1 characters that stand for nothing are sent
    out of Latin-1, so that they are told apart.
    """
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in shown]
    spelling = {0x100 + place: byte for place, byte in enumerate(hidden)}
    return {byte: byte for byte in shown} | dict.fromkeys(hidden, 0xFFFD) | spelling


_BYTE_OF = _byte_spelling()
