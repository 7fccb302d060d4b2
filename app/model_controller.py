"""Which model there is and how far its loading has come."""

import threading

from PySide6.QtCore import QObject, Signal, Slot

from app.ui.states import Failure, ModelInfo, ModelState
from app.worker import LoadRequest


class ModelController(QObject):
    """The state machine of the model: NONE -> LOADING -> READY or FAILED."""

    load_requested = Signal(object)  # LoadRequest
    state_changed = Signal(object)  # ModelState
    progressed = Signal(float)  # 0 to 1
    became_ready = Signal(object)  # ModelInfo
    failed = Signal(object)  # Failure

    def __init__(
        self,
        model: str | None,
        device: str | None,
        precision: str | None,
        *,
        quiet: bool,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._choice = (model, device, precision, quiet)
        self._cancel = threading.Event()
        self.state = ModelState.NONE

    @Slot()
    def load(self) -> None:
        """Begin loading, unless the model is there or on its way."""
        if self.state in (ModelState.LOADING, ModelState.READY):
            return
        self._cancel = threading.Event()
        self._set_state(ModelState.LOADING)
        self.load_requested.emit(LoadRequest(*self._choice, self._cancel))

    def cancel(self) -> None:
        """Make the engine give up loading as soon as it looks."""
        self._cancel.set()

    @Slot(float)
    def on_progressed(self, fraction: float) -> None:
        """Loading came to `fraction` of its way."""
        self.progressed.emit(fraction)

    @Slot(object)
    def on_loaded(self, info: ModelInfo) -> None:
        """The model is in memory."""
        self._set_state(ModelState.READY)
        self.became_ready.emit(info)

    @Slot()
    def on_stopped(self) -> None:
        """Loading was given up on request."""
        self._set_state(ModelState.NONE)

    @Slot(object)
    def on_failed(self, failure: Failure) -> None:
        """Loading ended without a model."""
        self._set_state(ModelState.FAILED)
        self.failed.emit(failure)

    def _set_state(self, state: ModelState) -> None:
        self.state = state
        self.state_changed.emit(state)
