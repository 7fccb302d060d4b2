"""Kills a process that writes chats, at random moments, and looks at what is left.

    python tests/bench/kill9.py [--rounds 200] [--json] [--seed 1] [--seconds 4]

The process that is killed is the program without its window and its model: the real store,
conversations, scheduler and recorder, on Qt's event loop, with replies that grow each 16 ms. It
says on a pipe what is on screen by now. In every other round each COMMIT takes half a second
longer, before it does anything, as on a very slow disk. Half of the rounds are killed at any
moment, the others within a few milliseconds of a COMMIT. Then the program's own store opens the
file, as at the next start. The same file is used for many rounds, and all of it is looked at after
each.

What is promised, when a process is killed at the moment k, however long a COMMIT takes:

- The file is sound, by SQLite's own checks of tables, keys and index.
- A finished message (a question that was sent, a reply that ended) is handed to the store at
  once. It is there, whole and marked as finished, if it was on screen by k - `SLACK`, which is for
  the operating system: it may let any thread wait.
- The running reply has at least the text that was on screen by k - `SAVED_AFTER`.

`lost_messages` counts finished messages, and `lost_chars_max` characters of one reply, that were
promised and are not there. Without --json it is also said how long ago, at the moment of the kill,
the oldest lost piece of a reply had come on screen.
"""

import argparse
import functools
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from app.store import connections
from app.store.chats import ChatStore
from app.store.search import add_functions

FRAME = 16  # ms
SAVED_AFTER = 0.5  # seconds, at most, from the screen to what outlives the process
SLOW_COMMIT = 0.5  # seconds
SLACK = 0.15  # seconds
AT_COMMIT = 0.006  # seconds; about as long as one takes
WORKERS = 4  # the processes sleep nearly all of the time


@dataclass(frozen=True, slots=True)
class Said:
    """One line of the pipe: what happened, when, and to how much of which message."""

    what: str  # ready, shown, finished, commit
    when: float  # time.monotonic()
    message_id: int = 0
    length: int = 0


@dataclass(slots=True)
class Outcome:
    """What was lost in one or more rounds; `oldest` is in seconds before the kill."""

    lost_messages: int = 0
    lost_chars_max: int = 0
    integrity_failures: int = 0
    oldest: float = 0.0
    checked: int = 0  # promised messages that were looked for

    def add(self, other: "Outcome") -> None:
        """Take another round into account."""
        self.lost_messages += other.lost_messages
        self.lost_chars_max = max(self.lost_chars_max, other.lost_chars_max)
        self.integrity_failures += other.integrity_failures
        self.oldest = max(self.oldest, other.oldest)
        self.checked += other.checked


@dataclass(slots=True)
class Ledger:
    """One file of chats, and the finished messages that it was seen to hold."""

    path: Path
    finished: dict[int, int] = field(default_factory=dict)  # lengths by id


