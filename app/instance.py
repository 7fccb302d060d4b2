"""One running program per data folder: a file's lock says who is first, a socket raises its window.

The system lets go of the lock when the program ends, however it ends.
"""

import errno
import getpass
import hashlib
import os
import sys
import time
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

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
    """Hears of later starts. Only for the program whose `Lock` is held: it takes the name over."""

    raise_requested = Signal()

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        from PySide6.QtNetwork import QLocalServer  # not needed to show the window

        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_connected)
        name = _server_name(folder)
        QLocalServer.removeServer(name)  # what a program that was killed has left
        self.listening = self._server.listen(name)

    def close(self) -> None:
        """Hear no more."""
        self._server.close()

    @Slot()
    def _on_connected(self) -> None:
        while self._server.hasPendingConnections():
            caller = self._server.nextPendingConnection()
            caller.disconnected.connect(caller.deleteLater)
            caller.write(_ANSWER)
            caller.disconnectFromServer()  # once the answer is through
            self.raise_requested.emit()


def ask_to_raise(folder: Path, timeout_ms: int = 2000) -> bool:
    """Ask the program that has the folder to show its window; whether it answered in time."""
    from PySide6.QtNetwork import QLocalSocket

    late = time.monotonic() + timeout_ms / 1000
    socket = QLocalSocket()
    while (left := int((late - time.monotonic()) * 1000)) > 0:
        socket.connectToServer(_server_name(folder))
        if not socket.waitForConnected(left):
            time.sleep(0.05)  # it may have the lock, but not listen yet
            continue
        while not socket.bytesAvailable() and (left := int((late - time.monotonic()) * 1000)) > 0:
            if not socket.waitForReadyRead(left):
                break
        answered = socket.read(1).data() == _ANSWER
        socket.abort()
        return answered
    return False


def _server_name(folder: Path) -> str:
    """Socket names are shared by all users of a computer."""
    user = getattr(os, "getuid", getpass.getuser)()
    whose = f"{user}\0{os.path.realpath(folder)}"
    return f"smoldesk-{hashlib.sha256(os.fsencode(whose)).hexdigest()[:24]}"
