"""How torch's OpenMP threads wait for each other: to be settled before torch is imported."""

import os

_SPINS = "1000"


def share_cores() -> None:
    """Let a waiting thread go to sleep soon, so that others get its core.

    GNU's OpenMP lets it spin for milliseconds where there are as many cores as threads, as if no
    other program ran: beside one that does, two threads on two cores wrote at a third of their
    speed, with this setting at half. It is the count GNU itself takes when there are more threads
    than cores; alone on the machine it cost a seventh of the speed. A value the user set is kept.
    Other systems' OpenMP does not read it.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
