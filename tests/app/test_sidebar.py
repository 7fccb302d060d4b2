"""The list of chats and the bar at the top: what they show, ask for, and keep as chats change."""

import time
from html import escape

import pytest
from event_loop import pause
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QAccessible, QContextMenuEvent, QImage, QPainter
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QLineEdit,
    QStyle,
    QStyleOptionViewItem,
    QToolButton,
)

from app.ui.header import Header
from app.ui.sidebar.chat_model import shown_title
from app.ui.sidebar.sidebar import Sidebar
from app.ui.states import Activity, ChatLine, ModelInfo
from app.ui.theme import DARK, LIGHT, Appearance

INFO = ModelInfo("SmolLM2-135M-Instruct", "cpu", "CPU", "no GPU found", "bf16", 2)
NO_GRABBING = "This plugin does not support grabbing the keyboard"  # as a menu would like to
ODD_TITLES = (
    "",
    "x" * 100_000,
    "שלום עולם",
    "🎉👩‍👩‍👧‍👦",
    "<img src=file:///etc/passwd>",
    "two\nlines\tand\0more",
    "\ud800 half a character",
    "\u202eturned round",
)


def lines(*titles: str) -> list[ChatLine]:
    now = time.time()
    return [ChatLine(number, title, now) for number, title in enumerate(titles, 1)]


def many(count: int = 3000) -> list[ChatLine]:
    return lines(*(f"Chat {number}" for number in range(1, count + 1)))


@pytest.fixture
def sidebar(qt_app):
    """A sidebar on screen that notes what it asks for."""
    bar = Sidebar()
    bar.asked = []
    for name in ("chat_chosen", "chat_entered", "rename_requested", "delete_requested"):
        getattr(bar, name).connect(lambda *values, name=name: bar.asked.append((name, *values)))
    bar.recolour(LIGHT)
    bar.resize(240, 500)
    bar.show()
    bar.activateWindow()
    pause(10)
    yield bar
    bar.close()
    bar.deleteLater()


def shown(bar) -> list[str]:
    model = bar.list.model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def middle(bar, row: int) -> QPoint:
    return bar.list.visualRect(bar.list.model().index(row, 0)).center()


def selected(bar) -> list[int]:
    return [bar.list.chats.line(index.row()).id for index in bar.list.selectedIndexes()]


def press(bar, key, modifiers=Qt.KeyboardModifier.NoModifier) -> None:
    bar.list.setFocus()
    QTest.keyClick(bar.list, key, modifiers)


def editor(bar) -> QLineEdit | None:
    fields = bar.list.viewport().findChildren(QLineEdit)
    return next((field for field in fields if field.isVisible()), None)


def start_rename(bar, chat_id: int) -> QLineEdit:
    bar.select_chat(chat_id)
    press(bar, Qt.Key.Key_F2)
    field = editor(bar)
    assert field is not None
    return field


