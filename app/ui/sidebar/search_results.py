"""What a search has found, in the place of the list of chats."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from html import escape

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QPointF,
    QRectF,
    QSize,
    Qt,
    Signal,
    Slot,
)
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.ui.sidebar.chat_model import shown_title
from app.ui.states import ShownHit
from app.ui.theme import LIGHT, UNIT, Colours, scaled_font

_HIT_ROLE = Qt.ItemDataRole.UserRole
_NOWHERE = QModelIndex()
_LINES = 2  # of an excerpt


class SearchResults(QListView):
    """One row a hit; Enter or a click opens it."""

    hit_chosen = Signal(object)  # ShownHit
    left = Signal()  # upwards or by Esc: back to the field

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("chatList")
        self.setAccessibleName(self.tr("Found"))
        self.hits = _HitModel(self)
        self.row = _HitRow(self)
        self._words = ""
        self._colours = LIGHT
        self.setModel(self.hits)
        self.setItemDelegate(self.row)
        self.setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.viewport().setAutoFillBackground(False)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.clicked.connect(self._choose)

    def show_hits(self, hits: list[ShownHit]) -> None:
        """Show these, from the first."""
        self.hits.show(hits)
        self._words = "" if hits else self.tr("Nothing was found.")
        self.scrollToTop()
        self.viewport().update()

    def enter(self) -> None:
        """The keyboard comes from the field above."""
        if self.hits.rowCount():
            self.setFocus(Qt.FocusReason.TabFocusReason)
            self.setCurrentIndex(self.hits.index(0))

    def choose_first(self) -> None:
        """Open what is at the top."""
        if self.hits.rowCount():
            self._choose(self.hits.index(0))

    def recolour(self, colours: Colours) -> None:
        """Use the theme's colours."""
        self._colours = colours
        self.row.colours = colours
        self.viewport().update()

    def event(self, event: QEvent) -> bool:
        """Esc is meant for the list, not for a reply that is being written."""
        if event.type() == QEvent.Type.ShortcutOverride and event.key() == Qt.Key.Key_Escape:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens; Esc, and Up from the first row, go back to the field."""
        index, key = self.currentIndex(), event.key()
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and index.isValid():
            self._choose(index)
        elif key == Qt.Key.Key_Escape or (key == Qt.Key.Key_Up and index.row() <= 0):
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Say so if there is nothing."""
        super().paintEvent(event)
        if self._words and not self.hits.rowCount():
            painter = QPainter(self.viewport())
            painter.setPen(QColor(self._colours.muted))
            place = self.viewport().rect().adjusted(3 * UNIT, 3 * UNIT, -3 * UNIT, 0)
            flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop
            painter.drawText(place, flags | Qt.TextFlag.TextWordWrap, self._words)

    def changeEvent(self, event: QEvent) -> None:
        """Rows are as high as their text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.scheduleDelayedItemsLayout()

    @Slot(QModelIndex)
    def _choose(self, index: QModelIndex) -> None:
        self.hit_chosen.emit(index.data(_HIT_ROLE))


class _HitModel(QAbstractListModel):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._hits: list[ShownHit] = []

    def show(self, hits: list[ShownHit]) -> None:
        self.beginResetModel()
        self._hits = hits
        self.endResetModel()

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._hits)

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = 0) -> object:
        if not index.isValid() or index.row() >= len(self._hits):
            return None
        hit = self._hits[index.row()]
        title = shown_title(hit.title) or self.tr("New chat")
        if role == Qt.ItemDataRole.DisplayRole:
            return title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{title}: {hit.excerpt}" if hit.excerpt else title
        if role == Qt.ItemDataRole.ToolTipRole:
            words = f"{title}\n{hit.excerpt}" if hit.excerpt else title
            return f"<p>{escape(words)}</p>".replace("\n", "<br>")  # never markup
        return hit if role == _HIT_ROLE else None


class _HitRow(QStyledItemDelegate):
    """The chat's title, and below it the words around what was found, which is in bold."""

    colours = LIGHT

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex) -> QSize:
        small = QFontMetrics(scaled_font(option.font, 0.9)).lineSpacing()
        below = _LINES * small if index.data(_HIT_ROLE).excerpt else 0
        return QSize(10 * UNIT, QFontMetrics(option.font).height() + below + 5 * UNIT)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        hit: ShownHit = index.data(_HIT_ROLE)
        c = self.colours
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        chosen = bool(option.state & QStyle.StateFlag.State_HasFocus)
        hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
        if chosen or hovered:
            painter.setPen(QPen(QColor(c.accent), 1) if chosen else Qt.PenStyle.NoPen)
            painter.setBrush(QColor(c.chosen if chosen else c.hover))
            ground = QRectF(option.rect).adjusted(0.5, 1.5, -0.5, -1.5)
            painter.drawRoundedRect(ground, 2 * UNIT, 2 * UNIT)
        inside = QRectF(option.rect).adjusted(3 * UNIT, 2 * UNIT, -3 * UNIT, -2 * UNIT)
        font = QFont(option.font)
        title = index.data(Qt.ItemDataRole.DisplayRole)
        marks = hit.title_marks if title == hit.title else ()
        height = self._draw(painter, inside, font, title, marks, c.text, lines=1)
        below = inside.adjusted(0, height + UNIT // 2, 0, 0)
        small = scaled_font(font, 0.9)
        self._draw(painter, below, small, hit.excerpt, hit.marks, c.muted, lines=_LINES)
        painter.restore()

    def _draw(
        self,
        painter: QPainter,
        place: QRectF,
        font: QFont,
        text: str,
        marks: tuple[tuple[int, int], ...],
        colour: str,
        *,
        lines: int,
    ) -> float:
        """Some lines of text with marks in bold; returns their height."""
        bold = QTextCharFormat()
        bold.setFontWeight(QFont.Weight.Bold)
        bold.setForeground(QColor(self.colours.text))
        spans = []
        for start, end in marks:
            span = QTextLayout.FormatRange()
            span.start, span.length = _units(text[:start]), _units(text[start:end])
            span.format = bold
            spans.append(span)
        layout, shown = _laid_out(text, font, spans, place.width(), lines)
        if shown < _units(text):  # the rest has no room
            cut = text.encode("utf-16-le", "surrogatepass")[: 2 * max(0, shown - 2)]
            text = cut.decode("utf-16-le", "ignore").rstrip() + "…"
            layout, _ = _laid_out(text, font, spans, place.width(), lines)
        painter.setPen(QColor(colour))
        layout.draw(painter, place.topLeft())
        return sum(layout.lineAt(line).height() for line in range(layout.lineCount()))


def _laid_out(
    text: str, font: QFont, spans: list[QTextLayout.FormatRange], width: float, lines: int
) -> tuple[QTextLayout, int]:
    """The text in at most so many lines, and how much of it they hold, in UTF-16 units."""
    layout = QTextLayout(text, font)
    layout.setFormats(spans)
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    layout.setTextOption(option)
    layout.beginLayout()
    y, shown = 0.0, 0
    for _ in range(lines):
        line = layout.createLine()
        if not line.isValid():
            break
        line.setLineWidth(width)
        line.setPosition(QPointF(0, y))
        y += line.height()
        shown = line.textStart() + line.textLength()
    layout.endLayout()
    return layout, shown


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
