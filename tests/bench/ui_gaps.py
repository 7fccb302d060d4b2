"""How long the window's thread is ever kept waiting, with the real engine at work beside it.

    python tests/bench/ui_gaps.py [--json] [--on-screen] [--model PATH] [--tokens 8000]

A 4-ms timer runs on the window's thread; the time between two of its ticks is a gap. Phases:
`import` of torch, `loading` the model, `reading` a long prompt, `streaming` a reply while a slider
is dragged to and fro and the bars follow it, `idle`. `paste_ms` is how long the window takes to
deal with a megabyte of words, and with one of letters without a space.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

TICK = 4  # ms
STREAMING_TOKENS = 300
IDLE_SECONDS = 2.0


def main() -> int:
    """Run all phases once and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--on-screen", action="store_true", help="use the display there is")
    parser.add_argument("--model")
    parser.add_argument("--tokens", type=int, default=8000, help="of the long prompt")
    parser.add_argument("--blame", type=float, default=0, help="ms; show stacks of longer gaps")
    chosen = parser.parse_args()
    if not chosen.on_screen:
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from app.bootstrap import run
    from app.program import Start

    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        start = Start(here, here, here, model=chosen.model)
        return run(start, then=lambda app, smoldesk: begin(app, smoldesk, chosen))


def begin(app, smoldesk, chosen):
    """Watch the window from its first moment; the parts of the watch keep each other alive."""
    from PySide6.QtCore import QMimeData, QObject, Qt, QTimer

    from app.self_test import milliseconds_since_start
    from app.ui.states import ChatState

    class Watch(QObject):
        """Names the phase that each gap belongs to."""

        def __init__(self):
            super().__init__()
            self.phase = "start"
            self.window_ms = 0
            self.gaps = defaultdict(list)
            self.last = time.perf_counter()
            self.timer = QTimer(self, interval=TICK, timerType=Qt.TimerType.PreciseTimer)
            self.timer.timeout.connect(self.tick)
            self.asked = 0
            self.dragged = 0
            self.drag = QTimer(self, interval=16, timerType=Qt.TimerType.PreciseTimer)
            self.drag.timeout.connect(self.drag_on)

        def tick(self):
            now = time.perf_counter()
            self.gaps[self.phase].append((now - self.last) * 1000)
            self.last = now
            imported = hasattr(sys.modules.get("engine.loading"), "load")  # its last line was run
            if self.phase == "import" and imported:
                self.phase = "loading"

        def painted(self):
            self.window_ms = round(milliseconds_since_start())
            self.phase = "import"
            self.last = time.perf_counter()
            self.timer.start()

        def drag_on(self):
            self.dragged += 1
            slider = smoldesk.window.panel.sampling.temperature.slider
            slider.setValue(20 + abs(self.dragged * 3 % 260 - 130))

        def ready(self, _info):
            smoldesk.chat.change_options({"max_new_tokens": 1, "seed": 1})
            self.asked = 1
            words = "the quick brown fox jumps over a lazy dog " * (chosen.tokens // 9 - 5)
            smoldesk.window.composer.show_text(words)
            smoldesk.chat.submit(words)

        def state(self, state):
            if state is ChatState.READING and self.asked == 1:
                self.phase = "reading"
            elif state is ChatState.ANSWERING and self.asked == 2:
                self.phase = "streaming"
                self.drag.start()

        def ended(self, message):
            assert message.reply.failure is None, message.reply.failure
            if self.asked == 1:
                self.prompt = message.reply.statistics
                self.asked = 2
                self.phase = "between"
                smoldesk.chats.new_chat()
                smoldesk.chat.change_options(
                    {"max_new_tokens": STREAMING_TOKENS, "end_loops": False}
                )
                QTimer.singleShot(500, self, self.ask_story)
            else:
                self.drag.stop()
                self.reply = message.reply.statistics
                self.paste()
                self.phase = "idle"
                QTimer.singleShot(round(IDLE_SECONDS * 1000), self, self.report)

        def paste(self):
            self.phase = "pasting"
            self.pasted = {}
            for name, text in (("words", "word " * 200_000), ("letters", "x" * 1_000_000)):
                data = QMimeData()
                data.setText(text)
                began = time.perf_counter()
                smoldesk.window.composer.text.insertFromMimeData(data)
                app.processEvents()
                self.pasted[name] = round((time.perf_counter() - began) * 1000, 1)

        def ask_story(self):
            smoldesk.chat.submit("Tell me a very long story about a fox and a lazy dog.")

        def report(self):
            self.timer.stop()
            self.phase = "over"
            names = ("import", "loading", "reading", "streaming", "idle")
            result = {
                "window_ms": self.window_ms,
                "paste_ms": self.pasted,
                "tokens_per_s": round(self.reply.tokens_per_second, 1),
                "phases": {name: figures(self.gaps[name]) for name in names},
            }
            if chosen.json:
                print(json.dumps(result))
            else:
                print(f"window shown after {self.window_ms} ms")
                for name, values in result["phases"].items():
                    print(f"{name:10}", "  ".join(f"{k} {v:7.1f}" for k, v in values.items()))
                print(f"prompt of {self.prompt.prompt_tokens} tokens, ", end="")
                print(f"{self.reply.new_tokens} tokens at {self.reply.tokens_per_second:.0f}/s")
            app.exit(0)

    def broke(failure):
        print(failure.what, failure.details, file=sys.stderr)
        app.exit(1)

    assert "torch" not in sys.modules, "torch was imported before the window was shown"
    watch = Watch()
    smoldesk.window.first_painted.connect(watch.painted)
    smoldesk.model.became_ready.connect(watch.ready)
    smoldesk.model.failed.connect(broke)
    smoldesk.reporter.bug_found.connect(broke)
    smoldesk.chat.state_changed.connect(watch.state)
    smoldesk.chat.reply_ended.connect(watch.ended)
    if chosen.blame:
        threading.Thread(target=blame, args=(watch, chosen.blame), daemon=True).start()
    return watch


def blame(watch, limit: float) -> None:
    """While a gap lasts too long, print where every thread is (only where the GIL can be had)."""
    import traceback

    reported = 0.0
    main = threading.main_thread().ident
    while True:
        time.sleep(0.002)
        gap = (time.perf_counter() - watch.last) * 1000
        if gap > limit and watch.last != reported and watch.phase != "over":
            reported = watch.last
            for ident, frame in sys._current_frames().items():
                if ident != threading.get_ident():
                    who = "window" if ident == main else "other"
                    stack = traceback.extract_stack(frame)[-4:]
                    where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in stack[::-1])
                    print(f"{watch.phase} {gap:.0f} ms {who}: {where}", file=sys.stderr)


def figures(gaps: list[float]) -> dict[str, float]:
    """Median, 99th hundredth and longest."""
    if not gaps:
        return {"p50_ms": 0.0, "p99_ms": 0.0, "max_ms": 0.0}
    ordered = sorted(gaps)
    return {
        "p50_ms": round(ordered[len(ordered) // 2], 2),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 2),
        "max_ms": round(ordered[-1], 2),
    }


if __name__ == "__main__":
    sys.exit(main())
