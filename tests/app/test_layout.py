"""Room: at every width and every size of text, nothing runs off the window or is cut off."""

import pytest
from event_loop import pause
from fake_engine import FakeEngine
from PySide6.QtCore import QPoint, QSize
from PySide6.QtWidgets import QAbstractButton, QLabel, QScrollBar, QWidget

from app.ui.controls.elided_label import ElidedLabel
from app.ui.states import ChatState, Failure
from app.ui.theme import DARK, LIGHT, ZOOMS

WIDTHS = (0, 420, 520, 640, 760, 900, 1100, 1280, 1450, 1600, 1800, 2400)  # 0: as narrow as may be
LONG_WORDS = "A notice of several sentences that no narrow window can show in one line. " * 3


def visible_parts(window):
    """What is on screen, except inside what scrolls sideways by itself."""
    for widget in window.centralWidget().findChildren(QWidget):
        if widget.isVisible() and widget.width() and not isinstance(widget, QScrollBar):
            yield widget


def name_of(widget) -> str:
    text = getattr(widget, "text", lambda: "")
    words = text() if isinstance(widget, (QLabel, QAbstractButton)) else ""
    return f"{type(widget).__name__} {widget.objectName()} {widget.accessibleName()} {words}"


def faults(window) -> list[str]:
    """What leaves the window sideways, and what is narrower than its words."""
    found = []
    for widget in visible_parts(window):
        left = widget.mapTo(window, QPoint(0, 0)).x()
        if left < 0 or left + widget.width() > window.width():
            place = f"{left}…{left + widget.width()} of {window.width()}"
            found.append(f"{name_of(widget)} off: {place}")
        if isinstance(widget, (QLabel, QAbstractButton)) and not isinstance(widget, ElidedLabel):
            least = widget.minimumSizeHint().width()
            if widget.width() < least and not getattr(widget, "wordWrap", lambda: False)():
                found.append(f"{name_of(widget)} cut: {widget.width()} of {least}")
    return found


def below_each_other(window) -> list[str]:
    """What leaves the window at its foot, of what does not scroll."""
    found = []
    for widget in (window.composer, window.composer.button, window.status, window.header):
        top = widget.mapTo(window, QPoint(0, 0)).y()
        if widget.isVisible() and (top < 0 or top + widget.height() > window.height()):
            found.append(f"{name_of(widget)} {top}…{top + widget.height()} of {window.height()}")
    return found


def resize(window, width: int, height: int = 700) -> None:
    window.resize(max(width, window.minimumWidth()), height)
    pause(40)


def zoom(smoldesk, percent: int) -> None:
    smoldesk.appearance.set_zoom(percent)
    pause(30)


def a_chat(smoldesk, wait_until) -> None:
    """One with everything in it that takes room."""
    smoldesk.chat.submit("Why is the sky blue? " * 8)
    wait_until(lambda: smoldesk.chat.state is ChatState.READY)
    smoldesk.chat.regenerate(smoldesk.chat.last_reply.id)
    wait_until(lambda: smoldesk.chat.state is ChatState.READY)


STATES = {
    "welcome": lambda smoldesk, _wait: None,
    "chat": a_chat,
    "editing": lambda smoldesk, wait: (a_chat(smoldesk, wait), smoldesk.chat.edit_last()),
    "notice": lambda smoldesk, _wait: smoldesk.window.tell_deleted(1, LONG_WORDS, lambda: None),
}


@pytest.mark.parametrize("percent", [50, 100, 150, 200, 300])
@pytest.mark.parametrize("state", STATES)
def test_nothing_runs_off_the_window(open_window, wait_until, state, percent):
    smoldesk = open_window(FakeEngine(reason="length"))
    window = smoldesk.window
    STATES[state](smoldesk, wait_until)
    zoom(smoldesk, percent)
    found = {}
    for width in WIDTHS:
        resize(window, width)
        found[window.width()] = faults(window) + below_each_other(window)
        assert window.page.chat.width() >= min(400, window.width())  # beside whatever bars
        if window.panel.isVisible():
            assert window.panel.width() == window.panel.sizeHint().width()
    assert not any(found.values()), {width: words for width, words in found.items() if words}


@pytest.mark.parametrize("percent", [100, 200, 300])
def test_a_bar_that_takes_the_place_of_the_conversation_fits_in(open_window, percent):
    smoldesk = open_window()
    window, header = smoldesk.window, smoldesk.window.header
    zoom(smoldesk, percent)
    for width in (0, 500, 700):
        for button, bar in ((header.sidebar, window.sidebar), (header.panel, window.panel)):
            resize(window, width)
            if not button.isChecked():
                button.click()
            pause(20)
            assert bar.isVisible()
            assert not faults(window)
            button.click()  # it can be closed by the button that opened it
            pause(20)
            assert bar.isHidden()
            assert window.composer.isVisible()


def test_bars_go_away_as_text_grows_and_come_back(open_window):
    smoldesk = open_window()
    window = smoldesk.window
    resize(window, 1280)
    assert window.panel.isVisible()
    assert window.sidebar.isVisible()
    zoom(smoldesk, 200)
    assert window.panel.isHidden()
    assert not faults(window)
    zoom(smoldesk, 100)
    assert window.panel.isVisible()
    resize(window, 2400)
    zoom(smoldesk, 300)
    assert window.panel.isVisible()  # as wide as its text wants it
    assert window.panel.width() == window.panel.sizeHint().width()


