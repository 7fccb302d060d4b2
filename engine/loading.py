"""From a path, or nothing, to an engine that is ready to reply."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event

import torch

from engine.errors import DeviceError, ModelFileError
from engine.files.gguf import GGUFFile, read_gguf
from engine.files.hub_folder import model_form
from engine.files.library import find_model
from engine.files.weights import load_state_dict, read_config
from engine.model.config import ModelConfig
from engine.model.llama import Llama
from engine.places import models_dir
from engine.run.cpu_model import STEP_PRECISIONS, NoStepError, runners_for
from engine.run.device import ON_CPU_ONLY, DeviceChoice, choose_device, torch_dtype
from engine.run.gpu_runner import GpuRunner
from engine.run.runner import Runner, is_out_of_memory
from engine.run.torch_runner import TorchRunner
from engine.session import Session
from engine.text.chat_template import CHATML, ChatTemplate, read_hub_template
from engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Engine:
    """A loaded model with its tokenizer, template and device."""

    name: str
    path: Path
    config: ModelConfig
    tokenizer: Tokenizer
    template: ChatTemplate
    device: DeviceChoice
    new_runner: Callable[[], Runner]

    def session(self) -> Session:
        """A new conversation with a cache of its own; the weights are shared."""
        return Session(
            self.new_runner(),
            self.tokenizer,
            self.template,
            eos_token_ids=self.config.eos_token_ids,
        )


def load(
    spec: str | Path | None = None,
    *,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    quiet: bool = False,
    progress: Callable[[float], None] | None = None,
    cancel: Event | None = None,
) -> Engine:
    """Load an installed model by name, or a file or folder by path; None is the default model.

    `device` and `precision` overrule the choice made by itself; `quiet` leaves half of the threads
    to other programs. `progress` is told a share from 0 to 1. Raises EngineError for all that can
    be wrong with the files or the wishes, and StoppedError soon after `cancel` is set.
    """
    choice = choose_device(device, precision=precision, threads=threads, quiet=quiet)
    found = find_model(spec, models_dir())
    header = read_gguf(found.path) if model_form(found.path) == "gguf" else None
    config = read_config(found.path, header)
    tokenizer, template = load_text(found.path, config, header)
    if tokenizer.vocab_size > config.vocab_size:
        raise ModelFileError(
            f"The tokenizer knows {tokenizer.vocab_size:,} tokens, but the model only "
            f"{config.vocab_size:,}.",
            "These files do not belong together: get the model again from its source.",
        )
    new_runner, choice = _runners(found.path, config, header, choice, progress or _ignore, cancel)
    return Engine(found.name, found.path, config, tokenizer, template, choice, new_runner)


def _ignore(share: float) -> None:
    pass


def _runners(
    path: Path,
    config: ModelConfig,
    header: GGUFFile | None,
    choice: DeviceChoice,
    progress: Callable[[float], None],
    cancel: Event | None,
) -> tuple[Callable[[], Runner], DeviceChoice]:
    """The compiled step on a CPU, where it can run and nothing else was asked for; else torch."""
    if choice.name == "cpu" and choice.wanted in (None, *STEP_PRECISIONS):
        try:
            new_runner, precision = runners_for(
                path,
                config,
                header,
                wanted=choice.wanted,
                threads=choice.threads,
                progress=progress,
                cancel=cancel,
            )
            return new_runner, replace(choice, precision=precision)
        except NoStepError as error:
            if choice.wanted in ON_CPU_ONLY:
                raise DeviceError(
                    f"{choice.wanted} is not possible here: {error}.", "Choose bf16 or fp32."
                ) from error
            choice = replace(choice, reason=f"{choice.reason}; slower, because {error}")
    torch.set_num_threads(choice.threads)
    state = load_state_dict(
        path, config, dtype=torch_dtype(choice.precision), progress=progress, cancel=cancel
    )
    model = _moved(build_model(config, state), choice)
    return partial(TorchRunner if choice.name == "cpu" else GpuRunner, model), choice


def build_model(config: ModelConfig, state: dict[str, torch.Tensor]) -> Llama:
    """A model for replying that owns the tensors of `state`, without initialising it first."""
    with torch.device("meta"):
        model = Llama(config)
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)


def _moved(model: Llama, choice: DeviceChoice) -> Llama:
    try:
        return model.to(choice.name)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise DeviceError(
            f"The model does not fit into the memory of {choice.label}.",
            "Close other programs that use it, or choose the CPU as the device.",
        ) from error


def load_text(
    path: Path, config: ModelConfig, header: GGUFFile | None = None
) -> tuple[Tokenizer, ChatTemplate]:
    """The tokenizer and chat template that belong to a model file or folder.

    `header` is a GGUF file's, where it was read before.
    """
    if model_form(path) == "gguf":
        metadata = (header or read_gguf(path)).metadata
        tokenizer = Tokenizer.from_gguf(metadata)
        source = metadata.get("tokenizer.chat_template")
    else:
        folder = path if path.is_dir() else path.parent
        tokenizer = Tokenizer.from_file(folder / "tokenizer.json")
        source = read_hub_template(folder)
    bos, eos = config.bos_token_id, next(iter(config.eos_token_ids), None)
    template = ChatTemplate(
        source if isinstance(source, str) else CHATML,
        bos_token="" if bos is None else tokenizer.token_text(bos),
        eos_token="" if eos is None else tokenizer.token_text(eos),
    )
    return tokenizer, template
