"""Tiny models for the engine's tests."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Tiny models lose more time to handing work to threads than they gain, most of all under load.

    The real model's tests set the count that the engine chose themselves.
    """
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_models() -> ModuleType:
    """The module beside this file: random models and how to write them."""
    path = Path(__file__).with_name("tiny_models.py")
    spec = importlib.util.spec_from_file_location("tiny_models", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
