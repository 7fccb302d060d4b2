"""Letting the event loop run for a while in a test."""

from PySide6.QtCore import QEventLoop, QTimer


def pause(milliseconds: int) -> None:
    """Like QTest.qWait, which holds the GIL all the while, so that no other thread gets on."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()
