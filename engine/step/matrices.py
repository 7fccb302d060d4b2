"""The matrices of a step: 16 rows at a time, for one token, four or eight.

The inputs of a 4-bit or 8-bit matrix are shorts, 32 of them with one scale (`inputs.py`). The
products are then exact, one instruction does many of them, and 15 bits lose less than a bf16 model
does. `packing.py` has the layouts.
"""

import math

import numpy as np

from engine.step import simd
from engine.step.packing import BF16, GROUP, GROUP_BYTES, INT8, LANES, Q4
from engine.step.plan import AHEAD, DOWN, GATE_UP, HEAD, OUTPUT, QKV

_LOG2_E = np.float32(math.log2(math.e))


@simd.kernel
def _matrix(plan):
    """The phase's matrix: where it begins, and how it is stored."""
    if plan.phase == HEAD:
        return plan.head, plan.head_kind
    number = 0
    if plan.phase == OUTPUT:
        number = 1
    elif plan.phase == GATE_UP:
        number = 2
    elif plan.phase == DOWN:
        number = 3
    at = plan.matrices + (plan.layer * 4 + number) * 16
    return simd.load_int(at) + plan.weights, simd.load_int(at + 8)


@simd.kernel
def _columns(plan):
    if plan.phase == OUTPUT:
        return plan.query_size
    if plan.phase == DOWN:
        return plan.inner_size
    return plan.hidden_size


@simd.kernel
def multiply(plan, unit, token, tokens):
    """Multiply 16 rows for some tokens; what becomes of the products depends on the phase."""
    matrix, kind = _matrix(plan)
    groups = (_columns(plan) + GROUP - 1) // GROUP
    size = groups * GROUP_BYTES[kind]
    if plan.phase == GATE_UP:  # 16 rows of gate and the same 16 of up lie one after the other
        gate = _tile(plan, matrix + 2 * unit * size, kind, groups, token, tokens)
        up = _tile(plan, matrix + (2 * unit + 1) * size, kind, groups, token, tokens)
        at = plan.inner + unit * LANES * 4 + token * plan.input_stride
        simd.store_each(at, plan.input_stride, _gated(gate, up, tokens))
        return
    y = _tile(plan, matrix + unit * size, kind, groups, token, tokens)
    if plan.phase == QKV:
        out, stride = plan.projected, plan.projected_stride
    elif plan.phase == HEAD:
        out, stride = plan.logits, plan.vocabulary * 4
    else:
        out, stride = plan.hidden, plan.width * 4
    out += unit * LANES * 4 + token * stride
    if plan.phase == OUTPUT or plan.phase == DOWN:
        y = simd.add(y, simd.load_each(out, stride, tokens))
    simd.store_each(out, stride, y)


@simd.kernel
def _gated(gate, up, tokens):
    """SwiGLU: silu(gate) * up."""
    one = simd.splat(np.float32(1), tokens)
    power = simd.clamp(simd.multiply(gate, simd.splat(-_LOG2_E, tokens)), tokens)
    sigmoid = simd.divide(one, simd.add(one, simd.power_of_two(power)))
    return simd.multiply(simd.multiply(gate, sigmoid), up)


@simd.kernel
def _tile(plan, at, kind, groups, token, tokens):
    """16 rows times the inputs of every token."""
    if kind == Q4:
        return _tile_q4(plan, at, groups, token, tokens)
    if kind == INT8:
        return _tile_int8(plan, at, groups, token, tokens)
    return _tile_bf16(plan, at, groups, token, tokens)


@simd.kernel
def _tile_q4(plan, at, groups, token, tokens):
    """Weights are scale * code + minimum, codes from 0 to 15."""
    stride = plan.code_stride
    x = plan.codes + token * stride
    x_scale = plan.scales + token * plan.scale_stride
    x_sum = plan.sums + token * plan.scale_stride
    y = simd.zero_floats(tokens)
    for _ in range(groups):
        _fetch(at + AHEAD, GROUP_BYTES[Q4], tokens)
        # Sums of their own for each column, for whole numbers add up the same in any order; several
        # tokens have enough of them to keep the processor busy with one each.
        a = simd.zero_ints(tokens)
        b = simd.zero_ints(tokens)
        for k in range(4):
            packed = simd.load_shorts(at + 64 + 64 * k)
            a = simd.dot_pairs(simd.nibble(packed, 0), x, stride, a)
            if len(tokens) == 1:
                b = simd.dot_pairs(simd.nibble(packed, 1), x + 4, stride, b)
                a = simd.dot_pairs(simd.nibble(packed, 2), x + 8, stride, a)
                b = simd.dot_pairs(simd.nibble(packed, 3), x + 12, stride, b)
            else:
                a = simd.dot_pairs(simd.nibble(packed, 1), x + 4, stride, a)
                a = simd.dot_pairs(simd.nibble(packed, 2), x + 8, stride, a)
                a = simd.dot_pairs(simd.nibble(packed, 3), x + 12, stride, a)
            x += 16
        factor = simd.splat_each(x_scale, plan.scale_stride, tokens)
        scale = simd.repeat(simd.load_halves(at), tokens)
        minimum = simd.repeat(simd.load_halves(at + 32), tokens)
        total = simd.to_floats(simd.add_ints(a, b))
        y = simd.fma(simd.multiply(total, factor), scale, y)
        y = simd.fma(simd.splat_each(x_sum, plan.scale_stride, tokens), minimum, y)
        at += GROUP_BYTES[Q4]
        x_scale += 4
        x_sum += 4
    return y


