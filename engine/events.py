"""What a running reply tells its consumer: plain frozen values, never tensors."""

from dataclasses import dataclass
from typing import Literal

from engine.messages import Message

FinishReason = Literal[
    "end_of_turn",  # the model ended its turn
    "length",  # the maximum number of new tokens
    "stop_text",  # a stop text appeared
    "stopped",  # the user asked for it
    "context_full",  # the model cannot remember more
    "loop",  # the same run of tokens again and again
    "error",  # the numbers broke down; `Finished.error` says so
]


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """`done` of `total` prompt tokens are in the cache; `reused` of them were there before."""

    done: int
    total: int
    reused: int


@dataclass(frozen=True, slots=True)
class TopLogits:
    """The largest raw logits of one step, descending, and log(sum(exp(all logits)))."""

    ids: tuple[int, ...]
    logits: tuple[float, ...]
    log_sum_exp: float


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token and the text that became certain with it (often "")."""

    id: int
    text: str
    top: TopLogits | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a reply cost. Times are in seconds.

    `time_to_first_token` counts from the request; `tokens_per_second` is the speed of writing,
    without the reading of the prompt; it is 0 for fewer than two tokens.
    """

    prompt_tokens: int
    reused_tokens: int
    new_tokens: int
    time_to_first_token: float
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of every reply. `token_ids` are without `end_id`, which ended the turn.

    For the dialog use `message()`: after a stop text the ids say more than `text` does.
    `text` is the whole text as shown; it equals the joined `Token.text` plus `tail`, the text that
    was still held back when the reply ended.
    """

    reason: FinishReason
    text: str
    tail: str
    token_ids: tuple[int, ...]
    seed: int
    statistics: Statistics
    end_id: int | None = None
    error: str = ""

    def message(self) -> Message:
        """The reply as a part of the dialog. After a stop text its ids say more than was shown."""
        ids = None if self.reason == "stop_text" else self.token_ids
        return Message("assistant", self.text, ids)


Event = PromptProgress | Token | Finished
