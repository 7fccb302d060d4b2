"""Batch generation, against transformers' `generate` where both are greedy."""

import pytest
import torch
import transformers

from engine import Llama, ModelConfig, generate
from engine.errors import OptionsError


@pytest.fixture(scope="module")
def reference() -> transformers.LlamaForCausalLM:
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=61,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def model(reference) -> Llama:
    model = Llama(ModelConfig.from_hf(reference.config))
    model.load_state_dict(reference.state_dict())
    return model.eval()


def prompts(rows: int, length: int) -> torch.Tensor:
    return torch.randint(3, 61, (rows, length), generator=torch.Generator().manual_seed(8))


def test_greedy_batches_with_left_padding_match_transformers(model, reference):
    ids = prompts(3, 9)
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    mask[2, :8] = 0
    expected = reference.generate(
        ids, attention_mask=mask, max_new_tokens=20, do_sample=False, eos_token_id=None
    )
    got = generate(model, ids, 20, temperature=0, attention_mask=mask)
    assert got.tolist() == expected.tolist()


def test_rows_end_at_their_own_eos_and_go_on_as_padding(model):
    ids = prompts(4, 6)
    free = generate(model, ids, 30, temperature=0)[:, 6:]
    eos = int(free[0, 3])
    ended = generate(model, ids, 30, temperature=0, eos_token_id=eos, pad_token_id=0)[:, 6:]
    lengths = []
    for row in range(4):
        at = free[row].tolist().index(eos) + 1 if eos in free[row] else 30
        lengths.append(at)
        assert ended[row, :at].tolist() == free[row, :at].tolist()
        assert set(ended[row, at:].tolist()) <= {0}
    assert len(set(lengths)) > 1, "the case shows nothing: all rows ended together"
    assert ended.shape[1] == max(lengths)


def test_several_eos_ids_are_all_heeded(model):
    ids = prompts(1, 6)
    free = generate(model, ids, 30, temperature=0)[0, 6:].tolist()
    got = generate(model, ids, 30, temperature=0, eos_token_id=[free[9], free[5]])[0, 6:].tolist()
    first = min(free.index(free[9]), free.index(free[5]))
    assert got == free[: first + 1]


def test_the_method_is_the_function(model):
    ids = prompts(2, 5)
    assert model.generate(ids, 7, temperature=0.8, top_k=5, seed=4).equal(
        generate(model, ids, 7, 0.8, 5, 1.0, None, seed=4)
    )


def test_a_seed_repeats_itself_and_rows_do_not_depend_on_each_other(model):
    ids = prompts(3, 5)
    together = generate(model, ids, 12, temperature=1.5, seed=11)
    assert together.equal(generate(model, ids, 12, temperature=1.5, seed=11))
    assert not together.equal(generate(model, ids, 12, temperature=1.5, seed=12))
    assert together[:1].equal(generate(model, ids[:1], 12, temperature=1.5, seed=11))


def test_generation_ends_when_the_positions_are_full(model):
    got = generate(model, prompts(1, 60), 100, temperature=0)
    assert got.shape == (1, 65)  # the last of the 64 positions still yields one token


def test_padding_on_the_right_is_refused(model):
    ids = prompts(2, 4)
    mask = torch.ones_like(ids)
    mask[0, -1] = 0
    with pytest.raises(ValueError, match="on the left"):
        generate(model, ids, 3, attention_mask=mask)


@pytest.mark.parametrize(
    "options", [{"temperature": -1}, {"top_p": 1.5}, {"top_k": -1}, {"seed": -1}, {"seed": 1.5}]
)
def test_impossible_options_are_refused(model, options):
    with pytest.raises(OptionsError):
        generate(model, prompts(1, 4), 3, **options)


def test_top_k_one_is_greedy(model):
    ids = prompts(2, 6)
    assert generate(model, ids, 10, temperature=1.0, top_k=1, seed=1).equal(
        generate(model, ids, 10, temperature=0)
    )


def test_a_prompt_beyond_the_positions_is_refused(model):
    with pytest.raises(ValueError, match="do not fit 64 positions"):
        generate(model, prompts(1, 65), 3)


@pytest.mark.parametrize("count", [-1, 0, 1.5])
def test_an_impossible_number_of_tokens_is_refused(model, count):
    with pytest.raises(OptionsError):
        generate(model, prompts(1, 4), count)
