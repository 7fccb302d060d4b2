"""Export and import in the window: every form, all at once, and back in."""

import json
import re
from dataclasses import replace

import pytest
from fake_engine import FakeEngine
from PySide6.QtWidgets import QFileDialog, QToolButton

from app.transfer_keeper import printable

REPLY = "A **bold** word.\n\n```python\nx < 1\n```\n![x](http://127.0.0.1:9/x.png) <b>tag</b>"


@pytest.fixture
def smoldesk(open_window, wait_until):
    """One chat with two versions of a reply."""
    smoldesk = open_window(FakeEngine(reply_text=REPLY))
    smoldesk.words = []
    smoldesk.transfer.told.connect(smoldesk.words.append)
    smoldesk.chat.submit("What is <this>?")
    wait_until(lambda: smoldesk.scheduler.idle)
    smoldesk.chat.regenerate(smoldesk.window.transcript.messages[1].id)
    wait_until(lambda: smoldesk.scheduler.idle)
    return smoldesk


def exported(smoldesk, wait_until, path) -> bytes:
    smoldesk.words.clear()
    smoldesk.transfer.export(smoldesk.chat.conversation.chat.id, path)
    wait_until(lambda: smoldesk.words)
    assert str(path) in smoldesk.words[0]
    return path.read_bytes()


def test_a_chat_is_exported_in_every_form(smoldesk, wait_until, tmp_path):
    markdown = exported(smoldesk, wait_until, tmp_path / "chat.md").decode()
    assert "What is <this>?" in markdown
    assert REPLY in markdown
    document = json.loads(exported(smoldesk, wait_until, tmp_path / "chat.json"))
    assert len(document["messages"]) == 3
    page = exported(smoldesk, wait_until, tmp_path / "chat.html").decode()
    assert "&lt;this&gt;" in page
    assert "x &lt; 1" in page
    assert "Content-Security-Policy" in page
    assert not re.search(r"<(img|script|link|iframe)\b", page)
    assert "<b>tag" not in page
    pdf = exported(smoldesk, wait_until, tmp_path / "chat.pdf")
    assert pdf.startswith(b"%PDF")
    assert b"%%EOF" in pdf[-10:]


@pytest.mark.parametrize(
    "markdown",
    [
        f"```python\n{'word ' * 100}\n    indented\n```",
        f"    {'x' * 500}",
        f"https://{'a' * 500}",
        f"> - `{'b' * 500}`",
        f"| a | b |\n|---|---|\n| {'c' * 500} | d |",
    ],
)
def test_nothing_is_beyond_the_edge_of_a_printed_page(qt_app, markdown):
    document = printable(f"before\n\n{markdown}\n\nafter")
    document.setTextWidth(400)
    assert document.size().width() <= 401
    assert not any(
        block.layout().lineAt(line).naturalTextWidth() > 401
        for block in blocks(document)
        for line in range(block.layout().lineCount())
    )


def blocks(document):
    """All paragraphs, one after the other."""
    block = document.begin()
    while block.isValid():
        yield block
        block = block.next()


def test_the_buttons_of_the_file_dialog_have_room_for_their_pictures(smoldesk):
    smoldesk.transfer.ask_import(smoldesk.window)
    dialog = smoldesk.transfer.dialog
    try:
        buttons = [button for button in dialog.findChildren(QToolButton) if button.isVisible()]
        assert buttons
        for button in buttons:
            assert button.sizeHint().width() <= button.width(), button.objectName()
            assert button.sizeHint().height() <= button.height(), button.objectName()
    finally:
        dialog.close()


def test_all_at_once_and_back_in(smoldesk, wait_until, tmp_path, open_window):
    smoldesk.chats.new_chat()
    smoldesk.chat.submit("second")
    wait_until(lambda: smoldesk.scheduler.idle)
    smoldesk.chats.archive(smoldesk.chat.conversation.chat.id, True)
    assert smoldesk.store.flush(5)
    smoldesk.words.clear()
    smoldesk.transfer.export_all(tmp_path / "all.zip")
    wait_until(lambda: smoldesk.words)
    assert smoldesk.words[0].startswith("2 chats were exported")
    smoldesk.words.clear()
    smoldesk.transfer.read([tmp_path / "all.zip", tmp_path / "nothing.json"])
    wait_until(lambda: smoldesk.words)
    assert "2 chats with 5 messages came in." in smoldesk.words[0]
    assert "nothing.json" in smoldesk.words[0]
    library = smoldesk.chats.library
    listed, archived = library.records(), library.records(archived=True)
    assert (len(listed), len(archived)) == (2, 2)
    first, second = (library.conversation(record.id) for record in listed)
    assert [m.content for m in first.path()] == [m.content for m in second.path()]
    assert len(first.messages) == 3
    assert {m.id for m in first.messages}.isdisjoint({m.id for m in second.messages})
    assert smoldesk.store.flush(5)
    assert len(smoldesk.store.messages(listed[0].id)) == 3


def test_a_chat_of_another_program_goes_on_with_the_users_options(smoldesk, wait_until, tmp_path):
    path = tmp_path / "other.json"
    message = {"author": {"role": "user"}, "content": {"parts": ["Where to?"]}}
    node = {"id": "a", "parent": None, "children": [], "message": message}
    path.write_text(json.dumps([{"title": "Trip", "current_node": "a", "mapping": {"a": node}}]))
    usual = replace(smoldesk.preferences.settings.options, temperature=0.3)
    smoldesk.preferences.change(options=usual)
    smoldesk.words.clear()
    smoldesk.transfer.read([path])
    wait_until(lambda: smoldesk.words)
    library = smoldesk.chats.library
    (trip,) = [record for record in library.records() if record.title == "Trip"]
    assert trip.options == usual


def test_a_folder_that_is_not_there_is_told(smoldesk, wait_until, tmp_path):
    smoldesk.words.clear()
    smoldesk.transfer.export(smoldesk.chat.conversation.chat.id, tmp_path / "no" / "chat.pdf")
    wait_until(lambda: smoldesk.words)
    assert "could not be written" in smoldesk.words[0]
    assert smoldesk.words[0] in smoldesk.window.notice.words.text()


@pytest.mark.parametrize("which", ["export", "export all", "import"])
def test_the_dialogs_lead_there(smoldesk, wait_until, tmp_path, which, monkeypatch):
    monkeypatch.setattr(QFileDialog, "open", lambda self: None)
    bar, transfer = smoldesk.window.sidebar, smoldesk.transfer
    path = tmp_path / {"export": "a.md", "export all": "a.zip", "import": "a.json"}[which]
    smoldesk.words.clear()
    if which == "export":
        bar.export_requested.emit(smoldesk.chat.conversation.chat.id)
        transfer.dialog.fileSelected.emit(str(path))
    elif which == "export all":
        bar.export_all_requested.emit()
        transfer.dialog.fileSelected.emit(str(path))
    else:
        path.write_text("[]")
        bar.import_requested.emit()
        transfer.dialog.filesSelected.emit([str(path)])
    wait_until(lambda: smoldesk.words)
    assert path.exists()
