"""Vectors for numba: what LLVM calls `<16 x float>`, with the few operations that the kernels use.

numba turns loops into vector code when it can tell that it may, and small changes make it stop.
These functions write LLVM's vectors outright, for no particular processor: LLVM cuts them into the
registers there are. So one source becomes AVX-512, AVX2 or NEON.

Three kinds: Floats and Ints are some vectors of 16 numbers of 32 bits, Shorts is one vector of 32
numbers of 16 bits. Memory is named by its address, in bytes. How many vectors there are is part of
a type; where a function makes one it takes `width`, a tuple of any numbers with one entry for each,
because numba knows the length of a tuple at compile time.
"""

import platform

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 16

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_F16, _F32 = ir.HalfType(), ir.FloatType()
_FLOATS, _INTS = ir.VectorType(_F32, LANES), ir.VectorType(_I32, LANES)
_SHORTS = ir.VectorType(_I16, 2 * LANES)


ONE = (0,)
FOUR = (0,) * 4
EIGHT = (0,) * 8


def kernel(function_or_signature):
    """Compile a function for the step: no Python around it, and division by 0 is no error."""
    return njit(
        function_or_signature,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )


class _Vectors(types.Type):
    """`count` vectors as numba sees them."""

    def __init__(self, count):
        self.count = count
        super().__init__(f"{type(self).__name__}({count})")


class Floats(_Vectors):
    """`count` times 16 numbers of 32 bits."""

    vector = _FLOATS


class Ints(_Vectors):
    """`count` times 16 whole numbers of 32 bits."""

    vector = _INTS


class Shorts(_Vectors):
    """32 whole numbers of 16 bits."""

    vector = _SHORTS


class _VectorsModel(models.PrimitiveModel):
    # An array of vectors, not one wide vector: LLVM puts each in a register, and never has to
    # shuffle their lanes.
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.ArrayType(kind.vector, kind.count))


for _kind in (Floats, Ints, Shorts):
    register_model(_kind)(_VectorsModel)


# Making, reading and writing


@intrinsic
def zero_floats(typing, width):
    """Floats of 0."""
    kind = Floats(len(width))
    return kind(width), lambda context, builder, sig, args: _zeros(kind)


@intrinsic
def zero_ints(typing, width):
    """Ints of 0."""
    kind = Ints(len(width))
    return kind(width), lambda context, builder, sig, args: _zeros(kind)


@intrinsic
def splat(typing, number, width):
    """Floats that all are `number`."""

    def generate(context, builder, sig, args):
        return _array(builder, [_splat(builder, args[0], _FLOATS)] * len(width))

    return Floats(len(width))(types.float32, width), generate


@intrinsic
def repeat(typing, numbers, width):
    """One vector of Floats, once for each entry of `width`."""

    def generate(context, builder, sig, args):
        return _array(builder, _items(builder, args[0]) * len(width))

    return Floats(len(width))(numbers, width), generate


@intrinsic
def load_floats(typing, address, width):
    """Floats from 32-bit floats in memory, one after the other."""

    def generate(context, builder, sig, args):
        places = _places(builder, args[0], _I64(4 * LANES), len(width))
        return _array(builder, [_load(builder, place, _FLOATS) for place in places])

    return Floats(len(width))(types.intp, width), generate


@intrinsic
def load_each(typing, address, stride, width):
    """Floats whose t-th vector lies at `address` + t * `stride`."""

    def generate(context, builder, sig, args):
        places = _places(builder, args[0], args[1], len(width))
        return _array(builder, [_load(builder, place, _FLOATS) for place in places])

    return Floats(len(width))(types.intp, types.intp, width), generate


@intrinsic
def splat_each(typing, address, stride, width):
    """Floats whose t-th vector has in all lanes the float at `address` + t * `stride`."""

    def generate(context, builder, sig, args):
        places = _places(builder, args[0], args[1], len(width))
        numbers = [_load(builder, place, _F32, align=4) for place in places]
        return _array(builder, [_splat(builder, number, _FLOATS) for number in numbers])

    return Floats(len(width))(types.intp, types.intp, width), generate


