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
        if not self.open.blank:
            self._show(self.library.new())

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
            self.library.rename(chat_id, " ".join(title.split()))
            self.tell()

    @Slot(int)
    def delete(self, chat_id: int) -> None:
        """Take a chat out of the list; a reply under way in it ends. `restore` undoes it."""
        ids = [record.id for record in self.library.records()]
        if chat_id not in ids:
            return
        self.leaving.emit()
        job = self._scheduler.job_of(chat_id)
        if job is not None:
            self._scheduler.stop(job)
        place = ids.index(chat_id)
        title = self.library.delete(chat_id).title
        ids.remove(chat_id)
        if chat_id == self.open.chat.id and ids:
            self._show(self.library.conversation(ids[min(place, len(ids) - 1)]))
        elif chat_id == self.open.chat.id:
            self._show(self.library.new())
        self.tell()
        self.chat_deleted.emit(chat_id, title)

    @Slot(int)
    def restore(self, chat_id: int) -> None:
        """Bring a deleted chat back and open it."""
        self.library.restore(chat_id)
        self.open_chat(chat_id)
        self.tell()

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

    def _show(self, conversation: Conversation) -> None:
        left, self.open = self.open, conversation
        if left is not conversation:
            self.library.let_go(left)
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
        return ChatLine(record.id, record.title, record.updated_at, activity)
