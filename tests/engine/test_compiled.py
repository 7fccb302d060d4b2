"""Machine code that is kept: used again, and never when it is not what the sources say."""

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from engine.step import compiled as module
from engine.step.compiled import compiled
from engine.step.plan import PLAN

HEADS = (32, 2)


@pytest.fixture(scope="module")
def code() -> bytes:
    return module._compile(*HEADS)


@pytest.fixture
def compilations(code, tmp_path, monkeypatch) -> list[tuple[int, int]]:
    """What was compiled; kept code is in the test's own folder."""
    done: list[tuple[int, int]] = []
    monkeypatch.setenv("SMOLDESK_COMPILED", str(tmp_path))
    monkeypatch.setattr(module, "_compile", lambda *heads: done.append(heads) or code)
    return done


def kept(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def works(kernels: module.Compiled) -> bool:
    """A plan of no tokens and no layers asks for nothing."""
    plan = np.zeros(1, PLAN)
    kernels.lead(plan.ctypes.data, 0)
    return True


def test_it_is_compiled_once(compilations, tmp_path) -> None:
    assert works(compiled(*HEADS))
    assert works(compiled(*HEADS))
    assert compilations == [HEADS]


@pytest.mark.parametrize(
    "damage",
    [
        lambda contents: b"",
        lambda contents: contents[:3],
        lambda contents: contents[: len(contents) // 2],
        lambda contents: contents[:-1],
        lambda contents: contents[:5000] + b"\0" + contents[5001:],
        lambda contents: b"1234" + contents[4:],
    ],
)
def test_damaged_code_is_never_run(
    compilations, tmp_path, damage: Callable[[bytes], bytes]
) -> None:
    compiled(*HEADS)
    path = kept(tmp_path)
    good = path.read_bytes()
    bad = damage(good)
    path.write_bytes(bad if bad != good else good[:-2])
    assert works(compiled(*HEADS))
    assert compilations == [HEADS, HEADS]
    assert path.read_bytes() == good


@pytest.mark.parametrize("changed", ["source", "processor", "numba"])
def test_code_from_elsewhere_is_not_run_and_goes(
    compilations, tmp_path, monkeypatch, changed: str
) -> None:
    compiled(*HEADS)
    old = kept(tmp_path)
    if changed == "source":
        monkeypatch.setattr(module, "_SOURCES", module._SOURCES[:-1])
    elif changed == "processor":
        monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "another")
    else:
        monkeypatch.setattr(module, "version", lambda name: "0.1")
    compiled(*HEADS)
    assert len(compilations) == 2
    assert kept(tmp_path) != old


def test_every_source_of_the_code_counts() -> None:
    """Whatever `kernels.py` imports of ours is in the digest."""
    folder = Path(module.__file__).parent
    pending, found = ["compiled.py", "kernels.py"], set()
    while pending:
        name = pending.pop()
        found.add(name)
        text = (folder / name).read_text(encoding="utf-8")
        for imported in re.findall(r"from engine\.step(?:\.(\w+))? import (.+)", text):
            names = [imported[0]] if imported[0] else imported[1].split(", ")
            pending += [f"{n}.py" for n in names if f"{n}.py" not in found]
    assert found - {"weights.py"} == set(module._SOURCES)


def test_a_folder_that_cannot_be_written_costs_only_time(
    compilations, tmp_path, monkeypatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SMOLDESK_COMPILED", str(tmp_path / "file"))
    assert works(compiled(*HEADS))
    assert works(compiled(*HEADS))
    assert len(compilations) == 2


def test_what_cannot_be_removed_does_not_keep_new_code_from_being_kept(
    compilations, tmp_path
) -> None:
    (tmp_path / "step-old.o").mkdir()
    compiled(*HEADS)
    compiled(*HEADS)
    assert len(compilations) == 1


def test_the_code_needs_nothing_but_the_c_library(code) -> None:
    """An object file with references into numba could not be used without it."""
    names = {name for name in re.findall(rb"[\w.]{4,}", code) if b"numba" in name or b"Py" in name}
    assert not {name for name in names if not name.startswith(b"_ZN08NumbaEnv")}


def test_products_of_whole_numbers_are_one_instruction_where_there_is_one(code) -> None:
    features = llvm.get_host_cpu_features()
    if not features.get("avx512vnni"):
        pytest.skip("this processor has no such instruction")
    # EVEX-coded vpdpwssd: map 2, opcode 0x52, 512 bits wide
    found = re.findall(
        rb"\x62[\x00-\xff][\x05\x0d\x15\x1d\x25\x2d\x35\x3d\x45\x4d\x55\x5d\x65\x6d\x75\x7d][\x40-\x7f]\x52",
        code,
    )
    assert len(found) > 20
    assert ctypes.sizeof(ctypes.c_void_p) == 8
