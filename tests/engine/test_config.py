"""Model descriptions: every source gives the same config, and nonsense is refused with a reason."""

import dataclasses

import pytest
import transformers

from engine.errors import ConfigError
from engine.model.config import PRESETS, ModelConfig

OLD = {
    "model_type": "llama",
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-05,
    "rope_theta": 100000,
    "rope_scaling": None,
    "tie_word_embeddings": True,
    "initializer_range": 1 / 24,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
    "hidden_act": "silu",
    "attention_bias": False,
}
NEW = {name: value for name, value in OLD.items() if name not in ("rope_theta", "rope_scaling")} | {
    "rope_parameters": {"rope_theta": 100000, "rope_type": "default"}
}
GGUF = {
    "general.architecture": "llama",
    "llama.block_count": 30,
    "llama.context_length": 8192,
    "llama.embedding_length": 576,
    "llama.feed_forward_length": 1536,
    "llama.attention.head_count": 9,
    "llama.attention.head_count_kv": 3,
    "llama.attention.layer_norm_rms_epsilon": 1e-05,
    "llama.rope.freq_base": 100000.0,
    "llama.rope.dimension_count": 64,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.padding_token_id": 2,
}


def from_gguf(metadata: dict) -> ModelConfig:
    return ModelConfig.from_gguf(metadata, vocab_size=49152, tie_word_embeddings=True)


def test_every_source_describes_the_same_model():
    preset = PRESETS["SmolLM2-135M-Instruct"]
    assert ModelConfig.from_dict(OLD) == preset
    assert ModelConfig.from_dict(NEW) == preset
    assert ModelConfig.from_hf(transformers.LlamaConfig(**NEW)) == preset
    # GGUF says nothing of initialisation.
    assert from_gguf(GGUF) == dataclasses.replace(preset, initializer_range=0.02)


@pytest.mark.parametrize(
    ("name", "hidden", "layers", "heads", "kv_heads", "theta", "positions", "parameters"),
    [
        ("SmolLM-135M", 576, 30, 9, 3, 10_000, 2048, 134_515_008),
        ("SmolLM-360M", 960, 32, 15, 5, 10_000, 2048, 361_821_120),
        ("SmolLM-1.7B", 2048, 24, 32, 32, 10_000, 2048, 1_711_376_384),
        ("SmolLM2-135M", 576, 30, 9, 3, 100_000, 8192, 134_515_008),
        ("SmolLM2-360M", 960, 32, 15, 5, 100_000, 8192, 361_821_120),
        ("SmolLM2-1.7B", 2048, 24, 32, 32, 130_000, 8192, 1_711_376_384),
    ],
)
def test_presets_have_the_published_shapes(
    name, hidden, layers, heads, kv_heads, theta, positions, parameters
):
    import torch

    from engine.model.llama import Llama

    for preset in (PRESETS[name], PRESETS[f"{name}-Instruct"]):
        assert preset.hidden_size == hidden
        assert preset.num_hidden_layers == layers
        assert preset.num_attention_heads == heads
        assert preset.num_key_value_heads == kv_heads
        assert preset.rope_theta == theta
        assert preset.max_position_embeddings == positions
    with torch.device("meta"):
        model = Llama(PRESETS[name])
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def changed(description: dict, **changes) -> dict:
    """The description with values replaced, or left out where the value is `...`."""
    merged = description | changes
    return {name: value for name, value in merged.items() if value is not ...}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rope_theta": ...}, "rope_theta is missing"),
        ({"rope_theta": "fast"}, "rope_theta is 'fast'"),
        ({"rope_theta": float("nan")}, "rope_theta is nan"),
        ({"rope_theta": 0}, "rope_theta is 0"),
        ({"rope_theta": True}, "rope_theta is True"),
        ({"rope_parameters": {"rope_theta": 7}}, "given twice and differs"),
        ({"rope_parameters": [1]}, "rope parameters are not a table"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8}}, r"scaled \('llama3'\)"),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, r"scaled \('linear'\)"),
        ({"rope_theta": 10**400}, "rope_theta is 1000"),
        ({"rms_norm_eps": 10**400}, "rms_norm_eps is 1000"),
        ({"num_key_value_heads": 4}, "cannot share 4 key/value heads"),
        ({"num_attention_heads": 7, "num_key_value_heads": 7}, "cannot be shared by 7 heads"),
        ({"num_attention_heads": 0}, "cannot be shared by 0 heads"),
        ({"head_dim": 63}, "even number"),
        ({"hidden_size": -576}, "hidden_size is -576"),
        ({"hidden_size": "576"}, "hidden_size is '576'"),
        ({"hidden_size": 576.0}, "hidden_size is 576.0"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"vocab_size": ...}, "vocab_size is missing"),
        ({"rms_norm_eps": None}, "rms_norm_eps is missing"),
        ({"rms_norm_eps": 0}, "rms_norm_eps is 0"),
        ({"eos_token_id": 49152}, "outside the vocabulary"),
        ({"eos_token_id": [2, -1]}, "outside the vocabulary"),
        ({"eos_token_id": "2"}, "outside the vocabulary"),
        ({"model_type": "qwen2"}, "type 'qwen2'"),
        ({"model_type": ...}, "type None"),
        ({"hidden_act": "gelu"}, "activation 'gelu'"),
        ({"attention_bias": True}, "uses attention_bias"),
        ({"mlp_bias": True}, "uses mlp_bias"),
        ({"quantization_config": {"quant_method": "gptq"}}, "uses quantization_config"),
        ({"tie_word_embeddings": "yes"}, "not true or false"),
    ],
)
def test_an_inconsistent_config_is_refused_with_its_reason(changes, reason):
    with pytest.raises(ConfigError, match=reason):
        ModelConfig.from_dict(changed(OLD, **changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"llama.rope.freq_base": ...}, "rope.freq_base is missing"),
        ({"general.architecture": "gpt2"}, "architecture 'gpt2'"),
        ({"llama.rope.dimension_count": 32}, "rope.dimension_count is 32"),
        ({"llama.rope.scaling.type": "yarn"}, "scaled"),
        ({"llama.attention.head_count": [9, 9]}, "head_count"),
        ({"llama.block_count": ...}, "block_count is missing"),
    ],
)
def test_an_inconsistent_gguf_is_refused_with_its_reason(changes, reason):
    with pytest.raises(ConfigError, match=reason):
        from_gguf(changed(GGUF, **changes))


@pytest.mark.parametrize("description", [None, [], "llama", 3])
def test_something_else_than_a_description_is_refused(description):
    with pytest.raises(ConfigError):
        ModelConfig.from_dict(description)


def test_missing_kv_heads_and_head_dim_follow_from_the_rest():
    config = ModelConfig.from_dict(changed(OLD, num_key_value_heads=..., head_dim=...))
    assert config.num_key_value_heads == 9
    assert config.head_dim == 64


@pytest.mark.parametrize("name", ["model_type", "hidden_act", "vocab_size", "rope_theta"])
@pytest.mark.parametrize("value", ["x" * 10**6, ["x"] * 10**5, {"x": "y" * 10**6}], ids=type)
def test_a_refusal_stays_short_whatever_the_file_holds(name, value):
    with pytest.raises(ConfigError) as caught:
        ModelConfig.from_dict(changed(OLD, **{name: value}))
    assert len(str(caught.value)) < 400
