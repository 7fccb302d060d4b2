"""A chat as JSON, complete: whatever is exported comes back exactly as it was.

    {"format": "smoldesk-chat", "format_version": 1, "made_by": "Smoldesk 0.1.0",
     "chat": {"title", "titled", "created_at", "updated_at", "draft", "system_prompt", "options",
              "pinned", "archived", "selected"},
     "messages": [{"id", "parent", "role", "content", "created_at", "selected", "reply"}, …]}

Ids are numbers that mean something within the file only; `parent` is the message that one follows,
or null; `selected` is the chosen one of those that follow, or null for the newest. Times are in
seconds since 1970. `titled` says whether the user chose the title, a `system_prompt` of null is the
model's own. `reply`, for messages of the assistant, has `status`, `reason`, `error`, `remedy`,
`token_ids`, `options` (pairs of the first token they held for, and they), `seed`, `model`,
`model_digest`, `device`, `precision` and `statistics`. Unknown fields are passed over.
"""

import json
import math
from dataclasses import asdict
from typing import Any, get_args

from app.store.records import ChatRecord, MessageRecord, ReplyRecord, options_from
from app.transfer.report import TransferError
from app.transfer.trees import in_order
from app.ui.states import ReplyStatus
from engine.events import FinishReason, Statistics
from engine.messages import Role
from engine.options import SamplingOptions

FORMAT = "smoldesk-chat"
FORMAT_VERSION = 1
LARGEST = 512 * 2**20  # characters

_STATUSES = [status.value for status in ReplyStatus]  # a list: anything may be looked for in it
_COUNTS = ("prompt_tokens", "reused_tokens", "new_tokens", "left_out_messages")
_TIMES = ("time_to_first_token", "tokens_per_second")


def to_json(chat: ChatRecord, messages: list[MessageRecord], *, made_by: str) -> str:
    """A chat with all its branches; what is deleted is not among them."""
    kept = [message for message in messages if message.deleted_at is None]
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "made_by": made_by,
        "chat": {
            "title": chat.title,
            "titled": chat.titled,
            "created_at": chat.created_at,
            "updated_at": chat.updated_at,
            "draft": chat.draft,
            "system_prompt": chat.system_prompt,
            "options": asdict(chat.options),
            "pinned": chat.pinned,
            "archived": chat.archived,
            "selected": chat.selected_id,
        },
        "messages": [_message(message) for message in kept],
    }
    return json.dumps(document, indent=1)


def from_json(text: str) -> tuple[ChatRecord, list[MessageRecord]]:
    """The chat in such a text and its messages, as `trees.in_order`. Raises TransferError."""
    if len(text) > LARGEST:
        raise TransferError("The file is far too large for a chat.", "Choose another file.")
    try:
        document = json.loads(text)
    except RecursionError:
        raise _fault("it is nested too deeply") from None
    except ValueError as error:
        place = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise _fault(f"it is not JSON{place}") from None
    return chat_from(document)


def chat_from(document: Any) -> tuple[ChatRecord, list[MessageRecord]]:
    """The same from what JSON holds."""
    if not is_ours(document):
        raise _fault("it is not a chat of Smoldesk")
    version = _whole(document, "format_version", "")
    if version > FORMAT_VERSION:
        raise TransferError(
            "The file was written by a newer Smoldesk.", "Update Smoldesk, and import it then."
        )
    values = _object(document, "chat", "")
    chat = ChatRecord(
        id=0,
        title=_text(values, "title", "chat"),
        titled=_flag(values, "titled", "chat"),
        created_at=_number(values, "created_at", "chat"),
        updated_at=_number(values, "updated_at", "chat"),
        selected_id=_optional_whole(values, "selected", "chat"),
        draft=_text(values, "draft", "chat"),
        system_prompt=_optional_text(values, "system_prompt", "chat"),
        options=_options(values.get("options"), "chat.options"),
        pinned=_flag(values, "pinned", "chat"),
        archived=_flag(values, "archived", "chat"),
    )
    listed = document.get("messages")
    if not isinstance(listed, list):
        raise _fault("messages is not a list")
    messages = [_read_message(value, f"messages[{n}]") for n, value in enumerate(listed)]
    _check_tree(messages)
    numbered = in_order(chat, messages)
    if len(numbered[1]) < len(messages):
        raise _fault("some messages follow each other in a circle")
    return numbered


def is_ours(document: Any) -> bool:
    """Whether it is a chat in this format, of any version."""
    return isinstance(document, dict) and document.get("format") == FORMAT


def _message(message: MessageRecord) -> dict[str, Any]:
    return {
        "id": message.id,
        "parent": message.parent_id,
        "role": message.role,
        "content": message.content,
        "created_at": message.created_at,
        "selected": message.selected_id,
        "reply": None if message.reply is None else _reply(message.reply),
    }


