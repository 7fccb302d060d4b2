"""The compiled step against the module, whose numbers are known to be right."""

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from engine.errors import DeviceError, PromptTooLongError
from engine.files.codes import Codes
from engine.files.weights import StoredTensor, StoredWeights
from engine.loading import build_model
from engine.model.config import ModelConfig
from engine.run.cpu_runner import CpuRunner
from engine.run.runner import Stopped
from engine.step.cache import StepCache
from engine.step.convert import kinds_for, pack
from engine.step.packing import quantized

SHAPES = {
    # Sizes that are no multiple of 32 are filled up.
    "tiny": {"hidden_size": 48, "intermediate_size": 72, "vocab_size": 90, "head_dim": 32},
    "untied": {"tie_word_embeddings": False, "num_hidden_layers": 3, "head_dim": 32},
    "135M": {
        "vocab_size": 512,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "max_position_embeddings": 8192,
        "rope_theta": 100_000.0,
    },
    "1.7B": {
        "vocab_size": 512,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 1,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "head_dim": 64,
        "max_position_embeddings": 8192,
    },
}
PRECISIONS = ("q4", "int8", "bf16")
# Keys and values are kept in 8 bits of mantissa, which no weight's rounding hides here.
CLOSE = 0.01


class Case:
    """A random model as the module in fp32 and as packed weights, of the very same numbers."""

    def __init__(self, config: ModelConfig, stored: StoredWeights, precision: str) -> None:
        self.config = config
        self.weights = pack(stored, config, kinds_for(stored, config, precision))
        exact = {name: tensor.read(torch.float32) for name, tensor in stored.items()}
        if precision == "bf16":
            exact = {name: _rounded(name, weights) for name, weights in exact.items()}
        self.model = build_model(config, exact)

    def runner(self, threads: int = 1, **options: int) -> CpuRunner:
        return CpuRunner(self.config, self.weights, threads=threads, **options)

    @torch.inference_mode()
    def expected(self, ids: Sequence[int]) -> np.ndarray:
        """The module's logits after each token."""
        rows: np.ndarray = self.model(torch.tensor([ids])).logits[0].numpy()
        return rows


def _rounded(name: str, weights: torch.Tensor) -> torch.Tensor:
    return weights if "norm" in name else weights.bfloat16().float()


def _stored(config: ModelConfig, precision: str, state: dict[str, torch.Tensor]) -> StoredWeights:
    """As a file of that precision would have them."""
    tensors = {}
    for name, weights in state.items():
        tensors[name] = _tensor(weights, precision if weights.ndim == 2 else "fp32")
    return tensors


def _tensor(weights: torch.Tensor, precision: str) -> StoredTensor:
    if precision not in ("q4", "int8"):
        return StoredTensor(tuple(weights.shape), "F32", lambda dtype: weights.to(dtype))
    columns = weights.shape[1]
    codes = quantized(weights.numpy())
    if precision == "q4":
        few = (codes.codes >> 4) + 8
        codes = Codes(few.astype(np.int8), codes.scales * 16, codes.scales * -100)
    dequantized = torch.from_numpy(_values(codes)[:, :columns])
    kind = "Q4_1" if precision == "q4" else "Q8_0"
    return StoredTensor(
        tuple(weights.shape), kind, lambda dtype: dequantized.to(dtype), lambda: codes
    )


def _values(codes: Codes) -> np.ndarray:
    scales = np.repeat(codes.scales.astype(np.float32), 32, axis=1)
    values = codes.codes.astype(np.float32) * scales
    if codes.minima is not None:
        values += np.repeat(codes.minima.astype(np.float32), 32, axis=1)
    return values


@pytest.fixture(scope="module")
def case(tiny_models) -> Callable[[str, str], Case]:
    made: dict[tuple[str, str], Case] = {}

    def make(shape: str, precision: str) -> Case:
        if (shape, precision) not in made:
            config = tiny_models.tiny_config(**SHAPES[shape])
            state = tiny_models.random_state(config)
            for name, weights in state.items():
                if "norm" not in name:  # so that every shape has outputs of the same size
                    weights *= 10 * weights.shape[-1] ** -0.5
            made[shape, precision] = Case(config, _stored(config, precision, state), precision)
        return made[shape, precision]

    return make


