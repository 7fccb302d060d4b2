"""An engine without a model: the shape of the real one, as slow or as broken as a test wants.

Run as a program it shows the window with this engine: `python fake_engine.py --help`.
"""

import argparse
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import EngineError, StoppedError
from engine.events import Bar, Event, Finished, Picture, PromptProgress, Statistics, Token
from engine.messages import Message
from engine.options import LiveOptions

DEFAULT_REPLY = "The sky is blue because air scatters short waves of light more than long ones."


@dataclass
class FakeDevice:
    """Where the fake says it runs."""

    name: str = "cpu"
    label: str = "CPU"
    reason: str = "no GPU found"
    precision: str = "bf16"
    threads: int = 2


@dataclass
class FakeStep:
    """Like `engine.scope.NextToken`: three tokens, of which the first was drawn."""

    drawn: str = " blue"

    def picture(self, options, *, count: int) -> Picture:
        """The second token is cut by any top-p below 0.9."""
        cut = options.top_p < 0.9
        share = 0.7 if not cut else 0.7 / 0.8
        bars = (
            Bar(1, 0.7, share, None, self.drawn, True),
            Bar(2, 0.2, 0.0 if cut else 0.2, "top_p" if cut else None, "\n"),
            Bar(3, 0.1, 0.1 if not cut else 0.1 / 0.8, None, "<|im_end|>"),
        )
        return Picture(bars[:count], 2 if cut else 3, 0.2 if cut else 0.0, 0.0)


