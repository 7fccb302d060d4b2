"""One running program per data folder: a file's lock says who is first, a socket raises its window.

The system lets go of the lock when the program ends, however it ends.
"""

import contextlib
import errno
import os
import secrets
import socket
import sys
import time
from pathlib import Path

from PySide6.QtCore import QObject, QSocketNotifier, Signal, Slot

_ANSWER = b"\x06"

_TAKEN = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}  # what systems say of a lock that is held


class Lock:
    """The claim on a folder, until `release` or the program's end.

    One that is not `held` claims nothing: the folder, or its file system, could not be locked.
    """

    def __init__(self, handle: int | None) -> None:
        self._handle = handle

    @property
    def held(self) -> bool:
        """Whether no other program can claim the folder now."""
        return self._handle is not None

    def release(self) -> None:
        """Let others claim the folder. Its file stays: to delete it would let two have a lock."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def claim(folder: Path) -> Lock | None:
    """Claim the folder for this program; None if another one that runs has it already."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return Lock(None)  # a folder that cannot be written is no reason not to start
    try:
        _lock(handle)
    except OSError as error:
        os.close(handle)
        return None if error.errno in _TAKEN else Lock(None)
    return Lock(handle)


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class RaiseServer(QObject):
    """Hears of later starts. Only for the program whose `Lock` is held.

    A socket of the loopback interface, whose number and password are in a file of the folder that
    only the user may read. Not Qt's own local sockets: QtNetwork needs system libraries that
    nothing else here does.
    """

    raise_requested = Signal()

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.listening = False
        self._token = secrets.token_hex(16).encode()
        self._callers: dict[int, tuple[socket.socket, QSocketNotifier]] = {}
        self._file = folder / "instance"
        try:
            self._socket = socket.create_server(("127.0.0.1", 0))
        except OSError:
            return  # then a second start says that this one does not answer
        self._socket.setblocking(False)
        try:
            _write_private(self._file, f"{self._socket.getsockname()[1]} {self._token.decode()}")
        except OSError:
            self._socket.close()
            return
        self.listening = True
        read = QSocketNotifier.Type.Read
        self._notifier = QSocketNotifier(self._socket.fileno(), read, self)
        self._notifier.activated.connect(self._on_called)

    def close(self) -> None:
        """Hear no more."""
        if not self.listening:
            return
        self.listening = False
        self._notifier.setEnabled(False)
        self._socket.close()
        for handle in list(self._callers):
            self._hang_up(handle)
        with contextlib.suppress(OSError):
            self._file.unlink()

    @Slot()
    def _on_called(self) -> None:
        with contextlib.suppress(OSError):
            caller, _ = self._socket.accept()
            caller.setblocking(False)
            handle = caller.fileno()
            notifier = QSocketNotifier(handle, QSocketNotifier.Type.Read, self)
            self._callers[handle] = (caller, notifier)
            notifier.activated.connect(lambda *_: self._on_said(handle))

    def _on_said(self, handle: int) -> None:
        caller, _ = self._callers[handle]
        said = b""
        with contextlib.suppress(OSError):
            said = caller.recv(64)
            if secrets.compare_digest(said, self._token):
                caller.send(_ANSWER)
        self._hang_up(handle)
        if secrets.compare_digest(said, self._token):
            self.raise_requested.emit()

    def _hang_up(self, handle: int) -> None:
        caller, notifier = self._callers.pop(handle)
        notifier.setEnabled(False)
        notifier.deleteLater()
        caller.close()


def ask_to_raise(folder: Path, timeout_ms: int = 2000) -> bool:
    """Ask the program that has the folder to show its window; whether it answered in time."""
    late = time.monotonic() + timeout_ms / 1000
    while (left := late - time.monotonic()) > 0:
        try:
            port, token = (folder / "instance").read_text(encoding="ascii").split()
            with socket.create_connection(("127.0.0.1", int(port)), timeout=left) as caller:
                caller.settimeout(max(0.01, late - time.monotonic()))
                caller.sendall(token.encode())
                if caller.recv(1) == _ANSWER:
                    return True
        except (OSError, ValueError, OverflowError):
            pass
        time.sleep(0.05)  # it may have the lock, but not listen yet
    return False


def _write_private(path: Path, text: str) -> None:
    """Replace a file by one that only the user may read."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    os.replace(draft, path)