@intrinsic
def load_halves(typing, address):
    """A vector of Floats from 16-bit floats (IEEE's, not bf16) in memory."""

    def generate(context, builder, sig, args):
        narrow = _load(builder, args[0], ir.VectorType(_F16, LANES))
        return _array(builder, [builder.fpext(narrow, _FLOATS)])

    return Floats(1)(types.intp), generate


@intrinsic
def load_bf16(typing, address, width):
    """Floats from bf16 in memory: the upper half of a 32-bit float."""

    def generate(context, builder, sig, args):
        vectors = []
        for place in _places(builder, args[0], _I64(2 * LANES), len(width)):
            narrow = _load(builder, place, ir.VectorType(_I16, LANES))
            bits = builder.shl(builder.zext(narrow, _INTS), _constant(_INTS, 16))
            vectors.append(builder.bitcast(bits, _FLOATS))
        return _array(builder, vectors)

    return Floats(len(width))(types.intp, width), generate


@intrinsic
def load_bytes(typing, address):
    """Shorts from signed bytes in memory."""

    def generate(context, builder, sig, args):
        narrow = _load(builder, args[0], ir.VectorType(_I8, 2 * LANES))
        return _array(builder, [builder.sext(narrow, _SHORTS)])

    return Shorts(1)(types.intp), generate


@intrinsic
def load_shorts(typing, address):
    """Shorts from memory."""

    def generate(context, builder, sig, args):
        return _array(builder, [_load(builder, args[0], _SHORTS)])

    return Shorts(1)(types.intp), generate


@intrinsic
def store_floats(typing, address, numbers):
    """Write Floats as 32-bit floats, one after the other."""

    def generate(context, builder, sig, args):
        places = _places(builder, args[0], _I64(4 * LANES), numbers.count)
        for place, vector in zip(places, _items(builder, args[1]), strict=True):
            _store(builder, place, vector)
        return context.get_dummy_value()

    return types.void(types.intp, numbers), generate


@intrinsic
def store_each(typing, address, stride, numbers):
    """Write the t-th vector to `address` + t * `stride`."""

    def generate(context, builder, sig, args):
        places = _places(builder, args[0], args[1], numbers.count)
        for place, vector in zip(places, _items(builder, args[2]), strict=True):
            _store(builder, place, vector)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, numbers), generate


@intrinsic
def store_bf16(typing, address, numbers):
    """Write Floats as bf16, rounded to the nearest, ties to even. NaN stays NaN."""

    def generate(context, builder, sig, args):
        places = _places(builder, args[0], _I64(2 * LANES), numbers.count)
        for place, vector in zip(places, _items(builder, args[1]), strict=True):
            _store(builder, place, _bf16(builder, vector))
        return context.get_dummy_value()

    return types.void(types.intp, numbers), generate


@intrinsic
def scatter_bf16(typing, address, stride, numbers):
    """The same, with each lane `stride` after the one before."""

    def generate(context, builder, sig, args):
        places = iter(_places(builder, args[0], args[1], numbers.count * LANES))
        for vector in _items(builder, args[2]):
            narrow = _bf16(builder, vector)
            for lane in range(LANES):
                number = builder.extract_element(narrow, _I32(lane))
                _store(builder, next(places), number, align=2)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, numbers), generate


@intrinsic
def store_rounded(typing, address, numbers):
    """Write Floats as 16-bit whole numbers, rounded; they must lie within a short's range."""

    def generate(context, builder, sig, args):
        places = _places(builder, args[0], _I64(2 * LANES), numbers.count)
        for place, vector in zip(places, _items(builder, args[1]), strict=True):
            ints = builder.fptosi(_call(builder, "llvm.rint.v16f32", _FLOATS, [vector]), _INTS)
            _store(builder, place, builder.trunc(ints, ir.VectorType(_I16, LANES)))
        return context.get_dummy_value()

    return types.void(types.intp, numbers), generate


# Arithmetic, lane by lane


