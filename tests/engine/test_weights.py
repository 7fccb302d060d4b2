"""Weights: the same model from every kind of file, and plain words for what does not fit."""

import json
import math
import random
import struct
import threading
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.errors import ConfigError, ModelFileError, ModelNotFoundError, StoppedError
from engine.files.weights import load_state_dict, read_config


@pytest.fixture(scope="module")
def config(tiny_models):
    return tiny_models.tiny_config()


@pytest.fixture(scope="module")
def state(tiny_models, config):
    return tiny_models.random_state(config)


@pytest.fixture
def folder(tiny_models, config, state, tmp_path):
    """The tiny model as one safetensors file with its config."""
    return tiny_models.write_safetensors(tmp_path / "tiny model ü", config, state)


def load(path, config, dtype=torch.float32):
    return load_state_dict(path, config, dtype=dtype)


def assert_same(loaded, state, dtype=torch.float32):
    assert set(loaded) == set(state)
    for name, tensor in loaded.items():
        assert tensor.dtype == dtype
        assert torch.equal(tensor, state[name].to(dtype)), name


def refusal(path, config):
    with pytest.raises(ModelFileError) as caught:
        load(path, config)
    assert caught.value.remedy
    assert len(caught.value.what) < 600
    return caught.value.what


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_every_kind_of_file_gives_the_same_model(tiny_models, tmp_path, tied, kv_heads):
    config = tiny_models.tiny_config(tie_word_embeddings=tied, num_key_value_heads=kv_heads)
    state = tiny_models.random_state(config, 3)
    folder = tiny_models.write_safetensors(tmp_path / "one", config, state)
    paths = [
        folder,
        folder / "model.safetensors",
        tiny_models.write_safetensors(tmp_path / "many", config, state, shards=3),
        tiny_models.write_gguf(tmp_path / "tiny.gguf", config, state),
    ]
    for path in paths:
        read = read_config(path)
        # GGUF keeps floats in 32 bits and has no initializer range.
        assert read == replace(
            config, rms_norm_eps=read.rms_norm_eps, initializer_range=read.initializer_range
        )
        assert math.isclose(read.rms_norm_eps, config.rms_norm_eps, rel_tol=1e-6)
        assert_same(load(path, read), state)


def test_the_format_is_told_by_content_not_by_name(tiny_models, config, state, folder, tmp_path):
    path = tiny_models.write_gguf(tmp_path / "weights.safetensors", config, state)
    assert_same(load(path, read_config(path)), state)
    other = (folder / "model.safetensors").rename(folder / "weights.gguf")
    assert_same(load(other, read_config(other)), state)


@pytest.mark.parametrize("stored", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("asked", [torch.float32, torch.float16, torch.bfloat16])
def test_each_float_type_becomes_each(tiny_models, config, state, tmp_path, stored, asked):
    rounded = {name: tensor.to(stored) for name, tensor in state.items()}
    assert_same(
        load(tiny_models.write_safetensors(tmp_path, config, rounded), config, asked),
        rounded,
        asked,
    )


@pytest.mark.parametrize("quantization", ["F16", "BF16", "Q8_0"])
def test_packed_gguf_weights_are_close_and_q_and_k_in_order(
    tiny_models, config, state, tmp_path, quantization
):
    path = tiny_models.write_gguf(tmp_path / "a.gguf", config, state, quantization=quantization)
    for name, tensor in load(path, config).items():
        assert (tensor - state[name]).abs().max() < 0.01, name


def test_the_result_does_not_depend_on_the_file(tiny_models, config, state, folder, tmp_path):
    path = tiny_models.write_gguf(tmp_path / "a.gguf", config, state)
    for source, file in ((folder, folder / "model.safetensors"), (path, path)):
        loaded = load(source, config)
        with file.open("r+b") as opened:  # in place: a view into the file would change
            opened.write(bytes(file.stat().st_size))
        assert_same(loaded, state)
        loaded["model.norm.weight"] += 1  # memory of its own, and writable


def test_a_redundant_head_and_old_rotary_buffers_are_ignored(tiny_models, config, state, tmp_path):
    extra = state | {
        "lm_head.weight": state["model.embed_tokens.weight"].clone(),
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8),
    }
    assert_same(load(tiny_models.write_safetensors(tmp_path, config, extra), config), state)