def test_rows_are_in_the_order_given_and_a_click_chooses(sidebar):
    sidebar.show_chats(lines("one", "two", "three"))
    assert shown(sidebar) == ["one", "two", "three"]
    assert sidebar.asked == []
    place = middle(sidebar, 1)
    QTest.mouseClick(sidebar.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert sidebar.asked == [("chat_chosen", 2), ("chat_entered", 2)]
    pause(200)
    QTest.mouseClick(sidebar.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert sidebar.asked[2:] == [("chat_entered", 2)]  # it is open already
    assert selected(sidebar) == [2]


def test_going_through_by_keys_opens_only_where_one_stays(sidebar, wait_until):
    sidebar.show_chats(many(20))
    sidebar.select_chat(1)
    for _ in range(5):
        press(sidebar, Qt.Key.Key_Down)
    assert sidebar.asked == []
    wait_until(lambda: sidebar.asked, "the chat to be opened")
    assert sidebar.asked == [("chat_chosen", 6)]
    press(sidebar, Qt.Key.Key_End)
    assert sidebar.list._resting.isActive()
    press(sidebar, Qt.Key.Key_Return)
    assert not sidebar.list._resting.isActive()
    assert sidebar.asked[1:] == [("chat_chosen", 20), ("chat_entered", 20)]
    pause(200)
    assert len(sidebar.asked) == 3
    press(sidebar, Qt.Key.Key_Home)
    wait_until(lambda: len(sidebar.asked) > 3)
    assert sidebar.asked[-1] == ("chat_chosen", 1)


def test_a_list_that_changes_does_not_stop_someone_on_the_way_to_another_chat(sidebar, wait_until):
    sidebar.show_chats(many(20))
    sidebar.select_chat(1)
    press(sidebar, Qt.Key.Key_Down)
    sidebar.show_chats([ChatLine(99, "new", time.time()), *many(20)])
    press(sidebar, Qt.Key.Key_Down)
    wait_until(lambda: sidebar.asked, "the chat to be opened")
    assert sidebar.asked == [("chat_chosen", 3)]
    assert selected(sidebar) == [3]


def test_typing_goes_to_a_chat_that_begins_so(sidebar, wait_until):
    sidebar.show_chats(lines("apples", "bread", "butter", "cheese"))
    sidebar.list.setFocus()
    QTest.keyClicks(sidebar.list, "bu")
    wait_until(lambda: sidebar.asked == [("chat_chosen", 3)])


def test_selecting_and_showing_announce_nothing(sidebar):
    sidebar.show_chats(many(50))
    sidebar.select_chat(7)
    assert selected(sidebar) == [7]
    sidebar.show_chats(list(reversed(many(50))))
    assert selected(sidebar) == [7]
    sidebar.select_chat(None)
    assert selected(sidebar) == []
    assert not sidebar.list.currentIndex().isValid()
    sidebar.select_chat(999)
    assert selected(sidebar) == []
    sidebar.show_chats([])
    pause(200)
    assert sidebar.asked == []


def test_a_chat_selected_before_it_is_listed_is_selected_once_it_is(sidebar):
    sidebar.select_chat(3)
    sidebar.show_chats(many(5))
    assert selected(sidebar) == [3]


def test_removing_the_open_chat_opens_no_other_by_itself(sidebar):
    sidebar.show_chats(many(10))
    sidebar.select_chat(4)
    sidebar.show_chats([line for line in many(10) if line.id != 4])
    pause(200)
    assert sidebar.asked == []
    assert selected(sidebar) == []


@pytest.mark.parametrize("what", ["shuffled", "halved", "doubled", "swapped", "emptied"])
def test_whatever_becomes_of_the_list_it_is_shown_exactly(sidebar, what):
    sidebar.show_chats(many(60))
    others = {
        "shuffled": sorted(many(60), key=lambda line: line.id * 37 % 61),
        "halved": many(60)[::2],
        "doubled": [line for pair in zip(many(60), lines(*"x" * 60), strict=True) for line in pair],
        "swapped": [ChatLine(100 + n, "new", time.time()) for n in range(5)] + many(60)[::-3],
        "emptied": [],
    }[what]
    if what == "doubled":
        others = [ChatLine(n, line.title, time.time()) for n, line in enumerate(others, 31)]
    sidebar.show_chats(others)
    assert shown(sidebar) == [line.title for line in others]
    assert [sidebar.list.chats.line(n).id for n in range(len(others))] == [o.id for o in others]


def test_the_place_in_a_long_list_is_kept_when_chats_come_go_and_move(sidebar):
    sidebar.show_chats(many())
    pause(10)
    bar = sidebar.list.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)

    def top() -> tuple[int, int]:
        index = sidebar.list.indexAt(QPoint(20, 0))
        return sidebar.list.chats.line(index.row()).id, sidebar.list.visualRect(index).top()

    before = top()
    sidebar.show_chats([ChatLine(9001, "new", time.time()), *many()])
    assert top() == before
    sidebar.show_chats(many()[100:])
    assert top() == before
    moved = next(line for line in many() if line.id == before[0] + 300)
    rest = [line for line in many()[100:] if line.id != moved.id]
    sidebar.show_chats([moved, *rest])
    assert top() == before
    bar.setValue(0)
    sidebar.show_chats([ChatLine(9002, "newest", time.time()), *many()])
    assert bar.value() == 0  # at the top, the newest comes into view


@pytest.mark.parametrize(
    ("typed", "end", "asked"),
    [
        ("Another", Qt.Key.Key_Return, [("rename_requested", 2, "Another")]),
        ("  a   b ", Qt.Key.Key_Return, [("rename_requested", 2, "a b")]),
        ("Another", Qt.Key.Key_Escape, []),
        ("   ", Qt.Key.Key_Return, []),
        ("two", Qt.Key.Key_Return, []),
        ("x" * 300, Qt.Key.Key_Return, [("rename_requested", 2, "x" * 200)]),
    ],
)
def test_renaming_in_place(sidebar, typed, end, asked):
    sidebar.show_chats(lines("one", "two"))
    field = start_rename(sidebar, 2)
    assert field.text() == "two"
    field.selectAll()
    field.insert(typed)
    QTest.keyClick(field, end)
    pause(10)
    assert sidebar.asked == asked
    assert shown(sidebar) == ["one", "two"]  # until the chat has its new title
    assert editor(sidebar) is None


def test_a_running_rename_survives_whatever_happens_to_the_list(sidebar):
    sidebar.show_chats(lines("one", "two", "three"))
    field = start_rename(sidebar, 2)
    QTest.keyClicks(field, "half wri")
    sidebar.update_chat(ChatLine(2, "from the model", time.time(), Activity.ANSWERING))
    sidebar.show_chats(
        [ChatLine(2, "once more", time.time()), ChatLine(9, "new", time.time()), *lines("one")]
    )
    assert editor(sidebar) is field
    assert field.text() == "half wri"
    assert field.geometry().center().y() == middle(sidebar, 0).y()
    QTest.keyClicks(field, "tten")
    QTest.keyClick(field, Qt.Key.Key_Return)
    pause(10)
    assert sidebar.asked == [("rename_requested", 2, "half written")]


def test_a_chat_deleted_while_it_is_renamed_does_no_harm(sidebar):
    sidebar.show_chats(lines("one", "two"))
    start_rename(sidebar, 2)
    sidebar.show_chats(lines("one"))
    pause(20)
    assert editor(sidebar) is None
    assert all(name != "rename_requested" for name, *_ in sidebar.asked)


def test_delete_asks_for_the_current_chat_only(sidebar):
    sidebar.show_chats(lines("one", "two"))
    sidebar.select_chat(None)
    press(sidebar, Qt.Key.Key_Delete)
    sidebar.select_chat(2)
    press(sidebar, Qt.Key.Key_Delete)
    assert sidebar.asked == [("delete_requested", 2)]


def menu_by(sidebar, way: str, row: int):
    chats = sidebar.list
    rect = chats.visualRect(chats.model().index(row, 0))
    if way == "button":
        place = chats.row.menu_rect(rect).center()
        QTest.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, pos=place)
    elif way == "right button":
        QTest.mousePress(chats.viewport(), Qt.MouseButton.RightButton, pos=rect.center())
        reason = QContextMenuEvent.Reason.Mouse
        place = chats.viewport().mapToGlobal(rect.center())
        QApplication.sendEvent(chats.viewport(), QContextMenuEvent(reason, rect.center(), place))
    else:
        reason = QContextMenuEvent.Reason.Keyboard
        QApplication.sendEvent(
            chats.viewport(), QContextMenuEvent(reason, QPoint(0, 0), QPoint(0, 0))
        )
    return chats.menu


