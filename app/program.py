"""The running program: what there is, and how it is wired together, top to bottom."""

import os
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import (
    QCoreApplication,
    QObject,
    Qt,
    QThread,
    QTimer,
    Signal,
    Slot,
)
from PySide6.QtWidgets import QApplication

from app import failures
from app.backup_keeper import BackupKeeper
from app.chat_controller import ChatController, Deletion, OpenedChat
from app.chat_library import ChatLibrary
from app.chat_list_controller import ChatListController
from app.engine_protocols import EngineOpener
from app.instance import RaiseServer
from app.key_actions import KeyActions
from app.look_ahead import LookAhead
from app.model_controller import ModelController
from app.model_digester import ModelDigester
from app.reply_recorder import ReplyRecorder
from app.scheduler import Scheduler
from app.search_controller import SearchController, Searcher
from app.settings import Settings, SettingsFile, read_geometry, write_geometry
from app.settings_controller import SettingsController
from app.store.chats import ChatStore
from app.stored_controller import StoredController
from app.title_finder import TitleFinder
from app.token_counter import TokenCounter
from app.transfer_controller import TransferController
from app.transfer_keeper import TransferKeeper
from app.ui.icons import window_icon
from app.ui.main_window import MainWindow
from app.ui.states import Failure, ModelInfo, ModelState, Place, ShownBackup, ShownHit
from app.ui.theme import Appearance
from app.worker import EngineWorker, Look
from engine.places import models_dir

PATIENCE = 1500  # ms that what still runs gets to end by itself when the program quits

UNSEEN = 1000  # ms after which a window that was not drawn no longer keeps the model waiting


@dataclass(frozen=True, slots=True)
class Start:
    """What the command line and the system decided; None leaves a choice to the settings."""

    data_dir: Path
    config_dir: Path
    log_dir: Path
    single: bool = False  # a second start with the same data only brings the first one forward
    model: str | None = None
    device: str | None = None
    precision: str | None = None
    theme: str | None = None


