"""One message of a dialog."""

from dataclasses import dataclass
from typing import Literal

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """`content` as typed or generated.

    `token_ids`, for a reply, are the ids it was made of (without the end-of-turn id): using them
    again instead of encoding the text anew is what lets the next turn reuse the cache.
    """

    role: Role
    content: str
    token_ids: tuple[int, ...] | None = None
