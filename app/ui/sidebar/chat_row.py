"""How one chat is drawn in the list, and the field in which it is renamed."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QIcon, QPainter, QPen
from PySide6.QtWidgets import (
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.ui.icons import icon
from app.ui.sidebar.chat_model import LINE_ROLE, LONGEST_TITLE
from app.ui.sidebar.groups import Heading
from app.ui.states import Activity, ChatLine
from app.ui.theme import LIGHT, UNIT, Colours, scaled_font

BEATS = 3  # of the three dots, one after the other


class ChatRow(QStyledItemDelegate):
    """Draws a title with a mark of what goes on; under the mouse, with a button for its menu."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.beat = 0
        self.menu_chat: int | None = None  # whose menu is open
        self.recolour(LIGHT)

    def recolour(self, colours: Colours) -> None:
        """Use the theme's colours."""
        self._colours = colours
        self._more: QIcon = icon("more", colours.text)

    def sizeHint(self, option: QStyleOptionViewItem, _index: QModelIndex) -> QSize:
        """All rows are equally high."""
        return QSize(10 * UNIT, QFontMetrics(option.font).height() + 5 * UNIT)

    def menu_rect(self, row: QRect) -> QRect:
        """Where the menu's button is in a row."""
        ground = _ground(row)
        side = ground.height() - 2 * UNIT
        return QRect(ground.right() - side - UNIT // 2, ground.top() + UNIT, side, side)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        """Draw the row."""
        line: ChatLine | Heading = index.data(LINE_ROLE)
        if isinstance(line, Heading):
            self._draw_heading(painter, option, line.title)
            return
        state = option.state
        chosen = bool(state & QStyle.StateFlag.State_Selected)
        under_mouse = bool(state & QStyle.StateFlag.State_MouseOver)
        under_mouse = under_mouse or line.id == self.menu_chat
        focused = bool(state & QStyle.StateFlag.State_HasFocus)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._draw_ground(painter, option.rect, chosen, under_mouse, focused)
        button = self.menu_rect(option.rect)
        ground = _ground(option.rect)
        right = ground.right() - 2 * UNIT
        if under_mouse:
            side = round(QFontMetrics(option.font).height() * 1.2)
            place = QRect(0, 0, side, side)
            place.moveCenter(button.center())
            self._more.paint(painter, place)
            right = button.left() - UNIT
        elif line.activity is not Activity.QUIET:
            unit = QFontMetrics(option.font).height() / 3.5
            self._draw_mark(painter, line.activity, QRectF(button).center(), unit)
            right = button.left() - UNIT
        text = QRect(ground.left() + 3 * UNIT, ground.top(), 0, ground.height())
        text.setRight(right)
        self._draw_title(painter, option.font, text, index, chosen=chosen)
        painter.restore()

    def _draw_heading(self, painter: QPainter, option: QStyleOptionViewItem, title: str) -> None:
        painter.save()
        font = scaled_font(option.font, 0.85)
        font.setWeight(QFont.Weight.DemiBold)
        painter.setFont(font)
        painter.setPen(QColor(self._colours.muted))
        place = option.rect.adjusted(3 * UNIT, 0, -3 * UNIT, -UNIT)
        flags = Qt.AlignmentFlag.AlignBottom | Qt.AlignmentFlag.AlignLeft
        painter.drawText(place, flags | Qt.TextFlag.TextSingleLine, title)
        painter.restore()

    def _draw_ground(
        self, painter: QPainter, row: QRect, chosen: bool, under_mouse: bool, focused: bool
    ) -> None:
        c = self._colours
        colour = c.chosen if chosen else c.hover if under_mouse else None
        if colour is None and not focused:
            return
        painter.setPen(QPen(QColor(c.accent), 1) if focused else Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colour) if colour else Qt.BrushStyle.NoBrush)
        ground = QRectF(_ground(row)).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(ground, 2 * UNIT, 2 * UNIT)

    def _draw_title(
        self, painter: QPainter, font: QFont, place: QRect, index: QModelIndex, *, chosen: bool
    ) -> None:
        c = self._colours
        font = QFont(font)
        untitled = not index.data(LINE_ROLE).title
        unread = index.data(LINE_ROLE).activity is Activity.UNREAD
        font.setItalic(untitled)
        if unread:
            font.setWeight(QFont.Weight.DemiBold)
        painter.setFont(font)
        painter.setPen(QColor(c.muted if untitled and not chosen else c.text))
        title = index.data(Qt.ItemDataRole.DisplayRole)
        # Auto: a title reads in its own direction, and its dots are at its own end.
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)
        metrics = QFontMetrics(font)
        shown = metrics.elidedText(title, Qt.TextElideMode.ElideRight, place.width())
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(place, flags | Qt.TextFlag.TextSingleLine, shown)

    def _draw_mark(
        self, painter: QPainter, activity: Activity, middle: QPointF, unit: float
    ) -> None:
        accent = QColor(self._colours.accent)
        if activity is Activity.WAITING:
            painter.setPen(QPen(QColor(self._colours.muted), unit * 0.4))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawEllipse(middle, unit * 0.85, unit * 0.85)
            return
        painter.setPen(Qt.PenStyle.NoPen)
        if activity is Activity.UNREAD:
            painter.setBrush(accent)
            painter.drawEllipse(middle, unit, unit)
            return
        for number in range(BEATS):
            accent.setAlphaF(1.0 if number == self.beat else 0.45)
            painter.setBrush(accent)
            offset = QPointF((number - 1) * 1.5 * unit, 0)
            painter.drawEllipse(middle + offset, unit / 2, unit / 2)

    def createEditor(
        self, parent: QWidget, _option: QStyleOptionViewItem, _index: QModelIndex
    ) -> QWidget:
        """The field for another title."""
        field = QLineEdit(parent, objectName="renameField")
        field.setMaxLength(LONGEST_TITLE)
        field.setAccessibleName(self.tr("Title of the chat"))
        return field

    def setEditorData(self, editor: QWidget, index: QModelIndex) -> None:
        """Fill the field once: a chat that changes meanwhile does not undo what was typed."""
        if editor.property("filled") is None:
            editor.setProperty("filled", True)
            editor.setText(index.data(Qt.ItemDataRole.EditRole))
            editor.selectAll()

    def setModelData(self, editor: QWidget, model: QObject, index: QModelIndex) -> None:
        """Ask for what was typed."""
        model.setData(index, editor.text())

    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, _index: QModelIndex
    ) -> None:
        """The field covers the row."""
        editor.setGeometry(_ground(option.rect))

    def editorEvent(self, _event: QEvent, *_others: object) -> bool:
        """Nothing here is toggled by a press; the list itself knows where the menu's button is."""
        return False


def _ground(row: QRect) -> QRect:
    return row.adjusted(0, 1, 0, -1)
