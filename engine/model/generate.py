"""Batch generation: prompts of unequal length in, finished sequences out.

For one conversation with streaming, cache reuse and live options see `engine.session`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engine.options import SamplingOptions
from engine.sampling import new_rng, sample


@torch.inference_mode()
def generate(
    model: Any,
    input_ids: Tensor,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    eos_token_id: int | Sequence[int] | None = None,
    *,
    attention_mask: Tensor | None = None,
    pad_token_id: int | None = None,
    seed: int | None = None,
) -> Tensor:
    """Continue every row of `input_ids` (b, n); returns (b, n + new), new <= `max_new_tokens`.

    Temperature 0 is greedy, `top_k` 0 and `top_p` 1 are off. Prompts of unequal length are padded
    on the left, with `attention_mask` (b, n) 0 there. A row that met an `eos_token_id` goes on as
    `pad_token_id` (default: that eos). Generation ends when all rows have, or when the model's
    positions are full. Each row draws from its own generator, seeded by `seed` and its index, so a
    row's text does not depend on the others. Raises OptionsError for options out of range,
    and ValueError for prompts that do not fit the model.
    """
    options = SamplingOptions(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        max_new_tokens=max_new_tokens,
        seed=seed,
    )
    ends = _as_set(eos_token_id)
    if attention_mask is not None and bool((attention_mask[:, -1] == 0).any()):
        raise ValueError("prompts of unequal length must be padded on the left")
    batch, length = input_ids.shape
    room = model.config.max_position_embeddings - length + 1  # the last token is never read
    base = torch.seed() if seed is None else seed
    rngs = [new_rng((base + row) % 2**63) for row in range(batch)]
    padding: list[int | None] = [None] * batch  # what a finished row goes on as
    sequence, new_ids, cache = input_ids, input_ids, None
    for _ in range(min(max_new_tokens, max(room, 1))):
        output = model(new_ids, attention_mask, cache, use_cache=True, logits_to_keep=1)
        cache = output.past_key_values
        logits = output.logits[:, -1].float().cpu().numpy()  # (b, vocab)
        chosen = []
        for row in range(batch):
            pad = padding[row]
            token_id = sample(logits[row], (), options, rngs[row]) if pad is None else pad
            if pad is None and token_id in ends:
                padding[row] = token_id if pad_token_id is None else pad_token_id
            chosen.append(token_id)
        new_ids = torch.tensor(chosen, device=input_ids.device)[:, None]
        sequence = torch.cat((sequence, new_ids), dim=1)
        if attention_mask is not None:
            attention_mask = torch.cat((attention_mask, torch.ones_like(new_ids)), dim=1)
        if None not in padding:
            break
    return sequence


def _as_set(ids: int | Sequence[int] | None) -> frozenset[int]:
    if ids is None:
        return frozenset()
    return frozenset((ids,)) if isinstance(ids, int) else frozenset(ids)