def _lanewise(name, document, operation, operands=2):
    """An intrinsic that takes vectors of one type and returns that type."""

    def generate(context, builder, sig, args):
        rows = zip(*(_items(builder, arg) for arg in args), strict=True)
        return _array(builder, [operation(builder, *row) for row in rows])

    if operands == 3:

        def declare(typing, a, b, c):
            return a(a, a, a), generate

    elif operands == 2:

        def declare(typing, a, b):
            return a(a, a), generate

    else:

        def declare(typing, a):
            return a(a), generate

    declare.__name__, declare.__doc__ = name, document
    return intrinsic(declare)


def _fma(builder, a, b, c):
    return _call(builder, "llvm.fmuladd.v16f32", _FLOATS, [a, b, c])


def _power_of_two(builder, x):
    whole = _call(builder, "llvm.rint.v16f32", _FLOATS, [x])
    fraction = builder.fsub(x, whole)
    result = _constant(_FLOATS, _TAYLOR[0])
    for term in _TAYLOR[1:]:
        result = _fma(builder, result, fraction, _constant(_FLOATS, term))
    exponent = builder.add(builder.fptosi(whole, _INTS), _constant(_INTS, 127))
    scale = builder.bitcast(builder.shl(exponent, _constant(_INTS, 23)), _FLOATS)
    return builder.fmul(result, scale)


_LOG2 = 0.6931471805599453
_TAYLOR = [1.0]  # ln(2)**k / k!, the highest power first
for _k in range(1, 8):
    _TAYLOR.insert(0, _TAYLOR[0] * _LOG2 / _k)

fma = _lanewise("fma", "a * b + c in one step where the processor has one.", _fma, 3)
add = _lanewise("add", "a + b.", lambda builder, a, b: builder.fadd(a, b))
subtract = _lanewise("subtract", "a - b.", lambda builder, a, b: builder.fsub(a, b))
multiply = _lanewise("multiply", "a * b.", lambda builder, a, b: builder.fmul(a, b))
divide = _lanewise("divide", "a / b.", lambda builder, a, b: builder.fdiv(a, b))
add_ints = _lanewise("add_ints", "a + b.", lambda builder, a, b: builder.add(a, b))
larger = _lanewise(
    "larger",
    "The larger of a and b; a where one of them is NaN.",
    lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), b, a),
)
smaller = _lanewise(
    "smaller",
    "The smaller of a and b; a where one of them is NaN.",
    lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), b, a),
)
magnitude = _lanewise(
    "magnitude",
    "Without the sign.",
    lambda builder, a: _call(builder, "llvm.fabs.v16f32", _FLOATS, [a]),
    1,
)
power_of_two = _lanewise(
    "power_of_two",
    """2 ** a, to about 2e-7 of itself, for what lies between -126 and 126; NaN stays NaN.

    Whole and fractional part apart; the polynomial is Taylor's for the latter, within a half of 0.
    """,
    _power_of_two,
    1,
)


@intrinsic
def to_floats(typing, ints):
    """Ints as Floats."""

    def generate(context, builder, sig, args):
        vectors = _items(builder, args[0])
        return _array(builder, [builder.sitofp(vector, _FLOATS) for vector in vectors])

    return Floats(ints.count)(ints), generate


# Across the lanes of one vector


@intrinsic
def sum_of(typing, numbers):
    """All lanes added up, in pairs of halves."""

    def generate(context, builder, sig, args):
        kind = ir.FunctionType(_F32, [_F32, _FLOATS])
        name = "llvm.vector.reduce.fadd.v16f32"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        (vector,) = _items(builder, args[0])
        zero = ir.Constant(_F32, -0.0)
        return builder.call(function, [zero, vector], fastmath=("reassoc",))

    return types.float32(numbers), generate


@intrinsic
def largest_of(typing, numbers):
    """The largest lane; NaN does not count."""

    def generate(context, builder, sig, args):
        return _call(builder, "llvm.vector.reduce.fmax.v16f32", _F32, _items(builder, args[0]))

    return types.float32(numbers), generate


@intrinsic
def first_of(typing, numbers):
    """The first lane."""

    def generate(context, builder, sig, args):
        return builder.extract_element(_items(builder, args[0])[0], _I32(0))

    return types.float32(numbers), generate


# Products of small whole numbers


