"""One step of the network as compiled code: a few tokens in, logits out, no library on the way.

A step is a chain of phases (a matrix, the attention of a layer, ...). A phase is cut into chunks,
and the threads of a team take one after the other: the leader opens a phase and goes on when all of
its chunks are done, whoever did them. So a helper that is late, or asleep, is not waited for.

Numbers are 32-bit floats, except that the inputs of a 4-bit or 8-bit matrix are rounded to shorts,
32 of them with one scale. The products are then exact, one instruction does many of them, and 15
bits lose less than a bf16 model does. Memory is addressed as in `plan.py`; `packing.py` has the
layouts.
A token's numbers do not depend on how many tokens are read in one step.
"""

import math

import numpy as np
from numba import from_dtype, njit, types
from numba.core import config

from engine.step import simd
from engine.step.packing import BF16, GROUP, GROUP_BYTES, INT8, LANES, Q4
from engine.step.plan import AHEAD, PLAN, SPAN

NORMALISE, QKV, ROTATE, ATTEND, MERGE, OUTPUT, GATE_UP, ROUND, DOWN, HEAD = range(10)
"""The phases: five multiply a matrix, a unit being 16 of its rows; ATTEND has units of its own; the
unit of the others is a token.
"""

_PATIENCE = 30_000  # looks for work before a helper goes to sleep: about a millisecond
_LATE = 8_000  # looks for a chunk's end after which its thread was surely taken off its core
_NOTHING = np.float32(-1e30)  # the largest score among none
_LOG2_E = np.float32(math.log2(math.e))
_OPTIONS = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def _compiled(function_or_signature):
    return njit(function_or_signature, **_OPTIONS)


ONE = (0,)
FOUR = (0,) * 4
EIGHT = (0,) * 8


@_compiled
def lead(plan, member, dims, group):
    """Carry out the step that `plan` describes, with whoever helps.

    `dims` has an entry for each 16 numbers of a head, `group` for each query head of a key head.
    """
    for token in range(plan.count):
        _embed(plan, token)
    for layer in range(plan.layers):
        plan.layer = layer
        plan.norm = 2 * layer
        for phase in (NORMALISE, QKV, ROTATE, ATTEND, MERGE, OUTPUT):
            _share(plan, phase, member, dims, group)
        plan.norm = 2 * layer + 1
        for phase in (NORMALISE, GATE_UP, ROUND, DOWN):
            _share(plan, phase, member, dims, group)
    if plan.wanted == 0:
        return
    if plan.wanted == 1 and plan.count > 1:
        _copy(plan.hidden, plan.hidden + (plan.count - 1) * plan.width * 4, plan.width * 4)
    plan.norm = 2 * plan.layers
    for phase in (NORMALISE, HEAD):
        _share(plan, phase, member, dims, group)


@_compiled
def help_out(plan, member, dims, group):
    """Take chunks of whatever is to be done; return after a while without any."""
    looks = 0
    while looks < _PATIENCE:
        ticket = simd.load_shared(plan.ticket)
        if _has_chunk(ticket) and member < plan.members:
            _take_chunk(plan, member, ticket, dims, group)
            looks = 0
        elif plan.closing != 0:
            return
        else:
            simd.pause()
            looks += 1


# Sharing the work


@_compiled
def _share(plan, phase, member, dims, group):
    """Have all of a phase done."""
    plan.phase = phase
    units = _units(plan)
    if units < plan.members or (plan.batch <= 4 and _by_token(phase)):
        first = units - units  # numba would compile everything again for a literal 0
        _do(plan, member, first, units, dims, group)  # too little to share
        return
    chunks = _chunk_count(units, plan.members)
    plan.units = units
    simd.store_shared(plan.done, 0)
    number = (simd.load_shared(plan.ticket) >> 32) + 1
    simd.store_shared(plan.ticket, number << 32 | chunks << 16)
    while True:
        ticket = simd.load_shared(plan.ticket)
        if not _has_chunk(ticket):
            break
        _take_chunk(plan, member, ticket, dims, group)
    late = _LATE + (units + chunks - 1) // chunks * _looks(plan)
    looks = 0
    while simd.load_shared(plan.done) < chunks:
        simd.pause()
        looks += 1
        if looks == late:
            plan.stalls += 1


