"""Export and import: where to, from where, and what became of it."""

from collections.abc import Iterator
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QObject, QStandardPaths, Qt, Signal, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from app.chat_list_controller import ChatListController
from app.store.records import ChatRecord, MessageRecord
from app.transfer.archive import file_name
from app.transfer.report import Report
from app.transfer_keeper import TransferKeeper
from app.ui.states import Failure

_KINDS = {"Markdown": "md", "JSON": "json", "HTML": "html", "PDF": "pdf"}


class TransferController(QObject):
    """Asks where, has the keeper do it, and says what came of it in plain words."""

    told = Signal(str)  # one or a few plain sentences

    def __init__(
        self, chats: ChatListController, keeper: TransferKeeper, *, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._chats = chats
        self._keeper = keeper
        self.dialog: QFileDialog | None = None
        queued = Qt.ConnectionType.QueuedConnection
        keeper.exported.connect(self._on_exported, queued)
        keeper.chat_read.connect(self._on_chat_read, queued)
        keeper.all_read.connect(self._on_all_read, queued)
        keeper.failed.connect(self._on_failed, queued)

    def ask_export(self, chat_id: int, window: QWidget) -> None:
        """Ask where to, and in which form, a chat is to be written."""
        if chat_id not in self._chats.library:
            return
        record = self._chats.library.conversation(chat_id).chat
        dialog = self._dialog(window, _tr("Export chat"))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilters([f"{name} (*.{ending})" for name, ending in _KINDS.items()])
        dialog.setDefaultSuffix("md")
        dialog.filterSelected.connect(
            lambda chosen: dialog.setDefaultSuffix(chosen.rpartition(".")[2].rstrip(")"))
        )
        dialog.selectFile(f"{file_name(record.title, record.created_at)}.md")
        dialog.fileSelected.connect(lambda path: self.export(chat_id, Path(path)))
        dialog.open()

    def ask_export_all(self, window: QWidget) -> None:
        """Ask where to all chats are to be written."""
        dialog = self._dialog(window, _tr("Export all chats"))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter("Zip (*.zip)")
        dialog.setDefaultSuffix("zip")
        dialog.selectFile("Smoldesk chats.zip")
        dialog.fileSelected.connect(lambda path: self.export_all(Path(path)))
        dialog.open()

    def ask_import(self, window: QWidget) -> None:
        """Ask for the files to be read."""
        dialog = self._dialog(window, _tr("Import chats"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.setNameFilter(_tr("Chats of Smoldesk, ChatGPT or Open WebUI") + " (*.json *.zip)")
        dialog.filesSelected.connect(lambda paths: self.read([Path(path) for path in paths]))
        dialog.open()

    def export(self, chat_id: int, path: Path) -> None:
        """Write a chat, with what was said in it so far."""
        conversation = self._chats.library.conversation(chat_id)
        self._keeper.export(path, (conversation.chat, conversation.messages), conversation.path())

    def export_all(self, path: Path) -> None:
        """Write all chats, archived ones too."""
        library = self._chats.library
        records = [*library.records(), *library.records(archived=True)]

        def chats() -> Iterator[tuple[ChatRecord, list[MessageRecord]]]:
            for record in records:
                yield record, library.store.messages(record.id)

        self._keeper.export_all(path, chats())

    def read(self, paths: list[Path]) -> None:
        """Add the chats in these files to what is here."""
        self._keeper.read(paths, self._chats.library.usual_options)

    @Slot(str, int)
    def _on_exported(self, path: str, count: int) -> None:
        if count == 1:
            self.told.emit(_tr("Exported to %1.").replace("%1", path))
        else:
            words = _tr("%1 chats were exported to %2.").replace("%1", str(count))
            self.told.emit(words.replace("%2", path))

    @Slot(object, object)
    def _on_chat_read(self, chat: ChatRecord, messages: list[MessageRecord]) -> None:
        self._chats.library.add(chat, messages)

    @Slot(object)
    def _on_all_read(self, report: Report) -> None:
        self._chats.tell()
        self.told.emit(" ".join(report.sentences()))

    @Slot(object)
    def _on_failed(self, failure: Failure) -> None:
        self.told.emit(f"{failure.what} {failure.remedy}".strip())

    def _dialog(self, window: QWidget, title: str) -> QFileDialog:
        documents = QStandardPaths.StandardLocation.DocumentsLocation
        dialog = QFileDialog(window, title, QStandardPaths.writableLocation(documents))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.dialog = dialog
        return dialog


def _tr(text: str) -> str:
    return QCoreApplication.translate("transfer", text)
