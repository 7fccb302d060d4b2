"""Tiny random models and the files they travel in, for tests."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors.torch import save_file

from engine.files.weights import expected_shapes
from engine.model.config import ModelConfig

State = dict[str, torch.Tensor]


def tiny_config(**changes: Any) -> ModelConfig:
    """A model of some ten thousand parameters with grouped heads; `changes` replace its values."""
    values: dict[str, Any] = {
        "vocab_size": 96,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_ids": (2,),
        "pad_token_id": 2,
    }
    return ModelConfig(**values | changes)


def random_state(config: ModelConfig, seed: int = 0) -> State:
    """All weights in float32; the norms scatter around 1."""
    generator = torch.Generator().manual_seed(seed)
    state: State = {}
    for name, shape in expected_shapes(config).items():
        weights = torch.randn(shape, generator=generator) * 0.1
        state[name] = weights + 1 if "norm" in name else weights
    return state


def hub_description(config: ModelConfig) -> dict[str, Any]:
    """What a Hub `config.json` of this model says."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_position_embeddings,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tie_word_embeddings,
        "initializer_range": config.initializer_range,
        "bos_token_id": config.bos_token_id,
        "eos_token_id": config.eos_token_ids[0] if config.eos_token_ids else None,
        "pad_token_id": config.pad_token_id,
    }


def write_safetensors(folder: Path, config: ModelConfig, state: State, *, shards: int = 1) -> Path:
    """Write `config.json` and the weights, in one file or in several with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(hub_description(config)))
    if shards == 1:
        save_file(state, folder / "model.safetensors")
        return folder
    places: dict[str, str] = {}
    for shard in range(shards):
        file_name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = {name: state[name] for name in list(state)[shard::shards]}
        save_file(part, folder / file_name)
        places |= dict.fromkeys(part, file_name)
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def write_gguf(
    path: Path,
    config: ModelConfig,
    state: State,
    *,
    quantization: str = "F32",
    tokenizer_metadata: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Path:
    """Write the model as llama.cpp's converter would: names, order of q and k rows, metadata.

    `quantization` is of the matrices (what the gguf package can quantize to); norms stay float32.
    `metadata` is added to or replaces what follows from the config.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, arch="llama")
    entries = _gguf_description(config) | (tokenizer_metadata or {}) | (metadata or {})
    for key, value in entries.items():
        _add(writer, key, value)
    for name, tensor in state.items():
        weights = _interleaved(name, tensor.float().numpy(), config)
        kind = gguf.GGMLQuantizationType[quantization if weights.ndim > 1 else "F32"]
        packed = gguf.quantize(np.ascontiguousarray(weights), kind)
        writer.add_tensor(gguf_name(name), packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_name(name: str) -> str:
    """The Hub's name of a tensor -> GGUF's."""
    for ours, theirs in (
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers", "blk"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.", "attn_"),
        ("mlp.", "ffn_"),
        ("_proj", ""),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
    ):
        name = name.replace(ours, theirs)
    return name


def _gguf_description(config: ModelConfig) -> dict[str, Any]:
    description: dict[str, Any] = {
        "llama.block_count": config.num_hidden_layers,
        "llama.context_length": config.max_position_embeddings,
        "llama.embedding_length": config.hidden_size,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.attention.key_length": config.head_dim,
        "llama.rope.dimension_count": config.head_dim,
        "llama.rope.freq_base": config.rope_theta,
        "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
    }
    if config.bos_token_id is not None:
        description["tokenizer.ggml.bos_token_id"] = config.bos_token_id
    if config.eos_token_ids:
        description["tokenizer.ggml.eos_token_id"] = config.eos_token_ids[0]
    if config.pad_token_id is not None:
        description["tokenizer.ggml.padding_token_id"] = config.pad_token_id
    return description


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)


def _interleaved(name: str, weights: np.ndarray, config: ModelConfig) -> np.ndarray:
    """Rows of q and k as GGUF has them: row i of a head's first half, then of its second, ..."""
    half = config.head_dim // 2
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return weights
    order = [
        head * config.head_dim + part * half + row
        for head in range(len(weights) // config.head_dim)
        for row in range(half)
        for part in (0, 1)
    ]
    return weights[order]
