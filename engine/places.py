"""Where things live on the user's computer.

`SMOLDESK_HOME` moves everything into one folder, for portable use and for tests.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs

APP_NAME = "smoldesk"


def data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Models and, later, conversations: what must never be swept away by a cache cleaner."""
    return _place(environ, "data", platformdirs.user_data_path(APP_NAME, appauthor=False))


def config_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Settings."""
    return _place(environ, "config", platformdirs.user_config_path(APP_NAME, appauthor=False))


def log_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """The log file."""
    return _place(environ, "log", platformdirs.user_log_path(APP_NAME, appauthor=False))


def models_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """One folder for each installed model."""
    return data_dir(environ) / "models"


def _place(environ: Mapping[str, str], name: str, default: Path) -> Path:
    home = environ.get("SMOLDESK_HOME")
    return Path(home).expanduser().absolute() / name if home else default
