"""The list of chats: choosing one by mouse or keys, its menu, renaming in place."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from collections import Counter
from collections.abc import Callable

from PySide6.QtCore import QEvent, QModelIndex, QPoint, QRect, Qt, QTimer, Signal, Slot
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QHideEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemDelegate,
    QAbstractItemView,
    QApplication,
    QListView,
    QMenu,
    QStyle,
    QWidget,
)

from app.ui.sidebar.chat_model import LINE_ROLE, ChatModel
from app.ui.sidebar.chat_row import BEATS, ChatRow
from app.ui.sidebar.groups import Row, grouped
from app.ui.states import Activity, ChatLine
from app.ui.theme import LIGHT, UNIT, Colours

_PAUSE = 150  # ms that the keys rest on a chat before it is opened
_BEAT = 400  # ms


class ChatList(QListView):
    """Shows thousands of chats without delay; keeps selection, place and a rename as they change.

    The selected row is the open chat; going through the rows by keys opens where one stays.
    """

    chat_chosen = Signal(int)
    chat_entered = Signal(int)  # by click or Enter: now one wants to write there
    rename_requested = Signal(int, str)
    pin_requested = Signal(int, bool)
    duplicate_requested = Signal(int)
    export_requested = Signal(int)
    archive_requested = Signal(int)
    delete_requested = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colours = LIGHT
        self._open: int | None = None
        self._quiet = False
        self._resting = QTimer(self, singleShot=True, interval=_PAUSE)
        self._resting.timeout.connect(self._choose_current)
        self._beating = QTimer(self, interval=_BEAT)
        self._beating.timeout.connect(self._beat)
        self.menu: QMenu | None = None
        self.setObjectName("chatList")
        self.setAccessibleName(self.tr("Chats"))
        self.chats = ChatModel(self)
        self.row = ChatRow(self)
        self.setModel(self.chats)
        self.setItemDelegate(self.row)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.viewport().setAutoFillBackground(False)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.chats.renamed.connect(self.rename_requested)
        self.clicked.connect(self._enter)

    def show_chats(self, lines: list[ChatLine]) -> None:
        """Show exactly these, in this order, under headings."""
        before = {self.chats.line(row).id: row for row in self._rows_in_view()}
        place = self.verticalScrollBar().value()
        self._quiet = True
        self.chats.show(grouped(lines))
        self._quiet = False
        if place > 0:
            self._stay(before, place)
        if not self._resting.isActive():  # otherwise someone is on the way to another chat
            self.select_chat(self._open)
        self._mind_the_beat()

    def update_chat(self, line: ChatLine) -> None:
        """Show what has changed in one chat."""
        self.chats.update(line)
        self._mind_the_beat()

    def select_chat(self, chat_id: int | None) -> None:
        """Show which chat is open."""
        self._resting.stop()
        self._open = chat_id
        row = None if chat_id is None else self.chats.row_of(chat_id)
        index = QModelIndex() if row is None else self.chats.index(row)
        if index == self.currentIndex() and self.selectionModel().isSelected(index):
            return
        self._quiet = True
        self.setCurrentIndex(index)
        if not index.isValid():
            self.clearSelection()
        self._quiet = False

    def recolour(self, colours: Colours) -> None:
        """Use the theme's colours."""
        self._colours = colours
        self.row.recolour(colours)
        self.viewport().update()

    def rename(self, index: QModelIndex) -> None:
        """Offer the title for editing."""
        if index.isValid():
            self.scrollTo(index)
            self.edit(index)

    def currentChanged(self, current: QModelIndex, previous: QModelIndex) -> None:
        """A row was gone to; whether one stays there shows in a moment."""
        super().currentChanged(current, previous)
        if not self._quiet and current.isValid():
            self._resting.start()

    def closeEditor(self, editor: QWidget, _hint: QAbstractItemDelegate.EndEditHint) -> None:
        """A rename ends there: Tab does not go on to the next title, which would open its chat."""
        super().closeEditor(editor, QAbstractItemDelegate.EndEditHint.NoHint)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens, F2 renames, Delete deletes; letters go to a chat that begins with them."""
        index = self.currentIndex()
        key = event.key()
        focus = QApplication.focusWidget()
        if focus is not None and self.viewport().isAncestorOf(focus):
            event.accept()  # what the field of a rename had no use for is not meant for the list
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and index.isValid():
            self._enter(index)
        elif key == Qt.Key.Key_F2:
            self.rename(index)
        elif key == Qt.Key.Key_Delete and index.isValid():
            self.delete_requested.emit(index.data(LINE_ROLE).id)
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Only the left button chooses, and not where the menu's button is."""
        place = event.position().toPoint()
        index = self._chat_at(place)
        if event.button() != Qt.MouseButton.LeftButton:
            event.accept()  # a menu follows: the chat stays closed
        elif index.isValid() and self.row.menu_rect(self.visualRect(index)).contains(place):
            self._open_menu(index, self.row.menu_rect(self.visualRect(index)).bottomLeft())
        else:
            super().mousePressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """The menu of the row under the mouse or, by key, of the current one."""
        if event.reason() == QContextMenuEvent.Reason.Keyboard:
            index = self.currentIndex()
            self.scrollTo(index)
            place = self.row.menu_rect(self.visualRect(index)).bottomLeft()
        else:
            place = event.pos()
            index = self._chat_at(place)
        if index.isValid():
            self._open_menu(index, place)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Without chats, say what will be here."""
        super().paintEvent(event)
        painter = QPainter(self.viewport())
        if self.hasFocus() and not self.currentIndex().isValid():  # else a row shows the focus
            painter.setPen(QColor(self._colours.accent))
            painter.drawRoundedRect(self.viewport().rect().adjusted(0, 0, -1, -1), UNIT, UNIT)
        if self.chats.rowCount() == 0:
            painter.setPen(QColor(self._colours.muted))
            place = self.viewport().rect().adjusted(3 * UNIT, 3 * UNIT, -3 * UNIT, 0)
            flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop
            words = self.tr("Your chats will be listed here.")
            painter.drawText(place, flags | Qt.TextFlag.TextWordWrap, words)

    def changeEvent(self, event: QEvent) -> None:
        """Rows are as high as their text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.scheduleDelayedItemsLayout()

    def showEvent(self, event: QShowEvent) -> None:
        """What is written shows again."""
        super().showEvent(event)
        self._mind_the_beat()

    def hideEvent(self, event: QHideEvent) -> None:
        """Nothing moves unseen."""
        super().hideEvent(event)
        self._beating.stop()

    @Slot()
    def _choose_current(self) -> None:
        index = self.currentIndex()
        if index.isValid() and index.data(LINE_ROLE).id != self._open:
            self._open = index.data(LINE_ROLE).id
            self.chat_chosen.emit(self._open)

    @Slot(QModelIndex)
    def _enter(self, index: QModelIndex) -> None:
        self._resting.stop()
        chat_id = index.data(LINE_ROLE).id
        if chat_id != self._open:
            self._open = chat_id
            self.chat_chosen.emit(chat_id)
        self.chat_entered.emit(chat_id)

    def _open_menu(self, index: QModelIndex, place: QPoint) -> None:
        line: Row = index.data(LINE_ROLE)
        if not isinstance(line, ChatLine):
            return
        chat_id, pinned = line.id, line.pinned
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setMinimumWidth(28 * self.fontMetrics().averageCharWidth())
        actions: tuple[tuple[str, Callable[[], object]], ...] = (
            (self.tr("Rename") + "\tF2", lambda: self._rename_chat(chat_id)),
            (
                self.tr("Unpin") if pinned else self.tr("Pin"),
                lambda: self.pin_requested.emit(chat_id, not pinned),
            ),
            (self.tr("Duplicate"), lambda: self.duplicate_requested.emit(chat_id)),
            (self.tr("Export…"), lambda: self.export_requested.emit(chat_id)),
            (self.tr("Archive"), lambda: self.archive_requested.emit(chat_id)),
            (
                self.tr("Delete") + "\t" + self.tr("Del"),
                lambda: self.delete_requested.emit(chat_id),
            ),
        )
        for words, action in actions:
            menu.addAction(words).triggered.connect(action)
        menu.aboutToHide.connect(self._on_menu_closed)
        self.menu = menu
        self.row.menu_chat = chat_id
        self.viewport().update()
        menu.popup(self.viewport().mapToGlobal(place))

    def _chat_at(self, place: QPoint) -> QModelIndex:
        """The chat there, which a heading is not."""
        index = self.indexAt(place)
        return index if index.flags() else QModelIndex()

    def rename_open(self) -> None:
        """Let the user type another name for the chat that is open."""
        if self._open is not None:
            self._rename_chat(self._open)

    def _rename_chat(self, chat_id: int) -> None:
        row = self.chats.row_of(chat_id)
        if row is not None:
            self.rename(self.chats.index(row))

    @Slot()
    def _on_menu_closed(self) -> None:
        self.menu = None
        self.row.menu_chat = None
        self.viewport().update()

    def _rows_in_view(self) -> range:
        height = self._row_height()
        top = self.verticalScrollBar().value()
        last = (top + self.viewport().height()) // height
        return range(top // height, min(last + 1, self.chats.rowCount()))

    def _row_height(self) -> int:
        return max(1, self.sizeHintForRow(0))

    def _stay(self, before: dict[int, int], place: int) -> None:
        """Keep most of the rows that were in view where they were."""
        after = {self.chats.line(row).id: row for row in range(self.chats.rowCount())}
        moves = Counter(after[i] - row for i, row in before.items() if i in after)
        if moves:
            self.executeDelayedItemsLayout()
            moved = moves.most_common(1)[0][0] * self._row_height()
            self.verticalScrollBar().setValue(place + moved)

    def _mind_the_beat(self) -> None:
        animated = self.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) > 0
        answering = bool(self.chats.rows_with(Activity.ANSWERING))
        if animated and answering and self.isVisible():
            if not self._beating.isActive():
                self._beating.start()
        else:
            self._beating.stop()

    @Slot()
    def _beat(self) -> None:
        self.row.beat = (self.row.beat + 1) % BEATS
        for row in self.chats.rows_with(Activity.ANSWERING):
            place: QRect = self.visualRect(self.chats.index(row))
            self.viewport().update(place)
