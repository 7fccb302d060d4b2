"""The engine's work on its own thread: the only file that runs engine code off the window's."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from PySide6.QtCore import QObject, Signal, Slot

from app.failures import explain
from app.ui.states import ModelInfo, ReplyGrowth
from engine.errors import StoppedError
from engine.events import Event, Finished, PromptProgress, Token
from engine.messages import Message
from engine.options import LiveOptions

FRAME = 1 / 60  # seconds; text that comes faster than the eye is handed over in one piece


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


class Conversation(Protocol):
    """The part of `engine.session.Session` that is used here."""

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
    def device(self) -> Device:
        """Where it computes."""
        ...

    def session(self) -> Conversation:
        """A conversation's own cache."""
        ...


EngineOpener = Callable[..., LoadedEngine]  # engine.loading.load, or a test's


@dataclass(frozen=True, slots=True, eq=False)
class LoadRequest:
    """Load this model; setting `cancel` makes the engine give up."""

    model: str | None
    device: str | None
    precision: str | None
    cancel: threading.Event


@dataclass(frozen=True, slots=True, eq=False)
class ReplyRequest:
    """Answer the last of `messages`; `options` may change and `cancel` be set meanwhile."""

    turn: int
    messages: tuple[Message, ...]
    options: LiveOptions
    cancel: threading.Event


class EngineWorker(QObject):
    """Lives on the engine's thread and does one request at a time, in the order they came.

    Signals for the window are sent at most once a frame, however fast the engine is.
    """

    loading_progressed = Signal(float)
    engine_loaded = Signal(object)  # ModelInfo
    loading_stopped = Signal()
    loading_failed = Signal(object)  # Failure
    prompt_progressed = Signal(int, object)  # turn, PromptProgress
    reply_grew = Signal(object)  # ReplyGrowth
    reply_ended = Signal(int, object)  # turn, Finished
    reply_failed = Signal(int, object)  # turn, Failure

    def __init__(self, open_engine: EngineOpener) -> None:
        super().__init__()
        self._open_engine = open_engine
        self._session: Conversation | None = None

    @Slot(object)
    def work(self, request: LoadRequest | ReplyRequest) -> None:
        """Do `request`; whatever happens, exactly one closing signal follows."""
        try:
            if isinstance(request, LoadRequest):
                self._load(request)
            else:
                self._reply(request)
        except StoppedError:
            self.loading_stopped.emit()
        except Exception as error:  # the one place where every kind is caught
            failure = explain(error)
            if isinstance(request, LoadRequest):
                self.loading_failed.emit(failure)
            else:
                self.reply_failed.emit(request.turn, failure)

    def _load(self, request: LoadRequest) -> None:
        self._session = None  # lets go of the old model's memory before the new one needs it
        if request.cancel.is_set():
            raise StoppedError("Loading was stopped.")
        frame = _Frame()

        def on_progress(fraction: float) -> None:
            if frame.is_due():
                self.loading_progressed.emit(fraction)

        engine = self._open_engine(
            request.model,
            device=request.device,
            precision=request.precision,
            progress=on_progress,
            cancel=request.cancel,
        )
        self._session = engine.session()
        self.engine_loaded.emit(_info(engine.name, engine.device))

    def _reply(self, request: ReplyRequest) -> None:
        assert self._session is not None, "a reply was asked for before a model was loaded"
        events = self._session.reply(request.messages, request.options, cancel=request.cancel)
        frame = _Frame()
        gathered = _Gathered(request.turn)
        finished = None
        try:
            for event in events:
                match event:
                    case Token():
                        gathered.add(event.text)
                        if frame.is_due():
                            self.reply_grew.emit(gathered.take())
                    case PromptProgress():
                        if frame.is_due() or event.done == event.total:
                            self.prompt_progressed.emit(request.turn, event)
                    case Finished():
                        finished = event
                        gathered.add_tail(event.tail)
        finally:  # also when the reply breaks off: what there is of it is kept
            self.reply_grew.emit(gathered.take())
        if finished is None:
            raise RuntimeError("the engine ended a reply without saying why")
        self.reply_ended.emit(request.turn, finished)


class _Gathered:
    """The text since the last frame, and the count and time since the first token."""

    def __init__(self, turn: int) -> None:
        self._turn = turn
        self._pieces: list[str] = []
        self._tokens = 0
        self._first = 0.0

    def add(self, text: str) -> None:
        if not self._tokens:
            self._first = time.perf_counter()
        self._tokens += 1
        self._pieces.append(text)

    def add_tail(self, text: str) -> None:
        self._pieces.append(text)

    def take(self) -> ReplyGrowth:
        text = "".join(self._pieces)
        self._pieces.clear()
        seconds = time.perf_counter() - self._first if self._tokens else 0.0
        return ReplyGrowth(self._turn, text, self._tokens, seconds)


class _Frame:
    """Says when the next frame is due; the first is at once."""

    def __init__(self) -> None:
        self._next = 0.0

    def is_due(self) -> bool:
        now = time.perf_counter()
        if now < self._next:
            return False
        self._next = now + FRAME
        return True


def _info(name: str, device: Device) -> ModelInfo:
    return ModelInfo(
        name, device.name, device.label, device.reason, device.precision, device.threads
    )
