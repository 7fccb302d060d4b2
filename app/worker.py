"""The engine's work on its own thread: the only file that runs engine code off the window's."""

import threading
import time
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal, Slot

from app.engine_protocols import EngineOpener, LoadedEngine, Session
from app.failures import explain
from app.ui.states import ModelInfo, NextToken, ReplyGrowth
from engine.errors import StoppedError
from engine.events import Finished, PromptProgress, Token
from engine.messages import Message
from engine.options import LiveOptions, SamplingOptions

_TITLE_TOKENS = 20
FRAME = 1 / 60  # seconds; text that comes faster than the eye is handed over in one piece


@dataclass(frozen=True, slots=True, eq=False)
class LoadRequest:
    """Load this model; setting `cancel` makes the engine give up."""

    model: str | None
    device: str | None
    precision: str | None
    quiet: bool
    cancel: threading.Event


@dataclass(frozen=True, slots=True, eq=False)
class ReplyRequest:
    """Answer `messages`, or go on with the reply they end with.

    `options` may change and `cancel` be set meanwhile.
    """

    message_id: int
    messages: tuple[Message, ...]
    options: LiveOptions
    cancel: threading.Event


@dataclass(frozen=True, slots=True, eq=False)
class LookRequest:
    """Say what the model would read for a dialog and, if `ahead`, which token would come next.

    `key` comes back with the answer.
    """

    key: int
    messages: tuple[Message, ...]
    ahead: bool
    cancel: threading.Event


@dataclass(frozen=True, slots=True, eq=False)
class TitleRequest:
    """Find a title for the chat of that id, which `messages` ask for."""

    chat_id: int
    messages: tuple[Message, ...]
    cancel: threading.Event


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """The answer to a LookRequest: the prompt and, if asked for, the step after it."""

    key: int
    next_token: NextToken | None
    prompt: tuple[tuple[str, bool], ...]  # texts, and whether each is a control token
    tokens: int


class EngineWorker(QObject):
    """Lives on the engine's thread and does one request at a time, in the order they came.

    Signals for the window are sent at most once a frame, however fast the engine is.
    """

    loading_progressed = Signal(float)
    engine_loaded = Signal(object)  # ModelInfo
    loading_stopped = Signal()
    loading_failed = Signal(object)  # Failure
    prompt_progressed = Signal(int, object)  # message id, PromptProgress
    reply_grew = Signal(object)  # ReplyGrowth
    reply_ended = Signal(int, object)  # message id, Finished
    reply_failed = Signal(int, object)  # message id, Failure
    looked = Signal(object)  # Look
    title_found = Signal(int, str)  # chat id, what the model said
    counting_changed = Signal(object)  # Counting

    def __init__(self, open_engine: EngineOpener) -> None:
        super().__init__()
        self._open_engine = open_engine
        self._session: Session | None = None

    @Slot(object)
    def work(self, request: LoadRequest | ReplyRequest | LookRequest | TitleRequest) -> None:
        """Do `request`; for a load or a reply exactly one closing signal follows, come what may."""
        try:
            if isinstance(request, LoadRequest):
                self._load(request)
            elif isinstance(request, ReplyRequest):
                self._reply(request)
            elif isinstance(request, TitleRequest):
                self._find_title(request)
            else:
                self._look(request)
        except StoppedError:
            self.loading_stopped.emit()
        except Exception as error:  # the one place where every kind is caught
            failure = explain(error)
            if isinstance(request, LoadRequest):
                self.loading_failed.emit(failure)
            elif isinstance(request, ReplyRequest):
                self.reply_failed.emit(request.message_id, failure)
            # A look or a title that failed is not worth a word: a reply will say it if it matters.

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
            quiet=request.quiet,
            progress=on_progress,
            cancel=request.cancel,
        )
        self._session = engine.session()
        self.counting_changed.emit(self._session.window)
        self.engine_loaded.emit(_info(engine, self._session))

    def _find_title(self, request: TitleRequest) -> None:
        if self._session is None or request.cancel.is_set():
            return
        options = LiveOptions(SamplingOptions(temperature=0, max_new_tokens=_TITLE_TOKENS))
        for event in self._session.reply(request.messages, options, cancel=request.cancel):
            if isinstance(event, Finished) and event.reason in ("end_of_turn", "length"):
                self.title_found.emit(request.chat_id, event.text)

    def _look(self, request: LookRequest) -> None:
        if self._session is None or request.cancel.is_set():
            return
        ids = self._session.prompt_ids(request.messages)
        tokens, prompt = len(ids), tuple(self._session.prompt_parts(ids))
        self.looked.emit(Look(request.key, None, prompt, tokens))
        if request.ahead:
            step = self._session.look_ahead(request.messages, cancel=request.cancel)
            if step is not None:
                self.looked.emit(Look(request.key, step, prompt, tokens))

    def _reply(self, request: ReplyRequest) -> None:
        session = self._session
        assert session is not None, "a reply was asked for before a model was loaded"
        events = session.reply(request.messages, request.options, cancel=request.cancel)
        frame = _Frame()
        gathered = _Gathered(request.message_id)
        finished = None
        try:
            for event in events:
                match event:
                    case Token():
                        gathered.add(event.id, event.text)
                        if frame.is_due():
                            self.reply_grew.emit(gathered.take(session.next_token))
                    case PromptProgress():
                        if frame.is_due() or event.done == event.total:
                            self.prompt_progressed.emit(request.message_id, event)
                    case Finished():
                        finished = event
                        gathered.add_tail(event.tail)
        finally:  # also when the reply breaks off: what there is of it is kept
            self.reply_grew.emit(gathered.take(session.next_token))
        if finished is None:
            raise RuntimeError("the engine ended a reply without saying why")
        self.reply_ended.emit(request.message_id, finished)


class _Gathered:
    """The text since the last frame, and the count and time since the first token."""

    def __init__(self, message_id: int) -> None:
        self._message_id = message_id
        self._pieces: list[str] = []
        self._ids: list[int] = []
        self._tokens = 0
        self._first = 0.0

    def add(self, token_id: int, text: str) -> None:
        if not self._tokens:
            self._first = time.perf_counter()
        self._tokens += 1
        self._ids.append(token_id)
        self._pieces.append(text)

    def add_tail(self, text: str) -> None:
        self._pieces.append(text)

    def take(self, next_token: NextToken | None) -> ReplyGrowth:
        text, ids = "".join(self._pieces), tuple(self._ids)
        self._pieces.clear()
        self._ids.clear()
        seconds = time.perf_counter() - self._first if self._tokens else 0.0
        step = next_token if self._tokens else None
        return ReplyGrowth(self._message_id, text, self._tokens, seconds, ids, step)


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


def _info(engine: LoadedEngine, session: Session) -> ModelInfo:
    device = engine.device
    return ModelInfo(
        engine.name,
        device.name,
        device.label,
        device.reason,
        device.precision,
        device.threads,
        session.context_length,
        session.window.limit,
        str(engine.path),
    )