@_compiled
def _has_chunk(ticket):
    """A ticket is the phase's number, its count of chunks, and the next chunk."""
    return (ticket & 0xFFFF) < (ticket >> 16 & 0xFFFF)


@_compiled
def _take_chunk(plan, member, ticket, dims, group):
    """Do the ticket's next chunk, unless another thread was faster."""
    if not simd.replace_shared(plan.ticket, ticket, ticket + 1):
        return
    chunk = ticket & 0xFFFF
    start = _chunk_start(chunk, plan.units, plan.members)
    end = _chunk_start(chunk + 1, plan.units, plan.members)
    _do(plan, member, start, end, dims, group)
    simd.add_shared(plan.done, 1)


@_compiled
def _units(plan):
    phase = plan.phase
    if phase == ATTEND:
        return _blocks(plan) * plan.key_heads * _splits(plan)
    if phase == QKV:
        return (plan.query_size + 2 * plan.key_size) // LANES
    if phase == GATE_UP:
        return plan.inner_size // LANES
    if phase == HEAD:
        return plan.vocabulary // LANES
    if phase in (OUTPUT, DOWN):
        return plan.width // LANES
    return plan.count


@_compiled
def _looks(plan):
    """How many looks for a chunk's end a unit may take, three times what it should."""
    if plan.phase == ATTEND:
        rows = min(plan.batch, 4) * plan.query_size // plan.key_size
        return rows * (plan.position + plan.count) // _splits(plan)
    return plan.width * plan.batch // 16


@_compiled
def _by_token(phase):
    return phase in (NORMALISE, ROTATE, MERGE, ROUND)


@_compiled
def _chunk_count(units, members):
    if members == 1:
        return 1
    if units <= 4 * members:
        return units
    return 3 * members


@_compiled
def _chunk_start(chunk, units, members):
    """Where a chunk begins: a large one for everybody first, then small ones to end together."""
    if members == 1:
        return chunk * units
    if units <= 4 * members:
        return chunk
    large = units * 3 // (4 * members)
    if chunk <= members:
        return chunk * large
    rest = units - members * large
    return members * large + rest * (chunk - members) // (2 * members)


@_compiled
def _do(plan, member, start, end, dims, group):
    """Units `start` to `end` of the phase."""
    phase = plan.phase
    first = start - start
    if phase == NORMALISE:
        for token in range(start, end):
            _normalise(plan, token)
    elif phase == ROTATE:
        for token in range(start, end):
            _rotate(plan, token, dims)
    elif phase == ATTEND:
        for unit in range(start, end):
            if plan.batch == 1:
                _attend(plan, member, unit, dims, group, group)
            else:
                _attend(plan, member, unit, dims, group, group + group + group + group)
    elif phase == MERGE:
        for token in range(start, end):
            _merge(plan, member, token, dims, group)
    elif phase == ROUND:
        for token in range(start, end):
            _round(plan, token, plan.inner, plan.inner_size)
    elif plan.batch == 1 or (phase == HEAD and plan.wanted == 1):
        for unit in range(start, end):
            _rows(plan, unit, first, ONE)
    else:
        for token in range(0, plan.batch - 4, 8):  # whose inputs stay in the innermost cache
            for unit in range(start, end):
                _rows(plan, unit, token, EIGHT)
        if plan.batch % 8 != 0:
            for unit in range(start, end):
                _rows(plan, unit, plan.batch - 4, FOUR)


# Matrices


@_compiled
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


