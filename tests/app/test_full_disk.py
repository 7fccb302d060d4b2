"""A disk that is full, as far as the system can play it: files may not grow beyond a limit."""

import contextlib

import pytest
from test_put_log import CHANGES

from app.store.put_log import PutLog, read_left
from app.store.records import ChatRecord, MessageRecord
from app.transfer.archive import write_archive
from app.transfer.chat_json import to_json
from app.transfer.reading import read_file
from app.transfer.report import Report
from app.transfer_keeper import TransferKeeper
from engine.options import SamplingOptions

resource = pytest.importorskip("resource")  # which Windows has not

LONG = "".join(f"Line {number} of what was said.\n\n" for number in range(1000))
CHAT = ChatRecord(1, "Tea", created_at=1.0, updated_at=2.0)
MESSAGES = [MessageRecord(2, 1, None, "user", LONG, 3.0)]


@contextlib.contextmanager
def room_for(size):
    """No file of this process grows beyond `size` bytes: EFBIG is said in place of ENOSPC."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def keeper(qt_app):
    """Writes and reads on this thread; `failures` and `done` are what it said."""
    keeper = TransferKeeper()
    keeper.failures, keeper.done = [], []
    keeper.failed.connect(keeper.failures.append)
    keeper.exported.connect(lambda path, count: keeper.done.append((path, count)))
    keeper.run = lambda: qt_app.sendPostedEvents(keeper)
    return keeper


@pytest.mark.parametrize("size", [0, 100, 2000])
@pytest.mark.parametrize("ending", ["md", "json", "html", "pdf", "zip"])
def test_an_export_that_has_no_room_is_told_and_leaves_what_was_there(
    keeper, tmp_path, ending, size
):
    path = tmp_path / f"chat.{ending}"
    path.write_bytes(b"before")

    def export():
        if ending == "zip":
            chats = [
                (CHAT, [MessageRecord(2, 1, None, "user", bytes(range(256)).hex() * 200, 3.0)])
            ]
            keeper.export_all(path, chats * 100)
        else:
            keeper.export(path, (CHAT, MESSAGES), MESSAGES)
        keeper.run()

    with room_for(size):
        export()
    assert keeper.done == []
    (failure,) = keeper.failures
    assert failure.what.startswith(f"{path.name} could not be written: ")
    assert "make room" in failure.remedy
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
    export()
    assert keeper.done == [(str(path), 100 if ending == "zip" else 1)]
    assert path.stat().st_size > size


def test_an_import_needs_no_room(tmp_path):
    path = tmp_path / "all.zip"
    write_archive(path, [(CHAT, MESSAGES)], made_by="")
    (tmp_path / "one.json").write_text(to_json(CHAT, MESSAGES, made_by=""))
    with room_for(0):
        for name in ("all.zip", "one.json"):
            ((_, messages),) = read_file(tmp_path / name, Report(), usual=SamplingOptions())
            assert [message.content for message in messages] == [LONG]


def test_a_put_log_without_room_has_whole_lines_and_goes_on_when_there_is_some(
    tmp_path, wait_until
):
    path = tmp_path / "log"
    log = PutLog(path, 0)
    log.append(1, *CHANGES[0])
    wait_until(lambda: path.exists() and read_left(path, 0).changes)
    size = path.stat().st_size
    with room_for(size + 10):
        log.append(2, *CHANGES[1])
        log.append(3, *CHANGES[2])
        wait_until(log._steps.empty)  # the third is taken up once the second has failed
    assert path.stat().st_size == size + 10
    assert read_left(path, 0).changes == CHANGES[:1]
    log.clear()
    log.append(4, *CHANGES[2])
    log.close(5)
    assert read_left(path, 3).changes == CHANGES[2:]
