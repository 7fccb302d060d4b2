"""The settings while the program runs, and the dialogs in which they are seen and changed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, Qt, QTimer, Signal, Slot
from PySide6.QtWidgets import QDialog, QWidget

from app.settings import SettingsFile
from app.ui.presets import USUAL
from app.ui.states import ModelInfo, Place
from app.ui.theme import Appearance, zoom_beside
from engine.options import SamplingOptions

_SAVE_AFTER = 400  # ms of rest


class SettingsController(QObject):
    """Owns the settings: every change acts at once and is soon on disk.

    The dialogs are imported when they are first opened: that takes longer than a tenth of what the
    window has to be on screen.
    """

    changed = Signal(object)  # Settings
    saved = Signal()  # after they could not be
    model_changed = Signal(object)  # ModelInfo
    failed = Signal(object)  # Failure: they cannot be saved; said once

    def __init__(
        self, file: SettingsFile, appearance: Appearance, places: tuple[Place, ...], parent: QObject
    ) -> None:
        super().__init__(parent)
        self._file = file
        self._appearance = appearance
        self._places = places
        self.settings, self.problem = file.read()
        self._theme = self.settings.theme
        self._model: ModelInfo | None = None
        self._told = False
        self._saving = QTimer(self, singleShot=True, interval=_SAVE_AFTER)
        self._saving.timeout.connect(self.save)
        self._dialog: QDialog | None = None

    def apply(self, *, theme: str | None) -> None:
        """Make the program look as chosen; `theme`, from the command line, overrules."""
        self._theme = theme or self.settings.theme
        self._appearance.choose(self._theme)
        if self.settings.zoom != 100:
            self._appearance.set_zoom(self.settings.zoom)

    def change(self, **changes: Any) -> None:
        """Replace these settings."""
        self.settings = replace(self.settings, **changes)
        self._saving.start()
        self.changed.emit(self.settings)

    def save_pending(self) -> None:
        """Write what has not been written yet."""
        if self._saving.isActive():
            self.save()

    @Slot()
    def save(self) -> None:
        """Write the settings; a folder that cannot be written is told of once."""
        self._saving.stop()
        problem = self._file.write(self.settings)
        if problem is not None and not self._told:
            self.failed.emit(problem)
        elif problem is None and self._told:
            self.saved.emit()
        self._told = problem is not None

    def new_chat_defaults(self) -> tuple[SamplingOptions, str | None]:
        """The options and the system prompt that a new chat begins with."""
        return self.settings.options, self.settings.system_prompt

    @Slot(object)
    def on_model_ready(self, info: ModelInfo) -> None:
        """Which model is in use, for the dialogs."""
        self._model = info
        self.model_changed.emit(info)

    @Slot(str)
    def choose_theme(self, theme: str) -> None:
        """Light, dark or as the system."""
        self._theme = theme
        self._appearance.choose(theme)
        self.change(theme=theme)

    @Slot(int)
    def choose_zoom(self, percent: int) -> None:
        """The size of all text."""
        self._appearance.set_zoom(percent)
        self.change(zoom=self._appearance.zoom)

    def zoom_by(self, step: int) -> None:
        """The next larger (1) or smaller (-1) size of text, or the usual one (0)."""
        self.choose_zoom(zoom_beside(self.settings.zoom, step) if step else 100)

    def show_settings(self, window: QWidget) -> None:
        """Open the settings."""
        from app.ui.dialogs.settings_dialog import SettingsDialog

        shown = replace(self.settings, theme=self._theme)
        dialog = SettingsDialog(shown, self._model, self._places, window)
        dialog.recolour(self._appearance.colours)
        dialog.theme_chosen.connect(self.choose_theme)
        dialog.zoom_chosen.connect(self.choose_zoom)
        dialog.device_chosen.connect(lambda device: self.change(device=device))
        dialog.precision_chosen.connect(lambda precision: self.change(precision=precision))
        dialog.quiet_chosen.connect(lambda quiet: self.change(quiet=quiet))
        dialog.titles_chosen.connect(lambda wanted: self.change(suggest_titles=wanted))
        dialog.system_prompt_changed.connect(lambda text: self.change(system_prompt=text))
        dialog.usual_options_requested.connect(lambda: self.change(options=USUAL))
        self.changed.connect(dialog.show_settings)
        self.model_changed.connect(dialog.show_model)
        self._appearance.changed.connect(dialog.recolour)
        self._open(lambda: dialog)

    def show_keys(self, window: QWidget) -> None:
        """Open the list of keys."""
        from app.ui.dialogs.keys_dialog import KeysDialog

        self._open(lambda: KeysDialog(window))

    def show_about(self, window: QWidget) -> None:
        """Open what there is to say about the program."""
        from app.ui.dialogs.about_dialog import AboutDialog

        self._open(lambda: AboutDialog(self._model, window))

    def _open(self, make: Callable[[], QDialog]) -> None:
        """One dialog at a time; the program goes on behind it."""
        if self._dialog is not None:
            self._dialog.close()
        dialog = make()
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.finished.connect(self._on_closed)
        self._dialog = dialog
        dialog.open()

    @Slot()
    def _on_closed(self) -> None:
        if self.sender() is self._dialog:
            self._dialog = None
