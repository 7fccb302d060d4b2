"""The bar at the top: a new chat, the model and where it runs, the side panel."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QFont, QFontMetrics, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QToolButton,
    QToolTip,
    QWidget,
)

from app.ui.icons import icon
from app.ui.states import ModelInfo
from app.ui.theme import UNIT, Colours, scaled_font
from app.ui.wording import precision_explained, where_it_runs

_NARROW = 140 * UNIT


class Header(QFrame):
    """Shows; what its buttons do is for others to decide."""

    new_chat_requested = Signal()
    previous_chat_requested = Signal()
    panel_toggled = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("header")
        self.new_chat = self._button(self.tr("New chat"), self.tr("New chat (Ctrl+N)"))
        self.new_chat.clicked.connect(self.new_chat_requested)
        self.previous_chat = self._button(
            self.tr("Previous chat"), self.tr("Previous chat (Ctrl+Up)")
        )
        self.previous_chat.clicked.connect(self.previous_chat_requested)
        self.previous_chat.hide()
        self.model = _ElidedLabel()
        self.model.setFont(scaled_font(self.font(), 1.0, weight=QFont.Weight.DemiBold))
        self.model.setAccessibleName(self.tr("Model"))
        self.device = QToolButton(objectName="deviceChip")
        self.device.setAccessibleName(self.tr("Where the model runs"))
        self.device.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.device.clicked.connect(self._explain_device)
        self.device.hide()
        self.panel = self._button(self.tr("Sampling"), self.tr("Side panel (Ctrl+.)"))
        self.panel.setCheckable(True)
        self.panel.setChecked(True)
        self.panel.toggled.connect(self.panel_toggled)
        row = QHBoxLayout(self)
        row.setContentsMargins(3 * UNIT, 2 * UNIT, 3 * UNIT, 2 * UNIT)
        row.setSpacing(2 * UNIT)
        row.addWidget(self.new_chat)
        row.addWidget(self.previous_chat)
        row.addStretch(1)
        row.addWidget(self.model)
        row.addWidget(self.device)
        row.addStretch(1)
        row.addWidget(self.panel)

    @Slot(object)
    def show_model(self, info: ModelInfo) -> None:
        """Show which model answers and where it runs."""
        self.model.set_text(info.name)
        self.device.setText(f"{info.device_label} · {info.precision}")
        words = f"{where_it_runs(info)}\n{precision_explained(info.precision)}"
        self.device.setToolTip(words)
        self.device.setAccessibleDescription(words)
        self.device.show()

    @Slot()
    def show_no_model(self) -> None:
        """Show that no model is there."""
        self.model.set_text("")
        self.device.hide()

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw the icons anew in the theme's colours."""
        self.new_chat.setIcon(icon("new-chat", colours.text))
        self.previous_chat.setIcon(icon("previous-chat", colours.text))
        self.panel.setIcon(icon("sliders", colours.text))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """In a narrow window the icons speak for themselves and the model's name keeps its room."""
        super().resizeEvent(event)
        style = Qt.ToolButtonStyle.ToolButtonTextBesideIcon
        if self.width() < _NARROW:
            style = Qt.ToolButtonStyle.ToolButtonIconOnly
        for button in (self.new_chat, self.previous_chat, self.panel):
            button.setToolButtonStyle(style)

    def _button(self, text: str, tip: str) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setToolTip(tip)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button

    @Slot()
    def _explain_device(self) -> None:
        place = self.device.mapToGlobal(self.device.rect().bottomLeft())
        QToolTip.showText(place, self.device.toolTip(), self.device)


class _ElidedLabel(QLabel):
    """One line that gives way when the window is narrow; the whole of it is in the tooltip."""

    def __init__(self) -> None:
        super().__init__()
        self._whole = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self.setMinimumWidth(10 * UNIT)

    def set_text(self, text: str) -> None:
        self._whole = text
        self.setToolTip(text)
        self.setText(text)
        self._elide()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        metrics = QFontMetrics(self.font())
        text = metrics.elidedText(self._whole, Qt.TextElideMode.ElideRight, self.width())
        if self.width() >= metrics.horizontalAdvance(self._whole):
            text = self._whole
        super().setText(text)

    def sizeHint(self) -> object:
        hint = super().sizeHint()
        hint.setWidth(QFontMetrics(self.font()).horizontalAdvance(self._whole) + UNIT)
        return hint
