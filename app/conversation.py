"""One chat: its messages as a tree, the branch that is open in it, and what the model is told.

Invariant: nothing is overwritten or taken out. Every change is handed to the keeper at once.
"""

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from app.store.records import ChatRecord, MessageRecord, ReplyRecord
from app.ui.states import Failure, ReplyFacts, ReplyStatus, ShownMessage
from engine.messages import Message
from engine.options import LiveOptions

TITLE_LENGTH = 80


class Keeper(Protocol):
    """The part of `app.store.chats.ChatStore` that is used here."""

    def save_chat(self, record: ChatRecord) -> None:
        """Keep this state of a chat."""
        ...

    def save_message(self, record: MessageRecord) -> None:
        """Keep this state of a message."""
        ...


class Nowhere:
    """The keeper of chats that are not to be written."""

    def save_chat(self, record: ChatRecord) -> None:
        """Do not."""

    def save_message(self, record: MessageRecord) -> None:
        """Do not."""


class Conversation:
    """A chat in memory. A new one is kept from its first message or its first change on.

    With `Nowhere` as its keeper it is a temporary one, which is never kept.
    """

    def __init__(
        self,
        chat: ChatRecord,
        messages: Iterable[MessageRecord] = (),
        *,
        keeper: Keeper,
        kept: bool = True,
    ) -> None:
        self.chat = chat
        self.kept = kept
        self.live = LiveOptions(chat.options)
        self.unread = False  # a reply ended while another chat was open
        self.editing: int | None = None  # a question that is being written anew,
        self.edited_text = ""  # and how far that has come; not for the disk
        self._keeper = keeper
        self._shown: dict[int, tuple[MessageRecord, ShownMessage]] = {}  # made of these records
        self._messages: dict[int, MessageRecord] = {}
        self._children: dict[int | None, list[int]] = {}
        for message in messages:
            self._insert(message)

    def __getitem__(self, message_id: int) -> MessageRecord:
        return self._messages[message_id]

    def __contains__(self, message_id: int) -> bool:
        return message_id in self._messages

    @property
    def temporary(self) -> bool:
        """Whether it is never written to the disk."""
        return isinstance(self._keeper, Nowhere)

    @property
    def empty(self) -> bool:
        """Whether nothing was said yet."""
        return not self._messages

    @property
    def blank(self) -> bool:
        """Whether nothing at all would be lost with it: neither said nor written, nor named."""
        chat = self.chat
        return self.empty and not (chat.draft or chat.titled or chat.system_prompt)

    @property
    def messages(self) -> list[MessageRecord]:
        """All messages on all branches, each after the one it follows."""
        return [self._messages[message_id] for message_id in sorted(self._messages)]

    def path(self) -> list[MessageRecord]:
        """The open branch, from the first message to the last."""
        path: list[MessageRecord] = []
        chosen = self._chosen(None, self.chat.selected_id)
        while chosen is not None:
            path.append(chosen)
            chosen = self._chosen(chosen.id, chosen.selected_id)
        return path

    def versions(self, message_id: int) -> list[int]:
        """The messages that share one place, oldest first."""
        return self._children[self._messages[message_id].parent_id]

    def followed(self, message_id: int) -> bool:
        """Whether any message was written after that one, on any branch."""
        return bool(self._children.get(message_id))

    def change_chat(self, **changes: object) -> None:
        """Replace fields of the chat's record and keep it."""
        self.set_up(**changes)
        self.kept = not self.temporary
        self._keeper.save_chat(self.chat)

    def set_up(self, **changes: object) -> None:
        """The same, but a chat that is not kept yet stays so: nothing was said in it."""
        self.chat = replace(self.chat, **changes)  # type: ignore[arg-type]
        if "options" in changes:
            self.live.current = self.chat.options
        if self.kept:
            self._keeper.save_chat(self.chat)

    def add(self, message: MessageRecord) -> None:
        """Put a message under its parent and make it the one that is open there."""
        if not self.kept:  # the chat must be there before its messages
            self.change_chat()
        self._insert(message)
        self._keeper.save_message(message)
        self._select(message)
        title = self.chat.title
        if message.role == "user" and not title and not self.chat.titled:
            title = _title(message.content)
        self.change_chat(title=title, updated_at=message.created_at)

    def update(self, message: MessageRecord) -> None:
        """Replace a message by its newer state and keep that."""
        self.hold(message)
        self.save(message.id)

    def hold(self, message: MessageRecord) -> None:
        """Replace a message in memory only, between two savings of a reply that grows."""
        self._messages[message.id] = message

    def save(self, message_id: int) -> None:
        """Keep a message as it is now."""
        self._keeper.save_message(self._messages[message_id])

    def select(self, message_id: int) -> None:
        """Open the branch that goes through that message."""
        message: MessageRecord | None = self._messages[message_id]
        while message is not None:
            self._select(message)
            parent = message.parent_id
            message = None if parent is None else self._messages[parent]

    def delete(self, message_id: int, now: float) -> list[MessageRecord]:
        """Mark a message and all that follows it, on any branch, as deleted; for `restore`."""
        self._children[self._messages[message_id].parent_id].remove(message_id)
        deleted: list[MessageRecord] = []
        pending = [message_id]
        while pending:
            message = self._messages.pop(pending.pop())
            pending += self._children.pop(message.id, [])
            self._keeper.save_message(replace(message, deleted_at=now))
            deleted.append(message)
        return deleted

    def restore(self, deleted: Iterable[MessageRecord]) -> None:
        """Bring back what was deleted, where it was."""
        for message in deleted:
            self._insert(message)
            self._keeper.save_message(message)

    def dialog(self, until: int, *, go_on: bool = False) -> tuple[Message, ...]:
        """What the model is told so that it writes the reply `until`, or answers that question.

        A question without any words of a reply is left out, except the one to be answered now. With
        `go_on` the dialog ends with the words that the reply has already.
        """
        prompt = self.chat.system_prompt
        system = [] if prompt is None else [Message("system", prompt)]
        told = self._told(until, go_on=go_on)
        return (*system, *(_as_message(record) for record in told))

    def memory_begins(self) -> int | None:
        """The message that the model's memory began with when the open branch was last answered.

        None if all before that answer was remembered.
        """
        for record in reversed(self.path()):
            statistics = record.reply.statistics if record.reply else None
            if statistics is not None:
                told, left_out = self._told(record.id), statistics.left_out_messages
                return told[left_out].id if 0 < left_out < len(told) else None
        return None

    def _told(self, until: int, *, go_on: bool = False) -> list[MessageRecord]:
        """The messages of `dialog`, without the system's."""
        told: list[MessageRecord] = []
        question: MessageRecord | None = None
        for record in self.path():
            if record.role == "user":
                question = record
            if record.id == until:
                told += [question] if question is not None else []
                return [*told, record] if go_on else told
            if record.role != "user" and record.content:
                told += [question, record] if question is not None else [record]
                question = None
        return told

    def shown(self, details: dict[int, str]) -> list[ShownMessage]:
        """The open branch as the views show it; `details` of bugs are known by message."""
        begins = self.memory_begins()
        return [
            self.shown_message(record, details, memory_begins=record.id == begins)
            for record in self.path()
        ]

    def shown_message(
        self, record: MessageRecord, details: dict[int, str], *, memory_begins: bool = False
    ) -> ShownMessage:
        """One message as the views show it; the same object as long as nothing has changed."""
        versions = self._children[record.parent_id]
        place = versions.index(record.id) + 1
        known = self._shown.get(record.id)
        if known is not None and known[0] is record:
            shown = known[1]
            now = place, len(versions), memory_begins
            if (shown.version, shown.versions, shown.memory_begins) == now:
                return shown
        facts = None
        if record.reply is not None:
            facts = _facts(record.reply, details.get(record.id, ""))
        shown = ShownMessage(
            id=record.id,
            role=record.role,
            text=record.content,
            reply=facts,
            version=place,
            versions=len(versions),
            memory_begins=memory_begins,
        )
        self._shown[record.id] = (record, shown)
        return shown

    def used_tokens(self, *, before: int | None = None) -> int:
        """How much of the model's memory the open branch took when last answered.

        With `before`, only what comes before that message counts.
        """
        path = self.path()
        ids = [record.id for record in path]
        if before in ids:
            path = path[: ids.index(before)]
        for record in reversed(path):
            statistics = record.reply.statistics if record.reply else None
            if statistics is not None and statistics.prompt_tokens:
                return statistics.prompt_tokens + statistics.new_tokens
        return 0

    def _chosen(self, parent_id: int | None, selected: int | None) -> MessageRecord | None:
        children = self._children.get(parent_id)
        if not children:
            return None
        return self._messages[selected if selected in children else children[-1]]

    def _insert(self, message: MessageRecord) -> None:
        self._messages[message.id] = message
        insort(self._children.setdefault(message.parent_id, []), message.id)

    def _select(self, message: MessageRecord) -> None:
        if message.parent_id is None:
            if self.chat.selected_id != message.id:
                self.change_chat(selected_id=message.id)
            return
        parent = self._messages[message.parent_id]
        if parent.selected_id != message.id:
            self.update(replace(parent, selected_id=message.id))


def _as_message(record: MessageRecord) -> Message:
    return Message(record.role, record.content, record.reply.token_ids if record.reply else None)


def _facts(reply: ReplyRecord, details: str) -> ReplyFacts:
    failure = Failure(reply.error, reply.remedy, details) if reply.error else None
    status = ReplyStatus(reply.status)
    edited = status is ReplyStatus.FINISHED and reply.reason is None and not reply.model
    return ReplyFacts(status, reply.reason, failure, reply.seed, reply.statistics, edited)


def _title(text: str) -> str:
    """The first line that says something."""
    lines: Sequence[str] = text.strip().splitlines()
    line = " ".join(lines[0].split()) if lines else ""
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"
