"""The inside of the window: header, conversation and the two bars beside it share its room."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QEvent, QSize, QTimer, Signal, Slot
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QWidget

from app.ui.header import Header
from app.ui.panel.side_panel import SidePanel
from app.ui.sidebar.sidebar import Sidebar
from app.ui.theme import UNIT

_LEAST_SIZE = QSize(95 * UNIT, 90 * UNIT)
_LEAST_CHAT = 100 * UNIT  # beside the sidebar and the panel
_LEAST_CHARACTERS = 50  # that it has room for, if that is wider


class WindowPage(QWidget):
    """A bar for which there is no room beside the conversation goes away by itself.

    Called back there, it takes the place of the conversation.
    """

    bars_chosen = Signal(bool, bool)  # whether sidebar and panel are wanted
    bar_closed = Signal()  # by the user, who may want to write now

    def __init__(self, header: Header, sidebar: Sidebar, chat: QWidget, panel: SidePanel) -> None:
        super().__init__()
        # Once all views have taken another size of text, not while they do.
        self._later = QTimer(self, singleShot=True, interval=0)
        self._later.timeout.connect(self._measure)
        self.header, self.sidebar, self.chat, self.panel = header, sidebar, chat, panel
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(0)
        self._grid.addWidget(sidebar, 0, 0, 2, 1)
        self._grid.addWidget(header, 0, 1, 1, 2)
        self._grid.addWidget(chat, 1, 1)
        self._grid.addWidget(panel, 1, 2)
        self._grid.setColumnStretch(1, 1)
        self._grid.setRowStretch(1, 1)
        self._across = False  # the header, above the sidebar
        self._room = -1  # how many of the two bars there is room for; not known before it is shown
        self._wanted = {"sidebar": True, "panel": True}
        for button in (header.sidebar, header.panel):
            button.clicked.connect(self._on_clicked)
            button.toggled.connect(self._share_room)

    def show_bars(self, *, sidebar: bool, panel: bool) -> None:
        """Which of the two bars are wanted where there is room for them."""
        self._wanted = {"sidebar": sidebar, "panel": panel}
        if self._room >= 0:
            self._put_away()

    def make_room(self) -> None:
        """Something is to be done in the conversation: a bar that hides it goes away."""
        if not self.chat.isVisibleTo(self):
            self.header.sidebar.setChecked(False)
            self.header.panel.setChecked(False)

    def least_size(self) -> QSize:
        """What the window may not be smaller than, in px: one of its parts at a time fits in."""
        parts = (self.header, self.chat, self.panel, self.sidebar)
        width = max(part.minimumSizeHint().width() for part in parts)
        return _LEAST_SIZE.expandedTo(QSize(width, 0))

    def minimumSizeHint(self) -> QSize:
        """As small as the window wants; it decides what is shown then."""
        return QSize(0, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A narrow window puts the bars away."""
        super().resizeEvent(event)
        self._measure()

    def event(self, event: QEvent) -> bool:
        """Larger text, or more of it, needs more room."""
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.LayoutRequest):
            self._later.start()
        return super().event(event)

    @Slot()
    def _measure(self) -> None:
        self.window().setMinimumSize(self.least_size())
        beside = self.width() - self._least_chat()
        sidebar, panel = self.sidebar.minimumWidth(), self.panel.sizeHint().width()
        room = (beside >= sidebar) + (beside >= sidebar + panel)
        if room != self._room:
            self._room = room
            self._put_away()
        else:
            self._share_room()

    def _least_chat(self) -> int:
        text = _LEAST_CHARACTERS * QFontMetrics(self.font()).averageCharWidth()
        return max(_LEAST_CHAT, text)

    @Slot(bool)
    def _on_clicked(self, shown: bool) -> None:
        if self._room == 2:
            sidebar, panel = self.header.sidebar.isChecked(), self.header.panel.isChecked()
            self._wanted = {"sidebar": sidebar, "panel": panel}
            self.bars_chosen.emit(sidebar, panel)
        if not shown and self.chat.isVisible():
            self.bar_closed.emit()

    def _put_away(self) -> None:
        """Show the bars that are wanted and have room."""
        for button, shown in (
            (self.header.sidebar, self._wanted["sidebar"] and self._room >= 1),
            (self.header.panel, self._wanted["panel"] and self._room >= 2),
        ):
            button.setChecked(shown)
        self._share_room()

    @Slot()
    def _share_room(self) -> None:
        sidebar, panel = self.header.sidebar.isChecked(), self.header.panel.isChecked()
        taken = sidebar * self.sidebar.minimumWidth() + panel * self.panel.sizeHint().width()
        crowded = self.width() < taken + self._least_chat() and (sidebar or panel)
        if crowded and sidebar and panel:
            # The one that was there before gives way to the one that was called.
            called_panel = not self.panel.isVisibleTo(self)
            (self.header.sidebar if called_panel else self.header.panel).setChecked(False)
            return  # comes back here
        self._lay_header(across=crowded and sidebar)
        self.sidebar.setVisible(sidebar)
        self.panel.setVisible(panel)
        self.chat.setVisible(not crowded)

    def _lay_header(self, *, across: bool) -> None:
        """Beside the sidebar, or above it where that would leave too little."""
        if across == self._across:
            return
        self._across = across
        for part in (self.header, self.sidebar):
            self._grid.removeWidget(part)
        self._grid.addWidget(self.header, 0, 0 if across else 1, 1, 3 if across else 2)
        self._grid.addWidget(self.sidebar, 1 if across else 0, 0, 1 if across else 2, 1)
