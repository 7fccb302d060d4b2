"""A conversation of another program as one of ours; what is odd in it is survived and counted."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.store.records import ChatRecord, MessageRecord, ReplyRecord
from app.transfer.report import Report
from app.transfer.trees import in_order

_LATEST = 4e9  # seconds since 1970; what is later is in milliseconds, or nonsense


@dataclass(frozen=True, slots=True)
class Node:
    """One place in another program's tree. A `role` of None or an empty `text` is left out, and
    what follows it follows the one before.
    """

    parent: str | None
    role: str | None
    text: str
    created_at: float = 0.0
    model: str = ""


def seconds(value: object) -> float:
    """A time as other programs write it, in seconds since 1970; 0 for what is none."""
    try:
        number = float(value) if isinstance(value, int | float | str) else 0.0
    except (ValueError, OverflowError):
        return 0.0
    if not math.isfinite(number) or number < 0:
        return 0.0
    while number > _LATEST:
        number /= 1000
    return number


def chat_of(
    chat: ChatRecord,
    nodes: Mapping[str, Node],
    current: str | None,
    report: Report,
    *,
    source: str,
) -> tuple[ChatRecord, list[MessageRecord]]:
    """The conversation with its branches; the one that leads to `current` is open.

    A system message before all others becomes the chat's system prompt. `source` names the writer
    of replies whose model is not known.
    """
    kept = {key: node for key, node in nodes.items() if _wanted(node)}
    said = (key for key, node in kept.items() if node.role != "system")
    numbers = {key: number for number, key in enumerate(said, start=1)}
    open_keys = set(_ancestors(current, nodes)) & kept.keys()
    system = next((n.text for n in kept.values() if n.role == "system"), None)
    messages: list[MessageRecord] = []
    selected: dict[int | None, int] = {}
    for key, node in kept.items():
        if node.role == "system":
            continue
        parent = _nearest(node.parent, nodes, numbers)
        if key in open_keys:
            selected[parent] = numbers[key]
        reply = None
        if node.role == "assistant":
            reply = ReplyRecord("finished", model=node.model or source)
        message = MessageRecord(
            *(numbers[key], 0, parent, "user" if node.role == "user" else "assistant", node.text),
            created_at=node.created_at,
            reply=reply,
        )
        messages.append(message)
    record = ChatRecord(
        id=0,
        title=chat.title,
        titled=bool(chat.title),
        created_at=chat.created_at,
        updated_at=chat.updated_at,
        selected_id=selected.get(None),
        system_prompt=system,
        pinned=chat.pinned,
        archived=chat.archived,
    )
    _count(report, nodes)
    placed = [replace(message, selected_id=selected.get(message.id)) for message in messages]
    ordered, in_tree = in_order(record, placed)
    if len(in_tree) < len(placed):
        report.left_out["messages that follow each other in a circle"] += len(placed) - len(in_tree)
    return ordered, in_tree


def _wanted(node: Node) -> bool:
    return node.role in ("user", "assistant", "system") and bool(node.text.strip())


def _ancestors(key: str | None, nodes: Mapping[str, Node]) -> Sequence[str]:
    """From that node upwards, itself first; a circle ends where it closes."""
    found: list[str] = []
    seen: set[str] = set()
    while key is not None and key in nodes and key not in seen:
        seen.add(key)
        found.append(key)
        key = nodes[key].parent
    return found


def _nearest(key: str | None, nodes: Mapping[str, Node], numbers: Mapping[str, int]) -> int | None:
    """The number of the first kept message from there upwards."""
    seen: set[str] = set()
    while key is not None and key in nodes and key not in seen:
        if key in numbers:
            return numbers[key]
        seen.add(key)
        key = nodes[key].parent
    return None


def _count(report: Report, nodes: Mapping[str, Node]) -> None:
    for node in nodes.values():
        if node.role in ("user", "assistant", "system") and not node.text.strip():
            report.left_out["empty messages"] += 1
        elif node.role not in (None, "user", "assistant", "system"):
            report.left_out["messages of tools"] += 1
