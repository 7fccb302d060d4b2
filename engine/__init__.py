"""A small, readable SmolLM2 engine.

Importing this package imports neither torch nor numpy; the names below load on first use:

    engine = load("path/to/model")              # -> Engine
    for event in engine.session().reply([Message("user", "Hello")]): ...
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "EngineError": "engine.errors",
    "Message": "engine.messages",
    "SamplingOptions": "engine.options",
    "LiveOptions": "engine.options",
    "ModelConfig": "engine.model.config",
    "Llama": "engine.model.llama",
    "KVCache": "engine.model.kv_cache",
    "generate": "engine.model.generate",
    "Tokenizer": "engine.text.tokenizer",
    "Session": "engine.session",
    "Engine": "engine.loading",
    "load": "engine.loading",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
