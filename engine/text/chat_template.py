"""A dialog to the token ids of a prompt, by the template that came with the model.

What people and the model wrote never becomes a control token: it goes through the template between
marks that nobody can guess, and is encoded as plain text.
"""

import json
import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import jinja2

from engine.errors import ModelFileError, TemplateError
from engine.messages import Message
from engine.text.template_sandbox import TemplateSandbox
from engine.text.tokenizer import Tokenizer

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The usual template, for a model that brings none; it adds no system message."""

MAX_SOURCE_LENGTH = 64_000
MAX_FILE_BYTES = 4 * 2**20

_PROBE = (
    Message("user", "One"),
    Message("assistant", "Two"),
    Message("user", "Three"),
)

# Whatever may come out of reading or running a program that someone else wrote.
_FAULTS = (
    jinja2.TemplateError,
    ArithmeticError,
    LookupError,
    MemoryError,
    RecursionError,
    SyntaxError,
    AttributeError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch of a prompt: the template's own text, or (part of) what a message says."""

    text: str
    message: Message | None = None


class ChatTemplate:
    """A chat template in jinja2, tried on a short dialog when it is made. Thread-safe.

    `bos_token` and `eos_token` are names of control tokens that some templates ask for.
    Raises TemplateError for a template that is broken.
    """

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        self.source = source
        self._names = {"bos_token": bos_token, "eos_token": eos_token}
        self._sandbox = TemplateSandbox()
        self._lock = threading.Lock()  # the sandbox counts for one rendering at a time
        if len(source) > MAX_SOURCE_LENGTH:
            raise _broken("it is far too long")
        try:
            self._template = self._sandbox.compile_template(source)
        except _FAULTS as error:
            raise _broken(_reason(error)) from None
        self._check()

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> str:
        """The exact prompt as text, for people to read. Raises TemplateError."""
        return self._run(messages, [message.content for message in messages], add_generation_prompt)

    def encode(
        self,
        messages: Sequence[Message],
        tokenizer: Tokenizer,
        *,
        add_generation_prompt: bool = True,
    ) -> list[int]:
        """The ids of the prompt. Raises TemplateError.

        They equal those of the rendered text unless a message has `token_ids`, which are used as
        they are, or spells the name of a control token, which stays text.
        """
        ids: list[int] = []
        plain: list[str] = []  # not encoded yet: a token may reach from the template's text
        for part in self._parts(messages, add_generation_prompt):  # into that of a message
            if part.message is None:
                pieces: Iterator[str | int] = tokenizer.split_names(part.text)
            elif part.message.token_ids:
                pieces = iter(part.message.token_ids)
            else:
                pieces = iter((part.text,))
            for piece in pieces:
                if isinstance(piece, str):
                    plain.append(piece)
                    continue
                if plain:
                    ids += tokenizer.encode("".join(plain))
                    plain.clear()
                ids.append(piece)
        return ids + tokenizer.encode("".join(plain))

    def _check(self) -> None:
        parts = list(self._parts(_PROBE, True))
        if _PROBE[-1] not in [part.message for part in parts]:
            raise _broken("it leaves out what the user says")
        if "".join(part.text for part in parts) != self.render(_PROBE):
            raise _torn()

    def _parts(self, messages: Sequence[Message], add_generation_prompt: bool) -> Iterator[_Part]:
        """The prompt, cut where messages begin and end."""
        marks = _Marks()
        contents = [marks.around(index, message) for index, message in enumerate(messages)]
        text = self._run(messages, contents, add_generation_prompt)
        start, inside = 0, None
        for found in marks.pattern.finditer(text):
            index, ends = int(found[1]), found[2] == "1"
            if inside != (index if ends else None):
                raise _torn()
            part = text[start : found.start()]
            yield marks.scaffold(part) if inside is None else _Part(part, messages[inside])
            start, inside = found.end(), None if ends else index
        if inside is not None:
            raise _torn()
        yield marks.scaffold(text[start:])

    def _run(
        self, messages: Sequence[Message], contents: list[str], add_generation_prompt: bool
    ) -> str:
        dialog = [
            {"role": message.role, "content": content}
            for message, content in zip(messages, contents, strict=True)
        ]
        values: dict[str, Any] = {
            **self._names,
            "messages": dialog,
            "add_generation_prompt": add_generation_prompt,
            "tools": None,
            "documents": None,
        }
        with self._lock:
            self._sandbox.begin(sum(map(len, contents)))
            try:
                context = self._template.new_context(values)
                return "".join(self._template.root_render_func(context))
            except _FAULTS as error:
                raise _broken(_reason(error)) from None


class _Marks:
    """What stands before and after a message's text while it goes through a template.

    Digits and bars survive filters that change letters or escape marks.
    """

    def __init__(self) -> None:
        self.secret = f"{secrets.randbelow(10**32):032}"
        self.pattern = re.compile(rf"\|{self.secret}\.(\d+)\.([01])\|")

    def around(self, index: int, message: Message) -> str:
        """The text between marks; white space at its ends stays outside, for templates that trim.

        Nothing at all remains nothing, for templates that ask whether there is a text.
        """
        begin, end = (f"|{self.secret}.{index}.{side}|" for side in (0, 1))
        text = message.content
        if message.token_ids:
            return begin + text + end
        core = text.strip()
        if not core:
            return text
        left = len(text) - len(text.lstrip())
        return text[:left] + begin + core + end + text[left + len(core) :]

    def scaffold(self, text: str) -> _Part:
        """A part of the template's own. Raises TemplateError if a piece of a mark is in it."""
        if self.secret[:8] in text or self.secret[-8:] in text:
            raise _torn()
        return _Part(text)


def read_hub_template(folder: Path) -> str | None:
    """The template in a folder with files of the Hub; None if there is none.

    `chat_template.jinja` goes before `tokenizer_config.json`; of several with names the one called
    "default" is taken. Raises ModelFileError.
    """
    text = _read_text(folder / "chat_template.jinja")
    if text is not None:
        return text
    text = _read_text(folder / "tokenizer_config.json")
    if text is None:
        return None
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise _unreadable("tokenizer_config.json", "is damaged")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = [entry for entry in template if isinstance(entry, dict)]
        default = [entry for entry in named if entry.get("name") == "default"]
        template = next((entry.get("template") for entry in chain(default, named)), None)
    if template is not None and not isinstance(template, str):
        raise _unreadable("tokenizer_config.json", "has a chat template that is not a text")
    return template


def _read_text(path: Path) -> str | None:
    if path.exists() and not path.is_file():  # a pipe would keep us waiting for ever
        raise _unreadable(path.name, "is not a file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path.name, f"could not be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise _unreadable(path.name, "is far too large")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise _unreadable(path.name, "is damaged") from None


def _unreadable(name: str, what: str) -> ModelFileError:
    return ModelFileError(f"The model's file {name} {what}.", "Fetch the model again.")


def _reason(error: BaseException) -> str:
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"line {error.lineno}: {str(error.message)[:200]}"
    if isinstance(error, jinja2.TemplateError):
        return str(error)[:200] or type(error).__name__
    if isinstance(error, RecursionError | MemoryError):
        return "it is nested too deeply"
    return f"{type(error).__name__}: {str(error)[:200]}"


def _torn() -> TemplateError:
    return _broken("it takes messages apart")


def _broken(reason: str) -> TemplateError:
    return TemplateError(
        f"The model's chat template does not work: {reason.rstrip('.')}.",
        "Fetch the model again, or choose another model.",
    )
