"""The list of all keys, made of the same table as the window's shortcuts."""

from itertools import groupby

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.ui.dialogs.dialog import Card, Dialog
from app.ui.keys import KEYS, Key
from app.ui.theme import UNIT

_WIDTH = 120  # characters


class KeysDialog(Dialog):
    """What every key does, one part of the program after the other."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(self.tr("Keys"), parent)
        columns = QHBoxLayout()
        columns.setSpacing(5 * UNIT)
        parts = groupby(KEYS, lambda key: key.section_title)
        pairs = [QVBoxLayout(), QVBoxLayout()]
        for number, (title, keys) in enumerate(parts):
            card = Card(close=True)
            for key in keys:
                card.add(key.text, _caps(key))
            self.add_part(title, card, column=pairs[number // 2])
        for column in pairs:
            column.setSpacing(2 * UNIT)
            column.addStretch(1)
            columns.addLayout(column, 1)
        self.column.addLayout(columns)
        self.column.addStretch(1)
        self.fit(_WIDTH)


def _caps(key: Key) -> QWidget:
    """The keys as they are printed on a keyboard."""
    caps = QWidget()
    caps.setAccessibleName(f"{key.text}: {key.native}")
    row = QHBoxLayout(caps)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(UNIT)
    for word in key.caps:
        cap = QLabel()
        cap.setTextFormat(Qt.TextFormat.PlainText)
        cap.setText(word)
        cap.setAlignment(Qt.AlignmentFlag.AlignCenter)
        cap.setProperty("role", "keycap")
        row.addWidget(cap)
    return caps