def some_ids(config: ModelConfig, count: int, seed: int = 1) -> list[int]:
    ids: list[int] = np.random.default_rng(seed).integers(config.vocab_size, size=count).tolist()
    return ids


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    assert np.isfinite(found).all()
    assert np.abs(found - expected).max() < CLOSE * np.abs(expected).max()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_logits_are_the_modules(case, shape: str, precision: str) -> None:
    model = case(shape, precision)
    ids = some_ids(model.config, 40)
    runner = model.runner()
    steps = np.stack([runner.read([token_id]) for token_id in ids])
    assert_close(steps, model.expected(ids))


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_every_layer_is_the_modules(tiny_models, layers: int) -> None:
    config = tiny_models.tiny_config(num_hidden_layers=layers, head_dim=32)
    stored = _stored(config, "q4", tiny_models.random_state(config))
    model = Case(config, stored, "q4")
    ids = some_ids(config, 20)
    assert_close(model.runner().read_each(ids), model.expected(ids))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", ["tiny", "135M"])
def test_numbers_do_not_depend_on_company_nor_on_threads(case, shape: str, precision: str) -> None:
    model = case(shape, precision)
    ids = some_ids(model.config, 150)
    alone = model.runner()
    expected = np.stack([alone.read([token_id]) for token_id in ids])
    for threads in (1, 2, 3):
        for sizes in (
            [150],
            [2] * 75,
            [3] * 50,
            [5] * 30,
            [1, 128, 21],
            [64, 1, 1, 84],
            [20] * 7 + [10],
        ):
            runner = model.runner(threads)
            rows, start = [], 0
            for size in sizes:
                rows.append(runner.read_each(ids[start : start + size]))
                start += size
            np.testing.assert_array_equal(np.concatenate(rows), expected)
            assert runner.ids == ids


@pytest.mark.parametrize("precision", ["q4", "bf16"])
@pytest.mark.parametrize("context", [1, 255, 256, 4096])
@pytest.mark.parametrize("threads", [1, 2])
def test_long_contexts_are_the_modules(case, context: int, precision: str, threads: int) -> None:
    model = case("135M", precision)
    ids = some_ids(model.config, context + 3)
    expected = model.expected(ids)[-3:]
    runner = model.runner(threads)
    runner.read(ids[:context])
    found = np.stack([runner.read([token_id]) for token_id in ids[context:]])
    assert_close(found, expected)


def test_what_was_cut_off_leaves_no_trace(case) -> None:
    model = case("135M", "int8")
    ids = some_ids(model.config, 60)
    runner = model.runner()
    runner.read(some_ids(model.config, 400, seed=2))
    runner.truncate(0)
    expected = model.runner().read(ids)
    np.testing.assert_array_equal(runner.read(ids), expected)
    runner.read(some_ids(model.config, 30, seed=3))
    assert runner.recall(ids[:50]) == 50
    np.testing.assert_array_equal(runner.read(ids[50:]), expected)


def test_branches_hold_what_they_held(case) -> None:
    """To an early edit and back: a copy of the first 211 tokens, no whole tile, is gone on from."""
    model = case("135M", "q4")
    first = some_ids(model.config, 500)
    second = first[:211] + some_ids(model.config, 150, seed=2)
    runner = model.runner()
    runner.read(first)
    for ids, known in ((second, 211), (first, 499), (second, 360)):
        assert runner.recall(ids[:-1]) == known
        found = runner.read(ids[known:])
        np.testing.assert_array_equal(found, model.runner().read(ids))
        assert runner.ids == ids


