"""What came in with an import, and what did not."""

from collections import Counter
from dataclasses import dataclass, field

from engine.errors import EngineError


class TransferError(EngineError):
    """A file cannot be read or written; says where the fault is, and what to do."""


@dataclass(slots=True)
class Report:
    """Counts of what an import found. `left_out` has kinds of things in plain words, plural."""

    chats: int = 0
    messages: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)  # one for each chat that could not be read

    def sentences(self) -> list[str]:
        """The same in words for people."""
        chats = "1 chat" if self.chats == 1 else f"{self.chats:,} chats"
        messages = "1 message" if self.messages == 1 else f"{self.messages:,} messages"
        said = [f"{chats} with {messages} came in."]
        if self.left_out:
            kinds = ", ".join(
                f"{kind} ({count:,})" for kind, count in sorted(self.left_out.items())
            )
            said.append(f"Left out: {kinds}.")
        return said + self.problems
