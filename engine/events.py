"""What a running reply tells its consumer: plain frozen values, never tensors."""

from dataclasses import dataclass
from typing import Literal

from engine.messages import Message
from engine.options import SamplingOptions

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


Cut = Literal["temperature", "top_k", "top_p", "min_p"]  # "temperature": so low that one is left


@dataclass(frozen=True, slots=True)
class Bar:
    """One of the likeliest next tokens, to be drawn.

    `probability` is before the cuts (and before a temperature that comes last or leaves one token);
    `final` is what the draw used, 0 if the token was cut; `cut_by` is None if it was kept. `text`
    is the token's bytes as text (control tokens by name, parts of a character as U+FFFD).
    """

    id: int
    probability: float
    final: float
    cut_by: Cut | None
    text: str = ""
    drawn: bool = False  # whether it is the token that came


@dataclass(frozen=True, slots=True)
class Picture:
    """How the next token is, or was, chosen under some options.

    `kept` is how many tokens could be drawn, `left_out` the share of probability that the cuts
    took away, `unseen` the final share of tokens that were kept but are not among `bars`.
    """

    bars: tuple[Bar, ...]
    kept: int
    left_out: float
    unseen: float


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
    without the reading of the prompt; it is 0 for fewer than two tokens. `left_out_messages` is how
    many of the oldest messages the model was not given, because the dialog is too long for it.
    """

    prompt_tokens: int
    reused_tokens: int
    new_tokens: int
    time_to_first_token: float
    tokens_per_second: float
    left_out_messages: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of every reply. `token_ids` are without `end_id`, which ended the turn.

    For the dialog use `message()`: after a stop text the ids say more than `text` does.
    `text` is the whole text as shown; it equals the joined `Token.text` plus `tail`, the text that
    was still held back when the reply ended. A reply that was cut off within a character ends
    before it, but its ids do not: it can be continued. `options` are those that made the reply,
    each with the number of the first token that it holds for.
    """

    reason: FinishReason
    text: str
    tail: str
    token_ids: tuple[int, ...]
    seed: int
    statistics: Statistics
    end_id: int | None = None
    error: str = ""
    options: tuple[tuple[int, SamplingOptions], ...] = ()

    def message(self) -> Message:
        """The reply as a part of the dialog. After a stop text its ids say more than was shown."""
        ids = None if self.reason == "stop_text" else self.token_ids
        return Message("assistant", self.text, ids)


Event = PromptProgress | Token | Finished