@intrinsic(prefer_literal=True)
def nibble(typing, packed, place):
    """The 4-bit number at `place` (0 to 3, a literal) of each lane of Shorts."""
    shift = 4 * place.literal_value

    def generate(context, builder, sig, args):
        (words,) = _items(builder, args[0])
        moved = builder.lshr(words, _constant(_SHORTS, shift))
        return _array(builder, [builder.and_(moved, _constant(_SHORTS, 15))])

    return packed(packed, place), generate


@intrinsic
def dot_pairs(typing, weights, address, stride, sums):
    """sums[t, row] += weights[row, 0] * x[t, 0] + weights[row, 1] * x[t, 1].

    `weights` are 16 rows of two columns; the pair of shorts of x for token t lies at `address` +
    t * `stride`; `sums` has a vector for each token. Written so that LLVM knows it for x86's
    pmaddwd (with VNNI one instruction with the sum: vpdpwssd) and for ARM's smlal.
    """
    wide = ir.VectorType(_I32, 2 * LANES)

    def generate(context, builder, sig, args):
        (rows,) = _items(builder, args[0])
        rows = builder.sext(rows, wide)
        places = _places(builder, args[1], args[2], sums.count)
        results = []
        for place, before in zip(places, _items(builder, args[3]), strict=True):
            pair = _splat(builder, _load(builder, place, _I32, align=2), _INTS)
            x = builder.sext(builder.bitcast(pair, _SHORTS), wide)
            products = builder.mul(rows, x)
            even, odd = (_every_second(builder, products, start) for start in (0, 1))
            results.append(builder.add(builder.add(even, odd), before))
        return _array(builder, results)

    return sums(weights, types.intp, types.intp, sums), generate


# Memory: single numbers, hints, order between threads


@intrinsic
def load_int(typing, address):
    """The 64-bit whole number there."""
    return types.intp(types.intp), lambda context, builder, sig, args: _load(
        builder, args[0], _I64, align=8
    )


@intrinsic
def load_float(typing, address):
    """The 32-bit float there."""
    return types.float32(types.intp), lambda context, builder, sig, args: _load(
        builder, args[0], _F32, align=4
    )


@intrinsic
def store_float(typing, address, number):
    """Write a 32-bit float."""

    def generate(context, builder, sig, args):
        _store(builder, args[0], args[1], align=4)
        return context.get_dummy_value()

    return types.void(types.intp, types.float32), generate


@intrinsic
def float_of_half(typing, address):
    """The 16-bit float (IEEE's) there."""

    def generate(context, builder, sig, args):
        return builder.fpext(_load(builder, args[0], _F16), _F32)

    return types.float32(types.intp), generate


@intrinsic
def float_of_bf16(typing, address):
    """The bf16 there."""

    def generate(context, builder, sig, args):
        bits = builder.zext(_load(builder, args[0], _I16), _I32)
        return builder.bitcast(builder.shl(bits, _I32(16)), _F32)

    return types.float32(types.intp), generate


@intrinsic
def signed_byte(typing, address):
    """The signed byte there."""

    def generate(context, builder, sig, args):
        return builder.sext(_load(builder, args[0], _I8), _I64)

    return types.intp(types.intp), generate


