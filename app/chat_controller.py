"""The open chat: what is said in it, and what the views are told of it and of the others."""

import time
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.chat_library import ChatLibrary
from app.conversation import Conversation
from app.scheduler import Job, Scheduler
from app.store.records import MessageRecord, ReplyRecord
from app.ui.states import (
    Activity,
    ChatLine,
    ChatState,
    Failure,
    ModelInfo,
    ReplyGrowth,
    ShownMessage,
)
from app.worker import Look
from engine.errors import OptionsError
from engine.events import Finished, PromptProgress
from engine.options import SamplingOptions

SAVE_EVERY = 500  # ms; what a crash may cost of a running reply
LOOK_AFTER = 400  # ms of quiet before the engine looks at what would come next
LONGEST_LOOK = 3000  # tokens; reading more than that is left until there is a question


@dataclass(frozen=True, slots=True)
class OpenedChat:
    """What the views need to show another chat."""

    id: int
    messages: list[ShownMessage]
    draft: str
    options: SamplingOptions
    system_prompt: str | None


class ChatController(QObject):
    """The state machine of the open chat, and the way from there to all others.

    READY -> (WAITING ->) READING -> ANSWERING -> READY, with STOPPING on the way if the user asks.
    A reply belongs to its chat: it goes on, and is kept, whichever chat is open.
    """

    chats_changed = Signal(object)  # list[ChatLine]
    chat_opened = Signal(object)  # OpenedChat
    messages_changed = Signal(object)  # list[ShownMessage], the open branch
    reply_grew = Signal(object)  # ReplyGrowth
    reply_ended = Signal(object)  # ShownMessage
    state_changed = Signal(object)  # ChatState
    prompt_progressed = Signal(object)  # PromptProgress
    next_token_changed = Signal(object)  # NextToken | None
    prompt_changed = Signal(object)  # Look | None
    used_tokens_changed = Signal(int)  # of the model's memory
    seed_changed = Signal(object)  # int | None: of the last reply
    editing_changed = Signal(bool)
    text_returned = Signal(str)  # a question to be edited, for the composer
    chat_deleted = Signal(int, str)  # id, title

    def __init__(self, library: ChatLibrary, scheduler: Scheduler, *, parent: QObject) -> None:
        super().__init__(parent)
        self.state = ChatState.READY
        self.looking = True  # whether anybody wants to see the next token
        self._library = library
        self._scheduler = scheduler
        self._open = library.new()
        self._model: ModelInfo | None = None
        self._details: dict[int, str] = {}  # of bugs, by message
        self._editing: int | None = None
        self._unsaved: dict[int, Conversation] = {}  # replies that grew since they were kept
        self._draft: str | None = None  # typed since it was kept
        self._options: SamplingOptions | None = None  # changed since they were kept
        self._saving = QTimer(self, singleShot=True, interval=SAVE_EVERY)
        self._saving.timeout.connect(self.save)
        self._look_timer = QTimer(self, singleShot=True, interval=LOOK_AFTER)
        self._look_timer.timeout.connect(self._look)
        scheduler.moved.connect(self._on_moved)
        scheduler.progressed.connect(self._on_progressed)
        scheduler.grew.connect(self._on_grew)
        scheduler.ended.connect(self._on_ended)
        scheduler.failed.connect(self._on_failed)
        scheduler.withdrawn.connect(self._on_withdrawn)

    @property
    def conversation(self) -> Conversation:
        """The open chat; to be read only."""
        return self._open

    @property
    def options(self) -> SamplingOptions:
        """The open chat's."""
        return self._open.live.current

    @property
    def last_reply(self) -> MessageRecord | None:
        """The last reply of the open branch."""
        replies = (r for r in reversed(self._open.path()) if r.role == "assistant")
        return next(replies, None)

    # --- asking ------------------------------------------------------------------------------

    @Slot(str)
    def submit(self, text: str) -> None:
        """Ask `text`: at the end of the open branch, or in place of the message being edited.

        Ignored while a reply is under way in this chat.
        """
        if self.state.busy or not text.strip():
            return
        path = self._open.path()
        parent_id = path[-1].id if path else None
        if self._editing is not None and self._editing in self._open:
            parent_id = self._open[self._editing].parent_id
        self._set_editing(None)
        question = MessageRecord(
            id=self._library.store.next_id(),
            chat_id=self._open.chat.id,
            parent_id=parent_id,
            role="user",
            content=text,
            created_at=time.time(),
        )
        self._open.add(question)
        self._draft = ""
        self.save()
        self._ask(question.id)

    @Slot(int)
    def regenerate(self, message_id: int) -> None:
        """Write another version of a reply; one without any words is replaced."""
        if self.state.busy or message_id not in self._open:
            return
        old = self._open[message_id]
        if old.role != "assistant" or old.parent_id is None:
            return
        if not old.content:
            self._open.withdraw(old.id, time.time())
        self._ask(old.parent_id)

    @Slot(int)
    def go_on(self, message_id: int) -> None:
        """Continue a reply from where it ended; it must be the last of the branch."""
        path = self._open.path()
        if self.state.busy or not path or path[-1].id != message_id or not path[-1].reply:
            return
        messages = self._open.dialog(message_id, go_on=True)
        # While it grows its ids say less than its text does.
        reply = replace(
            path[-1].reply, status="waiting", reason=None, error="", remedy="", token_ids=None
        )
        self._open.update(replace(path[-1], reply=reply))
        self._start(message_id, messages)

    @Slot()
    def stop(self) -> None:
        """End the reply that is under way in this chat and keep what there is of it."""
        job = self._scheduler.job_of(self._open.chat.id)
        if job is not None:
            self._scheduler.stop(job)
        elif self._editing is not None:
            self.stop_editing()

    @Slot(int)
    def edit(self, message_id: int) -> None:
        """Give a question back to the composer; sending it makes another version of it."""
        if message_id in self._open and self._open[message_id].role == "user":
            self._set_editing(message_id)
            self.text_returned.emit(self._open[message_id].content)

    @Slot()
    def stop_editing(self) -> None:
        """Leave the message as it is; what was being written before comes back."""
        if self._editing is not None:
            self._set_editing(None)
            self.text_returned.emit(self._open.chat.draft)

    @Slot()
    def edit_last(self) -> None:
        """Edit the last question of the open branch."""
        questions = [record for record in self._open.path() if record.role == "user"]
        if questions:
            self.edit(questions[-1].id)

    @Slot(int, int)
    def show_version(self, message_id: int, step: int) -> None:
        """Open the version of a message that is `step` places after it, if there is one."""
        if self.state.busy or message_id not in self._open:
            return
        versions = self._open.versions(message_id)
        place = versions.index(message_id) + step
        if 0 <= place < len(versions):
            self._open.select(versions[place])
            self._show_branch()

    # --- the open chat's own settings ----------------------------------------------------------

    @Slot(object)
    def change_options(self, changes: dict[str, Any]) -> None:
        """Change sampling options; they hold from the very next token on."""
        try:
            self._options = self._open.live.change(**changes)
        except OptionsError:
            return  # the panel offers no such value
        self._save_soon()

    @Slot(object)
    def change_system_prompt(self, text: str | None) -> None:
        """What the model is told first; None is the model's own, "" nothing at all."""
        self._open.set_up(system_prompt=text)
        self._look_soon()

    @Slot(str)
    def keep_draft(self, text: str) -> None:
        """Remember what is being written, soon also on disk."""
        if self._editing is None:
            self._draft = text
            self._save_soon()

    @Slot()
    def save(self) -> None:
        """Hand all that changed lately to the store."""
        self._saving.stop()
        for message_id, conversation in self._unsaved.items():
            if message_id in conversation:
                conversation.save(message_id)
        self._unsaved.clear()
        draft, options, self._draft, self._options = self._draft, self._options, None, None
        if options is not None and options != self._open.chat.options:
            self._open.set_up(options=options)
        if draft is not None and draft != self._open.chat.draft:
            self._open.change_chat(draft=draft)
            self._tell_chats()

    # --- all chats -----------------------------------------------------------------------------

    @Slot()
    def new_chat(self) -> None:
        """Begin an empty chat; an empty one that is open already will do."""
        self.save()
        if not self._open.empty:
            self._show(self._library.new())

    @Slot(int)
    def open_chat(self, chat_id: int) -> None:
        """Show that chat, if it is still there."""
        self.save()
        if chat_id in self._library and chat_id != self._open.chat.id:
            self._show(self._library.conversation(chat_id))

    @Slot(int)
    def open_neighbour(self, step: int) -> None:
        """Show the chat that is `step` lines further down in the list."""
        ids = [record.id for record in self._library.records()]
        listed = self._open.chat.id in ids
        place = ids.index(self._open.chat.id) + step if listed else 0
        if 0 <= place < len(ids):
            self.open_chat(ids[place])

    @Slot(int, str)
    def rename(self, chat_id: int, title: str) -> None:
        """Give a chat a name of the user's own."""
        if chat_id in self._library and title.strip():
            self._library.rename(chat_id, " ".join(title.split()))
            self._tell_chats()

    @Slot(int)
    def delete(self, chat_id: int) -> None:
        """Take a chat out of the list; a reply under way in it ends. `restore` undoes it."""
        if chat_id not in self._library:
            return
        self.save()
        job = self._scheduler.job_of(chat_id)
        if job is not None:
            self._scheduler.stop(job)
        ids = [record.id for record in self._library.records()]
        place = ids.index(chat_id) if chat_id in ids else 0
        record = self._library.delete(chat_id)
        if chat_id == self._open.chat.id:
            others = [other for other in ids if other != chat_id]
            neighbour = others[min(place, len(others) - 1)] if others else None
            self._show(
                self._library.new() if neighbour is None else self._library.conversation(neighbour)
            )
        self._tell_chats()
        self.chat_deleted.emit(chat_id, record.title)

    @Slot(int)
    def restore(self, chat_id: int) -> None:
        """Bring a deleted chat back and open it."""
        self._library.restore(chat_id)
        self.open_chat(chat_id)
        self._tell_chats()

    def show_first(self, chat_id: int | None) -> None:
        """What the program begins with: the chat that was open when it ended, or a new one."""
        known = chat_id is not None and chat_id in self._library
        first = self._library.conversation(chat_id) if known and chat_id is not None else self._open
        self._show(first)

    # --- what the engine says --------------------------------------------------------------------

    @Slot(object)
    def on_model_ready(self, info: ModelInfo) -> None:
        """The model can answer, and look ahead."""
        self._model = info
        self._scheduler.on_model_ready()
        self._look_soon()

    @Slot(object)
    def on_looked(self, look: Look) -> None:
        """The engine says what would come next."""
        if look.key == self._key() and not self.state.busy:
            self.prompt_changed.emit(look)
            if look.next_token is not None:
                self.next_token_changed.emit(look.next_token)

    @Slot()
    def look_again(self) -> None:
        """Somebody wants to see what the model reads."""
        self._look_soon()

    @Slot(bool)
    def set_looking(self, looking: bool) -> None:
        """Whether the next token is on screen, so that it is worth computing."""
        self.looking = looking
        self._look_soon()

    @Slot(object)
    def _on_moved(self, job: Job) -> None:
        if job.chat_id == self._open.chat.id:
            self._set_state(job.state)
        conversation = self._library.conversation(job.chat_id)
        if job.state is ChatState.READING and job.message_id in conversation:
            self._set_reply(conversation, job.message_id, status="streaming")
            if conversation is self._open:
                self._tell_messages()
        self._tell_chats()

    @Slot(object, object)
    def _on_progressed(self, job: Job, progress: PromptProgress) -> None:
        if job.chat_id == self._open.chat.id:
            self.prompt_progressed.emit(progress)
            self.used_tokens_changed.emit(progress.total)

    @Slot(object, object)
    def _on_grew(self, job: Job, growth: ReplyGrowth) -> None:
        conversation = self._library.conversation(job.chat_id)
        if job.message_id not in conversation:
            return
        if growth.text:
            record = conversation[job.message_id]
            conversation.hold(replace(record, content=record.content + growth.text))
            self._unsaved[job.message_id] = conversation
            self._save_soon()
        if conversation is self._open:
            self.reply_grew.emit(growth)
            if growth.next_token is not None:
                self.next_token_changed.emit(growth.next_token)

    @Slot(object, object)
    def _on_ended(self, job: Job, finished: Finished) -> None:
        conversation = self._library.conversation(job.chat_id)
        if job.message_id in conversation:
            old = conversation[job.message_id].reply or ReplyRecord("streaming")
            new = finished.message().token_ids
            before = job.begun_with
            self._set_reply(
                conversation,
                job.message_id,
                status="finished",
                reason=finished.reason,
                error=finished.error,
                token_ids=None if new is None or before is None else before + new,
                options=old.options + _after(len(before or ()), finished),
                seed=finished.seed,
                statistics=finished.statistics,
                **self._made_by(),
            )
        self._close(job, conversation)

    @Slot(object, object)
    def _on_failed(self, job: Job, failure: Failure) -> None:
        conversation = self._library.conversation(job.chat_id)
        if job.message_id in conversation:
            if failure.details:
                self._details[job.message_id] = failure.details
            self._set_reply(
                conversation,
                job.message_id,
                status="failed",
                error=failure.what,
                remedy=failure.remedy,
                token_ids=None,
                **self._made_by(),
            )
        self._close(job, conversation)

    @Slot(object)
    def _on_withdrawn(self, job: Job) -> None:
        conversation = self._library.conversation(job.chat_id)
        if job.message_id in conversation:
            self._set_reply(
                conversation,
                job.message_id,
                status="finished",
                reason="stopped",
                token_ids=job.begun_with,
            )
        self._close(job, conversation)

    # --- inside ----------------------------------------------------------------------------------

    def _ask(self, question_id: int) -> None:
        """Open a reply under a question, and have it written."""
        reply = MessageRecord(
            id=self._library.store.next_id(),
            chat_id=self._open.chat.id,
            parent_id=question_id,
            role="assistant",
            content="",
            created_at=time.time(),
            reply=ReplyRecord("waiting"),
        )
        self._open.add(reply)
        self._start(reply.id, self._open.dialog(reply.id))

    def _start(self, message_id: int, messages: tuple[Any, ...]) -> None:
        self._library.list_kept(self._open)
        self.next_token_changed.emit(None)
        job = Job(self._open.chat.id, message_id, messages, self._open.live)
        self._tell_messages()
        self._scheduler.ask(job)

    def _close(self, job: Job, conversation: Conversation) -> None:
        """The views learn how a reply ended, if its chat is open; else its line is marked."""
        self._unsaved.pop(job.message_id, None)
        if conversation is self._open:
            self._set_state(ChatState.READY)
            self._show_branch()
            if job.message_id in conversation:
                record = conversation[job.message_id]
                self.reply_ended.emit(conversation.shown_message(record, self._details))
        else:
            conversation.unread = True
        self._tell_chats()

    def _set_reply(self, conversation: Conversation, message_id: int, **changes: Any) -> None:
        record = conversation[message_id]
        reply = replace(record.reply or ReplyRecord("waiting"), **changes)
        conversation.update(replace(record, reply=reply))

    def _made_by(self) -> dict[str, str]:
        model = self._model
        if model is None:
            return {}
        return {"model": model.name, "device": model.device, "precision": model.precision}

    def _show(self, conversation: Conversation) -> None:
        """Open a chat in the views."""
        self._set_editing(None)
        left, self._open = self._open, conversation
        if left is not conversation:
            self._library.let_go(left)
        conversation.unread = False
        chat = conversation.chat
        self.chat_opened.emit(
            OpenedChat(
                chat.id,
                conversation.shown(self._details),
                chat.draft,
                conversation.live.current,
                chat.system_prompt,
            )
        )
        job = self._scheduler.job_of(chat.id)
        self._set_state(job.state if job is not None else ChatState.READY)
        self._show_branch(tell=False)
        self._tell_chats()

    def _show_branch(self, *, tell: bool = True) -> None:
        """The branch is another one, or its end is: tell what depends on that."""
        if tell:
            self._tell_messages()
        if not self.state.busy:
            self.used_tokens_changed.emit(self._open.used_tokens())
        path = self._open.path()
        reply = next((record.reply for record in reversed(path) if record.reply), None)
        self.seed_changed.emit(reply.seed if reply is not None else None)
        if tell is False:
            self.next_token_changed.emit(None)
        self._look_soon()

    def _tell_messages(self) -> None:
        self.messages_changed.emit(self._open.shown(self._details))

    def _tell_chats(self) -> None:
        self._library.list_kept(self._open)
        self.chats_changed.emit([self._line(record) for record in self._library.records()])

    def _line(self, record: Any) -> ChatLine:
        activity = Activity.QUIET
        job = self._scheduler.job_of(record.id)
        if job is not None:
            waiting = job.state is ChatState.WAITING
            activity = Activity.WAITING if waiting else Activity.ANSWERING
        elif self._library.is_unread(record.id):
            activity = Activity.UNREAD
        return ChatLine(record.id, record.title, record.updated_at, activity)

    def _save_soon(self) -> None:
        if not self._saving.isActive():
            self._saving.start()

    def _look_soon(self) -> None:
        if self.looking and not self.state.busy and not self._open.empty:
            self._look_timer.start()
        elif self._open.empty:
            self._look_timer.stop()
            self.prompt_changed.emit(None)

    @Slot()
    def _look(self) -> None:
        path = self._open.path()
        if not path or self.state.busy:
            return
        last = path[-1]
        ended = last.role == "assistant" and last.content
        self._scheduler.look(
            self._open.dialog(last.id, go_on=bool(ended)),
            self._key(),
            ahead=self._open.used_tokens() <= LONGEST_LOOK,
        )

    def _key(self) -> int:
        """Names the state of the open branch that a look ahead was made for."""
        path = self._open.path()
        return hash((self._open.chat.id, path[-1].id if path else 0, self._open.chat.system_prompt))

    def _set_editing(self, message_id: int | None) -> None:
        if message_id is not None:
            self.save()
        if self._editing != message_id:
            self._editing = message_id
            self.editing_changed.emit(message_id is not None)

    def _set_state(self, state: ChatState) -> None:
        self.state = state
        self.state_changed.emit(state)


def _after(count: int, finished: Finished) -> tuple[tuple[int, SamplingOptions], ...]:
    """The options of a reply's new part, counted from the reply's first token."""
    return tuple((count + first, options) for first, options in finished.options)
