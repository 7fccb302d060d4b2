"""SmolLM2's network: a Llama decoder with grouped-query attention, as plain modules.

Parameters carry the Hub's names, so the files' tensors fit without renaming. Letters in shape
comments: b batch, n new tokens, t all tokens (cached and new), h query heads, k key/value heads,
d head_dim, c hidden_size.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.model.config import ModelConfig
from engine.model.generate import generate
from engine.model.kv_cache import KVCache


class ModelOutput(NamedTuple):
    """`logits` (b, n, vocab); `past_key_values` is the cache to pass to the next call."""

    logits: Tensor
    past_key_values: KVCache | None


class RMSNorm(nn.Module):
    """Scale a vector to unit mean square, in fp32 whatever it came in (Zhang & Sennrich 2019)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class Rotation(NamedTuple):
    """Cosines and sines of one call's positions, (b, 1, n, d) each."""

    cos: Tensor
    sin: Tensor


def rotation_at(positions: Tensor, config: ModelConfig, dtype: torch.dtype) -> Rotation:
    """Rotary embedding for `positions` (b, n) (Su et al. 2021).

    Angles are computed in fp32 on every call, not kept in a buffer: casting a model to bf16 would
    cast the buffer too, and angles in bf16 are wrong from a few hundred positions on.
    """
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32, device=positions.device)
    frequency = config.rope_theta ** (-exponent / config.head_dim)  # (d/2,)
    angle = positions[:, None, :, None].float() * frequency  # (b, 1, n, d/2)
    angle = torch.cat((angle, angle), dim=-1)
    return Rotation(angle.cos().to(dtype), angle.sin().to(dtype))


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn each pair (x[i], x[i + d/2]) by its position's angle; x is (b, heads, n, d)."""
    first, second = x.chunk(2, dim=-1)
    return x * rotation.cos + torch.cat((-second, first), dim=-1) * rotation.sin


