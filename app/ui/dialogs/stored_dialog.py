"""The chats that are not in the list: archived ones, deleted ones, and those in backups."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QMessageBox,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.ui.dialogs.dialog import Card, Dialog, plain_label
from app.ui.sidebar.chat_model import shown_title
from app.ui.states import Failure, ShownBackup, StoredChat
from app.ui.theme import UNIT
from app.ui.wording import day, size, whole

_WIDTH = 86  # characters
_ROWS = 5  # of a list
_ID = Qt.ItemDataRole.UserRole


class StoredDialog(Dialog):
    """Everything can be brought back from here, and only here is something gone for good."""

    open_requested = Signal(int)
    unarchive_requested = Signal(object)  # list[int]
    restore_requested = Signal(object)
    forget_requested = Signal(object)
    backup_requested = Signal()
    bring_back_requested = Signal(str)  # the path of a backup

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(self.tr("Archive, trash and backups"), parent)
        self.question: QMessageBox | None = None
        self.archive = _List(self.tr("Archived chats"), self.tr("Nothing is archived."))
        self.trash = _List(self.tr("Deleted chats"), self.tr("The trash is empty."))
        self.backups = _List(self.tr("Backups"), self.tr("There is no backup yet."))
        self.backups.list.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.words = plain_label("", muted=True)
        self.archive.add(self.tr("Open"), lambda ids: self.open_requested.emit(ids[0]))
        self.archive.add(self.tr("Put back into the list"), self.unarchive_requested.emit)
        self.trash.add(self.tr("Restore"), self.restore_requested.emit)
        self.trash.add(self.tr("Delete for ever…"), self._ask)
        self.backups.add(
            self.tr("Bring back missing chats"),
            lambda paths: self.bring_back_requested.emit(paths[0]),
        )
        make = QPushButton(self.tr("Back up now"))
        make.setAutoDefault(False)
        make.clicked.connect(self.backup_requested)
        self.backups.buttons.addWidget(make)
        for title, hint, part in (
            (self.tr("Archive"), "", self.archive),
            (
                self.tr("Trash"),
                self.tr(
                    "Deleted chats are kept here for 30 days, and in backups as long as these are."
                ),
                self.trash,
            ),
            (
                self.tr("Backups"),
                self.tr(
                    "Once a day all chats are copied. Bringing back adds what is missing, and "
                    "changes nothing that is here."
                ),
                self.backups,
            ),
        ):
            card = Card()
            card.add_whole(part)
            self.add_part(title, card)
            if hint:
                self.column.insertWidget(self.column.count() - 1, plain_label(hint, muted=True))
        self.column.addWidget(self.words)
        self.fit(_WIDTH)

    @Slot(object, object)
    def show_chats(self, archive: list[StoredChat], trash: list[StoredChat]) -> None:
        """What is in the archive and in the trash now."""
        self.archive.show_rows([(chat.id, _title(self, chat), day(chat.when)) for chat in archive])
        until = self.tr("until %1")
        self.trash.show_rows(
            [(c.id, _title(self, c), until.replace("%1", day(c.when))) for c in trash]
        )
        self._later.start()

    @Slot(object)
    def show_backups(self, backups: list[ShownBackup]) -> None:
        """Which backups there are."""
        self.backups.show_rows([(b.path, day(b.when), size(b.bytes)) for b in backups])
        self._later.start()

    @Slot(int)
    def show_brought_back(self, count: int) -> None:
        """How many chats a backup had that were not here."""
        if count == 0:
            self.words.setText(self.tr("All chats of that backup are here already."))
        elif count == 1:
            self.words.setText(self.tr("1 chat was brought back."))
        else:
            words = self.tr("%1 chats were brought back.")
            self.words.setText(words.replace("%1", whole(count)))

    @Slot(object)
    def show_failure(self, failure: Failure) -> None:
        """What could not be done."""
        self.words.setText(f"{failure.what} {failure.remedy}".strip())

    def _ask(self, ids: list[int]) -> None:
        """Only what is done for good is asked about."""
        words = self.tr("Delete this chat for ever?")
        more = self.tr("This cannot be undone. It is deleted from the backups, too.")
        if len(ids) > 1:
            words = self.tr("Delete %1 chats for ever?").replace("%1", whole(len(ids)))
            more = self.tr("This cannot be undone. They are deleted from the backups, too.")
        box = QMessageBox(QMessageBox.Icon.Warning, self.tr("Smoldesk"), words, parent=self)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setInformativeText(more)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        yes = box.addButton(self.tr("Delete for ever"), QMessageBox.ButtonRole.DestructiveRole)
        yes.clicked.connect(lambda: self.forget_requested.emit(ids))
        keep = box.addButton(self.tr("Keep"), QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(keep)
        box.setEscapeButton(keep)
        self.question = box
        box.open()


class _Rows(QListWidget):
    """One is chosen as soon as the list has the focus: no arrow key chooses the only one."""

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 - the name is Qt's
        """Choose where one is."""
        super().focusInEvent(event)
        by_mouse = event.reason() is Qt.FocusReason.MouseFocusReason
        if not by_mouse and self.count() and not self.selectedItems():
            self.setCurrentRow(max(self.currentRow(), 0))


class _List(QWidget):
    """A list, and below it what can be done with the chosen rows."""

    def __init__(self, name: str, nothing: str) -> None:
        super().__init__()
        self._needing: list[QPushButton] = []  # something to be chosen
        self.list = _Rows(objectName="storedList")
        self.list.setAccessibleName(name)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.list.setUniformItemSizes(True)
        self.list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.itemSelectionChanged.connect(self._on_selection_changed)
        self.nothing = plain_label(nothing, muted=True)
        self.buttons = QHBoxLayout()
        self.buttons.setSpacing(2 * UNIT)
        foot = QHBoxLayout()
        foot.addLayout(self.buttons)
        foot.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2 * UNIT)
        column.addWidget(self.nothing)
        column.addWidget(self.list)
        column.addLayout(foot)
        self.show_rows([])

    def add(self, words: str, action: Callable[[list], object]) -> None:
        """A button that does something with the chosen rows."""
        button = QPushButton(words)
        button.setAutoDefault(False)
        button.clicked.connect(lambda: action(self.chosen()))
        self._needing.append(button)
        self.buttons.addWidget(button)
        self._on_selection_changed()

    def chosen(self) -> list:
        """The ids of the chosen rows, from the top."""
        items = sorted(self.list.selectedItems(), key=self.list.row)
        return [item.data(_ID) for item in items]

    def show_rows(self, rows: Sequence[tuple[object, str, str]]) -> None:
        """Rows of an id, a name and a remark; what was chosen and is still there stays so."""
        chosen = set(self.chosen())
        self.list.clear()
        for row_id, name, remark in rows:
            item = QListWidgetItem(f"{name}  ·  {remark}")
            item.setData(_ID, row_id)
            self.list.addItem(item)
            item.setSelected(row_id in chosen)
        self.nothing.setVisible(not rows)
        self.list.setVisible(bool(rows))
        height = self.list.sizeHintForRow(0) if rows else 0
        self.list.setFixedHeight(min(len(rows), _ROWS) * height + 2 * self.list.frameWidth() + 2)
        for button in self._needing:
            button.setVisible(bool(rows))
        self._on_selection_changed()

    @Slot()
    def _on_selection_changed(self) -> None:
        for button in self._needing:
            button.setEnabled(bool(self.list.selectedItems()))


def _title(dialog: StoredDialog, chat: StoredChat) -> str:
    return shown_title(chat.title) or dialog.tr("New chat")
