"""From a command line to a window, and from there to the end of the process."""

import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from app import import_order

import_order.before_qt()

from PySide6.QtCore import QObject, QSocketNotifier, Slot  # noqa: E402
from PySide6.QtWidgets import QApplication  # noqa: E402

from app import instance  # noqa: E402
from app.engine_protocols import EngineOpener, LoadedEngine  # noqa: E402
from app.program import Smoldesk, Start  # noqa: E402


def open_engine(*args: Any, **options: Any) -> LoadedEngine:
    """Load a model; runs on the engine's thread, which is where torch is imported."""
    import_order.before_torch()
    with import_order.unswept():
        from engine.loading import load
    return load(*args, **options)


class SignalWatcher(QObject):
    """Turns Ctrl+C, a request to end and the end of a terminal into a quiet end, on every system.

    Python runs its signal handlers between two steps of Python, which an idle window may not take
    for long; a byte on a socket wakes Qt up.
    """

    def __init__(self, quit_with: Callable[[int], None], parent: QObject) -> None:
        super().__init__(parent)
        self._quit_with = quit_with
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        for number in _ending():
            signal.signal(number, lambda *_: None)
        self._notifier = QSocketNotifier(self._receiver.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_signal)

    @Slot()
    def _on_signal(self) -> None:
        for number in self._receiver.recv(64):
            self._quit_with(128 + number)

    def close(self) -> None:
        """Leave signals as the system has them: a second Ctrl+C ends the program at once."""
        self._notifier.setEnabled(False)
        signal.set_wakeup_fd(-1)
        for number in _ending():
            signal.signal(number, signal.SIG_DFL)
        self._receiver.close()
        self._sender.close()


def _ending() -> list[signal.Signals]:
    numbers = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)  # ignored is what `nohup` wants it to be
    return numbers


def run(
    start: Start,
    *,
    opener: EngineOpener = open_engine,
    then: Callable[[QApplication, Smoldesk], object] | None = None,
) -> int:
    """Run the program to its end; `then` sees the window just after it was shown."""
    lock = instance.claim(start.data_dir) if start.single else instance.Lock(None)
    if lock is None:
        return _bring_forward(start)
    app = QApplication(sys.argv[:1])
    app.setApplicationName("smoldesk")
    app.setApplicationDisplayName("Smoldesk")
    app.setDesktopFileName("smoldesk")
    smoldesk = Smoldesk(app, start, opener=opener)
    signals = SignalWatcher(app.exit, smoldesk)
    smoldesk.show()
    keep = then(app, smoldesk) if then is not None else None
    code = app.exec()
    signals.close()
    smoldesk.window.hide()
    if not smoldesk.end():
        # The import of torch, or a kernel that takes long, cannot be interrupted, and waiting for
        # it would leave a window that is gone and a process that is not.
        _leave(code)
    del keep
    smoldesk.window.deleteLater()
    app.processEvents()
    lock.release()
    return int(code)


def _bring_forward(start: Start) -> int:
    """Another Smoldesk has these chats open: show its window instead of a second one."""
    if instance.ask_to_raise(start.data_dir):
        print("Smoldesk is running already; its window was brought to the front.")
        return 0
    print(
        "Smoldesk is running already, but does not answer. End it, then start it again.",
        file=sys.stderr,
    )
    return 1


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
