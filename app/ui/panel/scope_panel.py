"""What the model reads, word for word, and what it is and runs on."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from bisect import bisect_left
from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QShowEvent,
    QSyntaxHighlighter,
    QTextCharFormat,
)
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from app.ui.controls.panel_controls import Rule, Words, heading, hint
from app.ui.controls.text_view import showable, wrap_mode
from app.ui.states import ModelInfo
from app.ui.theme import UNIT, Colours, scaled_font
from app.ui.wording import precision_explained, where_it_runs, whole


class ScopePanel(QWidget):
    """Asks for the prompt when it is seen, and shows what it is given."""

    prompt_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        title = heading(self.tr("What the model reads"))
        title.setToolTip(
            self.tr(
                "The prompt: the whole conversation as the model gets it, with the control tokens "
                "that mark who speaks."
            )
        )
        self.refresh = QPushButton(self.tr("Refresh"))
        self.refresh.setProperty("role", "choice")
        self.refresh.setAccessibleName(self.tr("Show the prompt as it is now"))
        self.refresh.clicked.connect(self.prompt_wanted)
        self.count = hint()
        self.text = PromptView()
        self.none = hint(self.tr("Nothing yet. It is shown once there is a model."))
        self.none.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.model = ModelFacts()
        self._either = QStackedLayout()
        self._either.addWidget(self.none)
        self._either.addWidget(self.text)
        top = QHBoxLayout()
        top.addWidget(title, 1)
        top.addWidget(self.refresh)
        column = QVBoxLayout(self)
        column.setContentsMargins(4 * UNIT, 4 * UNIT, 4 * UNIT, 5 * UNIT)
        column.setSpacing(2 * UNIT)
        column.addLayout(top)
        column.addLayout(self._either, 1)
        column.addWidget(self.count)
        column.addWidget(Rule())
        column.addSpacing(UNIT)
        column.addWidget(heading(self.tr("Model")))
        column.addWidget(self.model)
        self.show_no_prompt()

    def show_prompt(self, parts: Sequence[tuple[str, bool]], tokens: int) -> None:
        """Show the exact prompt, each part with whether it is a control token, and its length."""
        self.text.show_parts(parts)
        words = self.tr("1 token") if tokens == 1 else self.tr("%1 tokens")
        self.count.setText(words.replace("%1", whole(tokens)))
        self.count.show()
        self._either.setCurrentWidget(self.text)

    @Slot()
    def show_no_prompt(self) -> None:
        """There is nothing that the model would read."""
        self.text.show_parts(())
        self.count.hide()
        self._either.setCurrentWidget(self.none)

    @Slot(object)
    def show_model(self, info: ModelInfo) -> None:
        """Show what is loaded."""
        self.model.show_model(info)

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw in the theme's colours."""
        self.text.recolour(colours)

    def showEvent(self, event: QShowEvent) -> None:
        """Seen: what is shown should be what holds now."""
        super().showEvent(event)
        if not event.spontaneous():
            self.prompt_wanted.emit()


class ModelFacts(QWidget):
    """Name, device with its reason, and precision of the model, in words."""

    def __init__(self) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(UNIT)
        self.lines: list[Words] = []
        for line in (Words(), hint(), hint(), hint()):
            column.addWidget(line)
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


def fixed_font(base: QFont) -> QFont:
    """The system's font of equal widths, about as large as `base`."""
    font = scaled_font(base, 0.95)
    font.setFamilies(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).families())
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setFixedPitch(True)
    return font


class PromptView(QPlainTextEdit):
    """Selectable plain text in a font of equal widths; control tokens stand out by colour."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("panelField")
        self.setAccessibleName(self.tr("The prompt, word for word"))
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self._tokens = _ControlTokens(self.document())
        self.setFont(fixed_font(self.font()))

    def show_parts(self, parts: Sequence[tuple[str, bool]]) -> None:
        """Show the parts as they are; the place that was scrolled to stays where it can."""
        text, spans = "", []
        for part, is_control in parts:
            part = part.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            if is_control:
                start = len(text.encode("utf-16-le")) // 2
                spans.append((start, start + len(part)))
            text += showable(part)
        self._tokens.spans = spans
        if text == self.toPlainText():
            return
        place = self.verticalScrollBar().value()
        self.setWordWrapMode(wrap_mode(text))
        self.setPlainText(text)
        self.verticalScrollBar().setValue(place)

    def recolour(self, colours: Colours) -> None:
        """Mark control tokens in the theme's colour."""
        self._tokens.look.setForeground(QColor(colours.accent))
        self._tokens.rehighlight()


class _ControlTokens(QSyntaxHighlighter):
    def __init__(self, document: object) -> None:
        super().__init__(document)
        self.look = QTextCharFormat()
        self.spans: list[tuple[int, int]] = []  # places in the document, in order

    def highlightBlock(self, text: str) -> None:
        begin = self.currentBlock().position()
        first = bisect_left(self.spans, (begin, 0))
        for start, end in self.spans[first:]:
            if start >= begin + len(text):
                break
            self.setFormat(start - begin, end - start, self.look)
