"""All chats: which there are, in which order, and the ones in memory."""

import time
from collections.abc import Callable

from app.conversation import Conversation
from app.store.chats import ChatStore
from app.store.records import ChatRecord
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
        """Whether that chat is listed; a deleted one is not."""
        return chat_id in self._records

    def records(self) -> list[ChatRecord]:
        """All that are kept, the one that was used last first."""
        for chat_id, conversation in self._opened.items():
            if conversation.kept and chat_id in self._records:
                self._records[chat_id] = conversation.chat
        return sorted(self._records.values(), key=lambda r: (r.updated_at, r.id), reverse=True)

    def conversation(self, chat_id: int) -> Conversation:
        """That chat, read from the store the first time."""
        if chat_id not in self._opened:
            self._opened[chat_id] = Conversation(
                self._records[chat_id], self.store.messages(chat_id), keeper=self.store
            )
        return self._opened[chat_id]

    def new(self) -> Conversation:
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
        conversation = Conversation(record, keeper=self.store, kept=False)
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

    def rename(self, chat_id: int, title: str) -> None:
        """Give a chat the user's own name."""
        self.conversation(chat_id).change_chat(title=title, titled=True)

    def delete(self, chat_id: int) -> ChatRecord:
        """Take a chat out of the list; `restore` brings it back."""
        record = self.conversation(chat_id).chat
        self._opened[chat_id].change_chat(deleted_at=time.time())
        self._records.pop(chat_id, None)
        return record

    def restore(self, chat_id: int) -> None:
        """Bring a deleted chat back as it was."""
        conversation = self._opened[chat_id]
        conversation.change_chat(deleted_at=None)
        self._records[chat_id] = conversation.chat
