"""Colours, spacing and the style made of them: the only file that names a colour or a distance."""

from dataclasses import dataclass

from PySide6.QtCore import QObject, Qt, Signal, Slot
from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import QApplication

UNIT = 4  # px; every distance is a multiple of it
COLUMN_WIDTH = 760  # px; the longest line of text that is still easy to read
LINE_HEIGHT = 145  # per cent
TEXT_SCALE = 1.1  # what is read and written, against the system's font for controls
ZOOMS = (50, 67, 75, 80, 90, 100, 110, 125, 150, 175, 200, 250, 300)  # per cent, as in browsers


@dataclass(frozen=True, slots=True)
class Colours:
    """Every colour by what it is for. Text on its ground has a contrast of at least 4.5 to 1."""

    ground: str
    panel: str  # header, side panel
    field: str  # where something is typed
    border: str
    text: str
    muted: str
    accent: str
    accent_hover: str
    on_accent: str
    question: str  # behind the user's own messages
    hover: str
    chosen: str  # the row of a list that is open
    groove: str
    selection: str
    danger: str
    danger_ground: str
    notice_ground: str


LIGHT = Colours(
    ground="#ffffff",
    panel="#f7f7f8",
    field="#ffffff",
    border="#e0e1e6",
    text="#1d1f24",
    muted="#62656e",
    accent="#4a55c8",
    accent_hover="#3d47b0",
    on_accent="#ffffff",
    question="#eef0fb",
    hover="#ebecef",
    chosen="#e0e4fa",
    groove="#d9dbe1",
    selection="#c5cbf5",
    danger="#a8281c",
    danger_ground="#fdf0ee",
    notice_ground="#f3f4fc",
)

DARK = Colours(
    ground="#18191c",
    panel="#1e1f23",
    field="#222327",
    border="#34363d",
    text="#e7e8ec",
    muted="#a0a4ae",
    accent="#8f9bff",
    accent_hover="#a7b0ff",
    on_accent="#14151c",
    question="#2a2d42",
    hover="#2b2d33",
    chosen="#34385a",
    groove="#3d4048",
    selection="#434c8f",
    danger="#ff9a8e",
    danger_ground="#37211f",
    notice_ground="#25273a",
)


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


