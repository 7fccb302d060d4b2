"""What is read while speed is measured: a text of any length, and a growing conversation.

The sentences are alike but do not repeat, so the model is about as unsure as in ordinary prose:
how many tokens are likely decides what drawing one of them costs.
"""

import random
from collections.abc import Iterator

from engine.messages import Message
from engine.text.tokenizer import Tokenizer

REPLY_TOKENS = 433
"""Of each reply: nine of them and their questions put about 4,096 tokens before the tenth turn."""

_QUESTIONS = (
    "Tell me about the people in a small town by the sea.",
    "What happened there during the winter?",
    "Who kept the letters, and why did nobody read them?",
    "Go on with the story, but slower.",
    "How did the others take the news?",
    "Now describe the house on the hill.",
    "And what did the captain say in the end?",
    "Was there anything left to repair?",
    "Tell me the same evening as a child saw it.",
    "What did they find in the old boat?",
)
_DAYS = (
    *("One morning", "Late on Sunday", "After the rain", "In early spring", "That evening"),
    *("Before the market", "At low tide", "When the school closed", "A week later"),
)
_PEOPLE = (
    *("Agnes", "the old captain", "my neighbour", "a girl from the mill", "Tobias", "Ilse"),
    *("the baker's son", "Doctor Reyes", "our teacher", "a quiet stranger"),
)
_DEEDS = ("repaired", "hid", "painted", "counted", "sold", "forgot", "carried home", "looked for")
_THINGS = (
    *("three letters", "a broken clock", "the blue boat", "some dried apples", "a map"),
    *("the heavy lantern", "his winter coat", "two wooden chairs", "her first violin"),
)
_PLACES = (
    *("behind the church", "at the harbour", "near the lighthouse", "under the stairs"),
    *("on the frozen lake", "in the empty kitchen", "beside the railway", "up the hill"),
)
_ENDS = (
    *("and nobody asked why", "because the road was closed", "while the dogs were barking"),
    *("so the whole street came to look", "as if it had always been there", "without a word"),
    *("although it was not worth much", "until the bells began to ring"),
)


def token_ids(tokenizer: Tokenizer, count: int) -> list[int]:
    """The first `count` ids of the text; the same ones every time."""
    ids: list[int] = []
    for sentence in _sentences():
        if len(ids) >= count:
            break
        ids += tokenizer.encode(sentence)
    return ids[:count]


def conversation(tokenizer: Tokenizer, turns: int) -> list[Message]:
    """A dialog up to the question of turn `turns`; every reply has `REPLY_TOKENS` tokens."""
    ids = token_ids(tokenizer, REPLY_TOKENS * (turns - 1))
    dialog: list[Message] = []
    for turn, question in enumerate(_QUESTIONS[:turns]):
        dialog.append(Message("user", question))
        reply = ids[turn * REPLY_TOKENS : (turn + 1) * REPLY_TOKENS]
        dialog.append(Message("assistant", tokenizer.decode(reply), tuple(reply)))
    return dialog[:-1]


def _sentences() -> Iterator[str]:
    choice = random.Random(0).choice
    while True:
        day, person, deed = choice(_DAYS), choice(_PEOPLE), choice(_DEEDS)
        yield f" {day}, {person} {deed} {choice(_THINGS)} {choice(_PLACES)}, {choice(_ENDS)}."
