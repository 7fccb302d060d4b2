"""The kinds of GPU torch can drive, and the self-test that each must pass before it is used.

"Available" GPUs lack kernels, lack bf16, run out of memory, or silently compute something else.
"""

import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from engine.errors import DeviceError
from engine.model.config import ModelConfig
from engine.model.llama import Llama
from engine.run.gpu_runner import GpuRunner

DeviceName = Literal["cuda", "mps", "cpu"]
Precision = Literal["fp32", "bf16", "fp16", "int8", "q4"]

_PRECISIONS: tuple[Precision, ...] = ("bf16", "fp32")
"""In the order they are tried. bf16 holds every number that fp32 holds, whatever the model."""

_APPLE_PRECISIONS: tuple[Precision, ...] = ("fp16", "fp32")
"""Every Apple GPU computes in fp16, not every one in bf16.

fp16 ends at 65,504. SmolLM2-135M reaches 26,700 on prose, code and noise, and fp16 moves its
predictions 50 times less than bf16 does (mean KL 2e-5, not 1e-3). A model or a prompt that does
outgrow it makes NaN, and the runner goes on in fp32.
"""

LEAST_FREE_MEMORY = 2**30
"""Bytes a GPU must have free: the smallest model, its cache and the driver's own use."""

NO_SUPPORT = "this package has no GPU support"
NO_GPU = "no GPU found"

_DTYPES: dict[Precision, torch.dtype] = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
_TOLERANCES: dict[Precision, float] = {"fp32": 1e-3, "bf16": 5e-2, "fp16": 1e-2}
"""How far a logit may be from the CPU's in fp32, as a part of the largest of those."""

# The head_dim of the real models and grouped heads, because kernels are chosen by such shapes.
_TINY = ModelConfig(
    vocab_size=512,
    hidden_size=192,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=3,
    num_key_value_heads=1,
    head_dim=64,
    max_position_embeddings=128,
    rms_norm_eps=1e-5,
    rope_theta=10_000.0,
    tie_word_embeddings=True,
    initializer_range=192**-0.5,
)
_SINK_ID = 0


@dataclass(frozen=True, slots=True)
class Backend:
    """One kind of GPU. `missing` never raises; the others may raise whatever a driver raises."""

    name: DeviceName
    missing: Callable[[], str]  # why there is none, in plain words; "" if there is one
    label: Callable[[], str]
    free_memory: Callable[[], int]  # bytes
    logits: Callable[[Llama, Tensor, Precision], Tensor]  # as `logits_on`, on this GPU
    precisions: tuple[Precision, ...] = _PRECISIONS  # in the order they are tried


def gpu_backends() -> tuple[Backend, ...]:
    """All that are known, the preferred first."""
    cuda = Backend(
        name="cuda",
        missing=_cuda_missing,
        label=torch.cuda.get_device_name,
        free_memory=lambda: torch.cuda.mem_get_info()[0],
        logits=_cuda_logits,
    )
    mps = Backend(
        name="mps",
        missing=_mps_missing,
        label=lambda: "Apple GPU",
        free_memory=lambda: (
            torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
        ),
        logits=partial(logits_on, "mps"),
        precisions=_APPLE_PRECISIONS,
    )
    return cuda, mps


def torch_dtype(precision: Precision) -> torch.dtype:
    """The type of weights and activations in that precision."""
    return _DTYPES[precision]


def self_test(backend: Backend, precision: Precision) -> str:
    """Why this GPU cannot be trusted in `precision`, in plain words; "" if it can.

    It computes a tiny random model's logits, for a prompt and for a few more tokens, and they must
    be finite and near the CPU's.
    """
    model, ids = _tiny_model()
    expected = logits_on("cpu", model, ids, "fp32")
    try:
        free = backend.free_memory()
        if free < LEAST_FREE_MEMORY:
            return f"only {free // 2**20} MB of its memory are free"
        found = backend.logits(model, ids, precision)
    # Drivers and torch raise every kind of error. Only the GPU's own work stands above, so no bug
    # of ours hides here: the same code has just run on the CPU.
    except Exception as error:
        return _plainly(error)
    if not bool(found.isfinite().all()):
        return "its results are not finite"
    difference = float((found - expected).abs().max() / expected.abs().max())
    if difference > _TOLERANCES[precision]:
        return f"its results are wrong by {difference:.1%}"
    return ""


def logits_on(device: str, model: Llama, ids: Tensor, precision: Precision) -> Tensor:
    """Logits (n, vocab) in fp32 on the CPU for `ids` (n,): all but three as one prompt, then three
    steps, of which the first is captured and all are replayed. The model given stays as it is.
    """
    runner = GpuRunner(deepcopy(model).to(device=device, dtype=torch_dtype(precision)))
    prompt, steps = ids[:-3].tolist(), ids[-3:].tolist()
    rows = [*runner.read_each(prompt), *(runner.read([token_id]) for token_id in steps)]
    return torch.from_numpy(np.stack(rows))


def _tiny_model() -> tuple[Llama, Tensor]:
    """The same model and prompt (n,) every time, leaving torch's random numbers untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = Llama(_TINY).requires_grad_(False)
        ids = torch.randint(_TINY.vocab_size, (48,))
    _enlarge_activations(model)
    ids[0] = _SINK_ID
    return model, ids


def _enlarge_activations(model: Llama) -> None:
    """Let one token reach numbers as large as the first token of every prompt does in SmolLM2.

    In the 135M one unit of layer 11's MLP comes to 3,300 and raises one channel of the residual
    stream to 26,700, which stays until the last layers. Here these are 3,800 and 30,700.
    """
    weights = model.state_dict()
    embedding = weights["model.embed_tokens.weight"]
    embedding[:, 0] = 0
    embedding[_SINK_ID, 0] = 0.25
    weights["model.layers.0.self_attn.o_proj.weight"][0] = 0  # nothing else touches the channel
    for name, weight in (("gate", 170), ("up", 260), ("down", 8)):
        rows = weights[f"model.layers.0.mlp.{name}_proj.weight"]
        rows[0] = 0
        rows[0, 0] = weight


def _cuda_missing() -> str:
    if torch.version.cuda is None and torch.version.hip is None:
        return NO_SUPPORT
    with warnings.catch_warnings(record=True) as said:  # such as: the driver is too old
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if available:
        return ""
    return f"the GPU's driver did not start ({_first_line(said[0].message)})" if said else NO_GPU


def _cuda_logits(model: Llama, ids: Tensor, precision: Precision) -> Tensor:
    # Emulated bf16 computes the right thing at a fraction of fp32's speed.
    if precision == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise DeviceError("it has no bf16 units")
    return logits_on("cuda", model, ids, precision)


def _mps_missing() -> str:
    if not torch.backends.mps.is_built():
        return NO_SUPPORT
    return "" if torch.backends.mps.is_available() else NO_GPU


def _plainly(error: Exception) -> str:
    text = str(error).lower()
    if isinstance(error, torch.OutOfMemoryError) or "out of memory" in text:
        return "it ran out of memory"
    if "no kernel image" in text:
        return "this package was not built for this GPU"
    return _first_line(error)


def _first_line(error: Exception | Warning | str) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(". ")[:200] if lines else type(error).__name__
