"""The inputs of a step's matrices: normalised, and rounded to shorts."""

import numpy as np

from engine.step import simd
from engine.step.packing import GROUP, LANES


@simd.kernel
def normalise(plan, token):
    """RMSNorm of `hidden`, as the inputs of the next matrix."""
    x = plan.hidden + token * plan.width * 4
    out = plan.inputs + token * plan.input_stride
    squares = simd.zero_floats(simd.ONE)
    for at in range(0, plan.width * 4, LANES * 4):
        numbers = simd.load_floats(x + at, simd.ONE)
        squares = simd.fma(numbers, numbers, squares)
    mean = simd.sum_of(squares) / np.float32(plan.hidden_size)
    factor = simd.splat(np.float32(1) / np.sqrt(mean + np.float32(plan.epsilon)), simd.ONE)
    weights = plan.norms + plan.norm * plan.width * 4
    for at in range(0, plan.width * 4, LANES * 4):
        numbers = simd.multiply(simd.load_floats(x + at, simd.ONE), factor)
        simd.store_floats(
            out + at, simd.multiply(numbers, simd.load_floats(weights + at, simd.ONE))
        )
    _round_token(plan, token, plan.width // GROUP)


@simd.kernel
def round_inputs(plan, token, source, size):
    """`source` (token, size) as the inputs of the next matrix."""
    groups = (size + GROUP - 1) // GROUP
    at = token * plan.input_stride
    simd.copy(plan.inputs + at, source + at, groups * GROUP * 4)
    _round_token(plan, token, groups)


@simd.kernel
def _round_token(plan, token, groups):
    """Inputs as shorts, with a scale and a sum for each 32. What is not finite makes both NaN."""
    x = plan.inputs + token * plan.input_stride
    codes = plan.codes + token * plan.code_stride
    place = token * plan.scale_stride
    for group in range(groups):
        lower = simd.load_floats(x, simd.ONE)
        upper = simd.load_floats(x + 64, simd.ONE)
        most = simd.largest_of(simd.larger(simd.magnitude(lower), simd.magnitude(upper)))
        total = simd.sum_of(simd.add(lower, upper))
        inverse = simd.splat(np.float32(32767) / max(most, np.float32(1e-30)), simd.ONE)
        simd.store_rounded(codes, simd.multiply(lower, inverse))
        simd.store_rounded(codes + 32, simd.multiply(upper, inverse))
        scale = most / np.float32(32767) + (total - total)
        simd.store_float(plan.scales + place + group * 4, scale)
        simd.store_float(plan.sums + place + group * 4, total)
        x += 128
        codes += 64
