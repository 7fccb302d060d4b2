"""The list of chats under headings: pinned ones, then by the day of their last use."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication, QDate, QDateTime, QLocale

from app.ui.states import ChatLine


@dataclass(frozen=True, slots=True)
class Heading:
    """Stands above the chats of a group, and has an `id` of its own: below 0, as no chat's is."""

    id: int
    title: str


Row = ChatLine | Heading


def grouped(lines: Sequence[ChatLine], *, now: float | None = None) -> list[Row]:
    """The same chats in the same order, with a heading before each group.

    A single group of today needs none. A time to come counts as today: clocks are set back.
    """
    today = _day(time.time() if now is None else now)
    rows: list[Row] = []
    headed: set[int] = set()
    for line in lines:
        key, title = _group(line, today)
        if key not in headed:
            headed.add(key)
            rows.append(Heading(-2 - key, title))
        rows.append(line)
    return list(lines) if headed == {0} else rows


def _group(line: ChatLine, today: QDate) -> tuple[int, str]:
    if line.pinned:
        return -1, _tr("Pinned")
    day = _day(line.updated_at)
    age = day.daysTo(today)
    if age <= 0:
        return 0, _tr("Today")
    if age == 1:
        return 1, _tr("Yesterday")
    if age <= 7:
        return 2, _tr("Previous 7 days")
    if age <= 30:
        return 3, _tr("Previous 30 days")
    if day.year() == today.year():
        return 100 - day.month(), QLocale().standaloneMonthName(day.month())
    return 10_000 - day.year(), str(day.year())


def _day(seconds: float) -> QDate:
    try:
        return QDateTime.fromSecsSinceEpoch(int(seconds)).date()
    except (OverflowError, ValueError):
        return QDate(1970, 1, 1)


def _tr(text: str) -> str:
    return QCoreApplication.translate("groups", text)
