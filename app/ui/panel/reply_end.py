"""When a reply ends: its greatest length, and texts at which it stops."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

import re

from PySide6.QtCore import QMimeData, QSignalBlocker, QSize, Signal, Slot
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QSizePolicy, QVBoxLayout, QWidget

from app.ui.controls.panel_controls import Check, Trouble
from app.ui.panel.option_slider import OptionSlider, Scale
from app.ui.theme import UNIT
from app.ui.wording import whole
from engine.options import MAX_STOP_TEXT_LENGTH, MAX_STOP_TEXTS, RANGES

_FIRST_LENGTH = 512  # tokens; offered when a limit is first asked for
_SLIDER_REACH = 2048
_LINES = 3
_GREATEST_PASTE = 20_000  # characters; far more than all stop texts may have

_ESCAPES = {"\\": "\\", "n": "\n", "t": "\t", "r": "\r", "s": " "}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[\\ntrs])")


class LengthLimit(QWidget):
    """A check box, and a slider while it is checked."""

    changed = Signal(object)  # int, or None for no limit

    def __init__(self) -> None:
        super().__init__()
        low, high = RANGES["max_new_tokens"]
        tip = self.tr(
            "Maximum new tokens: a reply ends there, even in the middle of a sentence. Without a "
            "limit it may go on until the model’s memory is full."
        )
        self.check = Check(self.tr("Limit the length of a reply"))
        self.check.setToolTip(tip)
        self.option = OptionSlider(
            self.tr("Maximum new tokens"),
            self.tr("The reply ends after so many tokens."),
            tip,
            Scale(int(low), int(high), reach=_SLIDER_REACH),
        )
        self.option.usual = _FIRST_LENGTH
        self.option.show_value(_FIRST_LENGTH)
        self.option.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2 * UNIT)
        column.addWidget(self.check)
        column.addWidget(self.option)
        self.check.clicked.connect(self._on_checked)
        self.option.changed.connect(self.changed)
        self._value = _FIRST_LENGTH

    def show_value(self, tokens: int | None) -> None:
        """Show the limit without announcing it."""
        self.check.setChecked(tokens is not None)
        self.option.setVisible(tokens is not None)
        if tokens is not None:
            self._value = tokens
            self.option.show_value(tokens)

    @Slot(bool)
    def _on_checked(self, checked: bool) -> None:
        value = self._value if checked else None
        self.show_value(value)
        self.changed.emit(value)


class StopTexts(QWidget):
    """One stop text a line; what cannot be taken leaves the last list in force and says why."""

    changed = Signal(object)  # tuple[str, ...]

    def __init__(self) -> None:
        super().__init__()
        self.value: tuple[str, ...] = ()
        label = QLabel(self.tr("Stop texts"))
        self.field = _Lines()
        self.field.setAccessibleName(self.tr("Stop texts, one per line"))
        self.field.setPlaceholderText(self.tr("One per line"))
        label.setBuddy(self.field)
        tip = self.tr(
            "Stop texts: a reply ends as soon as one of these appears in it. Write \\n for a line "
            "break, \\t for a tab, \\s for a space."
        )
        for widget in (label, self.field):
            widget.setToolTip(tip)
        self.field.setAccessibleDescription(tip)
        self.trouble = Trouble()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(UNIT)
        for widget in (label, self.field, self.trouble):
            column.addWidget(widget)
        self.field.textChanged.connect(self._on_text_changed)

    def show_value(self, texts: tuple[str, ...]) -> None:
        """Show these without announcing it; what is being typed is left alone if it means them."""
        if texts == self.value:
            return
        self.value = texts
        with QSignalBlocker(self.field):
            self.field.setPlainText("\n".join(map(escaped, texts)))
        self.trouble.say("")

    @Slot()
    def _on_text_changed(self) -> None:
        texts = stop_texts(self.field.toPlainText())
        wrong = self._wrong(texts)
        self.trouble.say(wrong)
        if not wrong and texts != self.value:
            self.value = texts
            self.changed.emit(texts)

    def _wrong(self, texts: tuple[str, ...]) -> str:
        if len(texts) > MAX_STOP_TEXTS:
            words = self.tr("There are more than %1 stop texts, so the change is not used yet.")
            return words.replace("%1", whole(MAX_STOP_TEXTS))
        if any(len(text) > MAX_STOP_TEXT_LENGTH for text in texts):
            words = self.tr(
                "A stop text is longer than %1 characters, so the change is not used yet."
            )
            return words.replace("%1", whole(MAX_STOP_TEXT_LENGTH))
        return ""


class _Lines(QPlainTextEdit):
    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("panelField")
        self.setTabChangesFocus(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        """Room for a few lines."""
        lines = _LINES * self.fontMetrics().lineSpacing()
        return QSize(super().sizeHint().width(), lines + 5 * UNIT)

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Plain text, and no more of it than could ever be taken."""
        self.insertPlainText(source.text()[:_GREATEST_PASTE])


def stop_texts(typed: str) -> tuple[str, ...]:
    """What the lines mean; blank ones mean nothing, and the same text twice is one."""
    typed = typed.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    lines = (line for line in typed.split("\n") if line.strip())
    return tuple(dict.fromkeys(_ESCAPE.sub(_meaning, line) for line in lines))


def escaped(text: str) -> str:
    """A stop text as one would type it."""
    text = text.replace("\\", "\\\\")
    for letter, meaning in (("n", "\n"), ("t", "\t"), ("r", "\r")):
        text = text.replace(meaning, f"\\{letter}")
    if not text.strip(" "):
        text = text.replace(" ", "\\s")
    # What a text field would change or not show: other white space, controls, formats.
    return "".join(c if c.isprintable() or ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in text)


def _meaning(match: re.Match[str]) -> str:
    name = match[1]
    return chr(int(name[1:], 16)) if name[0] == "u" else _ESCAPES[name]
