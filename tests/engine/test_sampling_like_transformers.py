"""Our sampler leaves the same tokens with the same probabilities as transformers does."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.options import SamplingOptions
from engine.sampling import candidates

VOCAB = 3000


def theirs(logits: np.ndarray, history: list[int], chosen: SamplingOptions) -> np.ndarray:
    """Probabilities (vocab,) after transformers' own processors, in its own order."""
    processors = LogitsProcessorList(
        [
            RepetitionPenaltyLogitsProcessor(chosen.repetition_penalty),
            TemperatureLogitsWarper(chosen.temperature),
        ]
    )
    if chosen.top_k:
        processors.append(TopKLogitsWarper(chosen.top_k))
    if chosen.top_p < 1:
        processors.append(TopPLogitsWarper(chosen.top_p))
    if chosen.min_p:
        processors.append(MinPLogitsWarper(chosen.min_p))
    scores = processors(torch.tensor([history]), torch.from_numpy(logits.copy())[None])
    return torch.softmax(scores, dim=-1)[0].numpy()


@pytest.mark.parametrize("spread", [1.0, 4.0])
@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 0.7, "top_p": 1.0, "repetition_penalty": 1.0},
        {"temperature": 1.3, "top_p": 1.0, "top_k": 40},
        {"temperature": 1.0, "top_p": 0.9},
        {"temperature": 0.2, "top_p": 0.5},
        {"temperature": 2.0, "top_p": 0.97, "top_k": 150},
        {"temperature": 0.9, "top_p": 1.0, "min_p": 0.05},
        {"temperature": 0.7, "top_p": 0.9, "top_k": 100, "min_p": 0.1, "repetition_penalty": 1.3},
    ],
)
def test_same_survivors_and_probabilities(changes: dict[str, Any], spread: float) -> None:
    rng = np.random.default_rng(5)
    chosen = SamplingOptions(**changes)
    for _ in range(5):
        logits = (rng.standard_normal(VOCAB) * spread).astype(np.float32)
        history = rng.integers(0, VOCAB, 50).tolist()
        expected = theirs(logits, history, chosen)
        found = candidates(logits, history, chosen)
        assert set(found.ids.tolist()) == set(np.flatnonzero(expected).tolist())
        np.testing.assert_allclose(found.probabilities, expected[found.ids], rtol=2e-4)
