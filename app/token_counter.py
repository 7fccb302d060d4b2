"""Counts the tokens of what is being typed, on a thread of its own."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, Signal, Slot


class TokenCounter(QObject):
    """Lives on its own thread; of the texts that wait there only the newest is counted."""

    counted = Signal(int)  # tokens of the newest text
    _requested = Signal(int, str)

    def __init__(self) -> None:
        super().__init__()
        self._count: Callable[[str], int] | None = None
        self._newest = 0
        self._text = ""
        self._requested.connect(self._on_requested, Qt.ConnectionType.QueuedConnection)

    def request(self, text: str) -> None:
        """Ask for the tokens of `text`; called on the window's thread."""
        self._newest += 1
        self._requested.emit(self._newest, text)

    @Slot(object)
    def set_counting(self, count: Callable[[str], int]) -> None:
        """Count with this model's tokenizer from now on, also what was asked for before."""
        self._count = count
        self._tell()

    @Slot(int, str)
    def _on_requested(self, number: int, text: str) -> None:
        if number == self._newest:
            self._text = text
            self._tell()

    def _tell(self) -> None:
        if self._count is not None:
            self.counted.emit(self._count(self._text))
