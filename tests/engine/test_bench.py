"""The figures of `smoldesk-cli bench`: under the right names, and what they mean."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from app.ui.presets import USUAL
from engine.bench import PARTS, speed
from engine.bench.loads import load_times
from engine.bench.quality import compare, log_softmax
from engine.bench.report import measure
from engine.bench.speed import BALANCED
from engine.bench.table import as_table
from engine.errors import EngineError
from engine.files.weights import load_state_dict
from engine.loading import Engine, build_model
from engine.messages import Message
from engine.run.device import DeviceChoice
from engine.run.torch_runner import TorchRunner
from engine.sampling import NonFiniteLogitsError
from engine.text.chat_template import CHATML, ChatTemplate


class Letters:
    """A tokenizer of one token a letter, as far as the bench needs one."""

    longest_token = 1
    control_ids = frozenset()
    vocab_size = 96

    def encode(self, text: str) -> list[int]:
        return [3 + ord(letter) % 90 for letter in text]

    def split_names(self, text: str) -> Iterator[str | int]:
        yield text

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(33 + token_id) for token_id in ids)

    def token_text(self, token_id: int) -> str:
        return chr(33 + token_id)

    def token_bytes(self, token_id: int) -> bytes:
        return self.token_text(token_id).encode()

    def id_of(self, name: str) -> None:
        return None


@pytest.fixture
def model(tiny_models, tmp_path):
    config = tiny_models.tiny_config(head_dim=32, max_position_embeddings=1024)
    path = tiny_models.write_gguf(tmp_path / "m.gguf", config, tiny_models.random_state(config))
    return config, path, build_model(config, load_state_dict(path, config, dtype=torch.float32))


@pytest.fixture
def engine(model) -> Engine:
    config, path, network = model
    return Engine(
        name="Tiny",
        path=path,
        config=config,
        tokenizer=Letters(),
        template=ChatTemplate(CHATML, bos_token="", eos_token=""),
        device=DeviceChoice("cpu", "CPU", "for a test", "fp32", 1),
        new_runner=lambda: TorchRunner(network),
    )


ALWAYS = {"model", "device", "precision", "threads"}
SPEEDS = {
    "decode": ("decode_tok_s", {0, 512}),
    "balanced": ("decode_balanced_tok_s", {0, 512}),
    "prefill": ("prefill_tok_s", {128, 512}),
}


@pytest.mark.parametrize("part", SPEEDS)
def test_speeds_are_told_for_what_fits_the_context(engine, part: str) -> None:
    name, lengths = SPEEDS[part]
    report = measure(engine, {part}, rounds=1, new_tokens=4)
    assert report.keys() == ALWAYS | {name}
    assert report[name].keys() == lengths
    assert all(value > 0 for value in report[name].values())


def test_bytes_and_memory_have_their_names(engine) -> None:
    report = measure(engine, {"memory", "bandwidth"}, rounds=1, new_tokens=4)
    assert report.keys() == ALWAYS | {"rss_mb", "bandwidth"}
    assert report["bandwidth"].keys() == {"bytes_per_token", "read_gb_s"}
    weights = engine.new_runner()._model.state_dict().values()
    assert report["bandwidth"]["bytes_per_token"] == sum(weight.nbytes for weight in weights)


def test_quality_of_fp32_is_perfect_on_every_path(engine) -> None:
    report = measure(engine, {"quality"}, quality_text="a tale of two cities " * 30)
    assert report["quality"].keys() == {"step", "prompt", "both"}
    for score in report["quality"].values():
        assert score["mean_kl"] < 1e-6
        assert score["top1"] == 1


def test_quality_of_a_damaged_model_is_worse(engine, model) -> None:
    config, path, network = model
    damaged = build_model(config, load_state_dict(path, config, dtype=torch.float32))
    damaged.model.layers[0].mlp.down_proj.weight *= 1.5
    ids = Letters().encode("a tale of two cities " * 20)
    scores = compare(lambda: TorchRunner(damaged), network, ids, say=lambda line: None)
    for score in scores.values():
        assert score["mean_kl"] > 1e-4
        assert score["top1"] < 1


def test_the_divergence_is_that_of_the_textbook() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 7)).astype(np.float32) * 3
    found = np.exp(log_softmax(logits))
    for row, expected in zip(found, logits.astype(float).tolist(), strict=True):
        total = sum(math.exp(value) for value in expected)
        np.testing.assert_allclose(row, [math.exp(value) / total for value in expected], rtol=1e-6)
    with pytest.raises(NonFiniteLogitsError):
        log_softmax(np.array([[1, np.nan]], np.float32))


def test_the_balanced_preset_is_the_windows() -> None:
    assert BALANCED == USUAL


def test_a_growing_conversation_is_told_turn_by_turn(engine, monkeypatch) -> None:
    monkeypatch.setattr(speed, "conversation", short_conversation)
    monkeypatch.setattr(speed, "REPLY_TOKENS", 5)
    report = measure(engine, {"ttft"}, rounds=1)
    assert report["ttft_ms"].keys() <= {1, 2, 10}
    assert {1, 2} <= report["ttft_ms"].keys()
    assert all(value > 0 for value in report["ttft_ms"].values())


def short_conversation(tokenizer: Letters, turns: int) -> list[Message]:
    dialog = []
    for turn in range(turns):
        dialog += [Message("user", f"q{turn}"), Message("assistant", "reply", (5, 6, 7, 8, 9))]
    return dialog[:-1]


def test_a_model_that_cannot_be_loaded_is_one_error(tmp_path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF nothing")
    with pytest.raises(EngineError, match="process of its own"):
        load_times(path, device="cpu", precision="fp32", threads=1, rounds=1, say=lambda line: None)


def test_the_table_shows_every_figure() -> None:
    report = {
        "model": "M",
        "decode_tok_s": {0: 1234.5, 512: 99.0},
        "rss_mb": 321.5,
        "quality": {"step": {"mean_kl": 0.001, "top1": 0.98}},
    }
    table = as_table(report)
    for shown in ("1,234.5", "99.0", "321.5", "0.001", "0.98", "512", "step"):
        assert shown in table
    assert len(PARTS) == 8
