"""The bar at the left: a new chat, all chats, and at its foot settings and help."""

# ruff: noqa: N802 - the names of what is overridden are Qt's

from PySide6.QtCore import QEvent, Qt, Signal, Slot
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.ui.icons import icon, icon_size
from app.ui.keys import BY_NAME, with_key
from app.ui.sidebar.chat_list import ChatList
from app.ui.sidebar.search_field import SearchField
from app.ui.sidebar.search_results import SearchResults
from app.ui.states import ChatLine, ShownHit
from app.ui.theme import UNIT, Colours

_WIDTH = 60 * UNIT
_CHARACTERS = 36  # that a row has room for, if that is wider
_GREATEST_WIDTH = 95 * UNIT


class Sidebar(QFrame):
    """Shows; what its rows and buttons do is for others to decide."""

    new_chat_requested = Signal()
    search_changed = Signal(str)
    hit_chosen = Signal(object)  # ShownHit
    chat_chosen = Signal(int)
    chat_entered = Signal(int)  # chosen, and now one wants to write there
    rename_requested = Signal(int, str)
    pin_requested = Signal(int, bool)
    duplicate_requested = Signal(int)
    export_requested = Signal(int)
    archive_requested = Signal(int)
    delete_requested = Signal(int)
    temporary_requested = Signal()
    import_requested = Signal()
    export_all_requested = Signal()
    stored_requested = Signal()  # archived and deleted chats, and backups
    settings_requested = Signal()
    keys_requested = Signal()
    about_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidebar")
        self.new_chat = QPushButton(self.tr("New chat"), objectName="newChat")
        self.new_chat.setToolTip(with_key(self.tr("New chat"), "new_chat"))
        self.new_chat.clicked.connect(self.new_chat_requested)
        self.more = QToolButton(objectName="dotsButton")
        self.more.setToolTip(self.tr("More about chats"))
        self.more.setAccessibleName(self.tr("More about chats"))
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setMenu(self._chats_menu())
        self.field = SearchField()
        self.field.textChanged.connect(self._on_search_changed)
        self.results = SearchResults()
        self.results.hit_chosen.connect(self.hit_chosen)
        self.results.left.connect(self.field.setFocus)
        self.field.entered.connect(self.results.choose_first)
        self.field.went_down.connect(self._go_down)
        self.list = ChatList()
        self.field.left.connect(self.list.setFocus)
        self._either = QStackedWidget()
        self._either.addWidget(self.list)
        self._either.addWidget(self.results)
        self.list.chat_chosen.connect(self.chat_chosen)
        self.list.chat_entered.connect(self.chat_entered)
        self.list.rename_requested.connect(self.rename_requested)
        self.list.pin_requested.connect(self.pin_requested)
        self.list.duplicate_requested.connect(self.duplicate_requested)
        self.list.export_requested.connect(self.export_requested)
        self.list.archive_requested.connect(self.archive_requested)
        self.list.delete_requested.connect(self.delete_requested)
        self.settings = QToolButton()
        self.settings.setText(f" {self.tr('Settings')}")  # Qt leaves too little beside the icon
        self.settings.setAccessibleName(self.tr("Settings"))
        self.settings.setToolTip(with_key(self.tr("Settings"), "settings"))
        self.settings.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.settings.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.settings.clicked.connect(self.settings_requested)
        self.help = QToolButton()
        self.help.setToolTip(self.tr("Help"))
        self.help.setAccessibleName(self.tr("Help"))
        self.help.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.help.setMenu(self._help_menu())
        for button in (self.more, self.settings, self.help):
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._arrange()
        self._rescale()

    def show_chats(self, lines: list[ChatLine]) -> None:
        """Show exactly these chats, in this order; selection, place and a rename stay."""
        self.list.show_chats(lines)

    @Slot(object)
    def update_chat(self, line: ChatLine) -> None:
        """Show what has changed in one chat, where it stands."""
        self.list.update_chat(line)

    @Slot(str, object)
    def show_hits(self, text: str, hits: list[ShownHit]) -> None:
        """Show what was found, if it is still wanted."""
        if text == self.field.text():
            self.results.show_hits(hits)
            self._either.setCurrentWidget(self.results)

    def search(self) -> None:
        """Put the keyboard into the field for searching."""
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()

    @Slot(str)
    def _on_search_changed(self, text: str) -> None:
        if not text.strip():
            self._either.setCurrentWidget(self.list)
        self.search_changed.emit(text)

    @Slot()
    def _go_down(self) -> None:
        if self._either.currentWidget() is self.results:
            self.results.enter()
        else:
            self.list.setFocus(Qt.FocusReason.TabFocusReason)

    def select_chat(self, chat_id: int | None) -> None:
        """Show which chat is open."""
        self.list.select_chat(chat_id)

    @Slot(object)
    def recolour(self, colours: Colours) -> None:
        """Draw the icons anew in the theme's colours."""
        self.new_chat.setIcon(icon("new-chat", colours.text))
        self.more.setIcon(icon("more", colours.text))
        self.settings.setIcon(icon("settings", colours.muted))
        self.help.setIcon(icon("help", colours.muted))
        self.field.recolour(colours)
        self.list.recolour(colours)
        self.results.recolour(colours)

    def changeEvent(self, event: QEvent) -> None:
        """Larger text needs larger icons and more room."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._rescale()

    def _rescale(self) -> None:
        metrics = QFontMetrics(self.font())
        room = _CHARACTERS * metrics.averageCharWidth()
        self.setFixedWidth(min(max(_WIDTH, room), _GREATEST_WIDTH))
        for button in (self.new_chat, self.more, self.settings, self.help):
            button.setIconSize(icon_size(self.font()))

    def _chats_menu(self) -> QMenu:
        menu = QMenu(self)
        menu.setMinimumWidth(50 * UNIT)
        for words, signal in (
            (
                f"{self.tr('New temporary chat')}\t{BY_NAME['temporary_chat'].native}",
                self.temporary_requested,
            ),
            (self.tr("Import chats…"), self.import_requested),
            (self.tr("Export all chats…"), self.export_all_requested),
            (self.tr("Archive, trash and backups…"), self.stored_requested),
        ):
            menu.addAction(words).triggered.connect(lambda _=False, signal=signal: signal.emit())
        return menu

    def _help_menu(self) -> QMenu:
        menu = QMenu(self)
        menu.setMinimumWidth(50 * UNIT)
        keys = menu.addAction(f"{self.tr('Keys')}\t{BY_NAME['keys'].native}")
        keys.triggered.connect(lambda: self.keys_requested.emit())
        about = menu.addAction(self.tr("About Smoldesk"))
        about.triggered.connect(lambda: self.about_requested.emit())
        return menu

    def _arrange(self) -> None:
        foot = QHBoxLayout()
        foot.setSpacing(UNIT)
        foot.addWidget(self.settings, 1)
        foot.addWidget(self.help)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * UNIT, 2 * UNIT, 2 * UNIT, 2 * UNIT)
        column.setSpacing(2 * UNIT)
        head = QHBoxLayout()
        head.setSpacing(UNIT)
        head.addWidget(self.new_chat, 1)
        head.addWidget(self.more)
        column.addLayout(head)
        column.addWidget(self.field)
        column.addWidget(self._either, 1)
        column.addLayout(foot)
