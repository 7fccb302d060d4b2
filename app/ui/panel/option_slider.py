"""One number on a slider and in a box: name and box above, slider below."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

import math
import re
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QValidator, QWheelEvent
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QHBoxLayout,
    QLabel,
    QSlider,
    QStyle,
    QStyleOptionSlider,
    QVBoxLayout,
    QWidget,
)

from app.ui.theme import UNIT

_STEPS = 100  # of a slider, for each 1.0
_GROUPED = re.compile(r"[+-]?\d{1,3}([., \u00a0\u202f'’])\d{3}(\1\d{3})*")


@dataclass(frozen=True, slots=True)
class Scale:
    """What a slider reaches and what its box takes.

    `reach` is the slider's end where the box takes more than a slider could show well; at `off` the
    option does nothing, and the box says so in place of a number.
    """

    low: float
    high: float
    reach: float | None = None
    off: float | None = None

    @property
    def whole(self) -> bool:
        """Whether only whole numbers make sense."""
        return isinstance(self.low, int)

    @property
    def steps(self) -> int:
        """How many steps of the slider make 1."""
        return 1 if self.whole else _STEPS


class OptionSlider(QWidget):
    """A slider and a number box that always agree; a double-click goes back to the usual value."""

    changed = Signal(object)  # int for whole numbers, else float

    def __init__(self, name: str, hint: str, tip: str, scale: Scale) -> None:
        super().__init__()
        self.scale = scale
        self.usual = scale.low
        self.label = Label(name)
        self.slider = Slider()
        self.slider.setRange(
            round(scale.low * scale.steps), round((scale.reach or scale.high) * scale.steps)
        )
        if scale.low < 0:  # nought is in the middle: a track filled from the left would mislead
            self.slider.setProperty("role", "signed")
        self.slider.setSingleStep(1)
        self.slider.setPageStep(10)
        self.slider.setAccessibleName(name)
        self.slider.setAccessibleDescription(hint)
        self.box = NumberBox(scale)
        self.box.setAccessibleName(self.tr("%1, as a number").replace("%1", name))
        self.box.setAccessibleDescription(hint)
        self.label.setBuddy(self.slider)
        again = self.tr("Double-click to go back to the usual value.")
        for widget in (self.label, self.slider, self.box):
            widget.setToolTip(f"{tip}\n{again}")
        top = QHBoxLayout()
        top.setSpacing(2 * UNIT)
        top.addWidget(self.label, 1)
        top.addWidget(self.box)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(top)
        column.addWidget(self.slider)
        self.slider.valueChanged.connect(self._on_slid)
        self.box.valueChanged.connect(self._on_typed)
        for widget in (self.slider, self.label):
            widget.reset_requested.connect(self._reset)

    def show_value(self, value: float) -> None:
        """Show `value` without announcing it; beyond the slider's reach the box still shows it."""
        for widget, shown in ((self.slider, round(value * self.scale.steps)), (self.box, value)):
            blocked = widget.blockSignals(True)
            widget.setValue(shown)
            widget.blockSignals(blocked)

    @Slot(int)
    def _on_slid(self, steps: int) -> None:
        self._change(steps / self.scale.steps)

    @Slot(float)
    def _on_typed(self, value: float) -> None:
        self._change(value)

    @Slot()
    def _reset(self) -> None:
        self._change(self.usual)

    def _change(self, value: float) -> None:
        self.show_value(value)
        self.changed.emit(round(value) if self.scale.whole else float(value))


class NumberBox(QDoubleSpinBox):
    """Takes a number however it is written, with a comma too; nothing typed is ever swallowed.

    What is no number leaves the value as it was; what is too large or small becomes the limit.
    """

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self._scale = scale
        self._whole = scale.whole
        self.setDecimals(0 if scale.whole else 3)
        self.setRange(scale.low, scale.high)
        self.setSingleStep(1 if scale.whole else 0.05)
        # The style sheet makes the arrows nothing wide: without arrows Qt hides the number, too.
        self.lineEdit().setTextMargins(2 * UNIT, 0, 2 * UNIT, 0)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setKeyboardTracking(False)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # not by the wheel: that is for scrolling

    def sizeHint(self) -> QSize:
        """All boxes are equally wide, so that they stand in line."""
        width = self.fontMetrics().horizontalAdvance("0000000") + 6 * UNIT
        return QSize(width, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """The same."""
        return self.sizeHint()

    def validate(self, text: str, position: int) -> object:
        """Let everything be typed; only a number (or the word for off) is taken."""
        known = self._number(text) is not None
        state = QValidator.State.Acceptable if known else QValidator.State.Intermediate
        return state, text, position

    def valueFromText(self, text: str) -> float:
        """The number that is meant, within the limits; what there was, if none is."""
        number = self._number(text)
        return self.value() if number is None else min(max(number, self.minimum()), self.maximum())

    def textFromValue(self, value: float) -> str:
        """Two places, three where they are needed; a word where the option does nothing."""
        if self._scale.off is not None and value == self._scale.off:
            return self.tr("off")
        if self._whole:
            return str(round(value))  # without separators: one of them is some people's comma
        places = 2 if round(value, 2) == round(value, 3) else 3
        return self.locale().toString(value, "f", places)

    def fixup(self, _text: str) -> str:
        """Nonsense gives way to the value that still holds."""
        return self.textFromValue(self.value())

    def event(self, event: QEvent) -> bool:
        """While something is being typed, Esc is the box's own and stops no reply."""
        escape = event.type() == QEvent.Type.ShortcutOverride and event.key() == Qt.Key.Key_Escape
        if escape and self._typing():
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Esc puts back what was there before typing."""
        if event.key() == Qt.Key.Key_Escape and self._typing():
            self.lineEdit().setText(self.textFromValue(self.value()))
            self.selectAll()
            return
        super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Select all, by mouse too: one types a new number rather than into the old one."""
        super().focusInEvent(event)
        if event.reason() == Qt.FocusReason.MouseFocusReason:
            QTimer.singleShot(0, self, self.selectAll)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolls the panel."""
        event.ignore()

    def _typing(self) -> bool:
        return self.lineEdit().text() != self.textFromValue(self.value())

    def _number(self, text: str) -> float | None:
        text = text.strip().replace("−", "-")
        if self._scale.off is not None and text.casefold() == self.tr("off").casefold():
            return self._scale.off
        if self._whole and _GROUPED.fullmatch(text):
            text = re.sub(r"[^\d+-]", "", text)
        try:
            number = float(text.replace(",", "."))
        except ValueError:
            return None
        return number if math.isfinite(number) else None


class Slider(QSlider):
    """Goes to where it is pressed, as people expect; a double-click resets."""

    reset_requested = Signal()

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # not by the wheel: that is for scrolling

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Jump to the place that was pressed, and be dragged on from there."""
        option = QStyleOptionSlider()
        self.initStyleOption(option)
        handle = self.style().subControlRect(
            QStyle.ComplexControl.CC_Slider, option, QStyle.SubControl.SC_SliderHandle, self
        )
        place = event.position().toPoint()
        if event.button() == Qt.MouseButton.LeftButton and not handle.contains(place):
            width = handle.width()
            self.setValue(
                QStyle.sliderValueFromPosition(
                    self.minimum(), self.maximum(), place.x() - width // 2, self.width() - width
                )
            )
        super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Ask for the usual value."""
        self.reset_requested.emit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolls the panel."""
        event.ignore()


class Label(QLabel):
    """A name that can be double-clicked."""

    reset_requested = Signal()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Ask for the usual value."""
        self.reset_requested.emit()
