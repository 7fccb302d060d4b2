"""What the program's dialogs have in common: a page that scrolls and a button that closes."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QEvent, Qt, QTimer, Slot
from PySide6.QtGui import QFont, QFontMetrics, QKeyEvent
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QStyle,
    QVBoxLayout,
    QWidget,
)

from app.ui.controls.scroll_to_focus import ScrollToFocus
from app.ui.keys import pressed_by_enter
from app.ui.theme import UNIT, scaled_font


class Dialog(QDialog):
    """Changes in it act at once, so there is nothing to confirm: Esc and Close both close it."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._characters = 0
        self._later = QTimer(self, singleShot=True, interval=0)  # a child: it ends with the dialog
        self._later.timeout.connect(self._fit_again)
        self.setWindowTitle(title)
        self.setWindowFlag(Qt.WindowType.WindowContextHelpButtonHint, False)
        page = QWidget(objectName="dialogPage")
        self.column = QVBoxLayout(page)
        self.column.setContentsMargins(6 * UNIT, 5 * UNIT, 6 * UNIT, 6 * UNIT)
        self.column.setSpacing(2 * UNIT)
        self.scroll = QScrollArea(objectName="dialogScroll")
        self.scroll.setWidgetResizable(True)
        self.scroll.setFrameShape(QFrame.Shape.NoFrame)
        self.scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.scroll.setWidget(page)
        self.scroll.viewport().setAutoFillBackground(False)
        ScrollToFocus(self.scroll)
        self.close_button = QPushButton(self.tr("Close"))
        self.close_button.setDefault(True)
        self.close_button.clicked.connect(self.accept)
        foot = QFrame(objectName="dialogFoot")
        self.foot = QHBoxLayout(foot)
        self.foot.setContentsMargins(6 * UNIT, 3 * UNIT, 6 * UNIT, 3 * UNIT)
        self.foot.addStretch(1)
        self.foot.addWidget(self.close_button)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(self.scroll, 1)
        outer.addWidget(foot)

    def heading(self, text: str, *, factor: float = 1.0) -> QLabel:
        """A title that keeps its size beside the other text."""
        heading = plain_label(text)
        heading.setFont(scaled_font(self.font(), factor, weight=QFont.Weight.DemiBold))
        return heading

    def add_part(self, title: str, card: QWidget, *, column: QVBoxLayout | None = None) -> None:
        """Put a part with its title at the end of the page, or of one of its columns."""
        column = column or self.column
        if column.count():
            column.addSpacing(4 * UNIT)
        column.addWidget(self.heading(title))
        column.addWidget(card)

    def fit(self, characters: int) -> None:
        """Be that many characters wide and as high as the page, as far as the screen allows."""
        self._characters = characters
        page = self.scroll.widget()
        inside = page.layout()
        inside.activate()
        room = self.screen().availableGeometry().size() * 0.9
        wanted = characters * QFontMetrics(self.font()).averageCharWidth()
        bar = self.style().pixelMetric(QStyle.PixelMetric.PM_ScrollBarExtent)
        width = min(max(wanted, page.minimumSizeHint().width() + bar), room.width())
        foot = self.close_button.sizeHint().height() + 6 * UNIT + 1
        self.resize(width, min(inside.totalHeightForWidth(width) + foot, room.height()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter presses the button in focus; only elsewhere does it close."""
        button = pressed_by_enter(event)
        if button is not None:
            button.click()
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        """Larger text needs a larger dialog."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and self._characters:
            self._later.start()  # once all that is in it has the new font

    @Slot()
    def _fit_again(self) -> None:
        self.fit(self._characters)


class Card(QFrame):
    """Rows that belong together, on a ground of their own; close together or between lines."""

    def __init__(self, *, close: bool = False) -> None:
        super().__init__(objectName="card")
        self._close = close
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, UNIT, 0, UNIT)
        self._column.setSpacing(0)

    def add(self, name: str, *widgets: QWidget, hint: QLabel | None = None) -> QLabel:
        """A row: its name with a hint under it at the left, what can be done at the right."""
        row = QHBoxLayout()
        above = UNIT if self._close else 2 * UNIT
        row.setContentsMargins(4 * UNIT, above, 4 * UNIT, above)
        row.setSpacing(UNIT)
        label = plain_label(name)
        words = QVBoxLayout()
        words.setSpacing(UNIT // 2)
        words.addWidget(label)
        if hint is not None:
            words.addWidget(hint)
        row.addLayout(words, 1)
        row.addSpacing(2 * UNIT)
        for widget in widgets:
            row.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        self._separate()
        self._column.addLayout(row)
        return label

    def add_whole(self, widget: QWidget) -> None:
        """A row that is one widget."""
        row = QHBoxLayout()
        row.setContentsMargins(4 * UNIT, 2 * UNIT, 4 * UNIT, 2 * UNIT)
        row.addWidget(widget)
        self._separate()
        self._column.addLayout(row)

    def _separate(self) -> None:
        if self._column.count() and not self._close:
            self._column.addWidget(QFrame(objectName="cardLine"))


def plain_label(text: str, *, muted: bool = False) -> QLabel:
    """Words that wrap and are never taken for markup."""
    label = QLabel()
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setText(text)
    label.setWordWrap(True)
    if muted:
        label.setProperty("role", "muted")
    return label
