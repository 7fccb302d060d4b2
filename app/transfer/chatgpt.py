"""Reads what ChatGPT exports: `conversations.json`, a list of trees of messages."""

from typing import Any

from app.store.records import ChatRecord, MessageRecord
from app.transfer.foreign import Node, chat_of, seconds
from app.transfer.report import Report, TransferError


def is_chatgpt(document: Any) -> bool:
    """Whether it looks like that, or like one conversation of it."""
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and isinstance(first.get("mapping"), dict)


def read_chatgpt(value: Any, report: Report) -> tuple[ChatRecord, list[MessageRecord]]:
    """One conversation. Raises TransferError with the place of the fault."""
    if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
        raise TransferError("It has no mapping of messages.", "")
    nodes: dict[str, Node] = {}
    for key, node in value["mapping"].items():
        if not isinstance(node, dict):
            raise TransferError(f"The node {key[:40]} is not an object.", "")
        nodes[key] = _node(node, report)
    title = value.get("title")
    chat = ChatRecord(
        id=0,
        title=title if isinstance(title, str) else "",
        created_at=seconds(value.get("create_time")),
        updated_at=seconds(value.get("update_time") or value.get("create_time")),
        archived=value.get("is_archived") is True,
    )
    current = value.get("current_node")
    current = current if isinstance(current, str) else None
    return chat_of(chat, nodes, current, report, source="ChatGPT")


def _node(node: dict[str, Any], report: Report) -> Node:
    parent = node.get("parent")
    parent = parent if isinstance(parent, str) else None
    message = node.get("message")
    if not isinstance(message, dict):
        return Node(parent, None, "")
    author = message.get("author")
    role = author.get("role") if isinstance(author, dict) else None
    metadata = message.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    hidden = metadata.get("is_visually_hidden_from_conversation") is True
    if hidden or message.get("recipient") not in (None, "all"):
        return Node(parent, None, "")  # what the program said to itself or to a tool
    if role == "system" and metadata.get("is_user_system_message") is not True:
        return Node(parent, None, "")  # the program's own
    model = metadata.get("model_slug")
    return Node(
        parent,
        role if isinstance(role, str) else "unknown",
        _text(message.get("content"), report),
        seconds(message.get("create_time")),
        model if isinstance(model, str) else "",
    )


def _text(content: Any, report: Report) -> str:
    if not isinstance(content, dict):
        return content if isinstance(content, str) else ""
    parts = content.get("parts")
    if not isinstance(parts, list):
        text = content.get("text")
        text = text if isinstance(text, str) else ""
        if content.get("content_type") == "code" and text.strip():
            return f"```\n{text}\n```"
        return text
    said = []
    for part in parts:
        if isinstance(part, str):
            said.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            said.append(part["text"])
        elif part is not None:
            report.left_out["images and other attachments"] += 1
            said.append("[image]" if _is_image(part) else "[attachment]")
    return "\n\n".join(part for part in said if part)


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and "image" in str(part.get("content_type"))
