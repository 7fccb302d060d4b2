"""One step of the network as compiled code: a few tokens in, logits out, no library on the way.

A step is a chain of phases (a matrix, the attention of a layer, ...). A phase is cut into chunks,
and the threads of a team take one after the other: the leader opens a phase and goes on when all of
its chunks are done, whoever did them. So a helper that is late, or asleep, is not waited for.

Numbers are 32-bit floats, and memory is addressed as in `plan.py`. A token's numbers do not depend
on how many tokens are read in one step.
"""

from numba import from_dtype, types
from numba.core import config

from engine.step import attention, inputs, matrices, simd
from engine.step.packing import LANES
from engine.step.plan import (
    ATTEND,
    DOWN,
    GATE_UP,
    HEAD,
    MERGE,
    NORMALISE,
    OUTPUT,
    PLAN,
    QKV,
    ROTATE,
    ROUND,
)

_PATIENCE = 30_000  # looks for work before a helper goes to sleep: about a millisecond
_LATE = 8_000  # looks for a chunk's end after which its thread was surely taken off its core


@simd.kernel
def lead(plan, member, dims, group):
    """Carry out the step that `plan` describes, with whoever helps.

    `dims` has an entry for each 16 numbers of a head, `group` for each query head of a key head.
    """
    for token in range(plan.count):
        matrices.embed(plan, token)
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
        simd.copy(plan.hidden, plan.hidden + (plan.count - 1) * plan.width * 4, plan.width * 4)
    plan.norm = 2 * plan.layers
    for phase in (NORMALISE, HEAD):
        _share(plan, phase, member, dims, group)


@simd.kernel
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


@simd.kernel
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


@simd.kernel
def _has_chunk(ticket):
    """A ticket is the phase's number, its count of chunks, and the next chunk."""
    return (ticket & 0xFFFF) < (ticket >> 16 & 0xFFFF)


@simd.kernel
def _take_chunk(plan, member, ticket, dims, group):
    """Do the ticket's next chunk, unless another thread was faster."""
    if not simd.replace_shared(plan.ticket, ticket, ticket + 1):
        return
    chunk = ticket & 0xFFFF
    start = _chunk_start(chunk, plan.units, plan.members)
    end = _chunk_start(chunk + 1, plan.units, plan.members)
    _do(plan, member, start, end, dims, group)
    simd.add_shared(plan.done, 1)


@simd.kernel
def _units(plan):
    phase = plan.phase
    if phase == ATTEND:
        return attention.blocks(plan) * plan.key_heads * attention.splits(plan)
    if phase == QKV:
        return (plan.query_size + 2 * plan.key_size) // LANES
    if phase == GATE_UP:
        return plan.inner_size // LANES
    if phase == HEAD:
        return plan.vocabulary // LANES
    if phase in (OUTPUT, DOWN):
        return plan.width // LANES
    return plan.count


@simd.kernel
def _looks(plan):
    """How many looks for a chunk's end a unit may take, three times what it should."""
    if plan.phase == ATTEND:
        rows = min(plan.batch, 4) * plan.query_size // plan.key_size
        return rows * (plan.position + plan.count) // attention.splits(plan)
    return plan.width * plan.batch // 16


@simd.kernel
def _by_token(phase):
    return phase in (NORMALISE, ROTATE, MERGE, ROUND)


@simd.kernel
def _chunk_count(units, members):
    if members == 1:
        return 1
    if units <= 4 * members:
        return units
    return 3 * members


@simd.kernel
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


@simd.kernel
def _do(plan, member, start, end, dims, group):
    """Units `start` to `end` of the phase."""
    phase = plan.phase
    first = start - start
    if phase == NORMALISE:
        for token in range(start, end):
            inputs.normalise(plan, token)
    elif phase == ROTATE:
        for token in range(start, end):
            attention.rotate(plan, token, dims)
    elif phase == ATTEND:
        for unit in range(start, end):
            if plan.batch == 1:
                attention.attend(plan, member, unit, dims, group, group)
            else:
                attention.attend(plan, member, unit, dims, group, group + group + group + group)
    elif phase == MERGE:
        for token in range(start, end):
            attention.merge(plan, member, token, dims, group)
    elif phase == ROUND:
        for token in range(start, end):
            inputs.round_inputs(plan, token, plan.inner, plan.inner_size)
    elif plan.batch == 1 or (phase == HEAD and plan.wanted == 1):
        for unit in range(start, end):
            matrices.multiply(plan, unit, first, simd.ONE)
    else:
        for token in range(0, plan.batch - 4, 8):  # whose inputs stay in the innermost cache
            for unit in range(start, end):
                matrices.multiply(plan, unit, token, simd.EIGHT)
        if plan.batch % 8 != 0:
            for unit in range(start, end):
                matrices.multiply(plan, unit, plan.batch - 4, simd.FOUR)


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
    compiled = simd.kernel(types.void(from_dtype(PLAN), types.intp))(function)
    (result,) = compiled.overloads.values()
    return result.fndesc.llvm_func_name, result.library.get_llvm_str()
