"""Titles by the model, for chats that are called after their first line; where that is wanted."""

import re
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.chat_library import ChatLibrary
from app.conversation import TITLE_LENGTH
from app.reply_recorder import ReplyRecorder
from app.scheduler import Job, Scheduler
from engine.messages import Message

_REST = 2_000  # ms after a reply: by then the next question is being typed, or nothing
_LONGEST_EXCERPT = 600  # characters of a message that the model is shown
_MOST_WORDS = 7

_TASK = (
    "Write a title of two to six words for the conversation below. "
    "Answer with the title only.\n\nQuestion: {question}\n\nAnswer: {answer}"
)


class TitleFinder(QObject):
    """Asks once for each chat, after its first reply. A title that the user chose stays."""

    titled = Signal()

    def __init__(
        self,
        library: ChatLibrary,
        scheduler: Scheduler,
        recorder: ReplyRecorder,
        wanted: Callable[[], bool],
        *,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._library = library
        self._scheduler = scheduler
        self._wanted = wanted
        self._waiting: list[int] = []
        self._resting = QTimer(self, singleShot=True, interval=_REST)
        self._resting.timeout.connect(self._ask)
        recorder.closed.connect(self._on_closed)

    @Slot(object)
    def _on_closed(self, job: Job) -> None:
        conversation = self._library.conversation(job.chat_id)
        path = conversation.path()
        first = len(path) == 2 and path[-1].id == job.message_id and bool(path[-1].content)
        if self._wanted() and first and conversation.kept and not conversation.chat.titled:
            self._waiting.append(job.chat_id)
        if self._waiting:
            self._resting.start()

    @Slot()
    def _ask(self) -> None:
        if not self._waiting or not self._wanted():
            return
        chat_id = self._waiting[-1]
        if chat_id not in self._library:
            self._waiting.remove(chat_id)
            return
        path = self._library.conversation(chat_id).path()
        words = [record.content[:_LONGEST_EXCERPT] for record in path[:2]]
        if len(words) < 2:
            self._waiting.remove(chat_id)
            return
        task = _TASK.format(question=words[0], answer=words[1])
        if self._scheduler.find_title(chat_id, [Message("user", task)]):
            self._waiting.remove(chat_id)

    @Slot(int, str)
    def on_title_found(self, chat_id: int, said: str) -> None:
        """The model said this; it is used if it can be a title."""
        title = title_in(said)
        if not title or chat_id not in self._library:
            return
        if not self._library.conversation(chat_id).chat.titled:
            self._library.change(chat_id, title=title)
            self.titled.emit()
        if self._waiting:
            self._resting.start()


def title_in(said: str) -> str:
    """The title in what a model says when it is asked for one; "" if there is none."""
    line = next((line for line in said.splitlines() if line.strip()), "")
    line = re.sub(r"^[#*\s]*(title|conversation)\s*:\s*", "", line.strip(), flags=re.IGNORECASE)
    line = " ".join(line.strip(" \"'*#`.:“”").split())
    if len(line.split()) > _MOST_WORDS or len(line) > TITLE_LENGTH:
        return ""
    return line
