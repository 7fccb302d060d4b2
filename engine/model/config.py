"""What a Llama-architecture model is made of, read from the places that describe one."""

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from engine.errors import ConfigError

_WHAT_TO_DO = "Get the model's files again from their source."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Shapes and constants, named as in a Hub `config.json`.

    Raises ConfigError when values are impossible or contradict each other, each with its reason.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    tie_word_embeddings: bool
    initializer_range: float = 0.02
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        for name, most in _LARGEST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                _refuse(f"{name} is {_clip(value)}, but must be a whole number from 1 to {most:,}")
        for name in ("rms_norm_eps", "rope_theta", "initializer_range"):
            value = getattr(self, name)
            if not _finite(value) or value <= 0:
                _refuse(f"{name} is {_clip(value)}, but must be a number above 0")
        if self.rope_theta <= 1:
            _refuse(f"rope_theta is {self.rope_theta}, but must be above 1")
        if self.num_attention_heads % self.num_key_value_heads:
            _refuse(
                f"{self.num_attention_heads} attention heads cannot share "
                f"{self.num_key_value_heads} key/value heads evenly"
            )
        if self.head_dim % 2:
            _refuse(f"head_dim is {self.head_dim}, but rotary embedding needs an even number")
        if not isinstance(self.tie_word_embeddings, bool):
            _refuse(f"tie_word_embeddings is {_clip(self.tie_word_embeddings)}, not true or false")
        special = {"bos": self.bos_token_id, "pad": self.pad_token_id}
        special |= {f"eos[{i}]": token_id for i, token_id in enumerate(self.eos_token_ids)}
        for name, token_id in special.items():
            if token_id is None:
                continue
            whole = isinstance(token_id, int) and not isinstance(token_id, bool)
            if not whole or not 0 <= token_id < self.vocab_size:
                _refuse(f"the {name} token id {_clip(token_id)} is outside the vocabulary")

    @property
    def group_size(self) -> int:
        """How many query heads share one key/value head."""
        return self.num_attention_heads // self.num_key_value_heads

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> "ModelConfig":
        """From the contents of a Hub `config.json`, with the old or new spelling of rope."""
        if not isinstance(description, Mapping):
            _refuse("the model's description is not a table of names and values")
        kind = description.get("model_type")
        if kind != "llama":
            _refuse(f"the model is of type {_clip(kind)}, and only 'llama' is supported")
        activation = description.get("hidden_act", "silu")
        if activation not in ("silu", "swish"):
            _refuse(f"the activation {_clip(activation)} is not supported, only 'silu'")
        for name in ("attention_bias", "mlp_bias", "quantization_config"):
            if description.get(name):
                _refuse(f"it uses {name}, which is not supported")
        if description.get("pretraining_tp", 1) not in (1, None):
            _refuse("pretraining_tp is not 1, which is not supported")
        heads = _whole(description, "num_attention_heads")
        hidden_size = _whole(description, "hidden_size")
        return cls(
            vocab_size=_whole(description, "vocab_size"),
            hidden_size=hidden_size,
            intermediate_size=_whole(description, "intermediate_size"),
            num_hidden_layers=_whole(description, "num_hidden_layers"),
            num_attention_heads=heads,
            num_key_value_heads=_or(description, "num_key_value_heads", heads),
            head_dim=_or(description, "head_dim", None) or _even_share(hidden_size, heads),
            max_position_embeddings=_whole(description, "max_position_embeddings"),
            rms_norm_eps=_required(description, "rms_norm_eps"),
            rope_theta=_rope_theta(description),
            tie_word_embeddings=_or(description, "tie_word_embeddings", False),
            initializer_range=_or(description, "initializer_range", 0.02),
            bos_token_id=description.get("bos_token_id"),
            eos_token_ids=_ids(description.get("eos_token_id")),
            pad_token_id=description.get("pad_token_id"),
        )

    @classmethod
    def from_hf(cls, config: Any) -> "ModelConfig":
        """From a transformers config object."""
        return cls.from_dict(config.to_dict())

    @classmethod
    def from_gguf(
        cls, metadata: Mapping[str, Any], *, vocab_size: int, tie_word_embeddings: bool
    ) -> "ModelConfig":
        """From GGUF metadata; the two arguments are what only the file's tensors tell."""
        architecture = metadata.get("general.architecture")
        if architecture != "llama":
            _refuse(
                f"the model is of architecture {_clip(architecture)}, and only 'llama' is supported"
            )
        if metadata.get("llama.rope.scaling.type", "none") != "none":
            _refuse("its rotary embedding is scaled, which is not supported")
        names = {name.removeprefix("llama."): value for name, value in metadata.items()}
        heads = _whole(names, "attention.head_count")
        hidden_size = _whole(names, "embedding_length")
        head_dim = _or(names, "attention.key_length", None) or _even_share(hidden_size, heads)
        for name in ("rope.dimension_count", "attention.value_length"):
            if _or(names, name, head_dim) != head_dim:
                _refuse(f"{name} is {_clip(names[name])}, but the heads have {head_dim} dimensions")
        return cls(
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            intermediate_size=_whole(names, "feed_forward_length"),
            num_hidden_layers=_whole(names, "block_count"),
            num_attention_heads=heads,
            num_key_value_heads=_or(names, "attention.head_count_kv", heads),
            head_dim=head_dim,
            max_position_embeddings=_whole(names, "context_length"),
            rms_norm_eps=_required(names, "attention.layer_norm_rms_epsilon"),
            rope_theta=_required(names, "rope.freq_base"),
            tie_word_embeddings=tie_word_embeddings,
            bos_token_id=metadata.get("tokenizer.ggml.bos_token_id"),
            eos_token_ids=_ids(metadata.get("tokenizer.ggml.eos_token_id")),
            pad_token_id=metadata.get("tokenizer.ggml.padding_token_id"),
        )


