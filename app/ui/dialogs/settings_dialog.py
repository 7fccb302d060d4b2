"""The settings: appearance, new chats, the model, and where everything lies."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from typing import Protocol

from PySide6.QtCore import QEvent, Signal, Slot
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from app.ui.controls.choice import Choice
from app.ui.controls.system_prompt import SystemPrompt
from app.ui.dialogs.dialog import Card, Dialog, plain_label
from app.ui.dialogs.folder_row import FolderRow
from app.ui.icons import icon, icon_size
from app.ui.presets import USUAL
from app.ui.states import ModelInfo, Place
from app.ui.theme import UNIT, ZOOMS, Colours, zoom_beside
from app.ui.wording import decimal, precision_explained, where_it_runs, whole
from engine.options import SamplingOptions

_WIDTH = 104  # characters


class ShownSettings(Protocol):
    """What the dialog shows; `app.settings.Settings` is such a value."""

    @property
    def theme(self) -> str:
        """As the command line names it."""
        ...

    @property
    def zoom(self) -> int:
        """Per cent."""
        ...

    @property
    def device(self) -> str:
        """As the command line names it."""
        ...

    @property
    def precision(self) -> str:
        """As the command line names it."""
        ...

    @property
    def suggest_titles(self) -> bool:
        """Whether the model finds the titles of chats."""
        ...

    @property
    def quiet(self) -> bool:
        """Whether half of the processor is left to other programs."""
        ...

    @property
    def system_prompt(self) -> str | None:
        """Of new chats."""
        ...

    @property
    def options(self) -> SamplingOptions:
        """Of new chats."""
        ...


class SettingsDialog(Dialog):
    """Shows settings and announces every change at once."""

    theme_chosen = Signal(str)
    zoom_chosen = Signal(int)
    device_chosen = Signal(str)
    precision_chosen = Signal(str)
    quiet_chosen = Signal(bool)
    titles_chosen = Signal(bool)
    system_prompt_changed = Signal(object)  # None: the model's own; "": empty; else one's own
    usual_options_requested = Signal()

    def __init__(
        self,
        settings: ShownSettings,
        model: ModelInfo | None,
        places: tuple[Place, ...],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(self.tr("Settings"), parent)
        self._add_appearance()
        self._add_new_chats()
        self._add_model()
        self._add_places(places)
        self.column.addStretch(1)
        self.show_settings(settings)
        self.show_model(model)
        self.fit(_WIDTH)

    @Slot(object)
    def show_settings(self, settings: ShownSettings) -> None:
        """Show these values without announcing them."""
        self.theme.show_choice(settings.theme)
        self.zoom.show_zoom(settings.zoom)
        self.device.show_choice(settings.device)
        self.precision.show_choice(settings.precision)
        self.effort.show_choice("quiet" if settings.quiet else "full")
        self.titles.show_choice("model" if settings.suggest_titles else "line")
        self.prompt.show_value(settings.system_prompt)
        self.options.setText(options_in_words(settings.options))
        self.usual.setEnabled(settings.options != USUAL)

    @Slot(object)
    def show_model(self, info: ModelInfo | None) -> None:
        """Say what is in use now, and why."""
        if info is None:
            self.in_use.setText(self.tr("No model is loaded."))
            return
        words = (info.name, where_it_runs(info), precision_explained(info.precision))
        self.in_use.setText("\n".join(words))

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw the icons anew in the theme's colours."""
        for row in self.folders:
            row.recolour(colours)
        self.zoom.recolour(colours)

    def _add_appearance(self) -> None:
        self.theme = Choice(
            self.tr("Colours"),
            (
                ("system", self.tr("System")),
                ("light", self.tr("Light")),
                ("dark", self.tr("Dark")),
            ),
        )
        self.theme.chosen.connect(self.theme_chosen)
        self.zoom = _Zoom()
        self.zoom.chosen.connect(self.zoom_chosen)
        card = Card()
        card.add(self.tr("Colours"), self.theme)
        card.add(self.tr("Size of text"), self.zoom)
        self.add_part(self.tr("Appearance"), card)

    def _add_new_chats(self) -> None:
        self.options = plain_label("", muted=True)
        self.usual = QPushButton(self.tr("Use the usual values"))
        self.usual.setAutoDefault(False)
        self.usual.clicked.connect(self.usual_options_requested)
        self.prompt = SystemPrompt()
        self.prompt.changed.connect(self.system_prompt_changed)
        card = Card()
        card.add(self.tr("How words are chosen"), self.usual, hint=self.options)
        card.add_whole(self.prompt)
        self.titles = Choice(
            self.tr("Titles"),
            (("line", self.tr("First line")), ("model", self.tr("By the model"))),
        )
        self.titles.chosen.connect(lambda chosen: self.titles_chosen.emit(chosen == "model"))
        when = self.tr("A model finds a title after the first reply, when it has nothing to do.")
        card.add(self.tr("Titles"), self.titles, hint=plain_label(when, muted=True))
        self.add_part(self.tr("New chats"), card)

    def _add_model(self) -> None:
        automatic = ("auto", self.tr("Automatic"))
        self.device = Choice(
            self.tr("Runs on"),
            (automatic, ("cpu", "CPU"), ("cuda", "CUDA"), ("mps", "MPS")),
        )
        self.device.chosen.connect(self.device_chosen)
        self.precision = Choice(
            self.tr("Precision"),
            (automatic, *((name, name) for name in ("q4", "int8", "bf16", "fp16", "fp32"))),
        )
        for name in ("q4", "int8", "bf16", "fp16", "fp32"):
            self.precision.buttons[name].setToolTip(precision_explained(name))
        self.precision.chosen.connect(self.precision_chosen)
        self.effort = Choice(
            self.tr("Processor"), (("full", self.tr("All of it")), ("quiet", self.tr("Half of it")))
        )
        self.effort.chosen.connect(lambda effort: self.quiet_chosen.emit(effort == "quiet"))
        self.in_use = plain_label("", muted=True)
        card = Card()
        card.add(self.tr("In use now"), hint=self.in_use)
        card.add(self.tr("Runs on"), self.device)
        card.add(self.tr("Precision"), self.precision)
        keeps = self.tr("Half leaves other programs, and the fan, in peace.")
        card.add(self.tr("Processor"), self.effort, hint=plain_label(keeps, muted=True))
        self.add_part(self.tr("Model"), card)
        later = self.tr("These take effect at the next start.")
        self.column.addWidget(plain_label(later, muted=True))

    def _add_places(self, places: tuple[Place, ...]) -> None:
        self.folders = [FolderRow(place.name, place.path) for place in places]
        card = Card()
        for row in self.folders:
            card.add_whole(row)
        self.add_part(self.tr("Your data"), card)
        self.column.addWidget(
            plain_label(self.tr("Nothing you write leaves this computer."), muted=True)
        )


