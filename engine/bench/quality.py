"""What a precision costs: how far its predictions on a text are from those of fp32.

The reference is the model's own file with its weights in fp32, read by the plain network. For each
position the Kullback-Leibler divergence KL(fp32 || precision) over the whole vocabulary is taken
in nats, and whether both find the same token the likeliest (top-1).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from engine.bench import Say
from engine.bench.speed import read_prompt
from engine.files.weights import load_state_dict
from engine.loading import Engine, build_model
from engine.model.llama import Llama
from engine.run.runner import Runner
from engine.sampling import NonFiniteLogitsError

WINDOW = 128
"""Tokens that are read before they are compared: a window's logits are all that is in memory."""

STRETCH = 4096
"""Longer texts, and those longer than the context, are cut into stretches, each read afresh."""

_PHASES = 3

Logits = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(slots=True)
class Score:
    """The sum of what was compared so far."""

    count: int = 0
    divergence: float = 0.0
    agreed: int = 0

    def add(self, expected: Doubles, logits: Logits) -> None:
        """Compare logits with the reference's log-probabilities, (n, vocab) each.

        Raises NonFiniteLogitsError.
        """
        found = log_softmax(logits)
        # A row at a time: what is computed on the way stays small, and so near.
        rows = zip(expected, found, strict=True)
        self.divergence += sum(float((np.exp(p) * (p - q)).sum()) for p, q in rows)
        self.agreed += int((expected.argmax(-1) == found.argmax(-1)).sum())
        self.count += len(expected)

    def summary(self) -> dict[str, float]:
        """`mean_kl` in nats and `top1`, the share of positions that agree, from 0 to 1."""
        return {"mean_kl": self.divergence / self.count, "top1": self.agreed / self.count}


def compare(
    new_runner: Callable[[], Runner],
    reference: Llama,
    ids: Sequence[int],
    *,
    say: Say,
) -> dict[str, dict[str, float]]:
    """Each path's score on a text of one or more tokens, by `Score.summary`.

    step: one token at a time. prompt: in chunks, as a prompt is read. both: as a user gets a reply,
    the 256 tokens before read as a prompt and then 128 one by one, which are compared. Three of
    these run side by side, so that every token is compared once. Raises NonFiniteLogitsError.
    """
    scores = {"step": Score(), "prompt": Score(), "both": Score()}
    step, prompt = new_runner(), new_runner()
    both = [new_runner() for _ in range(_PHASES)]
    size = min(STRETCH, step.max_positions)
    for start in range(0, len(ids), size):
        stretch = ids[start : start + size]
        for runner in (step, prompt, *both):
            runner.truncate(0)
        windows = range(0, len(stretch), WINDOW)
        for number, expected in enumerate(_log_probabilities(reference, stretch)):
            window = stretch[windows[number] : windows[number] + WINDOW]
            _read_steps(step, window, expected, scores["step"])
            _read_chunks(prompt, window, expected, scores["prompt"])
            for phase, runner in enumerate(both):
                if number % _PHASES == phase:
                    _read_steps(runner, window, expected, scores["both"])
                else:
                    read_prompt(runner, window)
            score = scores["both"]
            mean = score.divergence / score.count
            say(f"quality: {score.count:,} of {len(ids):,} tokens, KL {mean:.5f}")
    return {path: score.summary() for path, score in scores.items()}


def reference_model(engine: Engine) -> Llama:
    """The engine's model with its file's weights in fp32, on the CPU."""
    state = load_state_dict(engine.path, engine.config, dtype=torch.float32)
    return build_model(engine.config, state)


def log_softmax(logits: Logits) -> Doubles:
    """Natural logarithms of the probabilities, along the last axis, in fp64.

    Raises NonFiniteLogitsError.
    """
    if not np.isfinite(logits).all():
        raise NonFiniteLogitsError
    shifted: Doubles = logits - logits.max(-1, keepdims=True).astype(np.float64)
    shifted -= np.log(np.exp(shifted).sum(-1, keepdims=True))
    return shifted


def _read_steps(runner: Runner, ids: Sequence[int], expected: Doubles, score: Score) -> None:
    for place, token_id in enumerate(ids):
        score.add(expected[place, None], runner.read([token_id])[None])


def _read_chunks(runner: Runner, ids: Sequence[int], expected: Doubles, score: Score) -> None:
    for start in range(0, len(ids), runner.chunk_size):
        end = start + runner.chunk_size
        score.add(expected[start:end], runner.read_each(ids[start:end]))


@torch.inference_mode()
def _log_probabilities(model: Llama, ids: Sequence[int]) -> Iterator[Doubles]:
    """The reference's, window by window, (n, vocab) each."""
    cache = None
    for start in range(0, len(ids), WINDOW):
        window = torch.tensor([ids[start : start + WINDOW]])
        output = model(window, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        yield log_softmax(output.logits[0].numpy())
