"""The side panel: how words are chosen, and what the model reads."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QEvent, QSize, Qt, Slot
from PySide6.QtWidgets import QFrame, QStackedWidget, QTabBar, QVBoxLayout, QWidget

from app.ui.panel.sampling_panel import SamplingPanel
from app.ui.panel.scope_panel import ScopePanel
from app.ui.theme import UNIT, Colours

PANEL_WIDTH = 76 * UNIT
_WIDEST = 180 * UNIT
_LINES_WIDE = 18  # the panel's width in line heights, so that larger text finds its room


class SidePanel(QFrame):
    """Two pages and the tabs that choose between them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidePanel")
        self.sampling = SamplingPanel()
        self.scope = ScopePanel()
        self.tabs = QTabBar()
        self.tabs.setAccessibleName(self.tr("Side panel"))
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.tabs.addTab(self.tr("Sampling"))
        self.tabs.addTab(self.tr("Scope"))
        self.tabs.setTabToolTip(0, self.tr("How each next word is chosen"))
        self.tabs.setTabToolTip(1, self.tr("What the model reads, and what it runs on"))
        self.pages = QStackedWidget()
        self.pages.addWidget(self.sampling)
        self.pages.addWidget(self.scope)
        self.tabs.currentChanged.connect(self.pages.setCurrentIndex)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.tabs)
        column.addWidget(self.pages, 1)
        self._fit()

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw in the theme's colours."""
        self.sampling.recolour(colours)
        self.scope.recolour(colours)

    def changeEvent(self, event: QEvent) -> None:
        """Larger text needs a wider panel."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def sizeHint(self) -> QSize:
        """As wide as its text wants it; it gives way where the window is narrow."""
        return QSize(self.maximumWidth(), super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """Narrower it would have to be scrolled sideways."""
        page, bar = self.sampling.widget(), self.sampling.verticalScrollBar()
        width = page.minimumSizeHint().width() + bar.sizeHint().width()
        hint = super().minimumSizeHint()
        return hint.expandedTo(QSize(width, 0))

    def _fit(self) -> None:
        wanted = _LINES_WIDE * self.fontMetrics().height()
        self.setMinimumWidth(PANEL_WIDTH)
        self.setMaximumWidth(min(max(PANEL_WIDTH, wanted), _WIDEST))
        self.updateGeometry()