def style_sheet(c: Colours) -> str:
    """The look of every widget. Widgets are told apart by object names and by `role`."""
    u = UNIT
    return f"""
#header {{ background: {c.panel}; border-bottom: 1px solid {c.border}; }}
#sidePanel {{ background: {c.panel}; border-left: 1px solid {c.border}; }}
#transcriptPage, #panelPage, #panelScroll {{ background: transparent; border: none; }}
#transcript {{ background: transparent; border: 1px solid transparent; }}
#transcript[tabbed="true"] {{ border-color: {c.accent}; }}
QLabel[role="muted"] {{ color: {c.muted}; }}
QLabel[role="danger"] {{ color: {c.danger}; }}

#question {{ background: {c.question}; border-radius: {4 * u}px; }}
#messageText {{ background: transparent; border: none;
    selection-background-color: {c.selection}; selection-color: {c.text}; }}
#failure {{ background: {c.danger_ground}; border-radius: {2 * u}px; }}
#notice {{ background: {c.notice_ground}; border-bottom: 1px solid {c.border}; }}

#composer {{ background: {c.field}; border: 1px solid {c.border}; border-radius: {4 * u}px; }}
#composer[focused="true"] {{ border-color: {c.accent}; }}
#composerText {{ background: transparent; border: none; color: {c.text};
    selection-background-color: {c.selection}; selection-color: {c.text}; }}

QPushButton {{ outline: none; background: {c.field}; color: {c.text};
    border: 1px solid {c.border};
    border-radius: {2 * u}px; padding: {u + 2}px {3 * u}px; }}
QPushButton:hover {{ background: {c.hover}; }}
QPushButton:focus, QToolButton:focus {{ border: 1px solid {c.accent}; }}
QPushButton:disabled {{ color: {c.muted}; }}
QPushButton[role="primary"] {{ background: {c.accent}; color: {c.on_accent};
    border: 1px solid {c.accent}; font-weight: 600; }}
QPushButton[role="primary"]:hover {{ background: {c.accent_hover}; }}
QPushButton[role="primary"]:focus {{ border: 2px solid {c.text};
    padding: {u + 1}px {3 * u - 1}px; }}
QPushButton[role="primary"]:disabled {{ background: {c.hover}; color: {c.muted};
    border-color: {c.hover}; }}
QPushButton[role="example"] {{ text-align: left; padding: {3 * u}px {4 * u}px;
    border-radius: {3 * u}px; background: transparent; }}
QPushButton[role="example"]:hover {{ background: {c.hover}; }}

QPushButton[role="choice"] {{ background: transparent; padding: {u + 1}px {2 * u}px; }}
QPushButton[role="choice"]:hover {{ background: {c.hover}; }}
QPushButton[role="choice"]:checked {{ background: {c.field}; border-color: {c.accent};
    color: {c.accent}; font-weight: 600; }}
QPushButton[role="choice"]:focus {{ border: 2px solid {c.accent};
    padding: {u}px {2 * u - 1}px; }}

QToolButton {{ background: transparent; color: {c.text}; border: 1px solid transparent;
    border-radius: {2 * u}px; padding: {u + 1}px {2 * u}px; }}
QToolButton:hover {{ background: {c.hover}; }}
QToolButton:checked {{ background: {c.hover}; }}
QToolButton#deviceChip {{ color: {c.muted}; border: 1px solid {c.border};
    border-radius: {2 * u}px; padding: {u // 2}px {2 * u}px; }}
QToolButton#deviceChip:focus {{ border-color: {c.accent}; }}
QToolButton[role="action"] {{ padding: {u}px; border-radius: {u + 2}px; }}
QToolButton#jumpToLatest {{ background: {c.panel}; border: 1px solid {c.groove};
    border-radius: {3 * u}px; padding: {u}px {3 * u}px; }}
QToolButton#jumpToLatest:hover {{ background: {c.hover}; }}
QToolButton#jumpToLatest:focus {{ border-color: {c.accent}; }}

QDoubleSpinBox {{ background: {c.field}; color: {c.text}; border: 1px solid {c.border};
    border-radius: {u + 2}px; padding: {u // 2 + 1}px 0;
    selection-background-color: {c.selection}; selection-color: {c.text}; }}
QDoubleSpinBox:focus {{ border-color: {c.accent}; }}
QDoubleSpinBox::up-button, QDoubleSpinBox::down-button {{ width: 0; height: 0; border: none; }}

QSlider {{ min-height: {6 * u}px; }}
QSlider::groove:horizontal {{ height: {u}px; border-radius: {u // 2}px; background: {c.groove}; }}
QSlider::sub-page:horizontal {{ height: {u}px; border-radius: {u // 2}px; background: {c.accent}; }}
QSlider::handle:horizontal {{ width: {4 * u - 2}px; height: {4 * u - 2}px; margin: -{u + 2}px 0;
    border-radius: {2 * u}px; background: {c.field}; border: 1px solid {c.accent}; }}
QSlider::handle:horizontal:hover {{ background: {c.hover}; }}
QSlider::handle:horizontal:focus {{ border: 3px solid {c.accent};
    width: {3 * u - 2}px; height: {3 * u - 2}px; }}

QProgressBar {{ background: {c.groove}; border: none; border-radius: {u // 2}px;
    max-height: {u}px; min-height: {u}px; }}
QProgressBar::chunk {{ background: {c.accent}; border-radius: {u // 2}px; }}

QProgressBar[role="danger"]::chunk {{ background: {c.danger}; }}

QScrollBar:vertical {{ background: transparent; width: {3 * u}px; margin: 0; }}
QScrollBar::handle:vertical {{ background: {c.groove}; border-radius: {u}px; min-height: {8 * u}px;
    margin: {u // 2}px; }}
QScrollBar::handle:vertical:hover {{ background: {c.muted}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ height: 0; width: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}

/* sidebar, header, dialogs */
#sidebar {{ background: {c.panel}; border: none; border-right: 1px solid {c.border}; }}
#chatList {{ background: transparent; border: none; outline: none; }}
#renameField {{ background: {c.field}; color: {c.text}; border: 1px solid {c.accent};
    border-radius: {2 * u}px; padding: 0 {3 * u - 3}px;
    selection-background-color: {c.selection}; selection-color: {c.text}; }}
#newChat {{ text-align: left; font-weight: 600; }}
#sidebar QToolButton, #header QToolButton {{ padding: {u + 1}px {u + 2}px; }}
#header QToolButton:checked {{ background: transparent; }}
#header QToolButton:hover {{ background: {c.hover}; }}
#header QToolButton#modelButton {{ font-weight: 600; padding-right: {6 * u}px; }}
#header QToolButton#deviceChip {{ padding: {u // 2}px {2 * u}px; }}
QToolButton::menu-indicator {{ image: none; width: 0; }}
QMenu {{ background: {c.field}; color: {c.text}; border: 1px solid {c.border}; padding: {u}px; }}
QMenu::item {{ padding: {u + 2}px {6 * u}px {u + 2}px {3 * u}px; border-radius: {u}px; }}
QMenu::item:selected {{ background: {c.hover}; }}
QMenu::item:disabled {{ color: {c.muted}; }}
QMenu::separator {{ height: 1px; background: {c.border}; margin: {u}px {2 * u}px; }}
QDialog {{ background: {c.ground}; }}
QScrollBar:horizontal {{ background: transparent; height: {3 * u}px; margin: 0; }}
QScrollBar::handle:horizontal {{ background: {c.groove}; border-radius: {u}px;
    min-width: {8 * u}px; margin: {u // 2}px; }}
QScrollBar::handle:horizontal:hover {{ background: {c.muted}; }}
#dialogScroll, #dialogPage {{ background: transparent; border: none; }}
#dialogFoot {{ border: none; border-top: 1px solid {c.border}; }}
#card {{ background: {c.panel}; border: 1px solid {c.border}; border-radius: {2 * u}px; }}
#cardLine {{ background: {c.border}; border: none; max-height: 1px; min-height: 1px; }}
#card QLabel {{ background: transparent; }}
#ownPrompt {{ background: {c.field}; color: {c.text}; border: 1px solid {c.border};
    border-radius: {2 * u}px; padding: {u}px;
    selection-background-color: {c.selection}; selection-color: {c.text}; }}
#ownPrompt:focus {{ border-color: {c.accent}; }}
QLabel[role="title"] {{ font-weight: 600; }}
QLabel[role="keycap"] {{ background: {c.field}; color: {c.text}; border: 1px solid {c.groove};
    border-bottom: 2px solid {c.groove}; border-radius: {u}px; padding: 1px {u + 2}px; }}

/* side panel */
#sidePanel QTabBar {{ background: transparent; border: none;
    border-bottom: 1px solid {c.border}; }}
#sidePanel QTabBar::tab {{ background: transparent; color: {c.muted}; border: none;
    border-bottom: 2px solid transparent; padding: {2 * u}px {u}px {2 * u - 2}px {u}px;
    margin: {u}px {2 * u}px 0 {3 * u}px; }}
#sidePanel QTabBar::tab:hover {{ color: {c.text}; }}
#sidePanel QTabBar::tab:selected {{ color: {c.text}; border-bottom-color: {c.accent}; }}
#sidePanel QTabBar::tab:selected:focus {{ color: {c.accent}; }}
#sidePanel QSlider {{ min-height: {5 * u}px; }}
#sidePanel QSlider::sub-page:horizontal:disabled {{ background: {c.groove}; }}
#rule {{ background: {c.border}; border: none; }}
#sidePanel QComboBox {{ background: {c.field}; color: {c.text}; border: 1px solid {c.border};
    border-radius: {2 * u}px; padding: {u + 2}px {3 * u}px; }}
#sidePanel QComboBox:hover {{ background: {c.hover}; }}
#sidePanel QComboBox:focus {{ border-color: {c.accent}; }}
#sidePanel QComboBox::drop-down {{ border: none; width: {6 * u}px; }}
#sidePanel QComboBox::down-arrow {{ image: none; }}
#sidePanel QComboBox QAbstractItemView {{ background: {c.field}; color: {c.text};
    border: 1px solid {c.border}; outline: none; padding: {u}px;
    selection-background-color: {c.hover}; selection-color: {c.text}; }}
#sidePanel QComboBox QAbstractItemView::item {{ padding: {u + 2}px {2 * u}px;
    border-radius: {u}px; }}
#sidePanel QComboBox QAbstractItemView::item:selected {{ background: {c.hover};
    color: {c.text}; }}
#sidePanel QLineEdit {{ background: {c.field}; color: {c.text}; border: 1px solid {c.border};
    border-radius: {u + 2}px; padding: {u}px {2 * u}px;
    selection-background-color: {c.selection}; selection-color: {c.text}; }}
#sidePanel QLineEdit:focus {{ border-color: {c.accent}; }}
#sidePanel QDoubleSpinBox QLineEdit {{ border: none; padding: 0; background: transparent; }}
#panelField {{ background: {c.field}; color: {c.text}; border: 1px solid {c.border};
    border-radius: {2 * u}px; padding: {u}px;
    selection-background-color: {c.selection}; selection-color: {c.text}; }}
#panelField:focus {{ border-color: {c.accent}; }}
#sidePanel QToolButton#dotsButton {{ border: 1px solid {c.border}; }}
#sidePanel QToolButton#dotsButton:focus {{ border-color: {c.accent}; }}
#sidePanel QToolButton#disclosure {{ text-align: left; font-weight: 600; background: transparent;
    padding: {u}px 0; }}
#sidePanel QToolButton#disclosure:hover {{ color: {c.accent}; }}

QToolTip {{ background: {c.panel}; color: {c.text}; border: 1px solid {c.border};
    padding: {u + 2}px; }}
"""
