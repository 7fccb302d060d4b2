"""What this program is, its version, and whose work it is built on."""

import platform
from importlib.metadata import PackageNotFoundError, version

from PySide6.QtCore import Qt, Slot, qVersion
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QPushButton, QToolTip, QWidget

from app.ui.dialogs.dialog import Card, Dialog, plain_label
from app.ui.icons import app_icon
from app.ui.states import ModelInfo
from app.ui.theme import UNIT

_WIDTH = 76  # characters

# What it is built on: name, package whose version is installed (if any), licence.
_PARTS = (
    ("SmolLM2", "", "Apache-2.0"),
    ("PyTorch", "torch", "BSD-3-Clause"),
    ("Qt, PySide6", "PySide6-Essentials", "LGPL-3.0"),
    ("NumPy", "numpy", "BSD-3-Clause"),
    ("tokenizers", "tokenizers", "Apache-2.0"),
    ("safetensors", "safetensors", "Apache-2.0"),
    ("Jinja", "jinja2", "BSD-3-Clause"),
    ("platformdirs", "platformdirs", "MIT"),
    ("Python", "", "PSF-2.0"),
)


class AboutDialog(Dialog):
    """Says so; the versions can be copied for a report."""

    def __init__(self, model: ModelInfo | None, parent: QWidget | None = None) -> None:
        super().__init__(self.tr("About Smoldesk"), parent)
        self._model = model
        picture = QLabel()
        picture.setPixmap(app_icon(16 * UNIT, max(2.0, self.devicePixelRatioF())))
        name = self.heading("Smoldesk", factor=1.6)
        release = self.tr("Version %1").replace("%1", _version("smoldesk"))
        promise = self.tr(
            "A private chat with a small model on your own computer. Nothing you write leaves it."
        )
        licence = self.tr("Free software under the Apache License 2.0.")
        words = (plain_label(release, muted=True), plain_label(promise), plain_label(licence))
        for label in (picture, name, *words):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            self.column.addWidget(label)
        card = Card(close=True)
        for part, package, terms in _PARTS:
            title = f"{part} {_version(package)}" if package else part
            card.add(title, _licence(terms))
        self.add_part(self.tr("Built on"), card)
        self.column.addStretch(1)
        self.copy_button = QPushButton(self.tr("Copy version details"))
        self.copy_button.setAutoDefault(False)
        self.copy_button.clicked.connect(self._copy)
        self.foot.insertWidget(0, self.copy_button)
        self.fit(_WIDTH)

    def details(self) -> str:
        """Versions of all that takes part, for a report."""
        lines = [
            f"Smoldesk {_version('smoldesk')}",
            f"Python {platform.python_version()}, {platform.platform()}",
            f"Qt {qVersion()}, {QGuiApplication.platformName()}",
        ]
        lines += [f"{name} {_version(package)}" for name, package, _ in _PARTS if package]
        if self._model is not None:
            model = self._model
            lines.append(f"{model.name}, {model.device_label}, {model.precision}")
        return "\n".join(lines)

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.details())
        place = self.copy_button.rect().bottomLeft()
        QToolTip.showText(self.copy_button.mapToGlobal(place), self.tr("Copied"), self.copy_button)


def _licence(terms: str) -> QLabel:
    label = QLabel()
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setText(terms)
    label.setProperty("role", "muted")
    return label


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(unknown)"
