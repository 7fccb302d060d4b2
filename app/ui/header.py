"""The bar at the top: the sidebar, the model and where it runs, the side panel."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from html import escape

from PySide6.QtCore import QEvent, QSize, Qt, Signal, Slot
from PySide6.QtGui import QFont, QFontMetrics, QIcon, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QMenu,
    QSizePolicy,
    QToolButton,
    QToolTip,
    QVBoxLayout,
    QWidget,
    QWidgetAction,
)

from app.ui.icons import icon, icon_size
from app.ui.keys import BY_NAME, with_key
from app.ui.states import ModelInfo
from app.ui.theme import UNIT, Colours, scaled_font
from app.ui.wording import precision_explained, where_it_runs, whole

_NARROW = 80  # characters
_FACTS = 42  # characters in a line


class Header(QFrame):
    """Shows; what its buttons do is for others to decide."""

    new_chat_requested = Signal()
    sidebar_toggled = Signal(bool)
    panel_toggled = Signal(bool)
    settings_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("header")
        self.sidebar = _button(self.tr("List of chats"), "sidebar")
        self.sidebar.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self.sidebar.setCheckable(True)
        self.sidebar.setChecked(True)
        self.sidebar.toggled.connect(self._on_sidebar_toggled)
        self.new_chat = _button(self.tr("New chat"), "new_chat")
        self.new_chat.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self.new_chat.clicked.connect(self.new_chat_requested)
        self.new_chat.hide()
        self.model = _ModelButton()
        self.model.settings_requested.connect(self.settings_requested)
        self.device = QToolButton(objectName="deviceChip")
        self.device.setAccessibleName(self.tr("Where the model runs"))
        self.device.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.device.clicked.connect(self._explain_device)
        self.device.hide()
        self.panel = _button(self.tr("Side panel"), "panel")
        self.panel.setText(f" {self.tr('Sampling')}")  # Qt leaves too little beside the icon
        self.panel.setCheckable(True)
        self.panel.setChecked(True)
        self.panel.toggled.connect(self.panel_toggled)
        self._arrange()
        self._rescale()

    @Slot(object)
    def show_model(self, info: ModelInfo) -> None:
        """Show which model answers and where it runs."""
        self.model.show_model(info)
        self.device.setText(f"{info.device_label} · {info.precision}")
        words = f"{where_it_runs(info)}\n{precision_explained(info.precision)}"
        self.device.setToolTip(_as_text(words))
        self.device.setAccessibleDescription(words)
        self.device.show()

    @Slot()
    def show_no_model(self) -> None:
        """Show that no model is there."""
        self.model.show_no_model()
        self.device.hide()

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw the icons anew in the theme's colours."""
        self.sidebar.setIcon(icon("sidebar", colours.text))
        self.new_chat.setIcon(icon("new-chat", colours.text))
        self.panel.setIcon(icon("sliders", colours.text))
        self.model.arrow = icon("expand", colours.muted)
        self.model.update()

    def changeEvent(self, event: QEvent) -> None:
        """Larger text needs larger icons."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._rescale()
            self._share_room()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """In a narrow window the icons speak for themselves and the model's name keeps its room."""
        super().resizeEvent(event)
        self._share_room()

    @Slot(bool)
    def _on_sidebar_toggled(self, shown: bool) -> None:
        self.new_chat.setVisible(not shown)
        self.sidebar_toggled.emit(shown)

    def _rescale(self) -> None:
        for button in (self.sidebar, self.new_chat, self.panel):
            button.setIconSize(icon_size(self.font()))

    def _share_room(self) -> None:
        narrow = self.width() < _NARROW * QFontMetrics(self.font()).averageCharWidth()
        styles = Qt.ToolButtonStyle
        self.panel.setToolButtonStyle(
            styles.ToolButtonIconOnly if narrow else styles.ToolButtonTextBesideIcon
        )

    def _arrange(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(2 * UNIT, 2 * UNIT, 2 * UNIT, 2 * UNIT)
        row.setSpacing(UNIT)
        row.addWidget(self.sidebar)
        row.addWidget(self.new_chat)
        row.addStretch(1)
        row.addWidget(self.model)
        row.addSpacing(UNIT)
        row.addWidget(self.device)
        row.addStretch(1)
        row.addWidget(self.panel)

    @Slot()
    def _explain_device(self) -> None:
        place = self.device.mapToGlobal(self.device.rect().bottomLeft())
        QToolTip.showText(place, self.device.toolTip(), self.device)


class _ModelButton(QToolButton):
    """The model's name, which gives way when the window is narrow; its menu says all of it."""

    settings_requested = Signal()

    def __init__(self) -> None:
        super().__init__(objectName="modelButton")
        self._name = ""
        self.arrow = QIcon()
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self.setMinimumWidth(16 * UNIT)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._facts = _Facts()
        menu = QMenu(self)
        facts = QWidgetAction(menu)
        facts.setDefaultWidget(self._facts)
        menu.addAction(facts)
        menu.addSeparator()
        settings = menu.addAction(f"{self.tr('Settings…')}\t{BY_NAME['settings'].native}")
        settings.triggered.connect(lambda: self.settings_requested.emit())
        self.setMenu(menu)
        self.hide()

    def text(self) -> str:
        """The whole name, also where there is no room for it."""
        return self._name

    def show_model(self, info: ModelInfo) -> None:
        """Show its name, and in the menu what there is to know."""
        threads = self.tr("Threads: %1").replace("%1", whole(info.threads))
        facts = (where_it_runs(info), precision_explained(info.precision), threads)
        self._say(info.name, *facts)

    def show_no_model(self) -> None:
        """Show that there is none."""
        self._say(self.tr("No model"), self.tr("No model is loaded."))

    def _say(self, name: str, *facts: str) -> None:
        self._name = name
        self._facts.say(name, *facts)
        self.setToolTip(_as_text(self.tr("Model: %1").replace("%1", name)))
        self.setAccessibleName(self.tr("Model: %1").replace("%1", name))
        self.setAccessibleDescription("\n".join(facts))
        self.updateGeometry()
        self._elide()
        self.show()

    def sizeHint(self) -> QSize:
        """As wide as the whole name."""
        hint = super().sizeHint()
        hint.setWidth(self._advance() + self._beside_text())
        return hint

    def minimumSizeHint(self) -> QSize:
        """The name may give way."""
        return QSize(16 * UNIT, super().sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the name in."""
        super().resizeEvent(event)
        self._elide()

    def changeEvent(self, event: QEvent) -> None:
        """Fit the name in."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._elide()

    def paintEvent(self, event: QPaintEvent) -> None:
        """The button with a small arrow, as it opens a menu."""
        super().paintEvent(event)
        side = icon_size(self.font()).width()
        left = self.width() - side - UNIT
        painter = QPainter(self)
        self.arrow.paint(painter, left, (self.height() - side) // 2, side, side)

    def _elide(self) -> None:
        room = self.width() - self._beside_text() + 2
        metrics = QFontMetrics(self._bold())
        text = metrics.elidedText(self._name, Qt.TextElideMode.ElideRight, room)
        super().setText(text.replace("&", "&&"))

    def _advance(self) -> int:
        return QFontMetrics(self._bold()).horizontalAdvance(self._name)

    def _beside_text(self) -> int:
        return icon_size(self.font()).width() + 6 * UNIT

    def _bold(self) -> QFont:
        return scaled_font(self.font(), 1.0, weight=QFont.Weight.DemiBold)


class _Facts(QWidget):
    """A name and lines about it, in a menu."""

    def __init__(self) -> None:
        super().__init__()
        self._title = QLabel()
        self._title.setProperty("role", "title")
        self._lines = QLabel()
        self._lines.setProperty("role", "muted")
        column = QVBoxLayout(self)
        column.setContentsMargins(3 * UNIT, 2 * UNIT, 3 * UNIT, 2 * UNIT)
        column.setSpacing(UNIT)
        for label in (self._title, self._lines):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
            column.addWidget(label)
        self._rescale()

    def say(self, title: str, *lines: str) -> None:
        self._title.setText(title)
        self._lines.setText("\n".join(lines))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._rescale()

    def _rescale(self) -> None:
        width = _FACTS * QFontMetrics(self.font()).averageCharWidth()
        for label in (self._title, self._lines):
            label.setMinimumWidth(width)


def _button(words: str, key: str) -> QToolButton:
    button = QToolButton()
    button.setText(words)
    button.setAccessibleName(words)
    button.setToolTip(with_key(words, key))
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    return button


def _as_text(words: str) -> str:
    """For a tooltip, which would take a name with angle brackets for markup."""
    return f"<p>{escape(words)}</p>".replace("\n", "<br>")
