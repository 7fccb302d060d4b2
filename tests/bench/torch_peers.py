"""Torch's side of compare.py: transformers, and a decoder as it is usually written out."""

import time
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from peers import Setup

from engine.files.weights import load_state_dict, read_config


class Transformers:
    """Transformers' own model and cache."""

    def __init__(self, setup: Setup) -> None:
        import transformers
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        config, state = torch_weights(setup)
        with torch.device("meta"):
            model = transformers.LlamaForCausalLM(
                transformers.LlamaConfig(
                    vocab_size=config.vocab_size,
                    hidden_size=config.hidden_size,
                    intermediate_size=config.intermediate_size,
                    num_hidden_layers=config.num_hidden_layers,
                    num_attention_heads=config.num_attention_heads,
                    num_key_value_heads=config.num_key_value_heads,
                    max_position_embeddings=config.max_position_embeddings,
                    rms_norm_eps=config.rms_norm_eps,
                    rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
                    tie_word_embeddings=config.tie_word_embeddings,
                )
            )
        model.model.rotary_emb = LlamaRotaryEmbedding(model.config)
        model.load_state_dict(state, assign=True, strict=False)
        model.tie_weights()
        self.model = model.eval()
        self.held: list[int] = []
        self.version = f"{transformers.__version__}; torch {torch.__version__}"

    def prefill(self, ids: list[int]) -> dict[str, float]:
        started = time.perf_counter()
        output = self.model(torch.tensor([ids]), use_cache=True, logits_to_keep=1)
        self.first = output.logits[:, -1:].argmax(-1)
        self.held, self.cache = ids, output.past_key_values
        return {"": time.perf_counter() - started}

    def decode(self, ids: list[int], steps: int) -> float:
        if self.held != ids:
            self.prefill(ids)
        token = self.first
        started = time.perf_counter()
        for _ in range(steps):
            output = self.model(token, past_key_values=self.cache, use_cache=True)
            token = output.logits[:, -1:].argmax(-1)
        seconds = time.perf_counter() - started
        self.cache.crop(-steps)
        return seconds


class Reference:
    """A Llama decoder as it is usually written out, in one of three styles.

    "no-cache" reads the whole sequence again for every token. "concatenation" keeps keys and values
    and joins new ones on with torch.cat; so does "repeat-kv", which also copies them for all query
    heads of a group. Attention itself is torch's in all three.
    """

    def __init__(self, setup: Setup, style: str) -> None:

        self.style = style
        self.config, self.state = torch_weights(setup)
        self.held: list[int] = []
        self.version = f"torch {torch.__version__}"

    def prefill(self, ids: list[int]) -> dict[str, float]:
        started = time.perf_counter()
        self.cache: list[Any] = [None] * self.config.num_hidden_layers
        self.first = self._next(ids)
        self.held = ids
        return {"": time.perf_counter() - started}

    def decode(self, ids: list[int], steps: int) -> float:
        if self.held != ids:
            self.prefill(ids)
        token, all_ids, after_prompt = self.first, list(ids), list(self.cache)
        started = time.perf_counter()
        for _ in range(steps):
            all_ids.append(token)
            token = self._next(all_ids if self.style == "no-cache" else [token])
        seconds = time.perf_counter() - started
        self.cache = after_prompt
        return seconds

    def _next(self, ids: list[int]) -> int:
        """The likeliest token after `ids`, which follow what the cache holds."""
        past = 0 if self.cache[0] is None else self.cache[0][0].shape[2]
        x = F.embedding(torch.tensor([ids]), self.state["model.embed_tokens.weight"])
        exponent = torch.arange(0, self.config.head_dim, 2) / self.config.head_dim
        positions = torch.arange(past, past + len(ids))
        angles = positions[:, None] * self.config.rope_theta**-exponent
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in range(self.config.num_hidden_layers):
            x = x + self._attention(
                self._norm(x, f"layers.{layer}.input_layernorm"), layer, cos, sin
            )
            y = self._norm(x, f"layers.{layer}.post_attention_layernorm")
            gate = F.silu(self._linear(y, layer, "mlp.gate_proj"))
            x = x + self._linear(
                gate * self._linear(y, layer, "mlp.up_proj"), layer, "mlp.down_proj"
            )
        x = self._norm(x[:, -1:], "norm")
        head = self.state.get("lm_head.weight", self.state["model.embed_tokens.weight"])
        return int(F.linear(x, head).argmax())

    def _attention(self, x: Any, layer: int, cos: Any, sin: Any) -> Any:

        def heads(name: str) -> Any:
            shape = (1, x.shape[1], -1, self.config.head_dim)
            return self._linear(x, layer, f"self_attn.{name}_proj").view(shape).transpose(1, 2)

        def turned(y: Any) -> Any:
            first, second = y.chunk(2, -1)
            return y * cos + torch.cat((-second, first), -1) * sin

        q, k, v = turned(heads("q")), turned(heads("k")), heads("v")
        if self.style != "no-cache":
            if self.cache[layer] is not None:
                k = torch.cat((self.cache[layer][0], k), 2)
                v = torch.cat((self.cache[layer][1], v), 2)
            self.cache[layer] = (k, v)
        if self.style == "repeat-kv":
            k = k.repeat_interleave(self.config.group_size, 1)
            v = v.repeat_interleave(self.config.group_size, 1)
        mixed = F.scaled_dot_product_attention(
            q, k, v, is_causal=x.shape[1] > 1, enable_gqa=self.style != "repeat-kv"
        )
        return self._linear(mixed.transpose(1, 2).flatten(2), layer, "self_attn.o_proj")

    def _linear(self, x: Any, layer: int, name: str) -> Any:
        return x @ self.state[f"model.layers.{layer}.{name}.weight"].T

    def _norm(self, x: Any, name: str) -> Any:
        wide = x.float()
        wide = wide * (wide.square().mean(-1, keepdim=True) + self.config.rms_norm_eps).rsqrt()
        return self.state[f"model.{name}.weight"] * wide.to(x.dtype)


@cache
def torch_weights(setup: Setup) -> tuple[Any, dict[str, Any]]:
    """Config and weights, shared by all of a process's peers."""
    torch.set_num_threads(setup.threads)
    torch.set_grad_enabled(False)
    config = read_config(setup.file)
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[setup.precision]
    return config, load_state_dict(setup.file, config, dtype=dtype)
