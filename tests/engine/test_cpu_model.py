"""Making a model ready for the compiled step, keeping what was made, and doing without the step."""

import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.errors import DeviceError, OptionsError, StoppedError
from engine.files.weights import load_state_dict, read_config
from engine.loading import build_model, load
from engine.run.cpu_model import NoStepError, runners_for
from engine.run.cpu_runner import CpuRunner
from engine.run.torch_runner import TorchRunner
from engine.step import convert

IDS = [5, 6, 7, 8]


@pytest.fixture
def config(tiny_models):
    return tiny_models.tiny_config(head_dim=32)


@pytest.fixture
def files(tiny_models, config, tmp_path, home):
    """The same model with weights of 4 bits, 8 bits and 16 bits."""
    state = tiny_models.random_state(config)
    return {
        kind: tiny_models.write_gguf(tmp_path / f"{kind}.gguf", config, state, quantization=kind)
        for kind in ("Q4_0", "Q4_1", "Q8_0", "BF16")
    }


def ready(path: Path, wanted=None, threads=1, progress=lambda share: None, cancel=None):
    """(logits after some ids, the precision)."""
    new_runner, precision = runners_for(
        path,
        read_config(path),
        wanted=wanted,
        threads=threads,
        progress=progress,
        cancel=cancel,
    )
    return new_runner().read(IDS), precision


@pytest.fixture
def packings(monkeypatch):
    """How often a matrix was packed."""
    packed = []
    original = convert._packed

    def counted(stored, number, kind):
        packed.append(number)
        return original(stored, number, kind)

    monkeypatch.setattr(convert, "_packed", counted)
    return packed


@pytest.mark.parametrize(
    ("kind", "precision"), [("Q4_0", "q4"), ("Q4_1", "q4"), ("Q8_0", "int8"), ("BF16", "int8")]
)
def test_the_precision_follows_from_the_file(files, kind, precision):
    _, found = ready(files[kind])
    assert found == precision


@pytest.mark.parametrize(("kind", "wanted"), [("Q4_0", "q4"), ("Q4_1", "q4"), ("Q8_0", "int8")])
def test_the_files_own_numbers_are_used_as_they_are(files, kind, wanted):
    """Against the file in fp32: a wrong scale or order of rows would be far off."""
    found, _ = ready(files[kind], wanted)
    config = read_config(files[kind])
    exact = build_model(config, load_state_dict(files[kind], config, dtype=torch.float32))
    expected = TorchRunner(exact).read(IDS)
    assert np.abs(found - expected).max() < 0.01 * np.abs(expected).max()


def test_four_bits_of_a_file_that_has_none_are_refused(files):
    with pytest.raises(OptionsError, match="no weights of 4 bits"):
        ready(files["BF16"], "q4")


