"""The archive, the trash and the backups: all comes back, and what is gone for good is gone."""

import pytest
from fake_engine import FakeEngine
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.store.chats import ChatStore


@pytest.fixture
def smoldesk(open_window, wait_until):
    """Three chats, of which one is in the archive and one in the trash."""
    smoldesk = open_window(FakeEngine())
    smoldesk.ids = []
    for text in ("listed chat", "archived chat", "deleted xylophone"):
        smoldesk.chats.new_chat()
        smoldesk.chat.submit(text)
        wait_until(lambda: smoldesk.scheduler.idle)
        smoldesk.ids.append(smoldesk.chat.conversation.chat.id)
    smoldesk.chats.archive(smoldesk.ids[1], True)
    smoldesk.chats.delete(smoldesk.ids[2])
    assert smoldesk.store.flush(5)
    return smoldesk


@pytest.fixture
def dialog(smoldesk):
    dialog = smoldesk.stored.show(smoldesk.window)
    yield dialog
    dialog.close()


def rows(part) -> list[str]:
    return [part.list.item(row).text().split("  ·")[0] for row in range(part.list.count())]


def choose(part, row: int = 0) -> None:
    part.list.clearSelection()
    part.list.item(row).setSelected(True)


def press(part, words: str) -> None:
    (button,) = [b for b in part._needing if b.text().startswith(words)]
    assert button.isEnabled()
    button.click()


def titles(smoldesk) -> list[str]:
    return [record.title for record in smoldesk.chats.library.records()]


def test_the_archive_opens_and_gives_back(smoldesk, dialog):
    assert rows(dialog.archive) == ["archived chat"]
    assert not any(button.isEnabled() for button in dialog.archive._needing)
    choose(dialog.archive)
    press(dialog.archive, "Put back")
    assert rows(dialog.archive) == []
    assert titles(smoldesk) == ["archived chat", "listed chat"]
    smoldesk.chats.archive(smoldesk.ids[1], True)
    assert rows(dialog.archive) == ["archived chat"]
    choose(dialog.archive)
    press(dialog.archive, "Open")
    assert smoldesk.chat.conversation.chat.id == smoldesk.ids[1]
    assert not dialog.isVisible()


def test_by_keys_alone_each_list_offers_what_can_be_done(smoldesk, dialog, wait_until):
    smoldesk.backups.back_up()
    wait_until(lambda: rows(dialog.backups))
    for part in (dialog.archive, dialog.trash, dialog.backups):
        assert not any(button.isEnabled() for button in part._needing)
        part.list.clearFocus()
        part.list.setFocus(Qt.FocusReason.TabFocusReason)
        assert len(part.chosen()) == 1
        assert all(button.isEnabled() for button in part._needing)
    dialog.trash.list.setFocus(Qt.FocusReason.BacktabFocusReason)
    QTest.keyClick(dialog.focusWidget(), Qt.Key.Key_Tab)
    assert dialog.focusWidget().text() == "Restore"
    QTest.keyClick(dialog.focusWidget(), Qt.Key.Key_Space)
    assert rows(dialog.trash) == []
    assert dialog.focusWidget() is dialog.backups.list  # the next, as this one has gone
    assert len(dialog.backups.chosen()) == 1


def test_a_click_beside_the_rows_chooses_none(smoldesk, dialog):
    dialog.trash.list.setFocus(Qt.FocusReason.MouseFocusReason)
    assert dialog.trash.chosen() == []


def test_the_trash_restores(smoldesk, dialog):
    assert rows(dialog.trash) == ["deleted xylophone"]
    choose(dialog.trash)
    press(dialog.trash, "Restore")
    assert rows(dialog.trash) == []
    assert "deleted xylophone" in titles(smoldesk)


