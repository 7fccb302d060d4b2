"""Weights from GGUF or safetensors -> tensors under the Hub's names, checked against the config."""

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open

from engine.errors import ModelFileError, StoppedError
from engine.files.codes import CODED, Codes, block_codes
from engine.files.dequantize import BLOCKS, dequantize
from engine.files.gguf import GGUFFile, GGUFTensor, read_gguf
from engine.files.hub_folder import model_form, read_json, weight_files
from engine.files.recognize import FETCH_AGAIN, file_kind, unreadable
from engine.model.config import ModelConfig

_Number = TypeVar("_Number", bound=np.generic)
_LM_HEAD = "lm_head.weight"

# GGUF's names -> the Hub's, for the whole model and for each layer.
_GGUF_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": _LM_HEAD,
}
_GGUF_LAYER_NAMES = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as a file has it. `read` returns it in the type asked for, in memory of its own;
    `codes` returns a matrix's whole numbers and scales, for the types named in CODED.
    """

    shape: tuple[int, ...]
    type_name: str
    read: Callable[[torch.dtype], torch.Tensor]
    codes: Callable[[], Codes] | None = None


StoredWeights = Mapping[str, StoredTensor]
"""All tensors of a model under the Hub's names."""


def read_config(path: Path, header: GGUFFile | None = None) -> ModelConfig:
    """Read a model's description: a GGUF file's metadata, or `config.json` beside safetensors.

    `path` as for `load_state_dict`; `header` is a GGUF file's, where it was read before.
    Raises ConfigError, ModelFileError or ModelNotFoundError.
    """
    match model_form(path):
        case "folder":
            return ModelConfig.from_dict(read_json(path / "config.json"))
        case "safetensors":
            return ModelConfig.from_dict(read_json(path.parent / "config.json"))
        case "gguf":
            return _gguf_config(path, header or read_gguf(path))


def load_state_dict(
    path: Path,
    config: ModelConfig,
    *,
    dtype: torch.dtype,
    progress: Callable[[float], None] | None = None,
    cancel: threading.Event | None = None,
) -> dict[str, torch.Tensor]:
    """Read all weights of the model that `config` describes, as `dtype`, on the CPU.

    `path` is a GGUF file, a safetensors file, or a folder with `model.safetensors` or its index.
    The names are the Hub's; `lm_head.weight` is there only if it is not tied to the embedding.
    Tensors are converted one by one, so that no second copy of the model is ever in memory, and
    nothing returned depends on the file any more. `progress` is given 0 to 1.

    Raises ModelFileError if the file is damaged or does not fit the config, ModelNotFoundError if
    there is none, StoppedError once `cancel` is set.
    """
    state: dict[str, torch.Tensor] = {}
    with open_weights(path, config) as stored:
        total = sum(math.prod(tensor.shape) for tensor in stored.values())
        done = 0
        for name, tensor in stored.items():
            if cancel is not None and cancel.is_set():
                raise StoppedError("Loading the model was stopped.")
            state[name] = tensor.read(dtype)
            done += math.prod(tensor.shape)
            if progress is not None:
                progress(done / total)
    return state


@contextmanager
def open_weights(
    path: Path, config: ModelConfig, header: GGUFFile | None = None
) -> Iterator[StoredWeights]:
    """All weights of the model that `config` describes, in its order, read when asked for.

    `path` and errors as for `load_state_dict`, `header` as for `read_config`.
    """
    with ExitStack() as open_files:
        if model_form(path) == "gguf":
            stored = _gguf_tensors(header or read_gguf(path), config)
        else:
            stored = _safetensors(source_files(path), open_files)
        expected = expected_shapes(config)
        head = stored.pop(_LM_HEAD, None) if config.tie_word_embeddings else None
        _check_fit(path, stored, expected)
        if head is not None:
            _check_tied(path, head, stored["model.embed_tokens.weight"])
        yield {name: stored[name] for name in expected}


def source_files(path: Path) -> list[Path]:
    """The files whose contents the weights are. `path` and errors as for `load_state_dict`."""
    return weight_files(path) if os.path.isdir(path) else [path]


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return the Hub's name and the shape of each weight of a model, in its order."""
    hidden, inner = config.hidden_size, config.intermediate_size
    q_rows = config.num_attention_heads * config.head_dim
    kv_rows = config.num_key_value_heads * config.head_dim
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (q_rows, hidden),
        "self_attn.k_proj.weight": (kv_rows, hidden),
        "self_attn.v_proj.weight": (kv_rows, hidden),
        "self_attn.o_proj.weight": (hidden, q_rows),
        "post_attention_layernorm.weight": (hidden,),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config.vocab_size, hidden)}
    for index in range(config.num_hidden_layers):
        shapes |= {f"model.layers.{index}.{name}": shape for name, shape in layer.items()}
    shapes["model.norm.weight"] = (hidden,)
    if not config.tie_word_embeddings:
        shapes[_LM_HEAD] = (config.vocab_size, hidden)
    return shapes


def _gguf_config(path: Path, gguf: GGUFFile) -> ModelConfig:
    embedding = gguf.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise ModelFileError(f"{path.name} has no table of token embeddings.", FETCH_AGAIN)
    return ModelConfig.from_gguf(
        gguf.metadata,
        vocab_size=embedding.shape[0],
        tie_word_embeddings="output.weight" not in gguf.tensors,
    )