def main() -> int:
    """Run the rounds and print the figures; 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0, help="the longest life of a process")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--slow", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.write:
        return write(Path(chosen.write), random.Random(chosen.seed), slow=chosen.slow)
    fast, slow = run(chosen.rounds, seed=chosen.seed, seconds=chosen.seconds)
    both = Outcome()
    for outcome in (fast, slow):
        both.add(outcome)
    figures = {
        "rounds": chosen.rounds,
        "lost_messages": both.lost_messages,
        "lost_chars_max": both.lost_chars_max,
        "integrity_failures": both.integrity_failures,
    }
    if chosen.json:
        print(json.dumps(figures))
    else:
        for name, figure in figures.items():
            print(f"{name:20} {figure}")
        print(f"{both.checked} promised messages were looked for. The oldest lost piece of a reply")
        print(f"was {fast.oldest:.2f} s old, with slow commits {slow.oldest:.2f} s.")
    return int(bool(both.lost_messages or both.lost_chars_max or both.integrity_failures))


# --- the process that kills -------------------------------------------------------------------


def run(rounds: int, *, seed: int, seconds: float) -> tuple[Outcome, Outcome]:
    """What was lost with usual commits, and with slow ones."""
    outcomes = Outcome(), Outcome()
    lock = threading.Lock()

    def work(worker: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(Path(folder) / "chats.db")
            for number in range(worker, rounds, WORKERS):
                dice = random.Random(f"{seed} {number}")
                slow, aimed = divmod((number // WORKERS + worker) % 4, 2)
                said, killed = kill_one(
                    ledger.path, dice, slow=bool(slow), aimed=bool(aimed), seconds=seconds
                )
                outcome = look(ledger, said, killed)
                with lock:
                    outcomes[slow].add(outcome)

    with ThreadPoolExecutor(WORKERS) as pool:
        for done in [pool.submit(work, worker) for worker in range(WORKERS)]:
            done.result()
    return outcomes


def kill_one(
    path: Path, dice: random.Random, *, slow: bool, aimed: bool, seconds: float
) -> tuple[list[Said], float]:
    """Let a process write for a random time; what it said, and the moment it was killed."""
    command = [sys.executable, __file__, "--write", str(path), "--seed", str(dice.getrandbits(30))]
    process = subprocess.Popen(
        command + ["--slow"] * slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    said: list[Said] = []
    killed: list[float] = []

    def kill() -> None:
        killed.append(time.monotonic())  # before it: what is shown from now on does not count
        process.kill()

    delay, timer, due = dice.uniform(0.1, seconds), threading.Timer(0, kill), float("inf")
    for line in process.stdout:
        if not line.endswith("\n"):
            break
        what, when, *numbers = line.split()
        said.append(Said(what, float(when), *map(int, numbers)))
        if what == "ready":
            due = time.monotonic() + delay
            timer = threading.Timer(delay, kill)
            if not aimed:
                timer.start()
        elif aimed and what == "commit" and not killed and time.monotonic() > due:
            time.sleep(dice.uniform(0, AT_COMMIT))
            kill()
    timer.cancel()
    _, errors = process.communicate()
    if not killed:
        raise RuntimeError(f"The process ended by itself: {errors}")
    return said, killed[0]


def look(ledger: Ledger, said: Sequence[Said], killed: float) -> Outcome:
    """Open the file as the next start does, and compare it with what was said."""
    outcome = Outcome()
    store = ChatStore(ledger.path, on_problem=lambda _: None)
    sound = store.problem is None and store.close(30)
    with closing(sqlite3.connect(ledger.path)) as outside:
        add_functions(outside)
        outcome.integrity_failures = int(not (sound and is_sound(outside)))
        rows = outside.execute(
            "SELECT m.id, content, status FROM message AS m LEFT JOIN reply ON message_id = m.id"
        )
        found = {number: (content, status) for number, content, status in rows}
    lengths = {
        number: len(content) if content == text_of(number, len(content)) else 0
        for number, (content, _) in found.items()
    }
    kept = {number: lengths[number] for number in lengths if found[number][1] in (None, "finished")}
    promised, growing = promises(said, killed)
    wanted = ledger.finished | promised
    outcome.checked = len(wanted) + len(growing)
    outcome.lost_messages = sum(kept.get(number) != wanted[number] for number in wanted)
    for number, length in growing.items():
        lost = length - lengths.get(number, 0)
        outcome.lost_chars_max = max(outcome.lost_chars_max, lost)
    gone = (s.when for s in said if s.what == "shown" and s.length > lengths.get(s.message_id, 0))
    outcome.oldest = killed - min(gone, default=killed)
    ledger.finished |= {
        line.message_id: line.length
        for line in said
        if line.what == "finished" and kept.get(line.message_id) == line.length
    }
    return outcome


def promises(said: Sequence[Said], killed: float) -> tuple[dict[int, int], dict[int, int]]:
    """Lengths, by id, of the messages that must be finished, and of what must be there of each."""
    finished = {
        line.message_id: line.length
        for line in said
        if line.what == "finished" and line.when < killed - SLACK
    }
    growing = {
        line.message_id: line.length
        for line in said
        if line.what == "shown" and line.when < killed - SAVED_AFTER
    }
    return finished, growing


def is_sound(connection: sqlite3.Connection) -> bool:
    """Whether SQLite finds no fault with tables, keys and the index of words."""
    try:
        connection.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")
        whole = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return whole and not connection.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.DatabaseError:
        return False


def text_of(number: int, length: int) -> str:
    """The words of that message, so far."""
    unit = f"message {number} says é, 密 and 😀. "
    return (unit * (length // len(unit) + 1))[:length]


# --- the process that is killed ---------------------------------------------------------------


def say(what: str, *numbers: int) -> None:
    """Write a line at once; threads do not get into each other's."""
    os.write(1, " ".join(map(str, (what, time.monotonic(), *numbers, "\n"))).encode())


