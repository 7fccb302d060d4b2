"""What was read before is found again, whichever branch it is in, and memory stays in bounds."""

from collections.abc import Sequence
from itertools import chain
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DeviceError
from engine.model.kv_cache import KVCache
from engine.model.llama import Llama
from engine.run import memory
from engine.run.branches import Branches
from engine.run.gpu_runner import GpuRunner
from engine.run.runner import Stopped
from engine.run.torch_runner import TorchRunner

BYTES = 10  # of a position in a FakeCache
SIZE = 16  # of a chunk
LONG = list(range(100, 300))


class FakeCache:
    """Holds the tokens themselves. `fails` is what copying raises."""

    def __init__(self, tokens: Sequence[int] = ()) -> None:
        self.tokens = list(tokens)
        self.fails: Exception | None = None

    @property
    def length(self) -> int:
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        return BYTES * len(self.tokens)

    def truncate(self, length: int) -> None:
        assert 0 <= length <= len(self.tokens)
        del self.tokens[length:]

    def copy_prefix(self, length: int) -> "FakeCache":
        if self.fails is not None:
            raise self.fails
        return FakeCache(self.tokens[:length])


class Reader:
    """Reads into branches as a runner does, and knows how much it read."""

    def __init__(self, budget: int = 10**6) -> None:
        self.branches = Branches(FakeCache(), chunk_size=SIZE, budget=budget)

    def read(self, ids: list[int], *, whole_chunks: bool = False) -> int:
        """Make the current branch hold `ids`; returns how many of them had to be read."""
        held = self.branches.recall(ids, whole_chunks=whole_chunks)
        assert self.branches.current.ids == ids[:held]
        for start in range(held, len(ids), SIZE):
            self.append(ids[start : start + SIZE])
        return len(ids) - held

    def append(self, ids: list[int]) -> None:
        self.branches.current.cache.tokens.extend(ids)
        self.branches.add(ids)
        assert self.branches.current.cache.tokens == self.branches.current.ids


class TestFinding:
    def test_what_goes_on_reads_only_what_is_new(self) -> None:
        reader = Reader()
        assert reader.read(LONG) == 200
        assert reader.read([*LONG, 1, 2]) == 2
        assert len(reader.branches) == 1

    def test_going_back_to_an_edited_dialog_reads_nothing_again(self) -> None:
        reader = Reader()
        edited = [*LONG[:50], *range(1000, 1100)]
        reader.read(LONG)
        assert reader.read(edited) == 100
        assert reader.read(LONG) == 0
        assert reader.read([*edited, 7]) == 1
        assert reader.read([*LONG, 7]) == 1
        assert len(reader.branches) == 2

    def test_another_chat_leaves_the_first_alone(self) -> None:
        reader = Reader()
        reader.read(LONG)
        assert reader.read(list(range(1000, 1100))) == 100
        assert reader.read(LONG) == 0

    @pytest.mark.parametrize(("lost", "branches"), [(64, 1), (65, 2)])
    def test_only_much_is_worth_a_copy(self, lost: int, branches: int) -> None:
        reader = Reader()
        reader.read(LONG)
        reader.read([*LONG[:-lost], 1])
        assert len(reader.branches) == branches
        assert reader.read(LONG) == (0 if branches == 2 else lost)

    def test_of_two_that_hold_as_much_the_one_that_loses_less_is_cut(self) -> None:
        reader = Reader()
        reader.read(LONG)
        reader.read([*LONG[:100], 1, 2, 3])
        reader.read(LONG)
        reader.read([*LONG[:100], 4])
        assert len(reader.branches) == 2
        assert reader.read(LONG) == 0


class TestWholeChunks:
    def test_only_chunks_counted_from_the_first_token_are_used_again(self) -> None:
        reader = Reader()
        reader.read(LONG[:40])
        assert reader.read(LONG[:40], whole_chunks=True) == 8
        assert reader.read(LONG[:50]) == 10
        assert reader.read(LONG, whole_chunks=True) == 200 - 32

    def test_what_is_read_again_is_no_reason_for_a_copy(self) -> None:
        reader = Reader()
        for token in LONG:  # as a reply is written
            reader.append([token])
        assert reader.read(LONG, whole_chunks=True) == 200
        assert len(reader.branches) == 1

    def test_a_cut_within_a_chunk_takes_all_of_it(self) -> None:
        reader = Reader()
        reader.read(LONG[:32])
        reader.branches.current.truncate(20)
        reader.append(LONG[20:36])  # as many as a chunk, but not where one begins
        assert reader.read(LONG, whole_chunks=True) == 200 - 16

    def test_each_branch_has_its_own(self) -> None:
        reader = Reader()
        reader.read(LONG)
        reader.read([*LONG[:100], *range(1000, 1100)])  # forks within a chunk
        assert reader.read([*LONG[:100], 1000, 5], whole_chunks=True) == 102 - 96
        assert reader.read(LONG, whole_chunks=True) == 200 - 192
        fork = reader.branches.current.fork(40)
        fork.add(LONG[40:60])
        assert fork.reusable(LONG, whole_chunks=True) == 32


