"""What every test needs: a throw-away home, and the real model where a test asks for it."""

import os
import tempfile
from pathlib import Path

# Before anything of the project is imported: tests never touch the user's own folders, except to
# read the default model that the set-up fetched there.
from engine.openmp import share_cores
from engine.places import models_dir

REAL_MODELS_DIR = models_dir()
os.environ["SMOLDESK_HOME"] = tempfile.mkdtemp(prefix="smoldesk-tests-")
# Compiling the CPU's step takes ten seconds: once for all tests, and for all of their processes.
os.environ["SMOLDESK_COMPILED"] = str(Path(__file__).parents[1] / ".pytest_cache" / "compiled")
share_cores()

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# A busy machine, or the first run in a new clone, is slow; that says nothing about the code.
settings.register_profile(
    "patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def default_model_path() -> Path:
    """The real 135M model's GGUF file; the gate's set-up puts it there."""
    path = REAL_MODELS_DIR / "SmolLM2-135M-Instruct" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert path.is_file(), f"{path} is missing: run `python3 packaging/dev.py test`"
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data home of the test's own."""
    monkeypatch.setenv("SMOLDESK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
