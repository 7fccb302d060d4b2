"""How much of the model's memory the conversation takes, and what is being written would take."""

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QWidget

from app.ui.theme import UNIT, scaled_font
from app.ui.wording import whole

_SCALE = 1000


class ContextGauge(QWidget):
    """A short bar and two numbers; says so in words when there is not enough room."""

    changed = Signal()  # it may need more room, or less

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._used = self._base = self._draft = self._frame = 0
        self._limit = self._longest_prompt = 0
        self.words = QLabel()
        self.words.setFont(scaled_font(self.font(), 0.9))
        self.bar = QProgressBar()
        self.bar.setRange(0, _SCALE)
        self.bar.setTextVisible(False)
        self.bar.setFixedWidth(20 * UNIT)
        self.bar.setAccessibleName(self.tr("How full the model’s memory is"))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2 * UNIT)
        row.addWidget(self.words)
        row.addWidget(self.bar, 0, Qt.AlignmentFlag.AlignVCenter)
        self._show()

    @property
    def known(self) -> bool:
        """Whether there is anything to show."""
        return self._limit > 0

    @property
    def too_long(self) -> bool:
        """Whether what is being written does not fit, however much before it is left out."""
        return self._limit > 0 and self._draft > 0 and self._frame + self._draft >= self._limit

    def set_limits(self, tokens: int, longest_prompt: int) -> None:
        """How many tokens the model can remember, and how many of them a prompt may take."""
        self._limit, self._longest_prompt = tokens, longest_prompt
        self._show()

    @property
    def _leaves_out(self) -> bool:
        """Whether the oldest messages would be left out of the next prompt."""
        return self._draft > 0 and self._used + self._draft > self._longest_prompt

    @Slot(int)
    def set_used(self, tokens: int) -> None:
        """How many of them the conversation takes."""
        self._used = self._base = tokens
        self._show()

    def set_growth(self, tokens: int) -> None:
        """How many a running reply has added since."""
        self._used = self._base + tokens
        self._show()

    @Slot(int)
    def set_draft(self, tokens: int) -> None:
        """How many tokens what is being written has."""
        self._draft = tokens
        self._show()

    @Slot(int)
    def set_frame(self, tokens: int) -> None:
        """How many tokens of every prompt belong to no message."""
        self._frame = tokens
        self._show()

    def _show(self) -> None:
        self.setVisible(self.known)
        if not self.known:
            self.changed.emit()
            return
        taken = self._used + self._draft
        full = taken > self._longest_prompt
        self.bar.setValue(round(_SCALE * min(1.0, taken / self._limit)))
        if self.too_long:
            words = self.tr("Too long: %5 of %2 tokens")
        elif self._draft:
            words = self.tr("%3 + %4 of %2 tokens")
        else:
            words = self.tr("%1 of %2 tokens")
        for mark, number in (
            ("%1", taken),
            ("%2", self._limit),
            ("%3", self._used),
            ("%4", self._draft),
            ("%5", self._frame + self._draft),
        ):
            words = words.replace(mark, whole(number))
        self.words.setText(words)
        self.setToolTip(self._explanation())
        self.words.setAccessibleDescription(self._explanation())
        for widget in (self.words, self.bar):
            role = "danger" if full else "muted"
            if widget.property("role") != role:
                widget.setProperty("role", role)
                widget.style().unpolish(widget)
                widget.style().polish(widget)
        self.changed.emit()

    def _explanation(self) -> str:
        words = self.tr(
            "The context: how much the model can remember of a conversation.\n"
            "%1 tokens are taken, %2 are being written, %3 is the most."
        )
        if self.too_long:
            words += "\n" + self.tr("Shorten the message: it does not fit even by itself.")
        elif self._leaves_out:
            words += "\n" + self.tr("The oldest messages are left out, so that there is room.")
        for mark, number in (("%1", self._used), ("%2", self._draft), ("%3", self._limit)):
            words = words.replace(mark, whole(number))
        return words
