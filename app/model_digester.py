"""Which file a model is, told by its sha256, worked out beside everything else."""

import contextlib
from pathlib import Path

from PySide6.QtCore import Signal

from app.errands import Errands
from engine.files.digest import weights_digest


class ModelDigester(Errands):
    """A large model takes seconds, which nobody waits for."""

    known = Signal(str, str)  # path, sha256

    def request(self, path: str) -> None:
        """Work it out."""
        self.ask(lambda: self._tell(path))

    def _tell(self, path: str) -> None:
        with contextlib.suppress(OSError):  # a model in memory whose file is gone
            self.known.emit(path, weights_digest(Path(path)))
