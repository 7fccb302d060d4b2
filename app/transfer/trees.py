"""Messages from elsewhere as the tree that the library takes."""

from collections.abc import Sequence
from dataclasses import replace

from app.store.records import ChatRecord, MessageRecord


def in_order(
    chat: ChatRecord, messages: Sequence[MessageRecord]
) -> tuple[ChatRecord, list[MessageRecord]]:
    """The same chat with id 0 and messages 1, 2, 3, ...: each after the one it follows, those that
    follow the same one in the order given. What follows itself in a circle is not among them.
    """
    children: dict[int | None, list[MessageRecord]] = {}
    for message in messages:
        children.setdefault(message.parent_id, []).append(message)
    ordered: list[MessageRecord] = []
    pending = children.get(None, [])[::-1]
    while pending:
        message = pending.pop()
        ordered.append(message)
        pending += children.get(message.id, [])[::-1]
    numbers: dict[int | None, int] = {m.id: number for number, m in enumerate(ordered, start=1)}
    numbered = [
        replace(
            message,
            id=numbers[message.id],
            chat_id=0,
            parent_id=numbers.get(message.parent_id),
            selected_id=numbers.get(message.selected_id),
        )
        for message in ordered
    ]
    return replace(chat, id=0, selected_id=numbers.get(chat.selected_id)), numbered
