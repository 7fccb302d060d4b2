"""The conversation: what was said, what is under way, and what the views are told of it."""

import threading

from PySide6.QtCore import QObject, Signal, Slot

from app.ui.states import ChatState, Failure, ReplyGrowth, Turn
from app.worker import ReplyRequest
from engine.events import PromptProgress
from engine.messages import Message
from engine.options import LiveOptions


class ChatController(QObject):
    """The state machine of a chat.

    READY -> (WAITING ->) READING -> ANSWERING -> READY, with STOPPING on the way if the user asks.
    A turn that began always ends: `turn_ended` follows every `turn_began`, also when the chat it
    belongs to is no longer the one on screen (then only its text is kept).
    """

    reply_requested = Signal(object)  # ReplyRequest
    model_needed = Signal()
    state_changed = Signal(object)  # ChatState
    chat_opened = Signal(object)  # list[Turn]
    turn_began = Signal(object)  # Turn
    turn_withdrawn = Signal(int)  # turn
    prompt_progressed = Signal(object)  # PromptProgress
    reply_grew = Signal(object)  # ReplyGrowth
    turn_ended = Signal(object)  # Turn
    text_returned = Signal(str)  # a failed question, for the composer
    others_changed = Signal(bool)  # whether there are chats that `open_previous` can open

    def __init__(self, options: LiveOptions, *, parent: QObject) -> None:
        super().__init__(parent)
        self.options = options
        self.state = ChatState.READY
        self._turns: list[Turn] = []
        self._others: list[list[Turn]] = []  # the one that was open last is the last
        self._running: Turn | None = None
        self._cancel = threading.Event()
        self._model_ready = False
        self._next_id = 1

    @property
    def turns(self) -> tuple[Turn, ...]:
        """What was said in the open chat, oldest first."""
        return tuple(self._turns)

    @Slot(str)
    def submit(self, text: str) -> None:
        """Ask `text`, now or as soon as the model is ready. Ignored while a turn is under way."""
        if self.state.busy or not text.strip():
            return
        turn = Turn(self._next_id, text)
        self._next_id += 1
        self._turns.append(turn)
        self._running = turn
        self._cancel = threading.Event()
        self.turn_began.emit(turn)
        if self._model_ready:
            self._send()
        else:
            self._set_state(ChatState.WAITING)
            self.model_needed.emit()

    @Slot()
    def stop(self) -> None:
        """End the turn that is under way and keep what there is of its reply."""
        if self.state is ChatState.WAITING:
            self._withdraw()
        elif self.state.busy:
            self.cancel()
            self._set_state(ChatState.STOPPING)

    def cancel(self) -> None:
        """Make the engine stop at its next look, without waiting for it."""
        self._cancel.set()

    @Slot()
    def new_chat(self) -> None:
        """Put the open chat aside and begin an empty one."""
        if self.state is ChatState.WAITING:
            self._withdraw()
        self.stop()
        if self._turns:
            self._others.append(self._turns)
            self._open([])

    @Slot()
    def open_previous(self) -> None:
        """Open the chat that was open before this one; again and again, all in turn."""
        if self.state is ChatState.WAITING:
            self._withdraw()
        self.stop()
        if self._others:
            left = self._turns
            turns = self._others.pop()
            if left:
                self._others.insert(0, left)
            self._open(turns)

    @Slot(int)
    def retry(self, turn_id: int) -> None:
        """Ask a failed question once more."""
        turn = self._take_back(turn_id)
        if turn is not None:
            self.submit(turn.text)

    @Slot(int)
    def edit(self, turn_id: int) -> None:
        """Give a failed question back to the composer."""
        turn = self._take_back(turn_id)
        if turn is not None:
            self.text_returned.emit(turn.text)

    @Slot(str, float)
    def set_option(self, name: str, value: float) -> None:
        """Change one sampling option; it holds from the very next token on."""
        self.options.change(**{name: value})

    @Slot()
    def on_model_ready(self) -> None:
        """The model can answer: send the question that waited for it."""
        self._model_ready = True
        if self.state is ChatState.WAITING:
            self._send()

    @Slot(object)
    def on_model_failed(self, failure: Failure) -> None:
        """There is no model: the question that waited for it has failed."""
        self._model_ready = False
        if self.state is ChatState.WAITING and self._running is not None:
            self.on_failed(self._running.id, failure)

    @Slot(int, object)
    def on_prompt_progressed(self, turn_id: int, progress: PromptProgress) -> None:
        """The engine has read a part of the prompt."""
        if self._shown(turn_id) is not None:
            self.prompt_progressed.emit(progress)

    @Slot(object)
    def on_grew(self, growth: ReplyGrowth) -> None:
        """More text came."""
        if self._running is None or self._running.id != growth.turn:
            return
        self._running.reply_text += growth.text
        if growth.new_tokens and self.state is ChatState.READING:
            self._set_state(ChatState.ANSWERING)
        if self._shown(growth.turn) is not None:
            self.reply_grew.emit(growth)

    @Slot(int, object)
    def on_ended(self, turn_id: int, finished: object) -> None:
        """The reply ended, for one of the reasons that are no failure."""
        self._end(turn_id, finished=finished)

    @Slot(int, object)
    def on_failed(self, turn_id: int, failure: Failure) -> None:
        """The reply failed; what there is of it is kept."""
        self._end(turn_id, failure=failure)

    def _open(self, turns: list[Turn]) -> None:
        self._turns = turns
        self.chat_opened.emit(list(turns))
        self.others_changed.emit(bool(self._others))

    def _end(self, turn_id: int, **how: object) -> None:
        turn = self._running
        if turn is None or turn.id != turn_id:
            return
        for name, value in how.items():
            setattr(turn, name, value)
        shown = self._shown(turn_id)
        self._running = None
        self._set_state(ChatState.READY)
        if shown is not None:
            self.turn_ended.emit(turn)

    def _send(self) -> None:
        assert self._running is not None
        messages = _dialog([turn for turn in self._turns if turn is not self._running])
        messages.append(Message("user", self._running.text))
        self._set_state(ChatState.READING)
        self.reply_requested.emit(
            ReplyRequest(self._running.id, tuple(messages), self.options, self._cancel)
        )

    def _withdraw(self) -> None:
        """Take back a question that still waits: its text returns to the composer."""
        turn, self._running = self._running, None
        assert turn is not None
        self._set_state(ChatState.READY)
        self.edit(turn.id)

    def _take_back(self, turn_id: int) -> Turn | None:
        turn = next((turn for turn in self._turns if turn.id == turn_id), None)
        if turn is None or turn is self._running or self.state.busy:
            return None
        self._turns.remove(turn)
        self.turn_withdrawn.emit(turn_id)
        return turn

    def _shown(self, turn_id: int) -> Turn | None:
        turn = self._running
        open_here = turn is not None and turn.id == turn_id and turn in self._turns
        return turn if open_here else None

    def _set_state(self, state: ChatState) -> None:
        self.state = state
        self.state_changed.emit(state)


def _dialog(turns: list[Turn]) -> list[Message]:
    """The messages the model is to know: a question that got no reply at all is left out."""
    messages: list[Message] = []
    for turn in turns:
        if turn.finished is not None:
            reply = turn.finished.message()
        elif turn.reply_text:
            reply = Message("assistant", turn.reply_text)
        else:
            continue
        messages += [Message("user", turn.text), reply]
    return messages