class TestKept:
    """Prepared weights."""

    def prepared(self) -> list[Path]:
        return sorted(Path(os.environ["SMOLDESK_HOME"]).glob("data/prepared/*"))

    def test_they_are_used_at_the_next_start(self, files, packings):
        first, _ = ready(files["Q4_1"])
        assert packings
        packings.clear()
        second, _ = ready(files["Q4_1"])
        assert not packings
        np.testing.assert_array_equal(first, second)

    def test_each_precision_has_its_own(self, files, packings):
        for wanted in ("q4", "int8", "bf16"):
            ready(files["Q4_1"], wanted)
        assert len(self.prepared()) == 3
        packings.clear()
        for wanted in ("q4", "int8", "bf16"):
            ready(files["Q4_1"], wanted)
        assert not packings

    def test_they_are_made_again_when_the_file_changes(self, files, packings, tiny_models, config):
        first, _ = ready(files["Q4_1"])
        state = tiny_models.random_state(config, seed=7)
        tiny_models.write_gguf(files["Q4_1"], config, state, quantization="Q4_1")
        os.utime(files["Q4_1"], ns=(1, 1))
        packings.clear()
        second, _ = ready(files["Q4_1"])
        assert packings
        assert not np.array_equal(first, second)
        assert len(self.prepared()) == 1

    @pytest.mark.parametrize("place", [0, 10, 70_000, -1])
    def test_a_damaged_file_is_made_again(self, files, packings, place):
        expected, _ = ready(files["Q4_1"])
        (path,) = self.prepared()
        contents = bytearray(path.read_bytes())
        contents[place] ^= 0x10
        path.write_bytes(contents)
        packings.clear()
        found, _ = ready(files["Q4_1"])
        assert packings
        np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize("size", [0, 100, 2**16, 70_000])
    def test_a_file_cut_short_is_made_again(self, files, packings, size):
        expected, _ = ready(files["Q4_1"])
        (path,) = self.prepared()
        path.write_bytes(path.read_bytes()[:size])
        packings.clear()
        found, _ = ready(files["Q4_1"])
        assert packings
        np.testing.assert_array_equal(found, expected)

    def test_what_belongs_to_a_vanished_model_goes(self, files):
        ready(files["Q4_1"])
        (old,) = self.prepared()
        files["Q4_1"].unlink()
        ready(files["Q8_0"])
        assert old not in self.prepared()
        assert len(self.prepared()) == 1

    def test_what_was_made_of_other_contents_goes(self, files):
        ready(files["Q4_1"])
        (old,) = self.prepared()
        os.utime(files["Q4_1"], (1, 1))
        ready(files["Q8_0"])
        assert old not in self.prepared()

    def test_other_contents_are_seen_though_size_and_time_are_the_same(self, files, packings):
        path = files["Q4_1"]
        ready(path)
        assert packings
        before = path.stat()
        contents = bytearray(path.read_bytes())
        half = len(contents) // 2
        contents[half:] = bytes(reversed(contents[half:]))
        path.write_bytes(contents)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        packings.clear()
        ready(path)
        assert packings

    @pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
    def test_a_pipe_in_their_place_keeps_nobody_waiting(self, files):
        ready(files["Q4_1"])
        (path,) = self.prepared()
        path.unlink()
        os.mkfifo(path)
        ready(files["Q4_1"])
        assert path.is_file()

    def test_a_full_disk_costs_nothing_but_time(self, files, monkeypatch):
        def full(*_args, **_kwargs):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("engine.step.store.tempfile.mkstemp", full)
        _, precision = ready(files["Q4_1"])
        assert precision == "q4"
        assert self.prepared() == []


def test_progress_rises_to_the_whole(files):
    seen: list[float] = []
    ready(files["Q4_1"], progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1


def test_preparing_can_be_stopped(files):
    cancel = threading.Event()
    with pytest.raises(StoppedError):
        ready(files["Q4_1"], progress=lambda share: cancel.set(), cancel=cancel)


class TestFast:
    """That the fast path is really the one in use, and what happens where it cannot be."""

    @pytest.fixture
    def model(self, default_model_path, home):
        return str(default_model_path)

    def test_the_real_model_runs_on_the_compiled_step(self, model, monkeypatch):
        monkeypatch.setattr("engine.model.llama.Llama.forward", lambda *_: pytest.fail("torch ran"))
        engine = load(model, device="cpu", threads=2)
        assert engine.device.precision == "q4"
        runner = engine.new_runner()
        assert isinstance(runner, CpuRunner)
        logits = runner.read([504, 3575, 282, 4649, 314])
        assert engine.tokenizer.decode([int(logits.argmax())]) == " Paris"

    @pytest.mark.parametrize("wanted", [None, "bf16"])
    def test_without_numba_torch_serves_and_the_reason_says_so(self, files, wanted, monkeypatch):
        monkeypatch.setitem(sys.modules, "engine.run.cpu_runner", None)
        with pytest.raises(NoStepError, match="numba is missing"):
            ready(files["Q4_1"])
        monkeypatch.setattr("engine.loading.load_text", lambda *_args: (_Text(), None))
        engine = load(files["Q4_1"], device="cpu", precision=wanted, threads=1)
        assert isinstance(engine.new_runner(), TorchRunner)
        assert engine.device.precision in ("bf16", "fp32")
        assert "slower, because numba is missing" in engine.device.reason
        with pytest.raises(DeviceError, match="q4 is not possible here"):
            load(files["Q4_1"], device="cpu", precision="q4", threads=1)

    def test_a_compiler_that_fails_is_no_reason_not_to_reply(self, files, monkeypatch):
        def broken(*_args):
            raise AssertionError("LLVM")

        monkeypatch.setattr("engine.run.cpu_runner.compiled", broken)
        with pytest.raises(NoStepError, match="was not compiled"):
            ready(files["Q4_1"])

    def test_heads_of_an_unusual_size_are_left_to_torch(self, tiny_models, tmp_path, home):
        config = tiny_models.tiny_config(head_dim=16)
        path = tmp_path / "small.gguf"
        tiny_models.write_gguf(path, config, tiny_models.random_state(config))
        with pytest.raises(NoStepError, match="heads of 16 numbers"):
            ready(path)


class _Text:
    vocab_size = 1
