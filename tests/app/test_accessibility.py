"""The window as a screen reader and the Tab key meet it: names, roles, order, visible focus."""

import time
from itertools import pairwise

import numpy as np
import pytest
from event_loop import pause
from fake_engine import DEFAULT_REPLY, FakeEngine
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QAccessible, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QLabel,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)

from app.ui.states import Activity, ChatLine, Failure, ReplyFacts, ReplyStatus, ShownMessage
from app.ui.transcript.message_view import MessageView
from engine.errors import EngineError

Role = QAccessible.Role
SENSIBLE = {
    Role.Button,
    Role.ButtonMenu,
    Role.CheckBox,
    Role.Client,  # the conversation, which scrolls
    Role.ComboBox,
    Role.EditableText,
    Role.List,
    Role.ListItem,
    Role.PageTab,
    Role.PageTabList,
    Role.RadioButton,
    Role.Slider,
    Role.SpinBox,
}
CLEARLY = 30  # pixels
FAILURE = Failure("The model’s file is damaged.", "Fetch it again.", "Traceback: …")
DONE = ReplyFacts(ReplyStatus.FINISHED, "end_of_turn")
MESSAGES = [
    ShownMessage(-1, "user", "Why is the sky blue?", version=1, versions=2),
    ShownMessage(-2, "assistant", "Air **scatters** light.", DONE, version=2, versions=3),
    ShownMessage(-3, "user", "And at night?"),
    ShownMessage(-4, "assistant", "", ReplyFacts(ReplyStatus.FAILED, failure=FAILURE)),
    ShownMessage(-5, "user", "Still there?"),
    ShownMessage(-6, "assistant", "The sky", ReplyFacts(ReplyStatus.INTERRUPTED)),
]
CHATS = [ChatLine(-number, f"Chat {number}", 0.0) for number in range(1, 4)]


def fill(smoldesk) -> None:
    """Show as much at once as there can be."""
    window, sampling = smoldesk.window, smoldesk.window.panel.sampling
    window.resize(1240, 1000)
    window.sidebar.show_chats(CHATS)
    window.transcript.show_conversation(MESSAGES)
    window.composer.show_text("A draft")
    window.composer.set_editing(True)
    window.notice.tell("“Chat 4” was deleted.", "Undo", lambda: None)
    sampling.more.button.setChecked(True)
    sampling.length.check.click()
    sampling.seed.same.click()
    sampling.show_last_seed(7)
    sampling.system_prompt.buttons["own"].click()
    sampling.presets.naming.begin()
    sampling.presets.naming.field.setText("Mine")
    window.activateWindow()
    pause(30)


@pytest.fixture
def full(open_window, wait_until):
    """A window with everything in it."""
    smoldesk = open_window()
    wait_until(lambda: smoldesk.window.header.device.isVisible())
    fill(smoldesk)
    return smoldesk


def show(smoldesk, what: str) -> QWidget:
    """The window, or one of its dialogs opened."""
    window = smoldesk.window
    if what == "scope":
        window.panel.tabs.setCurrentIndex(1)
        window.panel.scope.show_prompt(
            [("<|im_start|>", True), ("user\nHello", False), ("<|im_end|>", True)], 5
        )
    opening = {
        "settings": smoldesk.preferences.show_settings,
        "keys": smoldesk.preferences.show_keys,
        "about": smoldesk.preferences.show_about,
    }.get(what)
    if opening is None:
        return window
    opening(window)
    pause(30)
    return QApplication.activeWindow()


def walk(interface, *, above=()):
    """Every interface on screen, each with those above it."""
    if interface.state().invisible:
        return
    yield interface, above
    for number in range(interface.childCount()):
        child = interface.child(number)
        if child is not None and child.isValid():
            yield from walk(child, above=(*above, interface))


def name(interface) -> str:
    """What a screen reader calls it: on Linux it asks the label for the name of a box."""
    if interface.role() == Role.ComboBox:
        labels = interface.relations(QAccessible.RelationFlag.Label)
        return " ".join(label.text(QAccessible.Text.Name) for label, _ in labels)
    return interface.text(QAccessible.Text.Name)


def controls(root: QWidget):
    """What takes the focus or can be pressed; not text that only the mouse selects."""
    for interface, above in walk(QAccessible.queryAccessibleInterface(root)):
        actions = interface.actionInterface()
        pressed = actions and {"Press", "Toggle", "ShowMenu"} & set(actions.actionNames())
        if (interface.state().focusable or pressed) and interface.role() != Role.StaticText:
            yield interface, above


