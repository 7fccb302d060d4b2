"""Attention in a step: keys and values into the cache, and what each token makes of them."""

import numpy as np

from engine.step import simd
from engine.step.inputs import round_inputs
from engine.step.packing import LANES
from engine.step.plan import SPAN

_NOTHING = np.float32(-1e30)  # the largest score among none


@simd.kernel
def rotate(plan, token, dims):
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


@simd.kernel
def _turn(x, angles, head_dim, factor):
    """Turn (x[i], x[i + d/2]) by the i-th angle: all cosines, then all sines."""
    half = head_dim * 2
    scale = simd.splat(factor, simd.ONE)
    for at in range(0, half, LANES * 4):
        cos = simd.multiply(simd.load_floats(angles + at, simd.ONE), scale)
        sin = simd.multiply(simd.load_floats(angles + half + at, simd.ONE), scale)
        first = simd.load_floats(x + at, simd.ONE)
        second = simd.load_floats(x + half + at, simd.ONE)
        turned = simd.subtract(simd.multiply(first, cos), simd.multiply(second, sin))
        simd.store_floats(x + at, turned)
        turned = simd.add(simd.multiply(second, cos), simd.multiply(first, sin))
        simd.store_floats(x + half + at, turned)


@simd.kernel
def _spans(plan):
    return (plan.position + plan.count + SPAN - 1) // SPAN


@simd.kernel
def blocks(plan):
    """Of tokens whose attention is computed at once."""
    return 1 if plan.batch == 1 else (plan.count + 3) // 4


@simd.kernel
def splits(plan):
    """Into how many parts the positions are cut: as many as there are spans, or none for long
    prompts, which have work enough for everybody.
    """
    if blocks(plan) * plan.key_heads >= 8 * plan.members:
        return 1
    return _spans(plan)


@simd.kernel
def attend(plan, member, unit, dims, group, rows):
    """One key head, one token or four, one span or all of them.

    `rows` are the queries: of each token all heads of the group. Of each row the result has the
    largest score, the sum of the weights relative to it, and the values added up with these weights
    (Milakov & Gimelshein 2018, Dao et al. 2022).
    """
    head_dim = len(dims) * LANES
    heads = len(group)
    parts = splits(plan)
    split, rest = unit % parts, unit // parts
    head, block = rest % plan.key_heads, rest // plan.key_heads
    first = block * (len(rows) // heads)
    result = plan.parts + unit * plan.part_size
    queries = plan.scratch + member * plan.scratch_size
    part = queries + len(rows) * head_dim * 4
    scores = part + plan.part_size
    for row in range(len(rows)):
        token, h = first + row // heads, row % heads
        query = plan.projected + token * plan.projected_stride + (head * heads + h) * head_dim * 4
        simd.copy(queries + row * head_dim * 4, query, head_dim * 4)
        simd.store_float(result + row * LANES * 4, _NOTHING)
        simd.store_float(result + row * LANES * 4 + 4, np.float32(0))
        sums = result + (len(rows) * LANES + row * head_dim) * 4
        simd.store_floats(sums, simd.zero_floats(dims))
    start, end = (0, _spans(plan)) if parts == 1 else (split, split + 1)
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


@simd.kernel
def _score(queries, keys, limit, scores, dims, rows):
    """The scores (row, position) of the first `limit` positions of a span, and a few beyond."""
    head_dim = len(dims) * LANES
    for j in range(0, limit, LANES):
        a = simd.zero_floats(rows)
        b = simd.zero_floats(rows)
        key = keys + j * head_dim * 2
        query = queries
        for _ in range(head_dim // 2):
            k = simd.repeat(simd.load_bf16(key, simd.ONE), rows)
            a = simd.fma(k, simd.splat_each(query, head_dim * 4, rows), a)
            k = simd.repeat(simd.load_bf16(key + 32, simd.ONE), rows)
            b = simd.fma(k, simd.splat_each(query + 4, head_dim * 4, rows), b)
            key += 64
            query += 8
        simd.store_each(scores + j * 4, SPAN * 4, simd.add(a, b))


@simd.kernel
def _soften(scores, count, limit, result):
    """Scores -> 2 ** (score - largest), 0 from `count` on; the largest, and their sum."""
    end = (limit + LANES - 1) // LANES * LANES
    for j in range(max(count, 0), end):
        simd.store_float(scores + j * 4, _NOTHING)
    most = simd.load_floats(scores, simd.ONE)
    for j in range(LANES, end, LANES):
        most = simd.larger(most, simd.load_floats(scores + j * 4, simd.ONE))
    largest = simd.largest_of(most)
    shift = simd.splat(largest, simd.ONE)
    total = simd.zero_floats(simd.ONE)
    for j in range(0, end, LANES):
        power = simd.subtract(simd.load_floats(scores + j * 4, simd.ONE), shift)
        weights = simd.power_of_two(simd.clamp(power, simd.ONE))
        simd.store_floats(scores + j * 4, weights)
        total = simd.add(total, weights)
    for j in range(max(count, 0), end):
        simd.store_float(scores + j * 4, np.float32(0))
    simd.store_float(result, largest)
    simd.store_float(result + 4, simd.sum_of(total) if count > 0 else np.float32(0))


@simd.kernel
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
            v = simd.repeat(simd.load_bf16(value, simd.ONE), rows)
            mixed = simd.fma(v, simd.splat_each(weights + j * 4, SPAN * 4, rows), mixed)
            value += head_dim * 2
        simd.store_each(sums + d * 4, head_dim * 4, mixed)


@simd.kernel
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


@simd.kernel
def _weight_of(result, largest):
    power = simd.splat(simd.load_float(result) - largest, simd.ONE)
    return simd.first_of(simd.power_of_two(simd.clamp(power, simd.ONE)))


@simd.kernel
def merge(plan, member, token, dims, group):
    """The parts of all splits become inputs of the output matrix, (token, head, head_dim)."""
    head_dim = len(dims) * LANES
    heads = len(group)
    rows = heads if plan.batch == 1 else 4 * heads
    parts = splits(plan)
    block = token // (rows // heads)
    out = plan.attended + token * plan.input_stride
    for head in range(plan.key_heads):
        first = plan.parts + (block * plan.key_heads + head) * parts * plan.part_size
        for h in range(heads):
            row = token % (rows // heads) * heads + h
            for split in range(1, parts):
                if plan.position + token >= split * SPAN:
                    _combine(first, first + split * plan.part_size, row, rows, dims)
            total = simd.load_float(first + row * LANES * 4 + 4)
            sums = simd.load_floats(first + (rows * LANES + row * head_dim) * 4, dims)
            sums = simd.multiply(sums, simd.splat(np.float32(1) / total, dims))
            simd.store_floats(out + (head * heads + h) * head_dim * 4, sums)
    round_inputs(plan, token, plan.attended, plan.query_size)
