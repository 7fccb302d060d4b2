"""The chats as Qt's views ask for them; they change in steps, so that a view keeps its place."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from html import escape

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt, Signal

from app.ui.sidebar.groups import Heading, Row
from app.ui.states import Activity, ChatLine

LONGEST_TITLE = 200  # characters
LINE_ROLE = Qt.ItemDataRole.UserRole
_NOWHERE = QModelIndex()


class ChatModel(QAbstractListModel):
    """One row for each chat and each heading, in the order they were given."""

    renamed = Signal(int, str)  # asked for, by the view's editor

    def __init__(self, parent: object = None) -> None:
        super().__init__(parent)
        self._lines: list[Row] = []

    def show(self, lines: list[Row]) -> None:
        """Become these lines by removing, moving, inserting and changing rows."""
        wanted = {line.id: line for line in lines}
        self._remove_others(wanted)
        present = {line.id for line in self._lines}
        self._put_in_order([line.id for line in lines if line.id in present])
        self._insert_missing(lines)
        for row, line in enumerate(lines):
            self._change(row, line)

    def update(self, line: ChatLine) -> None:
        """Change one line in place; a line that is not there is none of ours."""
        row = self.row_of(line.id)
        if row is not None:
            self._change(row, line)

    def row_of(self, chat_id: int) -> int | None:
        """Where that chat stands."""
        rows = (row for row, line in enumerate(self._lines) if line.id == chat_id)
        return next(rows, None)

    def line(self, row: int) -> Row:
        """The chat or heading in that row."""
        return self._lines[row]

    def rows_with(self, activity: Activity) -> list[int]:
        """The rows of all chats in which that goes on."""
        return [
            row
            for row, line in enumerate(self._lines)
            if isinstance(line, ChatLine) and line.activity is activity
        ]

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = _NOWHERE) -> int:
        """How many chats and headings there are."""
        return 0 if parent.isValid() else len(self._lines)

    def flags(self, index: QModelIndex | QPersistentModelIndex) -> Qt.ItemFlag:
        """A title can be edited; nothing can be done with a heading."""
        if index.isValid() and isinstance(self._lines[index.row()], Heading):
            return Qt.ItemFlag.NoItemFlags
        return super().flags(index) | Qt.ItemFlag.ItemIsEditable

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = 0) -> object:
        """A title, and in words what goes on."""
        if not index.isValid() or index.row() >= len(self._lines):
            return None
        line = self._lines[index.row()]
        if isinstance(line, Heading):
            return {Qt.ItemDataRole.DisplayRole: line.title, LINE_ROLE: line}.get(role)
        title = shown_title(line.title) or self.tr("New chat")
        if role == Qt.ItemDataRole.DisplayRole:
            return title
        if role == Qt.ItemDataRole.EditRole:
            return shown_title(line.title)
        if role == LINE_ROLE:
            return line
        activity = self._activity(line.activity)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{title}, {activity}" if activity else title
        if role == Qt.ItemDataRole.ToolTipRole:
            words = f"{title}\n{activity}" if activity else title
            return f"<p>{escape(words)}</p>".replace("\n", "<br>")  # a title is never markup
        return None

    def setData(self, index: QModelIndex | QPersistentModelIndex, value: object, role: int = 0):
        """Ask for another title; it shows once the chat has it. Nothing leaves it as it is."""
        title = shown_title(str(value)).strip()
        line = self._lines[index.row()]
        if title and title != shown_title(line.title):
            self.renamed.emit(line.id, title)
        return True

    def _activity(self, activity: Activity) -> str:
        return {
            Activity.QUIET: "",
            Activity.WAITING: self.tr("waiting for its turn"),
            Activity.ANSWERING: self.tr("a reply is being written"),
            Activity.UNREAD: self.tr("a new reply"),
        }[activity]

    def _remove_others(self, wanted: dict[int, Row]) -> None:
        last = len(self._lines) - 1
        while last >= 0:
            first = last
            if self._lines[last].id not in wanted:
                while first > 0 and self._lines[first - 1].id not in wanted:
                    first -= 1
                self.beginRemoveRows(_NOWHERE, first, last)
                del self._lines[first : last + 1]
                self.endRemoveRows()
            last = first - 1

    def _put_in_order(self, ids: list[int]) -> None:
        if ids == [line.id for line in self._lines]:
            return
        self.layoutAboutToBeChanged.emit()
        persistent = self.persistentIndexList()
        kept = [self._lines[index.row()].id for index in persistent]
        by_id = {line.id: line for line in self._lines}
        self._lines = [by_id[chat_id] for chat_id in ids]
        rows = {chat_id: row for row, chat_id in enumerate(ids)}
        self.changePersistentIndexList(persistent, [self.index(rows[chat_id]) for chat_id in kept])
        self.layoutChanged.emit()

    def _insert_missing(self, lines: list[Row]) -> None:
        present = {line.id for line in self._lines}
        first = 0
        while first < len(lines):
            last = first
            if lines[first].id not in present:
                while last + 1 < len(lines) and lines[last + 1].id not in present:
                    last += 1
                self.beginInsertRows(_NOWHERE, first, last)
                self._lines[first:first] = lines[first : last + 1]
                self.endInsertRows()
            first = last + 1

    def _change(self, row: int, line: Row) -> None:
        if self._lines[row] != line:
            self._lines[row] = line
            self.dataChanged.emit(self.index(row), self.index(row))


def shown_title(title: str) -> str:
    """A title as one line of limited length that Qt can show, whatever is in it."""
    start = title[: 4 * LONGEST_TITLE].encode("utf-8", "replace").decode("utf-8")
    words = "".join(c if c.isprintable() or c in _JOINERS else " " for c in start)
    return " ".join(words.split())[:LONGEST_TITLE]


_JOINERS = "\u200c\u200d"  # they hold emoji and the letters of some scripts together
