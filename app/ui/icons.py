"""Icons drawn from SVG in the colour of the theme, sharp at every scale and every size of text."""

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app.assets import asset

_SIZES = (20, 40, 80, 160)  # px; Qt scales down smoothly from the next larger one


def icon(name: str, colour: str) -> QIcon:
    """`assets/icons/<name>.svg` with its `currentColor` replaced by `colour`.

    Pictures, not a QIconEngine that would draw when asked: PySide 6.11 takes the engine of an icon
    apart twice, and the program ends in the garbage collector.
    """
    svg = asset(f"icons/{name}.svg").read_text(encoding="utf-8").replace("currentColor", colour)
    renderer = QSvgRenderer(QByteArray(svg.encode()))
    result = QIcon()
    for size in _SIZES:
        # Without a scale of their own: Qt prefers one of the screen's scale to one large enough.
        result.addPixmap(_drawn(renderer, size))
    return result


def icon_size(font: QFont) -> QSize:
    """How large an icon beside text in that font is."""
    side = round(QFontMetrics(font).height() * 1.25 / 2) * 2
    return QSize(side, side)


def app_icon(size: int, scale: float) -> QPixmap:
    """The program's own icon, `size` px wide on a screen of that scale."""
    pixmap = _drawn(QSvgRenderer(str(asset("icons/smoldesk.svg"))), round(size * scale))
    pixmap.setDevicePixelRatio(scale)
    return pixmap


def window_icon() -> QIcon:
    """The program's own icon in the sizes that windows, docks and switchers ask for."""
    result = QIcon()
    for size in (16, 24, 32, 48, 64, 128):
        result.addPixmap(app_icon(size, 1.0))
    return result


def _drawn(renderer: QSvgRenderer, pixels: int) -> QPixmap:
    pixmap = QPixmap(pixels, pixels)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    renderer.render(painter, QRectF(0, 0, pixels, pixels))
    painter.end()
    return pixmap
