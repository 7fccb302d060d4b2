"""The line under the composer: what is going on right now."""

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QWidget

from app.ui.context_gauge import ContextGauge
from app.ui.states import ChatState, ModelState, ReplyGrowth
from app.ui.theme import UNIT, scaled_font
from app.ui.wording import speed, whole
from engine.events import PromptProgress


class StatusLine(QWidget):
    """Says how far loading and reading are, and how fast the model writes."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.words = QLabel()
        self.words.setAccessibleName(self.tr("Status"))
        self.bar = QProgressBar()
        self.bar.setAccessibleName(self.tr("Progress"))
        self.bar.setTextVisible(False)
        self.bar.setFixedWidth(30 * UNIT)
        self.rate = QLabel()
        self.rate.setAccessibleName(self.tr("Speed of writing"))
        self.gauge = ContextGauge()
        row = QHBoxLayout(self)
        row.setContentsMargins(3 * UNIT, 0, 3 * UNIT, 0)
        row.setSpacing(3 * UNIT)
        for label in (self.words, self.rate):
            label.setProperty("role", "muted")
            label.setFont(scaled_font(self.font(), 0.9))
        row.addWidget(self.words)
        row.addWidget(self.bar)
        row.addStretch()
        row.addWidget(self.rate)
        row.addWidget(self.gauge)
        self._chat = ChatState.READY
        self._model = ModelState.NONE
        self._show()

    @Slot(object)
    def set_model_state(self, state: ModelState) -> None:
        """The model came to another state."""
        self._model = state
        self._show()

    @Slot(object)
    def set_chat_state(self, state: ChatState) -> None:
        """The chat came to another state."""
        self._chat = state
        self._show()

    @Slot(float)
    def show_loading(self, fraction: float) -> None:
        """Loading came to `fraction`."""
        if self._model is ModelState.LOADING:
            self._progress(fraction)

    @Slot(object)
    def show_reading(self, progress: PromptProgress) -> None:
        """The prompt was read so far; a short one is over before a word could be read."""
        self.gauge.set_used(progress.total)
        if self._chat is not ChatState.READING or progress.total - progress.reused < 512:
            return
        self.words.setText(
            self.tr("Reading %1 of %2 tokens…")
            .replace("%1", whole(progress.done))
            .replace("%2", whole(progress.total))
        )
        self._progress(progress.done / max(progress.total, 1))

    @Slot(object)
    def show_growth(self, growth: ReplyGrowth) -> None:
        """The model writes."""
        if growth.new_tokens > 1 and growth.seconds > 0.2:
            self.gauge.set_growth(growth.new_tokens)
            self.rate.setText(speed((growth.new_tokens - 1) / growth.seconds))

    def _progress(self, fraction: float) -> None:
        self.bar.setRange(0, 100)
        self.bar.setValue(round(100 * fraction))
        self.bar.show()

    def _show(self) -> None:
        self.bar.hide()
        chat = {
            ChatState.READING: self.tr("Reading your message…"),
            ChatState.ANSWERING: self.tr("Writing… Esc stops"),
            ChatState.STOPPING: self.tr("Stopping…"),
        }.get(self._chat)
        if self._chat is not ChatState.ANSWERING:
            self.rate.clear()
        if chat is not None:
            self.words.setText(chat)
        elif self._model is ModelState.LOADING:
            waiting = self._chat is ChatState.WAITING
            self.words.setText(
                self.tr("Your message is sent as soon as the model is ready…")
                if waiting
                else self.tr("Starting the model… you can write already")
            )
            self.bar.setRange(0, 0)
            self.bar.show()
        elif self._model is ModelState.FAILED:
            self.words.setText(self.tr("There is no model to answer."))
        elif self._model is ModelState.READY:
            self.words.setText(self.tr("Enter sends, Shift+Enter starts a new line"))
        else:
            self.words.clear()
