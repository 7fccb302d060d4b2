"""The figures of `smoldesk-cli bench`: under the right names, and what they mean."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.bench import PARTS, loads, quality, speed
from engine.bench import report as bench_report
from engine.bench.loads import load_times
from engine.bench.memory import resident_bytes
from engine.bench.quality import Score, compare, log_softmax
from engine.bench.report import measure
from engine.bench.speed import BALANCED, GREEDY, decode_speeds, times_to_first_token
from engine.bench.table import as_table
from engine.errors import EngineError
from engine.files.weights import load_state_dict
from engine.loading import Engine, build_model
from engine.messages import Message
from engine.model.llama import Llama
from engine.run.device import DeviceChoice
from engine.run.torch_runner import TorchRunner
from engine.sampling import NonFiniteLogitsError
from engine.session import Session
from engine.text.chat_template import CHATML, ChatTemplate


class Watched(TorchRunner):
    """Notes every reading: how many tokens were held before, and how many were read."""

    def __init__(self, model: Llama) -> None:
        super().__init__(model)
        self.readings: list[tuple[int, int]] = []

    def read(self, ids, *, cancel=None):
        self.readings.append((len(self.ids), len(ids)))
        return super().read(ids, cancel=cancel)


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


def test_all_parts_together_have_every_name(engine, monkeypatch) -> None:
    monkeypatch.setattr(speed, "conversation", short_conversation)
    monkeypatch.setattr(speed, "REPLY_TOKENS", 5)
    monkeypatch.setattr(bench_report, "load_times", lambda *a, **k: {"first": 2.0, "second": 1.0})
    report = measure(engine, PARTS, rounds=1, new_tokens=2, quality_text="a tale of two cities")
    names = {name for name, _ in SPEEDS.values()}
    others = {"ttft_ms", "load_s", "rss_mb", "bandwidth", "quality"}
    assert report.keys() == ALWAYS | names | others
    assert report["load_s"] == {"first": 2.0, "second": 1.0}


def test_writing_is_measured_at_its_context_which_is_read_only_once(model) -> None:
    runner = Watched(model[2])
    options = {"decode": GREEDY, "balanced": BALANCED}
    decode_speeds(runner, [5] * 600, options, rounds=2, new_tokens=3, say=lambda line: None)
    steps = [(length + place, 1) for length in (0, 512) for _ in range(6) for place in range(3)]
    assert [reading for reading in runner.readings if reading[1] == 1] == steps
    prompts = [count for _, count in runner.readings if count > 1]
    assert sum(prompts) == 512


def test_resident_memory_is_what_the_system_says(tmp_path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmHWM:\t  900 kB\nVmRSS:\t  700 kB\n", encoding="ascii")
    assert resident_bytes(status) == 700 * 1024


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


def test_every_token_is_compared_once_on_each_path(model, monkeypatch) -> None:
    monkeypatch.setattr(quality, "WINDOW", 8)
    monkeypatch.setattr(quality, "STRETCH", 40)
    runners: list[Watched] = []

    def new_runner() -> Watched:
        runners.append(Watched(model[2]))
        return runners[-1]

    compare(new_runner, model[2], Letters().encode("a tale of two cities" * 3), say=print)
    step, _, *both = runners
    positions = [*range(40), *range(20)]  # two stretches
    assert step.readings == [(position, 1) for position in positions]
    steps = sorted(reading for runner in both for reading in runner.readings if reading[1] == 1)
    assert steps == sorted((position, 1) for position in positions)
    # Two windows as a prompt between those that are compared.
    assert both[0].readings[8:11] == [(8, 8), (16, 8), (24, 1)]


def test_the_divergence_is_that_of_the_textbook() -> None:
    score = Score()
    score.add(np.log([[0.5, 0.25, 0.25]]), np.log([[0.25, 0.5, 0.25]]).astype(np.float32))
    score.add(np.log([[0.5, 0.5]]), np.log([[0.9, 0.1]]).astype(np.float32))
    first = 0.5 * math.log(2) - 0.25 * math.log(2)
    second = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)  # the other way round: 0.368
    assert score.summary()["mean_kl"] == pytest.approx((first + second) / 2, rel=1e-6)
    assert score.summary()["top1"] == 0.5


def test_probabilities_are_those_of_the_textbook() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 7)).astype(np.float32) * 3
    found = np.exp(log_softmax(logits))
    for row, expected in zip(found, logits.astype(float).tolist(), strict=True):
        total = sum(math.exp(value) for value in expected)
        np.testing.assert_allclose(row, [math.exp(value) / total for value in expected], rtol=1e-6)
    with pytest.raises(NonFiniteLogitsError):
        log_softmax(np.array([[1, np.nan]], np.float32))


def test_the_balanced_preset_is_the_windows() -> None:
    pytest.importorskip("PySide6")  # the engine's tests do without
    from app.ui.presets import USUAL

    assert BALANCED == USUAL


def test_a_turn_of_a_growing_conversation_reads_only_what_is_new(engine, model, monkeypatch):
    monkeypatch.setattr(speed, "conversation", short_conversation)
    monkeypatch.setattr(speed, "REPLY_TOKENS", 5)
    runner = Watched(model[2])
    session = Session(runner, engine.tokenizer, engine.template)
    lines: list[str] = []
    times = times_to_first_token(session, engine.tokenizer, rounds=2, say=lines.append)
    assert times.keys() == {1, 2, 10}
    assert all(value > 0 for value in times.values())
    for line, turn in zip(lines, (1, 2, 10), strict=True):
        dialog = short_conversation(engine.tokenizer, turn)
        behind = len(session.prompt_ids(dialog[:-1])) if turn > 1 else 0
        new = len(session.prompt_ids(dialog)) - behind
        assert f"({new} tokens after {behind:,})" in line
        assert runner.readings.count((behind, new)) == 3  # a warm-up and two rounds


def short_conversation(tokenizer: Letters, turns: int) -> list[Message]:
    dialog = []
    for turn in range(turns):
        dialog += [Message("user", f"q{turn}"), Message("assistant", "reply", (5, 6, 7, 8, 9))]
    return dialog[:-1]


def test_each_round_loads_twice_in_a_home_with_nothing_but_the_model(
    model, tmp_path, monkeypatch
) -> None:
    # As in the Hub's cache, where names are links to where contents are.
    (tmp_path / "cache").mkdir()
    stored = model[1].rename(tmp_path / "stored")
    (tmp_path / "cache" / "link.gguf").symlink_to("../stored")
    homes: list[Path] = []
    seconds = iter([9.0, 1.0, 7.0, 2.0, 8.0, 6.0])

    def in_new_process(arguments: list[str], home: Path) -> float:
        path, *others = arguments
        assert Path(path).read_bytes() == stored.read_bytes()
        assert others == ["cpu", "q4", "2"]
        assert [file for file in home.rglob("*") if file.is_file()] == [Path(path)]
        homes.append(home)
        return next(seconds)

    monkeypatch.setattr(loads, "_in_new_process", in_new_process)
    link = tmp_path / "cache" / "link.gguf"
    times = load_times(link, device="cpu", precision="q4", threads=2, rounds=3, say=print)
    assert times == {"first": 8.0, "second": 2.0}
    assert homes[0] == homes[1]
    assert len(set(homes)) == 3
    assert not any(home.exists() for home in homes)


def test_a_model_that_cannot_be_loaded_is_one_error(tmp_path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF nothing")
    with pytest.raises(EngineError, match=r"process of its own\. broken.gguf cannot"):
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
