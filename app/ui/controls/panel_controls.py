"""Small controls of the side panel whose marks are drawn here, in the colour of their text."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QModelIndex, QPointF, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QCheckBox,
    QComboBox,
    QFrame,
    QLabel,
    QRadioButton,
    QSizePolicy,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionButton,
    QStyleOptionComboBox,
    QStyleOptionToolButton,
    QStyleOptionViewItem,
    QStylePainter,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.ui.theme import UNIT, scaled_font


class ChoiceBox(QComboBox):
    """A list to choose from; says `placeholder` while none of it holds."""

    def __init__(self, placeholder: str) -> None:
        super().__init__()
        self.setPlaceholderText(placeholder)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # not by the wheel: that is for scrolling
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )  # a long name does not make the panel wider
        self.setMinimumContentsLength(8)
        self.setItemDelegate(_Items(self))

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolls the panel."""
        event.ignore()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """The style's frame, the text and an arrow of our own."""
        painter = QStylePainter(self)
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        if self.currentIndex() < 0:
            option.currentText = self.placeholderText()
        painter.setPen(self.palette().windowText().color())
        text = self.rect().adjusted(3 * UNIT, 0, -7 * UNIT, 0)
        shown = self.fontMetrics().elidedText(
            option.currentText, Qt.TextElideMode.ElideRight, text.width()
        )
        painter.drawText(text, Qt.AlignmentFlag.AlignVCenter, shown)
        centre = QPointF(self.width() - 4 * UNIT, self.height() / 2)
        draw_arrow(painter, centre, self.palette().windowText().color(), down=True)


class _Items(QStyledItemDelegate):
    """The list's lines: unlike the usual ones, their look can be set. Separators are thin lines."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        if not _is_separator(index):
            super().paint(painter, option, index)
            return
        place = QRectF(option.rect)
        place.setTop(place.center().y())
        place.setHeight(1)
        painter.fillRect(place, option.palette.mid())

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex) -> QSize:
        size = super().sizeHint(option, index)
        return QSize(size.width(), 2 * UNIT + 1 if _is_separator(index) else size.height())


def _is_separator(index: QModelIndex) -> bool:
    return index.data(Qt.ItemDataRole.AccessibleDescriptionRole) == "separator"


class DotsButton(QToolButton):
    """Three dots that open a menu."""

    def __init__(self, name: str) -> None:
        super().__init__(objectName="dotsButton")
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)

    def sizeHint(self) -> QSize:
        """As tall as a line with its frame, and square."""
        side = self.fontMetrics().height() + 3 * UNIT
        return QSize(side, side)

    def paintEvent(self, event: QPaintEvent) -> None:
        """The style's frame and the dots."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.palette().windowText())
        centre = QRectF(self.rect()).center()
        for step in (-1, 0, 1):
            painter.drawEllipse(centre + QPointF(step * 5, 0), 1.5, 1.5)


class Disclosure(QWidget):
    """A heading that opens and closes what belongs to it, by mouse or keyboard."""

    toggled = Signal(bool)

    def __init__(self, title: str, content: QWidget) -> None:
        super().__init__()
        self.content = content
        self.button = _DisclosureButton(title)
        self.button.toggled.connect(self._on_toggled)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2 * UNIT)
        column.addWidget(self.button)
        column.addWidget(content)
        content.hide()
        self._describe(False)

    @Slot(bool)
    def _on_toggled(self, opened: bool) -> None:
        self.content.setVisible(opened)
        self._describe(opened)
        self.toggled.emit(opened)

    def _describe(self, opened: bool) -> None:
        words = self.tr("Opened; press to close") if opened else self.tr("Closed; press to open")
        self.button.setAccessibleDescription(words)


class _DisclosureButton(QToolButton):
    def __init__(self, title: str) -> None:
        super().__init__(objectName="disclosure")
        self.setText(title)
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def paintEvent(self, _event: QPaintEvent) -> None:
        # Qt centres the text of such a button, whatever a style sheet says.
        painter = QStylePainter(self)
        option = QStyleOptionToolButton()
        self.initStyleOption(option)
        option.text = ""
        painter.drawComplexControl(QStyle.ComplexControl.CC_ToolButton, option)
        colour = self.palette().windowText().color()
        painter.setPen(colour)
        painter.setFont(scaled_font(self.font(), 1.0, weight=QFont.Weight.DemiBold))
        text = self.rect().adjusted(UNIT if self.hasFocus() else 0, 0, -6 * UNIT, 0)
        painter.drawText(text, Qt.AlignmentFlag.AlignVCenter, self.text())
        centre = QPointF(self.width() - 3 * UNIT, self.height() / 2)
        draw_arrow(painter, centre, colour, down=self.isChecked())


