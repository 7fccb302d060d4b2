"""Which file a model is, told by its sha256, worked out beside everything else."""

from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal, Slot

from engine.errors import EngineError
from engine.files.digest import weights_digest


class ModelDigester(QObject):
    """Lives on a thread where nobody waits: a large model takes seconds."""

    known = Signal(str, str)  # path, sha256
    _requested = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._requested.connect(self._on_requested, Qt.ConnectionType.QueuedConnection)

    def request(self, path: str) -> None:
        """Work it out; called on the window's thread."""
        self._requested.emit(path)

    @Slot(str)
    def _on_requested(self, path: str) -> None:
        try:
            self.known.emit(path, weights_digest(Path(path)))
        except (OSError, EngineError):
            return  # a model in memory whose file is gone