def tab_through(root: QWidget) -> list[QWidget]:
    """Every widget that Tab leads to, in order, beginning after the one in focus."""
    reached: list[QWidget] = []
    while True:
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        focus = QApplication.focusWidget()
        assert focus is not None
        assert root.isAncestorOf(focus)
        if focus in reached:
            assert focus is reached[0], f"Tab is caught at {focus}"
            return reached
        reached.append(focus)


def in_a_group_with(widget: QWidget, reached: list[QWidget]) -> bool:
    """Whether arrow keys lead to it from a button that Tab reaches."""
    return (
        isinstance(widget, QAbstractButton)
        and widget.autoExclusive()
        and any(other.parent() is widget.parent() for other in reached)
    )


WHERE = ("sampling", "scope", "settings", "keys", "about")


@pytest.mark.parametrize("where", WHERE)
def test_every_control_has_a_name_a_role_and_a_way_to_it(full, where):
    root = show(full, where)
    reached = tab_through(root)
    seen = set()
    for interface, above in controls(root):
        said = name(interface)
        what = f"{interface.role().name} {said!r} {interface.object()}"
        assert said.strip(), what
        assert interface.role() in SENSIBLE, what
        widget = interface.object()
        if widget is None:  # a row or a tab: arrow keys lead there
            assert above[-1].object() in reached, what
        elif not interface.state().disabled:
            assert widget in reached or in_a_group_with(widget, reached), what
        message = next((i.object() for i in above if isinstance(i.object(), MessageView)), None)
        assert (interface.role(), said, message) not in seen, f"twice: {what}"
        seen.add((interface.role(), said, message))
    assert len(seen) > {"keys": 0, "about": 1, "settings": 20}.get(where, 40)


@pytest.mark.parametrize("where", WHERE)
def test_a_label_is_read_as_what_it_says(full, where):
    """An accessible name takes the place of a text, so it must not hide it."""
    root = show(full, where)
    for label in root.findChildren(QLabel):
        if label.isVisible() and label.text() and label.accessibleName():
            hidden = label.text() not in label.accessibleName()
            short = label.text().replace("/", " of ") in label.accessibleName()  # 2/3
            elided = "…" in label.text()
            assert not hidden or short or elided, (label.text(), label.accessibleName())


def test_sliders_and_boxes_tell_their_value_and_range(full):
    numbers = [i for i, _ in controls(full.window) if i.role() in (Role.Slider, Role.SpinBox)]
    assert len(numbers) == 2 * 9
    for number in numbers:
        value = number.valueInterface()
        least, most = value.minimumValue(), value.maximumValue()
        assert least < most
        assert least <= value.currentValue() <= most
        assert number.text(QAccessible.Text.Value)
    temperature = QAccessible.queryAccessibleInterface(full.window.panel.sampling.temperature.box)
    assert temperature.valueInterface().currentValue() == pytest.approx(0.7)
    assert temperature.valueInterface().maximumValue() == 2.0


def test_one_of_several_is_told_as_such(full):
    dialog = show(full, "settings")
    for button in (dialog.theme.buttons["dark"], dialog.prompt.buttons["empty"]):
        assert QAccessible.queryAccessibleInterface(button).role() == Role.RadioButton


def test_the_rows_of_the_list_say_what_goes_on_in_a_chat(full):
    now = time.time()
    lines = [
        ChatLine(101, "one", now),
        ChatLine(102, "two", now, Activity.WAITING),
        ChatLine(103, "three", now, Activity.ANSWERING),
        ChatLine(104, "", now, Activity.UNREAD),
    ]
    full.window.sidebar.show_chats(lines)
    chats = QAccessible.queryAccessibleInterface(full.window.sidebar.list)
    said = [chats.child(row).text(QAccessible.Text.Name) for row in range(chats.childCount())]
    assert said == [
        "one",
        "two, waiting for its turn",
        "three, a reply is being written",
        "New chat, a new reply",
    ]


@pytest.fixture
def announced(monkeypatch):
    """What a screen reader is asked to say at once, in order."""
    said = []

    def note(event):
        if event.type() == QAccessible.Event.Announcement:
            said.append(event.message())

    monkeypatch.setattr(QAccessible, "updateAccessibility", note)
    return said


def test_a_finished_reply_is_announced(open_window, wait_until, announced):
    smoldesk = open_window()
    smoldesk.chat.submit("Why is the sky blue?")
    wait_until(lambda: announced)
    assert announced == [DEFAULT_REPLY]


def test_a_failed_reply_and_a_notice_are_announced(open_window, wait_until, announced):
    smoldesk = open_window(FakeEngine(reply_error=EngineError("It is too long.", "Shorten it.")))
    smoldesk.chat.submit("a")
    wait_until(lambda: announced)
    assert announced == ["It is too long."]
    smoldesk.window.tell_deleted(1, "My chat", lambda: None)
    assert announced[1:] == ["“My chat” was deleted. Undo"]