def test_other_branches_go_before_a_reply_fails(case, monkeypatch: pytest.MonkeyPatch) -> None:
    model = case("135M", "q4")
    runner = model.runner()
    runner.read(some_ids(model.config, 200))
    runner.recall([1])
    runner.read([1] * 200)
    assert len(runner._branches) == 2
    reserve, calls = StepCache.reserve, []

    def cramped(cache: StepCache, length: int) -> None:
        calls.append(length)
        if len(calls) == 1:
            raise MemoryError
        reserve(cache, length)

    monkeypatch.setattr(StepCache, "reserve", cramped)
    calls.append(0)
    expected = model.runner().read([1] * 300)
    calls.clear()
    np.testing.assert_array_equal(runner.read([1] * 100), expected)
    assert len(runner._branches) == 1


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "name", ["embed_tokens", "norm", "0.self_attn.v_proj", "1.mlp.down_proj", "1.mlp.gate_proj"]
)
def test_numbers_that_break_down_are_seen(
    tiny_models, name: str, value: float, precision: str
) -> None:
    config = tiny_models.tiny_config(head_dim=32)
    state = tiny_models.random_state(config)
    (full,) = (n for n in state if n.endswith(f"{name}.weight") and "layernorm" not in n)
    state[full][(3, 5) if state[full].ndim == 2 else 5] = value
    stored = {n: _tensor(w, "fp32") for n, w in state.items()}
    kinds = kinds_for(stored, config, "int8" if precision == "q4" else precision)
    runner = CpuRunner(config, pack(stored, config, kinds), threads=1)
    assert not np.isfinite(runner.read([3])).all()


def test_a_prompt_that_breaks_down_does_not_break_the_next(tiny_models) -> None:
    config = tiny_models.tiny_config(head_dim=32)
    state = tiny_models.random_state(config)
    state["model.embed_tokens.weight"][7] = float("nan")
    stored = {n: _tensor(w, "fp32") for n, w in state.items()}
    weights = pack(stored, config, kinds_for(stored, config, "bf16"))
    runner, clean = (CpuRunner(config, weights, threads=1) for _ in range(2))
    assert np.isnan(runner.read([3, 7, 3, 5, 6])).any()
    runner.truncate(0)
    expected, found = clean.read([3, 5]), runner.read([3, 5])
    np.testing.assert_array_equal(found[:7], expected[:7])


def test_two_threads_with_sessions_of_their_own_do_not_disturb_each_other(case) -> None:
    model = case("135M", "q4")
    ids = [some_ids(model.config, 200, seed) for seed in (1, 2)]
    expected = [model.runner().read(each) for each in ids]
    found: dict[int, list[np.ndarray]] = {0: [], 1: []}

    def read(which: int) -> None:
        runner = model.runner(threads=2)
        for _ in range(5):
            runner.truncate(0)
            found[which].append(runner.read(ids[which]))

    threads = [threading.Thread(target=read, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for which in (0, 1):
        assert len(found[which]) == 5
        for logits in found[which]:
            np.testing.assert_array_equal(logits, expected[which])


def test_reading_stops_between_chunks_and_keeps_what_was_read(case) -> None:
    runner = case("tiny", "q4").runner(chunk_size=8)
    cancel = threading.Event()
    runner.read([1] * 20, cancel=cancel)
    cancel.set()
    with pytest.raises(Stopped):
        runner.read([1] * 20, cancel=cancel)
    assert runner.ids == [1] * 20


def test_no_more_than_the_context_is_read(case) -> None:
    runner = case("tiny", "q4").runner()
    runner.read([1] * 250)
    with pytest.raises(PromptTooLongError):
        runner.read([1] * 7)
    runner.read([1] * 6)
    assert len(runner.ids) == runner.max_positions


def test_running_out_of_memory_is_told_plainly(case, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = case("tiny", "q4").runner()
    runner.read([1, 2, 3])

    def full(*_args: object) -> None:
        raise MemoryError

    monkeypatch.setattr("engine.step.cache.StepCache._empty", full)
    with pytest.raises(DeviceError, match="memory"):
        runner.read([1] * 250)
    assert runner.ids == [1, 2, 3]


def test_a_runner_that_is_gone_leaves_no_threads(case) -> None:
    before = threading.active_count()
    runner = case("tiny", "q4").runner(threads=4)
    runner.read([1, 2, 3])
    assert threading.active_count() == before + 3
    del runner
    assert threading.active_count() == before
