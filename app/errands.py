"""Work with files on a thread of its own: one thing after the other, in the order asked for."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, Signal, Slot

from app.store.backup_problems import BackupError
from app.ui.states import Failure
from engine.errors import EngineError


class Errands(QObject):
    """Lives on that thread; `ask` is called on the window's. What the world does is told."""

    failed = Signal(object)  # Failure
    _asked = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._asked.connect(self._do, Qt.ConnectionType.QueuedConnection)

    def ask(self, errand: Callable[[], None]) -> None:
        """Have this done."""
        self._asked.emit(errand)

    @Slot(object)
    def _do(self, errand: Callable[[], None]) -> None:
        try:
            errand()
        except BackupError as error:
            self.failed.emit(error.failure)
        except EngineError as error:
            self.failed.emit(Failure(error.what, error.remedy))