def test_a_tied_model_with_a_head_of_its_own_is_refused(tiny_models, config, state, tmp_path):
    for name, head in {
        "other": torch.ones_like(state["model.embed_tokens.weight"]),
        "larger": torch.ones(200, config.hidden_size),
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        extra = state | {"lm_head.weight": head}
        what = refusal(tiny_models.write_safetensors(folder, config, extra), config)
        assert "lm_head.weight of its own" in what


def test_missing_and_superfluous_tensors_are_named(tiny_models, config, state, tmp_path):
    changed = dict(state)
    changed["model.layers.0.mlp.extra_proj.weight"] = changed.pop(
        "model.layers.0.mlp.gate_proj.weight"
    )
    what = refusal(tiny_models.write_safetensors(tmp_path, config, changed), config)
    assert "lacks 1 tensor (model.layers.0.mlp.gate_proj.weight)" in what
    assert "has 1 tensor (model.layers.0.mlp.extra_proj.weight) too many" in what


def test_a_wrong_shape_is_named_with_both_shapes(tiny_models, config, state, tmp_path):
    changed = state | {"model.layers.1.self_attn.k_proj.weight": torch.ones(64, 32)}
    what = refusal(tiny_models.write_safetensors(tmp_path, config, changed), config)
    assert "model.layers.1.self_attn.k_proj.weight" in what
    assert "(64, 32), not (32, 64)" in what


@pytest.mark.parametrize("dtype", [torch.int8, torch.float64, torch.bool, torch.float8_e4m3fn])
def test_an_unexpected_dtype_is_named(tiny_models, config, state, tmp_path, dtype):
    changed = state | {"model.norm.weight": torch.ones(64).to(dtype)}
    what = refusal(tiny_models.write_safetensors(tmp_path, config, changed), config)
    assert "model.norm.weight" in what
    assert "of type" in what


@pytest.mark.parametrize(
    "change",
    [
        {"llama.block_count": 1},
        {"llama.block_count": 3},
        {"llama.attention.head_count": 2},
        {"llama.attention.head_count_kv": 4},
        {"llama.embedding_length": 128},
        {"llama.feed_forward_length": 95},
    ],
)
def test_gguf_metadata_that_contradicts_its_tensors_is_refused(
    tiny_models, config, state, tmp_path, change
):
    path = tiny_models.write_gguf(tmp_path / "a.gguf", config, state, metadata=change)
    assert "do not fit" in refusal(path, read_config(path))


def test_an_untied_model_without_its_head_is_refused(tiny_models, state, folder):
    untied = tiny_models.tiny_config(tie_word_embeddings=False)
    assert "lm_head.weight" in refusal(folder, untied)


def test_a_gguf_tensor_under_a_hub_name_cannot_take_anothers_place(
    tiny_models, config, state, tmp_path, monkeypatch
):
    kept = tiny_models.gguf_name
    monkeypatch.setattr(
        tiny_models, "gguf_name", lambda name: name if "norm" in name else kept(name)
    )
    path = tiny_models.write_gguf(tmp_path / "a.gguf", config, state)
    assert "lacks 5 tensors" in refusal(path, config)


def test_a_gguf_without_embeddings_has_no_config(tiny_models, config, state, tmp_path):
    rest = {name: tensor for name, tensor in state.items() if "embed" not in name}
    path = tiny_models.write_gguf(tmp_path / "a.gguf", config, rest)
    with pytest.raises(ModelFileError, match="no table of token embeddings"):
        read_config(path)


def test_a_safetensors_file_cut_or_damaged_is_refused(config, state, folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    chance = random.Random(0)
    ends = [*range(0, header, 37), header, header + 1, len(whole) - 1]
    for end in ends:
        path.write_bytes(whole[:end])
        refusal(folder, config)
    refused = 0
    for _ in range(200):
        content = bytearray(whole)
        content[chance.randrange(header)] = chance.randrange(256)
        path.write_bytes(content)
        try:
            load(folder, config)
        except ModelFileError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("length", [0, 2**31, 2**63, 2**64 - 1])
def test_a_hostile_safetensors_header_length_is_refused(config, folder, length):
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", length) + b'{"a": 1}')
    refusal(folder, config)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.pt", "model.pth", "epoch.CKPT", "weights.pkl"]
)
def test_pickles_are_never_opened(config, folder, tmp_path, name):
    marker = tmp_path / "executed"

    class Bomb:
        def __reduce__(self):
            return (marker.touch, ())

    (folder / "model.safetensors").unlink()
    torch.save({"a": Bomb()}, folder / name)
    for path in (folder, folder / name):
        with pytest.raises(ModelFileError, match="can run code; get the safetensors or GGUF"):
            load(path, config)
    assert not marker.exists()


@pytest.mark.parametrize(
    "place",
    [
        "../model.safetensors",
        "/etc/model.safetensors",
        "sub/model.safetensors",
        "model.safetensors/../../model.safetensors",
        "model.safetensors.bin",
        "..\\model.safetensors",
        "C:model.safetensors",
        "C:\\model.safetensors",
        "\\\\host\\share\\model.safetensors",
        "..",
        "",
        "model.bin",
        "a\0.safetensors",
        "\ud800.safetensors",
        "a\n.safetensors",
        7,
        None,
        ["model.safetensors"],
    ],
)
def test_a_shard_index_cannot_lead_out_of_its_folder(config, folder, place):
    (folder / "model.safetensors").rename(folder.parent / "model.safetensors")
    index = json.dumps({"weight_map": {"model.norm.weight": place}})
    (folder / "model.safetensors.index.json").write_text(index)
    what = refusal(folder, config)
    assert "no plain safetensors file name" in what
    assert what.isprintable()


@pytest.mark.parametrize(
    "index", ["", "[]", "{}", '{"weight_map": {}}', '{"weight_map": []}', "{", "[" * 100_000]
)
def test_a_damaged_shard_index_is_refused(config, folder, index):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(index)
    assert "is damaged" in refusal(folder, config)


def test_missing_and_repeated_shards_are_named(tiny_models, config, state, tmp_path):
    folder = tiny_models.write_safetensors(tmp_path, config, state, shards=3)
    part = folder / "model-00002-of-00003.safetensors"
    content = part.read_bytes()
    part.unlink()
    what = refusal(folder, config)
    assert "1 of 3 parts" in what
    assert part.name in what
    part.write_bytes((folder / "model-00001-of-00003.safetensors").read_bytes())
    assert "repeats" in refusal(folder, config)
    part.write_bytes(content)
    assert_same(load(folder, config), state)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": ' + b"9" * 9999]
)
def test_a_damaged_config_json_is_refused(folder, content):
    (folder / "config.json").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"config\.json is damaged"):
        read_config(folder)


