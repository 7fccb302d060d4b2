"""The list of chats under headings: pinned ones, then by the day of their last use."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as time_of_day

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication, QLocale

from app.ui.states import ChatLine


@dataclass(frozen=True, slots=True)
class Heading:
    """Stands above the chats of a group, and has an `id` of its own: below 0, as no chat's is."""

    id: int
    title: str


Row = ChatLine | Heading

_RECENT = (
    QT_TRANSLATE_NOOP("groups", "Today"),
    QT_TRANSLATE_NOOP("groups", "Yesterday"),
    QT_TRANSLATE_NOOP("groups", "Previous 7 days"),
    QT_TRANSLATE_NOOP("groups", "Previous 30 days"),
)


def grouped(lines: Sequence[ChatLine], *, now: float | None = None) -> list[Row]:
    """The same chats in the same order, with a heading before each group.

    A single group of today needs none. A time to come counts as today: clocks are set back.
    """
    midnights = _midnights(_day(time.time() if now is None else now))
    rows: list[Row] = []
    headed: set[int] = set()
    for line in lines:
        key, title = _group(line, midnights)
        if key not in headed:
            headed.add(key)
            rows.append(Heading(-2 - key, title))
        rows.append(line)
    return list(lines) if headed == {0} else rows


def _group(line: ChatLine, midnights: list[float]) -> tuple[int, str]:
    if line.pinned:
        return -1, _tr("Pinned")
    for number, (midnight, name) in enumerate(zip(midnights, _RECENT, strict=True)):
        if line.updated_at >= midnight:
            return number, _tr(name)
    day = _day(line.updated_at)
    if day.year == _day(midnights[0]).year:
        return 100 - day.month, QLocale().standaloneMonthName(day.month)
    return 10_000 - day.year, str(day.year)


def _midnights(today: date) -> list[float]:
    """When today began, yesterday, the week before and the month before that."""
    days = (today - timedelta(days=ago) for ago in (0, 1, 7, 30))
    return [datetime.combine(day, time_of_day()).timestamp() for day in days]


# Python's dates, not Qt's: all chats are grouped whenever one changes, and these are faster.
def _day(seconds: float) -> date:
    try:
        return date.fromtimestamp(seconds)
    except (OverflowError, ValueError, OSError):
        return date(1970, 1, 1)


def _tr(text: str) -> str:
    return QCoreApplication.translate("groups", text)