@pytest.mark.parametrize("way", ["button", "right button", "menu key"])
def test_the_menu_of_a_row_renames_and_deletes_without_opening_it(sidebar, way, qt_messages):
    sidebar.show_chats(lines("one", "two", "three"))
    sidebar.select_chat(2 if way == "menu key" else 1)
    menu = menu_by(sidebar, way, 1)
    assert menu is not None
    menu.actions()[-1].trigger()
    menu.close()
    assert sidebar.asked == [("delete_requested", 2)]
    assert sidebar.list.menu is None
    pause(200)
    menu = menu_by(sidebar, way, 1)
    menu.actions()[0].trigger()
    menu.close()
    assert editor(sidebar).text() == "two"
    assert sidebar.asked == [("delete_requested", 2)]
    qt_messages[:] = [message for message in qt_messages if message != NO_GRABBING]


@pytest.mark.parametrize("activity", list(Activity))
def test_what_goes_on_is_said_in_words_and_drawn(sidebar, activity):
    sidebar.show_chats([ChatLine(1, "one", time.time()), ChatLine(2, "two", time.time())])
    pause(10)
    quiet = sidebar.list.viewport().grab().toImage()
    sidebar.update_chat(ChatLine(2, "two", time.time(), activity))
    pause(10)
    index = sidebar.list.model().index(1, 0)
    words = {
        Activity.QUIET: "",
        Activity.WAITING: "waiting for its turn",
        Activity.ANSWERING: "a reply is being written",
        Activity.UNREAD: "a new reply",
    }[activity]
    said = index.data(Qt.ItemDataRole.AccessibleTextRole)
    assert said == (f"two, {words}" if words else "two")
    assert words in index.data(Qt.ItemDataRole.ToolTipRole)
    row = QAccessible.queryAccessibleInterface(sidebar.list).child(1)
    assert row.text(QAccessible.Text.Name) == said
    same = sidebar.list.viewport().grab().toImage() == quiet
    assert same is (activity is Activity.QUIET)


