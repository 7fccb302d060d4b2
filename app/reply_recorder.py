"""Keeps every reply as it is written, whichever chat is open."""

from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.chat_library import ChatLibrary
from app.conversation import Conversation
from app.scheduler import Job, Scheduler
from app.store.records import ReplyRecord
from app.ui.states import ChatState, Failure, ModelInfo, ReplyGrowth
from engine.events import Finished
from engine.options import SamplingOptions

SAVE_EVERY = 300  # ms; what a crash may cost of a running reply


class ReplyRecorder(QObject):
    """Turns what the scheduler says into records, in memory at once and on disk soon."""

    changed = Signal(object)  # Job: it waits, began, or is being stopped
    grew = Signal(object, object)  # Job, ReplyGrowth
    closed = Signal(object)  # Job: its reply ended, one way or another

    def __init__(self, library: ChatLibrary, scheduler: Scheduler, *, parent: QObject) -> None:
        super().__init__(parent)
        self.details: dict[int, str] = {}  # of bugs, by message; not for the disk
        self._library = library
        self._model: ModelInfo | None = None
        self._digests: dict[str, str] = {}  # of models, by path
        self._unsaved: dict[int, Conversation] = {}  # replies that grew since they were kept
        self._saving = QTimer(self, singleShot=True, interval=SAVE_EVERY)
        self._saving.timeout.connect(self.save)
        scheduler.moved.connect(self._on_moved)
        scheduler.grew.connect(self._on_grew)
        scheduler.ended.connect(self._on_ended)
        scheduler.failed.connect(self._on_failed)
        scheduler.withdrawn.connect(self._on_withdrawn)

    @Slot(object)
    def on_model_ready(self, info: ModelInfo) -> None:
        """Which model writes from now on."""
        self._model = info

    @Slot(str, str)
    def on_digest_known(self, path: str, digest: str) -> None:
        """Which file the model is."""
        self._digests[path] = digest

    @Slot()
    def save(self) -> None:
        """Keep what has grown."""
        self._saving.stop()
        for message_id, conversation in self._unsaved.items():
            if message_id in conversation:
                conversation.save(message_id)
        self._unsaved.clear()

    @Slot(object)
    def _on_moved(self, job: Job) -> None:
        if job.state is ChatState.READING:
            self._set_reply(job, status="streaming")
        self.changed.emit(job)

    @Slot(object, object)
    def _on_grew(self, job: Job, growth: ReplyGrowth) -> None:
        conversation = self._library.conversation(job.chat_id)
        if growth.token_ids and job.message_id in conversation:
            record = conversation[job.message_id]
            reply = record.reply or ReplyRecord("streaming")
            ids = reply.token_ids if reply.token_ids is not None else job.begun_with
            if ids is not None and not job.options.current.stop_texts:
                reply = replace(reply, token_ids=ids + growth.token_ids)
            content = record.content + growth.text
            conversation.hold(replace(record, content=content, reply=reply))
            self._unsaved[job.message_id] = conversation
            if not self._saving.isActive():
                self._saving.start()
        self.grew.emit(job, growth)

    @Slot(object, object)
    def _on_ended(self, job: Job, finished: Finished) -> None:
        new, before = finished.message().token_ids, job.begun_with
        self._set_reply(
            job,
            status="finished",
            reason=finished.reason,
            error=finished.error,
            token_ids=None if new is None or before is None else before + new,
            made_with=_after(len(before or ()), finished),
            seed=finished.seed,
            statistics=finished.statistics,
            **self._made_by(),
        )
        self._close(job)

    @Slot(object, object)
    def _on_failed(self, job: Job, failure: Failure) -> None:
        if failure.details:
            self.details[job.message_id] = failure.details
        self._set_reply(
            job,
            status="failed",
            error=failure.what,
            remedy=failure.remedy,
            **self._made_by(),
        )
        self._close(job)

    @Slot(object)
    def _on_withdrawn(self, job: Job) -> None:
        self._set_reply(job, status="finished", reason="stopped", token_ids=job.begun_with)
        self._close(job)

    def _close(self, job: Job) -> None:
        self._unsaved.pop(job.message_id, None)
        self.closed.emit(job)

    def _set_reply(self, job: Job, **changes: Any) -> None:
        """Change the record, unless its message was deleted meanwhile."""
        conversation = self._library.conversation(job.chat_id)
        if job.message_id not in conversation:
            return
        record = conversation[job.message_id]
        reply = record.reply or ReplyRecord("waiting")
        made_with = changes.pop("made_with", ())
        reply = replace(reply, options=reply.options + made_with, **changes)
        conversation.update(replace(record, reply=reply))

    def _made_by(self) -> dict[str, str]:
        model = self._model
        if model is None:
            return {}
        return {
            "model": model.name,
            "model_digest": self._digests.get(model.path, ""),
            "device": model.device,
            "precision": model.precision,
        }


def _after(count: int, finished: Finished) -> tuple[tuple[int, SamplingOptions], ...]:
    """The options of a reply's new part, counted from the reply's first token."""
    return tuple((count + first, options) for first, options in finished.options)
