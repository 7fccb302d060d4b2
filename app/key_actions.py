"""What the window's keys do that is neither the window's own nor a view's."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Slot
from PySide6.QtGui import QGuiApplication

from app.chat_controller import ChatController
from app.chat_list_controller import ChatListController
from app.settings_controller import SettingsController
from app.ui.main_window import MainWindow


class KeyActions(QObject):
    """Knows the keys of `app.ui.keys` by name."""

    def __init__(
        self,
        window: MainWindow,
        chat: ChatController,
        chats: ChatListController,
        preferences: SettingsController,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._window, self._chat, self._chats = window, chat, chats
        self._preferences = preferences

    @Slot(str)
    def act(self, name: str) -> None:
        """Do what the key of that name does; nothing, where there is nothing to do it to."""
        chat, chats = self._chat, self._chats
        window, preferences = self._window, self._preferences
        last = chat.last_reply
        actions: dict[str, Callable[[], object]] = {
            "new_chat": window.header.new_chat.click,
            "temporary_chat": chats.new_temporary_chat,
            "settings": lambda: preferences.show_settings(window),
            "keys": lambda: preferences.show_keys(window),
            "help": lambda: preferences.show_keys(window),
            "previous_chat": lambda: chats.open_neighbour(-1),
            "next_chat": lambda: chats.open_neighbour(1),
            "zoom_in": lambda: preferences.zoom_by(1),
            "zoom_out": lambda: preferences.zoom_by(-1),
            "zoom_reset": lambda: preferences.zoom_by(0),
        }
        path = chat.conversation.path()
        if path:
            actions["regenerate"] = lambda: chat.regenerate(path[-1].id)
        if last is not None:
            actions |= {
                "continue_reply": lambda: chat.go_on(last.id),
                "previous_version": lambda: chat.show_version(last.id, -1),
                "next_version": lambda: chat.show_version(last.id, 1),
                "copy_reply": lambda: QGuiApplication.clipboard().setText(last.content),
            }
        actions.get(name, lambda: None)()
        if name.endswith("_chat"):
            window.composer.setFocus()
