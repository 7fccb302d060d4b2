"""Measuring the engine on this computer: speed, memory, loading, and what a precision costs.

Importing this package loads nothing; `engine.bench.report` begins a measurement.
"""

from collections.abc import Callable

PARTS = (
    "decode",
    "balanced",
    "prefill",
    "ttft",
    "load",
    "memory",
    "bandwidth",
    "quality",
)
"""What can be measured by itself. `quality` needs a text."""

Say = Callable[[str], None]
"""Takes a line about what was just measured."""
