"""Streaming text: pieces joined are the whole, and what was given out never changes."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.files.gguf import read_gguf
from engine.text.stream import TextStream
from engine.text.tokenizer import Tokenizer

TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.lists(
        st.sampled_from(
            [
                *("日本語の文。", "👩‍👩‍👧‍👦", "👍🏽", "🇯🇵", "e\u0301", "\u200d", "ﷺ", "한국어"),
                *("def f(x):\n    return x\n", "    ", " ", "\n\n", "\t", "a", "ab", "\ufffd"),
            ]
        ),
        max_size=12,
    ).map("".join),
)
IDS = st.lists(st.integers(0, 49151), max_size=40)
# few letters, so that stop texts overlap each other and themselves
STOPS = st.lists(st.text("ab\n日", min_size=1, max_size=5), min_size=1, max_size=4).map(tuple)


@pytest.fixture(scope="module")
def real(default_model_path: Path) -> Tokenizer:
    return Tokenizer.from_gguf(read_gguf(default_model_path).metadata)


def stream(tokenizer: Tokenizer, ids: list[int], stops: tuple[str, ...] = ()) -> list[str]:
    """Every piece of a reply; checks on the way how much is held back."""
    text_stream = TextStream(tokenizer, stops)
    longest = max(map(len, stops), default=1)
    pieces = []
    for end, index in enumerate(ids, start=1):
        pieces.append(text_stream.push(index))
        if not text_stream.stopped:
            known = tokenizer.decode(ids[:end]).rstrip("\ufffd")
            assert len("".join(pieces)) >= len(known) - (longest - 1)
    pieces.append(text_stream.finish())
    assert text_stream.finish() == ""
    return pieces


def before_first_stop(text: str, stops: tuple[str, ...]) -> tuple[str, bool]:
    """Reading letter by letter: the text before the stop text that is complete first."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            return text[: end - max(map(len, complete))], True
    return text, False


@given(text=TEXTS)
@settings(deadline=None, max_examples=200)
def test_pieces_of_a_text_joined_are_the_text(real: Tokenizer, text: str) -> None:
    ids = real.encode(text)
    assert "".join(stream(real, ids)) == real.decode(ids)


@given(ids=IDS)
@settings(deadline=None, max_examples=300)
def test_pieces_of_any_ids_joined_are_their_decoding(real: Tokenizer, ids: list[int]) -> None:
    assert "".join(stream(real, ids)) == real.decode(ids)


@given(data=st.binary(max_size=16))
@example(b"\xe0\x80\x80")
@example(b"\xf0\x9f\x91")
@example(b"\xed\xa0\x80")
@example(b"\xf4\x90\x80\x80")
@settings(deadline=None, max_examples=400)
def test_any_bytes_one_at_a_time_are_the_whole_decoded(data: bytes) -> None:
    class Bytes:
        def token_bytes(self, token_id: int) -> bytes:
            return bytes([token_id])

    text_stream = TextStream(Bytes())  # type: ignore[arg-type]
    pieces = [text_stream.push(byte) for byte in data]
    assert "".join(pieces) + text_stream.finish() == data.decode("utf-8", "replace")


@given(text=st.text("ab\n日", max_size=30), stops=STOPS)
@settings(deadline=None, max_examples=500)
def test_a_stop_text_ends_the_reply_wherever_tokens_end(
    real: Tokenizer, text: str, stops: tuple[str, ...]
) -> None:
    expected, stopped = before_first_stop(text, stops)
    singles = [index for letter in text for index in real.encode(letter)]
    for ids in (real.encode(text), singles):
        text_stream = TextStream(real, stops)
        pieces = [text_stream.push(index) for index in ids]
        assert text_stream.stopped is stopped
        assert "".join(pieces) + text_stream.finish() == expected
        assert "".join(stream(real, ids, stops)) == expected


def test_a_character_appears_once_when_it_is_whole(real: Tokenizer) -> None:
    ids = real.encode("👍")
    assert len(ids) > 1
    assert stream(real, ids) == [""] * (len(ids) - 1) + ["👍", ""]


def test_a_cut_character_is_flushed_as_a_replacement(real: Tokenizer) -> None:
    assert stream(real, real.encode("👍")[:-1])[-1] == "\ufffd"


def test_the_beginning_of_a_stop_text_is_held_back_and_flushed(real: Tokenizer) -> None:
    text_stream = TextStream(real, ("Hello world!",))
    assert text_stream.push(19556) == ""
    assert text_stream.push(905) == ""
    assert not text_stream.stopped
    assert text_stream.finish() == "Hello world"


def test_nothing_follows_a_stop_text(real: Tokenizer) -> None:
    text_stream = TextStream(real, ("wor",))
    assert text_stream.push(19556) == "Hello"
    assert text_stream.push(905) == " "
    assert text_stream.stopped
    assert text_stream.push(19556) == text_stream.finish() == ""


def test_control_tokens_have_no_text(real: Tokenizer) -> None:
    assert stream(real, [1, 19556, 2, 905, 0]) == ["", "Hello", "", " world", "", ""]


def test_a_stop_text_completed_by_the_flush_counts(real: Tokenizer) -> None:
    text_stream = TextStream(real, ("\ufffd",))
    for index in real.encode("ok👍")[:-1]:
        text_stream.push(index)
    assert text_stream.finish() == ""
    assert text_stream.stopped


@given(text=st.text(max_size=30), share=st.floats(0, 1))
def test_a_stream_that_goes_on_completes_the_character_that_was_begun(real, text, share):
    ids = real.encode(text)
    cut = round(share * len(ids))
    first = TextStream(real)
    before = "".join(map(first.push, ids[:cut])) + first.finish(cut_off=True)
    second = TextStream(real, after=ids[:cut])
    after = "".join(map(second.push, ids[cut:])) + second.finish()
    assert before + after == real.decode(ids)
