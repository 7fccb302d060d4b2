"""Counts the tokens of what is being typed, on a thread of its own."""

from PySide6.QtCore import QObject, Qt, Signal, Slot

from app.engine_protocols import Counting
from engine.errors import TemplateError


class TokenCounter(QObject):
    """Lives on its own thread; of the texts that wait there only the newest is counted."""

    counted = Signal(int)  # tokens of the newest text
    frame_counted = Signal(int)  # tokens that every prompt of the open chat has
    _requested = Signal(int, str)
    _frame_requested = Signal(object)  # str | None

    def __init__(self) -> None:
        super().__init__()
        self._counting: Counting | None = None
        self._newest = 0
        self._text = ""
        self._system_prompt: str | None = None
        self._requested.connect(self._on_requested, Qt.ConnectionType.QueuedConnection)
        self._frame_requested.connect(self._on_frame_requested, Qt.ConnectionType.QueuedConnection)

    def request(self, text: str) -> None:
        """Ask for the tokens of `text`; called on the window's thread."""
        self._newest += 1
        self._requested.emit(self._newest, text)

    def request_frame(self, system_prompt: str | None) -> None:
        """Ask for what every prompt has beside the turns; called on the window's thread."""
        self._frame_requested.emit(system_prompt)

    @Slot(object)
    def set_counting(self, counting: Counting) -> None:
        """Count with this model's tokenizer from now on, also what was asked for before."""
        self._counting = counting
        self._tell()
        self._tell_frame()

    @Slot(int, str)
    def _on_requested(self, number: int, text: str) -> None:
        if number == self._newest:
            self._text = text
            self._tell()

    @Slot(object)
    def _on_frame_requested(self, system_prompt: str | None) -> None:
        self._system_prompt = system_prompt
        self._tell_frame()

    def _tell(self) -> None:
        if self._counting is not None:
            self.counted.emit(self._counting.count_tokens(self._text))

    def _tell_frame(self) -> None:
        if self._counting is None:
            return
        try:
            self.frame_counted.emit(self._counting.count_frame(self._system_prompt))
        except TemplateError:
            self.frame_counted.emit(0)  # which is told when a message is sent
