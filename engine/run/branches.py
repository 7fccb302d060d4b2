"""Several beginnings that were read before, each with its cache, within a budget of memory.

Invariant: the `ids` of a branch are exactly what its cache holds.
"""

from collections.abc import Sequence
from itertools import compress, count
from operator import ne
from typing import Generic, Protocol, Self, TypeVar

from engine.run.memory import total_memory
from engine.run.runner import is_out_of_memory

_WORTH_KEEPING = 64
"""Tokens: fewer are sooner read again than kept beside a copy of all that is before them."""


class Cache(Protocol):
    """The keys and values of the tokens of one branch, however they are stored."""

    @property
    def length(self) -> int:
        """How many positions are held."""
        ...

    @property
    def nbytes(self) -> int:
        """How many bytes these positions take, all the same."""
        ...

    def truncate(self, length: int) -> None:
        """Forget everything from position `length` on."""
        ...

    def copy_prefix(self, length: int) -> Self:
        """The first `length` positions as a cache of its own, which may be none at all."""
        ...


C = TypeVar("C", bound=Cache)


class ReadTokens:
    """The ids of the tokens that were read, and what of them can be used again."""

    def __init__(self, chunk_size: int) -> None:
        self.ids: list[int] = []
        self._chunk_size = chunk_size
        self._in_chunks = 0  # how many of the first were read in whole chunks

    def add(self, ids: Sequence[int]) -> None:
        """`ids` were read after the others, in one go."""
        if len(self.ids) == self._in_chunks and len(ids) == self._chunk_size:
            self._in_chunks += self._chunk_size
        self.ids.extend(ids)

    def truncate(self, length: int) -> None:
        """Nothing from position `length` on is held any longer."""
        del self.ids[length:]
        self._in_chunks = min(self._in_chunks, length // self._chunk_size * self._chunk_size)

    def shared(self, ids: Sequence[int]) -> int:
        """How many of the first of `ids` are held."""
        differences = compress(count(), map(ne, self.ids, ids))
        return next(differences, min(len(self.ids), len(ids)))

    def reusable(self, ids: Sequence[int], *, whole_chunks: bool) -> int:
        """How many of the first of `ids` need not be read again; see `Runner.recall`."""
        shared = self.shared(ids)
        if not whole_chunks:
            return shared
        return min(shared // self._chunk_size * self._chunk_size, self._in_chunks)


class Branch(ReadTokens, Generic[C]):
    """What was read, and the cache that holds it."""

    def __init__(self, cache: C, chunk_size: int) -> None:
        super().__init__(chunk_size)
        self.cache = cache

    def truncate(self, length: int) -> None:
        """Forget everything from position `length` on."""
        self.cache.truncate(length)
        super().truncate(length)

    def fork(self, length: int) -> "Branch[C]":
        """The first `length` tokens as a branch of its own."""
        fork = Branch(self.cache.copy_prefix(length), self._chunk_size)
        fork.ids, fork._in_chunks = self.ids[:length], self._in_chunks
        ReadTokens.truncate(fork, length)
        return fork


class Branches(Generic[C]):
    """One branch is current; others stay while they fit into `budget` bytes together with it.

    The least recently used go first. `cache` is empty, and what the first branch is read into.
    """

    def __init__(self, cache: C, *, chunk_size: int, budget: int | None = None) -> None:
        self._budget = _usual_budget() if budget is None else budget
        self._branches = [Branch(cache, chunk_size)]  # the most recently used first

    @property
    def current(self) -> Branch[C]:
        """The branch that is read on from."""
        return self._branches[0]

    @property
    def nbytes(self) -> int:
        """How many bytes all branches take."""
        return sum(branch.cache.nbytes for branch in self._branches)

    def __len__(self) -> int:
        return len(self._branches)

    def recall(self, ids: Sequence[int], *, whole_chunks: bool) -> int:
        """Make current what holds the longest beginning of `ids` and nothing else; its length.

        What else its branch held stays in another branch if it is much. See `Runner.recall`.
        """

        def rank(branch: Branch[C]) -> tuple[int, int]:
            return branch.reusable(ids, whole_chunks=whole_chunks), -len(branch.ids)

        best = max(self._branches, key=rank)
        length, _ = rank(best)
        self._branches.remove(best)
        self._branches.insert(0, best)
        # What `ids` go on with is no loss: it is about to be read again.
        if len(best.ids) - best.shared(ids) > _WORTH_KEEPING:
            self._fork(length)
        self.current.truncate(length)
        return length

    def add(self, ids: Sequence[int]) -> None:
        """`ids` were read into the current branch, in one go."""
        self.current.add(ids)
        self._leave_room(0)

    def drop_others(self) -> bool:
        """Keep nothing but the current branch; whether there was anything else."""
        there_were = len(self._branches) > 1
        del self._branches[1:]
        return there_were

    def _fork(self, length: int) -> None:
        """Make a copy of the current branch's beginning current, if there is memory for both."""
        cache = self.current.cache
        needed = cache.nbytes * length // cache.length
        if cache.nbytes + needed > self._budget:
            return
        self._leave_room(needed)
        try:
            self._branches.insert(0, self.current.fork(length))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise

    def _leave_room(self, nbytes: int) -> None:
        while len(self._branches) > 1 and self.nbytes + nbytes > self._budget:
            self._branches.pop()


def _usual_budget() -> int:
    """A sixteenth of the computer's memory, from 256 MB to 1 GB."""
    return max(2**28, min(total_memory() // 16, 2**30))
