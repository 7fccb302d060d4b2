"""The only wiring, top to bottom: from a command line to a window, and from there to the end."""

import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app import import_order

import_order.before_qt()

from PySide6.QtCore import QObject, QSocketNotifier, Qt, QThread, QTimer, Slot  # noqa: E402
from PySide6.QtWidgets import QApplication  # noqa: E402

from app import failures  # noqa: E402
from app.chat_controller import ChatController  # noqa: E402
from app.model_controller import ModelController  # noqa: E402
from app.settings import (  # noqa: E402
    Settings,
    SettingsFile,
    read_geometry,
    write_geometry,
)
from app.ui.icons import window_icon  # noqa: E402
from app.ui.main_window import MainWindow  # noqa: E402
from app.ui.states import ChatState, Failure, ModelState  # noqa: E402
from app.ui.theme import Appearance  # noqa: E402
from app.worker import EngineOpener, EngineWorker, LoadedEngine  # noqa: E402
from engine.options import LiveOptions, SamplingOptions  # noqa: E402

PATIENCE = 1500  # ms that what still runs gets to end by itself when the program quits

UNSEEN = 1000  # ms after which a window that was not drawn no longer keeps the model waiting


@dataclass(frozen=True, slots=True)
class Start:
    """What the command line and the system decided; None leaves a choice to the settings."""

    config_dir: Path
    log_dir: Path
    model: str | None = None
    device: str | None = None
    precision: str | None = None
    theme: str | None = None


def open_engine(*args: Any, **options: Any) -> LoadedEngine:
    """Load a model; runs on the engine's thread, which is where torch is imported."""
    import_order.before_torch()
    with import_order.unswept():
        from engine.loading import load
    return load(*args, **options)


class Smoldesk(QObject):
    """The running program: owns the window, the controllers and the engine's thread."""

    def __init__(
        self, app: QApplication, start: Start, *, opener: EngineOpener = open_engine
    ) -> None:
        super().__init__(app)
        self._app = app
        self._start = start
        self._file = SettingsFile(start.config_dir)
        self.settings, settings_problem = self._file.read()
        self._saving = QTimer(self, singleShot=True, interval=400)
        self._saving.timeout.connect(self.save_settings)
        self._told_about_saving = False

        self.reporter = failures.FailureReporter(self)
        log_problem = failures.open_log(start.log_dir)
        self.reporter.install()

        options = SamplingOptions(temperature=self.settings.temperature, top_p=self.settings.top_p)
        self.chat = ChatController(LiveOptions(options), parent=self)
        self.model = ModelController(
            start.model,
            start.device or os.environ.get("SMOLDESK_DEVICE") or self.settings.device,
            start.precision or os.environ.get("SMOLDESK_PRECISION") or self.settings.precision,
            parent=self,
        )
        self.worker = EngineWorker(opener)
        self.thread_ = QThread(self)
        self.thread_.setObjectName("engine")
        self.worker.moveToThread(self.thread_)
        self.appearance = Appearance(app)
        self.window = MainWindow()
        self._connect_engine()
        self._connect_views()
        self._show_settings()
        for problem in (settings_problem, log_problem):
            if problem is not None:
                self.window.tell(problem)

    def show(self) -> None:
        """Show the window; the engine starts once it is on screen."""
        self.window.restore(read_geometry(self._start.config_dir))
        self.window.show()
        QTimer.singleShot(UNSEEN, self._load_unseen)

    @Slot()
    def _load_unseen(self) -> None:
        """Should the window not be drawn (a locked screen), the model is loaded all the same."""
        if self.model.state is ModelState.NONE:
            self.model.load()

    @Slot()
    def save_settings(self) -> None:
        """Write the settings; a folder that cannot be written is told of once."""
        self._saving.stop()
        problem = self._file.write(self.settings)
        if problem is not None and not self._told_about_saving:
            self._told_about_saving = True
            self.window.tell(problem)

    def end(self) -> bool:
        """Stop all that runs. False if something that cannot be interrupted still runs then."""
        if self._saving.isActive():
            self.save_settings()
        self.model.cancel()
        self.chat.cancel()
        self.thread_.quit()
        ended = not self.thread_.isRunning() or self.thread_.wait(PATIENCE)
        self.reporter.uninstall()
        failures.close_log()
        return bool(ended)

    def _connect_engine(self) -> None:
        """Window's thread <-> engine's thread; every receiver is a slot of its own thread."""
        queued = Qt.ConnectionType.QueuedConnection
        worker, model, chat = self.worker, self.model, self.chat
        model.load_requested.connect(worker.work, queued)
        chat.reply_requested.connect(worker.work, queued)
        worker.loading_progressed.connect(model.on_progressed, queued)
        worker.engine_loaded.connect(model.on_loaded, queued)
        worker.loading_stopped.connect(model.on_stopped, queued)
        worker.loading_failed.connect(model.on_failed, queued)
        worker.prompt_progressed.connect(chat.on_prompt_progressed, queued)
        worker.reply_grew.connect(chat.on_grew, queued)
        worker.reply_ended.connect(chat.on_ended, queued)
        worker.reply_failed.connect(chat.on_failed, queued)
        self.thread_.start()

    def _connect_views(self) -> None:
        """Views speak to controllers and controllers to views, all on the window's thread."""
        window, model, chat = self.window, self.model, self.chat
        header, panel, status = window.header, window.panel, window.status
        transcript, composer = window.transcript, window.composer

        window.first_painted.connect(model.load)
        window.load_requested.connect(model.load)
        chat.model_needed.connect(model.load)
        model.state_changed.connect(status.set_model_state)
        model.progressed.connect(status.show_loading)
        model.became_ready.connect(header.show_model)
        model.became_ready.connect(panel.model.show_model)
        model.load_requested.connect(window.forget_no_model)
        model.became_ready.connect(chat.on_model_ready)
        model.failed.connect(self._on_model_failed)

        composer.submitted.connect(chat.submit)
        transcript.example_chosen.connect(chat.submit)
        transcript.retry_requested.connect(chat.retry)
        transcript.edit_requested.connect(chat.edit)
        window.stop_requested.connect(chat.stop)
        header.new_chat_requested.connect(chat.new_chat)
        header.new_chat_requested.connect(composer.setFocus)
        header.previous_chat_requested.connect(chat.open_previous)
        header.previous_chat_requested.connect(composer.setFocus)
        chat.state_changed.connect(composer.set_state)
        chat.state_changed.connect(status.set_chat_state)
        chat.chat_opened.connect(transcript.show_turns)
        chat.turn_began.connect(transcript.begin_turn)
        chat.turn_withdrawn.connect(transcript.withdraw)
        chat.prompt_progressed.connect(status.show_reading)
        chat.reply_grew.connect(transcript.append_reply)
        chat.reply_grew.connect(status.show_growth)
        chat.turn_ended.connect(transcript.end_turn)
        chat.text_returned.connect(composer.put_back)
        chat.others_changed.connect(header.previous_chat.setVisible)

        panel.option_changed.connect(chat.set_option)
        panel.option_changed.connect(self._on_option_changed)
        panel.theme_chosen.connect(self._on_theme_chosen)
        self.appearance.changed.connect(window.recolour)
        self.reporter.bug_found.connect(window.show_bug)
        window.closed.connect(self._on_closed)

    def _show_settings(self) -> None:
        theme = self._start.theme or self.settings.theme
        usual = Settings()
        self.window.panel.set_usual_values(temperature=usual.temperature, top_p=usual.top_p)
        self.window.panel.show_values(
            temperature=self.settings.temperature, top_p=self.settings.top_p, theme=theme
        )
        self._app.setWindowIcon(window_icon())
        self.appearance.choose(theme)

    @Slot(str, float)
    def _on_option_changed(self, name: str, value: float) -> None:
        self._change_settings(**{name: value})

    @Slot(str)
    def _on_theme_chosen(self, theme: str) -> None:
        self.appearance.choose(theme)
        self._change_settings(theme=theme)

    @Slot(object)
    def _on_model_failed(self, failure: Failure) -> None:
        if self.chat.state is ChatState.WAITING:
            self.chat.on_model_failed(failure)  # said where the reply should have been
        else:
            self.window.tell_no_model(failure)

    @Slot(bytes)
    def _on_closed(self, geometry: bytes) -> None:
        write_geometry(self._start.config_dir, geometry)

    def _change_settings(self, **changes: Any) -> None:
        self.settings = replace(self.settings, **changes)
        self._saving.start()