@simd.kernel
def _tile_int8(plan, at, groups, token, tokens):
    """Weights are scale * code, codes from -128 to 127."""
    stride = plan.code_stride
    x = plan.codes + token * stride
    x_scale = plan.scales + token * plan.scale_stride
    y = simd.zero_floats(tokens)
    for _ in range(groups):
        _fetch(at + AHEAD, GROUP_BYTES[INT8], tokens)
        a = simd.zero_ints(tokens)
        b = simd.zero_ints(tokens)
        for k in range(8):
            codes = at + 32 + 64 * k
            a = simd.dot_pairs(simd.load_bytes(codes), x, stride, a)
            if len(tokens) == 1:
                b = simd.dot_pairs(simd.load_bytes(codes + 32), x + 4, stride, b)
            else:
                a = simd.dot_pairs(simd.load_bytes(codes + 32), x + 4, stride, a)
            x += 8
        factor = simd.splat_each(x_scale, plan.scale_stride, tokens)
        scale = simd.repeat(simd.load_halves(at), tokens)
        total = simd.to_floats(simd.add_ints(a, b))
        y = simd.fma(simd.multiply(total, factor), scale, y)
        at += GROUP_BYTES[INT8]
        x_scale += 4
    return y


@simd.kernel
def _fetch(at, size, tokens):
    """Say that a weight is used once; where many tokens use it, it stays in the cache."""
    if len(tokens) < 8:
        for line in range(0, size, 64):
            simd.prefetch_once(at + line)


@simd.kernel
def _tile_bf16(plan, at, groups, token, tokens):
    stride = plan.input_stride
    x = plan.inputs + token * stride
    a = simd.zero_floats(tokens)
    b = simd.zero_floats(tokens)
    for _ in range(groups * GROUP // 2):
        _fetch(at + AHEAD, 64, tokens)
        weights = simd.repeat(simd.load_bf16(at, simd.ONE), tokens)
        a = simd.fma(weights, simd.splat_each(x, stride, tokens), a)
        weights = simd.repeat(simd.load_bf16(at + 32, simd.ONE), tokens)
        b = simd.fma(weights, simd.splat_each(x + 4, stride, tokens), b)
        at += 64
        x += 8
    return simd.add(a, b)


@simd.kernel
def embed(plan, token):
    """A row of the embedding into `hidden`."""
    row = simd.load_int(plan.ids + token * 8)
    groups = (plan.hidden_size + GROUP - 1) // GROUP
    at = plan.embedding + row // LANES * groups * GROUP_BYTES[plan.embedding_kind]
    lane = row % LANES
    out = plan.hidden + token * plan.width * 4
    for group in range(groups):
        for column in range(GROUP):
            number = _weight(at, plan.embedding_kind, lane, column)
            simd.store_float(out + (group * GROUP + column) * 4, number)
        at += GROUP_BYTES[plan.embedding_kind]


@simd.kernel
def _weight(at, kind, lane, column):
    """One weight of a group."""
    if kind == BF16:
        return simd.float_of_bf16(at + (column * LANES + lane) * 2)
    scale = simd.float_of_half(at + 2 * lane)
    if kind == INT8:
        code = simd.signed_byte(at + 32 + column // 2 * 32 + 2 * lane + column % 2)
        return scale * np.float32(code)
    byte = at + 64 + column // 8 * 64 + 4 * lane + column % 2 * 2 + column % 8 // 4
    code = (simd.signed_byte(byte) >> (column % 8 // 2 % 2 * 4)) & 15
    return simd.float_of_half(at + 32 + 2 * lane) + scale * np.float32(code)
