"""All chats: which there are, in which order, and the ones in memory."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from app.conversation import Conversation, Nowhere
from app.store.chats import ChatStore
from app.store.records import ChatRecord, MessageRecord
from app.ui.states import ReplyStatus
from engine.options import SamplingOptions


class ChatLibrary:
    """Opens, makes, names and deletes chats. A chat that was opened stays in memory.

    `defaults` tells the options and the system prompt that a new chat begins with.
    """

    def __init__(
        self, store: ChatStore, defaults: Callable[[], tuple[SamplingOptions, str | None]]
    ) -> None:
        self.store = store
        self._defaults = defaults
        self._records = {record.id: record for record in store.chats()}
        self._opened: dict[int, Conversation] = {}

    def __contains__(self, chat_id: int) -> bool:
        """Whether that chat can be opened; a deleted one cannot."""
        opened = self._opened.get(chat_id)
        return chat_id in self._records or (opened is not None and opened.temporary)

    @property
    def usual_options(self) -> SamplingOptions:
        """Those that a new chat begins with."""
        return self._defaults()[0]

    def records(self, *, archived: bool = False) -> list[ChatRecord]:
        """All that are kept and listed, or the archived ones: pinned ones first, then by use."""
        for chat_id, conversation in self._opened.items():
            if conversation.kept and chat_id in self._records:
                self._records[chat_id] = conversation.chat
        wanted = (record for record in self._records.values() if record.archived is archived)
        return sorted(wanted, key=lambda r: (r.pinned, r.updated_at, r.id), reverse=True)

    def deleted(self) -> list[ChatRecord]:
        """The chats in the trash, the one deleted last first."""
        deleted = self.store.chats(deleted=True)
        return sorted(deleted, key=lambda record: record.deleted_at or 0.0, reverse=True)

    def conversation(self, chat_id: int) -> Conversation:
        """That chat, read from the store the first time."""
        if chat_id not in self._opened:
            self._opened[chat_id] = Conversation(
                self._records[chat_id], self.store.messages(chat_id), keeper=self.store
            )
        return self._opened[chat_id]

    def new(self, *, temporary: bool = False) -> Conversation:
        """An empty chat. It is listed once it is kept and `list_kept` was called."""
        options, system_prompt = self._defaults()
        now = time.time()
        record = ChatRecord(
            id=self.store.next_id(),
            created_at=now,
            updated_at=now,
            options=options,
            system_prompt=system_prompt,
        )
        keeper = Nowhere() if temporary else self.store
        conversation = Conversation(record, keeper=keeper, kept=False)
        self._opened[record.id] = conversation
        return conversation

    def list_kept(self, conversation: Conversation) -> bool:
        """List a chat that is kept by now; False if nothing changed by that."""
        if not conversation.kept or conversation.chat.id in self._records:
            return False
        self._records[conversation.chat.id] = conversation.chat
        return True

    def let_go(self, conversation: Conversation) -> None:
        """Forget a chat that is left with nothing said or written in it."""
        chat_id = conversation.chat.id
        if conversation.blank:
            self._opened.pop(chat_id, None)
            self._records.pop(chat_id, None)
            if conversation.kept:
                self.store.forget_chat(chat_id)

    def is_unread(self, chat_id: int) -> bool:
        """Whether a reply ended there while another chat was open."""
        return chat_id in self._opened and self._opened[chat_id].unread

    def change(self, chat_id: int, **changes: object) -> None:
        """Change fields of a chat's record."""
        self.conversation(chat_id).change_chat(**changes)

    def add(self, chat: ChatRecord, messages: Iterable[MessageRecord]) -> int:
        """Keep a chat from elsewhere under an id of its own, which is returned.

        Its ids, and those of its messages, need only be consistent among themselves, and higher
        than those of the messages they follow.
        """
        messages = sorted(messages, key=lambda message: message.id)
        ids = {message.id: self.store.next_id() for message in messages}

        def new(old: int | None) -> int | None:
            return None if old is None else ids.get(old)

        record = replace(
            chat,
            id=self.store.next_id(),
            selected_id=new(chat.selected_id),
            deleted_at=None,
        )
        self.store.save_chat(record)
        for message in messages:  # a parent before what follows it
            moved = replace(
                _ended(message),
                id=ids[message.id],
                chat_id=record.id,
                parent_id=new(message.parent_id),
                selected_id=new(message.selected_id),
            )
            self.store.save_message(moved)
        self._records[record.id] = record
        return record.id

    def duplicate(self, chat_id: int, *, until: int | None = None) -> int:
        """Copy a chat, or of its open branch what leads up to that message; the copy's id."""
        source = self.conversation(chat_id)
        messages = source.messages
        if until is not None:
            path = source.path()
            end = [record.id for record in path].index(until)
            messages = path[: end + 1]
        now = time.time()
        copy = replace(
            source.chat, created_at=now, updated_at=now, draft="", pinned=False, archived=False
        )
        return self.add(copy, messages)

    def delete(self, chat_id: int) -> ChatRecord:
        """Put a chat into the trash; `restore` brings it back."""
        self.conversation(chat_id).change_chat(deleted_at=time.time())
        self._records.pop(chat_id, None)
        return self._opened[chat_id].chat

    def restore(self, chat_id: int) -> None:
        """Bring a deleted chat back as it was."""
        if chat_id not in self._opened:
            found = {record.id: record for record in self.store.chats(deleted=True)}
            if chat_id not in found:
                return
            self._records[chat_id] = found[chat_id]
        conversation = self.conversation(chat_id)
        conversation.change_chat(deleted_at=None)
        self._records[chat_id] = conversation.chat

    def forget(self, chat_id: int) -> None:
        """Delete a chat for good."""
        self._opened.pop(chat_id, None)
        self._records.pop(chat_id, None)
        self.store.forget_chat(chat_id)


def _ended(message: MessageRecord) -> MessageRecord:
    """The copy of a reply that is still being written is all there will be of it."""
    reply = message.reply
    if reply is None or reply.status not in (
        ReplyStatus.WAITING.value,
        ReplyStatus.STREAMING.value,
    ):
        return message
    return replace(message, reply=replace(reply, status=ReplyStatus.INTERRUPTED.value))