class SignalWatcher(QObject):
    """Turns Ctrl+C and a request to end into a quiet end, on every system.

    Python runs its signal handlers between two steps of Python, which an idle window may not take
    for long; a byte on a socket wakes Qt up.
    """

    def __init__(self, quit_with: Callable[[int], None], parent: QObject) -> None:
        super().__init__(parent)
        self._quit_with = quit_with
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        self._notifier = QSocketNotifier(self._receiver.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_signal)

    @Slot()
    def _on_signal(self) -> None:
        for number in self._receiver.recv(64):
            self._quit_with(128 + number)

    def close(self) -> None:
        """Leave signals as the system has them: a second Ctrl+C ends the program at once."""
        self._notifier.setEnabled(False)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        self._receiver.close()
        self._sender.close()


def run(
    start: Start,
    *,
    opener: EngineOpener = open_engine,
    then: Callable[[QApplication, Smoldesk], object] | None = None,
) -> int:
    """Run the program to its end; `then` sees the window just after it was shown."""
    app = QApplication(sys.argv[:1])
    app.setApplicationName("smoldesk")
    app.setApplicationDisplayName("Smoldesk")
    app.setDesktopFileName("smoldesk")
    smoldesk = Smoldesk(app, start, opener=opener)
    signals = SignalWatcher(app.exit, smoldesk)
    smoldesk.show()
    keep = then(app, smoldesk) if then is not None else None
    code = app.exec()
    signals.close()
    smoldesk.window.hide()
    if not smoldesk.end():
        # The import of torch, or a kernel that takes long, cannot be interrupted, and waiting for
        # it would leave a window that is gone and a process that is not.
        _leave(code)
    del keep
    smoldesk.window.deleteLater()
    app.processEvents()
    return int(code)


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
