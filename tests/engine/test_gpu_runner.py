"""The GPU's runner, on the CPU: what it computes, and that a step can be captured and replayed."""

import copy
import gc
import weakref
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.errors import DeviceError, PromptTooLongError
from engine.files.weights import read_config
from engine.loading import load_text
from engine.messages import Message
from engine.model.llama import Llama
from engine.options import SamplingOptions
from engine.run import fused_llama, gpu_runner
from engine.run.capture import Step, run_eagerly
from engine.run.gpu_runner import GpuRunner
from engine.run.runner import Stopped
from engine.run.static_cache import StaticCache
from engine.run.torch_runner import TorchRunner
from engine.session import Session

POSITIONS = 1100
POISON = 7  # a token whose numbers break down, in models made to have one


class _Recorder(TorchDispatchMode):
    """Every call of torch, with the tensors that it was given and those that it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, out))
        return out


class RecordedSteps:
    """A CUDA graph played by the CPU: the recorded calls are made again on the very same tensors.

    No Python of the step runs again, so whatever it took from a number stays as it was, and results
    come to the addresses at which they came to when they were recorded.
    """

    def __init__(self) -> None:
        self.captured = 0
        self.replayed = 0
        self.results: set[int] = set()

    def __call__(self, step: Step) -> Step:
        step()  # to warm up
        with _Recorder() as recorder:
            step()
        self.captured += 1

        def replay() -> None:
            self.replayed += 1
            for func, args, kwargs, out in recorder.calls:
                for old, new in zip(
                    tree_leaves(out), tree_leaves(func(*args, **kwargs)), strict=True
                ):
                    if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                        old.copy_(new)
            self.results.add(recorder.calls[-1][3].data_ptr())

        return replay


def new_model(tiny_models: Any, **changes: Any) -> Llama:
    torch.manual_seed(3)
    settings = {"max_position_embeddings": POSITIONS, "initializer_range": 0.2}
    return Llama(tiny_models.tiny_config(**settings | changes)).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def model(tiny_models: Any) -> Llama:
    return new_model(tiny_models)


@pytest.fixture(scope="module")
def ids(model: Llama) -> list[int]:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(8, model.config.vocab_size, (POSITIONS,), generator=generator).tolist()


@pytest.fixture(scope="module")
def expected(model: Llama, ids: list[int]) -> np.ndarray:
    return reference(model, ids)


def reference(model: Llama, ids: list[int]) -> np.ndarray:
    """Logits after each of `ids`, (n, vocab), by the module."""
    with torch.inference_mode():
        return copy.deepcopy(model)(torch.tensor([ids])).logits[0].float().numpy()


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)


def assert_near(found: np.ndarray, expected: np.ndarray, part: float) -> None:
    """Right but for rounding: the module itself is off by 0.022 in bf16, by 0.003 in fp16."""
    assert np.abs(found - expected).mean() < part * np.abs(expected).mean()


def read_steps(runner: GpuRunner, ids: list[int]) -> np.ndarray:
    return np.stack([runner.read([token_id]) for token_id in ids])


class TestNumbers:
    @pytest.mark.parametrize("capture", [run_eagerly, RecordedSteps()])
    @pytest.mark.parametrize("length", [1, 2, 510, 511, 512, 513, 1023, 1024, 1025])
    def test_a_prompt_and_steps_after_it_are_as_the_modules(
        self, length: int, capture: Any, model: Llama, ids: list[int], expected: np.ndarray
    ) -> None:
        runner = GpuRunner(model, capture=capture)
        assert_close(runner.read(ids[:length]), expected[length - 1])
        end = length + 4
        assert_close(read_steps(runner, ids[length:end]), expected[length:end])
        assert runner.ids == ids[:end]

    @pytest.mark.parametrize(
        "shape",
        [
            {"tie_word_embeddings": False},
            {"num_key_value_heads": 4},  # a head each, as in the 1.7B
            {"num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64},
            {"max_position_embeddings": 40},
        ],
        ids=str,
    )
    def test_of_every_shape(self, shape: Any, ids: list[int], tiny_models: Any) -> None:
        model = new_model(tiny_models, **shape)
        expected = reference(model, ids[:40])
        runner = GpuRunner(model, chunk_size=16, capture=RecordedSteps())
        assert_close(runner.read_each(ids[:35]), expected[:35])
        assert_close(read_steps(runner, ids[35:40]), expected[35:])

    @pytest.mark.parametrize(("dtype", "part"), [(torch.bfloat16, 0.06), (torch.float16, 0.01)])
    def test_in_16_bits_they_are_near_those_in_fp32(
        self, dtype: torch.dtype, part: float, model: Llama, ids: list[int], expected: np.ndarray
    ) -> None:
        narrow = copy.deepcopy(model).to(dtype)
        runner = GpuRunner(narrow, capture=RecordedSteps())
        assert_near(runner.read_each(ids[:510]), expected[:510], part)
        steps = read_steps(runner, ids[510:515])
        assert_near(steps, expected[510:515], part)
        assert_near(runner.read(ids[515:560]), expected[559], part)
        assert steps.dtype == np.float32

    def test_chunks_of_any_size_give_the_same(
        self, model: Llama, ids: list[int], expected: np.ndarray
    ) -> None:
        for chunk_size in (7, 64, 600):
            runner = GpuRunner(model, chunk_size=chunk_size)
            assert_close(runner.read(ids[:600]), expected[599])
            assert_close(runner.read(ids[600:640]), expected[639])

    def test_read_each_gives_a_row_a_token(
        self, model: Llama, ids: list[int], expected: np.ndarray
    ) -> None:
        runner = GpuRunner(model, capture=RecordedSteps())
        runner.read(ids[:509])
        assert_close(runner.read_each(ids[509:514]), expected[509:514])
        assert_close(runner.read_each(ids[514:515]), expected[514:515])
        assert_close(runner.read(ids[515:516]), expected[515])

    def test_what_was_returned_does_not_change_afterwards(
        self, model: Llama, ids: list[int], expected: np.ndarray
    ) -> None:
        runner = GpuRunner(model)
        first, second = runner.read(ids[:1]), runner.read(ids[1:2])
        runner.read(ids[2:3])
        assert_close(first, expected[0])
        assert_close(second, expected[1])


class TestCapture:
    def test_happens_once_for_each_stretch_of_the_cache(self, model: Llama, ids: list[int]) -> None:
        capture = RecordedSteps()
        runner = GpuRunner(model, capture=capture)
        for start, end, captured in ((0, 6, 1), (509, 515, 2), (1022, 1028, 3)):
            if start:
                runner.read(ids[len(runner.ids) : start])
            read_steps(runner, ids[start:end])
            assert capture.captured == captured
        runner.truncate(100)
        read_steps(runner, ids[100:106])
        assert (capture.captured, capture.replayed) == (3, 24)
        assert len(capture.results) == 1, "every replay brings its logits to the same address"
        assert runner.capture_failure == ""

    def test_a_replay_runs_no_python_and_takes_no_memory_for_a_cache(
        self, model: Llama, ids: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runner = GpuRunner(model, capture=RecordedSteps())
        runner.read(ids[:1])
        monkeypatch.setattr(StaticCache, "__init__", None)
        monkeypatch.setattr(fused_llama.FusedLlama, "hidden", None)
        read_steps(runner, ids[1:4])

    def test_where_it_fails_steps_run_as_they_are_and_the_reason_is_kept(
        self, model: Llama, ids: list[int], expected: np.ndarray
    ) -> None:
        attempts = []

        def fails(step: Step) -> Step:
            attempts.append(step)
            raise RuntimeError("operation not permitted when stream is capturing\nmore")

        runner = GpuRunner(model, capture=fails)
        runner.read(ids[:509])
        assert runner.capture_failure == ""
        assert_close(read_steps(runner, ids[509:515]), expected[509:515])
        assert runner.capture_failure == "operation not permitted when stream is capturing"
        assert len(attempts) == 1


class TestCache:
    def test_what_was_cut_off_is_as_if_never_read(
        self, model: Llama, ids: list[int], expected: np.ndarray
    ) -> None:
        runner = GpuRunner(model, capture=RecordedSteps())
        runner.read(ids[:20] + ids[:600])
        runner.truncate(20)
        assert runner.ids == ids[:20]
        assert_close(read_steps(runner, ids[20:25]), expected[20:25])
        assert_close(runner.read(ids[25:60]), expected[59])
        runner.truncate(0)
        assert_close(runner.read(ids[:1]), expected[0])

    def test_broken_numbers_are_gone_once_they_are_cut_off(
        self, tiny_models: Any, ids: list[int], expected: np.ndarray
    ) -> None:
        model = new_model(tiny_models)
        model.model.embed_tokens.weight[POISON] = torch.nan
        runner = GpuRunner(model)
        known = [token_id for token_id in range(96) if token_id != POISON]  # a tied head's row
        runner.read(ids[:20])
        assert np.isnan(runner.read([POISON, *ids[:30]])[known]).all()
        runner.truncate(20)
        assert_close(runner.read(ids[20:22])[known], expected[21][known])
        assert_close(runner.read(ids[22:23])[known], expected[22][known])

    def test_few_stretches_of_it_are_looked_at(self, tiny_models: Any) -> None:
        config = tiny_models.tiny_config(max_position_embeddings=5000)
        cache = StaticCache(config, dtype=torch.float32, device="cpu")
        lengths = (1, 511, 512, 513, 1024, 1025, 4096, 4097, 5000)
        stretches = [512, 512, 512, 1024, 1024, 2048, 4096, 5000, 5000]
        assert [cache.stretch(length) for length in lengths] == stretches

    def test_is_free_as_soon_as_its_session_is_gone(
        self, model: Llama, ids: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        caches = []

        def new_cache(*args: Any, **kwargs: Any) -> StaticCache:
            cache = StaticCache(*args, **kwargs)
            caches.append(weakref.ref(cache))
            return cache

        monkeypatch.setattr(gpu_runner, "StaticCache", new_cache)
        runner = GpuRunner(model, capture=run_eagerly)
        runner.read(ids[:1])
        gc.disable()
        try:
            del runner
            assert [cache() for cache in caches] == [None]
        finally:
            gc.enable()

    def test_can_be_cut_only_where_it_is(self, model: Llama, ids: list[int]) -> None:
        runner = GpuRunner(model)
        runner.truncate(0)
        runner.read(ids[:3])
        for length in (-1, 4):
            with pytest.raises(ValueError, match="cannot cut"):
                runner.truncate(length)
        assert runner.ids == ids[:3]

    def test_sessions_of_one_model_do_not_disturb_each_other(
        self, model: Llama, ids: list[int], expected: np.ndarray
    ) -> None:
        one, other = (GpuRunner(model, capture=RecordedSteps()) for _ in range(2))
        one.read(ids[:10])
        other.read(ids[5:50])
        for at in range(10, 14):
            assert_close(one.read([ids[at]]), expected[at])
            other.read([ids[at + 40]])
        other.truncate(0)
        assert_close(one.read(ids[14:20]), expected[19])

    def test_more_than_fits_is_refused_and_changes_nothing(
        self, model: Llama, ids: list[int], expected: np.ndarray
    ) -> None:
        runner = GpuRunner(model)
        runner.read(ids[:1090])
        with pytest.raises(PromptTooLongError, match="1,101"):
            runner.read(ids[:11])
        with pytest.raises(ValueError, match="no tokens"):
            runner.read([])
        assert_close(runner.read(ids[1090:]), expected[-1])


class TestWeights:
    def test_are_not_copied_and_the_module_stays_whole(
        self, tiny_models: Any, ids: list[int]
    ) -> None:
        model = new_model(tiny_models)
        before, expected = copy.deepcopy(model.state_dict()), reference(model, ids[:9])
        GpuRunner(model).read(ids[:2])
        addresses = [weight.data_ptr() for weight in model.parameters()]
        for layer in model.model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            for one, after in (
                (attention.q_proj, attention.k_proj),
                (attention.k_proj, attention.v_proj),
                (mlp.gate_proj, mlp.up_proj),
            ):
                assert after.weight.data_ptr() == one.weight.data_ptr() + 4 * one.weight.numel()
        GpuRunner(model).read(ids[:2])
        assert [weight.data_ptr() for weight in model.parameters()] == addresses
        for name, weight in model.state_dict().items():
            assert torch.equal(weight, before[name])
        model.requires_grad_(True)
        logits = model(torch.tensor([ids[:9]])).logits
        assert_close(logits[0].detach().numpy(), expected)
        logits.sum().backward()
        assert model.model.layers[0].self_attn.k_proj.weight.grad is not None

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_widening_goes_on_in_fp32_for_this_session_alone(
        self, dtype: torch.dtype, model: Llama, ids: list[int]
    ) -> None:
        narrow = copy.deepcopy(model).to(dtype)
        runner, other = GpuRunner(narrow, capture=RecordedSteps()), GpuRunner(narrow)
        runner.read(ids[:20])
        before = other.read(ids[:20])
        assert runner.widen()
        assert runner.ids == []
        expected = reference(copy.deepcopy(narrow).float(), ids[:22])
        assert_close(runner.read(ids[:21]), expected[20])
        assert_close(runner.read(ids[21:22]), expected[21])
        assert not runner.widen()
        assert runner.ids == ids[:22]
        other.truncate(0)
        assert np.array_equal(other.read(ids[:20]), before)


class _SetBefore(Event):
    """An event that is set when it is looked at for the `count`-th time."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._left = count

    def is_set(self) -> bool:
        self._left -= 1
        return self._left <= 0


