"""The window: puts the views together and names their keys."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QByteArray, QEvent, QObject, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QCloseEvent, QGuiApplication, QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import QHBoxLayout, QMainWindow, QMessageBox, QVBoxLayout, QWidget

from app.ui.composer import Composer
from app.ui.header import Header
from app.ui.notice import Notice
from app.ui.sampling_panel import PANEL_WIDTH, SamplingPanel
from app.ui.states import Failure
from app.ui.status_line import StatusLine
from app.ui.theme import COLUMN_WIDTH, UNIT, Colours
from app.ui.transcript import Transcript
from engine.options import RANGES

# Kinds of notices.
_NO_MODEL = "no model"
_REFUSED = "refused"

_ROOM_FOR_PANEL = PANEL_WIDTH + 115 * UNIT


class MainWindow(QMainWindow):
    """Holds the views; knows nothing of what stands behind them."""

    first_painted = Signal()
    closed = Signal(bytes)  # the window's geometry
    stop_requested = Signal()
    load_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle("Smoldesk")
        self.setMinimumSize(95 * UNIT, 90 * UNIT)
        self.header = Header()
        self.notice = Notice()
        self.transcript = Transcript()
        self.composer = Composer()
        self.status = StatusLine()
        self.panel = SamplingPanel(RANGES)
        self.setCentralWidget(self._arranged())
        self.header.panel_toggled.connect(self._on_panel_toggled)
        self.composer.stop_requested.connect(self.stop_requested)
        self.composer.refused.connect(self._tell_refused)
        self.composer.text.textChanged.connect(self._forget_refused)
        self._set_keys()
        self._dialog: QMessageBox | None = None
        self.header.installEventFilter(self)
        self._had_room = True
        self.composer.setFocus()

    def _arranged(self) -> QWidget:
        writing = QWidget()
        writing.setMaximumWidth(COLUMN_WIDTH + 8 * UNIT)
        below = QVBoxLayout(writing)
        below.setContentsMargins(0, 0, 0, 0)
        below.setSpacing(2 * UNIT)
        below.addWidget(self.composer)
        below.addWidget(self.status)
        row = QHBoxLayout()
        row.setContentsMargins(4 * UNIT, 2 * UNIT, 4 * UNIT, 3 * UNIT)
        row.addStretch(1)
        row.addWidget(writing, 1000)
        row.addStretch(1)
        self._chat = QWidget()
        chat = QVBoxLayout(self._chat)
        chat.setContentsMargins(0, 0, 0, 0)
        chat.setSpacing(0)
        chat.addWidget(self.notice)
        chat.addWidget(self.transcript, 1)
        chat.addLayout(row)
        middle = QHBoxLayout()
        middle.setSpacing(0)
        middle.addWidget(self._chat, 1)
        middle.addWidget(self.panel, 0, Qt.AlignmentFlag.AlignRight)
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.header)
        column.addLayout(middle, 1)
        return page

    def _set_keys(self) -> None:
        for keys, action in (
            (QKeySequence.StandardKey.New, self.header.new_chat.click),
            ("Ctrl+Up", self.header.previous_chat.click),
            ("Ctrl+.", self.header.panel.click),
            ("Esc", self.stop_requested.emit),
            (QKeySequence.StandardKey.Quit, self.close),
        ):
            QShortcut(QKeySequence(keys), self, activated=action)

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw all icons anew in the theme's colours."""
        for view in (self.header, self.notice, self.transcript, self.composer):
            view.recolour(colours)

    @Slot(bool)
    def _on_panel_toggled(self, shown: bool) -> None:
        self.panel.setVisible(shown)
        self._share_room()
        if not shown:
            self.composer.setFocus()

    def _share_room(self) -> None:
        """In a narrow window the panel takes the place of the conversation."""
        alone = self.panel.isVisibleTo(self) and self.width() < _ROOM_FOR_PANEL
        self._chat.setVisible(not alone)

    @Slot(object)
    def tell(self, failure: Failure) -> None:
        """Say what went wrong in a line above the conversation; the program goes on."""
        self.notice.tell(f"{failure.what} {failure.remedy}".strip())

    @Slot(object)
    def tell_no_model(self, failure: Failure) -> None:
        """Say why there is no model, and offer to try again."""
        if failure.details:
            self.show_bug(failure)
        words = f"{failure.what} {failure.remedy}".strip()
        self.notice.tell(words, self.tr("Try again"), self.load_requested.emit, kind=_NO_MODEL)

    @Slot()
    def forget_no_model(self) -> None:
        """There is a model after all, or it is being loaded once more."""
        self.notice.withdraw(_NO_MODEL)

    @Slot(str)
    def _tell_refused(self, words: str) -> None:
        self.notice.tell(words, kind=_REFUSED)

    @Slot()
    def _forget_refused(self) -> None:
        self.notice.withdraw(_REFUSED)

    @Slot(object)
    def show_bug(self, failure: Failure) -> None:
        """Show a bug in a dialog from which its details can be copied; one at a time."""
        if self._dialog is not None:
            return
        box = QMessageBox(QMessageBox.Icon.Warning, self.tr("Smoldesk"), failure.what, parent=self)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setInformativeText(failure.remedy)
        box.setDetailedText(failure.details)
        copy = box.addButton(self.tr("Copy details"), QMessageBox.ButtonRole.ActionRole)
        copy.clicked.disconnect()  # copying does not close the dialog
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(failure.details))
        box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Close))
        box.finished.connect(self._on_dialog_closed)
        self._dialog = box
        box.open()  # not exec: the reply that streams behind it goes on

    @Slot()
    def _on_dialog_closed(self) -> None:
        if self._dialog is not None:
            self._dialog.deleteLater()
            self._dialog = None

    def restore(self, geometry: bytes) -> None:
        """Go back to where the window was, or to a sensible size."""
        if not geometry or not self.restoreGeometry(QByteArray(geometry)):
            room = self.screen().availableGeometry().size()
            self.resize(min(1120, int(room.width() * 0.9)), min(760, int(room.height() * 0.9)))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The composer takes at most a third; a narrow window puts the panel away."""
        super().resizeEvent(event)
        self.composer.set_greatest_height(self.height() // 3)
        room = self.width() >= _ROOM_FOR_PANEL
        if room != self._had_room:
            self._had_room = room
            self.header.panel.setChecked(room)
        self._share_room()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Say when a part of the window was drawn for the first time."""
        if event.type() == QEvent.Type.Paint:
            watched.removeEventFilter(self)
            QTimer.singleShot(0, self.first_painted.emit)  # once the rest is drawn, too
        return False

    def closeEvent(self, event: QCloseEvent) -> None:
        """Remember the place of the window; it closes at once."""
        self.closed.emit(bytes(self.saveGeometry().data()))
        event.accept()