@dataclass
class FakeEngine:
    """Knobs first; then what a test may look at. It is opener, engine and session in one."""

    reply_text: str = DEFAULT_REPLY
    loading: float = 0.0  # seconds
    reading: float = 0.0  # seconds
    per_token: float = 0.0  # seconds
    prompt_tokens: int = 20
    left_out_messages: int = 0
    load_error: BaseException | None = None
    reply_error: BaseException | None = None
    error_after: int = 0  # tokens
    reason: str = "end_of_turn"
    deaf: bool = False  # never looks at cancel while loading, as an import does
    name: str = "SmolLM2-135M-Instruct"
    path: Path = Path("no such model")
    device: FakeDevice = field(default_factory=FakeDevice)
    loads: int = 0
    chosen: tuple[str | None, str | None] = (None, None)  # device and precision asked for
    quiet: bool = False
    prompts: list[tuple[Message, ...]] = field(default_factory=list)
    temperatures: list[float] = field(default_factory=list)
    threads_seen: set[str] = field(default_factory=set)

    def load(self, model=None, *, device, precision, quiet, progress, cancel) -> "FakeEngine":
        """Like `engine.loading.load`."""
        self.loads += 1
        self.chosen = (device, precision)
        self.quiet = quiet
        for step in range(100):
            progress(step / 100)
            time.sleep(self.loading / 100)
            if cancel.is_set() and not self.deaf:
                raise StoppedError("Loading was stopped.")
        if self.load_error is not None:
            raise self.load_error
        return self

    context_length: int = 8192
    next_token: "FakeStep | None" = None
    looks: list[tuple[Message, ...]] = field(default_factory=list)

    def look_ahead(self, messages, *, cancel) -> "FakeStep | None":
        """Like `Session.look_ahead`."""
        self.looks.append(tuple(messages))
        return None if cancel.is_set() else FakeStep()

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Like `Session.prompt_ids`: one for each word."""
        self._prompt = "".join(f"<{m.role}>{m.content}\n" for m in messages)
        return list(range(self.count_tokens(self._prompt)))

    def prompt_parts(self, _ids: Sequence[int]) -> list[tuple[str, bool]]:
        """Like `Session.prompt_parts`."""
        return [("<|begin|>", True), (self._prompt, False)]

    @property
    def window(self) -> "FakeEngine":
        """Like `Session.window`."""
        return self

    def count_tokens(self, text: str) -> int:
        """Like `ContextWindow.count_tokens`: the words."""
        return len(text.split())

    @property
    def limit(self) -> int:
        """Like `ContextWindow.limit`."""
        return self.context_length - self.context_length // 8

    def count_frame(self, system_prompt: str | None) -> int:
        """Like `ContextWindow.count_frame`: the words."""
        return self.count_tokens(system_prompt or "")

    def session(self) -> "FakeEngine":
        """Like `Engine.session`."""
        return self

    def reply(
        self, messages: Sequence[Message], options: LiveOptions, *, cancel: threading.Event
    ) -> Iterator[Event]:
        """Like `Session.reply`."""
        self.prompts.append(tuple(messages))
        self.options = options
        self.threads_seen.add(threading.current_thread().name)
        began = time.perf_counter()
        if self.reply_error is not None and self.error_after == 0:
            raise self.reply_error
        for step in range(10):
            yield PromptProgress(self.prompt_tokens * step // 10, self.prompt_tokens, 0)
            time.sleep(self.reading / 10)
            if cancel.is_set():
                yield self._finished("stopped", [], began)
                return
        yield PromptProgress(self.prompt_tokens, self.prompt_tokens, 0)
        pieces = re.findall(r"\s*\S+|\s+$", self.reply_text)
        said: list[str] = []
        for number, piece in enumerate(pieces):
            if cancel.is_set():
                yield self._finished("stopped", said, began)
                return
            if self.reply_error is not None and number == self.error_after:
                raise self.reply_error
            time.sleep(self.per_token)
            self.temperatures.append(options.current.temperature)
            said.append(piece)
            self.next_token = FakeStep(drawn=piece)
            yield Token(number, piece)
        yield self._finished(self.reason, said, began)

    def _finished(self, reason, said: list[str], began: float) -> Finished:
        seconds = max(time.perf_counter() - began, 1e-6)
        speed = len(said) / seconds
        cost = Statistics(self.prompt_tokens, 0, len(said), seconds, speed, self.left_out_messages)
        options = ((0, self.options.current),) if said else ()
        ids = tuple(range(len(said)))
        return Finished(reason, "".join(said), "", ids, 7, cost, options=options)


def main() -> int:
    """Show the window with a fake engine."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--loading", type=float, default=0.0)
    parser.add_argument("--reading", type=float, default=0.0)
    parser.add_argument("--per-token", type=float, default=0.0)
    parser.add_argument("--words", type=int, default=0)
    parser.add_argument("--reply")
    parser.add_argument("--deaf", action="store_true")
    parser.add_argument("--theme")
    parser.add_argument("--folder", help="keep everything there")
    parser.add_argument("--load-error", action="store_true")
    parser.add_argument("--reply-error", action="store_true")
    parser.add_argument("--ask")
    parser.add_argument("--say-when", choices=("window", "reading", "decoding"))
    parser.add_argument(
        "--say-growth", action="store_true", help="time and length of what is shown"
    )
    parser.add_argument("--close", action="store_true", help="close the window at that moment")
    chosen = parser.parse_args()
    text = DEFAULT_REPLY if chosen.reply is None else chosen.reply
    error = EngineError("The model file is damaged.", "Fetch it again.")
    engine = FakeEngine(
        reply_text=" ".join(["word"] * chosen.words) if chosen.words else text,
        loading=chosen.loading,
        reading=chosen.reading,
        per_token=chosen.per_token,
        deaf=chosen.deaf,
        load_error=error if chosen.load_error else None,
        reply_error=EngineError(
            "Your message has 9,120 tokens, and the model can remember 8,192.", "Shorten it."
        )
        if chosen.reply_error
        else None,
    )
    from app.bootstrap import run
    from app.program import Start
    from app.ui.states import ChatState

    def begin(app, smoldesk):
        def happened(moment: str) -> None:
            if moment == chosen.say_when:
                print(moment, flush=True)
                if chosen.close:
                    smoldesk.window.close()

        moments = {ChatState.READING: "reading", ChatState.ANSWERING: "decoding"}
        smoldesk.window.first_painted.connect(lambda: happened("window"))
        smoldesk.chat.state_changed.connect(lambda state: happened(moments.get(state, "")))

        def grew(growth):
            shown = smoldesk.window.transcript.messages[-1].text
            print(time.monotonic(), len(shown), flush=True)

        def came_forward(come_forward=smoldesk.window.come_forward):
            come_forward()
            print("raised", flush=True)

        smoldesk.window.come_forward = came_forward
        if chosen.say_growth:
            smoldesk.chat.reply_grew.connect(grew)
        if chosen.ask:
            smoldesk.window.first_painted.connect(lambda: smoldesk.chat.submit(chosen.ask))

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(chosen.folder or temporary)
        start = Start(folder, folder, folder, single=bool(chosen.folder), theme=chosen.theme)
        return run(start, opener=engine.load, then=begin)


if __name__ == "__main__":
    sys.exit(main())
