"""The kernels as machine code: compiled at the first start, kept as an object file for the others.

numba keeps compiled functions, too, but loading them takes longer than all else that a start does,
because numba wants all of itself imported first. An object file needs llvmlite alone.
"""

import contextlib
import ctypes
import hashlib
import os
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from engine.places import data_dir

_SOURCES = (
    *("attention.py", "compiled.py", "inputs.py", "kernels.py", "matrices.py", "packing.py"),
    *("plan.py", "simd.py"),
)
COMPILING = "compiling"  # the name of the thread that does
_CHECKSUM = 4  # bytes, before the object file

# What numba makes of a function: (where the result goes, where an exception goes, its arguments).
_Signature = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
)


@dataclass(frozen=True, slots=True)
class Compiled:
    """The kernels of these names for one shape of heads; they let go of the GIL.

    Both take the address of the plan and the number of the thread in its team.
    """

    lead: Callable[[int, int], None]
    help_out: Callable[[int, int], None]


def compiled(head_dim: int, group_size: int) -> Compiled:
    """The kernels as they were kept, or compiled now, which takes about ten seconds."""
    path = _folder() / f"step-{_digest()}-{head_dim}-{group_size}.o"
    code = _kept(path)
    if code is None:
        code = _compiled_elsewhere(head_dim, group_size)
        _keep(path, code)
    return _loaded(code)


def _compiled_elsewhere(head_dim: int, group_size: int) -> bytes:
    """Compile on a thread of its own: what Ctrl+C raises is lost in the compiler's callbacks."""
    code: list[bytes] = []
    error: list[BaseException] = []

    def compile_it() -> None:
        try:
            code.append(_compile(head_dim, group_size))
        except BaseException as fault:
            error.append(fault)

    thread = threading.Thread(target=compile_it, name=COMPILING, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)  # without a limit Windows would not let Ctrl+C through
    if error:
        raise error[0]
    return code[0]


def _compile(head_dim: int, group_size: int) -> bytes:
    """An object file with both functions."""
    from engine.step import kernels

    functions = kernels.llvm_ir(head_dim, group_size)  # type: ignore[no-untyped-call]
    module = _linked(functions)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = True
    machine = _machine()
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def _linked(functions: Mapping[str, tuple[str, str]]) -> Any:
    """One module, of which only the functions asked for can be seen, under their plain names."""
    names = {name_there: name for name, (name_there, _) in functions.items()}
    first, *others = (llvm.parse_assembly(text) for _, text in functions.values())
    for other in others:
        first.link_in(other)
    for function in first.functions:
        if function.name in names:
            function.name = names[function.name]
        elif not function.is_declaration:
            function.linkage = "internal"
    return first


def _loaded(code: bytes) -> Compiled:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    owner = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    owner.add_object_file(llvm.ObjectFileRef.from_data(code))
    owner.finalize_object()
    return Compiled(_Kernel(owner, "lead"), _Kernel(owner, "help_out"))


class _Kernel:
    """A compiled function as a Python one. The kernels return nothing and raise nothing."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner  # of the machine code, which goes with it
        self._function = _Signature(owner.get_function_address(name))
        self._nowhere = ctypes.create_string_buffer(16)
        self._result = ctypes.addressof(self._nowhere)

    def __call__(self, plan: int, member: int) -> None:
        self._function(self._result, self._result + 8, plan, member)


def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )


def _folder() -> Path:
    return Path(os.environ.get("SMOLDESK_COMPILED") or data_dir() / "compiled")


def _digest() -> str:
    """Of all that the machine code follows from."""
    digest = hashlib.sha256()
    for text in (
        sys.version,
        version("numba"),
        version("llvmlite"),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    ):
        digest.update(text.encode())
    for name in _SOURCES:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()[:16]


def _kept(path: Path) -> bytes | None:
    try:
        contents = path.read_bytes()
    except OSError:
        return None
    checksum, code = contents[:_CHECKSUM], contents[_CHECKSUM:]
    return code if zlib.crc32(code).to_bytes(_CHECKSUM, "little") == checksum else None


def _keep(path: Path, code: bytes) -> None:
    """For the next start, if the folder can be written; what other versions left goes."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with open(handle, "wb") as file:
            file.write(zlib.crc32(code).to_bytes(_CHECKSUM, "little") + code)
        os.replace(name, path)
    for other in path.parent.glob("step-*.o"):
        if _digest() not in other.name:
            with contextlib.suppress(OSError):
                other.unlink()
