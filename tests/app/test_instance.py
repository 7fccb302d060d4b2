"""One program per folder: the second start finds the first, however that one began or ended."""

import contextlib
import os
import socket
import subprocess
import sys
import threading

import pytest
from event_loop import pause

from app import instance
from app.instance import RaiseServer, ask_to_raise, claim

HOLDING = """
import sys, time
from pathlib import Path
from app.instance import claim
lock = claim(Path(sys.argv[1]))
print(lock is not None and lock.held, flush=True)
time.sleep(60)
"""

ASKING = """
import sys
from pathlib import Path
from app.instance import ask_to_raise
sys.exit(not ask_to_raise(Path(sys.argv[1]), 10_000))
"""


def start(program: str, folder) -> subprocess.Popen:
    """Another program with the same folder."""
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def other_program():
    """Starts other programs and ends them."""
    started: list[subprocess.Popen] = []

    def start_one(program: str, folder) -> subprocess.Popen:
        started.append(start(program, folder))
        return started[-1]

    yield start_one
    for child in started:
        child.kill()
        child.communicate()


def test_the_first_has_the_folder_until_it_lets_go(tmp_path):
    folder = tmp_path / "new" / "folder"
    first = claim(folder)
    assert first.held
    assert claim(folder) is None
    assert claim(tmp_path / "other").held
    first.release()
    first.release()  # twice does no harm
    assert not first.held
    second = claim(folder)
    assert second.held
    second.release()
    assert os.listdir(folder) == ["lock"]


def test_a_killed_program_leaves_no_claim(tmp_path, other_program):
    for _ in range(2):
        child = other_program(HOLDING, tmp_path)
        assert child.stdout.readline() == "True\n"
        assert claim(tmp_path) is None
        child.kill()
        child.wait()
        lock = claim(tmp_path)
        assert lock.held
        lock.release()


def test_programs_that_this_one_starts_do_not_inherit_the_claim(tmp_path):
    lock = claim(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    lock.release()
    again = claim(tmp_path)
    child.communicate(b"\n")
    assert again is not None
    again.release()


def test_a_folder_that_cannot_be_written_does_not_keep_the_program_from_starting(tmp_path):
    (tmp_path / "data").write_text("a file where the folder should be")
    for _ in range(2):
        lock = claim(tmp_path / "data")
        assert lock is not None
        assert not lock.held
        lock.release()


def test_a_file_system_without_locks_does_not_either(tmp_path, monkeypatch):
    def refuse(_handle):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(instance, "_lock", refuse)
    assert not claim(tmp_path).held


def test_a_second_start_raises_the_window_of_the_first(tmp_path, wait_until, other_program):
    server, raised = RaiseServer(tmp_path), []
    assert server.listening
    server.raise_requested.connect(lambda: raised.append(True))
    for number in (1, 2):
        child = other_program(ASKING, tmp_path / "." / "")
        wait_until(lambda child=child: child.poll() is not None, "an answer", 20)
        assert child.returncode == 0, child.stderr.read()
        assert child.stderr.read() == ""
        assert len(raised) == number
    server.close()


def test_a_second_start_waits_for_a_first_that_only_begins(tmp_path, wait_until, other_program):
    child = other_program("print('here', flush=True)\n" + ASKING, tmp_path)
    assert child.stdout.readline() == "here\n"
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.5)
    server = RaiseServer(tmp_path)
    wait_until(lambda: child.poll() is not None, "an answer", 20)
    assert child.returncode == 0
    server.close()


def test_without_an_answer_asking_ends_in_time(tmp_path):
    assert not ask_to_raise(tmp_path, 50)
    busy = RaiseServer(tmp_path)  # listens, but its event loop does not run
    assert not ask_to_raise(tmp_path, 100)
    busy.close()


def test_what_a_killed_program_left_is_taken_over(tmp_path, wait_until, other_program):
    program = (
        "import os, sys; from pathlib import Path; from PySide6.QtCore import QCoreApplication; "
        "from app.instance import RaiseServer; app = QCoreApplication([]); "
        "server = RaiseServer(Path(sys.argv[1])); print(server.listening, flush=True); os._exit(9)"
    )
    child = other_program(program, tmp_path)
    assert child.stdout.readline() == "True\n"
    child.wait()
    assert (tmp_path / "instance").exists()
    server = RaiseServer(tmp_path)
    assert server.listening
    asking = other_program(ASKING, tmp_path)
    wait_until(lambda: asking.poll() is not None, "an answer", 20)
    assert asking.returncode == 0
    server.close()


@pytest.mark.parametrize("said", [b"", b"0123456789abcdef0123456789abcdef", b"x" * 10_000])
def test_only_who_knows_the_password_raises_the_window(tmp_path, said):
    server, raised = RaiseServer(tmp_path), []
    server.raise_requested.connect(lambda: raised.append(True))
    port = int((tmp_path / "instance").read_text().split()[0])
    with socket.create_connection(("127.0.0.1", port)) as caller:
        caller.sendall(said)
        caller.shutdown(socket.SHUT_WR)
        pause(50)
        with contextlib.suppress(ConnectionResetError):
            assert caller.recv(1) == b""
    assert not raised
    assert ask_later(tmp_path)
    pause(200)
    assert raised
    server.close()


def ask_later(folder) -> bool:
    threading.Thread(target=ask_to_raise, args=(folder,)).start()
    return True


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such rights")
def test_the_password_is_for_the_user_only_and_goes_with_the_program(tmp_path):
    server = RaiseServer(tmp_path)
    assert (tmp_path / "instance").stat().st_mode & 0o077 == 0
    server.close()
    assert not (tmp_path / "instance").exists()


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path):
    (tmp_path / "data").write_text("a file where the folder should be")
    server = RaiseServer(tmp_path / "data")
    assert not server.listening
    server.close()


@pytest.mark.parametrize("content", ["", "x", "1 2 3", "99999999 abc", "\ufffd", "80 "])
def test_a_damaged_file_is_no_answer(tmp_path, content):
    (tmp_path / "instance").write_text(content, encoding="utf-8")
    assert not ask_to_raise(tmp_path, 60)
