"""How much memory the engine takes, and how fast this computer reads its memory."""

import os
import sys
import time
from pathlib import Path
from statistics import median

import torch

_READ_BYTES = 512 * 2**20
"""Far more than any cache holds."""

_READS = 5


def resident_bytes(status: Path = Path("/proc/self/status")) -> int | None:
    """Memory of this process that is in RAM, mapped files included; None if the system hides it.

    Where there is no /proc it is the most that there ever was.
    """
    try:
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    if os.name != "posix":
        return None
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def read_speed(device: str, threads: int) -> float:
    """GB/s of a plain read of the device's memory, on the CPU with so many threads.

    The largest of many numbers costs hardly more than reading them. The median of a few reads.
    """
    torch.set_num_threads(threads)
    numbers = torch.ones(_READ_BYTES // 4, dtype=torch.float32, device=device)
    seconds = []
    for _ in range(_READS + 1):
        started = time.perf_counter()
        numbers.amax().item()  # `item` waits for a GPU
        seconds.append(time.perf_counter() - started)
    return numbers.nbytes / median(seconds[1:]) / 1e9
