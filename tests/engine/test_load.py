"""From files to a ready engine: both forms give the same model, and what is wrong is said."""

import json
import os
import shutil
import subprocess
import sys
import threading

import pytest
import torch

from engine import loading
from engine.errors import (
    DeviceError,
    EngineError,
    ModelFileError,
    ModelNotFoundError,
    OptionsError,
    StoppedError,
    TemplateError,
)
from engine.events import Finished
from engine.loading import load
from engine.messages import Message
from engine.model.llama import Llama
from engine.options import SamplingOptions
from engine.run.device import DeviceChoice
from engine.run.gpu_runner import GpuRunner
from engine.text.tokenizer import tokenizer_json

GREEDY = SamplingOptions(temperature=0, max_new_tokens=10)
CPU = {"device": "cpu", "precision": "fp32", "threads": 1}


def byte_characters() -> list[str]:
    """The characters that byte-level vocabularies write the 256 bytes with."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    spelling = {byte: chr(byte) for byte in shown}
    spelling |= {byte: chr(0x100 + place) for place, byte in enumerate(hidden)}
    return [spelling[byte] for byte in range(256)]


TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *byte_characters()]
TOKENIZER = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3, 3, 3] + [1] * 256,
    "tokenizer.ggml.merges": ["a b"],
}
TOKENS.append("ab")
TOKENIZER["tokenizer.ggml.token_type"].append(1)


@pytest.fixture(scope="module")
def forms(tiny_models, tmp_path_factory):
    """The same tiny model as a GGUF file, as one safetensors file and as three."""
    folder = tmp_path_factory.mktemp("forms")
    config = tiny_models.tiny_config(vocab_size=len(TOKENS), head_dim=32)
    state = tiny_models.random_state(config)
    gguf = tiny_models.write_gguf(folder / "tiny.gguf", config, state, tokenizer_metadata=TOKENIZER)
    single = tiny_models.write_safetensors(folder / "single", config, state)
    sharded = tiny_models.write_safetensors(folder / "sharded", config, state, shards=3)
    for hub in (single, sharded):
        (hub / "tokenizer.json").write_text(tokenizer_json(TOKENIZER), encoding="utf-8")
    return {"gguf": gguf, "single": single, "sharded": sharded}


@pytest.fixture
def hub(forms, tmp_path):
    """A copy of the model in the Hub's form, to be damaged."""
    return shutil.copytree(forms["single"], tmp_path / "hub")


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_every_form_gives_the_same_model(forms, precision):
    replies = []
    for path in forms.values():
        session = load(path, device="cpu", precision=precision, threads=1).session()
        *_, finished = session.reply([Message("user", "ab")], GREEDY)
        assert isinstance(finished, Finished)
        logits = session.next_logits([5, 6, 7], top=len(TOKENS))
        replies.append((finished.token_ids, finished.text, logits))
    assert replies[0] == replies[1] == replies[2]


def test_progress_rises_to_the_whole(forms):
    seen = []
    load(forms["gguf"], **CPU, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1


def test_a_load_can_be_stopped(forms):
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(StoppedError):
        load(forms["gguf"], **CPU, cancel=cancel)


def test_sessions_share_weights_but_not_what_they_read(forms):
    engine = load(forms["gguf"], **CPU)
    *_, first = engine.session().reply([Message("user", "ab")], GREEDY)
    *_, second = engine.session().reply([Message("user", "ab")], GREEDY)
    assert second.statistics.reused_tokens == 0
    assert first.token_ids == second.token_ids


def test_sessions_on_a_gpu_have_the_gpus_runner(forms, monkeypatch):
    choice = DeviceChoice("cuda", "Test GPU", "for a test", "fp32", 1)
    monkeypatch.setattr(loading, "choose_device", lambda *args, **kwargs: choice)
    monkeypatch.setattr(loading, "_moved", lambda model, choice: model)
    engine = load(forms["gguf"])
    assert isinstance(engine.new_runner(), GpuRunner)
    *_, finished = engine.session().reply([Message("user", "Hi")], GREEDY)
    assert len(finished.token_ids) > 0


def test_a_model_that_does_not_fit_the_gpu_is_refused_in_plain_words(forms, monkeypatch):
    def full(*_args, **_kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 MiB")

    monkeypatch.setattr(Llama, "to", full)
    with pytest.raises(DeviceError, match="does not fit into the memory"):
        load(forms["gguf"], **CPU)


def test_without_any_model_it_says_how_to_get_one(home):
    with pytest.raises(ModelNotFoundError) as caught:
        load(**CPU)
    assert "--fetch-default" in caught.value.remedy


def replace_in_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def cut_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


DAMAGE = {
    "weights cut": (cut_weights, ModelFileError),
    "another shape": (lambda f: replace_in_config(f, intermediate_size=80), ModelFileError),
    "more layers": (lambda f: replace_in_config(f, num_hidden_layers=3), ModelFileError),
    "fewer layers": (lambda f: replace_in_config(f, num_hidden_layers=1), ModelFileError),
    "a smaller vocabulary": (lambda f: replace_in_config(f, vocab_size=200), ModelFileError),
    "no config": (lambda f: (f / "config.json").unlink(), EngineError),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), ModelFileError),
    "no JSON": (lambda f: (f / "tokenizer.json").write_text("{"), ModelFileError),
    "a page": (lambda f: (f / "model.safetensors").write_text("<html>"), ModelFileError),
    "a broken template": (
        lambda f: (f / "chat_template.jinja").write_text("{{ messages[0]['x'"),
        TemplateError,
    ),
}


@pytest.mark.parametrize(("damage", "error"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_models_are_refused_in_plain_words(hub, damage, error):
    damage(hub)
    with pytest.raises(error) as caught:
        load(hub, **CPU)
    assert caught.value.what.endswith(".")
    assert caught.value.remedy.endswith(".")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(
    "name",
    ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"],
)
def test_a_pipe_in_place_of_a_file_is_refused_at_once(hub, name):
    (hub / name).unlink(missing_ok=True)
    os.mkfifo(hub / name)
    with pytest.raises(EngineError):
        load(hub, **CPU)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_place_of_a_gguf_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "model.gguf")
    with pytest.raises(EngineError):
        load(tmp_path / "model.gguf", **CPU)


@pytest.mark.parametrize("wish", [{"precision": "int7"}, {"device": "gpu9"}, {"threads": 0}])
def test_impossible_wishes_are_refused_before_anything_is_read(tmp_path, wish):
    with pytest.raises(OptionsError):
        load(tmp_path / "not there", **CPU | wish)


def test_a_model_with_a_larger_tokenizer_than_vocabulary_is_refused(hub, tiny_models):
    config = tiny_models.tiny_config(vocab_size=96)
    tiny_models.write_safetensors(hub, config, tiny_models.random_state(config))
    with pytest.raises(ModelFileError, match="tokenizer knows 260 tokens"):
        load(hub, **CPU)


def test_loading_does_not_import_torchs_compiler(forms):
    """It is a second of imports that an engine without it never needs."""
    code = (
        "import sys; from engine.loading import load; "
        f"load({str(forms['gguf'])!r}, device='cpu', threads=1); "
        "print([m for m in ('torch._dynamo', 'sympy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
