"""The row with the presets: choose one, save one's own, delete it, go back."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QCoreApplication, QEvent, Qt, Signal, Slot
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.ui.controls.panel_controls import ChoiceBox, DotsButton, Trouble
from app.ui.presets import (
    BUILT_IN,
    DESCRIPTIONS,
    LONGEST_NAME,
    MOST_OWN,
    Preset,
    matching,
    samplers_of,
)
from app.ui.theme import UNIT
from engine.options import SamplingOptions


class PresetRow(QWidget):
    """Shows which preset the options equal; keeps the list of the user's own."""

    chosen = Signal(object)  # Preset
    presets_changed = Signal(object)  # tuple[Preset, ...], the user's own
    default_requested = Signal()
    reset_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._own: tuple[Preset, ...] = ()
        self._options = SamplingOptions()
        self.box = ChoiceBox(self.tr("Custom"))
        self.box.setAccessibleName(self.tr("Preset"))
        self.box.view().setAccessibleName(self.tr("Presets"))
        # On Linux a screen reader learns the name of such a box from its label only.
        label = QLabel(self.tr("Preset"), self)
        label.setBuddy(self.box)
        label.hide()
        self.box.setToolTip(
            self.tr(
                "A preset sets how words are chosen. “Custom” means that the values below are "
                "none of them."
            )
        )
        self.box.activated.connect(self._on_activated)
        self.menu_button = DotsButton(self.tr("More about presets"))
        self._make_menu()
        self.naming = _Naming()
        self.naming.named.connect(self._save)
        self.naming.closed.connect(self.box.setFocus)
        row = QHBoxLayout()
        row.setSpacing(UNIT)
        row.addWidget(self.box, 1)
        row.addWidget(self.menu_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2 * UNIT)
        column.addLayout(row)
        column.addWidget(self.naming)
        self._fill()

    def show_options(self, options: SamplingOptions) -> None:
        """Show which preset these options are, if any."""
        self._options = options
        current = self.current()
        self.box.setCurrentIndex(-1 if current is None else self._place(current))
        self.delete.setEnabled(current in self._own)

    def show_presets(self, own: tuple[Preset, ...]) -> None:
        """Offer these of the user's own, after the built-in ones."""
        self._own = own
        self._fill()

    def current(self) -> Preset | None:
        """The preset that the options equal; of two that are alike, the one that was chosen."""
        shown = self.box.currentData()
        if shown is not None and samplers_of(shown.options) == samplers_of(self._options):
            return shown
        return matching(self._options, (*BUILT_IN, *self._own))

    def _make_menu(self) -> None:
        menu = QMenu(self)
        self.save = menu.addAction(self.tr("Save as preset…"))
        self.delete = menu.addAction(self.tr("Delete preset"))
        menu.addSeparator()
        self.use_for_new = menu.addAction(self.tr("Use for new chats"))
        self.reset = menu.addAction(self.tr("Reset to usual values"))
        self.save.triggered.connect(lambda: self.naming.begin())
        self.delete.triggered.connect(self._delete)
        self.use_for_new.triggered.connect(lambda: self.default_requested.emit())
        self.reset.triggered.connect(lambda: self.reset_requested.emit())
        self.menu_button.setMenu(menu)

    def _fill(self) -> None:
        blocked = self.box.blockSignals(True)
        self.box.clear()
        for preset in BUILT_IN:
            name = QCoreApplication.translate("presets", preset.name)
            self.box.addItem(name, preset)
            words = QCoreApplication.translate("presets", DESCRIPTIONS[preset.name])
            self.box.setItemData(self.box.count() - 1, words, Qt.ItemDataRole.ToolTipRole)
        if self._own:
            self.box.insertSeparator(self.box.count())
        for preset in self._own:
            self.box.addItem(preset.name, preset)
        self.box.setCurrentIndex(-1)
        self.box.blockSignals(blocked)
        self.show_options(self._options)

    def _place(self, preset: Preset) -> int:
        places = range(self.box.count())
        return next((place for place in places if self.box.itemData(place) is preset), -1)

    @Slot(int)
    def _on_activated(self, place: int) -> None:
        preset = self.box.itemData(place)
        if preset is not None:
            self.naming.hide()
            self.chosen.emit(preset)

    @Slot(str)
    def _save(self, name: str) -> None:
        others = tuple(p for p in self._own if p.name.casefold() != name.casefold())
        if any(name.casefold() == preset.name.casefold() for preset in BUILT_IN):
            self.naming.refuse(self.tr("That name is taken. Choose another one."))
            return
        if len(others) >= MOST_OWN:
            self.naming.refuse(self.tr("There are too many presets. Delete one first."))
            return
        preset = Preset(name, SamplingOptions(**samplers_of(self._options)))
        self._own = (*others, preset)
        self._fill()
        self.box.setCurrentIndex(self._place(preset))
        self.show_options(self._options)
        self.naming.end()
        self.presets_changed.emit(self._own)

    @Slot()
    def _delete(self) -> None:
        current = self.current()
        if current not in self._own:
            return
        self._own = tuple(preset for preset in self._own if preset is not current)
        self._fill()
        self.presets_changed.emit(self._own)


class _Naming(QWidget):
    """The field for a new preset's name: Enter saves, Esc leaves."""

    named = Signal(str)
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.field = _NameField()
        self.field.setMaxLength(LONGEST_NAME)
        self.field.setPlaceholderText(self.tr("Name of the preset"))
        self.field.setAccessibleName(self.tr("Name of the preset"))
        self.save = QPushButton(self.tr("Save"))
        self.save.setProperty("role", "primary")
        self.trouble = Trouble()
        row = QHBoxLayout()
        row.setSpacing(UNIT)
        row.addWidget(self.field, 1)
        row.addWidget(self.save)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(UNIT)
        column.addLayout(row)
        column.addWidget(self.trouble)
        self.field.returnPressed.connect(self._submit)
        self.field.left.connect(self.end)
        self.field.abandoned.connect(self.hide)
        self.field.textChanged.connect(self._on_text_changed)
        self.save.clicked.connect(self._submit)
        self.hide()

    def begin(self) -> None:
        """Ask for a name."""
        self.field.clear()
        self._on_text_changed("")
        self.show()
        self.field.setFocus()

    def refuse(self, words: str) -> None:
        """Say why the name cannot be."""
        self.trouble.say(words)

    @Slot()
    def end(self) -> None:
        """Go away."""
        self.hide()
        self.closed.emit()

    @Slot()
    def _submit(self) -> None:
        name = " ".join(self.field.text().split())
        if name:
            self.named.emit(name)

    @Slot(str)
    def _on_text_changed(self, text: str) -> None:
        self.trouble.say("")
        self.save.setEnabled(bool(text.strip()))


class _NameField(QLineEdit):
    left = Signal()
    abandoned = Signal()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Nothing was typed: the field is not wanted."""
        super().focusOutEvent(event)
        moved = event.reason() in (Qt.FocusReason.MouseFocusReason, Qt.FocusReason.TabFocusReason)
        if moved and not self.text():
            self.abandoned.emit()

    def event(self, event: QEvent) -> bool:
        """Esc is this field's own and stops no reply."""
        override = event.type() == QEvent.Type.ShortcutOverride
        if override and event.key() == Qt.Key.Key_Escape:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
            return
        super().keyPressEvent(event)
