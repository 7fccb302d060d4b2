"""Choosing a device: no GPU is trusted before it has computed what the CPU computes."""

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor

from engine.errors import DeviceError, OptionsError
from engine.model.llama import Llama
from engine.run import backends as gpu
from engine.run.backends import NO_GPU, NO_SUPPORT, Backend, Precision, logits_on, self_test
from engine.run.device import (
    choose_device,
    cpu_features,
    cpu_precision,
    torch_dtype,
    usable_cores,
)
from engine.run.gpu_runner import GpuRunner

Logits = Callable[[Llama, Tensor, Precision], Tensor]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """The model is tiny: a second thread only waits, and for long when the machine is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def right(model: Llama, ids: Tensor, precision: Precision) -> Tensor:
    """A GPU that computes as it should, played by the CPU."""
    return logits_on("cpu", model, ids, precision)


def raises(error: Exception, *, only_in: Precision | None = None) -> Logits:
    def logits(model: Llama, ids: Tensor, precision: Precision) -> Tensor:
        if only_in in (None, precision):
            raise error
        return right(model, ids, precision)

    return logits


def fake(logits: Logits = right, **changes: Any) -> Backend:
    values: dict[str, Any] = {
        "name": "cuda",
        "missing": lambda: "",
        "label": lambda: "Test GPU",
        "free_memory": lambda: 2**33,
        "logits": logits,
    }
    return Backend(**values | changes)


def choose(*backends: Backend, requested: str | None = None, **changes: Any) -> Any:
    return choose_device(requested, environ={}, backends=backends, **changes)


class TestSelfTest:
    @pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
    def test_right_numbers_pass_in_every_precision(self, precision: Precision) -> None:
        assert self_test(fake(), precision) == ""

    @pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
    def test_wrong_numbers_fail_in_every_precision(self, precision: Precision) -> None:
        def shifted(model: Llama, ids: Tensor, precision: Precision) -> Tensor:
            return right(model, ids.roll(1), precision)

        assert "results are wrong" in self_test(fake(shifted), precision)

    def test_numbers_wrong_for_the_last_token_alone_fail(self) -> None:
        def stale_cache(model: Llama, ids: Tensor, precision: Precision) -> Tensor:
            logits = right(model, ids, precision).clone()
            logits[-1] = logits[-2]
            return logits

        assert "results are wrong" in self_test(fake(stale_cache), "bf16")

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_numbers_that_are_not_finite_fail(self, value: float) -> None:
        def broken(model: Llama, ids: Tensor, precision: Precision) -> Tensor:
            logits = right(model, ids, precision).clone()
            logits[0, 0] = value
            return logits

        assert self_test(fake(broken), "fp32") == "its results are not finite"

    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            (
                RuntimeError("CUDA error: no kernel image is available for execution on …\nmore"),
                "this package was not built for this GPU",
            ),
            (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), "ran out of memory"),
            (RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"), "ran out of memory"),
            (TypeError("BFloat16 is not supported on MPS\nmore"), "BFloat16 is not supported"),
            (NotImplementedError("aten::silu"), "aten::silu"),
            (AssertionError(), "AssertionError"),
        ],
    )
    def test_whatever_is_raised_becomes_one_line_of_reason(
        self, error: Exception, reason: str
    ) -> None:
        said = self_test(fake(raises(error)), "fp32")
        assert reason in said
        assert "\n" not in said

    def test_numbers_are_as_large_as_the_real_models(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The residual stream of SmolLM2-135M in fp32 reaches 26,671; fp16 ends at 65,504."""
        largest = []
        rms_norm = functional.rms_norm

        def measured(x: Tensor, *args: Any) -> Tensor:
            largest.append(float(x.abs().max()))
            return rms_norm(x, *args)

        monkeypatch.setattr(functional, "rms_norm", measured)
        assert self_test(fake(), "fp32") == ""
        assert 26_671 < max(largest) < 65_504

    @pytest.mark.parametrize(("precision", "passes"), [("fp16", False), ("bf16", True)])
    def test_squaring_large_numbers_in_their_own_precision_fails_where_they_do_not_fit(
        self, precision: Precision, passes: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def narrow_rms_norm(x: Tensor, _shape: object, weight: Tensor, eps: float) -> Tensor:
            return x * ((x * x).mean(-1, keepdim=True) + eps).rsqrt() * weight

        def narrow(model: Llama, ids: Tensor, precision: Precision) -> Tensor:
            with monkeypatch.context() as patched:
                patched.setattr(functional, "rms_norm", narrow_rms_norm)
                return right(model, ids, precision)

        assert (self_test(fake(narrow), precision) == "") == passes

    def test_too_little_free_memory_fails_before_anything_runs(self) -> None:
        cramped = fake(raises(RuntimeError("ran")), free_memory=lambda: 100 * 2**20)
        assert self_test(cramped, "fp32") == "only 100 MB of its memory are free"

    def test_our_own_bugs_are_not_taken_for_a_failing_gpu(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def bug(*_args: object, **_kwargs: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(GpuRunner, "read", bug)
        with pytest.raises(ZeroDivisionError):
            self_test(fake(), "fp32")

    def test_leaves_torch_random_numbers_as_they_were(self) -> None:
        before = torch.get_rng_state()
        self_test(fake(), "fp32")
        assert torch.equal(torch.get_rng_state(), before)


class TestChoice:
    def test_the_first_gpu_that_passes_is_used(self) -> None:
        broken = fake(raises(RuntimeError("bad")))
        choice = choose(broken, fake(name="mps", label=lambda: "Apple GPU"))
        assert (choice.name, choice.label, choice.precision) == ("mps", "Apple GPU", "bf16")
        assert choice.reason == "it passed its self-test"

    def test_cuda_comes_before_mps_among_the_real_ones(self) -> None:
        assert [backend.name for backend in gpu.gpu_backends()] == ["cuda", "mps"]

    def test_without_bf16_the_gpu_is_used_in_fp32_and_says_so(self) -> None:
        no_bf16 = fake(raises(RuntimeError("it has no bf16 units"), only_in="bf16"))
        choice = choose(no_bf16)
        assert (choice.name, choice.precision) == ("cuda", "fp32")
        assert choice.reason == "it passed its self-test, but not in bf16: it has no bf16 units"

    def test_each_kind_of_gpu_has_its_own_order_of_precisions(self) -> None:
        apple: dict[str, Any] = {"name": "mps", "precisions": ("fp16", "fp32")}
        assert choose(fake(**apple)).precision == "fp16"
        no_fp16 = fake(raises(RuntimeError("too narrow"), only_in="fp16"), **apple)
        choice = choose(no_fp16)
        assert (choice.name, choice.precision) == ("mps", "fp32")
        assert choice.reason == "it passed its self-test, but not in fp16: too narrow"

    def test_a_failing_gpu_leaves_the_cpu_with_the_reason(self) -> None:
        choice = choose(fake(raises(RuntimeError("kaput"))), fake(missing=lambda: NO_SUPPORT))
        assert (choice.name, choice.label) == ("cpu", "CPU")
        assert choice.reason == "the GPU failed its self-test: kaput"

    @pytest.mark.parametrize(
        ("missing", "reason"),
        [
            ([NO_SUPPORT, NO_SUPPORT], NO_SUPPORT),
            ([NO_SUPPORT, NO_GPU], NO_GPU),
            ([NO_GPU, NO_SUPPORT], NO_GPU),
            ([], NO_SUPPORT),
        ],
    )
    def test_without_a_gpu_the_cpu_says_why(self, missing: list[str], reason: str) -> None:
        choice = choose(*(fake(missing=lambda said=said: said) for said in missing))
        assert (choice.name, choice.reason) == ("cpu", reason)

    def test_the_cpu_on_request_tests_no_gpu(self) -> None:
        choice = choose(fake(missing=raises(AssertionError())), requested="cpu")
        assert (choice.name, choice.reason) == ("cpu", "you asked for it")

    def test_a_gpu_on_request_is_used_when_it_passes(self) -> None:
        choice = choose(fake(name="mps"), fake(), requested="CUDA")
        assert (choice.name, choice.reason) == ("cuda", "you asked for it")

    @pytest.mark.parametrize(
        "backends",
        [
            [fake(missing=lambda: NO_GPU)],
            [fake(raises(RuntimeError("no gpu found")))],
            [fake(name="mps")],
        ],
    )
    def test_a_gpu_on_request_that_cannot_be_used_is_an_error(
        self, backends: list[Backend]
    ) -> None:
        with pytest.raises(DeviceError, match="'cuda' cannot be used") as caught:
            choose(*backends, requested="cuda")
        assert "cpu" in caught.value.remedy

    def test_a_precision_on_request_is_the_one_tested_and_used(self) -> None:
        only_fp32_works = fake(raises(RuntimeError("no"), only_in="bf16"))
        assert choose(only_fp32_works, precision="fp32").name == "cuda"
        assert choose(only_fp32_works, precision="bf16").name == "cpu"
        assert choose(precision="fp32").precision == "fp32"
        assert choose(precision="bf16").precision == "bf16"


class TestEnvironment:
    def test_counts_where_nothing_else_is_said(self) -> None:
        environ = {
            "SMOLDESK_DEVICE": "cpu",
            "SMOLDESK_PRECISION": "fp32",
            "SMOLDESK_THREADS": "3",
        }
        choice = choose_device(environ=environ, backends=[fake()])
        assert (choice.name, choice.precision, choice.threads) == ("cpu", "fp32", 3)

    def test_gives_way_to_a_flag(self) -> None:
        environ = {
            "SMOLDESK_DEVICE": "mps",
            "SMOLDESK_PRECISION": "int8",
            "SMOLDESK_THREADS": "none",
        }
        choice = choose_device(
            "auto", precision="fp32", threads=1, environ=environ, backends=[fake()]
        )
        assert (choice.name, choice.precision, choice.threads) == ("cuda", "fp32", 1)

    def test_auto_and_empty_mean_choose(self) -> None:
        for value in ("auto", "", "AUTO"):
            environ = dict.fromkeys(["SMOLDESK_DEVICE", "SMOLDESK_PRECISION"], value)
            assert choose_device(environ=environ, backends=[fake()]).name == "cuda"


@pytest.mark.parametrize("name", ["gpu", "cuda:1", "vulkan", "cpu,cuda"])
def test_unknown_devices_are_refused(name: str) -> None:
    with pytest.raises(OptionsError, match="no device called") as caught:
        choose(requested=name)
    assert "cpu" in caught.value.remedy


@pytest.mark.parametrize("name", ["int8", "q4", "INT8"])
def test_whole_numbers_are_for_the_cpu_even_beside_a_gpu(name: str) -> None:
    choice = choose(fake(), precision=name)
    assert (choice.name, choice.wanted) == ("cpu", name.lower())
    assert choice.reason == f"only the CPU computes in {name.lower()}"
    with pytest.raises(DeviceError, match="is for the CPU"):
        choose(fake(), requested="cuda", precision=name)


@pytest.mark.parametrize("name", ["fp64", "half", "bf-16", "8bit"])
def test_unknown_precisions_are_refused(name: str) -> None:
    with pytest.raises(OptionsError, match="no precision called"):
        choose(precision=name)


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_impossible_thread_counts_are_refused(threads: int) -> None:
    with pytest.raises(OptionsError, match="number of threads"):
        choose(threads=threads)
    with pytest.raises(OptionsError, match="number of threads"):
        choose_device(environ={"SMOLDESK_THREADS": "two"}, backends=[])


class TestProcessor:
    @pytest.mark.parametrize("unit", ["avx512_bf16", "amx_bf16", "bf16"])
    def test_bf16_where_the_processor_multiplies_it(self, unit: str) -> None:
        assert cpu_precision({unit: True}, onednn=True) == "bf16"
        assert cpu_precision({unit: True}, onednn=False) == "fp32"
        assert cpu_precision({unit: False, "avx2": True}, onednn=True) == "fp32"

    def test_what_torch_cannot_tell_means_fp32_and_all_cores(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def unknown() -> None:
            raise RuntimeError("unknown chip")

        monkeypatch.setattr(torch.cpu, "get_capabilities", unknown)
        assert cpu_features() == {}
        monkeypatch.delattr(torch.cpu, "get_capabilities")
        assert cpu_features() == {}
        assert cpu_precision({}, onednn=True) == "fp32"
        assert usable_cores({}, quota_file=tmp_path / "none") >= 1

    @pytest.mark.parametrize(
        ("allowed", "physical", "quota", "cores"),
        [
            (8, 4, "max 100000", 4),  # two threads a core
            (2, 4, "max 100000", 2),  # bound to two
            (8, 8, "300000 100000", 3),
            (8, 8, "50000 100000", 1),  # half a core is one
            (8, 8, "nonsense", 8),
            (8, 8, "1 0", 8),
            (8, None, "max 100000", 8),
        ],
    )
    def test_threads_are_the_physical_cores_that_may_be_used(
        self,
        allowed: int,
        physical: int | None,
        quota: str,
        cores: int,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        monkeypatch.setattr(
            os, "sched_getaffinity", lambda _pid: set(range(allowed)), raising=False
        )
        quota_file = tmp_path / "cpu.max"
        quota_file.write_text(quota)
        features = {"num_physical_cores": physical} if physical else {}
        assert usable_cores(features, quota_file=quota_file) == cores

    def test_systems_without_affinity_count_all_cores(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
        monkeypatch.setattr(os, "cpu_count", lambda: 6)
        assert usable_cores({}, quota_file=tmp_path / "none") == 6
        monkeypatch.setattr(os, "cpu_count", lambda: None)
        assert usable_cores({}, quota_file=tmp_path / "none") == 1


class TestRealBackends:
    def test_cuda_is_missing_from_a_build_without_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.version, "cuda", None)
        monkeypatch.setattr(torch.version, "hip", None)
        assert gpu.gpu_backends()[0].missing() == NO_SUPPORT

    def test_a_driver_that_does_not_start_says_so_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def too_old() -> bool:
            warnings.warn("CUDA initialization: The NVIDIA driver is too old.", stacklevel=1)
            return False

        monkeypatch.setattr(torch.version, "cuda", "13.0")
        monkeypatch.setattr(torch.cuda, "is_available", too_old)
        assert "The NVIDIA driver is too old)" in gpu.gpu_backends()[0].missing()

    def test_cuda_and_mps_without_a_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        monkeypatch.setattr(torch.backends.mps, "is_built", lambda: True)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
        assert [backend.missing() for backend in gpu.gpu_backends()] == [NO_GPU, NO_GPU]

    def test_apple_gpus_try_the_16_bits_that_all_of_them_have(self) -> None:
        cuda, mps = gpu.gpu_backends()
        assert cuda.precisions == ("bf16", "fp32")
        assert mps.precisions == ("fp16", "fp32")

    def test_emulated_bf16_does_not_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation
        )
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**33, 2**34))
        assert self_test(gpu.gpu_backends()[0], "bf16") == "it has no bf16 units"

    @pytest.mark.gpu
    def test_the_gpu_of_this_machine_passes(self) -> None:
        choice = choose_device(environ={})
        assert choice.name != "cpu", choice.reason
        assert choice.label


def test_precisions_are_torch_types() -> None:
    assert torch_dtype("fp32") is torch.float32
    assert torch_dtype("bf16") is torch.bfloat16
    assert torch_dtype("fp16") is torch.float16


@pytest.mark.parametrize(("threads", "left"), [(1, 1), (2, 1), (3, 1), (8, 4)])
def test_quiet_leaves_half_of_the_threads_to_others(threads: int, left: int) -> None:
    assert choose(threads=threads, quiet=True).threads == left
    assert choose(threads=threads).threads == threads
