"""Tokens and their chances in a form that can be seen: spaces, line breaks and control tokens."""

import re
import unicodedata

from PySide6.QtCore import QCoreApplication

from app.ui.wording import decimal
from engine.events import Cut

_LONGEST = 48  # characters; no column is wider
_CONTROL = re.compile(r"<\|[^|]*\|>|</?(?:s|unk|pad|bos|eos|mask)>")
_MARKS = {"\n": "↵", "\t": "⇥", "\r": "←", "\N{REPLACEMENT CHARACTER}": "▯", "\u00a0": "⍽"}
# Format and control characters, halves of characters, unassigned ones, and line separators.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def _tr(text: str) -> str:
    return QCoreApplication.translate("token_text", text)


def is_control(text: str) -> bool:
    """Whether it is a token that stands for no text, such as the end of a reply."""
    return _CONTROL.fullmatch(text) is not None


def visible(text: str) -> str:
    """A token's text with a mark for all that could not be seen; control tokens in words."""
    if is_control(text):
        return {
            "<|im_end|>": _tr("end of reply"),
            "<|im_start|>": _tr("start of a message"),
            "<|endoftext|>": _tr("end of text"),
            "</s>": _tr("end of text"),
            "<s>": _tr("start of text"),
        }.get(text, text)
    if not text:
        return _tr("(no text)")
    text = text[:_LONGEST]
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - len(inner) - before
    return "␣" * before + "".join(map(_mark, inner)) + "␣" * after


def _mark(character: str) -> str:
    if character in _MARKS:
        return _MARKS[character]
    category = unicodedata.category(character)
    if category in _UNSEEN:
        return f"⟨{ord(character):X}⟩"
    # A lone accent or vowel sign would sit on whatever stands before it.
    return f"◌{character}" if category in ("Mn", "Me") else character


def percent(share: float) -> str:
    """A share of 1 with one place; never 0 or 100 for what is not quite."""
    if share <= 0:
        return _tr("0 %")
    if share >= 1:
        return _tr("100 %")
    if share < 0.001:
        return _tr("<%1 %").replace("%1", decimal(0.1, 1))
    if share >= 0.9995:
        return _tr(">%1 %").replace("%1", decimal(99.9, 1))
    return _tr("%1 %").replace("%1", decimal(100 * share, 1))


def cut_name(cut: Cut) -> str:
    """What a stage that leaves tokens out is called."""
    return {
        "temperature": _tr("temperature"),
        "top_k": _tr("top-k"),
        "top_p": _tr("top-p"),
        "min_p": _tr("min-p"),
    }[cut]
