"""The state of one reply while it is written: what has come, when, and under which options."""

import secrets
import time
from dataclasses import dataclass, field
from threading import Event as CancelEvent

from engine.events import Statistics
from engine.options import LiveOptions, SamplingOptions


@dataclass
class ReplyRun:
    """`prompt_ids` are read first; `top` asks for that many raw logits a token."""

    prompt_ids: list[int]
    options: LiveOptions = field(default_factory=lambda: LiveOptions(SamplingOptions()))
    cancel: CancelEvent = field(default_factory=CancelEvent)
    top: int = 0
    left_out_messages: int = 0
    ids: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    end_id: int | None = None
    reused: int = 0
    error: str = ""
    started: float = field(default_factory=time.perf_counter)
    first_at: float = 0.0
    last_at: float = 0.0
    sampled: int = 0
    made_with: list[tuple[int, SamplingOptions]] = field(default_factory=list)

    def __post_init__(self) -> None:
        seed = self.options.current.seed
        self.seed = secrets.randbits(32) if seed is None else seed
        self.context = list(self.prompt_ids)  # prompt and reply, for penalties that look back

    def add(self, token_id: int, piece: str) -> None:
        """A token of the reply, and the text that became certain with it."""
        self.ids.append(token_id)
        self.context.append(token_id)
        self.pieces.append(piece)

    def count_token(self, options: SamplingOptions) -> None:
        """One more was drawn, under these options; the one that ends the turn counts, too."""
        if not self.made_with or self.made_with[-1][1] != options:
            self.made_with.append((len(self.ids), options))
        self.last_at = time.perf_counter()
        self.first_at = self.first_at or self.last_at
        self.sampled += 1

    def statistics(self) -> Statistics:
        """What the reply cost so far."""
        writing = self.last_at - self.first_at
        return Statistics(
            prompt_tokens=len(self.prompt_ids),
            reused_tokens=self.reused,
            new_tokens=len(self.ids),
            time_to_first_token=max(0.0, self.first_at - self.started) if self.sampled else 0.0,
            tokens_per_second=(self.sampled - 1) / writing if self.sampled > 1 else 0.0,
            left_out_messages=self.left_out_messages,
        )
