"""The program with a slow fake engine, saying on stdout where the keyboard is and what goes on.

Run as `python watched_program.py FOLDER`; everything it writes is in that folder.
"""

import sys
from pathlib import Path

from fake_engine import FakeEngine

from app.bootstrap import run
from app.program import Smoldesk, Start

ENGINE = FakeEngine(reply_text=" ".join(["word"] * 5000), per_token=0.01)


def say(*words: object) -> None:
    print(*words, flush=True)


def watch(app, smoldesk: Smoldesk) -> None:
    """Print one line for each thing that a test may wait for."""

    def on_focus(_old, new) -> None:
        say("focus", "" if new is None else new.accessibleName() or new.property("text"))

    def on_window(window) -> None:
        say("window", "" if window is None else window.title())

    app.focusChanged.connect(on_focus)
    app.focusWindowChanged.connect(on_window)
    smoldesk.model.state_changed.connect(lambda state: say("model", state.name))
    smoldesk.chat.state_changed.connect(lambda state: say("chat", state.name))
    smoldesk.chat.reply_grew.connect(lambda growth: say("grew", growth.new_tokens))
    smoldesk.chat.editing_changed.connect(lambda editing: say("editing", editing))
    smoldesk.chat.chat_opened.connect(lambda opened: say("opened", opened.id))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    sys.exit(run(Start(folder, folder, folder), opener=ENGINE.load, then=watch))
