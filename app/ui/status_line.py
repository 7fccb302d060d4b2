"""The line under the composer: what is going on right now."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QEvent, QSize, QTimer, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QWidget

from app.ui.context_gauge import ContextGauge
from app.ui.controls.elided_label import ElidedLabel
from app.ui.states import ChatState, ModelState, ReplyGrowth
from app.ui.theme import UNIT, scaled_font
from app.ui.wording import speed, whole
from engine.events import PromptProgress

_ASIDE = 4 * UNIT
_GAP = 3 * UNIT
_LONG_START = 3000  # ms; only the first start with a model takes as long


class StatusLine(QWidget):
    """Says how far loading and reading are, and how fast the model writes.

    In a narrow window the numbers go first, then the hint; what is going on stays to the last.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.words = ElidedLabel()
        self.words.setAccessibleDescription(self.tr("Status"))
        self.bar = QProgressBar()
        self.bar.setAccessibleName(self.tr("Progress"))
        self.bar.setTextVisible(False)
        self.bar.setFixedWidth(30 * UNIT)
        self.rate = QLabel()
        self.rate.setAccessibleDescription(self.tr("Speed of writing"))
        self.gauge = ContextGauge()
        row = QHBoxLayout(self)
        row.setContentsMargins(_ASIDE, 0, _ASIDE, 0)
        row.setSpacing(_GAP)
        for label in (self.words, self.rate):
            label.setProperty("role", "muted")
            label.setFont(scaled_font(self.font(), 0.9))
        row.addWidget(self.words)
        row.addWidget(self.bar)
        row.addStretch(1)
        row.addWidget(self.rate)
        row.addWidget(self.gauge)
        self._chat = ChatState.READY
        self._model = ModelState.NONE
        self._progressing = False
        self._hint = False  # whether the words only say what keys do
        self._long_start = QTimer(self, singleShot=True, interval=_LONG_START)
        self._long_start.timeout.connect(self._show)
        self.gauge.changed.connect(self._share_room)
        self._show()

    @Slot(object)
    def set_model_state(self, state: ModelState) -> None:
        """The model came to another state."""
        self._model = state
        if state is ModelState.LOADING:
            self._long_start.start()
        else:
            self._long_start.stop()
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
            self.rate.setText(speed((growth.new_tokens - 1) / growth.seconds))
            self.gauge.set_growth(growth.new_tokens)

    def minimumSizeHint(self) -> QSize:
        """All of it gives way."""
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width has room for other parts."""
        super().resizeEvent(event)
        self._share_room()

    def changeEvent(self, event: QEvent) -> None:
        """Another size of text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_hint"):
            self._share_room()

    def _progress(self, fraction: float) -> None:
        self.bar.setRange(0, 100)
        self.bar.setValue(round(100 * fraction))
        self._progressing = True
        self._share_room()

    def _show(self) -> None:
        if self._chat is not ChatState.ANSWERING:
            self.rate.clear()
        loading = self._model is ModelState.LOADING and self._chat in (
            ChatState.READY,
            ChatState.WAITING,
        )
        if loading:
            self.bar.setRange(0, 0)
        self._progressing = loading
        self.words.setText(self._what_goes_on())
        self._share_room()

    def _what_goes_on(self) -> str:
        busy = {
            ChatState.READING: self.tr("Reading your message…"),
            ChatState.ANSWERING: self.tr("Writing… Esc stops"),
            ChatState.STOPPING: self.tr("Stopping…"),
        }
        self._hint = self._chat not in busy and self._model is ModelState.READY
        if self._chat in busy:
            return busy[self._chat]
        if self._model is ModelState.LOADING:
            if self._chat is ChatState.WAITING:
                return self.tr("Your message is sent as soon as the model is ready…")
            if not self._long_start.isActive():
                return self.tr("Preparing the model for this computer, only this once…")
            return self.tr("Starting the model… you can write already")
        if self._model is ModelState.FAILED:
            return self.tr("There is no model to answer.")
        if self._hint:
            return self.tr("Enter sends, Shift+Enter starts a new line")
        return ""

    @Slot()
    def _share_room(self) -> None:
        """Hide what there is no room for, the least important first."""
        numbers, gauge = self.gauge.words, self.gauge
        hint = [self.words] if self._hint else []
        if gauge.too_long:  # which matters more than what the keys do
            wanted = [*hint, self.rate, numbers, gauge]
        else:
            wanted = [numbers, *hint, self.rate, gauge]
        widths = {self.words: self.words.sizeHint().width(), self.bar: self.bar.width() + _GAP}
        widths[self.rate] = self.rate.sizeHint().width() + _GAP if self.rate.text() else 0
        widths[gauge] = gauge.bar.width() + _GAP if gauge.known else 0
        widths[numbers] = numbers.sizeHint().width() + 2 * UNIT if gauge.known else 0
        if not self._progressing:
            widths[self.bar] = 0
        room = self.width() - 2 * _ASIDE
        for part in wanted:
            if sum(widths.values()) <= room:
                break
            widths[part] = 0
        self.words.setVisible(not self._hint or widths[self.words] > 0)
        for widget in (self.bar, self.rate, numbers, gauge):
            widget.setVisible(widths[widget] > 0)
