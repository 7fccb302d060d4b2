"""Any order of what a person can do: view, store and what the engine is told agree after each.

What must hold is worked out by a second, much simpler implementation: `Model`.
"""

import gc
import itertools
import sqlite3
import time
from dataclasses import dataclass, field

import shiboken6
from event_loop import pause
from fake_engine import FakeEngine
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.program import Smoldesk, Start
from app.ui.states import ChatState
from engine.errors import EngineError

CLOCK = itertools.count()
TEXTS = st.text(alphabet="abc *`<&漢👋\n", min_size=1, max_size=12).filter(str.strip)
PROMPTS = st.sampled_from([None, "", "You are brief."])


@dataclass(eq=False)
class Node:
    role: str
    text: str
    parent: "Node | None" = None
    children: list["Node"] = field(default_factory=list)
    selected: "Node | None" = None

    @property
    def shown(self) -> "Node | None":
        chosen = self.selected if self.selected in self.children else None
        return chosen or (self.children[-1] if self.children else None)

    def copy(self, parent: "Node | None") -> "Node":
        copy = Node(self.role, self.text, parent)
        copy.children = [child.copy(copy) for child in self.children]
        if self.selected in self.children:
            copy.selected = copy.children[self.children.index(self.selected)]
        return copy


@dataclass(eq=False)
class Chat:
    root: Node = field(default_factory=lambda: Node("root", ""))
    title: str = ""
    system: str | None = None
    temperature: float = 0.7
    draft: str = ""
    named: bool = False
    pinned: bool = False
    used: int = field(default_factory=CLOCK.__next__)  # when, the later the higher
    temporary: bool = False

    @property
    def blank(self) -> bool:
        return not (self.root.children or self.draft or self.system or self.named)

    def path(self) -> list[Node]:
        path, node = [], self.root.shown
        while node is not None:
            path.append(node)
            node = node.shown
        return path

    def copy(self, last: Node | None = None) -> "Chat":
        """All of it, or of the open branch what leads up to that message."""
        copy = Chat(Node("root", ""), self.title, self.system, self.temperature, "", self.named)
        if last is None:
            copy.root = self.root.copy(None)
            return copy
        place = copy.root
        path = self.path()
        for node in path[: path.index(last) + 1]:
            place = copy.add(place, node.role, node.text)
        return copy

    def add(self, parent: Node, role: str, text: str) -> Node:
        node = Node(role, text, parent)
        parent.children.append(node)
        parent.selected = node
        return node

    def dialog(self, reply: Node) -> list[tuple[str, str]]:
        """What the engine is told so that it writes `reply`, a node of the path."""
        told = [] if self.system is None else [("system", self.system)]
        path = self.path()
        question = None
        for node in path[: path.index(reply)]:
            if node.role == "user":
                question = node
            elif node.text:
                told += [("user", question.text)] if question else []
                told.append(("assistant", node.text))
                question = None
        return [*told, ("user", question.text)] if question else told


