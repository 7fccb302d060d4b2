"""What the model would read and say next, asked for while nothing else is to be done."""

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.conversation import Conversation
from app.scheduler import Scheduler
from app.worker import Look

LOOK_AFTER = 400  # ms of quiet
LONGEST_LOOK = 3000  # tokens; reading more than that is left until there is a question


class LookAhead(QObject):
    """Follows the open branch of one conversation at a time."""

    looked = Signal(object)  # Look | None: nothing to be read

    def __init__(self, scheduler: Scheduler, *, parent: QObject) -> None:
        super().__init__(parent)
        self.wanted = True  # whether it would be seen
        self._scheduler = scheduler
        self._conversation: Conversation | None = None
        self._timer = QTimer(self, singleShot=True, interval=LOOK_AFTER)
        self._timer.timeout.connect(self._look)

    def follow(self, conversation: Conversation) -> None:
        """The open branch is this one, or it has changed: look soon."""
        self._conversation = conversation
        if conversation.empty:
            self._timer.stop()
            self.looked.emit(None)
        elif self.wanted:
            self._timer.start()

    @Slot()
    def again(self) -> None:
        """Somebody wants to see it."""
        if self._conversation is not None:
            self.follow(self._conversation)

    @Slot(bool)
    def set_wanted(self, wanted: bool) -> None:
        """Whether it would be seen, so that it is worth computing."""
        self.wanted = wanted
        self.again()

    @Slot(object)
    def on_looked(self, look: Look) -> None:
        """The engine answers; only what is asked for now counts."""
        if look.key == self._key():
            self.looked.emit(look)

    @Slot()
    def _look(self) -> None:
        conversation = self._conversation
        path = conversation.path() if conversation is not None else []
        if conversation is None or not path:
            return
        last = path[-1]
        ended = last.role == "assistant" and bool(last.content)
        ahead = conversation.used_tokens() <= LONGEST_LOOK
        messages = conversation.dialog(last.id, go_on=ended)
        self._scheduler.look(messages, self._key(), ahead=ahead)

    def _key(self) -> int:
        """Names the state of the branch that a look is made for."""
        if self._conversation is None:
            return 0
        chat, path = self._conversation.chat, self._conversation.path()
        return hash((chat.id, chat.system_prompt, *(record.id for record in path[-1:])))
