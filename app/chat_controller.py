"""The open chat: what is said in it, and what the views are told of it."""

import time
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.chat_list_controller import ChatListController
from app.conversation import Conversation
from app.look_ahead import LookAhead
from app.reply_recorder import ReplyRecorder
from app.scheduler import Job, Scheduler
from app.store.records import MessageRecord, ReplyRecord
from app.ui.states import (
    ChatState,
    ReplyGrowth,
    ShownMessage,
)
from app.worker import Look
from engine.errors import OptionsError
from engine.events import PromptProgress
from engine.messages import Role
from engine.options import SamplingOptions

SAVE_AFTER = 500  # ms; what a crash may cost of a draft


@dataclass(frozen=True, slots=True)
class OpenedChat:
    """What the views need to show another chat."""

    id: int
    messages: list[ShownMessage]
    draft: str
    options: SamplingOptions
    system_prompt: str | None
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class Deletion:
    """What was deleted of the open chat: a message, and what followed it."""

    chat_id: int
    messages: tuple[MessageRecord, ...]


class ChatController(QObject):
    """The state machine of the open chat.

    READY -> (WAITING ->) READING -> ANSWERING -> READY, with STOPPING on the way if the user asks.
    A reply belongs to its chat: it goes on, and is kept, whichever chat is open.
    """

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
    text_returned = Signal(str)  # a message to be edited, for the composer
    messages_deleted = Signal(object)  # Deletion

    def __init__(
        self,
        chats: ChatListController,
        scheduler: Scheduler,
        recorder: ReplyRecorder,
        look: LookAhead,
        *,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self.state = ChatState.READY
        self._chats = chats
        self._scheduler = scheduler
        self._recorder = recorder
        self._look = look
        self._draft: str | None = None  # typed since it was kept
        self._options: SamplingOptions | None = None  # changed since they were kept
        self._saving = QTimer(self, singleShot=True, interval=SAVE_AFTER)
        self._saving.timeout.connect(self.save)
        chats.leaving.connect(self.save)
        chats.opened.connect(self._on_opened)
        scheduler.progressed.connect(self._on_progressed)
        recorder.changed.connect(self._on_changed)
        recorder.grew.connect(self._on_grew)
        recorder.closed.connect(self._on_closed)
        look.looked.connect(self._on_looked)

    @property
    def conversation(self) -> Conversation:
        """The open chat; to be read only."""
        return self._chats.open

    @property
    def options(self) -> SamplingOptions:
        """The open chat's."""
        return self.conversation.live.current

    @property
    def last_reply(self) -> MessageRecord | None:
        """The last reply of the open branch."""
        replies = (r for r in reversed(self.conversation.path()) if r.role == "assistant")
        return next(replies, None)

    # --- asking ------------------------------------------------------------------------------

    @Slot(str)
    def submit(self, text: str) -> None:
        """Ask `text`: at the end of the open branch, or in place of the message being edited.

        Ignored while a reply is under way in this chat.
        """
        if self.state.busy or not text.strip():
            return
        path = self.conversation.path()
        parent_id = path[-1].id if path else None
        edited = self.conversation.editing
        role: Role = "user"
        if edited is not None and edited in self.conversation:
            parent_id, role = self.conversation[edited].parent_id, self.conversation[edited].role
        self._set_editing(None)
        message = MessageRecord(
            id=self._chats.library.store.next_id(),
            chat_id=self.conversation.chat.id,
            parent_id=parent_id,
            role=role,
            content=text,
            created_at=time.time(),
            reply=ReplyRecord("finished") if role == "assistant" else None,
        )
        self.conversation.add(message)
        if self.conversation.chat.archived:
            self._chats.archive(self.conversation.chat.id, False)
        if edited is None:
            self._draft = ""
            self.save()
        else:  # what was being written before is in the field again
            self.text_returned.emit(self.conversation.chat.draft)
        if role == "user":
            self._ask(message.id)
        else:
            self._chats.tell()
            self._tell_messages()
            self._tell_facts()

    @Slot(int)
    def regenerate(self, message_id: int) -> None:
        """Write another version of a reply, or another reply to a question.

        A reply without words that nothing follows is replaced.
        """
        if self.state.busy or message_id not in self.conversation:
            return
        old = self.conversation[message_id]
        if old.role == "user":
            self._ask(old.id)
        if old.role != "assistant" or old.parent_id is None:
            return
        if not old.content and not self.conversation.followed(old.id):
            self.conversation.delete(old.id, time.time())
        self._ask(old.parent_id)

    @Slot(int)
    def go_on(self, message_id: int) -> None:
        """Continue a reply from where it ended; it must be the last of the branch."""
        path = self.conversation.path()
        if self.state.busy or not path or path[-1].id != message_id or not path[-1].reply:
            return
        if path[-1].reply.reason == "stop_text":
            return  # it ended where it was to end, often within a token
        messages = self.conversation.dialog(message_id, go_on=True)
        # While it grows its ids say less than its text does.
        reply = replace(
            path[-1].reply, status="waiting", reason=None, error="", remedy="", token_ids=None
        )
        self.conversation.update(replace(path[-1], reply=reply))
        self._start(message_id, messages)

    @Slot()
    def stop(self) -> None:
        """End the reply that is under way in this chat and keep what there is of it."""
        job = self._scheduler.job_of(self.conversation.chat.id)
        if job is not None:
            self._scheduler.stop(job)
        else:
            self.stop_editing()

    @Slot(int)
    def edit(self, message_id: int) -> None:
        """Give a message back to the composer; sending it makes another version of it."""
        if message_id not in self.conversation:
            return
        if self.state.busy and self.conversation[message_id].role == "assistant":
            return  # its text may still be growing
        self._set_editing(message_id)
        self.conversation.edited_text = self.conversation[message_id].content
        self.text_returned.emit(self.conversation[message_id].content)

    @Slot()
    def stop_editing(self) -> None:
        """Leave the message as it is; what was being written before comes back."""
        if self.conversation.editing is not None:
            self._set_editing(None)
            self.text_returned.emit(self.conversation.chat.draft)

    @Slot()
    def edit_last(self) -> None:
        """Edit the last question of the open branch."""
        questions = [record for record in self.conversation.path() if record.role == "user"]
        if questions:
            self.edit(questions[-1].id)

    @Slot(int)
    def delete(self, message_id: int) -> None:
        """Delete a message with all that follows it; `restore` undoes it.

        Ignored while a reply is under way in this chat.
        """
        if self.state.busy or message_id not in self.conversation:
            return
        self.stop_editing()
        deleted = self.conversation.delete(message_id, time.time())
        self._tell_branch()
        self.messages_deleted.emit(Deletion(self.conversation.chat.id, tuple(deleted)))

    @Slot(object)
    def restore(self, deletion: Deletion) -> None:
        """Bring deleted messages back, if their chat is still there, and show it."""
        if deletion.chat_id not in self._chats.library:
            return
        self._chats.open_chat(deletion.chat_id)
        self.conversation.restore(deletion.messages)
        self.conversation.select(deletion.messages[0].id)
        self._tell_branch()

    @Slot(int)
    def show_message(self, message_id: int) -> None:
        """Open the branch that goes through that message."""
        if message_id in self.conversation and not self.state.busy:
            self.conversation.select(message_id)
            self._tell_branch()

    @Slot(int, int)
    def show_version(self, message_id: int, step: int) -> None:
        """Open the version of a message that is `step` places after it, if there is one."""
        if self.state.busy or message_id not in self.conversation:
            return
        versions = self.conversation.versions(message_id)
        place = versions.index(message_id) + step
        if 0 <= place < len(versions):
            self.conversation.select(versions[place])
            self._tell_branch()

    # --- the open chat's own settings ----------------------------------------------------------

    @Slot(object)
    def change_options(self, changes: dict[str, Any]) -> None:
        """Change sampling options; they hold from the very next token on."""
        try:
            self._options = self.conversation.live.change(**changes)
        except OptionsError:
            return  # the panel offers no such value
        self._save_soon()

    @Slot(object)
    def change_system_prompt(self, text: str | None) -> None:
        """What the model is told first; None is the model's own, "" nothing at all."""
        listed = self.conversation.kept
        if text:  # somebody wrote that: it is kept like a draft
            self.conversation.change_chat(system_prompt=text)
        else:
            self.conversation.set_up(system_prompt=text)
        if not listed:
            self._chats.tell()
        self._look.follow(self.conversation)

    @Slot(str)
    def keep_draft(self, text: str) -> None:
        """Remember what is being written, soon also on disk."""
        if self.conversation.editing is not None:
            self.conversation.edited_text = text
        else:
            self._draft = text
            self._save_soon()

    @Slot()
    def save(self) -> None:
        """Hand all that changed lately to the store."""
        self._saving.stop()
        draft, options, self._draft, self._options = self._draft, self._options, None, None
        if options is not None and options != self.conversation.chat.options:
            self.conversation.set_up(options=options)
        if draft is not None and draft != self.conversation.chat.draft:
            self.conversation.change_chat(draft=draft)
            self._chats.tell()

    # --- what becomes of replies -----------------------------------------------------------------

    @Slot(object)
    def _on_changed(self, job: Job) -> None:
        if job.chat_id == self.conversation.chat.id:
            self._set_state(job.state)
            self._tell_messages()

    @Slot(object, object)
    def _on_progressed(self, job: Job, progress: PromptProgress) -> None:
        if job.chat_id == self.conversation.chat.id:
            self.prompt_progressed.emit(progress)

    @Slot(object, object)
    def _on_grew(self, job: Job, growth: ReplyGrowth) -> None:
        if job.chat_id == self.conversation.chat.id and job.message_id in self.conversation:
            self.reply_grew.emit(growth)
            if growth.next_token is not None:
                self.next_token_changed.emit(growth.next_token)

    @Slot(object)
    def _on_closed(self, job: Job) -> None:
        """The views learn how a reply ended, if its chat is open."""
        if job.chat_id == self.conversation.chat.id:
            self._set_state(ChatState.READY)
            self._tell_messages()
            self._tell_facts()
            if job.message_id in self.conversation:
                record = self.conversation[job.message_id]
                self.reply_ended.emit(
                    self.conversation.shown_message(record, self._recorder.details)
                )

    @Slot(object)
    def _on_looked(self, look: Look | None) -> None:
        if self.state.busy:
            return
        self.prompt_changed.emit(look)
        if look is not None and look.next_token is not None:
            self.next_token_changed.emit(look.next_token)

    # --- inside ----------------------------------------------------------------------------------

    def _ask(self, question_id: int) -> None:
        """Open a reply under a question, and have it written."""
        reply = MessageRecord(
            id=self._chats.library.store.next_id(),
            chat_id=self.conversation.chat.id,
            parent_id=question_id,
            role="assistant",
            content="",
            created_at=time.time(),
            reply=ReplyRecord("waiting"),
        )
        self.conversation.add(reply)
        self._start(reply.id, self.conversation.dialog(reply.id))

    def _start(self, message_id: int, messages: tuple[Any, ...]) -> None:
        self.prompt_changed.emit(None)  # there is a new one, seen once the engine is at leisure
        job = Job(self.conversation.chat.id, message_id, messages, self.conversation.live)
        self._tell_messages()
        self._scheduler.ask(job)

    @Slot(object)
    def _on_opened(self, conversation: Conversation) -> None:
        """Show another chat."""
        editing = conversation.editing is not None
        self.chat_opened.emit(
            OpenedChat(
                conversation.chat.id,
                conversation.shown(self._recorder.details),
                conversation.edited_text if editing else conversation.chat.draft,
                conversation.live.current,
                conversation.chat.system_prompt,
                conversation.temporary,
            )
        )
        self.editing_changed.emit(editing)
        self.prompt_changed.emit(None)  # the other chat's; this one's follows
        job = self._scheduler.job_of(conversation.chat.id)
        self._set_state(job.state if job is not None else ChatState.READY)
        self.next_token_changed.emit(None)
        self._tell_facts()

    def _tell_branch(self) -> None:
        """Another branch is open."""
        self.next_token_changed.emit(None)
        self._tell_messages()
        self._tell_facts()

    def _tell_facts(self) -> None:
        """What depends on the open branch and on how it ended."""
        self._tell_used()
        reply = self.last_reply
        seed = reply.reply.seed if reply is not None and reply.reply is not None else None
        self.seed_changed.emit(seed)
        if not self.state.busy:
            self._look.follow(self.conversation)

    def _tell_used(self) -> None:
        job = self._scheduler.job_of(self.conversation.chat.id)
        if job is not None and job.prompt_tokens:
            self.used_tokens_changed.emit(job.prompt_tokens)
        else:
            edited = self.conversation.editing
            self.used_tokens_changed.emit(self.conversation.used_tokens(before=edited))

    def _shown(self, record: MessageRecord) -> ShownMessage:
        return self.conversation.shown_message(record, self._recorder.details)

    def _tell_messages(self) -> None:
        self.messages_changed.emit(self.conversation.shown(self._recorder.details))

    def _save_soon(self) -> None:
        if not self._saving.isActive():
            self._saving.start()

    def _set_editing(self, message_id: int | None) -> None:
        if message_id is not None:
            self.save()
        if self.conversation.editing != message_id:
            self.conversation.editing = message_id
            self.editing_changed.emit(message_id is not None)
            self._tell_used()

    def _set_state(self, state: ChatState) -> None:
        self.state = state
        self.state_changed.emit(state)
