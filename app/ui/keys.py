"""Every key and what it does: shortcuts, tooltips and the list of keys are made of this."""

from dataclasses import dataclass

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication, QRectF, Qt
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractButton, QApplication

_CHATS = QT_TRANSLATE_NOOP("keys", "Chats")
_WRITING = QT_TRANSLATE_NOOP("keys", "Writing")
_REPLIES = QT_TRANSLATE_NOOP("keys", "Replies")
_WINDOW = QT_TRANSLATE_NOOP("keys", "Window")


@dataclass(frozen=True, slots=True)
class Key:
    """One thing to do by key. `sequence` is in Qt's portable form (Ctrl is Cmd on macOS).

    `words` and `section` are English; `text` and `section_title` say them in the user's language.
    """

    name: str
    sequence: str
    words: str
    section: str
    listed_only: bool = False  # the focused control handles it: no shortcut of the window
    others: tuple[str, ...] = ()  # the same where a keyboard is made otherwise; not listed

    @property
    def text(self) -> str:
        """What it does, in the user's language."""
        return QCoreApplication.translate("keys", self.words)

    @property
    def section_title(self) -> str:
        """Where it belongs, in the user's language."""
        return QCoreApplication.translate("keys", self.section)

    @property
    def native(self) -> str:
        """The keys as this system writes them."""
        text = QKeySequence(self.sequence).toString(QKeySequence.SequenceFormat.NativeText)
        return text.replace("Return", QCoreApplication.translate("keys", "Enter"))

    @property
    def caps(self) -> tuple[str, ...]:
        """The same, key by key. macOS writes its signs without anything between them."""
        parts = self.native.split("+")
        if len(parts) > 1 and parts[-2:] == ["", ""]:  # the last key is the plus itself
            parts[-2:] = ["+"]
        return tuple(parts)


KEYS = (
    Key("new_chat", "Ctrl+N", QT_TRANSLATE_NOOP("keys", "New chat"), _CHATS),
    Key(
        "temporary_chat",
        "Ctrl+Shift+N",
        QT_TRANSLATE_NOOP("keys", "New temporary chat"),
        _CHATS,
    ),
    Key(
        "search",
        "Ctrl+K",
        QT_TRANSLATE_NOOP("keys", "Search in all chats"),
        _CHATS,
        others=("Ctrl+Shift+F",),
    ),
    Key("find", "Ctrl+F", QT_TRANSLATE_NOOP("keys", "Find in this chat"), _CHATS),
    Key("find_next", "F3", QT_TRANSLATE_NOOP("keys", "Next place found"), _CHATS),
    Key("find_previous", "Shift+F3", QT_TRANSLATE_NOOP("keys", "Previous place found"), _CHATS),
    Key("previous_chat", "Ctrl+Up", QT_TRANSLATE_NOOP("keys", "Previous chat"), _CHATS),
    Key("next_chat", "Ctrl+Down", QT_TRANSLATE_NOOP("keys", "Next chat"), _CHATS),
    Key("rename_chat", "F2", QT_TRANSLATE_NOOP("keys", "Rename the chat"), _CHATS),
    Key("delete_chat", "Del", QT_TRANSLATE_NOOP("keys", "Delete, in the list"), _CHATS, True),
    Key("send", "Return", QT_TRANSLATE_NOOP("keys", "Send the message"), _WRITING, True),
    Key("new_line", "Shift+Return", QT_TRANSLATE_NOOP("keys", "New line"), _WRITING, True),
    Key(
        "edit_last",
        "Up",
        QT_TRANSLATE_NOOP("keys", "Edit the last message, in an empty field"),
        _WRITING,
        True,
    ),
    Key("focus_message", "Ctrl+L", QT_TRANSLATE_NOOP("keys", "Go to the message field"), _WRITING),
    Key("stop", "Esc", QT_TRANSLATE_NOOP("keys", "Stop the reply"), _REPLIES),
    Key("regenerate", "Ctrl+R", QT_TRANSLATE_NOOP("keys", "Write the reply anew"), _REPLIES),
    Key(
        "continue_reply",
        "Ctrl+Return",
        QT_TRANSLATE_NOOP("keys", "Go on writing"),
        _REPLIES,
        others=("Ctrl+Enter",),  # the one of the number pad
    ),
    Key("previous_version", "Alt+Left", QT_TRANSLATE_NOOP("keys", "Previous version"), _REPLIES),
    Key("next_version", "Alt+Right", QT_TRANSLATE_NOOP("keys", "Next version"), _REPLIES),
    Key("copy_reply", "Ctrl+Shift+C", QT_TRANSLATE_NOOP("keys", "Copy the last reply"), _REPLIES),
    Key("sidebar", "Ctrl+B", QT_TRANSLATE_NOOP("keys", "List of chats"), _WINDOW),
    Key("panel", "Ctrl+.", QT_TRANSLATE_NOOP("keys", "Side panel"), _WINDOW),
    Key(
        "zoom_in",
        "Ctrl+=",
        QT_TRANSLATE_NOOP("keys", "Larger text"),
        _WINDOW,
        others=("Ctrl++",),  # a key of its own on many keyboards
    ),
    Key("zoom_out", "Ctrl+-", QT_TRANSLATE_NOOP("keys", "Smaller text"), _WINDOW),
    Key("zoom_reset", "Ctrl+0", QT_TRANSLATE_NOOP("keys", "Usual size of text"), _WINDOW),
    Key("menu", "Shift+F10", QT_TRANSLATE_NOOP("keys", "Menu of what has the focus"), _WINDOW),
    Key("settings", "Ctrl+,", QT_TRANSLATE_NOOP("keys", "Settings"), _WINDOW),
    Key("keys", "Ctrl+/", QT_TRANSLATE_NOOP("keys", "Keys"), _WINDOW),
    Key("help", "F1", QT_TRANSLATE_NOOP("keys", "Help (this list)"), _WINDOW),
    Key("quit", "Ctrl+Q", QT_TRANSLATE_NOOP("keys", "Quit"), _WINDOW),
)

BY_NAME = {key.name: key for key in KEYS}


def open_menu_of_focus() -> None:
    """The same as the menu key, which few laptops have; Qt knows no other key for it on X11."""
    focus = QApplication.focusWidget()
    if focus is not None and QApplication.activePopupWidget() is None:
        cursor = focus.inputMethodQuery(Qt.InputMethodQuery.ImCursorRectangle)
        place = QRectF(cursor).center().toPoint()  # a QRect or a QRectF
        reason = QContextMenuEvent.Reason.Keyboard
        QApplication.sendEvent(focus, QContextMenuEvent(reason, place, focus.mapToGlobal(place)))


def pressed_by_enter(event: QKeyEvent) -> QAbstractButton | None:
    """The button in focus, if Enter is to press it, which Qt leaves to the space bar."""
    enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
    plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    button = QApplication.focusWidget()
    pressed = enter and plain and not event.isAutoRepeat() and isinstance(button, QAbstractButton)
    return button if pressed else None


def with_key(words: str, name: str) -> str:
    """`words` followed by the key of that name, for a tooltip."""
    return f"{words} ({BY_NAME[name].native})"
