"""What the store keeps, as plain values. Reading never raises, whatever a row holds."""

import json
import math
import struct
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, get_args

from app.ui.states import ReplyStatus
from engine.errors import OptionsError
from engine.events import FinishReason, Statistics
from engine.messages import Role
from engine.options import OPTION_NAMES, SamplingOptions

Row = tuple[Any, ...]

_STATUSES = frozenset(status.value for status in ReplyStatus)


_USUAL = SamplingOptions()


@dataclass(frozen=True, slots=True)
class ChatRecord:
    """One chat. `selected_id` is the chosen one of its first messages.

    A `system_prompt` of None is the model's built-in one, "" is an empty one.
    """

    id: int
    title: str = ""
    titled: bool = False  # whether the user chose the title
    created_at: float = 0.0  # seconds since 1970, as all times
    updated_at: float = 0.0
    deleted_at: float | None = None
    selected_id: int | None = None
    draft: str = ""
    system_prompt: str | None = None
    options: SamplingOptions = _USUAL
    pinned: bool = False
    archived: bool = False


@dataclass(frozen=True, slots=True)
class ReplyRecord:
    """What is known of a reply beside its text. `status` is one of ReplyStatus's values.

    `options` are pairs of a token's number and the options in force from that token on.
    """

    status: str
    reason: FinishReason | None = None
    error: str = ""
    remedy: str = ""
    token_ids: tuple[int, ...] | None = None
    options: tuple[tuple[int, SamplingOptions], ...] = ()
    seed: int | None = None
    model: str = ""
    device: str = ""
    precision: str = ""
    statistics: Statistics | None = None
    model_digest: str = ""  # sha256 of the model's file

    def __post_init__(self) -> None:
        if self.status not in _STATUSES:
            raise ValueError(f"a reply cannot be {self.status!r}")


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """One message of a chat's tree; `selected_id` is the chosen one of its children.

    A `reply` is there exactly if the role is "assistant".
    """

    id: int
    chat_id: int
    parent_id: int | None
    role: Role
    content: str
    created_at: float = 0.0
    deleted_at: float | None = None
    selected_id: int | None = None
    reply: ReplyRecord | None = None

    def __post_init__(self) -> None:
        if (self.reply is not None) != (self.role == "assistant"):
            raise ValueError("a reply belongs to each message of the assistant, and to no other")


class Forgotten:
    """Stands where a chat was that is to be deleted for good."""


Key = tuple[str, int]  # table, id
Change = ChatRecord | MessageRecord | Forgotten

CHAT_COLUMNS = (
    *("id", "title", "titled", "created_at", "updated_at", "deleted_at", "selected_id"),
    *("draft", "system_prompt", "options", "pinned", "archived"),
)
MESSAGE_COLUMNS = (
    *("id", "chat_id", "parent_id", "role", "content", "created_at", "deleted_at", "selected_id"),
)
REPLY_COLUMNS = (
    *("message_id", "status", "reason", "error", "remedy", "token_ids", "options", "seed"),
    *("model", "device", "precision", "prompt_tokens", "reused_tokens", "new_tokens"),
    *("time_to_first_token", "tokens_per_second", "left_out_messages", "model_digest"),
)


def chat_row(chat: ChatRecord) -> Row:
    """The values of CHAT_COLUMNS."""
    prompt = None if chat.system_prompt is None else storable(chat.system_prompt)
    return (
        *(chat.id, storable(chat.title), int(chat.titled), chat.created_at, chat.updated_at),
        *(chat.deleted_at, chat.selected_id, storable(chat.draft), prompt),
        *(json.dumps(asdict(chat.options)), int(chat.pinned), int(chat.archived)),
    )


def message_row(message: MessageRecord) -> Row:
    """The values of MESSAGE_COLUMNS."""
    return (
        *(message.id, message.chat_id, message.parent_id, message.role),
        *(storable(message.content), message.created_at, message.deleted_at, message.selected_id),
    )


def reply_row(message_id: int, reply: ReplyRecord) -> Row:
    """The values of REPLY_COLUMNS."""
    ids, cost = reply.token_ids, reply.statistics
    return (
        *(message_id, reply.status, reply.reason, storable(reply.error), storable(reply.remedy)),
        None if ids is None else struct.pack(f"<{len(ids)}I", *ids),
        json.dumps([[first, asdict(options)] for first, options in reply.options]),
        *(reply.seed, storable(reply.model), storable(reply.device), storable(reply.precision)),
        *((*(None,) * 5, 0) if cost is None else _statistics_row(cost)),
        storable(reply.model_digest),
    )


