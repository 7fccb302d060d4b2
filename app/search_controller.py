"""Search in all chats: off the window's thread, the newest question only, titles and texts."""

from PySide6.QtCore import QObject, Qt, QTimer, Signal, Slot

from app.chat_library import ChatLibrary
from app.store.chats import ChatStore
from app.store.search import Hit
from app.ui.finding import fold, places
from app.ui.states import ShownHit

_PAUSE = 40  # ms without typing
MOST = 200  # messages


class Searcher(QObject):
    """Lives on a thread of its own; of the texts that wait there only the newest is looked for."""

    found = Signal(str, object)  # the text, list[Hit]
    _requested = Signal(int, str)

    def __init__(self, store: ChatStore) -> None:
        super().__init__()
        self._store = store
        self._newest = 0
        self._requested.connect(self._on_requested, Qt.ConnectionType.QueuedConnection)

    def request(self, text: str) -> None:
        """Look for a text; called on the window's thread."""
        self._newest += 1
        self._requested.emit(self._newest, text)

    @Slot(int, str)
    def _on_requested(self, number: int, text: str) -> None:
        if number == self._newest:
            self.found.emit(text, self._store.search(text, limit=MOST))


class SearchController(QObject):
    """What is typed into the field becomes a list of hits."""

    hits_changed = Signal(str, object)  # the text, list[ShownHit]

    def __init__(self, library: ChatLibrary, searcher: Searcher, *, parent: QObject) -> None:
        super().__init__(parent)
        self._library = library
        self._searcher = searcher
        self._text = ""
        self._resting = QTimer(self, singleShot=True, interval=_PAUSE)
        self._resting.timeout.connect(self._ask)
        searcher.found.connect(self._on_found, Qt.ConnectionType.QueuedConnection)

    @Slot(str)
    def search(self, text: str) -> None:
        """Look for this once nothing more is typed."""
        self._text = text
        if text.strip():
            self._resting.start()
        else:
            self._resting.stop()

    @Slot()
    def _ask(self) -> None:
        self._searcher.request(self._text)

    @Slot(str, object)
    def _on_found(self, text: str, hits: list[Hit]) -> None:
        if text != self._text:
            return
        library = self._library
        records = [*library.records(), *library.records(archived=True)]
        titles = {record.id: record.title for record in records}
        words = fold(text.replace('"', " ")).split()
        shown = [
            ShownHit(record.id, None, record.title, _marks(record.title, words), "", ())
            for record in records
            if words and all(word in fold(record.title) for word in words)
        ]
        shown += [
            ShownHit(hit.chat_id, hit.message_id, titles[hit.chat_id], (), hit.excerpt, hit.marks)
            for hit in hits
            if hit.chat_id in titles
        ]
        self.hits_changed.emit(text, shown)


def _marks(title: str, words: list[str]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(place for word in words for place in places(title, word)))