def test_the_dots_of_a_reply_move_only_while_they_can_be_seen(sidebar):
    beating = sidebar.list._beating
    sidebar.show_chats([ChatLine(1, "one", time.time(), Activity.ANSWERING)])
    animated = sidebar.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) > 0
    assert beating.isActive() is animated
    sidebar.hide()
    assert not beating.isActive()
    sidebar.show()
    assert beating.isActive() is animated
    sidebar.update_chat(ChatLine(1, "one", time.time()))
    assert not beating.isActive()


@pytest.mark.parametrize("title", ODD_TITLES)
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_any_title_is_one_line_of_plain_text(sidebar, title, colours):
    sidebar.recolour(colours)
    sidebar.show_chats([ChatLine(1, title, time.time(), Activity.UNREAD)])
    sidebar.list.viewport().grab()
    index = sidebar.list.model().index(0, 0)
    assert "\n" not in index.data()
    assert 0 < len(index.data()) <= 200
    tip = index.data(Qt.ItemDataRole.ToolTipRole)
    assert escape(index.data()) in tip
    assert "<img" not in tip
    if not title:
        assert index.data() == "New chat"


def test_a_title_is_kept_as_it_is_if_it_can_be_shown():
    for title in ("Why is the sky blue?", "👩‍👩‍👧‍👦 ok", "می‌خواهم", "a b"):
        assert shown_title(title) == title


def test_the_menu_button_is_drawn_only_under_the_mouse(sidebar):
    sidebar.show_chats(lines("one"))
    index = sidebar.list.model().index(0, 0)

    def drawn(state) -> QImage:
        option = QStyleOptionViewItem()
        option.rect = QRect(0, 0, 200, 34)
        option.state = state
        image = QImage(200, 34, QImage.Format.Format_ARGB32_Premultiplied)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        sidebar.list.row.paint(painter, option, index)
        painter.end()
        return image.copy(sidebar.list.row.menu_rect(option.rect))

    normal = drawn(QStyle.StateFlag.State_Enabled)
    hovered = drawn(QStyle.StateFlag.State_Enabled | QStyle.StateFlag.State_MouseOver)
    middle_left = normal.rect().center()
    assert normal.pixelColor(middle_left).alpha() == 0
    assert hovered.pixelColor(middle_left).lightness() < 100


