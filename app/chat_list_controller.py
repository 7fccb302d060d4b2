"""All chats as the sidebar lists them, and which one of them is open."""

from PySide6.QtCore import QObject, Signal, Slot

from app.chat_library import ChatLibrary
from app.conversation import Conversation
from app.reply_recorder import ReplyRecorder
from app.scheduler import Job, Scheduler
from app.store.records import ChatRecord
from app.ui.states import Activity, ChatLine, ChatState


class ChatListController(QObject):
    """Opens, makes, names, deletes and brings back chats."""

    leaving = Signal()  # what was typed in the open chat is to be kept now
    opened = Signal(object)  # Conversation
    chats_changed = Signal(object)  # list[ChatLine]
    chat_deleted = Signal(int, str)  # id, title
    chat_archived = Signal(int, str)
    temporary_left = Signal(int)  # its id; it is in memory until the program ends
    trash_changed = Signal()

    def __init__(
        self,
        library: ChatLibrary,
        scheduler: Scheduler,
        recorder: ReplyRecorder,
        *,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self.library = library
        self.open = library.new()
        self._scheduler = scheduler
        recorder.changed.connect(self.tell)
        recorder.closed.connect(self._on_closed)

    def begin(self, chat_id: int | None) -> None:
        """What the program begins with: the chat that was open when it ended, or a new one."""
        if chat_id is not None and chat_id in self.library:
            self._show(self.library.conversation(chat_id))
        else:
            self._show(self.open)

    @Slot()
    def new_chat(self) -> None:
        """Begin an empty chat; one that is open already will do."""
        self.leaving.emit()
        if not self.open.blank or self.open.temporary:
            self._show(self.library.new())

    @Slot()
    def new_temporary_chat(self) -> None:
        """Begin a chat that is never written to the disk."""
        self.leaving.emit()
        if not self.open.blank or not self.open.temporary:
            self._show(self.library.new(temporary=True))

    @Slot(int)
    def open_chat(self, chat_id: int) -> None:
        """Show that chat, if it is still there."""
        if chat_id in self.library and chat_id != self.open.chat.id:
            self.leaving.emit()
            self._show(self.library.conversation(chat_id))

    def open_neighbour(self, step: int) -> None:
        """Show the chat that is `step` lines further down in the list."""
        ids = [record.id for record in self.library.records()]
        listed = self.open.chat.id in ids
        place = ids.index(self.open.chat.id) + step if listed else 0
        if 0 <= place < len(ids):
            self.open_chat(ids[place])

    @Slot(int, str)
    def rename(self, chat_id: int, title: str) -> None:
        """Give a chat a name of the user's own."""
        if chat_id in self.library and title.strip():
            self.library.change(chat_id, title=" ".join(title.split()), titled=True)
            self.tell()

    @Slot(int, bool)
    def pin(self, chat_id: int, pinned: bool) -> None:
        """Keep a chat at the top of the list, or no longer."""
        if chat_id in self.library:
            self.library.change(chat_id, pinned=pinned)
            self.tell()

    @Slot(int, bool)
    def archive(self, chat_id: int, archived: bool) -> None:
        """Put a chat out of the way, where it can be found and opened; or back into the list."""
        if chat_id not in self.library:
            return
        neighbour = self._neighbour(chat_id)
        self.library.change(chat_id, archived=archived)
        if archived and chat_id == self.open.chat.id:
            self.leaving.emit()
            self._show(neighbour)
        self.tell()
        if archived:
            self.chat_archived.emit(chat_id, self.library.conversation(chat_id).chat.title)

    @Slot(int)
    def duplicate(self, chat_id: int) -> None:
        """Copy a chat with all its branches, and open the copy."""
        if chat_id in self.library:
            self.leaving.emit()
            self.open_chat(self.library.duplicate(chat_id))

    @Slot(int)
    def branch_off(self, message_id: int) -> None:
        """Go on from that message of the open chat in a chat of its own."""
        if message_id in [record.id for record in self.open.path()]:
            self.leaving.emit()
            self.open_chat(self.library.duplicate(self.open.chat.id, until=message_id))

    @Slot(int)
    def delete(self, chat_id: int) -> None:
        """Take a chat out of the list; a reply under way in it ends. `restore` undoes it."""
        if chat_id not in self.library or self.library.conversation(chat_id).temporary:
            return
        self.leaving.emit()
        self._stop(chat_id)
        neighbour = self._neighbour(chat_id)
        title = self.library.delete(chat_id).title
        if chat_id == self.open.chat.id:
            self._show(neighbour)
        self.tell()
        self.chat_deleted.emit(chat_id, title)
        self.trash_changed.emit()

    @Slot(int)
    def restore(self, chat_id: int) -> None:
        """Bring a deleted chat back and open it."""
        self.library.restore(chat_id)
        self.open_chat(chat_id)
        self.tell()
        self.trash_changed.emit()

    @Slot(object)
    def forget(self, chat_ids: list[int]) -> None:
        """Delete chats of the trash for good."""
        for chat_id in chat_ids:
            if chat_id not in self.library:
                self.library.forget(chat_id)
        self.trash_changed.emit()

    @Slot()
    def tell(self) -> None:
        """Say which chats there are and what goes on in them."""
        self.library.list_kept(self.open)
        self.chats_changed.emit([self._line(record) for record in self.library.records()])

    @Slot(object)
    def _on_closed(self, job: Job) -> None:
        if job.chat_id != self.open.chat.id:
            self.library.conversation(job.chat_id).unread = True
        self.tell()

    def _stop(self, chat_id: int) -> None:
        job = self._scheduler.job_of(chat_id)
        if job is not None:
            self._scheduler.stop(job)

    def _neighbour(self, chat_id: int) -> Conversation:
        """What is open when that chat is gone: the next one in the list, or a new one."""
        if chat_id != self.open.chat.id:
            return self.open
        ids = [record.id for record in self.library.records()]
        place = ids.index(chat_id) if chat_id in ids else 0
        others = [other for other in ids if other != chat_id]
        if not others:
            return self.library.new()
        return self.library.conversation(others[min(place, len(others) - 1)])

    def _show(self, conversation: Conversation) -> None:
        left, self.open = self.open, conversation
        if left is not conversation:
            self.library.let_go(left)
            if left.temporary and not left.blank:
                self._stop(left.chat.id)
                self.temporary_left.emit(left.chat.id)
        conversation.unread = False
        self.opened.emit(conversation)
        self.tell()

    def _line(self, record: ChatRecord) -> ChatLine:
        activity = Activity.QUIET
        job = self._scheduler.job_of(record.id)
        if job is not None:
            waiting = job.state is ChatState.WAITING
            activity = Activity.WAITING if waiting else Activity.ANSWERING
        elif self.library.is_unread(record.id):
            activity = Activity.UNREAD
        return ChatLine(record.id, record.title, record.updated_at, activity, record.pinned)
