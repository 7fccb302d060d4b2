"""What the command line accepts, and the values in it: each is checked before a model is loaded."""

import argparse
import json
import reprlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from engine.bench import PARTS
from engine.errors import OptionsError
from engine.messages import Message
from engine.options import SamplingOptions

USAGE_ERROR = 2

Command = Callable[[argparse.Namespace], None]

_DIALOG_FORM = (
    'A dialog is [{"role": "user", "content": "…"}, …], with roles system, user, assistant.'
)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parser_for(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The parser: `run` in what it returns is the command chosen, whose docstring is its help."""
    parser = _Parser(prog="smoldesk-cli", description="SmolLM2 in the terminal.")
    parsers = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, *, engine: bool = True, model: bool = True) -> argparse.ArgumentParser:
        run = commands[name]
        sub: argparse.ArgumentParser = parsers.add_parser(
            name, help=run.__doc__, description=run.__doc__
        )
        sub.set_defaults(run=run)
        sub.add_argument("--json", action="store_true", help="one JSON value instead of text")
        if model:
            sub.add_argument("--model", help="an installed model's name, or a file or folder")
        if engine:
            sub.add_argument("--device", help="auto, cpu, cuda or mps")
            sub.add_argument("--precision", help="auto, q4, int8, bf16, fp16 or fp32")
            sub.add_argument("--threads", type=int, help="CPU threads")
            sub.add_argument("--quiet", action="store_true", help="leave half of the threads free")
        return sub

    sub = command("chat")
    sub.add_argument("--system", help="the system prompt (default: the model's own)")
    _add_sampling(sub, max_tokens=None)
    sub = command("complete")
    source = sub.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", help="a text to continue")
    source.add_argument("--messages", help='a JSON file: [{"role": "user", "content": "…"}, …]')
    _add_sampling(sub, max_tokens=512)
    sub = command("logits")
    sub.add_argument("--ids", required=True, help='token ids, as in "504 3575 282"')
    sub.add_argument("--top", type=_positive, default=10, help="how many (default 10)")
    sub = command("tokenize", engine=False)
    sub.add_argument("text", nargs="?", help="the text (default: standard input)")
    sub = command("bench")
    sub.add_argument(
        "--only", type=_parts, help=f"some parts, as in decode,load: {', '.join(PARTS)}"
    )
    sub.add_argument("--rounds", type=_positive, default=3, help="of which medians are taken")
    sub.add_argument(
        "--quality", metavar="FILE", help="a text to compare the precision on with fp32"
    )
    sub = command("models", engine=False, model=False)
    sub.add_argument("--fetch-default", action="store_true", help="fetch the default model")
    return parser


def _add_sampling(parser: argparse.ArgumentParser, *, max_tokens: int | None) -> None:
    plain = SamplingOptions()
    parser.add_argument("--max-tokens", type=int, default=max_tokens, help="end after so many")
    parser.add_argument("--temperature", type=float, default=plain.temperature)
    parser.add_argument("--top-p", type=float, default=plain.top_p)
    parser.add_argument("--top-k", type=int, default=plain.top_k)
    parser.add_argument("--min-p", type=float, default=plain.min_p)
    parser.add_argument("--repetition-penalty", type=float, default=plain.repetition_penalty)
    parser.add_argument("--seed", type=int, help="the same seed gives the same text")
    parser.add_argument("--stop", action="append", default=[], help="end before this text")
    parser.add_argument("--keep-loops", action="store_true", help="let a reply repeat for ever")


def options_from(wish: argparse.Namespace) -> SamplingOptions:
    """The sampling options asked for. Raises OptionsError."""
    return SamplingOptions(
        temperature=wish.temperature,
        top_p=wish.top_p,
        top_k=wish.top_k,
        min_p=wish.min_p,
        repetition_penalty=wish.repetition_penalty,
        max_new_tokens=wish.max_tokens,
        stop_texts=tuple(wish.stop),
        seed=wish.seed,
        end_loops=not wish.keep_loops,
    )


def read_messages(path: Path) -> list[Message]:
    """The dialog in a JSON file. Raises OptionsError, saying what is wrong and where."""
    try:
        listed = json.loads(path.read_bytes())  # UTF-8, UTF-16 or UTF-32, it finds out which
    except OSError as error:
        raise OptionsError(f"{path} cannot be read: {error.strerror}.", _DIALOG_FORM) from error
    except (ValueError, RecursionError) as error:
        raise OptionsError(f"{path} is not valid JSON.", _DIALOG_FORM) from error
    if not isinstance(listed, list) or not listed:
        raise OptionsError(f"{path} holds no list of messages.", _DIALOG_FORM)
    for number, entry in enumerate(listed, 1):
        if (
            not isinstance(entry, dict)
            or entry.keys() != {"role", "content"}
            or entry["role"] not in ("system", "user", "assistant")
            or not isinstance(entry["content"], str)
        ):
            raise OptionsError(f"Message {number} in {path} is not one.", _DIALOG_FORM)
    return [Message(entry["role"], entry["content"]) for entry in listed]


def read_text(path: Path) -> str:
    """The text in a UTF-8 file. Raises OptionsError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise OptionsError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise OptionsError(f"{path} is not a text in UTF-8.", "Save it as such.") from error


def bench_parts(wish: argparse.Namespace) -> set[str]:
    """What `bench` is to measure: all, or what --only names; quality where there is a text.

    Raises OptionsError.
    """
    parts = set(wish.only or PARTS)
    if wish.quality is not None:
        return parts | {"quality"}
    if wish.only and "quality" in parts:
        raise OptionsError("There is no text to measure quality on.", "Name one: --quality FILE.")
    return parts - {"quality"}


def read_ids(text: str) -> list[int]:
    """The token ids in "504 3575" or "504, 3575". Raises OptionsError."""
    try:
        ids = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise OptionsError(
            f"{reprlib.repr(text)} is not a list of token ids.", 'Write "504 3575".'
        ) from None
    if not ids:
        raise OptionsError("There are no token ids.", 'Write "504 3575".')
    return ids


def check_ids(ids: Sequence[int], vocab_size: int) -> None:
    """Raise OptionsError for an id that is not in the vocabulary."""
    for token_id in ids:
        if not 0 <= token_id < vocab_size:
            raise OptionsError(
                f"There is no token {reprlib.repr(token_id)}.",
                f"Ids go from 0 to {vocab_size - 1:,}.",
            )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 up, not {text[:40]!r}")
    return int(text)


def _parts(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"there is no {part[:40]!r}, only {', '.join(PARTS)}")
    return parts
