"""From a model's files to packed weights, one matrix at a time."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from engine.files.codes import Codes
from engine.files.weights import StoredTensor, StoredWeights
from engine.model.config import ModelConfig
from engine.step.packing import (
    BF16,
    INT8,
    Q4,
    Matrix,
    interleaved,
    interleaved_rows,
    pack_bf16,
    pack_codes,
    padded,
    quantized,
    stacked,
)
from engine.step.weights import (
    DOWN,
    GATE_UP,
    OUTPUT,
    QKV,
    PackedWeights,
    matrix_count,
    size_of,
    table_of,
)

_EMBEDDING, _HEAD = "model.embed_tokens.weight", "lm_head.weight"
_LAYER_PARTS = {
    QKV: ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    OUTPUT: ("self_attn.o_proj",),
    GATE_UP: ("mlp.gate_proj", "mlp.up_proj"),
    DOWN: ("mlp.down_proj",),
}


def pack(
    stored: StoredWeights,
    config: ModelConfig,
    kinds: npt.NDArray[np.int64],
    before_matrix: Callable[[float], None] = lambda share: None,
) -> PackedWeights:
    """Pack all weights, each matrix as `kinds` has it, one matrix at a time.

    `before_matrix` is told the share that is done, and may raise to stop.
    """
    table = table_of(kinds, config)
    weights = PackedWeights(
        np.empty(size_of(table, config), np.uint8), table, norms_of(stored, config)
    )
    for number, kind in enumerate(kinds):
        before_matrix(number / len(kinds))
        if number == 1 and config.tie_word_embeddings:
            continue
        packed = _packed(stored, number, int(kind))
        start = int(table[number, 0])
        weights.data[start : start + len(packed.data)] = packed.data
    return weights


def kinds_for(stored: StoredWeights, config: ModelConfig, precision: str) -> npt.NDArray[np.int64]:
    """How each matrix is stored in that precision: "bf16", "int8", or "q4" for the file's codes."""
    if precision == "bf16":
        return np.full(matrix_count(config), BF16)
    kinds = np.full(matrix_count(config), INT8)
    if precision == "q4":
        for number in range(len(kinds)):
            parts = [stored[name] for name in parts_of(number) if name in stored]
            if all(part.type_name in ("Q4_0", "Q4_1") for part in parts):
                kinds[number] = Q4
    return kinds


def parts_of(number: int) -> list[str]:
    """Names of the tensors that make up matrix `number` of the table."""
    if number < 2:
        return [(_EMBEDDING, _HEAD)[number]]
    layer, which = divmod(number - 2, 4)
    return [f"model.layers.{layer}.{part}.weight" for part in _LAYER_PARTS[which]]


def norms_of(stored: StoredWeights, config: ModelConfig) -> npt.NDArray[np.float32]:
    """(2 * layers + 1, width): before attention and MLP of each layer, then before the head."""
    names = []
    for layer in range(config.num_hidden_layers):
        names += [
            f"model.layers.{layer}.input_layernorm.weight",
            f"model.layers.{layer}.post_attention_layernorm.weight",
        ]
    norms = np.zeros((len(names) + 1, padded(config.hidden_size)), np.float32)
    for row, name in enumerate([*names, "model.norm.weight"]):
        norms[row, : config.hidden_size] = stored[name].read(torch.float32).numpy()
    return norms


def _packed(stored: StoredWeights, number: int, kind: int) -> Matrix:
    names = parts_of(number)
    in_turns = number >= 2 and (number - 2) % 4 == GATE_UP
    if kind == BF16:
        parts = [stored[name].read(torch.bfloat16).view(torch.uint16).numpy() for name in names]
        return pack_bf16(interleaved_rows(*parts) if in_turns else np.concatenate(parts))
    codes = [_codes(stored[name], kind) for name in names]
    return pack_codes(interleaved(*codes) if in_turns else stacked(codes))


def _codes(tensor: StoredTensor, kind: int) -> Codes:
    """The file's own where they are of that kind."""
    if tensor.codes is not None:
        codes = tensor.codes()
        if (codes.minima is not None) == (kind == Q4):
            return codes
    return quantized(tensor.read(torch.float32).numpy())