@_compiled
def _columns(plan):
    if plan.phase == OUTPUT:
        return plan.query_size
    if plan.phase == DOWN:
        return plan.inner_size
    return plan.hidden_size


@_compiled
def _rows(plan, unit, token, tokens):
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


@_compiled
def _gated(gate, up, tokens):
    """SwiGLU: silu(gate) * up."""
    one = simd.splat(np.float32(1), tokens)
    power = _clamp(simd.multiply(gate, simd.splat(-_LOG2_E, tokens)), tokens)
    sigmoid = simd.divide(one, simd.add(one, simd.power_of_two(power)))
    return simd.multiply(simd.multiply(gate, sigmoid), up)


@_compiled
def _clamp(power, tokens):
    """Into the range of `power_of_two`; NaN stays NaN."""
    power = simd.larger(power, simd.splat(np.float32(-126), tokens))
    return simd.smaller(power, simd.splat(np.float32(126), tokens))


@_compiled
def _tile(plan, at, kind, groups, token, tokens):
    """16 rows times the inputs of every token."""
    if kind == Q4:
        return _tile_q4(plan, at, groups, token, tokens)
    if kind == INT8:
        return _tile_int8(plan, at, groups, token, tokens)
    return _tile_bf16(plan, at, groups, token, tokens)


@_compiled
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


@_compiled
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


@_compiled
def _fetch(at, size, tokens):
    """Say that a weight is used once; where many tokens use it, it stays in the cache."""
    if len(tokens) < 8:
        for line in range(0, size, 64):
            simd.prefetch_once(at + line)