class _Zoom(QWidget):
    """Smaller, the size now (pressed: the usual one), larger."""

    chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._zoom = 100
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(UNIT)
        self.smaller, self.value, self.larger = QPushButton(), QPushButton(), QPushButton()
        for button, words, act in (
            (self.smaller, self.tr("Smaller text"), lambda: self._step(-1)),
            (self.value, self.tr("Back to the usual size"), lambda: self._choose(100)),
            (self.larger, self.tr("Larger text"), lambda: self._step(1)),
        ):
            button.setProperty("role", "choice")
            button.setAutoDefault(False)
            button.setToolTip(words)
            button.setAccessibleName(words)
            button.clicked.connect(act)
            row.addWidget(button)

    def show_zoom(self, percent: int) -> None:
        """Show the size of text in use."""
        self._zoom = percent
        words = self.tr("%1 %").replace("%1", whole(percent))
        self.value.setText(words)
        self.value.setAccessibleName(self.tr("Size of text: %1").replace("%1", words))
        self.smaller.setEnabled(percent > ZOOMS[0])
        self.larger.setEnabled(percent < ZOOMS[-1])
        self._rescale()

    def changeEvent(self, event: QEvent) -> None:
        """Larger text needs larger icons."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._rescale()

    def recolour(self, colours: Colours) -> None:
        """Draw the icons anew in the theme's colours."""
        self.smaller.setIcon(icon("minus", colours.text))
        self.larger.setIcon(icon("new-chat", colours.text))

    def _rescale(self) -> None:
        self.value.setMinimumWidth(10 * QFontMetrics(self.font()).averageCharWidth())
        for button in (self.smaller, self.larger):
            button.setIconSize(icon_size(self.font()) * 0.8)

    def _step(self, step: int) -> None:
        self._choose(zoom_beside(self._zoom, step))

    def _choose(self, percent: int) -> None:
        self.show_zoom(percent)
        self.chosen.emit(percent)


def options_in_words(options: SamplingOptions) -> str:
    """The options that choose words, in one line; those that are off are left out."""
    usual = SamplingOptions()
    numbers = (
        ("top-k", options.top_k, 0),
        ("min-p", options.min_p, usual.min_p),
        ("repetition penalty", options.repetition_penalty, usual.repetition_penalty),
        ("frequency penalty", options.frequency_penalty, usual.frequency_penalty),
        ("presence penalty", options.presence_penalty, usual.presence_penalty),
    )
    parts = [f"temperature {_short(options.temperature)}", f"top-p {_short(options.top_p)}"]
    parts += [f"{name} {_short(value)}" for name, value, off in numbers if value != off]
    return " · ".join(parts).capitalize()


def _short(value: float) -> str:
    return whole(value) if isinstance(value, int) else decimal(value, 2).rstrip("0").rstrip(".,")
