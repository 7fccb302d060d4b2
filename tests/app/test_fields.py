"""What is typed: the composer shows it all, and number boxes take numbers as people write them."""

import os
import subprocess
import sys

import pytest
from event_loop import pause
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtTest import QTest

from app.ui.composer.composer import MAX_CHARACTERS


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("0,3", 0.3),
        ("0.3", 0.3),
        (".5", 0.5),
        ("1e-1", 0.1),
        (" 0,25 ", 0.25),
        ("2.00", 1.0),
        ("99", 1.0),
        ("-1", 0.0),
        ("1e999", 0.6),
        ("nan", 0.6),
        ("abc", 0.6),
        ("1,2,3", 0.6),
        (".", 0.6),
        ("", 0.6),
    ],
)
def test_a_number_box_takes_what_is_meant_or_keeps_its_value(open_window, typed, value):
    smoldesk = open_window()
    option = smoldesk.window.panel.sampling.top_p
    option.box.setValue(0.6)
    option.box.setFocus()
    option.box.selectAll()
    QTest.keyClicks(option.box, typed) if typed else QTest.keyClick(option.box, Qt.Key.Key_Delete)
    QTest.keyClick(option.box, Qt.Key.Key_Return)
    assert option.box.value() == pytest.approx(value)
    assert option.slider.value() == round(value * 100)
    assert smoldesk.chat.options.top_p == pytest.approx(value)
    assert float(option.box.text().replace(",", ".")) == pytest.approx(value)


@pytest.mark.parametrize("lines", [2, 4, 6, 9])
@pytest.mark.parametrize("way", ["typed", "pasted"])
def test_a_text_that_fits_is_shown_from_its_first_line_to_its_last(open_window, lines, way):
    smoldesk = open_window()
    smoldesk.window.resize(1100, 900)
    pause(30)
    field = smoldesk.window.composer.text
    field.setFocus()
    if way == "typed":
        for number in range(lines):
            if number:
                QTest.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
            QTest.keyClicks(field, f"line {number}")
            pause(20)
    else:
        paste(field, "\n".join(f"line {number} 👋漢" for number in range(lines)))
        pause(50)
    assert field.verticalScrollBar().maximum() == 0
    assert field.firstVisibleBlock().blockNumber() == 0
    assert field.cursorRect().bottom() <= field.viewport().height()


def paste(field, text: str) -> None:
    data = QMimeData()
    data.setText(text)
    field.insertFromMimeData(data)


def test_the_greatest_length_is_that_of_the_whole_message(open_window):
    smoldesk = open_window()
    field = smoldesk.window.composer.text
    notice = smoldesk.window.notice
    paste(field, "x" * (MAX_CHARACTERS - 10))
    paste(field, "y" * 11)
    assert len(field.toPlainText()) == MAX_CHARACTERS - 10
    assert "100,001 characters" in notice.words.text()
    field.selectAll()
    paste(field, "z" * MAX_CHARACTERS)
    assert field.toPlainText() == "z" * MAX_CHARACTERS


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full disk to offer")
def test_a_self_test_whose_output_cannot_be_written_ends_quietly(home):
    done = subprocess.run(
        f"{sys.executable} -m app --self-test --offscreen --json > /dev/full",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