def test_a_backup_brings_back_what_is_missing_and_nothing_else(smoldesk, dialog, wait_until):
    dialog.backup_requested.emit()
    wait_until(lambda: dialog.backups.list.count() == 1)
    smoldesk.chats.rename(smoldesk.ids[0], "renamed since")
    smoldesk.chats.forget(smoldesk.ids[1:])  # in the archive: only what is in the trash goes
    smoldesk.chats.delete(smoldesk.ids[1])
    smoldesk.chats.forget(smoldesk.ids[1:])
    assert titles(smoldesk) == ["renamed since"]
    choose(dialog.backups)
    press(dialog.backups, "Bring back")
    wait_until(lambda: dialog.words.text())
    assert dialog.words.text() == "1 chat was brought back."
    archived = smoldesk.chats.library.records(archived=True)
    assert [record.title for record in archived] == ["archived chat"]
    assert titles(smoldesk) == ["renamed since"]
    texts = [m.content for m in smoldesk.chats.library.conversation(archived[0].id).path()]
    assert texts == ["archived chat", FakeEngine().reply_text]
    dialog.words.clear()
    press(dialog.backups, "Bring back")
    wait_until(lambda: dialog.words.text())
    assert "here already" in dialog.words.text()


def test_what_is_deleted_for_ever_is_in_no_file(smoldesk, dialog, wait_until, tmp_path):
    def files_with(word: bytes) -> list[str]:
        return [f.name for f in tmp_path.rglob("*") if f.is_file() and word in f.read_bytes()]

    dialog.backup_requested.emit()
    wait_until(lambda: dialog.backups.list.count() == 1)
    assert len(files_with(b"xylophone")) >= 2
    choose(dialog.trash)
    press(dialog.trash, "Delete for ever")
    question = dialog.question
    (yes,) = [button for button in question.buttons() if button is not question.defaultButton()]
    assert question.defaultButton().text() == "Keep"
    yes.click()
    assert rows(dialog.trash) == []
    assert smoldesk.store.flush(5)
    wait_until(lambda: not files_with(b"xylophone"))
    assert files_with(b"listed chat")
    assert smoldesk.store.search("listed", limit=5)


def test_keeping_is_what_enter_and_esc_do(smoldesk, dialog):
    choose(dialog.trash)
    press(dialog.trash, "Delete for ever")
    dialog.question.reject()
    assert rows(dialog.trash) == ["deleted xylophone"]


def test_a_backup_that_cannot_be_made_is_told(smoldesk, dialog, wait_until, tmp_path):
    folder = smoldesk.store._path.with_name("backups")
    folder.write_text("in the way")
    dialog.backup_requested.emit()
    wait_until(lambda: dialog.words.text())
    assert "could not be backed up" in dialog.words.text()
    assert titles(smoldesk) == ["listed chat"]


def test_a_damaged_library_is_brought_back_whole(
    smoldesk, dialog, wait_until, open_window, tmp_path
):
    dialog.backup_requested.emit()
    wait_until(lambda: dialog.backups.list.count() == 1)
    backup = dialog.backups.list.item(0).data(256)
    fresh = ChatStore(tmp_path / "fresh.db", on_problem=lambda problem: pytest.fail(str(problem)))
    smoldesk.chats.library.store, before = fresh, smoldesk.chats.library.store
    smoldesk.chats.library._records.clear()
    smoldesk.chats.library._opened.clear()
    smoldesk.stored.bring_back(backup)
    wait_until(lambda: dialog.words.text())
    assert fresh.flush(5)
    assert sorted(chat.title for chat in fresh.chats()) == ["archived chat", "listed chat"]
    smoldesk.chats.library.store = before
    fresh.close(5)


def test_after_damage_the_newest_backup_is_offered(open_window, wait_until, tmp_path):
    first = open_window(FakeEngine())
    first.chat.submit("to be kept")
    wait_until(lambda: first.scheduler.idle)
    assert first.store.flush(5)
    path = first.store._path
    first.backups.back_up()
    wait_until(lambda: list(path.parent.glob("backups/*.db")))
    first.end()
    path.write_bytes(b"SQLite format 3\0" + bytes(5000))
    second = open_window(FakeEngine())
    notice = second.window.notice
    wait_until(lambda: "backup" in notice.words.text())
    assert titles(second) == []
    notice.action.click()
    wait_until(lambda: titles(second) == ["to be kept"])
    assert "damaged" in notice.words.text()  # what is told before is still there
