"""Reads what Open WebUI exports: a list of chats, each with a history of messages."""

from typing import Any

from app.store.records import ChatRecord, MessageRecord
from app.transfer.foreign import Node, chat_of, seconds
from app.transfer.report import Report, TransferError


def is_open_webui(document: Any) -> bool:
    """Whether it looks like that, or like one chat of it."""
    first = document[0] if isinstance(document, list) and document else document
    if not isinstance(first, dict):
        return False
    chat = first.get("chat", first)
    return isinstance(chat, dict) and ("history" in chat or isinstance(chat.get("messages"), list))


def read_open_webui(value: Any, report: Report) -> tuple[ChatRecord, list[MessageRecord]]:
    """One chat. Raises TransferError with the place of the fault."""
    if not isinstance(value, dict):
        raise TransferError("It is not an object.", "")
    chat = value.get("chat", value)
    if not isinstance(chat, dict):
        raise TransferError("Its chat is not an object.", "")
    nodes, current = _nodes(chat, report)
    system = chat.get("system") or (chat.get("params") or {}).get("system")
    if isinstance(system, str) and system.strip():
        nodes = {"": Node(None, "system", system)} | nodes
    title = value.get("title", chat.get("title"))
    created = value.get("created_at", chat.get("timestamp"))
    record = ChatRecord(
        id=0,
        title=title if isinstance(title, str) else "",
        created_at=seconds(created),
        updated_at=seconds(value.get("updated_at") or created),
        pinned=value.get("pinned") is True,
        archived=value.get("archived") is True,
    )
    return chat_of(record, nodes, current, report, source="Open WebUI")


def _nodes(chat: dict[str, Any], report: Report) -> tuple[dict[str, Node], str | None]:
    history = chat.get("history")
    if isinstance(history, dict) and isinstance(history.get("messages"), dict):
        nodes = {}
        for key, message in history["messages"].items():
            if not isinstance(message, dict):
                raise TransferError(f"The message {key[:40]} is not an object.", "")
            parent = message.get("parentId")
            nodes[key] = _node(message, parent if isinstance(parent, str) else None, report)
        current = history.get("currentId")
        return nodes, current if isinstance(current, str) else None
    messages = chat.get("messages")
    if not isinstance(messages, list):
        raise TransferError("It has no messages.", "")
    nodes, last = {}, None
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise TransferError(f"Message {number + 1} is not an object.", "")
        nodes[str(number)] = _node(message, last, report)
        last = str(number)
    return nodes, last


def _node(message: dict[str, Any], parent: str | None, report: Report) -> Node:
    role, content = message.get("role"), message.get("content")
    if isinstance(content, list):  # parts, as for models that see
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n\n".join(text for text in texts if isinstance(text, str))
    text = content if isinstance(content, str) else ""
    files = message.get("files")
    for file in files if isinstance(files, list) else []:
        report.left_out["images and other attachments"] += 1
        name = file.get("name") if isinstance(file, dict) else None
        text += f"\n\n[file: {name}]" if isinstance(name, str) and name else "\n\n[file]"
    model = message.get("modelName") or message.get("model")
    return Node(
        parent,
        role if isinstance(role, str) else "unknown",
        text.strip("\n"),
        seconds(message.get("timestamp")),
        model if isinstance(model, str) else "",
    )
