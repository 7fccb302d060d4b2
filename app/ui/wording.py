"""Numbers and reasons in words that a newcomer understands."""

from PySide6.QtCore import QCoreApplication, QDateTime, QLocale

from app.ui.states import ModelInfo, ReplyFacts, ReplyStatus


def _tr(text: str) -> str:
    return QCoreApplication.translate("wording", text)


def _locale() -> QLocale:
    """The user's; where none is set, English, the language that the words are in."""
    locale = QLocale()
    unset = locale.language() == QLocale.Language.C
    return QLocale(QLocale.Language.English) if unset else locale


def whole(number: int) -> str:
    """A count with its thousands set apart as the user's language does."""
    return _locale().toString(number)


def decimal(number: float, places: int) -> str:
    """A number with so many places, in the user's language."""
    return _locale().toString(number, "f", places)


def day(seconds: float) -> str:
    """The day of a time since 1970, in the user's language."""
    try:
        date = QDateTime.fromSecsSinceEpoch(int(seconds)).date()
    except (OverflowError, ValueError):
        return "?"
    return _locale().toString(date, "d MMM yyyy")


def size(count: int) -> str:
    """A count of bytes, in the user's language."""
    return _locale().formattedDataSize(count, 1, QLocale.DataSizeFormat.DataSizeSIFormat)


def end_of_reply(reply: ReplyFacts) -> str:
    """Why a reply ended, in one short sentence; nothing while it runs or where it failed."""
    if reply.status is ReplyStatus.INTERRUPTED:
        return _tr("Interrupted: the program ended before the reply did")
    if reply.edited:
        return _tr("Edited by you")
    if reply.reason is None:
        return ""
    what = reply.failure.what if reply.failure else _tr("an error")
    return {
        "end_of_turn": _tr("Complete"),
        "length": _tr("Ended at the greatest length allowed"),
        "stop_text": _tr("Ended at a stop text"),
        "stopped": _tr("Stopped by you"),
        "context_full": _tr("Ended because the model’s memory is full"),
        "loop": _tr("Ended because it only repeated itself"),
        "error": _tr("Broke off: %1").replace("%1", what),
    }[reply.reason]


def cost_of_reply(reply: ReplyFacts) -> str:
    """What a reply cost, as far as there is something to say."""
    statistics = reply.statistics
    if statistics is None:
        return ""
    parts = []
    if statistics.tokens_per_second > 0:
        parts.append(speed(statistics.tokens_per_second))
    if statistics.new_tokens > 0:
        seconds = decimal(statistics.time_to_first_token, 2)
        parts.append(_tr("first word after %1 s").replace("%1", seconds))
    if statistics.reused_tokens > 0:
        parts.append(_tr("%1 tokens reused").replace("%1", whole(statistics.reused_tokens)))
    return " · ".join(parts)


def cost_explained(reply: ReplyFacts) -> str:
    """The same with the field's own terms, for a tooltip."""
    statistics = reply.statistics
    if statistics is None:
        return ""
    lines = [
        _tr("Prompt: %1 tokens, %2 of them still in the cache")
        .replace("%1", whole(statistics.prompt_tokens))
        .replace("%2", whole(statistics.reused_tokens)),
        _tr("Reply: %1 tokens").replace("%1", whole(statistics.new_tokens)),
        _tr("Time to first token: %1 s").replace("%1", decimal(statistics.time_to_first_token, 3)),
    ]
    if statistics.left_out_messages > 0:
        left_out = _tr("Left out for want of room: the %1 oldest messages")
        lines.append(left_out.replace("%1", whole(statistics.left_out_messages)))
    if reply.seed is not None:
        lines.append(_tr("Seed: %1").replace("%1", str(reply.seed)))
    return "\n".join((*lines, _tr("A token is a word or a part of one.")))


def speed(tokens_per_second: float) -> str:
    """The speed of writing."""
    places = 0 if tokens_per_second >= 10 else 1
    return _tr("%1 tokens/s").replace("%1", decimal(tokens_per_second, places))


def where_it_runs(info: ModelInfo) -> str:
    """The device and why it is this one."""
    reason = f": {info.reason}" if info.reason else ""
    return f"{info.device_label}{reason}"


def precision_explained(precision: str) -> str:
    """A precision with what it means."""
    meaning = {
        "q4": _tr("4-bit numbers, as the file has them"),
        "int8": _tr("8-bit numbers"),
        "fp32": _tr("32-bit numbers, the most exact"),
        "bf16": _tr("16-bit numbers"),
        "fp16": _tr("16-bit numbers"),
    }.get(precision, "")
    return f"{precision} – {meaning}" if meaning else precision