class TestFailures:
    @pytest.mark.parametrize(
        ("looks", "kept"), [(1, 20), (2, 20), (3, 36), (4, 36), (5, 52), (6, 52)]
    )
    def test_stopping_keeps_whole_chunks_and_nothing_else(
        self, looks: int, kept: int, tiny_models: Any, ids: list[int], expected: np.ndarray
    ) -> None:
        model = new_model(tiny_models)  # of two layers
        model.model.embed_tokens.weight[POISON] = torch.nan
        known = [token_id for token_id in range(96) if token_id != POISON]
        runner = GpuRunner(model, chunk_size=16)
        runner.read(ids[:20])
        chunks = [*ids[20:52], *[POISON] * 16]
        chunks[kept - 20 + 15] = POISON  # at the end of the chunk that is given up
        with pytest.raises(Stopped):
            runner.read(chunks, cancel=_SetBefore(looks))
        assert runner.ids == ids[:kept]
        assert_close(runner.read([ids[kept]])[known], expected[kept][known])

    def test_a_step_that_is_stopped_is_not_taken(
        self, model: Llama, ids: list[int], expected: np.ndarray
    ) -> None:
        runner = GpuRunner(model)
        runner.read(ids[:4])
        cancel = Event()
        runner.read(ids[4:5], cancel=cancel)
        cancel.set()
        with pytest.raises(Stopped):
            runner.read(ids[5:6], cancel=cancel)
        assert runner.ids == ids[:5]
        assert_close(runner.read(ids[5:6]), expected[5])

    @pytest.mark.parametrize(
        "error",
        [
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 MiB"),
            RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"),
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
        ],
    )
    @pytest.mark.parametrize("where", ["__init__", "write", "read"])
    def test_no_memory_is_said_plainly_and_leaves_the_session_usable(
        self,
        where: str,
        error: RuntimeError,
        model: Llama,
        ids: list[int],
        expected: np.ndarray,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def fails(*_args: object, **_kwargs: object) -> None:
            raise error

        runner = GpuRunner(model)
        if where != "__init__":
            runner.read(ids[:3])
        before = list(runner.ids)
        with monkeypatch.context() as patched:
            patched.setattr(StaticCache, where, fails)
            for count in (1, 5):
                with pytest.raises(DeviceError, match="memory"):
                    runner.read(ids[:count])
        assert runner.ids == before
        assert_close(runner.read(ids[len(before) : 5]), expected[4])

    def test_bugs_fly(self, model: Llama, ids: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
        def bug(*_args: object) -> None:
            raise RuntimeError("shapes do not fit")

        monkeypatch.setattr(StaticCache, "write", bug)
        with pytest.raises(RuntimeError, match="shapes do not fit"):
            GpuRunner(model).read(ids[:5])


def test_a_session_replies_as_with_the_reference_runner(
    default_model_path: Any, tiny_models: Any
) -> None:
    text = load_text(default_model_path, read_config(default_model_path))
    model = new_model(tiny_models, vocab_size=49152, tie_word_embeddings=False)
    options = SamplingOptions(temperature=0, max_new_tokens=8, end_loops=False)
    replies = []
    for runner in (TorchRunner(model, chunk_size=16), GpuRunner(model, chunk_size=16)):
        session = Session(runner, *text)
        dialog = [Message("user", "What is a tide?")]
        for question in ("And why?", "Since when?"):
            *_, finished = session.reply(dialog, options)
            dialog += [finished.message(), Message("user", question)]
            replies.append(finished.token_ids)
    assert replies[:2] == replies[2:]


def test_numbers_that_outgrow_fp16_are_computed_in_fp32(
    default_model_path: Any, tiny_models: Any
) -> None:
    text = load_text(default_model_path, read_config(default_model_path))
    model = new_model(tiny_models, vocab_size=49152)
    mlp = model.model.layers[0].mlp
    mlp.gate_proj.weight *= 100
    mlp.up_proj.weight *= 100
    narrow = copy.deepcopy(model).half()
    dialog = [Message("user", "What is a tide?")]
    options = SamplingOptions(temperature=0, max_new_tokens=8, end_loops=False)
    runner = GpuRunner(narrow)
    assert not np.isfinite(runner.read(Session(runner, *text).prompt_ids(dialog))).all()
    *_, finished = Session(runner, *text).reply(dialog, options)
    *_, expected = Session(TorchRunner(copy.deepcopy(narrow).float()), *text).reply(dialog, options)
    assert finished.reason == "length"
    assert finished.token_ids == expected.token_ids


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("dtype", "part"),
    [(torch.float32, 1e-3), (torch.float16, 0.01), (torch.bfloat16, 0.06)],
    ids=str,
)
def test_a_real_gpu_computes_what_the_cpu_computes(
    dtype: torch.dtype, part: float, model: Llama, ids: list[int], expected: np.ndarray
) -> None:
    device = "cuda" if torch.cuda.is_available() else "mps"
    runner = GpuRunner(copy.deepcopy(model).to(device=device, dtype=dtype))
    assert_near(runner.read_each(ids[:509]), expected[:509], part)
    assert_near(read_steps(runner, ids[509:516]), expected[509:516], part)
    assert_near(runner.read(ids[516:1022]), expected[1021], part)
    assert_near(read_steps(runner, ids[1022:1027]), expected[1022:1027], part)
    runner.truncate(300)
    assert_near(read_steps(runner, ids[300:304]), expected[300:304], part)
    assert runner.capture_failure == ""
