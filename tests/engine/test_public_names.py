"""What `import engine` offers."""

import subprocess
import sys

LIST_NAMES = """
import pkgutil, importlib, types
import engine
for order in ("before", "after"):
    for name in engine.__all__:
        value = getattr(engine, name)
        assert not isinstance(value, types.ModuleType), (name, order)
        assert value.__name__ == name, (name, order)
    for module in pkgutil.walk_packages(engine.__path__, "engine."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
from engine import *
assert callable(load) and callable(generate)
"""


def test_every_public_name_is_what_it_says_whatever_was_imported_before():
    subprocess.run([sys.executable, "-c", LIST_NAMES], check=True)


def test_an_unknown_name_is_an_attribute_error():
    code = "import engine\ntry: engine.nothing\nexcept AttributeError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "'nothing'" in done.stdout


def test_the_ground_floor_imports_without_torch_numpy_or_qt():
    code = (
        "import sys, engine, engine.errors, engine.messages, engine.events, engine.options, "
        "engine.places; print([m for m in ('torch', 'numpy', 'PySide6') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