# --- the way of the Tab key ----------------------------------------------------------------------


def part_of(window, widget: QWidget) -> str:
    parts = {
        "sidebar": window.sidebar,
        "header": window.header,
        "notice": window.notice,
        "conversation": window.transcript,
        "composer": window.composer,
        "panel": window.panel,
    }
    return next(n for n, part in parts.items() if part is widget or part.isAncestorOf(widget))


def without_repeats(words):
    return [word for place, word in enumerate(words) if place == 0 or words[place - 1] != word]


def test_tab_goes_through_the_window_as_one_reads_it(full):
    window = full.window
    window.sidebar.new_chat.setFocus()
    reached = tab_through(window)
    reached = [reached[-1], *reached[:-1]]  # the first one was in focus
    assert without_repeats([part_of(window, widget) for widget in reached]) == [
        "sidebar",
        "header",
        "notice",
        "conversation",
        "composer",
        "panel",
    ]
    sidebar = window.sidebar
    chats = [sidebar.new_chat, sidebar.more, sidebar.field, sidebar.list]
    assert reached[:6] == [*chats, sidebar.settings, sidebar.help]
    composer = [w for w in reached if part_of(window, w) == "composer"]
    assert composer == [window.composer.text, window.composer.button, window.composer.editing.leave]
    panel = [w for w in reached if part_of(window, w) == "panel"]
    assert panel[:2] == [window.panel.tabs, window.panel.sampling.presets.box]
    tops = [w.mapTo(window.panel.sampling.widget(), QPoint()).y() for w in panel[1:]]
    assert all(below >= above - 8 for above, below in pairwise(tops))


def test_shift_tab_goes_the_same_way_back(full):
    window = full.window
    window.composer.text.setFocus()
    there = tab_through(window)
    back = []
    for _ in there:
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Backtab)
        back.append(QApplication.focusWidget())
    assert back == there[::-1]  # from the first one on, where that ended


def long_conversation(smoldesk) -> list[ShownMessage]:
    messages = []
    for number in range(-60, 0, 2):
        messages.append(ShownMessage(number, "user", f"Question {number}"))
        messages.append(ShownMessage(number + 1, "assistant", "Word. " * 120, DONE))
    smoldesk.window.transcript.show_conversation(messages)
    pause(30)
    return messages


def test_messages_come_in_their_order_and_into_sight_whenever_they_were_made(full):
    """Going up from the end makes older messages after newer ones."""
    messages = long_conversation(full)
    transcript = full.window.transcript
    full.window.composer.text.setFocus()
    order = []
    for _ in range(80):
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Backtab)
        focus = QApplication.focusWidget()
        view = focus
        while not isinstance(view, MessageView):
            view = view.parentWidget()
        order.append(view.message.id)
        place = QRect(focus.mapTo(transcript.viewport(), QPoint()), focus.size())
        assert transcript.viewport().rect().contains(place), (view.message.id, place)
    ids = [message.id for message in reversed(messages)]
    assert without_repeats(order) == ids[: len(set(order))]
    assert len(set(order)) > 15
    views = [v for v in transcript.viewport().children() if isinstance(v, MessageView)]
    views = [view.message.id for view in views if view.isVisible()]
    assert views == sorted(views)


@pytest.mark.parametrize("where", ["sampling", "settings"])
def test_what_tab_comes_to_is_in_sight(full, where):
    root = show(full, where)
    root.resize(root.width(), 500)
    pause(30)
    page = root.scroll if where == "settings" else root.panel.sampling
    for key in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab):
        for _ in tab_through(root):
            QTest.keyClick(QApplication.focusWidget(), key)
            focus = QApplication.focusWidget()
            if page.isAncestorOf(focus):
                place = QRect(focus.mapTo(page.viewport(), QPoint()), focus.size())
                assert page.viewport().rect().contains(place), focus


def test_the_keyboard_stays_on_the_button_when_another_version_comes(open_window, wait_until):
    smoldesk = open_window()
    chat, transcript = smoldesk.chat, smoldesk.window.transcript
    smoldesk.chat.submit("Why?")
    for _ in range(2):
        wait_until(lambda: not chat.state.busy and transcript.messages)
        chat.regenerate(chat.last_reply.id)
    wait_until(lambda: not chat.state.busy)

    def actions():
        return transcript.view(transcript.messages[-1].id).actions

    smoldesk.window.activateWindow()
    actions().previous.setFocus()
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Space)
    assert transcript.messages[-1].version == 2
    assert QApplication.focusWidget() is actions().previous
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Space)
    assert transcript.messages[-1].version == 1
    assert QApplication.focusWidget() is actions().next  # there is no version before


