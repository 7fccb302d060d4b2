"""How long the window waits for its chats when there are very many.

    python tests/bench/big_library.py [--chats 2000] [--messages 200000] [--rounds 7] [--json]

Makes such a library, then opens the window with a stand-in engine and does what people do, each
`--rounds` times. A figure is how long the window's thread was kept: the longest time between two
events that it handled while that went on. `search` is from the last key to the list being shown.
`window_full` and `window_empty` are from the making of the program, in a process of its own that
has imported it, to its window's first picture, with this library and with none.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).parents[1] / "app"))

from fake_engine import FakeEngine
from PySide6.QtCore import QElapsedTimer, QTimer
from PySide6.QtWidgets import QApplication

from app.program import Smoldesk, Start
from app.store.chats import ChatStore
from app.store.records import ChatRecord, MessageRecord, ReplyRecord

_TEXT = """
    river stone garden window morning letter engine paper winter summer bread table music story
    forest harbour signal pattern method number green yellow quiet sudden narrow gentle
    little python function return value error station market teacher village
"""
WORDS = _TEXT.split()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chats", type=int, default=2000)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    wish = parser.parse_args()
    app = QApplication([])
    if wish.open is not None:
        began = time.perf_counter()
        smoldesk = open_window(app, wish.open)
        print(1000 * (time.perf_counter() - began))
        close(app, smoldesk)
        return
    with tempfile.TemporaryDirectory() as name:
        empty, full = Path(name) / "empty", Path(name) / "full"
        fill(full / "chats.db", wish.chats, wish.messages)
        shown = {"window_empty": [], "window_full": []}
        for _ in range(wish.rounds):
            for key, folder in (("window_empty", empty), ("window_full", full)):
                command = [sys.executable, __file__, "--open", str(folder)]
                # Not here: every window that was open before would make the next one slower.
                opened = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                shown[key].append(float(opened.stdout))
        report = {key: figures(values) for key, values in shown.items()}
        smoldesk = open_window(app, full)
        report |= measure(app, smoldesk, wish.rounds)
        close(app, smoldesk)
    if wish.json:
        print(json.dumps(report))
        return
    for operation, row in report.items():
        print(f"{operation:<16} median {row['median_ms']:8.1f} ms   most {row['max_ms']:8.1f} ms")


def fill(path: Path, chats: int, messages: int) -> None:
    """A library of that size; every chat has as many messages, one after the other."""
    dice = random.Random(1)
    store = ChatStore(path, on_problem=print)
    now = time.time()
    each = messages // chats
    for number in range(chats):
        used = now - number * 3600.0
        chat = store.next_id()
        title = " ".join(dice.choices(WORDS, k=5))
        store.save_chat(ChatRecord(chat, title, created_at=used, updated_at=used))
        parent = None
        for place in range(each):
            message = store.next_id()
            text = " ".join(dice.choices(WORDS, k=dice.choice((8, 30, 90))))
            reply = ReplyRecord("finished", "end_of_turn", model="m") if place % 2 else None
            role = "assistant" if place % 2 else "user"
            record = MessageRecord(message, chat, parent, role, text, used, reply=reply)
            store.save_message(record)
            parent = message
        if number % 50 == 49:
            store.flush(600)
    store.close(600)


def open_window(app: QApplication, folder: Path) -> Smoldesk:
    """The program, until its window was drawn."""
    folder.mkdir(exist_ok=True)
    smoldesk = Smoldesk(app, Start(folder, folder, folder), opener=FakeEngine().load)
    drawn: list[bool] = []
    smoldesk.window.first_painted.connect(lambda: drawn.append(True))
    smoldesk.show()
    while not drawn:
        app.processEvents()
    return smoldesk


def close(app: QApplication, smoldesk: Smoldesk) -> None:
    """The end of the program."""
    smoldesk.end()
    smoldesk.window.close()
    smoldesk.window.deleteLater()
    smoldesk.deleteLater()
    app.processEvents()


def measure(app: QApplication, smoldesk: Smoldesk, rounds: int) -> dict[str, dict[str, float]]:
    """The longest wait of the window's thread in each operation."""
    dice = random.Random(2)
    chats, library = smoldesk.chats, smoldesk.chats.library
    hits: list[str] = []
    smoldesk.search.hits_changed.connect(lambda text, _found: hits.append(text))
    field = smoldesk.window.sidebar.field

    ids = [record.id for record in library.records()]
    dice.shuffle(ids)
    deleted: list[int] = []

    def delete() -> None:
        deleted.append(ids.pop())
        chats.delete(deleted[-1])

    def search(text: str) -> Callable[[], bool]:
        field.setText(text)
        return lambda: text in hits

    typed = [f"{a} {b}" for a, b in zip(WORDS, WORDS[3:], strict=False)]
    operations: dict[str, Callable[[int], object]] = {
        "open": lambda n: chats.open_chat(ids[n]),
        "rename": lambda n: chats.rename(ids[-n], f"another name {n}"),
        "pin": lambda n: chats.pin(ids[n], bool(n % 2)),
        "search word": lambda n: search(WORDS[n]),
        "search two": lambda n: search(typed[n]),
        "search nothing": lambda n: search(f"zebra{n}"),
        "delete": lambda _: delete(),
        "undo delete": lambda _: chats.restore(deleted.pop()),
        "archive": lambda _: chats.archive(ids.pop(), True),
        "send": lambda n: smoldesk.chat.submit(f"question {n}"),
        "new chat": lambda _: chats.new_chat(),
    }
    report = {}
    for name, operation in operations.items():
        waits = [longest_wait(app, smoldesk, operation, n) for n in range(rounds)]
        report[name] = figures(waits)
        field.clear()
        if name.startswith("search"):
            report[name + " shown"] = figures(
                [until_shown(app, operation, n + rounds) for n in range(rounds)]
            )
            field.clear()
    return report


def longest_wait(
    app: QApplication, smoldesk: Smoldesk, operation: Callable[[int], object], number: int
) -> float:
    """Milliseconds: the operation itself, or what it causes within a moment."""
    clock = QElapsedTimer()
    ticks: list[float] = []
    timer = QTimer(interval=1)
    timer.timeout.connect(lambda: ticks.append(clock.nsecsElapsed() / 1e6))
    clock.start()
    operation(number)
    ticks.append(clock.nsecsElapsed() / 1e6)
    timer.start()
    while clock.elapsed() < 400 or not smoldesk.scheduler.idle:
        app.processEvents()
    timer.stop()
    starts = [0.0, *ticks]
    return max(later - earlier for earlier, later in zip(starts, ticks, strict=False))


def until_shown(app: QApplication, operation: Callable[[int], object], number: int) -> float:
    """Milliseconds until a search is answered."""
    began = time.perf_counter()
    done = operation(number)
    while not done():  # type: ignore[operator]
        app.processEvents()
    return 1000 * (time.perf_counter() - began)


def figures(milliseconds: list[float]) -> dict[str, float]:
    """Median and most."""
    return {"median_ms": round(median(milliseconds), 1), "max_ms": round(max(milliseconds), 1)}


if __name__ == "__main__":
    main()
