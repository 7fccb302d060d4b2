"""Where a reply should have been: what went wrong in plain words, and what can be done."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QBoxLayout, QFrame, QLabel, QPushButton, QVBoxLayout, QWidget

from app.ui.states import Failure
from app.ui.theme import UNIT


class FailureBox(QFrame):
    """Shows one Failure, or nothing."""

    retry_requested = Signal()
    edit_requested = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("failure")
        self.wanted = False
        self._details = ""
        self.words = QLabel()
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.words.setWordWrap(True)
        self.words.setProperty("role", "danger")
        self.words.setAccessibleDescription(self.tr("Why there is no reply"))
        self.retry = QPushButton(self.tr("Try again"))
        self.retry.clicked.connect(self.retry_requested)
        self.edit = QPushButton(self.tr("Edit message"))
        self.edit.clicked.connect(self.edit_requested)
        self.copy = QPushButton(self.tr("Copy details"))
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._details))
        self._buttons = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._buttons.setSpacing(2 * UNIT)
        for button in (self.retry, self.edit, self.copy):
            self._buttons.addWidget(button)
        self._buttons.addStretch()
        column = QVBoxLayout(self)
        column.setContentsMargins(4 * UNIT, 3 * UNIT, 4 * UNIT, 3 * UNIT)
        column.setSpacing(3 * UNIT)
        column.addWidget(self.words)
        column.addLayout(self._buttons)

    def show_failure(self, failure: Failure | None, *, resend: bool) -> None:
        """Say what went wrong; `resend` offers to send the question again."""
        self.wanted = failure is not None
        if failure is None:
            return
        self._details = failure.details
        self.words.setText(f"{failure.what} {failure.remedy}".strip())
        self.retry.setVisible(resend)
        self.edit.setVisible(resend)
        self.copy.setVisible(bool(failure.details))

    def height_for(self, width: int) -> int:
        """The height that all of it needs at that width, in px."""
        buttons = [b for b in (self.retry, self.edit, self.copy) if not b.isHidden()]
        across = sum(button.sizeHint().width() + 2 * UNIT for button in buttons) + 6 * UNIT
        directions = QBoxLayout.Direction
        self._buttons.setDirection(
            directions.LeftToRight if across <= width else directions.TopToBottom
        )
        return self.layout().heightForWidth(width)
