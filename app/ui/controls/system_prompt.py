"""What the model is told before the conversation: the built-in words, nothing, or one's own."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QMimeData, QSize, Signal, Slot
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.ui.controls.panel_controls import Trouble, heading, hint
from app.ui.controls.text_view import wrap_mode
from app.ui.theme import UNIT
from app.ui.wording import whole

MAX_CHARACTERS = 100_000
_LINES = 5

_BUILT_IN, _EMPTY, _OWN = "built-in", "empty", "own"


class SystemPrompt(QWidget):
    """Three choices and a field; the own text is kept while another choice holds."""

    unfolded = Signal()  # it may be taller now
    changed = Signal(object)  # None: the model's built-in one; "": empty; else one's own

    def __init__(self) -> None:
        super().__init__()
        title = heading(self.tr("System prompt"))
        title.setToolTip(
            self.tr("System prompt: what the model is told before the conversation begins.")
        )
        self.buttons: dict[str, QPushButton] = {}
        choices = self._choices()
        self.words = hint()
        self.field = _Field()
        self.field.setAccessibleName(self.tr("My own system prompt"))
        self.field.setPlaceholderText(self.tr("For example: You answer in short sentences."))
        self.field.textChanged.connect(self._on_text_changed)
        self.trouble = Trouble()
        self.field.refused.connect(self.trouble.say)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2 * UNIT)
        column.addWidget(title)
        column.addLayout(choices)
        for widget in (self.words, self.field, self.trouble):
            column.addWidget(widget)
        self._choose(_BUILT_IN)

    def value(self) -> str | None:
        """What holds now."""
        if self.buttons[_BUILT_IN].isChecked():
            return None
        return self.field.whole_text() if self.buttons[_OWN].isChecked() else ""

    def show_value(self, value: str | None) -> None:
        """Show another chat's; what is shown already is left alone, half-written text with it."""
        same = value == self.value()
        if not value:
            self.field.show_text("")  # another chat's own text is none of this one's
        if same:
            return
        if value:
            self.field.show_text(value)
        self._choose(_BUILT_IN if value is None else _OWN if value else _EMPTY)

    def _choices(self) -> QHBoxLayout:
        group = QButtonGroup(self)
        row = QHBoxLayout()
        row.setSpacing(UNIT)
        for name, label in (
            (_BUILT_IN, self.tr("Built-in")),
            (_EMPTY, self.tr("Empty")),
            (_OWN, self.tr("My own")),
        ):
            button = QPushButton(label)
            button.setProperty("role", "choice")
            button.setCheckable(True)
            button.setAutoExclusive(True)  # one of several, also for a screen reader
            button.setAccessibleName(self.tr("System prompt: %1").replace("%1", label))
            button.clicked.connect(lambda _=False, name=name: self._on_chosen(name))
            group.addButton(button)
            row.addWidget(button, 1)
            self.buttons[name] = button
        return row

    def _on_chosen(self, name: str) -> None:
        self._choose(name)
        if name == _OWN:
            self.field.setFocus()
        self.unfolded.emit()
        self.changed.emit(self.value())

    def _choose(self, name: str) -> None:
        self.buttons[name].setChecked(True)
        self.field.setVisible(name == _OWN)
        self.trouble.say("")
        self.words.setText(
            {
                _BUILT_IN: self.tr("The model’s own words are used."),
                _EMPTY: self.tr("The model is told nothing, which differs from its own words."),
            }.get(name, "")
        )
        self.words.setVisible(name != _OWN)

    @Slot()
    def _on_text_changed(self) -> None:
        self.trouble.say("")
        if self.buttons[_OWN].isChecked():
            self.changed.emit(self.value())


class _Field(QPlainTextEdit):
    """Takes plain text, and no more of it than stays quick to type in."""

    refused = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("panelField")
        self.setTabChangesFocus(True)
        self.setWordWrapMode(wrap_mode(""))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        """Room for some lines."""
        lines = _LINES * self.fontMetrics().lineSpacing()
        return QSize(super().sizeHint().width(), lines + 5 * UNIT)

    def whole_text(self) -> str:
        """The text without halves of characters, which some clipboards leave behind."""
        text = self.toPlainText()
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def show_text(self, text: str) -> None:
        """Show `text` without announcing it."""
        blocked = self.blockSignals(True)
        self.setWordWrapMode(wrap_mode(text))
        self.setPlainText(text)
        self.blockSignals(blocked)

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Refuse a text that is too long, and lay out a long run of letters the quick way."""
        text = source.text()
        cursor = self.textCursor()
        replaced = cursor.selectionEnd() - cursor.selectionStart()
        length = len(text) + self.document().characterCount() - 1 - replaced
        if length > MAX_CHARACTERS:
            limit = self.tr("A system prompt has at most %1 characters; paste a shorter text.")
            self.refused.emit(limit.replace("%1", whole(MAX_CHARACTERS)))
            return
        self.setWordWrapMode(wrap_mode(text + self.toPlainText()))
        cursor.insertText(text)
        self.ensureCursorVisible()
