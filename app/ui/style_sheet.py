"""The look of every widget, made of the theme's colours."""

from app.ui.colours import SCROLL_BAR, UNIT, Colours


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

#noticeScroll {{ background: transparent; border: none; }}
#noticeScroll:focus {{ border: 1px solid {c.accent}; }}

#composer {{ background: {c.field}; border: 1px solid {c.groove}; border-radius: {4 * u}px; }}
#composer[focused="true"] {{ border-color: {c.accent}; }}
#composerText {{ background: transparent; border: none; color: {c.text};
    placeholder-text-color: {c.muted};
    selection-background-color: {c.selection}; selection-color: {c.text}; }}

QPushButton {{ outline: none; background: {c.field}; color: {c.text};
    border: 1px solid {c.border};
    border-radius: {2 * u}px; padding: {u + 2}px {3 * u}px; }}
QPushButton:hover {{ background: {c.hover}; }}
QPushButton:pressed, QToolButton:pressed {{ background: {c.pressed}; }}
QPushButton:focus, QToolButton:focus {{ border: 1px solid {c.accent}; }}
QPushButton:disabled {{ color: {c.muted}; }}
QPushButton[role="primary"] {{ background: {c.accent}; color: {c.on_accent};
    border: 1px solid {c.accent}; font-weight: 600; }}
QPushButton[role="primary"]:hover, QPushButton[role="primary"]:pressed {{
    background: {c.accent_hover}; }}
QPushButton[role="primary"]:focus {{ border: 2px solid {c.text};
    padding: {u + 1}px {3 * u - 1}px; }}
QPushButton[role="primary"]:disabled {{ background: {c.hover}; color: {c.muted};
    border-color: {c.hover}; }}
QPushButton[role="example"] {{ text-align: left; padding: {3 * u}px {4 * u}px;
    border-radius: {3 * u}px; background: transparent; }}
QPushButton[role="example"]:hover {{ background: {c.question}; border-color: {c.groove}; }}
QPushButton[role="example"]:pressed {{ background: {c.chosen}; }}
QPushButton[role="example"]:focus {{ border-color: {c.accent}; }}

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
QToolButton[role="action"] {{ padding: {u - 1}px; border-radius: {u + 2}px; }}
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

QScrollBar:vertical {{ background: transparent; width: {SCROLL_BAR}px; margin: 0; }}
QScrollBar::handle:vertical {{ background: {c.groove}; border-radius: {u}px; min-height: {8 * u}px;
    margin: {u // 2}px; }}
QScrollBar::handle:vertical:hover {{ background: {c.muted}; }}
QScrollBar::handle:vertical:disabled {{ background: transparent; }}
QScrollBar::add-line, QScrollBar::sub-line {{ height: 0; width: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}

/* sidebar, header, dialogs */
#sidebar {{ background: {c.panel}; border: none; border-right: 1px solid {c.border}; }}
#chatList {{ background: transparent; border: none; outline: none; }}
#renameField {{ background: {c.field}; color: {c.text}; border: 1px solid {c.accent};
    border-radius: {2 * u}px; padding: 0 {3 * u - 3}px;
    selection-background-color: {c.selection}; selection-color: {c.text}; }}
#temporary {{ background: {c.notice_ground}; color: {c.text}; padding: {u}px {4 * u}px;
    border-bottom: 1px solid {c.border}; }}
#findBar {{ background: {c.panel}; border-bottom: 1px solid {c.border}; }}
#searchField, #findBar QLineEdit {{ background: {c.field}; color: {c.text};
    border: 1px solid {c.border}; border-radius: {2 * u}px; padding: {u}px {u}px;
    placeholder-text-color: {c.muted};
    selection-background-color: {c.selection}; selection-color: {c.text}; }}
#searchField:focus, #findBar QLineEdit:focus {{ border-color: {c.accent}; }}
#newChat {{ text-align: left; font-weight: 600; }}
#sidebar QToolButton, #header QToolButton {{ padding: {u + 1}px {u + 2}px; }}
#searchField QToolButton {{ padding: 0; border: none; background: transparent; }}
QFileDialog QToolButton {{ padding: 0; }}
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
QScrollBar:horizontal {{ background: transparent; height: {SCROLL_BAR}px; margin: 0; }}
QScrollBar::handle:horizontal {{ background: {c.groove}; border-radius: {u}px;
    min-width: {8 * u}px; margin: {u // 2}px; }}
QScrollBar::handle:horizontal:hover {{ background: {c.muted}; }}
#dialogScroll, #dialogPage {{ background: transparent; border: none; }}
#dialogFoot {{ border: none; border-top: 1px solid {c.border}; }}
#card {{ background: {c.panel}; border: 1px solid {c.border}; border-radius: {2 * u}px; }}
#storedList {{ background: {c.field}; color: {c.text}; border: 1px solid {c.border};
    border-radius: {2 * u}px; outline: none; padding: 1px; }}
#storedList:focus {{ border-color: {c.accent}; }}
#storedList::item {{ padding: {u + 1}px {2 * u}px; border-radius: {u}px; }}
#storedList::item:hover {{ background: {c.hover}; }}
#storedList::item:selected {{ background: {c.chosen}; color: {c.text}; }}
#cardLine {{ background: {c.border}; border: none; max-height: 1px; min-height: 1px; }}
#card QLabel {{ background: transparent; }}
#ownPrompt {{ background: {c.field}; color: {c.text}; border: 1px solid {c.border};
    border-radius: {2 * u}px; padding: {u}px;
    placeholder-text-color: {c.muted};
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
#sidePanel QTabBar::tab:selected:focus {{ color: {c.accent}; background: {c.hover}; }}
#sidePanel QSlider[role="signed"]::sub-page:horizontal {{ background: {c.groove}; }}
#sidePanel QSlider {{ min-height: {5 * u}px; }}
#sidePanel QSlider::sub-page:horizontal:disabled {{ background: {c.groove}; }}
#rule {{ background: {c.border}; border: none; }}
#sidePanel QComboBox {{ background: {c.field}; color: {c.text}; border: 1px solid {c.border};
    border-radius: {2 * u}px; padding: {u + 2}px {3 * u}px; }}
#sidePanel QComboBox {{ combobox-popup: 0; }}
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
    placeholder-text-color: {c.muted};
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