class Check(QCheckBox):
    """A check box that is seen as well in the dark."""

    def paintEvent(self, _event: QPaintEvent) -> None:
        """A rounded square, filled and ticked if checked."""
        option = QStyleOptionButton()
        self.initStyleOption(option)
        painter = QStylePainter(self)
        box = _indicator(self, option, QStyle.SubElement.SE_CheckBoxIndicator)
        _prepare(painter, self)
        painter.drawRoundedRect(box, 3, 3)
        if self.isChecked():
            pen = QPen(self.palette().base().color(), 1.8)
            pen.setCapStyle(Qt.PenCapStyle.RoundCap)
            pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
            painter.setPen(pen)
            side, corner = box.width(), box.topLeft()
            ends = ((0.24, 0.54), (0.43, 0.72), (0.78, 0.31))
            painter.drawPolyline([corner + QPointF(x * side, y * side) for x, y in ends])
        painter.drawControl(QStyle.ControlElement.CE_CheckBoxLabel, _label(self, option, True))


class Radio(QRadioButton):
    """A radio button that is seen as well in the dark."""

    def paintEvent(self, _event: QPaintEvent) -> None:
        """A circle, filled and with a dot if checked."""
        option = QStyleOptionButton()
        self.initStyleOption(option)
        painter = QStylePainter(self)
        box = _indicator(self, option, QStyle.SubElement.SE_RadioButtonIndicator)
        _prepare(painter, self)
        painter.drawEllipse(box)
        if self.isChecked():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self.palette().base())
            painter.drawEllipse(box.center(), box.width() * 0.2, box.width() * 0.2)
        painter.drawControl(QStyle.ControlElement.CE_RadioButtonLabel, _label(self, option, False))


def _indicator(
    button: QAbstractButton, option: QStyleOptionButton, element: QStyle.SubElement
) -> QRectF:
    box = QRectF(button.style().subElementRect(element, option, button))
    side = min(box.width(), box.height()) - 2  # the border lies half outside
    place = QRectF(0, 0, side, side)
    place.moveCenter(box.center())
    return place


def _prepare(painter: QPainter, button: QAbstractButton) -> None:
    """Pen and brush for the indicator: filled if checked, a strong border if in focus."""
    colours = button.palette()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    strong = button.isChecked() or button.hasFocus() or button.underMouse()
    edge = colours.accent() if strong else colours.placeholderText()
    if button.isChecked() and button.hasFocus():
        edge = colours.windowText()
    painter.setPen(QPen(edge.color(), 2 if button.hasFocus() else 1))
    painter.setBrush(colours.accent() if button.isChecked() else colours.base())


def _label(button: QAbstractButton, option: QStyleOptionButton, check: bool) -> QStyleOptionButton:
    """Where the style puts the words."""
    element = (
        QStyle.SubElement.SE_CheckBoxContents if check else QStyle.SubElement.SE_RadioButtonContents
    )
    option.rect = button.style().subElementRect(element, option, button)
    return option


class Rule(QFrame):
    """A thin line between two parts of the panel."""

    def __init__(self) -> None:
        super().__init__(objectName="rule")
        self.setFixedHeight(1)


class Words(QLabel):
    """Plain text of a size that stays in proportion to the window's, whatever that becomes."""

    def __init__(
        self, text: str = "", *, scale: float = 1.0, bold: bool = False, role: str = ""
    ) -> None:
        super().__init__(text)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setProperty("role", role)
        weight = QFont.Weight.DemiBold if bold else QFont.Weight.Normal
        self.setFont(scaled_font(self.font(), scale, weight=weight))


class Trouble(Words):
    """One sentence on why what was typed is not taken; takes no room while there is none."""

    def __init__(self) -> None:
        super().__init__(scale=0.9, role="danger")
        self.hide()

    def say(self, words: str) -> None:
        """Show these words, or nothing for ""."""
        self.setText(words)
        self.setVisible(bool(words))


def heading(text: str) -> Words:
    """The title of a part of the panel."""
    return Words(text, bold=True)


def hint(text: str = "") -> Words:
    """Small muted words."""
    return Words(text, scale=0.9, role="muted")


def draw_arrow(painter: QPainter, centre: QPointF, colour: QColor, *, down: bool) -> None:
    """A thin arrow head that points down or to the right."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    pen = QPen(colour, 1.6)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    ends = ((-4, -2), (0, 2), (4, -2)) if down else ((-2, -4), (2, 0), (-2, 4))
    painter.drawPolyline([centre + QPointF(*end) for end in ends])
