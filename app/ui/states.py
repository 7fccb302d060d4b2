"""The words in which views and controllers speak of what is going on: plain values, no widgets."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from engine.events import FinishReason, Picture, Statistics
from engine.messages import Role
from engine.options import SamplingOptions


class ModelState(Enum):
    """Where the model is on its way into memory."""

    NONE = auto()
    LOADING = auto()
    READY = auto()
    FAILED = auto()


class ChatState(Enum):
    """What the chat is doing; widgets enable themselves from this and nothing else."""

    READY = auto()
    WAITING = auto()  # for the model to be loaded
    READING = auto()  # the prompt
    ANSWERING = auto()
    STOPPING = auto()

    @property
    def busy(self) -> bool:
        """Whether a turn is under way, so that a new one has to wait."""
        return self is not ChatState.READY


@dataclass(frozen=True, slots=True)
class Failure:
    """Something went wrong, in plain sentences; `details`, only for a bug, are for its report."""

    what: str
    remedy: str = ""
    details: str = ""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a loaded model is, where it runs and why there."""

    name: str
    device: str
    device_label: str
    reason: str
    precision: str
    threads: int
    context_length: int = 0  # tokens that it can remember
    longest_prompt: int = 0  # tokens; of a longer one the oldest messages are left out
    path: str = ""  # of its file or folder


class Activity(Enum):
    """What goes on in a chat, as its line in the list of chats shows it."""

    QUIET = auto()
    WAITING = auto()  # for its turn
    ANSWERING = auto()
    UNREAD = auto()  # a reply ended while another chat was open


@dataclass(frozen=True, slots=True)
class ChatLine:
    """One chat in the list of chats; `title` is "" until something was said in it."""

    id: int
    title: str
    updated_at: float  # seconds since 1970
    activity: Activity = Activity.QUIET
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class StoredChat:
    """A chat in the archive or the trash; `when` it was used last, or will be deleted for good."""

    id: int
    title: str
    when: float  # seconds since 1970


@dataclass(frozen=True, slots=True)
class ShownBackup:
    """A copy of all chats."""

    path: str
    when: float  # seconds since 1970
    bytes: int


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A chat whose title was found, or a message: then `message_id` and `excerpt` are there.

    Marks are where the words stand that were looked for, as (start, end).
    """

    chat_id: int
    message_id: int | None
    title: str
    title_marks: tuple[tuple[int, int], ...]
    excerpt: str
    marks: tuple[tuple[int, int], ...]


class ReplyStatus(Enum):
    """How far a reply has come."""

    WAITING = "waiting"  # for the model, or for another chat's reply
    STREAMING = "streaming"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"  # the program ended before the reply did
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReplyFacts:
    """How a reply stands and what it cost; None where it is not known (yet)."""

    status: ReplyStatus
    reason: FinishReason | None = None
    failure: Failure | None = None
    seed: int | None = None
    statistics: Statistics | None = None
    edited: bool = False  # the user wrote it


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """One message of the open branch. `reply` is there exactly for the assistant's.

    It is version number `version` (from 1) of `versions` that share the same place. Before the one
    where `memory_begins` the model remembers nothing, for want of room.
    """

    id: int
    role: Role
    text: str
    reply: ReplyFacts | None = None
    version: int = 1
    versions: int = 1
    memory_begins: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where something lies on this computer."""

    name: str
    path: str


class NextToken(Protocol):
    """One step of the model, kept so that it can be looked at under other options.

    See `engine.scope.NextToken`; asking takes about a millisecond.
    """

    def picture(self, options: SamplingOptions, *, count: int) -> Picture:
        """How the next token would be chosen with these options, `count` bars at most."""
        ...


@dataclass(frozen=True, slots=True)
class ReplyGrowth:
    """The text that came within one frame; counts and seconds are since the first token."""

    message_id: int
    text: str
    new_tokens: int
    seconds: float
    token_ids: tuple[int, ...] = ()  # that came within the frame
    next_token: NextToken | None = None  # the step that made the last token
