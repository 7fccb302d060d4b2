"""Which colours and which size of text are in use."""

from PySide6.QtCore import QObject, Qt, Signal, Slot
from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import QApplication

from app.ui.colours import DARK, LIGHT, SCROLL_BAR, UNIT, Colours
from app.ui.style_sheet import style_sheet

__all__ = [
    "DARK",
    "LIGHT",
    "SCROLL_BAR",
    "UNIT",
    "Appearance",
    "Colours",
    "palette",
    "scaled_font",
    "zoom_beside",
]

COLUMN_WIDTH = 760  # px; the longest line of text that is still easy to read
LINE_HEIGHT = 145  # per cent
TEXT_SCALE = 1.1  # what is read and written, against the system's font for controls
ZOOMS = (50, 67, 75, 80, 90, 100, 110, 125, 150, 175, 200, 250, 300)  # per cent, as in browsers


class Appearance(QObject):
    """Which colours and which size of text are in use; follows the system if asked to.

    Sets its own palettes, because asking Qt for a dark scheme does nothing on a bare X server.
    """

    changed = Signal(object)  # Colours
    zoomed = Signal(float)  # 1.0 is the system's own size of text

    def __init__(self, app: QApplication) -> None:
        super().__init__(app)
        self._app = app
        self._choice = "system"
        self.colours = LIGHT
        self.zoom = 100  # per cent
        if app.font() != _system_font():
            app.setFont(_system_font())  # whatever size an earlier one left behind
        app.setStyle("Fusion")
        app.styleHints().colorSchemeChanged.connect(self._on_system_changed)

    @Slot(str)
    def choose(self, theme: str) -> None:
        """Use "light", "dark" or whatever the "system" uses, from now on."""
        self._choice = theme
        dark = theme == "dark"
        if theme == "system":
            dark = self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark
        self.colours = DARK if dark else LIGHT
        self._app.setPalette(palette(self.colours))
        self._app.setStyleSheet(style_sheet(self.colours))
        self.changed.emit(self.colours)

    @Slot(int)
    def set_zoom(self, percent: int) -> None:
        """Make all text larger or smaller than the system's, from 50 to 300 per cent.

        Fonts that widgets were given by `setFont` keep their size beside the other text. What else
        depends on a font (an icon's size, a least width) is set anew on `QEvent.Type.FontChange`.
        """
        percent = min(max(percent, ZOOMS[0]), ZOOMS[-1])
        ratio = percent / self.zoom
        self.zoom = percent
        usual = self._app.font()
        own = [
            (widget, scaled_font(widget.font(), ratio))
            for widget in self._app.allWidgets()
            if widget.testAttribute(Qt.WidgetAttribute.WA_SetFont)
            or not _same_size(widget.font(), usual)  # inside one that has its own
        ]
        self._app.setFont(scaled_font(_system_font(), percent / 100))
        # What a style sheet has polished keeps its old font until it is polished anew.
        self._app.setStyleSheet(style_sheet(self.colours))
        for widget, font in own:
            widget.setFont(font)
            # Qt remembers the first font that a widget was given, and goes back to it with every
            # new style sheet (seen in 6.11).
            widget.setProperty("_q_styleSheetWidgetFont", font)
        self.zoomed.emit(percent / 100)

    @Slot()
    def _on_system_changed(self) -> None:
        if self._choice == "system":
            self.choose("system")


def _same_size(one: QFont, other: QFont) -> bool:
    return one.pointSizeF() == other.pointSizeF() and one.pixelSize() == other.pixelSize()


def _system_font() -> QFont:
    return QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)


def zoom_beside(percent: int, step: int) -> int:
    """The next larger (`step` 1) or smaller (-1) size of text than `percent`."""
    if step > 0:
        return next((zoom for zoom in ZOOMS if zoom > percent), ZOOMS[-1])
    return next((zoom for zoom in reversed(ZOOMS) if zoom < percent), ZOOMS[0])


def scaled_font(base: QFont, factor: float, *, weight: QFont.Weight | None = None) -> QFont:
    """`base` made larger or smaller, whatever unit its size is kept in."""
    font = QFont(base)
    if base.pointSizeF() > 0:
        font.setPointSizeF(base.pointSizeF() * factor)
    else:
        font.setPixelSize(round(base.pixelSize() * factor))
    if weight is not None:
        font.setWeight(weight)
    return font


def palette(c: Colours) -> QPalette:
    """The palette for what the style sheet does not reach: menus, dialogs, tooltips."""
    roles = {
        QPalette.ColorRole.Window: c.ground,
        QPalette.ColorRole.WindowText: c.text,
        QPalette.ColorRole.Base: c.field,
        QPalette.ColorRole.AlternateBase: c.panel,
        QPalette.ColorRole.Text: c.text,
        QPalette.ColorRole.PlaceholderText: c.muted,
        QPalette.ColorRole.Mid: c.groove,
        QPalette.ColorRole.Button: c.panel,
        QPalette.ColorRole.ButtonText: c.text,
        QPalette.ColorRole.BrightText: c.danger,
        QPalette.ColorRole.ToolTipBase: c.panel,
        QPalette.ColorRole.ToolTipText: c.text,
        QPalette.ColorRole.Highlight: c.selection,
        QPalette.ColorRole.HighlightedText: c.text,
        QPalette.ColorRole.Link: c.accent,
        QPalette.ColorRole.LinkVisited: c.accent,
        QPalette.ColorRole.Accent: c.accent,
    }
    result = QPalette(QColor(c.panel))
    for role, colour in roles.items():
        result.setColor(role, QColor(colour))
    for role in (
        QPalette.ColorRole.WindowText,
        QPalette.ColorRole.Text,
        QPalette.ColorRole.ButtonText,
    ):
        result.setColor(QPalette.ColorGroup.Disabled, role, QColor(c.muted))
    return result
