"""No mouse: every key does what its words say, and a whole visit to the program by keys alone."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from event_loop import pause
from fake_engine import FakeEngine
from PySide6.QtCore import QTimer
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit

from app.ui.keys import KEYS

PROGRAM = Path(__file__).parent / "watched_program.py"
TOOLS = ("Xvfb", "openbox", "xdotool")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
PATIENCE = 30.0  # seconds; a busy machine takes its time


# --- each key, offscreen -------------------------------------------------------------------------


def press(sequence: str) -> None:
    """Press a key with its modifiers, wherever the keyboard is."""
    key = QKeySequence(sequence)[0]
    window = QApplication.activeWindow()
    QTest.keyClick(QApplication.focusWidget() or window, key.key(), key.keyboardModifiers())


@pytest.fixture
def talk(open_window, wait_until):
    """Two chats; the open one, the newer, has a reply in two versions and one that was stopped."""
    smoldesk = open_window(FakeEngine(reason="stopped"))
    chat = smoldesk.chat
    for question in ("older", "newer"):
        smoldesk.chats.new_chat()
        chat.submit(question)
        wait_until(lambda: not chat.state.busy)
    chat.regenerate(chat.last_reply.id)
    wait_until(lambda: not chat.state.busy)
    smoldesk.window.activateWindow()
    smoldesk.window.composer.text.setFocus()
    pause(10)
    return smoldesk


def dialog_title(_smoldesk) -> str:
    window = QApplication.activeWindow()
    return window.windowTitle() if window is not None else ""


def version(smoldesk) -> int:
    return smoldesk.window.transcript.messages[-1].version


def zoom(smoldesk) -> int:
    return smoldesk.preferences.settings.zoom


def title(smoldesk) -> str:
    return smoldesk.chat.conversation.chat.title


def to_version_1(smoldesk) -> None:
    smoldesk.chat.show_version(smoldesk.chat.last_reply.id, -1)


def to_older_chat(smoldesk) -> None:
    smoldesk.chats.open_neighbour(1)


def edit(smoldesk) -> None:
    smoldesk.chat.edit_last()


def leave_the_composer(smoldesk) -> None:
    smoldesk.window.sidebar.list.setFocus()


def in_composer(smoldesk) -> bool:
    return QApplication.focusWidget() is smoldesk.window.composer.text


def reply_length(smoldesk) -> int:
    return len(smoldesk.window.transcript.messages[-1].text)


def clipboard(_smoldesk) -> str:
    return QApplication.clipboard().text()


def renaming(smoldesk) -> bool:
    return isinstance(QApplication.focusWidget(), QLineEdit)


def searching(smoldesk) -> bool:
    return QApplication.focusWidget() is smoldesk.window.sidebar.field


def temporary(smoldesk) -> bool:
    return smoldesk.window.temporary.isVisible()


def finding(smoldesk) -> bool:
    return QApplication.focusWidget() is smoldesk.window.find_bar.field


# For each key: what to do before, what to look at, and what that becomes (from what it was).
EFFECTS = {
    "rename_chat": (None, renaming, lambda _: True),
    "new_chat": (None, lambda s: len(s.window.transcript.messages), lambda _: 0),
    "temporary_chat": (None, temporary, lambda _: True),
    "find": (None, finding, lambda _: True),
    "find_next": (None, finding, lambda _: True),
    "find_previous": (None, finding, lambda _: True),
    "search": (None, searching, lambda _: True),
    "previous_chat": (to_older_chat, title, lambda _: "newer"),
    "next_chat": (None, title, lambda _: "older"),
    "focus_message": (leave_the_composer, in_composer, lambda _: True),
    "stop": (edit, lambda s: s.window.composer.editing.isVisible(), lambda _: False),
    "regenerate": (None, lambda s: s.window.transcript.messages[-1].versions, lambda _: 3),
    "continue_reply": (None, reply_length, lambda before: 2 * before),
    "previous_version": (None, version, lambda _: 1),
    "next_version": (to_version_1, version, lambda _: 2),
    "copy_reply": (None, clipboard, lambda _: FakeEngine().reply_text),
    "sidebar": (None, lambda s: s.window.sidebar.isVisible(), lambda before: not before),
    "panel": (None, lambda s: s.window.panel.isVisible(), lambda before: not before),
    "menu": (
        leave_the_composer,
        lambda s: s.window.sidebar.list.menu is not None,
        lambda _: True,
    ),
    "zoom_in": (None, zoom, lambda _: 110),
    "zoom_out": (None, zoom, lambda _: 90),
    "zoom_reset": (lambda s: s.preferences.zoom_by(1), zoom, lambda _: 100),
    "settings": (None, dialog_title, lambda _: "Settings"),
    "keys": (None, dialog_title, lambda _: "Keys"),
    "help": (None, dialog_title, lambda _: "Keys"),
    "quit": (None, lambda s: s.window.isVisible(), lambda _: False),
}
NO_GRABBING = "This plugin does not support grabbing the keyboard"  # as a menu would like to
OF_THE_WINDOW = [key for key in KEYS if not key.listed_only]
SEQUENCES = [(key, words) for key in OF_THE_WINDOW for words in (key.sequence, *key.others)]


def test_no_two_keys_are_the_same():
    words = [QKeySequence(words) for _, words in SEQUENCES]
    assert len({word.toString() for word in words}) == len(words) == len(set(map(str, words)))


@pytest.mark.parametrize(("key", "sequence"), SEQUENCES, ids=[words for _, words in SEQUENCES])
def test_a_key_does_what_its_words_say(talk, wait_until, key, sequence, qt_messages):
    before_it, look, becomes = EFFECTS[key.name]
    if before_it is not None:
        before_it(talk)
        pause(10)
    before = look(talk)
    wanted = becomes(before)
    assert before != wanted
    press(sequence)
    wait_until(lambda: look(talk) == wanted, f"{key.words}: {look(talk)} to be {wanted}")
    wait_until(lambda: not talk.chat.state.busy)
    if key.name == "menu":
        qt_messages[:] = [message for message in qt_messages if message != NO_GRABBING]


@contextmanager
def closing_menus():
    """What popups came up meanwhile; each is closed, since some wait for that."""
    seen = []

    def look() -> None:
        popup = QApplication.activePopupWidget()
        if popup is not None:
            seen.append(popup)
            popup.close()

    timer = QTimer(interval=5)
    timer.timeout.connect(look)
    timer.start()
    yield seen
    timer.stop()


@pytest.mark.parametrize("place", ["composer", "search", "list", "reply", "value", "button"])
def test_the_menu_key_of_laptops_works_wherever_the_keyboard_is(talk, place, qt_messages):
    window = talk.window
    widgets = {
        "composer": window.composer.text,
        "search": window.sidebar.field,
        "list": window.sidebar.list,
        "reply": window.transcript,
        "value": window.panel.sampling.temperature.slider,
        "button": window.header.panel,
    }
    widgets[place].setFocus()
    assert QApplication.focusWidget() is not None
    with closing_menus() as seen:
        press("Shift+F10")
        pause(50)
    assert bool(seen) is (place in ("composer", "search", "list"))
    qt_messages[:] = [message for message in qt_messages if message != NO_GRABBING]


def test_esc_stops_a_reply_wherever_the_keyboard_is(open_window, wait_until):
    smoldesk = open_window(FakeEngine(reply_text="word " * 2000, per_token=0.005))
    smoldesk.window.activateWindow()
    for place in (smoldesk.window.sidebar.list, smoldesk.window.panel.sampling.temperature.slider):
        smoldesk.chats.new_chat()
        smoldesk.chat.submit("a")
        wait_until(lambda: smoldesk.chat.last_reply is not None and smoldesk.chat.state.busy)
        place.setFocus()
        press("Esc")
        wait_until(lambda: not smoldesk.chat.state.busy)


# --- a whole visit, on a screen of its own ------------------------------------------------------


class Visit:
    """The program on an X server without a mouse; what it says and stores can be waited for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        reading, writing = os.pipe()
        self._processes = [
            subprocess.Popen(
                ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x900x24"],
                stderr=subprocess.DEVNULL,
                pass_fds=[writing],
            )
        ]
        os.close(writing)
        with os.fdopen(reading) as numbers:
            display = f":{numbers.readline().strip()}"
        self._environ = {**os.environ, "DISPLAY": display, "QT_QPA_PLATFORM": "xcb"}
        self._start("openbox")
        late = time.monotonic() + PATIENCE
        while self._xdotool("get_num_desktops", check=False).returncode:  # no window manager yet
            assert time.monotonic() < late, "openbox did not start"
            time.sleep(0.05)
        self.program = self._start(sys.executable, str(PROGRAM), str(folder))
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _start(self, *command: str) -> subprocess.Popen:
        process = subprocess.Popen(
            command,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process

    def _xdotool(self, *words: str, check: bool = True) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["xdotool", *words], env=self._environ, check=check, capture_output=True
        )

    def _listen(self) -> None:
        for line in self.program.stdout:
            self.said.append(line.strip())

    def close(self) -> None:
        """End what is left, the X server last."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._listener.join()
        for process in self._processes:
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def wait(self, condition, what: str = "") -> None:
        late = time.monotonic() + PATIENCE
        while not condition():
            assert self.program.poll() is None, self.program.stderr.read()
            assert time.monotonic() < late, f"waited in vain for {what}; said: {self.said[-8:]}"
            time.sleep(0.02)

    def hear(self, line: str, after: int) -> None:
        """Wait for a line after that many others."""
        self.wait(lambda: line in self.said[after:], line)

    def keys(self, *keys: str, hear: str = "") -> None:
        """Press keys one after the other; `hear` is what the program then says."""
        after = len(self.said)
        self._xdotool("key", *keys)
        if hear:
            self.hear(hear, after)

    def write(self, text: str) -> None:
        self._xdotool("type", "--delay", "15", text)

    def go_to(self, name: str, key: str = "Tab") -> None:
        """Press Tab until the keyboard is on the control of that name."""
        for _ in range(80):
            after = len(self.said)
            self.keys(key)
            self.wait(lambda after=after: self._focus(after), "the focus to move")
            if self._focus(after) == f"focus {name}":
                return
        pytest.fail(f"{key} does not lead to {name}")

    def _focus(self, after: int) -> str:
        """Where the keyboard is now, if it has moved after that many lines."""
        return next((line for line in reversed(self.said[after:]) if line[:5] == "focus"), "")

    def stopped_by_esc(self) -> None:
        """A reply runs; stop it once some of it is there."""
        after = len(self.said)
        self.wait(lambda: any(s[:4] == "grew" for s in self.said[after:]), "a reply")
        self.keys("Escape", hear="chat READY")

    def rows(self, query: str) -> list[tuple]:
        """What is on disk."""
        with closing(sqlite3.connect(f"file:{self.folder}/chats.db?mode=ro", uri=True)) as store:
            return store.execute(query).fetchall()

    def stored(self, query: str, wanted) -> None:
        """Wait until the first column of what is on disk is that."""
        self.wait(lambda: [row[0] for row in self.rows(query)] == wanted, f"{query}: {wanted}")

    def setting(self, name: str, wanted) -> None:
        """Wait until a setting is on disk."""

        def is_so() -> bool:
            file = self.folder / "settings.json"
            return file.exists() and json.loads(file.read_bytes()).get(name) == wanted

        self.wait(is_so, f"{name}: {wanted}")


@pytest.fixture
def visit(tmp_path):
    if MISSING:
        pytest.skip(f"not installed: {', '.join(MISSING)}")
    begun = Visit(tmp_path)
    yield begun
    begun.close()


REPLIES = "SELECT count(*) FROM message WHERE role = 'assistant' AND content <> ''"
CHOSEN = (
    "SELECT (SELECT count(*) FROM message AS m WHERE m.parent_id = q.id AND m.id <= q.selected_id)"
    " FROM message AS q WHERE role = 'user' AND content = 'Why is the sky blue?'"
)
LENGTH = "SELECT max(length(content)) FROM message WHERE role = 'assistant'"


def test_a_visit_without_a_mouse(visit):
    visit.wait(lambda: {"model READY", "focus Message"} <= set(visit.said), "the window")
    talk_and_choose_versions(visit)
    edit_and_leave(visit)
    go_between_chats(visit)
    rename_delete_and_undo(visit)
    use_the_bars_and_a_slider(visit)
    open_dialogs_and_quit(visit)


def talk_and_choose_versions(visit: Visit) -> None:
    visit.write("Why is the sky blue?")
    visit.keys("Return", hear="chat ANSWERING")
    visit.stopped_by_esc()
    visit.stored("SELECT reason FROM reply", ["stopped"])
    [(length,)] = visit.rows(LENGTH)
    visit.keys("ctrl+Return", hear="chat ANSWERING")
    visit.stopped_by_esc()
    visit.wait(lambda: visit.rows(LENGTH)[0][0] > length, "the reply to go on")
    visit.stored(REPLIES, [1])
    visit.keys("ctrl+r", hear="chat ANSWERING")
    visit.stopped_by_esc()
    visit.stored(REPLIES, [2])
    visit.keys("alt+Left")
    visit.stored(CHOSEN, [1])
    visit.keys("alt+Right")
    visit.stored(CHOSEN, [2])


def edit_and_leave(visit: Visit) -> None:
    visit.keys("Up", hear="editing True")
    visit.keys("Escape", hear="editing False")
    visit.stored("SELECT draft FROM chat", [""])


def go_between_chats(visit: Visit) -> None:
    visit.keys("ctrl+n")
    visit.write("Second")
    visit.keys("Return", hear="chat ANSWERING")
    visit.stopped_by_esc()
    visit.stored("SELECT title FROM chat ORDER BY id", ["Why is the sky blue?", "Second"])
    first, second = (row[0] for row in visit.rows("SELECT id FROM chat ORDER BY id"))
    visit.keys("ctrl+Down", hear=f"opened {first}")
    visit.keys("ctrl+Up", hear=f"opened {second}")


def rename_delete_and_undo(visit: Visit) -> None:
    visit.go_to("Chats", "shift+Tab")
    visit.keys("F2", hear="focus Title of the chat")
    visit.write("Renamed")
    visit.keys("Return", hear="focus Chats")
    visit.stored("SELECT title FROM chat WHERE titled", ["Renamed"])
    visit.keys("Delete")
    visit.stored("SELECT title FROM chat WHERE deleted_at IS NOT NULL", ["Renamed"])
    visit.go_to("Undo")
    visit.keys("Return")
    visit.stored("SELECT title FROM chat WHERE deleted_at IS NOT NULL", [])


def use_the_bars_and_a_slider(visit: Visit) -> None:
    for key, name in (("ctrl+period", "panel_shown"), ("ctrl+b", "sidebar_shown")):
        visit.keys(key)
        visit.setting(name, False)
        visit.keys(key)
        visit.setting(name, True)
    visit.keys("ctrl+l")
    visit.go_to("Temperature")
    visit.keys("Right", "Right")
    visit.stored("SELECT json_extract(options, '$.temperature') FROM chat WHERE titled", [0.72])


def open_dialogs_and_quit(visit: Visit) -> None:
    for key, title in (("ctrl+comma", "Settings"), ("ctrl+slash", "Keys")):
        visit.keys(key, hear=f"window {title}")
        visit.keys("Escape", hear="window Smoldesk")
    visit.keys("ctrl+equal")
    visit.setting("zoom", 110)
    visit.keys("ctrl+q")
    assert visit.program.wait(PATIENCE) == 0
    assert "Traceback" not in visit.program.stderr.read()