def test_the_foot_leads_to_settings_keys_and_about(sidebar):
    said = []
    sidebar.new_chat_requested.connect(lambda: said.append("new"))
    sidebar.settings_requested.connect(lambda: said.append("settings"))
    sidebar.keys_requested.connect(lambda: said.append("keys"))
    sidebar.about_requested.connect(lambda: said.append("about"))
    QTest.mouseClick(sidebar.new_chat, Qt.MouseButton.LeftButton)
    QTest.mouseClick(sidebar.settings, Qt.MouseButton.LeftButton)
    for action in sidebar.help.menu().actions():
        action.trigger()
    assert said == ["new", "settings", "keys", "about"]


def test_every_control_has_a_name(sidebar, qt_app):
    header = Header()
    header.show_model(INFO)
    for bar in (sidebar, header):
        for button in bar.findChildren(QAbstractButton):
            assert (button.accessibleName() or button.text()).strip(), button
    header.deleteLater()


@pytest.fixture
def header(qt_app):
    """A bar on screen."""
    bar = Header()
    bar.recolour(LIGHT)
    bar.resize(900, 48)
    bar.show()
    pause(10)
    yield bar
    bar.close()
    bar.deleteLater()


def test_the_header_offers_a_new_chat_only_without_the_sidebar(header):
    said = []
    header.sidebar_toggled.connect(said.append)
    header.panel_toggled.connect(said.append)
    header.new_chat_requested.connect(lambda: said.append("new"))
    assert header.new_chat.isHidden()
    QTest.mouseClick(header.sidebar, Qt.MouseButton.LeftButton)
    assert header.new_chat.isVisible()
    QTest.mouseClick(header.new_chat, Qt.MouseButton.LeftButton)
    QTest.mouseClick(header.panel, Qt.MouseButton.LeftButton)
    QTest.mouseClick(header.sidebar, Qt.MouseButton.LeftButton)
    assert header.new_chat.isHidden()
    assert said == [False, "new", False, True]


def test_the_header_says_what_answers_where_and_why(header):
    header.show_model(INFO)
    pause(10)
    assert header.model.text() == "SmolLM2-135M-Instruct"
    assert "no GPU found" in header.model.accessibleDescription()
    assert "Threads: 2" in header.model.accessibleDescription()
    assert header.device.text() == "CPU · bf16"
    assert "no GPU found" in header.device.toolTip()
    header.show_no_model()
    assert header.device.isHidden()
    assert header.model.text() == "No model"


def test_the_models_menu_leads_to_the_settings(header):
    said = []
    header.settings_requested.connect(lambda: said.append(True))
    header.show_model(INFO)
    header.model.menu().actions()[-1].trigger()
    assert said == [True]


def test_in_a_narrow_header_the_name_gives_way_and_nothing_else(header):
    header.show_model(ModelInfo("<b>" + "n" * 300, "cpu", "CPU", "", "bf16", 2))
    for width in (900, 500, 360):
        header.resize(width, 48)
        pause(20)
        assert header.width() == width
        for widget in (header.sidebar, header.model, header.device, header.panel):
            assert widget.geometry().left() >= 0
            assert widget.geometry().right() < width
    assert QToolButton.text(header.model).endswith("…")
    assert header.panel.toolButtonStyle() is Qt.ToolButtonStyle.ToolButtonIconOnly
    assert header.model.text().endswith("nnn")
    assert "<b>" not in header.model.toolTip()


def test_larger_text_makes_larger_icons_and_rows(sidebar, qt_app):
    appearance = Appearance(qt_app)
    appearance.choose("light")
    sidebar.show_chats(many(3))
    pause(10)

    def sizes() -> tuple[int, ...]:
        return sidebar.list.sizeHintForRow(0), sidebar.settings.iconSize().width(), sidebar.width()

    before = sizes()
    appearance.set_zoom(200)
    pause(10)
    assert all(large > small for large, small in zip(sizes(), before, strict=True))
    appearance.set_zoom(100)
    pause(10)
    assert sizes() == before
    appearance.deleteLater()
