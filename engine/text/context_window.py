"""What of a dialog the model is given, so that a reply still fits: whole oldest turns are left out.

Invariant: what is left out of a dialog is left out of every dialog that goes on from it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from engine.errors import PromptTooLongError
from engine.messages import Message
from engine.text.chat_template import ChatTemplate
from engine.text.tokenizer import Tokenizer

_LARGEST_ROOM = 1024  # tokens
_COUNTS_KEPT = 8192  # messages
_QUESTION, _ANSWER = Message("user", "x"), Message("assistant", "x")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The ids of a dialog, up to where its reply begins or goes on.

    `begun` are the last of them for a dialog that ends with a reply: the ids of that reply.
    """

    ids: list[int]
    begun: Sequence[int]
    left_out_messages: int


class ContextWindow:
    """Makes prompts for a model that can remember `context_length` tokens.

    An eighth of these, at most 1,024, is kept free for the reply. Thread-safe.
    """

    def __init__(
        self, template: ChatTemplate, tokenizer: Tokenizer, *, context_length: int
    ) -> None:
        self._template = template
        self._tokenizer = tokenizer
        self._context_length = context_length
        self._longest_text = context_length * tokenizer.longest_token  # in characters
        self.limit = context_length - min(context_length // 8, _LARGEST_ROOM)
        """The longest prompt of which nothing is left out, in tokens."""
        self._count = lru_cache(_COUNTS_KEPT)(self._count_tokens)

    def prompt(self, messages: Sequence[Message]) -> Prompt:
        """What the model reads: the system message, the last turn and what fits before it.

        Raises TemplateError, and PromptTooLongError if these two alone cannot fit however they are
        cut into tokens: cutting megabytes takes seconds. They may still be too many tokens.
        """
        system = [message for message in messages[:1] if message.role == "system"]
        turns = messages[len(system) :]
        self._check_characters([*system, *turns[_last_turn(turns) :]])
        costs = [self._cost(message) for message in turns]
        first = first_kept(turns, costs, room=self.limit - self._frame(system))
        kept = [*system, *turns[first:]]
        begun: Sequence[int] = ()
        if kept and kept[-1].role == "assistant":
            reply = kept.pop()
            begun = reply.token_ids or self._tokenizer.encode(reply.content)
        return Prompt([*self._encode(kept), *begun], begun, left_out_messages=first)

    def count_tokens(self, text: str) -> int:
        """How many tokens a text is."""
        return len(self._tokenizer.encode(text))

    def count_frame(self, system_prompt: str | None) -> int:
        """How many tokens of a prompt belong to no turn; None: with the template's own words."""
        system = [] if system_prompt is None else [Message("system", system_prompt)]
        return self._frame(system)

    def _check_characters(self, messages: Sequence[Message]) -> None:
        length = sum(len(message.content) for message in messages)
        if length > self._longest_text:
            raise PromptTooLongError(
                f"This is {length:,} characters long, far more than the {self._context_length:,} "
                "tokens that the model can remember.",
                "Shorten it, or start a new chat.",
            )

    def _frame(self, system: Sequence[Message]) -> int:
        return len(self._encode([*system, _QUESTION])) - self._cost(_QUESTION)

    def _cost(self, message: Message) -> int:
        """How many tokens a message takes; what stands around a reply counts to its question."""
        said = len(message.token_ids) if message.token_ids else self._count(message.content)
        return said + self._around_turn if message.role == "user" else said

    @cached_property
    def _around_turn(self) -> int:
        """How many tokens the template puts around a question and its reply."""
        longer = len(self._encode([_QUESTION, _ANSWER, _QUESTION])) - len(self._encode([_QUESTION]))
        return longer - self._count(_QUESTION.content) - self._count(_ANSWER.content)

    def _count_tokens(self, text: str) -> int:
        if len(text) > self._longest_text:
            return self._context_length  # more than there is room for, which is all that matters
        return self.count_tokens(text)

    def _encode(self, messages: Sequence[Message]) -> list[int]:
        return self._template.encode(messages, self._tokenizer)


def first_kept(messages: Sequence[Message], costs: Sequence[int], *, room: int) -> int:
    """Where the oldest turn begins that is kept when the dialog must fit into `room` tokens.

    A turn is a user's message with what follows it; `costs` are the messages' tokens. It is as if
    the dialog grew from its first message on: each time it no longer fits, the oldest turns go,
    down to half of the room. So in the many turns until the next time the prompt only grows, and
    its beginning need not be read again. The last turn stays even if it does not fit.
    """
    first, length = 0, 0
    later_turns: deque[int] = deque()
    for index, message in enumerate(messages):
        if message.role == "user" and index > 0:
            later_turns.append(index)
        length += costs[index]
        if length <= room:
            continue
        while later_turns and length > room // 2:
            length -= sum(costs[first : later_turns[0]])
            first = later_turns.popleft()
    return first


def _last_turn(messages: Sequence[Message]) -> int:
    """Where the last turn begins."""
    users = (index for index, message in enumerate(messages) if message.role == "user")
    return max(users, default=0)
