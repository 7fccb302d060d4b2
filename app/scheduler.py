"""One engine, many chats: which reply is being written and which ones wait for their turn."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from PySide6.QtCore import QObject, Signal, Slot

from app.ui.states import ChatState, Failure, ReplyGrowth
from app.worker import LookRequest, ReplyRequest, TitleRequest
from engine.events import Finished, PromptProgress
from engine.messages import Message
from engine.options import LiveOptions


@dataclass(slots=True, eq=False)
class Job:
    """One reply to be written. `messages` end with the question, or with the reply so far."""

    chat_id: int
    message_id: int
    messages: tuple[Message, ...]
    options: LiveOptions
    cancel: threading.Event = field(default_factory=threading.Event)
    state: ChatState = ChatState.WAITING
    prompt_tokens: int = 0  # once they are being read

    @property
    def begun_with(self) -> tuple[int, ...] | None:
        """The ids of the reply that this one goes on with; () for a new one, None if not known."""
        last = self.messages[-1]
        return last.token_ids if last.role == "assistant" else ()


class Scheduler(QObject):
    """Hands the worker one reply at a time, in the order they were asked for.

    Every job that was accepted ends with exactly one of `ended`, `failed` and `withdrawn`.
    """

    reply_requested = Signal(object)  # ReplyRequest
    look_requested = Signal(object)  # LookRequest
    title_requested = Signal(object)  # TitleRequest
    model_needed = Signal()
    moved = Signal(object)  # Job: its state changed
    progressed = Signal(object, object)  # Job, PromptProgress
    grew = Signal(object, object)  # Job, ReplyGrowth
    ended = Signal(object, object)  # Job, Finished
    failed = Signal(object, object)  # Job, Failure
    withdrawn = Signal(object)  # Job: it was stopped before it began

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._jobs: list[Job] = []  # the first one is at work, if the model is there
        self._look = threading.Event()
        self._model_ready = False

    @property
    def idle(self) -> bool:
        """Whether the engine has nothing to write and could."""
        return self._model_ready and not self._jobs

    @property
    def waiting(self) -> bool:
        """Whether a reply waits for its turn or for the model."""
        return any(job.state is ChatState.WAITING for job in self._jobs)

    def job_of(self, chat_id: int) -> Job | None:
        """The reply under way, or waiting, in that chat; there is at most one."""
        return next((job for job in self._jobs if job.chat_id == chat_id), None)

    def ask(self, job: Job) -> None:
        """Write that reply as soon as its turn comes."""
        self._look.set()
        self._jobs.append(job)
        self.moved.emit(job)
        if self._model_ready:
            self._next()
        else:
            self.model_needed.emit()

    def look(self, messages: Sequence[Message], key: int, *, ahead: bool) -> None:
        """Ask what the model would read and say next, unless there is a reply to be written."""
        self._look.set()
        if self.idle:
            self._look = threading.Event()
            self.look_requested.emit(LookRequest(key, tuple(messages), ahead, self._look))

    def find_title(self, chat_id: int, messages: Sequence[Message]) -> bool:
        """Ask for a title while there is nothing else to do; whether it was asked for."""
        if not self.idle:
            return False
        self._look.set()
        self._look = threading.Event()
        self.title_requested.emit(TitleRequest(chat_id, tuple(messages), self._look))
        return True

    def stop(self, job: Job) -> None:
        """End a reply and keep what there is of it."""
        if job.state is ChatState.WAITING:
            self._jobs.remove(job)
            self.withdrawn.emit(job)
        elif job in self._jobs:
            job.cancel.set()
            self._move(job, ChatState.STOPPING)

    def cancel(self) -> None:
        """Make the engine stop at its next look, without waiting for it."""
        self._look.set()
        for job in self._jobs:
            job.cancel.set()

    @Slot()
    def on_model_ready(self) -> None:
        """The model can answer."""
        self._model_ready = True
        self._next()

    @Slot(object)
    def on_model_failed(self, failure: Failure) -> None:
        """There is no model: what waited for it has failed."""
        self._model_ready = False
        for job in list(self._jobs):
            self._jobs.remove(job)
            self.failed.emit(job, failure)

    @Slot(int, object)
    def on_prompt_progressed(self, message_id: int, progress: PromptProgress) -> None:
        """The engine has read a part of the prompt."""
        job = self._running(message_id)
        if job is not None:
            job.prompt_tokens = progress.total
            self.progressed.emit(job, progress)

    @Slot(object)
    def on_grew(self, growth: ReplyGrowth) -> None:
        """More text came."""
        job = self._running(growth.message_id)
        if job is None:
            return
        if growth.new_tokens and job.state is ChatState.READING:
            self._move(job, ChatState.ANSWERING)
        self.grew.emit(job, growth)

    @Slot(int, object)
    def on_ended(self, message_id: int, finished: Finished) -> None:
        """The reply ended, for one of the reasons that are no failure."""
        job = self._running(message_id)
        if job is not None:
            self._jobs.remove(job)
            self.ended.emit(job, finished)
            self._next()

    @Slot(int, object)
    def on_failed(self, message_id: int, failure: Failure) -> None:
        """The reply failed; what there is of it is kept."""
        job = self._running(message_id)
        if job is not None:
            self._jobs.remove(job)
            self.failed.emit(job, failure)
            self._next()

    def _running(self, message_id: int) -> Job | None:
        job = self._jobs[0] if self._jobs else None
        return job if job is not None and job.message_id == message_id else None

    def _next(self) -> None:
        job = self._jobs[0] if self._jobs else None
        if job is not None and job.state is ChatState.WAITING:
            self._move(job, ChatState.READING)
            request = ReplyRequest(job.message_id, job.messages, job.options, job.cancel)
            self.reply_requested.emit(request)

    def _move(self, job: Job, state: ChatState) -> None:
        job.state = state
        self.moved.emit(job)
