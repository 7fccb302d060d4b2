"""Threads that carry out a step together, as many as the computer really has to give."""

import threading
import time
import weakref

from engine.step.compiled import Compiled
from engine.step.plan import Plan

_FIRST_PAUSE = 0.25  # seconds until a thread that was in the way is tried again
_LONGEST_PAUSE = 8.0
_TROUBLE = 2.5
"""Stalls in short succession (each counts for about ten steps) that are more than an accident."""


class Team:
    """The calling thread leads; the others help, and sleep when there is nothing to do.

    Beside other busy programs a helper may be taken off its core in the middle of a chunk, and the
    leader waits for it. Then the team goes on with one thread fewer, and tries again after a while.
    """

    def __init__(self, kernels: Compiled, plan: Plan, threads: int) -> None:
        self._lead = kernels.lead
        self._plan = plan
        self._members = self._most = threads
        self._pause = _FIRST_PAUSE
        self._next_try = 0.0
        self._stalls = 0
        self._trouble = 0.0
        self._helpers = [_Helper(kernels, plan, member) for member in range(1, threads)]
        self._end = weakref.finalize(self, _dismiss, plan, self._helpers)

    @property
    def members(self) -> int:
        """How many threads take part at present."""
        return self._members

    def step(self) -> None:
        """Carry out the step that the plan describes; lets go of the GIL."""
        plan = self._plan
        plan.set(members=self._members)
        for helper in self._helpers[: self._members - 1]:
            helper.wake()
        self._lead(plan.address, 0)
        self._adapt(int(plan.record["stalls"][0]))

    def _adapt(self, stalls: int) -> None:
        """One thread fewer after some stalls, one more when that was long enough ago."""
        now = time.monotonic()
        self._trouble = 0.9 * self._trouble + (stalls - self._stalls)
        self._stalls = stalls
        if self._trouble > _TROUBLE and self._members > 1:
            self._members -= 1
            self._trouble = 0.0
            self._next_try = now + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        elif self._members < self._most and now >= self._next_try:
            self._members += 1
            self._next_try = now
        elif self._members == self._most and now >= self._next_try + self._pause:
            self._pause = _FIRST_PAUSE  # nobody was in the way for long


class _Helper:
    """A thread that takes chunks while there are any, and then sleeps until it is woken."""

    def __init__(self, kernels: Compiled, plan: Plan, member: int) -> None:
        self._gate = threading.Semaphore(0)
        self._asleep = False
        self.thread = threading.Thread(
            target=self._run, args=(kernels, plan, member), name=f"step {member}", daemon=True
        )
        self.thread.start()

    def wake(self) -> None:
        """Let it look for work, unless it does."""
        if self._asleep:
            self._asleep = False
            self._gate.release()

    def end(self) -> None:
        """Wait for its end, which the plan's `closing` announces."""
        self._gate.release()
        if self.thread is not threading.current_thread():  # where rubbish happens to be collected
            self.thread.join()

    def _run(self, kernels: Compiled, plan: Plan, member: int) -> None:
        while not plan.record["closing"][0]:
            kernels.help_out(plan.address, member)
            self._asleep = True
            self._gate.acquire()


def _dismiss(plan: Plan, helpers: list[_Helper]) -> None:
    # Before the interpreter ends, which would stop the threads inside compiled code.
    plan.set(closing=1)
    for helper in helpers:
        helper.end()
