"""Where the keyboard is among the messages: in reading order, in sight, and seen."""

from PySide6.QtCore import QObject, QPoint, QRect, Slot
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QWidget
from shiboken6 import isValid

from app.ui.controls.scroll_to_focus import moved_by_key
from app.ui.theme import UNIT
from app.ui.transcript.message_view import MessageView

_MARGIN = 2 * UNIT


class MessageFocus(QObject):
    """Follows the focus while the keyboard moves it; a click shows where it is by itself."""

    def __init__(self, area: QAbstractScrollArea) -> None:
        super().__init__(area)
        self._area = area
        self._ringed: QWidget | None = None
        self._anywhere = False  # whether the keyboard was in the window before
        QApplication.instance().focusChanged.connect(self._on_focus_changed)

    def set_order(self, views: list[MessageView], *, after: QWidget) -> None:
        """Let Tab and screen readers go through `views` as they are read, whenever made."""
        for view in views:
            view.raise_()  # a screen reader goes by the order of children
            for stop in view.tab_stops():
                QWidget.setTabOrder(after, stop)
                after = stop

    def leave(self, widget: QWidget) -> None:
        """Before `widget` goes: the keyboard in it would go on to whatever Qt finds next."""
        focus = QApplication.focusWidget()
        if focus is not None and (widget is focus or widget.isAncestorOf(focus)):
            self._area.setFocus()

    def held(self, views: dict[int, MessageView]) -> tuple[int, str] | None:
        """The id of the message that the keyboard is in, and the button it is on, if any."""
        focus = QApplication.focusWidget()
        for message_id, view in views.items():
            if focus is not None and view.isAncestorOf(focus):
                return message_id, view.actions.holding(focus)
        return None

    def hold(self, view: MessageView | None, button: str) -> None:
        """Put the keyboard on that button of a message, or else in its text."""
        if view is not None and not view.actions.focus(button) and view.text.isVisible():
            view.text.setFocus()

    def paint(self) -> None:
        """Draw a ring around the message that the keyboard is in."""
        view = self._ringed_view()
        if view is None:
            return
        painter = QPainter(self._area.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self._area.palette().accent().color(), 1.5))
        radius = view.ring_radius
        painter.drawRoundedRect(view.ring().translated(view.pos()), radius, radius)

    @Slot()
    def _on_focus_changed(self) -> None:
        # Not the widgets that the signal brings: one of them may be half-way through its end, and
        # a Python object made for it would point at nothing.
        if not isValid(self._area):
            return
        new = QApplication.focusWidget()
        came_forward, self._anywhere = not self._anywhere, new is not None
        viewport = self._area.viewport()
        inside = new is not None and viewport.isAncestorOf(new)
        ringed = new if inside and moved_by_key() else None
        if ringed is not self._ringed:
            self._ringed = ringed
            viewport.update()
        if ringed is not None and not came_forward:
            self._bring_into_sight(ringed)

    def _ringed_view(self) -> MessageView | None:
        view = self._ringed.parentWidget() if self._ringed is not None else None
        while view is not None and not isinstance(view, MessageView):
            view = view.parentWidget()
        return view if view is not None and view.text is self._ringed else None

    def _bring_into_sight(self, widget: QWidget) -> None:
        """Scroll no further than needed; of what is taller than the view, fill the view."""
        viewport, bar = self._area.viewport(), self._area.verticalScrollBar()
        place = QRect(widget.mapTo(viewport, QPoint()), widget.size())
        above, below = place.top() - _MARGIN, place.bottom() + _MARGIN - viewport.height()
        if above > 0 and below > 0:
            bar.setValue(bar.value() + min(above, below))
        elif above < 0 and below < 0:
            bar.setValue(bar.value() + max(above, below))