def _gguf_tensors(gguf: GGUFFile, config: ModelConfig) -> dict[str, StoredTensor]:
    names = dict(_GGUF_NAMES)
    for index in range(config.num_hidden_layers):
        for theirs, ours in _GGUF_LAYER_NAMES.items():
            names[f"blk.{index}.{theirs}"] = f"model.layers.{index}.{ours}"
    heads = {
        "attn_q.weight": config.num_attention_heads,
        "attn_k.weight": config.num_key_value_heads,
    }
    stored: dict[str, StoredTensor] = {}
    for name, tensor in gguf.tensors.items():
        shape, type_name = tensor.shape, tensor.type_name
        rotary = heads.get(name.split(".", 2)[-1])
        read = partial(_read_gguf_tensor, gguf, tensor, rotary)
        codes = partial(_read_codes, gguf, tensor, rotary) if type_name in CODED else None
        stored[names.get(name, f"{name} (GGUF)")] = StoredTensor(shape, type_name, read, codes)
    return stored


def _read_gguf_tensor(
    gguf: GGUFFile, tensor: GGUFTensor, heads: int | None, dtype: torch.dtype
) -> torch.Tensor:
    weights = dequantize(gguf.raw(tensor.name), tensor.type_name, tensor.shape)
    return torch.from_numpy(weights if heads is None else _to_halves(weights, heads)).to(dtype)


def _read_codes(gguf: GGUFFile, tensor: GGUFTensor, heads: int | None) -> Codes:
    found = block_codes(gguf.raw(tensor.name), tensor.type_name, tensor.shape)
    if heads is None:
        return found
    minima = None if found.minima is None else _to_halves(found.minima, heads)
    return Codes(_to_halves(found.codes, heads), _to_halves(found.scales, heads), minima)


def _to_halves(weights: npt.NDArray[_Number], heads: int) -> npt.NDArray[_Number]:
    """Undo GGUF's order of q and k rows: each head's rotary pairs, side by side -> two halves."""
    rows, columns = weights.shape
    pairs = weights.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def _safetensors(files: Iterable[Path], open_files: ExitStack) -> dict[str, StoredTensor]:
    stored: dict[str, StoredTensor] = {}
    for path in files:
        if file_kind(path) != "safetensors":
            raise ModelFileError(f"{path.name} is not a safetensors file.", FETCH_AGAIN)
        try:
            file = open_files.enter_context(safe_open(path, framework="pt", device="cpu"))
            for name in file.keys():  # noqa: SIM118 - the file is not a mapping
                header = file.get_slice(name)
                if name in stored:
                    raise ModelFileError(f"{path.name} repeats {_shown(name)}.", FETCH_AGAIN)
                if name.endswith("rotary_emb.inv_freq"):
                    continue  # old files keep what follows from the config
                read = partial(_read_safetensor, file, name)
                stored[name] = StoredTensor(tuple(header.get_shape()), header.get_dtype(), read)
        except SafetensorError as error:
            raise ModelFileError(
                f"{path.name} is damaged or cut short ({error}).", FETCH_AGAIN
            ) from error
        except OSError as error:
            raise unreadable(path, error) from error
    return stored


def _read_safetensor(file: safe_open, name: str, dtype: torch.dtype) -> torch.Tensor:
    # A copy in any case: the library's tensor is a window into the file.
    tensor: torch.Tensor = file.get_tensor(name)  # type: ignore[no-untyped-call]
    return tensor.to(dtype, copy=True)


def _check_fit(
    path: Path, stored: dict[str, StoredTensor], expected: dict[str, tuple[int, ...]]
) -> None:
    problems = []
    if missing := [name for name in expected if name not in stored]:
        problems.append(f"it lacks {_listed(missing)}")
    if unknown := [name for name in stored if name not in expected]:
        problems.append(f"it has {_listed(unknown)} too many")
    both = [name for name in expected if name in stored]
    if wrong := [name for name in both if stored[name].shape != expected[name]]:
        first = wrong[0]
        problems.append(
            f"{_listed(wrong)} differ in shape "
            f"(the first is {stored[first].shape}, not {expected[first]})"
        )
    if odd := [name for name in both if stored[name].type_name not in BLOCKS]:
        problems.append(f"{_listed(odd)} are of type {stored[odd[0]].type_name}")
    if problems:
        raise ModelFileError(
            f"The weights in {path.name} do not fit the model's description: "
            f"{'; '.join(problems)}.",
            "Get both from the same source again, as safetensors or GGUF.",
        )


def _check_tied(path: Path, head: StoredTensor, embedding: StoredTensor) -> None:
    """Some files repeat a tied head; one of its own would be left out without a word."""
    dtype = torch.bfloat16  # enough to tell two tables apart
    if head.shape != embedding.shape or not head.read(dtype).equal(embedding.read(dtype)):
        raise ModelFileError(
            f"{path.name} has a {_LM_HEAD} of its own, but the model's description says that it "
            "is tied to the embedding.",
            "Get both from the same source again.",
        )


def _listed(names: list[str]) -> str:
    shown = ", ".join(_shown(name) for name in names[:3])
    count = f"{len(names):,} tensor{'s' if len(names) > 1 else ''}"
    return f"{count} ({shown}{', ...' if len(names) > 3 else ''})"


def _shown(name: str) -> str:
    return name[:80] if name.isprintable() else repr(name[:80])
