"""How words are chosen: presets, sliders, the next token's chances, and what else there is."""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from app.ui.controls.panel_controls import Check, Disclosure, Rule, hint
from app.ui.controls.scroll_to_focus import ScrollToFocus
from app.ui.controls.system_prompt import SystemPrompt
from app.ui.panel.bars import NextTokenBars
from app.ui.panel.option_slider import OptionSlider
from app.ui.panel.option_table import MAIN, MORE, make_slider
from app.ui.panel.preset_row import PresetRow
from app.ui.panel.reply_end import LengthLimit, StopTexts
from app.ui.panel.seed_choice import SeedChoice
from app.ui.presets import Preset, samplers_of
from app.ui.states import NextToken
from app.ui.theme import UNIT, Colours
from engine.options import SamplingOptions


class SamplingPanel(QScrollArea):
    """Shows one set of options and says what the user changes in it; always a valid set."""

    options_changed = Signal(object)  # dict: the fields that changed, with their values
    system_prompt_changed = Signal(object)  # None: built-in; else the text
    presets_changed = Signal(object)  # tuple[Preset, ...], the user's own
    default_requested = Signal()  # use what is shown for new chats

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("panelScroll")
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._options = SamplingOptions()
        self._usual = SamplingOptions()
        self._next_token: NextToken | None = None
        self.sliders: dict[str, OptionSlider] = {name: make_slider(name) for name in (*MAIN, *MORE)}
        self.temperature = self.sliders["temperature"]
        self.top_p = self.sliders["top_p"]
        self.presets = PresetRow()
        self.bars = NextTokenBars()
        self.temperature_last = Check(self.tr("Temperature last"))
        self.order = hint()
        self.length = LengthLimit()
        self.seed = SeedChoice()
        self.stop_texts = StopTexts()
        self.end_loops = Check(self.tr("End replies that repeat themselves"))
        self.more = Disclosure(self.tr("More"), self._more_page())
        self.system_prompt = SystemPrompt()
        self._later = QTimer(self, singleShot=True, interval=0)  # once it has its new height
        self._later.timeout.connect(lambda: self.ensureWidgetVisible(self.system_prompt))
        self._page = QWidget(objectName="panelPage")
        self._arrange(self._page)
        self.setWidget(self._page)
        self.verticalScrollBar().rangeChanged.connect(self._on_range_changed)
        self.viewport().setAutoFillBackground(False)
        ScrollToFocus(self)
        self._connect()
        self.set_usual(self._usual)
        self._show()

    def show_options(self, options: SamplingOptions) -> None:
        """Show these without announcing them."""
        self._options = options
        self._show()

    def show_system_prompt(self, text: str | None) -> None:
        """Show a chat's system prompt: None for the built-in one."""
        self.system_prompt.show_value(text)

    def show_presets(self, own: tuple[Preset, ...]) -> None:
        """Offer these of the user's own besides the built-in ones."""
        self.presets.show_presets(own)

    def set_usual(self, options: SamplingOptions) -> None:
        """What a double-click and "Reset" go back to."""
        self._usual = options
        for name, slider in self.sliders.items():
            slider.usual = getattr(options, name)

    def show_last_seed(self, seed: int | None) -> None:
        """Show the seed that the last reply used."""
        self.seed.show_last(seed)

    def show_next_token(self, next_token: NextToken | None) -> None:
        """Show this step in the bars, under the options shown."""
        self._next_token = next_token
        self.bars.show_step(next_token, self._options)

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw in the theme's colours."""
        self.bars.recolour(colours)

    def _more_page(self) -> QWidget:
        self.temperature_last.setToolTip(
            self.tr(
                "Temperature last: unlikely words are left out before the temperature spreads the "
                "chances, so a high temperature brings in no odd words."
            )
        )
        self.end_loops.setToolTip(
            self.tr("A reply that says the same again and again is ended by itself.")
        )
        page = QWidget()
        column = _column(page)
        _fill(column, (self.sliders[name] for name in MORE))
        column.addWidget(self.temperature_last)
        column.addWidget(self.order)
        for widgets in ((self.length,), (self.stop_texts, self.end_loops), (self.seed,)):
            column.addSpacing(UNIT)
            _fill(column, widgets)
        return page

    def _arrange(self, page: QWidget) -> None:
        column = _column(page)
        self._on_range_changed()
        column.addWidget(self.presets)
        column.addSpacing(UNIT)
        _fill(column, (self.sliders[name] for name in MAIN))
        column.addWidget(Rule())
        column.addSpacing(UNIT)
        column.addWidget(self.bars)
        column.addWidget(Rule())
        column.addWidget(self.more)
        column.addWidget(Rule())
        column.addSpacing(UNIT)
        column.addWidget(self.system_prompt)
        column.addStretch()

    def _connect(self) -> None:
        named = {
            **self.sliders,
            "max_new_tokens": self.length,
            "seed": self.seed,
            "stop_texts": self.stop_texts,
        }
        for name, widget in named.items():
            widget.changed.connect(lambda value, name=name: self._change({name: value}))
        for name, check in self._checks().items():
            check.clicked.connect(lambda value, name=name: self._change({name: value}))
        self.presets.chosen.connect(lambda preset: self._change(samplers_of(preset.options)))
        self.presets.reset_requested.connect(self._reset)
        self.presets.presets_changed.connect(self.presets_changed)
        self.presets.default_requested.connect(self.default_requested)
        self.system_prompt.changed.connect(self.system_prompt_changed)
        self.system_prompt.unfolded.connect(self._later.start)

    @Slot()
    def _on_range_changed(self) -> None:
        """The scroll bar comes out of the margin, so that nothing moves when it appears."""
        bar = self.verticalScrollBar()
        taken = bar.sizeHint().width() if bar.maximum() > 0 else 0
        margins = (4 * UNIT, 4 * UNIT, max(UNIT, 4 * UNIT - taken), 5 * UNIT)
        self._page.layout().setContentsMargins(*margins)

    def _checks(self) -> dict[str, Check]:
        return {"temperature_last": self.temperature_last, "end_loops": self.end_loops}

    @Slot()
    def _reset(self) -> None:
        self._change({f.name: getattr(self._usual, f.name) for f in fields(SamplingOptions)})

    def _change(self, values: dict[str, Any]) -> None:
        """The user chose these values: show and announce those that differ."""
        changes = {n: value for n, value in values.items() if value != getattr(self._options, n)}
        self._options = replace(self._options, **changes)
        self._show()
        if changes:
            self.options_changed.emit(changes)

    def _show(self) -> None:
        options = self._options
        for name, slider in self.sliders.items():
            slider.show_value(getattr(options, name))
        for name, check in self._checks().items():
            check.setChecked(getattr(options, name))
        self.order.setText(
            self.tr("Order: penalties, top-k, top-p, min-p, then temperature.")
            if options.temperature_last
            else self.tr("Order: penalties, temperature, then top-k, top-p, min-p.")
        )
        self.length.show_value(options.max_new_tokens)
        self.stop_texts.show_value(options.stop_texts)
        self.seed.show_value(options.seed)
        self.presets.show_options(options)
        self.bars.show_step(self._next_token, options)


def _column(page: QWidget) -> QVBoxLayout:
    column = QVBoxLayout(page)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(2 * UNIT)
    return column


def _fill(column: QVBoxLayout, widgets: Iterable[QWidget]) -> None:
    for widget in widgets:
        column.addWidget(widget)
