"""Icons drawn from SVG in the colour of the theme, sharp at every scale and every size of text."""

from PySide6.QtCore import QByteArray, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QIcon, QIconEngine, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app.assets import asset

_DISABLED = 0.4  # opacity


def icon(name: str, colour: str) -> QIcon:
    """`assets/icons/<name>.svg` with its `currentColor` replaced by `colour`."""
    svg = asset(f"icons/{name}.svg").read_text(encoding="utf-8").replace("currentColor", colour)
    return QIcon(_SvgEngine(svg.encode()))


class _SvgEngine(QIconEngine):
    """Draws when it is asked to, in the size it is asked for: most icons are seen in one."""

    def __init__(self, svg: bytes) -> None:
        super().__init__()
        self._svg = svg
        self._renderer: QSvgRenderer | None = None

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, _state: QIcon.State) -> None:
        """Draw into that place."""
        if self._renderer is None:
            self._renderer = QSvgRenderer(QByteArray(self._svg))
        if mode == QIcon.Mode.Disabled:
            painter.setOpacity(_DISABLED)
        self._renderer.render(painter, QRectF(rect))

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        """A picture of that many pixels."""
        picture = QPixmap(size)
        picture.fill(Qt.GlobalColor.transparent)
        painter = QPainter(picture)
        self.paint(painter, picture.rect(), mode, state)
        painter.end()
        return picture

    def clone(self) -> QIconEngine:
        """Another one of the same."""
        return _SvgEngine(self._svg)


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
