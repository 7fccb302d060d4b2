"""A fixed sequence of kernels, made ready to be run again: as a CUDA graph, or as plain calls."""

from collections.abc import Callable

import torch

Step = Callable[[], None]
"""Works in place on tensors of fixed addresses, so that it can be run again with new contents."""

Capture = Callable[[Step], Step]
"""Makes a step ready. It may run it, any number of times; the result runs it once a call."""


def capture_for(device: torch.device) -> Capture:
    """What suits a device: graphs where there are any."""
    return cuda_graph if device.type == "cuda" else run_eagerly


def run_eagerly(step: Step) -> Step:
    """No capture: each call launches each kernel anew."""
    return step


def cuda_graph(step: Step) -> Step:
    """Record the kernels that `step` launches; the result launches all of them at once.

    Nothing of Python is recorded: a number that is no tensor stays what it was while recording.
    Raises RuntimeError if a kernel cannot be recorded or the graph finds no memory.
    """
    current = torch.cuda.current_stream()
    # Kernels are chosen and their libraries set up on first use, which cannot be recorded.
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(current)
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    current.wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        # thread_local: what other threads do on the GPU meanwhile is not ours, and no error.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            step()
    finally:
        torch.cuda.set_stream(current)  # torch 2.13 stays on its own if the capture fails
    return graph.replay
