"""The open branch of a chat as Markdown, to be read."""

import re
from collections.abc import Sequence
from datetime import datetime

from app.store.records import ChatRecord, MessageRecord

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)


def to_markdown(chat: ChatRecord, path: Sequence[MessageRecord]) -> str:
    """Each message under a rule and a name, its text as it was written; open fences are closed."""
    parts = [f"# {' '.join(chat.title.split()) or 'Chat'}", _day(chat.created_at)]
    if chat.system_prompt:
        parts += ["---", "**System prompt**", _whole(chat.system_prompt)]
    for message in path:
        parts += ["---", f"**{_name(message)}**"]
        if message.content.strip():
            parts.append(_whole(message.content))
        facts = _facts(message)
        if facts:
            parts.append(f"*{facts}*")
    return "\n\n".join(part for part in parts if part) + "\n"


def _name(message: MessageRecord) -> str:
    if message.role == "user":
        return "You"
    return (message.reply.model if message.reply else "") or "Reply"


def _facts(message: MessageRecord) -> str:
    reply = message.reply
    if reply is None:
        return ""
    words = []
    if reply.status == "interrupted" or reply.reason in ("stopped", "length", "context_full"):
        words.append("not complete")
    if reply.error:
        words.append(reply.error.replace("*", "\\*"))
    if reply.statistics is not None and reply.statistics.tokens_per_second > 0:
        words.append(f"{reply.statistics.tokens_per_second:.0f} tokens/s")
    if reply.seed is not None:
        words.append(f"seed {reply.seed}")
    return " · ".join(words)


def _whole(text: str) -> str:
    """The text with its last code fence closed, so that it does not swallow what follows."""
    text = text.strip("\n").encode("utf-8", "replace").decode("utf-8")
    fence = ""
    for found in _FENCE.finditer(text):
        marks, rest = found[1], found[2]
        if not fence and not (marks[0] == "`" and "`" in rest):
            fence = marks
        elif fence and marks[0] == fence[0] and len(marks) >= len(fence) and not rest.strip():
            fence = ""
    return f"{text}\n{fence}" if fence else text


def _day(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return ""
