"""A small window: nothing runs off its edge, and the greeting begins at its beginning."""

from event_loop import pause
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest


def test_in_a_narrow_window_the_panel_takes_the_place_of_the_conversation(open_window):
    smoldesk = open_window()
    window, panel = smoldesk.window, smoldesk.window.panel
    window.resize(window.minimumSize())
    pause(50)
    assert panel.isHidden()
    assert window.composer.isVisible()
    QTest.mouseClick(window.header.panel, Qt.MouseButton.LeftButton)
    pause(50)
    assert not window.composer.isVisible()
    assert window.width() == window.minimumWidth()
    for widget in (
        panel,
        panel.sampling.top_p.box,
        panel.sampling.top_p.slider,
        window.header.panel,
    ):
        left = widget.mapTo(window, QPoint(0, 0)).x()
        assert left >= 0
        assert left + widget.width() <= window.width()
    QTest.mouseClick(window.header.panel, Qt.MouseButton.LeftButton)
    pause(50)
    assert panel.isHidden()
    assert window.composer.text.hasFocus()


def test_a_window_made_wide_again_shows_both(open_window):
    window = open_window().window
    window.resize(window.minimumSize())
    pause(30)
    QTest.mouseClick(window.header.panel, Qt.MouseButton.LeftButton)
    window.resize(1100, 700)
    pause(50)
    assert window.panel.isVisible()
    assert window.composer.isVisible()


def test_the_greeting_is_shown_from_its_top_however_low_the_window(open_window):
    smoldesk = open_window()
    window = smoldesk.window
    bar = window.transcript.verticalScrollBar()
    window.resize(800, window.minimumHeight())
    pause(100)
    assert bar.maximum() > 0, "the window is not low enough to show anything"
    assert bar.value() == 0
    assert window.transcript.jump.isHidden()