class Smoldesk(QObject):
    """The running program: owns the window, the controllers, the store and the threads."""

    # From the thread that writes: Failure, or None when that is over.
    _store_failed = Signal(object)

    def __init__(self, app: QApplication, start: Start, *, opener: EngineOpener) -> None:
        super().__init__(app)
        self._start = start
        self.reporter = failures.FailureReporter(self)
        log_problem = failures.open_log(start.log_dir)

        self.appearance = Appearance(app)
        self.preferences = SettingsController(
            SettingsFile(start.config_dir), self.appearance, _places(start), self
        )
        settings = self.preferences.settings
        self.store = ChatStore(start.data_dir / "chats.db", on_problem=self._store_failed.emit)
        self.scheduler = Scheduler(self)
        library = ChatLibrary(self.store, self.preferences.new_chat_defaults)
        self.recorder = ReplyRecorder(library, self.scheduler, parent=self)
        self.titles = TitleFinder(
            library,
            self.scheduler,
            self.recorder,
            lambda: self.preferences.settings.suggest_titles,
            parent=self,
        )
        self.look = LookAhead(self.scheduler, parent=self)
        self.chats = ChatListController(library, self.scheduler, self.recorder, parent=self)
        self.chat = ChatController(
            self.chats, self.scheduler, self.recorder, self.look, parent=self
        )
        self.model = ModelController(
            start.model,
            start.device or os.environ.get("SMOLDESK_DEVICE") or settings.device,
            start.precision or os.environ.get("SMOLDESK_PRECISION") or settings.precision,
            quiet=settings.quiet,
            parent=self,
        )
        self.worker = EngineWorker(opener)
        self.thread_ = _thread("engine", self.worker, self)
        self.counter = TokenCounter()
        self.counting = _thread("counter", self.counter, self)
        self.searcher = Searcher(self.store)
        self.searcher.moveToThread(self.counting)
        self.search = SearchController(self.chats.library, self.searcher, parent=self)
        self.backups = BackupKeeper(start.data_dir / "chats.db", start.data_dir / "backups")
        self.backing_up = _thread("backups", self.backups, self)
        self.stored = StoredController(self.chats, self.backups, parent=self)
        self.digester = ModelDigester()
        self.digester.moveToThread(self.backing_up)
        self.files = TransferKeeper()
        self.files.moveToThread(self.backing_up)
        self.transfer = TransferController(self.chats, self.files, parent=self)
        app.commitDataRequest.connect(self.keep_all)
        app.setWindowIcon(window_icon())
        self.window = MainWindow()
        self.keys = KeyActions(self.window, self.chat, self.chats, self.preferences, self)
        self._server: RaiseServer | None = None
        self._connect_engine()
        self._connect_chats()
        self._connect_views()
        self._connect_settings()
        self.preferences.apply(theme=start.theme)
        self._show_settings(settings)
        self.chats.begin(settings.open_chat)
        for problem in (self.preferences.problem, log_problem, self.store.problem):
            if problem is not None:
                self.window.tell(problem)
        if self.store.begun_anew:
            self.stored.look_for_newest()
        self.reporter.install()  # from here on there is a window that can tell of a bug

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
    def keep_all(self) -> None:
        """Have all on the disk now: a desktop session that ends may not wait for a quiet end."""
        self.preferences.save_pending()
        self.chat.save()
        self.recorder.save()
        self.store.flush(PATIENCE / 1000)

    def end(self) -> bool:
        """Stop all that runs and keep all that was said.

        False if something that cannot be interrupted still runs then.
        """
        self.preferences.save_pending()
        self.model.cancel()
        self.scheduler.cancel()
        self.files.cancel.set()
        threads = (self.counting, self.backing_up, self.thread_)
        for thread in threads:
            thread.quit()
        ended = all(not thread.isRunning() or thread.wait(PATIENCE) for thread in threads)
        QCoreApplication.sendPostedEvents()  # the last words of a reply may still be on their way
        self.chat.save()
        self.recorder.save()
        kept = self.store.close(PATIENCE / 1000)
        if self._server is not None:
            self._server.close()
        self.reporter.uninstall()
        failures.close_log()
        return ended and kept

    def _connect_engine(self) -> None:
        """Window's thread <-> other threads; every receiver is a slot of its own thread."""
        queued = Qt.ConnectionType.QueuedConnection
        worker, model, scheduler = self.worker, self.model, self.scheduler
        model.load_requested.connect(worker.work, queued)
        scheduler.reply_requested.connect(worker.work, queued)
        scheduler.look_requested.connect(worker.work, queued)
        worker.loading_progressed.connect(model.on_progressed, queued)
        worker.engine_loaded.connect(model.on_loaded, queued)
        worker.loading_stopped.connect(model.on_stopped, queued)
        worker.loading_failed.connect(model.on_failed, queued)
        worker.prompt_progressed.connect(scheduler.on_prompt_progressed, queued)
        worker.reply_grew.connect(scheduler.on_grew, queued)
        worker.reply_ended.connect(scheduler.on_ended, queued)
        worker.reply_failed.connect(scheduler.on_failed, queued)
        scheduler.title_requested.connect(worker.work, queued)
        worker.title_found.connect(self.titles.on_title_found, queued)
        worker.looked.connect(self.look.on_looked, queued)
        worker.counting_changed.connect(self.counter.set_counting, queued)
        self.digester.known.connect(self.recorder.on_digest_known, queued)
        self.counter.counted.connect(self.window.status.gauge.set_draft, queued)
        self.counter.frame_counted.connect(self.window.status.gauge.set_frame, queued)
        self._store_failed.connect(self._on_store_failed, queued)
        self.thread_.start()
        self.counting.start(QThread.Priority.LowPriority)
        self.backing_up.start(QThread.Priority.LowestPriority)

    def _connect_chats(self) -> None:
        """The chat controller <-> the views, all on the window's thread."""
        window, chat, chats = self.window, self.chat, self.chats
        sidebar, transcript, composer = window.sidebar, window.transcript, window.composer
        for bar in (sidebar, window.header):
            bar.new_chat_requested.connect(chats.new_chat)
        sidebar.search_changed.connect(self.search.search)
        self.search.hits_changed.connect(sidebar.show_hits)
        sidebar.hit_chosen.connect(self._on_hit_chosen)
        sidebar.chat_chosen.connect(chats.open_chat)
        sidebar.rename_requested.connect(chats.rename)
        sidebar.pin_requested.connect(chats.pin)
        sidebar.duplicate_requested.connect(chats.duplicate)
        sidebar.archive_requested.connect(lambda chat_id: chats.archive(chat_id, True))
        sidebar.delete_requested.connect(chats.delete)
        sidebar.temporary_requested.connect(chats.new_temporary_chat)
        self.stored.newest_offered.connect(self._on_backup_offered)
        self.stored.failed.connect(window.tell)
        sidebar.temporary_requested.connect(window.make_room)
        sidebar.stored_requested.connect(lambda: self.stored.show(window))
        sidebar.export_requested.connect(lambda chat: self.transfer.ask_export(chat, window))
        sidebar.export_all_requested.connect(lambda: self.transfer.ask_export_all(window))
        sidebar.import_requested.connect(lambda: self.transfer.ask_import(window))
        self.transfer.told.connect(window.tell_transfer)
        chats.chat_archived.connect(self._on_chat_archived)
        chats.temporary_left.connect(self._on_temporary_left)
        chats.chats_changed.connect(sidebar.show_chats)
        self.titles.titled.connect(chats.tell)
        chats.chats_changed.connect(self._remember_open_chat)
        chat.chat_opened.connect(self._on_chat_opened)
        chats.chat_deleted.connect(self._on_chat_deleted)

        composer.submitted.connect(chat.submit)
        composer.draft_changed.connect(chat.keep_draft)
        composer.count_requested.connect(self.counter.request)
        composer.edit_last_requested.connect(chat.edit_last)
        window.stop_requested.connect(chat.stop)
        chat.text_returned.connect(composer.show_text)
        chat.editing_changed.connect(composer.set_editing)
        chat.state_changed.connect(composer.set_state)
        chat.state_changed.connect(window.forget_too_early)

        transcript.example_chosen.connect(chat.submit)
        transcript.regenerate_requested.connect(chat.regenerate)
        transcript.continue_requested.connect(chat.go_on)
        transcript.edit_requested.connect(chat.edit)
        transcript.version_requested.connect(chat.show_version)
        transcript.branch_requested.connect(chats.branch_off)
        transcript.delete_requested.connect(chat.delete)
        chat.messages_deleted.connect(self._on_messages_deleted)
        chat.messages_changed.connect(transcript.show_messages)
        chat.messages_changed.connect(window.find_bar.refresh)
        chat.reply_grew.connect(transcript.append_reply)
        chat.reply_ended.connect(transcript.announce)

        status, sampling, scope = window.status, window.panel.sampling, window.panel.scope
        chat.state_changed.connect(status.set_chat_state)
        chat.prompt_progressed.connect(status.show_reading)
        chat.reply_grew.connect(status.show_growth)
        chat.used_tokens_changed.connect(status.gauge.set_used)
        sampling.options_changed.connect(chat.change_options)
        sampling.system_prompt_changed.connect(chat.change_system_prompt)
        sampling.system_prompt_changed.connect(self.counter.request_frame)
        chat.next_token_changed.connect(sampling.show_next_token)
        chat.seed_changed.connect(sampling.show_last_seed)
        scope.prompt_wanted.connect(self.look.again)
        chat.prompt_changed.connect(self._on_prompt_changed)

    def _connect_views(self) -> None:
        """The model controller and what is left <-> the views."""
        window, model, preferences = self.window, self.model, self.preferences
        window.first_painted.connect(model.load)
        window.first_painted.connect(self._listen)
        window.load_requested.connect(model.load)
        self.scheduler.model_needed.connect(model.load)
        model.state_changed.connect(window.status.set_model_state)
        model.progressed.connect(window.status.show_loading)
        model.load_requested.connect(window.forget_no_model)
        model.became_ready.connect(window.header.show_model)
        model.became_ready.connect(window.panel.scope.show_model)
        model.became_ready.connect(preferences.on_model_ready)
        model.became_ready.connect(self._on_model_ready)
        model.failed.connect(self._on_model_failed)
        self.reporter.bug_found.connect(window.show_bug)
        window.closed.connect(self._on_closed)
        window.key_pressed.connect(self.keys.act)

    def _connect_settings(self) -> None:
        """The settings <-> the views."""
        window, preferences = self.window, self.preferences
        self.appearance.changed.connect(window.recolour)
        preferences.failed.connect(window.tell_settings)
        preferences.saved.connect(window.forget_settings)
        preferences.changed.connect(self._on_settings_changed)
        sampling = window.panel.sampling
        sampling.presets_changed.connect(lambda own: preferences.change(presets=own))
        sampling.default_requested.connect(self._on_default_requested)
        for bar in (window.sidebar, window.header):
            bar.settings_requested.connect(lambda: preferences.show_settings(window))
        window.sidebar.keys_requested.connect(lambda: preferences.show_keys(window))
        window.sidebar.about_requested.connect(lambda: preferences.show_about(window))
        window.bars_chosen.connect(self._on_bars_chosen)
        window.header.panel_toggled.connect(self.look.set_wanted)

    def _show_settings(self, settings: Settings) -> None:
        sampling = self.window.panel.sampling
        sampling.show_presets(settings.presets)
        sampling.set_usual(settings.options)
        self.window.show_bars(sidebar=settings.sidebar_shown, panel=settings.panel_shown)
        self.look.wanted = settings.panel_shown

    @Slot(object)
    def _on_settings_changed(self, settings: Settings) -> None:
        self.window.panel.sampling.set_usual(settings.options)

    @Slot()
    def _on_default_requested(self) -> None:
        chat = self.chat
        system_prompt = chat.conversation.chat.system_prompt
        self.preferences.change(options=chat.options, system_prompt=system_prompt)

    @Slot(bool, bool)
    def _on_bars_chosen(self, sidebar: bool, panel: bool) -> None:
        self.preferences.change(sidebar_shown=sidebar, panel_shown=panel)

    @Slot(object)
    def _on_chat_opened(self, opened: OpenedChat) -> None:
        window = self.window
        window.sidebar.select_chat(opened.id)
        window.composer.show_text(opened.draft)
        window.show_temporary(opened.temporary)
        window.transcript.show_conversation(opened.messages)
        window.find_bar.refresh()
        window.panel.sampling.bars.set_asked(bool(opened.messages))
        window.panel.sampling.show_options(opened.options)
        window.panel.sampling.show_system_prompt(opened.system_prompt)
        self.counter.request_frame(opened.system_prompt)

    @Slot(object)
    def _on_hit_chosen(self, hit: ShownHit) -> None:
        self.chats.open_chat(hit.chat_id)
        if hit.message_id is not None:
            self.chat.show_message(hit.message_id)
            self.window.transcript.reveal(hit.message_id)
        self.window.page.make_room()

    @Slot(int, str)
    def _on_chat_deleted(self, chat_id: int, title: str) -> None:
        def undo() -> None:
            self.chats.restore(chat_id)
            self.window.composer.setFocus()

        self.window.tell_deleted(chat_id, title, undo)

    @Slot(int, str)
    def _on_chat_archived(self, chat_id: int, title: str) -> None:
        def undo() -> None:
            self.chats.archive(chat_id, False)
            self.chats.open_chat(chat_id)

        self.window.tell_archived(chat_id, title, undo)

    @Slot(object)
    def _on_backup_offered(self, backup: ShownBackup) -> None:
        self.window.tell_backup(backup, lambda: self.stored.bring_back(backup.path))

    @Slot(int)
    def _on_temporary_left(self, chat_id: int) -> None:
        self.window.tell_temporary_left(lambda: self.chats.open_chat(chat_id))

    @Slot(object)
    def _on_messages_deleted(self, deletion: Deletion) -> None:
        self.window.tell_messages_deleted(
            deletion.messages[0].id, len(deletion.messages), lambda: self.chat.restore(deletion)
        )

    @Slot(object)
    def _on_prompt_changed(self, look: Look | None) -> None:
        scope = self.window.panel.scope
        if look is None:
            scope.show_no_prompt()
        else:
            scope.show_prompt(look.prompt, look.tokens)

    @Slot(object)
    def _on_model_ready(self, info: ModelInfo) -> None:
        self.window.status.gauge.set_limits(info.context_length, info.longest_prompt)
        self.recorder.on_model_ready(info)
        self.digester.request(info.path)
        self.scheduler.on_model_ready()
        self.look.again()

    @Slot(object)
    def _on_model_failed(self, failure: Failure) -> None:
        if self.scheduler.waiting:
            self.scheduler.on_model_failed(failure)  # said where the reply should have been
        else:
            self.window.tell_no_model(failure)

    @Slot(object)
    def _on_store_failed(self, failure: Failure | None) -> None:
        if failure is None:
            self.window.forget_not_kept()
        else:
            self.window.tell_not_kept(failure)

    @Slot()
    def _listen(self) -> None:
        """Hear of later starts with the same data: they bring this window forward."""
        if self._start.single and self._server is None:
            self._server = RaiseServer(self._start.data_dir, self)
            self._server.raise_requested.connect(self.window.come_forward)

    @Slot(bytes)
    def _on_closed(self, geometry: bytes) -> None:
        write_geometry(self._start.config_dir, geometry)

    @Slot()
    def _remember_open_chat(self) -> None:
        conversation = self.chat.conversation
        open_chat = conversation.chat.id if conversation.kept else None
        if open_chat != self.preferences.settings.open_chat:
            self.preferences.change(open_chat=open_chat)
            self.preferences.save()  # now: after a crash it is to be open again


def _thread(name: str, inhabitant: QObject, parent: QObject) -> QThread:
    thread = QThread(parent)
    thread.setObjectName(name)
    inhabitant.moveToThread(thread)
    return thread


def _places(start: Start) -> tuple[Place, ...]:
    translate = QCoreApplication.translate
    return (
        Place(translate("places", "Chats"), str(start.data_dir)),
        Place(translate("places", "Models"), str(models_dir())),
        Place(translate("places", "Settings"), str(start.config_dir)),
        Place(translate("places", "Log"), str(start.log_dir)),
    )