def read_chat(row: Row) -> ChatRecord:
    """The chat in the values of CHAT_COLUMNS."""
    options = _read_options(row[9]) if isinstance(row[9], str) else _USUAL
    return ChatRecord(
        id=row[0],
        title=_text(row[1]),
        titled=bool(row[2]),
        created_at=_time(row[3]) or 0.0,
        updated_at=_time(row[4]) or 0.0,
        deleted_at=_time(row[5]),
        selected_id=_whole(row[6]),
        draft=_text(row[7]),
        system_prompt=None if row[8] is None else _text(row[8]),
        options=options,
        pinned=bool(row[10]),
        archived=bool(row[11]),
    )


def read_message(row: Row) -> MessageRecord:
    """The message in the values of MESSAGE_COLUMNS and then REPLY_COLUMNS."""
    role: Role = row[3] if row[3] in get_args(Role) else "user"
    return MessageRecord(
        id=row[0],
        chat_id=row[1],
        parent_id=_whole(row[2]),
        role=role,
        content=_text(row[4]),
        created_at=_time(row[5]) or 0.0,
        deleted_at=_time(row[6]),
        selected_id=_whole(row[7]),
        reply=_read_reply(row[len(MESSAGE_COLUMNS) :]) if role == "assistant" else None,
    )


def _read_reply(row: Row) -> ReplyRecord:
    """A reply; one whose row is missing or damaged has lost its end."""
    status, reason = row[1], row[2]
    return ReplyRecord(
        status=status if status in _STATUSES else ReplyStatus.INTERRUPTED.value,
        reason=reason if reason in get_args(FinishReason) else None,
        error=_text(row[3]),
        remedy=_text(row[4]),
        token_ids=_read_ids(row[5]),
        options=_read_option_changes(row[6]),
        seed=_whole(row[7]),
        model=_text(row[8]),
        device=_text(row[9]),
        precision=_text(row[10]),
        statistics=_read_statistics(row[11:17]),
        model_digest=_text(row[17]),
    )


def storable(text: str) -> str:
    """The text as UTF-8 can hold it: halves of a surrogate pair are joined, or replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _statistics_row(cost: Statistics) -> Row:
    return (
        *(cost.prompt_tokens, cost.reused_tokens, cost.new_tokens),
        *(cost.time_to_first_token, cost.tokens_per_second, cost.left_out_messages),
    )


def _read_statistics(row: Row) -> Statistics | None:
    counts = [_whole(value) for value in row[:3]]
    first, speed = _time(row[3]), _time(row[4])
    prompt, reused, new = counts
    if prompt is None or reused is None or new is None or first is None or speed is None:
        return None
    return Statistics(prompt, reused, new, first, speed, _whole(row[5]) or 0)


def _read_ids(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, bytes) or len(value) % 4:
        return None
    return struct.unpack(f"<{len(value) // 4}I", value)


@lru_cache(maxsize=512)  # most chats share a few sets of options, and checking one takes a while
def _read_options(text: str) -> SamplingOptions:
    return options_from(_read_json(text)) or _USUAL


def _read_option_changes(text: object) -> tuple[tuple[int, SamplingOptions], ...]:
    changes = _read_json(text)
    if not isinstance(changes, list):
        return ()
    read = []
    for change in changes:
        if not isinstance(change, list) or len(change) != 2:
            return ()
        first, options = _whole(change[0]), options_from(change[1])
        if first is None or options is None:
            return ()
        read.append((first, options))
    return tuple(read)


def options_from(values: object) -> SamplingOptions | None:
    """Options from what JSON holds; None unless all that is known in it is valid."""
    if not isinstance(values, dict):
        return None
    known = {name: value for name, value in values.items() if name in OPTION_NAMES}
    texts = known.get("stop_texts")
    if isinstance(texts, list):
        known["stop_texts"] = tuple(texts)
    try:
        return SamplingOptions(**known)
    except (OptionsError, OverflowError):
        return None


def _read_json(text: object) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _time(value: object) -> float | None:
    return value if isinstance(value, float) and math.isfinite(value) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
