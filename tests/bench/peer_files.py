"""The files that compare.py measures on: one model's values in several of GGUF's types."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from engine.files.library import find_model
from engine.model.config import PRESETS
from engine.places import models_dir

Tensors = dict[str, tuple[tuple[int, ...], Type]]
"""Names with shape, rows first, and type."""


def make_files(model: str | None, folder: Path) -> dict[str, Path]:
    """The 4-bit file itself, or a random one, and two more in `folder` made of its values."""
    if model is not None and model.startswith("random-"):
        source = folder / f"{model}.Q4_1.gguf"
        if not source.exists():
            write_random(model.removeprefix("random-"), source)
    else:
        source = find_model(model, models_dir()).path
    files = {"q4_1": source}
    reader = gguf.GGUFReader(source)
    stored = {tensor.name: tensor for tensor in reader.tensors}
    for kind in (Type.Q8_0, Type.BF16):
        path = folder / f"{source.stem}-as-{kind.name}.gguf"
        files[kind.name.lower()] = path
        if not path.exists():
            tensors = {
                name: (
                    tuple(tensor.shape[::-1].tolist()),
                    kind if len(tensor.shape) > 1 else Type.F32,
                )
                for name, tensor in stored.items()
            }
            file_type = int(gguf.LlamaFileType[f"MOSTLY_{kind.name}"])
            write(path, tensors, lambda name: values(stored[name]), metadata(reader, file_type))
    return files


def values(tensor: gguf.ReaderTensor) -> np.ndarray:
    """A tensor of a file as fp32, without further loss."""
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type)


def metadata(reader: gguf.GGUFReader, file_type: int, **changes: Any) -> list[tuple]:
    """A file's entries, for GGUFWriter.add_key_value, but for what names its types of tensors."""
    changes["general.file_type"] = file_type
    return [
        (entry.name, changes.get(entry.name, entry.contents()), entry.types[0], entry.types[-1])
        for entry in reader.fields.values()
        if not entry.name.startswith("GGUF.") and entry.name != "general.architecture"
    ]


def write(
    path: Path, tensors: Tensors, read: Callable[[str], np.ndarray], entries: list[tuple]
) -> None:
    """Write a file, one tensor after the other; `read(name)` gives one's values in fp32."""
    part = path.with_suffix(".part")
    writer = gguf.GGUFWriter(part, "llama")
    for entry in entries:
        writer.add_key_value(*entry)
    for name, (shape, kind) in tensors.items():
        size = gguf.quant_shape_to_byte_shape(shape, kind)
        if kind is Type.F32:
            writer.add_tensor_info(name, shape, np.dtype(np.float32), int(np.prod(size)))
        else:
            writer.add_tensor_info(name, size, np.dtype(np.uint8), int(np.prod(size)), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name, (_, kind) in tensors.items():
        writer.write_tensor_data(gguf.quants.quantize(np.ascontiguousarray(read(name)), kind))
    writer.close()
    part.rename(path)


def write_random(size: str, path: Path) -> None:
    """Random weights in a larger model's shape, in the types of the real 4-bit file."""
    config = PRESETS[f"SmolLM2-{size}-Instruct"]
    hidden, inner = config.hidden_size, config.intermediate_size
    kv_size = config.num_key_value_heads * config.head_dim
    layer = {
        "attn_norm": (hidden,),
        "ffn_norm": (hidden,),
        "attn_q": (hidden, hidden),
        "attn_k": (kv_size, hidden),
        "attn_v": (kv_size, hidden),
        "attn_output": (hidden, hidden),
        "ffn_gate": (inner, hidden),
        "ffn_up": (inner, hidden),
        "ffn_down": (hidden, inner),
    }
    tensors: Tensors = {
        "token_embd.weight": ((config.vocab_size, hidden), Type.Q8_0),
        "output_norm.weight": ((hidden,), Type.F32),
    }
    for number in range(config.num_hidden_layers):
        for name, shape in layer.items():
            kind = Type.Q4_1 if len(shape) > 1 else Type.F32
            tensors[f"blk.{number}.{name}.weight"] = (shape, kind)
    rng = np.random.default_rng(0)

    def draw(name: str) -> np.ndarray:
        shape = tensors[name][0]
        if len(shape) == 1:
            return np.ones(shape, np.float32)
        return rng.standard_normal(shape, np.float32) / np.float32(shape[1] ** 0.5)

    changes = {
        "general.name": f"random {size}",
        "general.size_label": size,
        "llama.block_count": config.num_hidden_layers,
        "llama.embedding_length": hidden,
        "llama.feed_forward_length": inner,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.rope.freq_base": config.rope_theta,
    }
    real = gguf.GGUFReader(find_model(None, models_dir()).path)
    file_type = int(gguf.LlamaFileType.MOSTLY_Q4_1)
    write(path, tensors, draw, metadata(real, file_type, **changes))