class TestBudget:
    def test_the_least_recently_used_goes_first(self) -> None:
        a, b, c = (list(range(start, start + 100)) for start in (1000, 2000, 3000))
        reader = Reader(budget=350 * BYTES)
        for ids in (a, b, c, a):
            reader.read(ids)
        assert len(reader.branches) == 3
        reader.append(LONG[:100])
        assert [reader.read(ids) for ids in (a + LONG[:100], c, b)] == [0, 0, 100]

    def test_a_growing_branch_pushes_others_out(self) -> None:
        reader = Reader(budget=320 * BYTES)
        reader.read(LONG)
        reader.read(list(range(1000, 1100)))
        assert reader.branches.nbytes == 300 * BYTES
        reader.append(list(range(2000, 2021)))
        assert reader.branches.nbytes == 121 * BYTES

    def test_no_copy_is_made_where_both_would_not_fit(self) -> None:
        reader = Reader(budget=299 * BYTES)
        reader.read(LONG)
        assert reader.read([*LONG[:100], 7]) == 1
        assert len(reader.branches) == 1

    def test_others_make_room_before_a_copy_is_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reader = Reader(budget=350 * BYTES)
        reader.read(list(range(1000, 1100)))
        reader.read(LONG)
        most = []
        copy = FakeCache.copy_prefix

        def watched(cache: FakeCache, length: int) -> FakeCache:
            most.append(reader.branches.nbytes + BYTES * length)
            return copy(cache, length)

        monkeypatch.setattr(FakeCache, "copy_prefix", watched)
        reader.read([*LONG[:100], 7])
        assert most == [300 * BYTES]

    def test_one_alone_may_be_larger(self) -> None:
        reader = Reader(budget=BYTES)
        reader.read(LONG)
        assert reader.read([*LONG, 1]) == 1

    def test_where_copying_fails_for_want_of_memory_the_branch_is_cut(self) -> None:
        for error in (MemoryError(), RuntimeError("[enforce fail] can't allocate memory")):
            reader = Reader()
            reader.read(LONG)
            reader.branches.current.cache.fails = error
            assert reader.read([*LONG[:100], 7]) == 1
            assert len(reader.branches) == 1

    def test_bugs_fly(self) -> None:
        reader = Reader()
        reader.read(LONG)
        reader.branches.current.cache.fails = RuntimeError("shapes do not fit")
        with pytest.raises(RuntimeError, match="shapes"):
            reader.read([7])

    @pytest.mark.parametrize(
        ("total", "budget"), [(0, 2**28), (2**31, 2**28), (2**33, 2**29), (2**40, 2**30)]
    )
    def test_the_usual_one_is_a_sixteenth_of_the_memory(
        self, total: int, budget: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("engine.run.branches.total_memory", lambda: total)
        assert Branches(FakeCache(), chunk_size=SIZE)._budget == budget

    def test_this_computer_tells_how_much_it_has(self) -> None:
        assert 2**28 < memory.total_memory() < 2**50


# Few different tokens, in runs longer than what is worth keeping, so that beginnings are shared.
runs = st.builds(lambda token, count: [token] * count, st.integers(0, 2), st.integers(1, 90))
prompts = st.lists(runs, min_size=1, max_size=5).map(lambda parts: [*chain(*parts)])


@given(
    st.lists(st.tuples(prompts, st.booleans()), max_size=12),
    st.sampled_from([0, 200 * BYTES, 10**6]),
)
def test_whatever_is_asked_for_the_cache_holds_it_within_the_budget(
    asked: list[tuple[list[int], bool]], budget: int
) -> None:
    reader = Reader(budget)
    for ids, whole_chunks in asked:
        reader.read(ids, whole_chunks=whole_chunks)
        branches = reader.branches
        assert branches.current.ids == ids
        assert all(branch.ids == branch.cache.tokens for branch in branches._branches)
        assert branches.nbytes <= max(budget, BYTES * len(ids))
        assert len({id(branch.cache) for branch in branches._branches}) == len(branches)
        assert reader.read(ids) == 0


@pytest.fixture(scope="module")
def model(tiny_models: Any) -> Llama:
    torch.manual_seed(3)
    config = tiny_models.tiny_config(max_position_embeddings=1100, initializer_range=0.2)
    return Llama(config).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def ids(model: Llama) -> list[int]:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(8, model.config.vocab_size, (900,), generator=generator).tolist()


def expected(model: Llama, ids: list[int]) -> np.ndarray:
    """Logits after each of `ids`, (n, vocab), without a cache."""
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].numpy()


def assert_close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=0)


def assert_holds(runner: TorchRunner, ids: list[int]) -> None:
    assert runner.ids == ids
    assert_close(runner.read([9]), expected(runner._model, [*ids, 9])[-1])


