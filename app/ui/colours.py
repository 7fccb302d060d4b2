"""Colours and the grid of distances: the only file that names a colour."""

from dataclasses import dataclass

UNIT = 4  # px; every distance is a multiple of it
SCROLL_BAR = 3 * UNIT  # its width


@dataclass(frozen=True, slots=True)
class Colours:
    """Every colour by what it is for. Text on its ground has a contrast of at least 4.5 to 1."""

    ground: str
    panel: str  # header, side panel
    field: str  # where something is typed
    border: str
    text: str
    muted: str
    accent: str
    accent_hover: str
    on_accent: str
    question: str  # behind the user's own messages
    hover: str
    pressed: str
    chosen: str  # the row of a list that is open
    groove: str
    selection: str
    danger: str
    danger_ground: str
    notice_ground: str


LIGHT = Colours(
    ground="#ffffff",
    panel="#f7f7f8",
    field="#ffffff",
    border="#e0e1e6",
    text="#1d1f24",
    muted="#62656e",
    accent="#4a55c8",
    accent_hover="#3d47b0",
    on_accent="#ffffff",
    question="#eef0fb",
    hover="#ebecef",
    pressed="#e3e4e9",
    chosen="#e0e4fa",
    groove="#d9dbe1",
    selection="#c5cbf5",
    danger="#a8281c",
    danger_ground="#fdf0ee",
    notice_ground="#f3f4fc",
)

DARK = Colours(
    ground="#18191c",
    panel="#1e1f23",
    field="#222327",
    border="#34363d",
    text="#e7e8ec",
    muted="#a0a4ae",
    accent="#8f9bff",
    accent_hover="#a7b0ff",
    on_accent="#14151c",
    question="#2a2d42",
    hover="#2b2d33",
    pressed="#363940",
    chosen="#34385a",
    groove="#3d4048",
    selection="#434c8f",
    danger="#ff9a8e",
    danger_ground="#37211f",
    notice_ground="#25273a",
)
