"""Quitting at any moment: quick, with the right exit code, and without a word from Qt."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FAKE = Path(__file__).parent / "fake_engine.py"
QUICKLY = 4.0  # seconds; two on a machine with nothing else to do

MOMENTS = {
    "loading": ["--loading", "30", "--say-when", "window"],
    "loading, deaf to cancel": ["--loading", "30", "--deaf", "--say-when", "window"],
    "reading": ["--ask", "a", "--reading", "5", "--say-when", "reading"],
    "decoding": [
        "--ask",
        "a",
        "--words",
        "100000",
        "--per-token",
        "0.003",
        "--say-when",
        "decoding",
    ],
    "idle": ["--say-when", "window"],
}


@pytest.fixture
def start(home):
    """Starts a program offscreen with a home of its own; kills what is left of it."""
    started = []

    def start_one(*command: str) -> subprocess.Popen:
        environ = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "SMOLDESK_HOME": str(home)}
        process = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environ,
        )
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen) -> tuple[int, str, float]:
    began = time.monotonic()
    try:
        _, errors = process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        pytest.fail("the program did not end")
    return process.returncode, errors, time.monotonic() - began


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGHUP", "close"])
def test_quit(start, moment, how):
    arguments = MOMENTS[moment] + (["--close"] if how == "close" else [])
    process = start(str(FAKE), *arguments)
    assert process.stdout.readline().strip() == MOMENTS[moment][-1]
    if how != "close":
        process.send_signal(getattr(signal, how))
    code, errors, seconds = ended(process)
    assert code == {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129, "close": 0}[how]
    assert errors == ""
    assert seconds < QUICKLY


def test_without_a_terminal_is_what_nohup_asks_for(start):
    nohup = (
        "import signal, runpy, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    process = start("-c", nohup, str(FAKE), "--say-when", "window")
    assert process.stdout.readline().strip() == "window"
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 143


@pytest.mark.parametrize("after", [0.15, 0.6, 1.2])
def test_the_real_program_ends_quietly_while_it_starts(start, after):
    """At these times it imports Qt, imports torch, or reads the model."""
    process = start("-m", "app", "--offscreen")
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    code, errors, seconds = ended(process)
    assert code in (130, -signal.SIGINT)
    assert errors == ""
    assert seconds < QUICKLY
