"""The side panel: how words are chosen, and what chooses them."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

import math

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QFont, QMouseEvent, QValidator
from PySide6.QtWidgets import (
    QButtonGroup,
    QDoubleSpinBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSlider,
    QStyle,
    QStyleOptionSlider,
    QVBoxLayout,
    QWidget,
)

from app.ui.states import ModelInfo
from app.ui.theme import UNIT, scaled_font
from app.ui.wording import precision_explained, where_it_runs, whole

_STEPS = 100  # of a slider, for each 1.0
PANEL_WIDTH = 72 * UNIT


class SamplingPanel(QFrame):
    """Sliders for temperature and top-p, the model and the appearance."""

    option_changed = Signal(str, float)
    theme_chosen = Signal(str)

    def __init__(self, ranges: dict[str, tuple[float, float]], parent: QWidget | None = None):
        super().__init__(parent)
        self.setObjectName("sidePanel")
        self.setFixedWidth(PANEL_WIDTH)
        self.temperature = OptionSlider(
            self.tr("Temperature"),
            self.tr("Low keeps to the likeliest words, high is more surprising."),
            self.tr(
                "Temperature: how freely each next word is chosen. At 0 it is always the "
                "likeliest one.\nDouble-click to go back to the usual value."
            ),
            ranges["temperature"],
        )
        self.top_p = OptionSlider(
            self.tr("Top-p"),
            self.tr("Lower leaves out unlikely words, 1 leaves out none."),
            self.tr(
                "Top-p (nucleus sampling): only the likeliest words that together reach this "
                "share of all chances can be chosen.\nDouble-click to go back to the usual value."
            ),
            ranges["top_p"],
        )
        self.temperature.changed.connect(lambda v: self.option_changed.emit("temperature", v))
        self.top_p.changed.connect(lambda v: self.option_changed.emit("top_p", v))
        self.model = _ModelFacts()
        self.theme = _ThemeChoice()
        self.theme.chosen.connect(self.theme_chosen)
        page = QWidget(objectName="panelPage")
        column = QVBoxLayout(page)
        column.setContentsMargins(5 * UNIT, 5 * UNIT, 5 * UNIT, 5 * UNIT)
        column.setSpacing(3 * UNIT)
        for title, widgets in (
            (self.tr("How words are chosen"), (self.temperature, self.top_p)),
            (self.tr("Model"), (self.model,)),
            (self.tr("Appearance"), (self.theme,)),
        ):
            column.addWidget(_heading(title))
            for widget in widgets:
                column.addWidget(widget)
            column.addSpacing(4 * UNIT)
        column.addStretch()
        scroll = QScrollArea(objectName="panelScroll")
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(page)
        scroll.viewport().setAutoFillBackground(False)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scroll)

    def show_values(self, *, temperature: float, top_p: float, theme: str) -> None:
        """Show these values without announcing them as a change."""
        self.temperature.show_value(temperature)
        self.top_p.show_value(top_p)
        self.theme.show_choice(theme)

    def set_usual_values(self, *, temperature: float, top_p: float) -> None:
        """What a double-click goes back to."""
        self.temperature.usual = temperature
        self.top_p.usual = top_p


class OptionSlider(QWidget):
    """One number on a slider and in a box, with a sentence on what it does."""

    changed = Signal(float)

    def __init__(self, name: str, hint: str, tip: str, limits: tuple[float, float]) -> None:
        super().__init__()
        low, high = limits
        self.usual = low
        self.label = _Label(name)
        self.slider = _Slider()
        self.slider.setRange(round(low * _STEPS), round(high * _STEPS))
        self.slider.setSingleStep(1)
        self.slider.setPageStep(10)
        self.slider.setAccessibleName(name)
        self.slider.setAccessibleDescription(hint)
        self.box = _NumberBox()
        self.box.setRange(low, high)
        self.box.setDecimals(2)
        self.box.setSingleStep(0.05)
        # The style sheet makes the arrows nothing wide: without arrows Qt hides the number, too.
        self.box.lineEdit().setTextMargins(2 * UNIT, 0, 2 * UNIT, 0)
        self.box.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.box.setKeyboardTracking(False)
        self.box.setMinimumWidth(15 * UNIT)
        self.box.setAccessibleName(self.tr("%1, as a number").replace("%1", name))
        self.label.setBuddy(self.slider)
        words = QLabel(hint)
        words.setWordWrap(True)
        words.setProperty("role", "muted")
        words.setFont(scaled_font(self.font(), 0.9))
        for widget in (self.label, self.slider, self.box, words):
            widget.setToolTip(tip)
        top = QHBoxLayout()
        top.addWidget(self.label)
        top.addStretch()
        top.addWidget(self.box)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(UNIT)
        column.addLayout(top)
        column.addWidget(self.slider)
        column.addWidget(words)
        self.slider.valueChanged.connect(self._on_slid)
        self.box.valueChanged.connect(self._on_typed)
        for widget in (self.slider, self.label):
            widget.reset_requested.connect(self._reset)

    def show_value(self, value: float) -> None:
        """Show `value` without announcing it."""
        for widget, shown in ((self.slider, round(value * _STEPS)), (self.box, value)):
            widget.blockSignals(True)
            widget.setValue(shown)
            widget.blockSignals(False)

    @Slot(int)
    def _on_slid(self, steps: int) -> None:
        self.show_value(steps / _STEPS)
        self.changed.emit(steps / _STEPS)

    @Slot(float)
    def _on_typed(self, value: float) -> None:
        self.show_value(value)
        self.changed.emit(value)

    @Slot()
    def _reset(self) -> None:
        self.show_value(self.usual)
        self.changed.emit(self.usual)


class _NumberBox(QDoubleSpinBox):
    """Takes a number however it is written, with a comma too; nothing typed is ever swallowed.

    What is no number leaves the value as it was; what is too large or small becomes the limit.
    """

    def validate(self, text: str, position: int) -> object:
        number = self._number(text) is not None
        state = QValidator.State.Acceptable if number else QValidator.State.Intermediate
        return state, text, position

    def valueFromText(self, text: str) -> float:
        number = self._number(text)
        return self.value() if number is None else min(max(number, self.minimum()), self.maximum())

    def fixup(self, _text: str) -> str:
        return self.textFromValue(self.value())

    @staticmethod
    def _number(text: str) -> float | None:
        try:
            number = float(text.strip().replace(",", "."))
        except ValueError:
            return None
        return number if math.isfinite(number) else None


class _Slider(QSlider):
    """Goes to where it is pressed, as people expect; a double-click resets."""

    reset_requested = Signal()

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # not by the wheel: that is for scrolling

    def mousePressEvent(self, event: QMouseEvent) -> None:
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
        self.reset_requested.emit()

    def wheelEvent(self, event: object) -> None:
        event.ignore()


class _Label(QLabel):
    reset_requested = Signal()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.reset_requested.emit()


class _ThemeChoice(QWidget):
    """As the system, light or dark: one of three buttons is down."""

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.buttons = {}
        group = QButtonGroup(self)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(UNIT)
        for name, label in (
            ("system", self.tr("System")),
            ("light", self.tr("Light")),
            ("dark", self.tr("Dark")),
        ):
            button = QPushButton(label)
            button.setProperty("role", "choice")
            button.setCheckable(True)
            button.setAccessibleName(self.tr("Appearance: %1").replace("%1", label))
            button.clicked.connect(lambda _=False, name=name: self.chosen.emit(name))
            group.addButton(button)
            row.addWidget(button, 1)
            self.buttons[name] = button

    def show_choice(self, name: str) -> None:
        """Show which one holds."""
        self.buttons[name].setChecked(True)


class _ModelFacts(QWidget):
    """Name, device with its reason, and precision of the model, in words."""

    def __init__(self) -> None:
        super().__init__()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(UNIT)
        self.lines = []
        for role in ("", "muted", "muted", "muted"):
            line = QLabel()
            line.setWordWrap(True)
            line.setTextFormat(Qt.TextFormat.PlainText)
            line.setProperty("role", role)
            self._column.addWidget(line)
            self.lines.append(line)
        self._say(self.tr("No model is loaded yet."))

    @Slot(object)
    def show_model(self, info: ModelInfo) -> None:
        """Show what is loaded."""
        threads = self.tr("Threads: %1").replace("%1", whole(info.threads))
        self._say(info.name, where_it_runs(info), precision_explained(info.precision), threads)

    def _say(self, *words: str) -> None:
        for number, line in enumerate(self.lines):
            line.setVisible(number < len(words))
            line.setText(words[number] if number < len(words) else "")


def _heading(text: str) -> QLabel:
    heading = QLabel(text)
    heading.setFont(scaled_font(heading.font(), 1.0, weight=QFont.Weight.DemiBold))
    return heading