@_compiled
def _tile_bf16(plan, at, groups, token, tokens):
    stride = plan.input_stride
    x = plan.inputs + token * stride
    a = simd.zero_floats(tokens)
    b = simd.zero_floats(tokens)
    for _ in range(groups * GROUP // 2):
        _fetch(at + AHEAD, 64, tokens)
        weights = simd.repeat(simd.load_bf16(at, ONE), tokens)
        a = simd.fma(weights, simd.splat_each(x, stride, tokens), a)
        weights = simd.repeat(simd.load_bf16(at + 32, ONE), tokens)
        b = simd.fma(weights, simd.splat_each(x + 4, stride, tokens), b)
        at += 64
        x += 8
    return simd.add(a, b)


# What stands between the matrices


@_compiled
def _embed(plan, token):
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


@_compiled
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


@_compiled
def _normalise(plan, token):
    """RMSNorm of `hidden`, as the inputs of the next matrix."""
    x = plan.hidden + token * plan.width * 4
    out = plan.inputs + token * plan.input_stride
    squares = simd.zero_floats(ONE)
    for at in range(0, plan.width * 4, LANES * 4):
        numbers = simd.load_floats(x + at, ONE)
        squares = simd.fma(numbers, numbers, squares)
    mean = simd.sum_of(squares) / np.float32(plan.hidden_size)
    factor = simd.splat(np.float32(1) / np.sqrt(mean + np.float32(plan.epsilon)), ONE)
    weights = plan.norms + plan.norm * plan.width * 4
    for at in range(0, plan.width * 4, LANES * 4):
        numbers = simd.multiply(simd.load_floats(x + at, ONE), factor)
        simd.store_floats(out + at, simd.multiply(numbers, simd.load_floats(weights + at, ONE)))
    _round_token(plan, token, plan.width // GROUP)


@_compiled
def _round(plan, token, source, size):
    """`source` (token, size) as the inputs of the next matrix."""
    groups = (size + GROUP - 1) // GROUP
    at = token * plan.input_stride
    _copy(plan.inputs + at, source + at, groups * GROUP * 4)
    _round_token(plan, token, groups)


@_compiled
def _round_token(plan, token, groups):
    """Inputs as shorts, with a scale and a sum for each 32. What is not finite makes both NaN."""
    x = plan.inputs + token * plan.input_stride
    codes = plan.codes + token * plan.code_stride
    place = token * plan.scale_stride
    for group in range(groups):
        lower = simd.load_floats(x, ONE)
        upper = simd.load_floats(x + 64, ONE)
        most = simd.largest_of(simd.larger(simd.magnitude(lower), simd.magnitude(upper)))
        total = simd.sum_of(simd.add(lower, upper))
        inverse = simd.splat(np.float32(32767) / max(most, np.float32(1e-30)), ONE)
        simd.store_rounded(codes, simd.multiply(lower, inverse))
        simd.store_rounded(codes + 32, simd.multiply(upper, inverse))
        scale = most / np.float32(32767) + (total - total)
        simd.store_float(plan.scales + place + group * 4, scale)
        simd.store_float(plan.sums + place + group * 4, total)
        x += 128
        codes += 64


@_compiled
def _copy(to, source, size):
    for at in range(0, size, LANES * 4):
        simd.store_floats(to + at, simd.load_floats(source + at, ONE))


# Attention


@_compiled
def _rotate(plan, token, dims):
    """Rotary embedding of queries and keys; keys and values into the cache as bf16.

    Values lie as (position, head_dim); keys as (position / 16, head_dim, 16), so that 16 positions
    fill a vector.
    """
    position = plan.position + token
    head_dim = len(dims) * LANES
    angles = plan.rotation + position * head_dim * 4
    projected = plan.projected + token * plan.projected_stride
    for head in range(plan.query_size // head_dim):
        _turn(projected + head * head_dim * 4, angles, head_dim, np.float32(plan.query_scale))
    for head in range(plan.key_heads):
        source = projected + (plan.query_size + head * head_dim) * 4
        _turn(source, angles, head_dim, np.float32(1))
        first = (plan.layer * plan.key_heads + head) * plan.capacity
        tile = first + position // LANES * LANES
        key = plan.keys + (tile * head_dim + position % LANES) * 2
        simd.scatter_bf16(key, LANES * 2, simd.load_floats(source, dims))
        value = plan.values + (first + position) * head_dim * 2
        simd.store_bf16(value, simd.load_floats(source + plan.key_size * 4, dims))


@_compiled
def _turn(x, angles, head_dim, factor):
    """Turn (x[i], x[i + d/2]) by the i-th angle: all cosines, then all sines."""
    half = head_dim * 2
    scale = simd.splat(factor, ONE)
    for at in range(0, half, LANES * 4):
        cos = simd.multiply(simd.load_floats(angles + at, ONE), scale)
        sin = simd.multiply(simd.load_floats(angles + half + at, ONE), scale)
        first = simd.load_floats(x + at, ONE)
        second = simd.load_floats(x + half + at, ONE)
        turned = simd.subtract(simd.multiply(first, cos), simd.multiply(second, sin))
        simd.store_floats(x + at, turned)
        turned = simd.add(simd.multiply(second, cos), simd.multiply(first, sin))
        simd.store_floats(x + half + at, turned)


@_compiled
def _spans(plan):
    return (plan.position + plan.count + SPAN - 1) // SPAN


@_compiled
def _blocks(plan):
    """Of tokens whose attention is computed at once."""
    return 1 if plan.batch == 1 else (plan.count + 3) // 4


@_compiled
def _splits(plan):
    """Into how many parts the positions are cut: as many as there are spans, or none for long
    prompts, which have work enough for everybody.
    """
    if _blocks(plan) * plan.key_heads >= 8 * plan.members:
        return 1
    return _spans(plan)


@_compiled
def _attend(plan, member, unit, dims, group, rows):
    """One key head, one token or four, one span or all of them.

    `rows` are the queries: of each token all heads of the group. Of each row the result has the
    largest score, the sum of the weights relative to it, and the values added up with these weights
    (Milakov & Gimelshein 2018, Dao et al. 2022).
    """
    head_dim = len(dims) * LANES
    heads = len(group)
    splits = _splits(plan)
    split, rest = unit % splits, unit // splits
    head, block = rest % plan.key_heads, rest // plan.key_heads
    first = block * (len(rows) // heads)
    result = plan.parts + unit * plan.part_size
    queries = plan.scratch + member * plan.scratch_size
    part = queries + len(rows) * head_dim * 4
    scores = part + plan.part_size
    for row in range(len(rows)):
        token, h = first + row // heads, row % heads
        query = plan.projected + token * plan.projected_stride + (head * heads + h) * head_dim * 4
        _copy(queries + row * head_dim * 4, query, head_dim * 4)
        simd.store_float(result + row * LANES * 4, _NOTHING)
        simd.store_float(result + row * LANES * 4 + 4, np.float32(0))
        sums = result + (len(rows) * LANES + row * head_dim) * 4
        simd.store_floats(sums, simd.zero_floats(dims))
    start, end = (0, _spans(plan)) if splits == 1 else (split, split + 1)
    seen = plan.position + min(first + len(rows) // heads, plan.count)  # by the last of the tokens
    for span in range(start, end):
        limit = min(SPAN, seen - span * SPAN)
        if limit <= 0:
            break
        place = ((plan.layer * plan.key_heads + head) * plan.capacity + span * SPAN) * head_dim * 2
        _score(queries, plan.keys + place, limit, scores, dims, rows)
        for row in range(len(rows)):
            count = plan.position + first + row // heads + 1 - span * SPAN
            _soften(scores + row * SPAN * 4, min(count, limit), limit, part + row * LANES * 4)
        _mix(scores, plan.values + place, limit, part + len(rows) * LANES * 4, dims, group, rows)
        for row in range(len(rows)):
            _combine(result, part, row, len(rows), dims)


@_compiled
def _score(queries, keys, limit, scores, dims, rows):
    """The scores (row, position) of the first `limit` positions of a span, and a few beyond."""
    head_dim = len(dims) * LANES
    for j in range(0, limit, LANES):
        a = simd.zero_floats(rows)
        b = simd.zero_floats(rows)
        key = keys + j * head_dim * 2
        query = queries
        for _ in range(head_dim // 2):
            k = simd.repeat(simd.load_bf16(key, ONE), rows)
            a = simd.fma(k, simd.splat_each(query, head_dim * 4, rows), a)
            k = simd.repeat(simd.load_bf16(key + 32, ONE), rows)
            b = simd.fma(k, simd.splat_each(query + 4, head_dim * 4, rows), b)
            key += 64
            query += 8
        simd.store_each(scores + j * 4, SPAN * 4, simd.add(a, b))


@_compiled
def _soften(scores, count, limit, result):
    """Scores -> 2 ** (score - largest), 0 from `count` on; the largest, and their sum."""
    end = (limit + LANES - 1) // LANES * LANES
    for j in range(max(count, 0), end):
        simd.store_float(scores + j * 4, _NOTHING)
    most = simd.load_floats(scores, ONE)
    for j in range(LANES, end, LANES):
        most = simd.larger(most, simd.load_floats(scores + j * 4, ONE))
    largest = simd.largest_of(most)
    shift = simd.splat(largest, ONE)
    total = simd.zero_floats(ONE)
    for j in range(0, end, LANES):
        power = simd.subtract(simd.load_floats(scores + j * 4, ONE), shift)
        weights = simd.power_of_two(_clamp(power, ONE))
        simd.store_floats(scores + j * 4, weights)
        total = simd.add(total, weights)
    for j in range(max(count, 0), end):
        simd.store_float(scores + j * 4, np.float32(0))
    simd.store_float(result, largest)
    simd.store_float(result + 4, simd.sum_of(total) if count > 0 else np.float32(0))


@_compiled
def _mix(weights, values, limit, sums, dims, group, rows):
    """The values of a span, added up with each row's weights."""
    head_dim = len(dims) * LANES
    if len(rows) == len(group):  # all numbers of a head at once, so that values are read in order
        for h in range(len(group)):
            mixed = simd.zero_floats(dims)
            for j in range(limit):
                v = simd.load_bf16(values + j * head_dim * 2, dims)
                weight = simd.splat(simd.load_float(weights + (h * SPAN + j) * 4), dims)
                mixed = simd.fma(v, weight, mixed)
            simd.store_floats(sums + h * head_dim * 4, mixed)
        return
    for d in range(0, head_dim, LANES):  # as many rows as there are registers for
        mixed = simd.zero_floats(rows)
        value = values + d * 2
        for j in range(limit):
            v = simd.repeat(simd.load_bf16(value, ONE), rows)
            mixed = simd.fma(v, simd.splat_each(weights + j * 4, SPAN * 4, rows), mixed)
            value += head_dim * 2
        simd.store_each(sums + d * 4, head_dim * 4, mixed)


@_compiled
def _combine(result, part, row, rows, dims):
    """Take a row of `part` into the same of `result`."""
    head_dim = len(dims) * LANES
    a, b = result + row * LANES * 4, part + row * LANES * 4
    largest = max(simd.load_float(a), simd.load_float(b))
    old, new = _weight_of(a, largest), _weight_of(b, largest)
    total = old * simd.load_float(a + 4) + new * simd.load_float(b + 4)
    simd.store_float(a, largest)
    simd.store_float(a + 4, total)
    place = (rows * LANES + row * head_dim) * 4
    numbers = simd.multiply(simd.load_floats(result + place, dims), simd.splat(old, dims))
    numbers = simd.fma(simd.load_floats(part + place, dims), simd.splat(new, dims), numbers)
    simd.store_floats(result + place, numbers)


@_compiled
def _weight_of(result, largest):
    power = simd.splat(simd.load_float(result) - largest, ONE)
    return simd.first_of(simd.power_of_two(_clamp(power, ONE)))


@_compiled
def _merge(plan, member, token, dims, group):
    """The parts of all splits become inputs of the output matrix, (token, head, head_dim)."""
    head_dim = len(dims) * LANES
    heads = len(group)
    rows = heads if plan.batch == 1 else 4 * heads
    splits = _splits(plan)
    block = token // (rows // heads)
    out = plan.attended + token * plan.input_stride
    for head in range(plan.key_heads):
        first = plan.parts + (block * plan.key_heads + head) * splits * plan.part_size
        for h in range(heads):
            row = token % (rows // heads) * heads + h
            for split in range(1, splits):
                if plan.position + token >= split * SPAN:
                    _combine(first, first + split * plan.part_size, row, rows, dims)
            total = simd.load_float(first + row * LANES * 4 + 4)
            sums = simd.load_floats(first + (rows * LANES + row * head_dim) * 4, dims)
            sums = simd.multiply(sums, simd.splat(np.float32(1) / total, dims))
            simd.store_floats(out + (head * heads + h) * head_dim * 4, sums)
    _round(plan, token, plan.attended, plan.query_size)


def llvm_ir(head_dim, group_size):
    """`lead` and `help_out` for such heads: {name: (its name in the text, LLVM's text)}.

    Not optimised: numba would do that once for each level of calls.
    """
    dims, group = (0,) * (head_dim // LANES), (0,) * group_size

    def lead_with(plan, member):
        lead(plan, member, dims, group)

    def help_out_with(plan, member):
        help_out(plan, member, dims, group)

    level, config.OPT = config.OPT, config._OptLevel(0)
    try:
        return {"lead": _text_of(lead_with), "help_out": _text_of(help_out_with)}
    finally:
        config.OPT = level


def _text_of(function):
    compiled = _compiled(types.void(from_dtype(PLAN), types.intp))(function)
    (result,) = compiled.overloads.values()
    return result.fndesc.llvm_func_name, result.library.get_llvm_str()
