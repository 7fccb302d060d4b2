"""SmolLM2's network over a static cache, in as few kernels as plain torch allows.

On a GPU a small model's step is bound by the number of kernels, not by their work. Per layer there
are 13, where the modules take 40. Letters in shape comments are those of `engine.model.llama`, and
L the stretch of the cache that is looked at.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.model.llama import Block, Llama, rotation_at
from engine.run.static_cache import StaticCache


class _Layer(NamedTuple):
    attention_norm: Tensor
    qkv: Tensor
    attention_out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    mlp_out: Tensor


class FusedLlama:
    """Computes what `Llama` computes, for one sequence, from the same weights in memory.

    The module stays whole: its matrices that share an input become neighbours in one tensor, once,
    whoever asks. All state is in tensors of fixed addresses; a call depends on nothing else.
    """

    def __init__(self, model: Llama, cache: StaticCache) -> None:
        config = model.config
        self._config = config
        self._cache = cache
        self._layers = [_layer(cast(Block, block)) for block in model.model.layers]
        self._embedding = model.model.embed_tokens.weight
        self._norm = model.model.norm.weight
        self._head = self._embedding if model.lm_head is None else model.lm_head.weight
        self._at = torch.arange(cache.positions, device=model.device)
        cos, sin = rotation_at(self._at[None], config, model.dtype)
        first, second = sin[0, 0].chunk(2, dim=-1)
        self._cos = cos[0, 0]  # (positions, d)
        self._sin = torch.cat((-first, second), dim=-1)  # signed, for a roll instead of `rotate`

    def hidden(
        self,
        ids: Tensor,
        positions: Tensor,
        *,
        stretch: int,
        before_layer: Callable[[], None] | None = None,
    ) -> Tensor:
        """The last layer's normalised output (n, c) for `ids` (n,) at `positions` (n,).

        They see themselves and all earlier positions, and `stretch` must cover them.
        `before_layer` is called before each layer and may raise to stop.
        """
        x = F.embedding(ids, self._embedding)
        cos = self._cos.index_select(0, positions)[:, None]  # (n, 1, d)
        sin = self._sin.index_select(0, positions)[:, None]
        mask = self._mask(positions, stretch, x.dtype)
        for index, layer in enumerate(self._layers):
            if before_layer is not None:
                before_layer()
            qkv = F.linear(self._normalise(x, layer.attention_norm), layer.qkv)
            heads = qkv.view(len(ids), -1, self._config.head_dim)  # (n, h + 2k, d)
            mixed = self._attend(index, positions, heads, cos, sin, mask)
            x.addmm_(mixed, layer.attention_out.T)
            gate_up = F.linear(self._normalise(x, layer.mlp_norm), layer.gate_up)
            gate, up = gate_up.chunk(2, dim=-1)
            x.addmm_(F.silu(gate) * up, layer.mlp_out.T)
        return self._normalise(x, self._norm)

    def logits(self, hidden: Tensor) -> Tensor:
        """(n, c) to (n, vocab), in the model's precision."""
        return F.linear(hidden, self._head)

    def _attend(
        self, layer: int, positions: Tensor, heads: Tensor, cos: Tensor, sin: Tensor, mask: Tensor
    ) -> Tensor:
        """Rotate queries and keys in place, keep keys and values; what is seen, mixed (n, h*d)."""
        config = self._config
        query_heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        new, _, head_dim = heads.shape
        turning = heads[:, : query_heads + kv_heads]
        turned = turning.roll(head_dim // 2, dims=-1)
        turning.mul_(cos).addcmul_(turned, sin)
        self._cache.write(layer, positions, heads[:, query_heads:])
        keys, values = self._cache.read(layer, mask.shape[1])
        # The heads of a group become rows of one product, so keys are read once a group.
        q = heads[:, :query_heads].view(new, kv_heads, config.group_size, head_dim)
        q = q.permute(1, 2, 0, 3).reshape(1, kv_heads, config.group_size * new, head_dim)
        mixed = F.scaled_dot_product_attention(q, keys[None], values[None], attn_mask=mask)
        mixed = mixed.reshape(kv_heads, config.group_size, new, head_dim)
        return mixed.permute(2, 0, 1, 3).reshape(new, query_heads * head_dim)

    def _mask(self, positions: Tensor, stretch: int, dtype: torch.dtype) -> Tensor:
        """What to add to scores, (group * n, L): 0 where a token sees, -inf where it does not."""
        later = self._at[:stretch] > positions[:, None]
        mask = torch.zeros(later.shape, dtype=dtype, device=later.device)
        return mask.masked_fill_(later, float("-inf")).repeat(self._config.group_size, 1)

    def _normalise(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], weight, self._config.rms_norm_eps)


def _layer(block: Block) -> _Layer:
    attention, mlp = block.self_attn, block.mlp
    return _Layer(
        attention_norm=block.input_layernorm.weight,
        qkv=_joined((attention.q_proj, attention.k_proj, attention.v_proj)),
        attention_out=attention.o_proj.weight,
        mlp_norm=block.post_attention_layernorm.weight,
        gate_up=_joined((mlp.gate_proj, mlp.up_proj)),
        mlp_out=mlp.down_proj.weight,
    )


def _joined(linears: Sequence[nn.Linear]) -> Tensor:
    """The matrices of linears with one input as one, (all rows, c), of which theirs are views."""
    weights = [linear.weight for linear in linears]
    rows, columns = sum(weight.shape[0] for weight in weights), weights[0].shape[1]
    if not _are_neighbours(weights):
        # Their kind of tensor, whatever is in force here: a module stays as trainable as it was.
        with torch.inference_mode(weights[0].is_inference()), torch.no_grad():
            joined, start = torch.cat(weights), 0
            for weight in weights:
                weight.data = joined[start : start + weight.shape[0]]
                start += weight.shape[0]
    return weights[0].as_strided((rows, columns), (columns, 1))


def _are_neighbours(weights: Sequence[Tensor]) -> bool:
    """Whether each begins where the one before it ends, in the same memory."""
    memory = weights[0].untyped_storage().data_ptr()
    ends = [weight.storage_offset() + weight.numel() for weight in weights]
    return all(weight.is_contiguous() for weight in weights) and all(
        weight.untyped_storage().data_ptr() == memory and weight.storage_offset() == end
        for weight, end in zip(weights[1:], ends, strict=False)
    )