def test_what_is_not_there_is_said(config, folder, tmp_path):
    with pytest.raises(ModelNotFoundError):
        load(tmp_path / "nowhere", config)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelNotFoundError, match="no weights"):
        load(tmp_path / "empty", config)
    (folder / "config.json").unlink()
    for path in (folder, folder / "model.safetensors"):
        with pytest.raises(ModelFileError, match=r"config\.json is missing"):
            read_config(path)
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(ConfigError):
        read_config(folder)


def test_progress_rises_to_one(config, folder):
    seen = []
    load_state_dict(folder, config, dtype=torch.float32, progress=seen.append)
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] == 1


def test_cancel_stops_between_tensors(tiny_models, config, state, folder, tmp_path):
    path = tiny_models.write_gguf(tmp_path / "a.gguf", config, state)
    for source in (folder, path):
        cancel = threading.Event()
        seen = []

        def stop_at_third(done, cancel=cancel, seen=seen):
            seen.append(done)
            if len(seen) == 3:
                cancel.set()

        with pytest.raises(StoppedError):
            load_state_dict(
                source, config, dtype=torch.float32, progress=stop_at_third, cancel=cancel
            )
        assert len(seen) == 3


def test_names_from_a_file_are_made_fit_for_a_sentence(config, folder):
    path = folder / "model.safetensors"
    odd = {f"\x1b[2J\n{i}" + "x" * 500: torch.ones(1) for i in range(50)}
    save_file(load_file(path) | odd, path)
    assert refusal(folder, config).isprintable()


def test_the_real_model_loads_in_bfloat16(default_model_path):
    config = read_config(default_model_path)
    assert (config.hidden_size, config.num_hidden_layers, config.vocab_size) == (576, 30, 49152)
    assert config.tie_word_embeddings
    assert (config.bos_token_id, config.eos_token_ids, config.pad_token_id) == (1, (2,), 2)
    loaded = load(default_model_path, config, torch.bfloat16)
    assert sum(tensor.numel() for tensor in loaded.values()) == 134_515_008