class WatchedConnection(sqlite3.Connection):
    """Says when it writes."""

    slow = False

    def execute(self, statement: str, *values) -> sqlite3.Cursor:
        """The same, but a COMMIT may take its time."""
        if statement == "COMMIT":
            if self.slow:
                time.sleep(SLOW_COMMIT)
            say("commit")
        return super().execute(statement, *values)


def write(path: Path, dice: random.Random, *, slow: bool) -> int:
    """Ask and answer until killed."""
    from PySide6.QtCore import QCoreApplication, QObject, Qt, QTimer

    from app.chat_library import ChatLibrary
    from app.reply_recorder import ReplyRecorder
    from app.scheduler import Job, Scheduler
    from app.store.records import MessageRecord, ReplyRecord
    from app.ui.states import ReplyGrowth
    from engine.events import Finished, Statistics
    from engine.messages import Message
    from engine.options import SamplingOptions

    class Talk(QObject):
        """Stands for the user, the screen and the model."""

        def __init__(self, library: ChatLibrary) -> None:
            super().__init__()
            self.library = library
            self.chat = library.new()
            self.scheduler = Scheduler(self)
            self.recorder = ReplyRecorder(library, self.scheduler, parent=self)
            self.recorder.grew.connect(self.on_grew)
            self.recorder.closed.connect(self.on_closed)
            self.scheduler.reply_requested.connect(self.answer)
            self.scheduler.on_model_ready()
            self.frame = QTimer(self, interval=FRAME, timerType=Qt.TimerType.PreciseTimer)
            self.frame.timeout.connect(self.grow)

        def ask(self) -> None:
            """Send a question."""
            path = self.chat.path()
            length = dice.choice((1, 80, 3000))
            question = self.add("user", path[-1].id if path else None, length)
            say("finished", question.id, length)
            reply = self.add("assistant", question.id, 0)
            told = (Message("user", question.content),)
            self.scheduler.ask(Job(self.chat.chat.id, reply.id, told, self.chat.live))

        def add(self, role: str, parent: int | None, length: int) -> MessageRecord:
            """Put a message at the end."""
            number = self.library.store.next_id()
            text = text_of(number, length)
            reply = ReplyRecord("waiting") if role == "assistant" else None
            message = MessageRecord(
                number, self.chat.chat.id, parent, role, text, time.time(), reply=reply
            )
            self.chat.add(message)
            return message

        def answer(self, request) -> None:
            """Begin a reply."""
            self.number, self.length, self.ids = request.message_id, 0, ()
            self.ends = time.monotonic() + dice.uniform(0.05, 3.0)
            self.step = dice.choice((20, 20, 400))  # characters a frame
            self.frame.start()

        def grow(self) -> None:
            """Write on, as far as one frame goes."""
            if time.monotonic() > self.ends:
                self.frame.stop()
                text, cost = text_of(self.number, self.length), Statistics(9, 0, 9, 0.1, 300.0)
                ended = Finished("end_of_turn", text, "", self.ids, 7, cost)
                self.scheduler.on_ended(self.number, ended)
                return
            self.length += self.step
            self.ids += (self.length,)
            text = text_of(self.number, self.length)[-self.step :]
            growth = ReplyGrowth(self.number, text, 1, 0.1, (self.length,))
            self.scheduler.on_grew(growth)

        def on_grew(self, job: Job, _growth: ReplyGrowth) -> None:
            """The recorder's listeners show it now."""
            say("shown", job.message_id, len(self.chat[job.message_id].content))

        def on_closed(self, job: Job) -> None:
            """The reply is shown as finished; think, then ask again."""
            say("finished", job.message_id, len(self.chat[job.message_id].content))
            QTimer.singleShot(dice.randrange(300), self.ask)

    WatchedConnection.slow = slow
    connections.sqlite3.connect = functools.partial(sqlite3.connect, factory=WatchedConnection)
    app = QCoreApplication([])
    store = ChatStore(path, on_problem=lambda problem: os._exit(2))
    talk = Talk(ChatLibrary(store, lambda: (SamplingOptions(), None)))
    say("ready")
    talk.ask()
    return app.exec()


if __name__ == "__main__":
    sys.exit(main())