def test_the_window_fits_on_a_small_screen(open_window):
    window = open_window().window
    assert window.minimumWidth() <= 400
    assert window.minimumHeight() <= 400
    resize(window, 1024, 560)
    assert window.height() == 560
    assert window.composer.isVisible()


def test_a_low_window_keeps_the_composer_in_sight(open_window, wait_until):
    smoldesk = open_window()
    window = smoldesk.window
    smoldesk.window.tell(Failure(LONG_WORDS))
    for percent in (100, 200):
        zoom(smoldesk, percent)
        window.resize(window.minimumSize())
        pause(30)
        window.composer.text.setPlainText("line\n" * 20)
        pause(30)
        assert not below_each_other(window)
        assert window.transcript.height() >= 40
        assert window.notice.words.width() <= window.width()


def test_messages_and_composer_share_their_edges(open_window, wait_until):
    smoldesk = open_window(FakeEngine(reply_text="word\n\n" * 60))
    window = smoldesk.window
    edges = set()
    for text in ("short", "long"):
        for width in (700, 900, 1800):
            resize(window, width)
            view = window.transcript.view(smoldesk.chat.last_reply.id) if text == "long" else None
            part = view or window.transcript.welcome
            left = part.mapTo(window, QPoint(0, 0)).x()
            composer = window.composer.mapTo(window, QPoint(0, 0)).x()
            assert (left, part.width()) == (composer, window.composer.width()), (text, width)
            edges.add((width, left))
        a_chat(smoldesk, wait_until)
        pause(50)
    assert len(edges) == 3  # the same with a scroll bar as without


def icon_buttons(window):
    for button in window.findChildren(QAbstractButton):
        if not button.icon().isNull() and button.isVisible():
            yield button


def test_icons_grow_with_the_text(open_window, wait_until):
    smoldesk = open_window()
    window = smoldesk.window
    a_chat(smoldesk, wait_until)
    smoldesk.chat.edit_last()
    window.tell_deleted(1, "one", lambda: None)
    resize(window, 1800)
    pause(50)
    sizes = {button: button.iconSize().width() for button in icon_buttons(window)}
    assert len(sizes) > 10
    zoom(smoldesk, 200)
    for button, before in sizes.items():
        assert button.iconSize().width() >= 1.7 * before, name_of(button)
    zoom(smoldesk, 100)
    for button, before in sizes.items():
        assert button.iconSize() == QSize(before, before), name_of(button)


def test_the_status_line_gives_way_from_its_least_important_part(open_window, wait_until):
    smoldesk = open_window()
    window = smoldesk.window
    status, gauge = window.status, window.status.gauge
    wait_until(lambda: gauge.known)
    shown = []
    for width in range(900, window.minimumWidth(), -20):
        resize(window, width)
        state = (gauge.words.isVisible(), status.words.isVisible(), gauge.bar.isVisible())
        if not shown or state != shown[-1]:
            shown.append(state)
        assert status.words.width() >= status.words.sizeHint().width() or not state[1]
    zoom(smoldesk, 200)
    resize(window, 0)
    last = (gauge.words.isVisible(), status.words.isVisible(), gauge.bar.isVisible())
    assert shown[0] == (True, True, True)
    assert (False, True, True) in shown
    assert last == (False, False, True)
    status.set_chat_state(ChatState.ANSWERING)  # what goes on is always said
    assert status.words.isVisible()
    status.set_chat_state(ChatState.READY)
    zoom(smoldesk, 100)
    gauge.set_draft(9_000)
    resize(window, 480)
    assert gauge.words.isVisible()  # too long: this comes before the hint
    assert status.words.isHidden()


def test_the_undo_of_a_deletion_is_reached_by_tab(open_window):
    window = open_window().window
    window.tell_deleted(1, "one", lambda: None)
    window.composer.setFocus()
    seen = set()
    for _ in range(60):
        window.focusNextChild()
        seen.add(window.focusWidget())
    assert window.notice.action in seen
    assert window.notice.close_button in seen


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    lin = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * lin[0] + 0.7152 * lin[1] + 0.0722 * lin[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("c", [LIGHT, DARK], ids=["light", "dark"])
def test_all_text_in_use_has_enough_contrast(c):
    grounds = ("ground", "panel", "field", "hover", "pressed", "question", "notice_ground")
    pairs = [("text", ground) for ground in (*grounds, "chosen", "selection", "danger_ground")]
    pairs += [("muted", ground) for ground in (*grounds, "chosen")]
    pairs += [("accent", ground) for ground in ("ground", "panel", "field", "hover")]
    pairs += [("danger", ground) for ground in ("ground", "panel", "field", "danger_ground")]
    pairs += [("on_accent", ground) for ground in ("accent", "accent_hover")]
    for text, ground in pairs:
        assert contrast(getattr(c, text), getattr(c, ground)) >= 4.5, (text, ground)
    for ground in ("ground", "panel", "field"):  # what shows the focus
        assert contrast(c.accent, getattr(c, ground)) >= 3, ground


def test_every_size_of_text_leaves_the_least_window_on_a_small_screen(open_window):
    smoldesk = open_window()
    for percent in ZOOMS:
        zoom(smoldesk, percent)
        least = smoldesk.window.minimumSize()
        assert least.width() <= 800
        assert least.height() <= 560


def test_the_bar_is_seen_only_where_there_is_something_to_scroll(open_window, wait_until):
    smoldesk = open_window()
    bar = smoldesk.window.transcript.verticalScrollBar()
    assert not bar.isEnabled()
    smoldesk.chat.submit("line\n" * 200)
    wait_until(bar.isEnabled)
