"""A conversation in the terminal: lines in, replies out, with the same session as the window."""

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from threading import Event
from types import FrameType

from engine.errors import EngineError
from engine.events import Finished, Token
from engine.messages import Message
from engine.options import SamplingOptions
from engine.session import Session

_WHY_ENDED = {
    "length": "the maximum number of tokens",
    "stop_text": "a stop text",
    "stopped": "stopped",
    "context_full": "the model cannot remember more; /new starts again",
    "loop": "it repeated itself",
}


def talk(
    session: Session,
    options: SamplingOptions,
    *,
    system: str | None,
    show: Callable[[str], None],
    on_finished: Callable[[Finished], None],
    on_error: Callable[[EngineError], None],
) -> None:
    """Answer lines from standard input until it ends or /quit; /new forgets the conversation.

    `show` gets the pieces of a reply. A reply that fails leaves the conversation as it was.
    Ctrl+C stops the reply that is running; at the prompt it ends the program.
    """
    beginning = [] if system is None else [Message("system", system)]
    messages = list(beginning)
    for line in _lines():
        if line.strip() == "/quit":
            return
        if line.strip() == "/new":
            messages = list(beginning)
        elif line.strip():
            asked = [*messages, Message("user", line)]
            try:
                finished = _answer(session, asked, options, show)
            except EngineError as error:
                on_error(error)
                continue
            messages = [*asked, finished.message()]
            on_finished(finished)


def why_ended(finished: Finished) -> str:
    """A remark for replies that ended otherwise than by the model's own choice, else ""."""
    return finished.error or _WHY_ENDED.get(finished.reason, "")


def _answer(
    session: Session,
    messages: list[Message],
    options: SamplingOptions,
    show: Callable[[str], None],
) -> Finished:
    cancel = Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        cancel.set()

    previous = signal.signal(signal.SIGINT, stop)
    try:
        for event in session.reply(messages, options, cancel=cancel):
            if isinstance(event, Token):
                show(event.text)
            elif isinstance(event, Finished):
                show(event.tail)
                return event
    finally:
        signal.signal(signal.SIGINT, previous)
    raise AssertionError("a reply always ends with Finished")


def _lines() -> Iterator[str]:
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - gives input() a history and editing
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            yield input(prompt)
        except EOFError:
            return