def machine(qt_app, folder):
    class Machine(RuleBasedStateMachine):
        @initialize()
        def begin(self):
            self.folder = folder / str(time.monotonic_ns())
            self.replies = 0
            self.chats: list[Chat] = []  # newest first, as listed
            self.open = Chat()
            self.deleted = None
            self.removed = None  # of a chat: what undo brings back
            self.told = None
            self.start()

        def start(self):
            self.engine = FakeEngine(reason="length")
            begin = Start(self.folder, self.folder, self.folder)
            self.smoldesk = Smoldesk(qt_app, begin, opener=self.engine.load)
            self.smoldesk.bugs = []
            self.smoldesk.reporter.bug_found.connect(self.smoldesk.bugs.append)
            self.smoldesk.show()
            self.smoldesk.model.load()
            self.settle()

        def finish(self):
            assert self.smoldesk.end()
            self.smoldesk.window.close()
            assert not self.smoldesk.bugs, self.smoldesk.bugs[0].details
            # At once and here: the collector might take them apart on another thread.
            shiboken6.delete(self.smoldesk.window)
            shiboken6.delete(self.smoldesk)
            del self.smoldesk
            gc.collect()

        def teardown(self):
            if hasattr(self, "smoldesk"):
                self.finish()

        def settle(self):
            late = time.monotonic() + 5
            pause(1)
            while (
                self.smoldesk.chat.state is not ChatState.READY or not self.smoldesk.scheduler.idle
            ):
                assert time.monotonic() < late
                pause(1)

        def reply(self, parent: Node, fails: bool) -> None:
            """The engine answers `parent`; what it is told is looked at in the invariant."""
            self.replies += 1
            self.engine.reply_error = EngineError("It failed.") if fails else None
            self.engine.error_after = 0
            self.engine.reply_text = f"reply {self.replies}"
            node = self.open.add(parent, "assistant", "" if fails else self.engine.reply_text)
            self.told = self.open.dialog(node)
            self.bring_up()

        def bring_up(self):
            self.open.used = next(CLOCK)
            self.list_open()

        def list_open(self):
            if not self.open.temporary and self.open not in self.chats:
                self.chats.append(self.open)
            self.put_in_order()

        def put_in_order(self):
            self.chats.sort(key=lambda chat: (chat.pinned, chat.used), reverse=True)

        def name(self, text: str) -> None:
            if not self.open.title:
                self.open.title = " ".join(text.strip().splitlines()[0].split())

        def send(self, text: str) -> None:
            self.open.draft = ""
            field = self.smoldesk.window.composer.text
            field.setPlainText(text)
            QTest.keyClick(field, Qt.Key.Key_Return)
            self.settle()

        def views(self):
            return self.smoldesk.window.transcript.messages

        @rule(text=TEXTS, fails=st.booleans())
        def submit(self, text, fails):
            path = self.open.path()
            parent = path[-1] if path else self.open.root
            self.reply(self.open.add(parent, "user", text), fails)
            self.name(text)
            self.send(text)

        def places(self, role: str) -> list[int]:
            return [place for place, node in enumerate(self.open.path()) if node.role == role]

        @precondition(lambda self: self.places("assistant"))
        @rule(data=st.data(), fails=st.booleans())
        def regenerate(self, data, fails):
            path = self.open.path()
            place = data.draw(st.sampled_from(self.places("assistant")))
            message_id = self.views()[place].id
            old = path[place]
            if not old.text and not old.children:
                old.parent.children.remove(old)
            self.reply(old.parent, fails)
            self.smoldesk.chat.regenerate(message_id)
            self.settle()

        @precondition(lambda self: self.places("user"))
        @rule(data=st.data(), fails=st.booleans())
        def reply_once_more(self, data, fails):
            path = self.open.path()
            place = data.draw(st.sampled_from(self.places("user")))
            self.reply(path[place], fails)
            self.smoldesk.chat.regenerate(self.views()[place].id)
            self.settle()

        def may_go_on(self) -> bool:
            last = self.open.path()[-1:]
            return bool(last) and last[0].role == "assistant" and bool(last[0].text)

        @precondition(may_go_on)
        @rule()
        def go_on(self):
            last = self.open.path()[-1]
            self.replies += 1
            self.engine.reply_error = None
            self.engine.reply_text = f" more {self.replies}"
            self.told = [*self.open.dialog(last), ("assistant", last.text)]
            last.text += self.engine.reply_text
            self.smoldesk.chat.go_on(self.views()[-1].id)
            self.settle()

        @precondition(lambda self: self.places("user"))
        @rule(data=st.data(), text=TEXTS)
        def edit(self, data, text):
            path = self.open.path()
            place = data.draw(st.sampled_from(self.places("user")))
            self.smoldesk.chat.edit(self.views()[place].id)
            assert self.smoldesk.window.composer.text.toPlainText() == path[place].text
            self.reply(self.open.add(path[place].parent, "user", text), False)
            draft = self.open.draft
            self.send(text)
            self.open.draft = draft

        @precondition(lambda self: self.places("assistant"))
        @rule(data=st.data(), text=TEXTS)
        def edit_reply(self, data, text):
            path = self.open.path()
            place = data.draw(st.sampled_from(self.places("assistant")))
            self.smoldesk.chat.edit(self.views()[place].id)
            self.open.add(path[place].parent, "assistant", text)
            self.bring_up()
            draft = self.open.draft
            self.send(text)
            self.open.draft = draft

        @precondition(lambda self: self.open.path())
        @rule(data=st.data())
        def delete_message(self, data):
            path = self.open.path()
            place = data.draw(st.sampled_from(range(len(path))))
            node = path[place]
            siblings = node.parent.children
            self.removed = (self.open, node, siblings.index(node))
            siblings.remove(node)
            deletions = []
            self.smoldesk.chat.messages_deleted.connect(deletions.append)
            self.smoldesk.chat.delete(self.views()[place].id)
            self.smoldesk.chat.messages_deleted.disconnect(deletions.append)
            (self.deletion,) = deletions

        @precondition(lambda self: self.removed and self.removed[0] is self.open)
        @rule()
        def undo_message(self):
            _, node, place = self.removed
            self.removed = None
            node.parent.children.insert(place, node)
            while node.parent is not None:
                node.parent.selected = node
                node = node.parent
            self.smoldesk.chat.restore(self.deletion)

        @precondition(lambda self: self.open in self.chats)
        @rule()
        def duplicate(self):
            copy = self.open.copy()
            self.leave()
            self.smoldesk.chats.duplicate(self.smoldesk.chat.conversation.chat.id)
            self.open = copy
            self.bring_up()

        @precondition(lambda self: self.open.path() and not self.open.temporary)
        @rule(data=st.data())
        def branch_off(self, data):
            path = self.open.path()
            place = data.draw(st.sampled_from(range(len(path))))
            self.open = self.open.copy(path[place])
            self.smoldesk.chats.branch_off(self.views()[place].id)
            self.bring_up()

        @precondition(lambda self: self.open in self.chats)
        @rule()
        def pin(self):
            self.open.pinned = not self.open.pinned
            self.smoldesk.chats.pin(self.smoldesk.chat.conversation.chat.id, self.open.pinned)
            self.put_in_order()

        @precondition(lambda self: self.open.path())
        @rule(data=st.data(), step=st.sampled_from([-1, 1]))
        def show_version(self, data, step):
            path = self.open.path()
            place = data.draw(st.sampled_from(range(len(path))))
            siblings = path[place].parent.children
            wanted = siblings.index(path[place]) + step
            if 0 <= wanted < len(siblings):
                path[place].parent.selected = siblings[wanted]
            self.smoldesk.chat.show_version(self.views()[place].id, step)

        @rule()
        def new_chat(self):
            if not self.open.blank or self.open.temporary:
                self.leave()
                self.open = Chat()
            self.smoldesk.chats.new_chat()

        @rule()
        def new_temporary_chat(self):
            if not self.open.blank or not self.open.temporary:
                self.leave()
                self.open = Chat(temporary=True)
            self.smoldesk.chats.new_temporary_chat()

        def leave(self):
            if self.open.blank and self.open in self.chats:
                self.chats.remove(self.open)

        @precondition(lambda self: self.chats)
        @rule(data=st.data())
        def open_chat(self, data):
            chat = data.draw(st.sampled_from(self.chats))
            ids = [record.id for record in self.smoldesk.chats.library.records()]
            chosen = ids[self.chats.index(chat)]
            if chat is not self.open:
                self.leave()
            self.open = chat
            self.smoldesk.chats.open_chat(chosen)

        @precondition(lambda self: self.open in self.chats and self.open.path())
        @rule()
        def delete(self):
            place = self.chats.index(self.open)
            self.deleted = (self.open, self.smoldesk.chat.conversation.chat.id)
            self.chats.remove(self.open)
            self.smoldesk.chats.delete(self.deleted[1])
            neighbours = self.chats
            self.open = neighbours[min(place, len(neighbours) - 1)] if neighbours else Chat()

        @precondition(lambda self: self.deleted)
        @rule()
        def undo(self):
            self.leave()
            self.open, chat_id = self.deleted
            self.deleted = None
            self.smoldesk.chats.restore(chat_id)
            self.list_open()

        @precondition(lambda self: self.open in self.chats)
        @rule(title=TEXTS)
        def rename(self, title):
            self.open.title, self.open.named = " ".join(title.split()), True
            self.smoldesk.chats.rename(self.smoldesk.chat.conversation.chat.id, title)

        @rule(value=st.sampled_from([0.0, 0.5, 1.5]))
        def set_temperature(self, value):
            self.open.temperature = value
            slider = self.smoldesk.window.panel.sampling.temperature.slider
            slider.setValue(round(value * 100))

        @rule(prompt=PROMPTS)
        def set_system_prompt(self, prompt):
            self.open.system = prompt
            if prompt:
                self.list_open()
            self.smoldesk.chat.change_system_prompt(prompt)

        @precondition(lambda self: self.open in self.chats)
        @rule(text=st.text(alphabet="ab\n", max_size=5))
        def write_draft(self, text):
            self.open.draft = text
            self.smoldesk.window.composer.text.setPlainText(text)

        @rule()
        def restart(self):
            self.finish()
            self.deleted = self.removed = None
            if self.open not in self.chats:
                self.open = Chat()
            self.start()

        @invariant()
        def view_and_model_agree(self):
            if not hasattr(self, "smoldesk"):
                return
            path = self.open.path()
            assert [(m.role, m.text) for m in self.views()] == [(n.role, n.text) for n in path]
            for message, node in zip(self.views(), path, strict=True):
                siblings = node.parent.children
                assert (message.version, message.versions) == (
                    siblings.index(node) + 1,
                    len(siblings),
                )
            sidebar = self.smoldesk.window.sidebar.list.model()
            rows = [sidebar.index(row, 0) for row in range(sidebar.rowCount())]
            titles = [row.data() for row in rows if row.flags()]  # without headings
            assert [title or "" for title in titles] == [
                chat.title or "New chat" for chat in self.chats
            ]
            panel = self.smoldesk.window.panel.sampling
            assert panel.temperature.box.value() == self.open.temperature
            assert self.smoldesk.window.composer.text.toPlainText() == self.open.draft

        @invariant()
        def engine_was_told_what_the_model_says(self):
            if getattr(self, "told", None) is not None:
                told = [(m.role, m.content) for m in self.engine.prompts[-1]]
                assert told == self.told
                assert self.engine.options.current.temperature == self.open.temperature
                self.told = None

        @invariant()
        def store_and_model_agree(self):
            if not hasattr(self, "smoldesk"):
                return
            self.smoldesk.chat.save()
            assert self.smoldesk.store.flush(5)
            found = sqlite3.connect(self.folder / "chats.db")
            try:
                listed = found.execute(
                    "SELECT id, title, draft, system_prompt FROM chat WHERE deleted_at IS NULL"
                    " ORDER BY pinned DESC, updated_at DESC, id DESC"
                ).fetchall()
                assert [row[1] for row in listed] == [chat.title for chat in self.chats]
                for (chat_id, _, draft, system), chat in zip(listed, self.chats, strict=True):
                    assert (draft, system) == (chat.draft, chat.system)
                    texts = found.execute(
                        "SELECT content FROM message WHERE chat_id = ? AND deleted_at IS NULL",
                        (chat_id,),
                    ).fetchall()
                    assert sorted(text for (text,) in texts) == sorted(every_text(chat.root))
            finally:
                found.close()

    return Machine


def every_text(node: Node) -> list[str]:
    return [text for child in node.children for text in (child.text, *every_text(child))]


def test_any_order_of_operations(qt_app, qt_messages, tmp_path):
    run_state_machine_as_test(
        machine(qt_app, tmp_path),
        settings=settings(
            max_examples=15,
            stateful_step_count=20,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
        ),
    )
