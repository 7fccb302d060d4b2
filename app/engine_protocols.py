"""The parts of the engine that the window's program uses, as shapes that a test can fill, too."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from app.ui.states import NextToken
from engine.events import Event
from engine.messages import Message
from engine.options import LiveOptions


class Device(Protocol):
    """Where an engine computes, and why there."""

    @property
    def name(self) -> str:
        """As torch calls it."""
        ...

    @property
    def label(self) -> str:
        """As people call it."""
        ...

    @property
    def reason(self) -> str:
        """Why this one."""
        ...

    @property
    def precision(self) -> str:
        """Of the weights."""
        ...

    @property
    def threads(self) -> int:
        """That compute."""
        ...


class Counting(Protocol):
    """The part of `engine.text.context_window.ContextWindow` that is used here, on any thread."""

    @property
    def limit(self) -> int:
        """The longest prompt of which nothing is left out, in tokens."""
        ...

    def count_tokens(self, text: str) -> int:
        """How many tokens a text is."""
        ...

    def count_frame(self, system_prompt: str | None) -> int:
        """How many tokens of a prompt belong to no turn."""
        ...


class Session(Protocol):
    """The part of `engine.session.Session` that is used here."""

    @property
    def window(self) -> Counting:
        """Counts tokens; holds none of the model's weights."""
        ...

    @property
    def context_length(self) -> int:
        """How many tokens the model can remember."""
        ...

    @property
    def next_token(self) -> NextToken | None:
        """The step that made the newest token."""
        ...

    def look_ahead(
        self, messages: Sequence[Message], *, cancel: threading.Event
    ) -> NextToken | None:
        """The step that would come next; None if stopped."""
        ...

    def prompt_parts(self, prompt_ids: Sequence[int]) -> list[tuple[str, bool]]:
        """The exact prompt for people to read: texts, and whether each is a control token."""
        ...

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """The exact prompt, as the model reads it."""
        ...

    def reply(
        self,
        messages: Sequence[Message],
        options: LiveOptions,
        *,
        cancel: threading.Event,
    ) -> Iterator[Event]:
        """The events of one reply."""
        ...


class LoadedEngine(Protocol):
    """The part of `engine.loading.Engine` that is used here."""

    @property
    def name(self) -> str:
        """The model's."""
        ...

    @property
    def path(self) -> Path:
        """The model's file or folder."""
        ...

    @property
    def device(self) -> Device:
        """Where it computes."""
        ...

    def session(self) -> Session:
        """A conversation's own cache."""
        ...


EngineOpener = Callable[..., LoadedEngine]  # engine.loading.load, or a test's