def _reply(reply: ReplyRecord) -> dict[str, Any]:
    values = asdict(reply)
    values["options"] = [[first, asdict(options)] for first, options in reply.options]
    return values


def _read_message(value: Any, where: str) -> MessageRecord:
    if not isinstance(value, dict):
        raise _fault(f"{where} is not an object")
    role: Role = value.get("role")  # type: ignore[assignment]
    if role not in get_args(Role):
        raise _fault(f"{where}.role is {str(role)[:40]!r}")
    reply = None
    if role == "assistant":
        reply = _read_reply(_object(value, "reply", where), f"{where}.reply")
    return MessageRecord(
        id=_whole(value, "id", where),
        chat_id=0,
        parent_id=_optional_whole(value, "parent", where),
        role=role,
        content=_text(value, "content", where),
        created_at=_number(value, "created_at", where),
        selected_id=_optional_whole(value, "selected", where),
        reply=reply,
    )


def _read_reply(values: dict[str, Any], where: str) -> ReplyRecord:
    status, reason = values.get("status"), values.get("reason")
    if status not in _STATUSES:
        raise _fault(f"{where}.status is {str(status)[:40]!r}")
    if reason is not None and reason not in get_args(FinishReason):
        raise _fault(f"{where}.reason is {str(reason)[:40]!r}")
    ids = values.get("token_ids")
    if ids is not None and not _are_ids(ids):
        raise _fault(f"{where}.token_ids is not a list of token ids")
    return ReplyRecord(
        status=status,
        reason=reason,
        error=_text(values, "error", where),
        remedy=_text(values, "remedy", where),
        token_ids=None if ids is None else tuple(ids),
        options=_read_changes(values.get("options"), f"{where}.options"),
        seed=_optional_whole(values, "seed", where),
        model=_text(values, "model", where),
        device=_text(values, "device", where),
        precision=_text(values, "precision", where),
        statistics=_read_statistics(values.get("statistics"), f"{where}.statistics"),
        model_digest=_text(values, "model_digest", where),
    )


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 2**32 for n in value)


def _read_changes(value: Any, where: str) -> tuple[tuple[int, SamplingOptions], ...]:
    if not isinstance(value, list):
        raise _fault(f"{where} is not a list")
    changes = []
    for number, change in enumerate(value):
        if not isinstance(change, list) or len(change) != 2 or type(change[0]) is not int:
            raise _fault(f"{where}[{number}] is not a token's number and options")
        changes.append((change[0], _options(change[1], f"{where}[{number}]")))
    return tuple(changes)


def _read_statistics(value: Any, where: str) -> Statistics | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _fault(f"{where} is not an object")
    counts = {name: _whole(value, name, where) for name in _COUNTS}
    return Statistics(**counts, **{name: _number(value, name, where) for name in _TIMES})  # type: ignore[arg-type]


def _options(value: Any, where: str) -> SamplingOptions:
    options = options_from(value)
    if options is None:
        raise _fault(f"{where} has a value that is not allowed")
    return options


def _check_tree(messages: list[MessageRecord]) -> None:
    known = {message.id for message in messages}
    if len(known) < len(messages):
        raise _fault("two messages have the same id")
    for number, message in enumerate(messages):
        if message.parent_id is not None and message.parent_id not in known:
            raise _fault(f"messages[{number}] follows a message that is not there")


def _object(values: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    value = values.get(name)
    if not isinstance(value, dict):
        raise _fault(f"{_at(where, name)} is not an object")
    return value


def _text(values: dict[str, Any], name: str, where: str) -> str:
    value = values.get(name)
    if not isinstance(value, str):
        raise _fault(f"{_at(where, name)} is not a text")
    return value


def _optional_text(values: dict[str, Any], name: str, where: str) -> str | None:
    return None if values.get(name) is None else _text(values, name, where)


def _flag(values: dict[str, Any], name: str, where: str) -> bool:
    value = values.get(name)
    if not isinstance(value, bool):
        raise _fault(f"{_at(where, name)} is neither true nor false")
    return value


def _whole(values: dict[str, Any], name: str, where: str) -> int:
    value = values.get(name)
    if type(value) is not int or abs(value) >= 2**63:
        raise _fault(f"{_at(where, name)} is not a whole number")
    return value


def _optional_whole(values: dict[str, Any], name: str, where: str) -> int | None:
    return None if values.get(name) is None else _whole(values, name, where)


def _number(values: dict[str, Any], name: str, where: str) -> float:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _fault(f"{_at(where, name)} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _fault(f"{_at(where, name)} is not a number")
    return number


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _fault(what: str) -> TransferError:
    return TransferError(
        f"This chat cannot be read: {what}.", "Export it again, or choose another."
    )