def test_the_button_to_the_latest_leaves_the_keyboard_where_it_led(full):
    long_conversation(full)
    transcript = full.window.transcript
    bar = transcript.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    transcript.jump.setFocus()
    QTest.keyClick(transcript.jump, Qt.Key.Key_Space)
    pause(10)
    assert bar.value() == bar.maximum()
    assert QApplication.focusWidget() is transcript


def test_an_example_chosen_by_key_leaves_the_view_at_the_end(open_window, wait_until):
    smoldesk = open_window(FakeEngine(reply_text="A line.\n\n" * 100))
    window = smoldesk.window
    window.activateWindow()
    window.transcript.welcome.examples[0].setFocus()
    QTest.keyClick(window.transcript.welcome.examples[0], Qt.Key.Key_Return)
    wait_until(lambda: smoldesk.chat.last_reply is not None and not smoldesk.chat.state.busy)
    pause(20)
    bar = window.transcript.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0
    assert QApplication.focusWidget() is window.transcript


def test_enter_presses_the_button_in_focus(full):
    window = full.window
    window.sidebar.new_chat.setFocus()
    done = []
    window.sidebar.new_chat_requested.connect(lambda: done.append("new"))
    QTest.keyClick(window.sidebar.new_chat, Qt.Key.Key_Return)
    assert done == ["new"]
    dialog = show(full, "settings")
    dialog.theme.buttons["dark"].setFocus()
    QTest.keyClick(dialog.theme.buttons["dark"], Qt.Key.Key_Return)
    assert dialog.isVisible()
    assert full.preferences.settings.theme == "dark"
    dialog.close_button.setFocus()
    QTest.keyClick(dialog.close_button, Qt.Key.Key_Return)
    assert not dialog.isVisible()


def test_tab_ends_a_rename_and_opens_no_other_chat(open_window, wait_until):
    smoldesk = open_window()
    for text in ("one", "two"):
        smoldesk.chats.new_chat()
        smoldesk.chat.submit(text)
        wait_until(lambda: not smoldesk.chat.state.busy)
    chats = smoldesk.window.sidebar.list
    smoldesk.window.activateWindow()
    chats.setFocus()
    QTest.keyClick(chats, Qt.Key.Key_F2)
    QTest.keyClicks(QApplication.focusWidget(), "renamed")
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
    wait_until(lambda: smoldesk.chat.conversation.chat.title == "renamed")
    pause(200)
    assert smoldesk.chat.conversation.chat.title == "renamed"
    assert QApplication.focusWidget() is chats


# --- seeing where it is --------------------------------------------------------------------------


def picture(root: QWidget, widget: QWidget) -> np.ndarray:
    """What is on screen there, and a little around it."""
    place = QRect(widget.mapTo(root, QPoint()), widget.size()).adjusted(-16, -16, 16, 16)
    assert place.intersects(root.rect()), (widget, widget.accessibleName(), place)
    image = root.grab(place & root.rect()).toImage().convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), -1, 4)
    return pixels.astype(int)


def changed(one: np.ndarray, other: np.ndarray) -> int:
    """How many pixels differ so that one sees it."""
    return int((np.abs(one - other).max(axis=2) > 40).sum())


def hide_carets(root: QWidget) -> None:
    """A caret is too thin to be all that shows the focus."""
    for kind in (QTextEdit, QPlainTextEdit):
        for field in root.findChildren(kind):
            field.setCursorWidth(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("where", WHERE)
def test_the_focus_is_seen(full, where, theme):
    full.appearance.choose(theme)
    root = show(full, where)
    hide_carets(root)
    elsewhere = QWidget(root)
    elsewhere.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
    elsewhere.show()
    unseen, seen = [], []
    while True:
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        widget = QApplication.focusWidget()
        if widget in seen:
            break
        seen.append(widget)
        if isinstance(widget, QAbstractSpinBox):  # what is selected shows the focus, too
            widget.lineEdit().deselect()
        with_focus = picture(root, widget)
        elsewhere.setFocus(Qt.FocusReason.TabFocusReason)
        if changed(with_focus, picture(root, widget)) < CLEARLY:
            unseen.append((widget, widget.accessibleName()))
        widget.setFocus(Qt.FocusReason.TabFocusReason)
    assert not unseen


def test_the_focus_is_seen_in_a_list_without_an_open_chat(full):
    chats = full.window.sidebar.list
    full.window.sidebar.select_chat(None)
    chats.setFocus(Qt.FocusReason.TabFocusReason)
    with_focus = picture(full.window, chats)
    full.window.composer.text.setFocus()
    assert changed(with_focus, picture(full.window, chats)) >= CLEARLY
