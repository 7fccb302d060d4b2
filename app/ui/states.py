"""The words in which views and controllers speak of what is going on: plain values, no widgets."""

from dataclasses import dataclass
from enum import Enum, auto

from engine.events import Finished


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


@dataclass(frozen=True, slots=True)
class ReplyGrowth:
    """The text that came within one frame; counts and seconds are since the first token."""

    turn: int
    text: str
    new_tokens: int
    seconds: float


@dataclass(slots=True, eq=False)
class Turn:
    """One question and what became of it. Owned by the controller; views only read it.

    A reply that runs has neither `finished` nor `failure`. With both a `failure` and some
    `reply_text`, the reply broke off and its text was kept.
    """

    id: int
    text: str
    reply_text: str = ""
    finished: Finished | None = None
    failure: Failure | None = None