class Attention(nn.Module):
    """Grouped-query attention (Ainslie et al. 2023): h query heads share k key/value heads."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.head_dim = config.head_dim
        self.kv_heads = config.num_key_value_heads
        self.group_size = config.group_size
        query_size = config.num_attention_heads * config.head_dim
        kv_size = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, query_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.o_proj = nn.Linear(query_size, config.hidden_size, bias=False)

    def forward(
        self, x: Tensor, rotation: Rotation, visible: Tensor | None, cache: KVCache | None
    ) -> Tensor:
        batch, new, _ = x.shape
        q = rotate(self._heads(self.q_proj(x)), rotation)  # (b, h, n, d)
        k = rotate(self._heads(self.k_proj(x)), rotation)  # (b, k, n, d)
        v = self._heads(self.v_proj(x))
        if cache is not None:
            k, v = cache.extend(self.layer, k, v)  # (b, k, t, d)
        if new == 1:
            # The heads of a group become the rows of one product, so keys are read once a group.
            q = q.view(batch, self.kv_heads, self.group_size, self.head_dim)
        mixed = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=visible,
            # Without a mask there is one new token, which sees all, or no past.
            is_causal=visible is None and new > 1,
            enable_gqa=new > 1 and self.group_size > 1,
        )
        mixed = mixed.reshape(batch, -1, new, self.head_dim)
        joined: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(batch, new, -1))
        return joined

    def _heads(self, x: Tensor) -> Tensor:
        batch, new, _ = x.shape
        return x.view(batch, new, -1, self.head_dim).transpose(1, 2)


class MLP(nn.Module):
    """SwiGLU (Shazeer 2020): `down(silu(gate(x)) * up(x))`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Block(nn.Module):
    """Attention, then MLP, each on a normalised copy and added back (pre-norm)."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(
        self, x: Tensor, rotation: Rotation, visible: Tensor | None, cache: KVCache | None
    ) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), rotation, visible, cache)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Decoder(nn.Module):
    """Everything below the head; the Hub's files call it `model`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        # Made from given numbers, an embedding does not draw any of its own; `Llama` does.
        numbers = torch.empty(config.vocab_size, config.hidden_size)
        self.embed_tokens: nn.Embedding = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
            numbers, freeze=False
        )
        self.layers = nn.ModuleList(
            Block(config, layer) for layer in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class Llama(nn.Module):
    """The whole model. A new one is randomly initialised and can be trained."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        # A tied head is no module: the embedding's weight is used in its place.
        self.lm_head = (
            None
            if config.tie_word_embeddings
            else nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        )
        if self.device.type != "meta":  # where drawing imports torch's compiler, for nothing
            for module in self.modules():
                if isinstance(module, (nn.Linear, nn.Embedding)):
                    nn.init.normal_(module.weight, std=config.initializer_range)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        return self.model.embed_tokens.weight.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.embed_tokens.weight.device

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: KVCache | None = None,
        use_cache: bool = False,
        *,
        logits_to_keep: int = 0,
        before_layer: Callable[[int], None] | None = None,
    ) -> ModelOutput:
        """Logits for `input_ids` (b, n), which follow whatever `past_key_values` holds.

        `attention_mask` (b, t) is 1 for tokens and 0 for padding, cached ones included; padding may
        stand on either side. `past_key_values` is written in place; `use_cache` starts one where
        none is given. `logits_to_keep` limits the head to that many last positions (0: all).
        `before_layer(index)` is called before each layer and may raise to stop: the cache then
        still holds what it held before the call. Raises ValueError for shapes that do not fit.
        """
        cache = past_key_values
        if cache is None and use_cache:
            cache = KVCache(
                self.config, batch_size=input_ids.shape[0], dtype=self.dtype, device=self.device
            )
        past = 0 if cache is None else cache.length
        self._check(input_ids, attention_mask, cache, past)
        x: Tensor = self.model.embed_tokens(input_ids)  # (b, n, c)
        positions = _positions(input_ids, attention_mask, past)
        rotation = rotation_at(positions, self.config, x.dtype)
        visible = _visible(input_ids, attention_mask, past)
        for index, block in enumerate(self.model.layers):
            if before_layer is not None:
                before_layer(index)
            x = block(x, rotation, visible, cache)
        if cache is not None:
            cache.advance(input_ids.shape[1])
        x = self.model.norm(x[:, -logits_to_keep:])
        head = self.model.embed_tokens if self.lm_head is None else self.lm_head
        return ModelOutput(F.linear(x, head.weight), cache)

    def generate(self, input_ids: Tensor, max_new_tokens: int, **options: Any) -> Tensor:
        """`engine.generate` with this model."""
        return generate(self, input_ids, max_new_tokens, **options)

    def _check(
        self, input_ids: Tensor, attention_mask: Tensor | None, cache: KVCache | None, past: int
    ) -> None:
        batch, new = input_ids.shape
        total = past + new
        if new < 1:
            raise ValueError("input_ids holds no tokens")
        if total > self.config.max_position_embeddings:
            raise ValueError(
                f"{total} tokens do not fit {self.config.max_position_embeddings} positions"
            )
        if cache is not None and cache.batch_size != batch:
            raise ValueError(f"the cache holds {cache.batch_size} sequences, input_ids {batch}")
        if attention_mask is not None and attention_mask.shape != (batch, total):
            raise ValueError(
                f"attention_mask is {tuple(attention_mask.shape)}, but must cover past and new "
                f"tokens: {(batch, total)}"
            )


def _positions(input_ids: Tensor, attention_mask: Tensor | None, past: int) -> Tensor:
    """Each new token's place in its sequence (b, n), padding not counted."""
    batch, new = input_ids.shape
    if attention_mask is None:
        return torch.arange(past, past + new, device=input_ids.device).expand(batch, new)
    return (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, past:]


def _visible(input_ids: Tensor, attention_mask: Tensor | None, past: int) -> Tensor | None:
    """Which tokens each new token sees, (n, t) or (b, 1, n, t); None for plain causal attention."""
    new = input_ids.shape[1]
    if attention_mask is None and (new == 1 or past == 0):
        return None
    seen_from = torch.arange(past, past + new, device=input_ids.device)[:, None]
    at = torch.arange(past + new, device=input_ids.device)
    causal = at <= seen_from  # (n, t): shifted by what is cached
    if attention_mask is None:
        return causal
    # Padding sees itself: a row that sees nothing is NaN in some backends, and 0 * NaN spreads.
    return (causal & attention_mask.bool()[:, None, None, :]) | (at == seen_from)