class TestTorchRunner:
    def test_branches_do_not_disturb_each_other(self, model: Llama, ids: list[int]) -> None:
        runner = TorchRunner(model)
        other = [*ids[:300], *ids[500:700]]
        for wanted, held in ((ids[:450], 0), (other, 300), (ids[:500], 450), (other, 499)):
            assert runner.recall(wanted[:-1]) == held
            assert_close(runner.read(wanted[held:]), expected(model, wanted)[-1])
            assert runner.ids == wanted

    def test_every_row_of_a_few_tokens(self, model: Llama, ids: list[int]) -> None:
        runner = TorchRunner(model)
        runner.read(ids[:10])
        assert_close(runner.read_each(ids[10:14]), expected(model, ids[:14])[10:])
        runner.truncate(12)
        assert_holds(runner, ids[:12])

    @pytest.mark.parametrize("where", ["layer", "head", "growth"])
    def test_a_read_that_fails_leaves_what_was_there(
        self, model: Llama, ids: list[int], where: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runner = TorchRunner(model)
        runner.read(ids[:250])
        with monkeypatch.context() as patched:
            patched.setattr(*_OUT_OF_MEMORY_IN[where](model))
            with pytest.raises(DeviceError, match="memory"):
                runner.read(ids[250:300])
        assert_holds(runner, ids[:250])
        assert_close(runner.read(ids[:50]), expected(model, [*ids[:250], 9, *ids[:50]])[-1])

    def test_a_read_that_is_stopped_leaves_what_was_there(
        self, model: Llama, ids: list[int]
    ) -> None:
        runner = TorchRunner(model)
        runner.read(ids[:20])
        cancel = Event()
        cancel.set()
        with pytest.raises(Stopped):
            runner.read(ids[20:40], cancel=cancel)
        assert_holds(runner, ids[:20])

    def test_other_branches_go_before_a_read_fails_for_want_of_memory(
        self, model: Llama, ids: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runner = TorchRunner(model)
        runner.read(ids[:200])
        runner.recall(ids[500:600])
        runner.read(ids[500:600])
        forward = model.forward

        def scarce(*args: Any, **options: Any) -> Any:
            if len(runner._branches) > 1:
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
            return forward(*args, **options)

        monkeypatch.setattr(model, "forward", scarce)
        runner.read(ids[600:610])
        monkeypatch.undo()
        assert_holds(runner, ids[500:610])
        assert runner.recall(ids[:200]) == 0

    def test_the_budget_is_kept_in_bytes(self, model: Llama, ids: list[int]) -> None:
        config = model.config
        position = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 4
        runner = TorchRunner(model, budget=500 * position)
        chats = [[first, *ids[:199]] for first in (1, 2, 3)]
        for chat in chats:
            runner.recall(chat)
            runner.read(chat)
        assert runner._branches.nbytes == 400 * position
        assert [runner.recall(chat) for chat in reversed(chats)] == [200, 200, 0]

    def test_in_wider_numbers_nothing_is_remembered(self, model: Llama, ids: list[int]) -> None:
        config = model.config
        runner = TorchRunner(Llama(config).half().requires_grad_(False))
        for part in (ids[:100], ids[300:400]):
            runner.recall(part)
            runner.read(part)
        assert runner.widen()
        assert runner.ids == []
        assert runner.recall(ids[:100]) == 0
        runner.read(ids[:100])
        assert_holds(runner, ids[:100])


@pytest.mark.parametrize("runner_type", [TorchRunner, GpuRunner])
def test_every_runner_recalls_whole_chunks_when_asked(
    runner_type: Any, model: Llama, ids: list[int]
) -> None:
    runner = runner_type(model, chunk_size=16)
    runner.read(ids[:16])
    runner.read(ids[16:32])
    runner.read(ids[32:40])
    assert runner.recall(ids[:60]) == 40
    assert runner.recall(ids[:60], whole_chunks=True) == 32
    assert runner.recall([*ids[:20], 9], whole_chunks=True) == 16
    assert runner.ids == ids[:16]
    assert_close(runner.read(ids[16:30]), expected(model, ids[:30])[-1])


def _fails(*_args: Any, **_options: Any) -> None:
    torch.empty(2**60, dtype=torch.uint8)  # what torch really raises


_OUT_OF_MEMORY_IN = {
    "layer": lambda model: (model.model.layers[1].mlp, "forward", _fails),
    "head": lambda model: (model.model.norm, "forward", _fails),
    "growth": lambda model: (KVCache, "_widened", _FailsAt(2)),
}


class _FailsAt:
    """`KVCache._widened`, but there is no memory for the call numbered `call`."""

    def __init__(self, call: int) -> None:
        self._left = call
        self._widened = KVCache._widened

    def __get__(self, cache: KVCache, _owner: type[KVCache]) -> Any:
        def widened(*args: Any) -> torch.Tensor:
            self._left -= 1
            if self._left == 0:
                _fails()
            return self._widened(cache, *args)

        return widened
