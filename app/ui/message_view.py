"""One turn of the conversation: the question, the reply, and how the reply ended."""

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.ui.states import Failure, Turn
from app.ui.text_view import TextView
from app.ui.theme import TEXT_SCALE, UNIT, scaled_font
from app.ui.wording import cost_explained, cost_of_reply, end_of_reply


class TurnView(QWidget):
    """Shows one Turn; the reply grows by `append_reply`, everything else is set once."""

    dragged = Signal(QWidget, QPoint)
    retry_requested = Signal(int)
    edit_requested = Signal(int)

    def __init__(self, turn: Turn, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.turn_id = turn.id
        self._wants = turn.text
        self._held_back = ""
        self.question = TextView(self.tr("Your message"))
        self.question.append_text(turn.text)
        self.reply = TextView(self.tr("Reply"))
        self.pending = QLabel(self.tr("…"))
        self.pending.setProperty("role", "muted")
        self._bubble = QFrame(objectName="question")
        inside = QHBoxLayout(self._bubble)
        # A line's extra height is below its text; this evens it out.
        inside.setContentsMargins(4 * UNIT, 3 * UNIT, 4 * UNIT, 2 * UNIT)
        inside.addWidget(self.question)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.addStretch(1)
        row.addWidget(self._bubble, 0)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(5 * UNIT)
        self._layout.addLayout(row)
        self._layout.addWidget(self.reply)
        self._layout.addWidget(self.pending)
        for text in (self.question, self.reply):
            text.setFont(scaled_font(self.font(), TEXT_SCALE))
            text.dragged.connect(self._on_dragged)
        self.reply.hide()
        if turn.reply_text:
            self.append_reply(turn.reply_text)
        if turn.finished is not None or turn.failure is not None:
            self.end(turn)

    def append_reply(self, text: str) -> None:
        """Add what the model has written."""
        text = self._held_back + text
        shown = text.rstrip()
        # Blank lines wait for what follows them: at the end they would only be a gap.
        self._held_back = text[len(shown) :]
        if not shown:
            return
        if self.reply.isHidden():
            self.pending.hide()
            self.reply.show()
        self.reply.append_text(shown)

    def end(self, turn: Turn) -> None:
        """Show why there will be no more text, and what it cost or what can be done."""
        self.pending.hide()
        if turn.finished is not None:
            self._add_footer(turn)
        elif turn.failure is not None:
            self._layout.addWidget(self._failure_box(turn.failure, resend=not turn.reply_text))

    def fit_question(self, available: int) -> None:
        """Make the question's bubble as wide as its text, at most most of `available` px."""
        margins = 8 * UNIT
        widest = max(int(available * 0.85) - margins, 60)
        self.question.setFixedWidth(self.question.natural_width(self._wants, widest))

    def _add_footer(self, turn: Turn) -> None:
        finished = turn.finished
        assert finished is not None
        parts = [end_of_reply(finished), cost_of_reply(finished)]
        if not finished.text.strip():
            first = self.tr("The reply is empty.")
            parts = [first, *parts]
        footer = QLabel(" · ".join(part for part in parts if part))
        footer.setTextFormat(Qt.TextFormat.PlainText)
        footer.setWordWrap(True)
        footer.setProperty("role", "muted")
        footer.setFont(scaled_font(self.font(), 0.85))
        footer.setToolTip(cost_explained(finished))
        footer.setAccessibleName(self.tr("How the reply ended"))
        self.footer = footer
        self._layout.addWidget(footer)
        self._layout.setSpacing(3 * UNIT)

    def _failure_box(self, failure: Failure, *, resend: bool) -> QFrame:
        box = QFrame(objectName="failure")
        words = QLabel(f"{failure.what} {failure.remedy}".strip())
        words.setTextFormat(Qt.TextFormat.PlainText)
        words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        words.setWordWrap(True)
        words.setProperty("role", "danger")
        words.setAccessibleName(self.tr("Why there is no reply"))
        column = QVBoxLayout(box)
        column.setContentsMargins(4 * UNIT, 3 * UNIT, 4 * UNIT, 3 * UNIT)
        column.setSpacing(3 * UNIT)
        column.addWidget(words)
        buttons = QHBoxLayout()
        if resend:
            for label, signal in (
                (self.tr("Try again"), self.retry_requested),
                (self.tr("Edit message"), self.edit_requested),
            ):
                button = QPushButton(label)
                button.clicked.connect(lambda _=False, s=signal: s.emit(self.turn_id))
                buttons.addWidget(button)
        if failure.details:
            copy = QPushButton(self.tr("Copy details"))
            copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(failure.details))
            buttons.addWidget(copy)
        buttons.addStretch()
        column.addLayout(buttons)
        self.failure_box = box
        return box

    def _on_dragged(self, position: QPoint) -> None:
        text = self.sender()
        if isinstance(text, TextView):
            self.dragged.emit(text, position)
