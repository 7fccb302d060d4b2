"""Chance: a new seed for every reply, or always the same one."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

import re

from PySide6.QtCore import QEvent, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.ui.controls.panel_controls import Radio, Trouble, hint
from app.ui.theme import UNIT
from app.ui.wording import whole

GREATEST = 2**63 - 1


class SeedChoice(QWidget):
    """Two choices, a field for the number, and the seed that the last reply used."""

    changed = Signal(object)  # int, or None for a new one every time

    def __init__(self) -> None:
        super().__init__()
        self._value: int | None = None
        self._last: int | None = None
        self.label = QLabel(self.tr("Seed"))
        tip = self.tr(
            "Seed: the number that all chance in a reply comes from. With the same seed, the same "
            "model, settings and conversation give the same reply."
        )
        self.new = Radio(self.tr("New for every reply"))
        self.same = Radio(self.tr("Always the same"))
        self.field = _SeedField()
        self.field.setAccessibleName(self.tr("Seed, a whole number"))
        for widget in (self.label, self.new, self.same, self.field):
            widget.setToolTip(tip)
        self.trouble = Trouble()
        self.last = hint()
        self.last.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.fix = QPushButton(self.tr("Keep it"))
        self.fix.setProperty("role", "choice")
        self.fix.setAccessibleName(self.tr("Use the last reply’s seed for all replies"))
        self.fix.setToolTip(self.fix.accessibleName())
        self._arrange()
        self.new.clicked.connect(self._on_new)
        self.same.clicked.connect(self._on_same)
        self.field.textEdited.connect(self._on_typed)
        self.field.editingFinished.connect(self._on_left)
        self.fix.clicked.connect(self._on_fix)
        self.show_value(None)
        self.show_last(None)

    def _arrange(self) -> None:
        used = QHBoxLayout()
        used.setSpacing(2 * UNIT)
        used.addWidget(self.last, 1)
        used.addWidget(self.fix)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2 * UNIT)
        for widget in (self.label, self.new, self.same, self.field, self.trouble):
            column.addWidget(widget)
        column.addLayout(used)

    def show_value(self, seed: int | None) -> None:
        """Show `seed` without announcing it; a number that is being typed stays as it is."""
        if seed is not None and (seed != self._value or not self.field.text()):
            self.field.setText(str(seed))
        self._value = seed
        self.new.setChecked(seed is None)
        self.same.setChecked(seed is not None)
        self.field.setVisible(seed is not None)
        if seed is None:
            self.trouble.say("")

    def show_last(self, seed: int | None) -> None:
        """Show what the last reply used, if there is one."""
        self._last = seed
        words = self.tr("The last reply used %1").replace("%1", str(seed))
        self.last.setText("" if seed is None else words)
        for widget in (self.last, self.fix):
            widget.setVisible(seed is not None)

    @Slot()
    def _on_new(self) -> None:
        self._change(None)

    @Slot()
    def _on_same(self) -> None:
        if self._value is not None:
            return
        typed = _seed(self.field.text())
        self._change(typed if typed is not None else self._last or 0)
        self.field.setFocus()
        self.field.selectAll()

    @Slot()
    def _on_fix(self) -> None:
        if self._last is not None:
            self._change(self._last)

    @Slot(str)
    def _on_typed(self, text: str) -> None:
        seed = _seed(text)
        limit = self.tr("A seed is a whole number from 0 to %1.").replace("%1", whole(GREATEST))
        self.trouble.say(limit if seed is None else "")
        if seed is not None and seed != self._value:
            self._value = seed
            self.changed.emit(seed)

    @Slot()
    def _on_left(self) -> None:
        if self._value is not None:
            self.field.setText(str(self._value))
            self.trouble.say("")

    def _change(self, seed: int | None) -> None:
        self.show_value(seed)
        self.trouble.say("")
        self.changed.emit(seed)


class _SeedField(QLineEdit):
    """Esc puts back what was there before typing."""

    def event(self, event: QEvent) -> bool:
        """While something is being typed, Esc is this field's own and stops no reply."""
        override = event.type() == QEvent.Type.ShortcutOverride
        if override and event.key() == Qt.Key.Key_Escape and self.isModified():
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.isModified():
            self.setText(self._before)
            self.setModified(False)
            self.textEdited.emit(self._before)
            return
        super().keyPressEvent(event)

    def focusInEvent(self, event: QEvent) -> None:
        super().focusInEvent(event)
        self._before = self.text()
        self.setModified(False)


def _seed(text: str) -> int | None:
    """The number that is meant; separators of thousands do not matter."""
    text = text.strip()
    if not re.fullmatch(r"[0-9]{1,19}|[0-9]{1,3}(?:[\s,.'’_][0-9]{3}){1,6}", text):
        return None
    number = int(re.sub(r"[^0-9]", "", text))
    return number if number <= GREATEST else None