_LARGEST = {
    "vocab_size": 2**20,
    "hidden_size": 2**15,
    "intermediate_size": 2**17,
    "num_hidden_layers": 512,
    "num_attention_heads": 512,
    "num_key_value_heads": 512,
    "head_dim": 512,
    "max_position_embeddings": 2**20,
}


def _refuse(reason: str) -> NoReturn:
    raise ConfigError(f"The model's description cannot be right: {reason}.", _WHAT_TO_DO)


def _clip(value: Any) -> str:
    """A value from a file, for a sentence: files may hold a megabyte where a number belongs."""
    return reprlib.repr(value)


def _finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _required(description: Mapping[str, Any], name: str) -> Any:
    if description.get(name) is None:
        _refuse(f"{name} is missing")
    return description[name]


def _whole(description: Mapping[str, Any], name: str) -> int:
    value = _required(description, name)
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(f"{name} is {_clip(value)}, not a whole number")
    return int(value)


def _or(description: Mapping[str, Any], name: str, default: Any) -> Any:
    value = description.get(name)
    return default if value is None else value


def _even_share(hidden_size: int, heads: int) -> int:
    if heads < 1 or hidden_size % heads:
        _refuse(f"hidden_size {hidden_size} cannot be shared by {heads} heads evenly")
    return hidden_size // heads


def _ids(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _rope_theta(description: Mapping[str, Any]) -> Any:
    """The base of the rotary angles: at the top (old) or inside `rope_parameters` (new).

    Never a default: a wrong base runs and emits fluent nonsense.
    """
    nested = _or(description, "rope_parameters", None) or {}
    for rope in (nested, _or(description, "rope_scaling", None) or {}):
        if not isinstance(rope, Mapping):
            _refuse("its rope parameters are not a table of names and values")
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind not in ("default", None):
            _refuse(f"its rotary embedding is scaled ({_clip(kind)}), which is not supported")
    old, new = description.get("rope_theta"), nested.get("rope_theta")
    if old is None and new is None:
        _refuse("rope_theta is missing")
    if old is not None and new is not None and old != new:
        _refuse(f"rope_theta is given twice and differs ({_clip(old)} and {_clip(new)})")
    return new if old is None else old


def _preset(hidden_size: int, layers: int, heads: int, kv_heads: int, inner: int) -> dict[str, Any]:
    return {
        "hidden_size": hidden_size,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": inner,
        "vocab_size": 49152,
        "head_dim": 64,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
    }


_SHAPES = {
    "135M": _preset(576, 30, 9, 3, 1536),
    "360M": _preset(960, 32, 15, 5, 2560),
    "1.7B": _preset(2048, 24, 32, 32, 8192),
}
_THETAS = {
    "SmolLM": {"135M": 10_000.0, "360M": 10_000.0, "1.7B": 10_000.0},
    "SmolLM2": {"135M": 100_000.0, "360M": 100_000.0, "1.7B": 130_000.0},
}
_POSITIONS = {"SmolLM": 2048, "SmolLM2": 8192}
_IDS: dict[str, dict[str, Any]] = {
    "": {"bos_token_id": 0, "eos_token_ids": (0,)},
    "-Instruct": {"bos_token_id": 1, "eos_token_ids": (2,), "pad_token_id": 2},
}

PRESETS: dict[str, ModelConfig] = {
    f"{family}-{size}{suffix}": ModelConfig(
        **_SHAPES[size],
        **ids,
        rope_theta=theta,
        max_position_embeddings=_POSITIONS[family],
        initializer_range=1 / math.sqrt(_SHAPES[size]["hidden_size"]),
    )
    for family, thetas in _THETAS.items()
    for size, theta in thetas.items()
    for suffix, ids in _IDS.items()
}
"""`PRESETS["SmolLM2-135M-Instruct"]` and so on: both families, three sizes, base and Instruct."""
