"""Where something lies: a folder that can be opened, a path that can be copied."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

import os
from html import escape

from PySide6.QtCore import QEvent, QSize, Qt, QUrl, Slot
from PySide6.QtGui import QDesktopServices, QFontMetrics, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QToolTip, QVBoxLayout, QWidget

from app.ui.dialogs.dialog import plain_label
from app.ui.icons import icon, icon_size
from app.ui.theme import UNIT, Colours


class FolderRow(QWidget):
    """Opens only what is a folder of this computer at that moment."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__()
        self._path = path
        self.open_button = _button(self.tr("Open folder"), name)
        self.open_button.clicked.connect(self._open)
        self.copy_button = _button(self.tr("Copy path"), name)
        self.copy_button.clicked.connect(self._copy)
        self.path = _Path(path)
        self.path.setAccessibleName(path)  # the whole of it, where a part is shown
        self.path.setAccessibleDescription(name)
        words = QVBoxLayout()
        words.setSpacing(UNIT // 2)
        words.addWidget(plain_label(name))
        words.addWidget(self.path)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(UNIT)
        row.addLayout(words, 1)
        row.addWidget(self.open_button)
        row.addWidget(self.copy_button)
        self._rescale()

    def recolour(self, colours: Colours) -> None:
        """Draw the icons anew in the theme's colours."""
        self.open_button.setIcon(icon("folder", colours.text))
        self.copy_button.setIcon(icon("copy", colours.text))

    def changeEvent(self, event: QEvent) -> None:
        """Larger text needs larger icons."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._rescale()

    def _rescale(self) -> None:
        for button in (self.open_button, self.copy_button):
            button.setIconSize(icon_size(self.font()))

    @Slot()
    def _open(self) -> None:
        folder = self._path if os.path.isdir(self._path) else os.path.dirname(self._path)
        opened = os.path.isdir(folder) and QDesktopServices.openUrl(QUrl.fromLocalFile(folder))
        if not opened:
            self._say(self.open_button, self.tr("This folder could not be opened."))

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._path)
        self._say(self.copy_button, self.tr("Copied"))

    def _say(self, button: QToolButton, words: str) -> None:
        QToolTip.showText(button.mapToGlobal(button.rect().bottomLeft()), words, button)


class _Path(QLabel):
    """A path that gives way in the middle; the whole of it is in the tooltip."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", "muted")
        self.setToolTip(f"<p>{escape(path)}</p>")
        self.setText(path)

    def minimumSizeHint(self) -> QSize:
        return QSize(20 * UNIT, super().minimumSizeHint().height())

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._elide()

    def _elide(self) -> None:
        metrics = QFontMetrics(self.font())
        middle = Qt.TextElideMode.ElideMiddle
        self.setText(metrics.elidedText(self._path, middle, self.width()))


def _button(words: str, name: str) -> QToolButton:
    button = QToolButton()
    button.setToolTip(words)
    button.setAccessibleName(f"{words}: {name}")
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    return button
