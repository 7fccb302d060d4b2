"""Where each message of a conversation lies: numbers only, no widgets."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from app.ui.theme import UNIT

_ABOVE = 6 * UNIT  # the first message, and below the last
_GAP = 5 * UNIT
_NEAR_THE_END = 8  # px


class Column:
    """Messages one below the other, some heights learnt and others estimated.

    Invariant: whatever is learnt of the heights, the first message in sight stays where it is;
    unless the end is followed, which then stays in sight.
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.heights: list[int] = []
        self.following = True
        self._places: dict[int, int] = {}
        self._first = 0  # the id of the first message in sight,
        self._hidden = 0  # and how much of it is above the view
        self._tops: list[int] | None = None

    def show(self, ids: Sequence[int], heights: Sequence[int]) -> None:
        """Hold these messages from now on."""
        self.ids, self.heights = list(ids), list(heights)
        self._places = {message_id: place for place, message_id in enumerate(ids)}
        self._tops = None

    def __contains__(self, message_id: int) -> bool:
        return message_id in self._places

    def place(self, message_id: int) -> int:
        """The message's number in the column, from 0."""
        return self._places[message_id]

    def learn(self, place: int, height: int) -> bool:
        """That message is so tall; whether that is news."""
        if self.heights[place] == height:
            return False
        self.heights[place] = height
        self._tops = None
        return True

    def top(self, place: int) -> int:
        """Where that message begins."""
        return self._all_tops()[place]

    @property
    def height(self) -> int:
        """Of all messages, with the room above the first and below the last."""
        return self._all_tops()[-1] - _GAP + _ABOVE

    def offset(self, room: int) -> int:
        """How much lies above a view that is `room` px high."""
        greatest = max(0, self.height - room)
        if self.following:
            return greatest
        place = self._places.get(self._first, len(self.ids) - 1)
        return min(greatest, max(0, self.top(place) + self._hidden))

    def near(self, offset: int, room: int) -> range:
        """The numbers of the messages in sight, or within half a view of it.

        What comes into sight by scrolling must have been there before: learnt only then, a height
        would move what is looked at.
        """
        tops = self._all_tops()
        first = max(0, bisect_right(tops, offset - room // 2) - 1)
        last = min(len(self.ids), bisect_right(tops, offset + room + room // 2))
        return range(first, last)

    def scroll_to(self, offset: int, room: int) -> None:
        """The user wants that much above the view."""
        place = max(0, bisect_right(self._all_tops(), offset) - 1)
        place = min(place, len(self.ids) - 1)
        self._first, self._hidden = self.ids[place], offset - self.top(place)
        self.following = offset >= max(0, self.height - room) - _NEAR_THE_END

    def _all_tops(self) -> list[int]:
        """Where each message begins, and where the one after the last would."""
        if self._tops is None:
            step = accumulate(self.heights, lambda y, height: y + height + _GAP, initial=_ABOVE)
            self._tops = list(step)
        return self._tops
