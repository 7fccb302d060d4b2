"""A line above the conversation for what the user should know, with at most one thing to do."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QSize, Qt, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from app.ui.icons import icon, icon_size
from app.ui.theme import UNIT, Colours

_LEAST_CHARACTERS = 30  # beside the button; with less room it goes below


@dataclass(frozen=True, slots=True)
class _Told:
    words: str
    label: str
    action: Callable[[], None] | None
    kind: str


class Notice(QFrame):
    """Shows the newest notice; older ones come back when it is closed or acted upon."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("notice")
        self.words = QLabel()
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setWordWrap(True)
        self.words.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.words.setAccessibleDescription(self.tr("Notice"))
        self.action = QPushButton()
        self.close_button = QToolButton()
        self.close_button.setAccessibleName(self.tr("Close this notice"))
        self.close_button.setToolTip(self.tr("Close"))
        self.action.clicked.connect(self._act)
        self.close_button.clicked.connect(self.show_next)
        self._scroll = _Scroll(self.words)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(6 * UNIT, 2 * UNIT, 3 * UNIT, 2 * UNIT)
        self._grid.setSpacing(2 * UNIT)
        self._grid.setColumnStretch(0, 1)
        self._grid.addWidget(self._scroll, 0, 0)
        self._grid.addWidget(self.close_button, 0, 2, Qt.AlignmentFlag.AlignVCenter)
        self._below = True
        self._told: list[_Told] = []
        self._place_action(below=False)
        self._rescale()
        self.hide()

    def tell(
        self,
        words: str,
        label: str = "",
        action: Callable[[], None] | None = None,
        *,
        kind: str = "",
    ) -> None:
        """Show `words`, with a button that does `action`; of one `kind` only the newest is kept."""
        self._forget(lambda told: told.kind == kind and (kind or told.words == words))
        self._told.append(_Told(words, label, action, kind))
        self._show_newest()
        said = f"{words} {label}".strip()
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, said))

    @Slot()
    def show_next(self) -> None:
        """Close what is shown; show what was shown before."""
        if self._told:
            self._told.pop()
        self._show_newest()

    def withdraw(self, kind: str) -> None:
        """Close the notice of that kind, wherever it stands."""
        self._forget(lambda told: told.kind == kind)
        self._show_newest()

    def set_greatest_height(self, height: int) -> None:
        """How tall the words may grow, in px; longer ones are scrolled."""
        self._scroll.greatest_height = height
        self._scroll.fit()

    def changeEvent(self, event: QEvent) -> None:
        """Another size of text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._rescale()
            self._share_room()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """In a narrow window the button is below the words."""
        super().resizeEvent(event)
        self._share_room()

    def recolour(self, colours: Colours) -> None:
        """Draw the icon anew in the theme's colours."""
        self.close_button.setIcon(icon("close", colours.muted))

    def _rescale(self) -> None:
        self.close_button.setIconSize(icon_size(self.font()))

    def _share_room(self) -> None:
        words = _LEAST_CHARACTERS * self.fontMetrics().averageCharWidth()
        beside = self.action.sizeHint().width() + self.close_button.sizeHint().width()
        self._place_action(below=self.width() < words + beside)

    def _place_action(self, *, below: bool) -> None:
        if below == self._below:
            return
        self._below = below
        self._grid.removeWidget(self.action)
        place = (1, 0) if below else (0, 1)
        side = Qt.AlignmentFlag.AlignLeft if below else Qt.AlignmentFlag.AlignVCenter
        self._grid.addWidget(self.action, *place, side)

    def _forget(self, which: Callable[["_Told"], object]) -> None:
        self._told = [told for told in self._told if not which(told)]

    def _show_newest(self) -> None:
        if not self._told:
            self.hide()
            return
        told = self._told[-1]
        self.words.setText(told.words)
        self._scroll.fit()
        self.action.setText(told.label)
        self.action.setVisible(told.action is not None)
        self._share_room()
        self.show()

    @Slot()
    def _act(self) -> None:
        action = self._told[-1].action
        self.show_next()
        if action is not None:
            action()


class _Scroll(QScrollArea):
    """As tall as its words, up to what is allowed."""

    def __init__(self, words: QLabel) -> None:
        super().__init__(objectName="noticeScroll")
        self.greatest_height = 40 * UNIT
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidgetResizable(True)
        self.setWidget(words)
        self.viewport().setAutoFillBackground(False)
        words.setAutoFillBackground(False)

    def fit(self) -> None:
        """Take the height that the words need at this width."""
        needed = self.widget().heightForWidth(self.viewport().width())
        least = self.widget().fontMetrics().lineSpacing() + 2 * UNIT
        height = max(least, min(needed, self.greatest_height))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus if needed > height else Qt.FocusPolicy.NoFocus)
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)

    def minimumSizeHint(self) -> QSize:
        """The words give way."""
        return QSize(10 * UNIT, self.minimumHeight())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Words break elsewhere."""
        super().resizeEvent(event)
        self.fit()

    def changeEvent(self, event: QEvent) -> None:
        """Another size of text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and self.widget() is not None:
            self.fit()