@intrinsic
def prefetch_once(typing, address):
    """Fetch the line there for a single use, so that it drives nothing else out of the cache."""

    def generate(context, builder, sig, args):
        pointer = builder.inttoptr(args[0], _I8.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, no_locality, data = _I32(0), _I32(0), _I32(1)
        builder.call(function, [pointer, read, no_locality, data])
        return context.get_dummy_value()

    return types.void(types.intp), generate


@intrinsic
def load_shared(typing, address):
    """A 64-bit number that another thread writes; what it wrote before is seen, too."""

    def generate(context, builder, sig, args):
        pointer = builder.inttoptr(args[0], _I64.as_pointer())
        return builder.load_atomic(pointer, "acquire", 8)

    return types.intp(types.intp), generate


@intrinsic
def store_shared(typing, address, number):
    """Write a 64-bit number for other threads; they see what was written before it, too."""

    def generate(context, builder, sig, args):
        pointer = builder.inttoptr(args[0], _I64.as_pointer())
        builder.store_atomic(args[1], pointer, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


@intrinsic
def add_shared(typing, address, number):
    """Add to a 64-bit number; no other thread comes in between."""

    def generate(context, builder, sig, args):
        pointer = builder.inttoptr(args[0], _I64.as_pointer())
        return builder.atomic_rmw("add", pointer, args[1], "seq_cst")

    return types.intp(types.intp, types.intp), generate


@intrinsic
def replace_shared(typing, address, expected, number):
    """Write a 64-bit number if `expected` is there; whether it was."""

    def generate(context, builder, sig, args):
        pointer = builder.inttoptr(args[0], _I64.as_pointer())
        pair = builder.cmpxchg(pointer, args[1], args[2], "seq_cst", "seq_cst")
        return builder.extract_value(pair, 1)

    return types.boolean(types.intp, types.intp, types.intp), generate


_PAUSE = {"x86_64": "llvm.x86.sse2.pause", "amd64": "llvm.x86.sse2.pause"}
_PAUSE |= dict.fromkeys(("aarch64", "arm64"), "llvm.aarch64.hint")


@intrinsic
def pause(typing):
    """Tell the processor that this thread waits in a loop."""
    name = _PAUSE.get(platform.machine().lower())

    def generate(context, builder, sig, args):
        if name is not None:
            hint = [] if "x86" in name else [_I32(1)]
            kind = ir.FunctionType(ir.VoidType(), [number.type for number in hint])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), hint)
        return context.get_dummy_value()

    return types.void(), generate


# Made of the others


@kernel
def clamp(power, tokens):
    """Into the range of `power_of_two`; NaN stays NaN."""
    power = larger(power, splat(np.float32(-126), tokens))
    return smaller(power, splat(np.float32(126), tokens))


@kernel
def copy(to, source, size):
    """`size` bytes, rounded up to whole vectors."""
    for at in range(0, size, LANES * 4):
        store_floats(to + at, load_floats(source + at, ONE))


# What they are made of


def _array(builder, vectors):
    array = ir.Constant(ir.ArrayType(vectors[0].type, len(vectors)), ir.Undefined)
    for place, vector in enumerate(vectors):
        array = builder.insert_value(array, vector, place)
    return array


def _items(builder, array):
    return [builder.extract_value(array, place) for place in range(array.type.count)]


def _zeros(kind):
    return ir.Constant(ir.ArrayType(kind.vector, kind.count), None)


def _places(builder, address, stride, count):
    return [builder.add(address, builder.mul(stride, _I64(place))) for place in range(count)]


def _constant(vector, number):
    return ir.Constant(vector, [number] * vector.count)


def _call(builder, name, result, args):
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def _load(builder, address, kind, align=1):
    loaded = builder.load(builder.inttoptr(address, kind.as_pointer()))
    loaded.align = align
    return loaded


def _store(builder, address, value, align=1):
    stored = builder.store(value, builder.inttoptr(address, value.type.as_pointer()))
    stored.align = align


def _splat(builder, number, vector):
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, number, _I32(0))
    lanes = ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, nothing, lanes)


def _every_second(builder, vector, start):
    lanes = list(range(start, vector.type.count, 2))
    nothing = ir.Constant(vector.type, ir.Undefined)
    mask = ir.Constant(ir.VectorType(_I32, len(lanes)), lanes)
    return builder.shuffle_vector(vector, nothing, mask)


def _bf16(builder, numbers):
    """Floats as bf16, rounded to the nearest, ties to even; NaN stays NaN."""
    bits = builder.bitcast(numbers, _INTS)
    upper = builder.lshr(bits, _constant(_INTS, 16))
    odd = builder.and_(upper, _constant(_INTS, 1))
    rounded = builder.add(bits, builder.add(odd, _constant(_INTS, 0x7FFF)))
    rounded = builder.lshr(rounded, _constant(_INTS, 16))
    is_nan = builder.fcmp_unordered("uno", numbers, numbers)
    quiet = builder.or_(upper, _constant(_INTS, 0x40))
    chosen = builder.select(is_nan, quiet, rounded)
    return builder.trunc(chosen, ir.VectorType(_I16, LANES))
