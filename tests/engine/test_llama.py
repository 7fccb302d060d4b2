"""The network against transformers' LlamaForCausalLM, on tiny random models in fp32."""

import itertools

import pytest
import torch
import transformers

from engine.model.config import ModelConfig
from engine.model.kv_cache import KVCache
from engine.model.llama import Llama, rotation_at

TOLERANCE = 1e-4

SHAPES = {
    "MHA": (4, 4),
    "GQA": (6, 2),
    "MQA": (4, 1),
}
CASES = [
    pytest.param(heads, theta, tied, id=f"{heads}-{theta:g}-{'tied' if tied else 'untied'}")
    for heads, theta, tied in itertools.product(SHAPES, (10_000.0, 130_000.0), (True, False))
]


def reference_model(heads: str, theta: float, tied: bool) -> transformers.LlamaForCausalLM:
    query_heads, kv_heads = SHAPES[heads]
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=97,
        hidden_size=query_heads * 16,
        intermediate_size=80,
        num_hidden_layers=3,
        num_attention_heads=query_heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=512,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        tie_word_embeddings=tied,
        # Large enough that attention is far from uniform: a wrong mask or angle must show.
        initializer_range=0.12,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return model


def our_model(reference: transformers.LlamaForCausalLM) -> Llama:
    model = Llama(ModelConfig.from_hf(reference.config))
    state = reference.state_dict()
    if reference.config.tie_word_embeddings:
        del state["lm_head.weight"]
    model.load_state_dict(state)
    return model.eval()


def random_ids(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, 97, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("heads", "theta", "tied"), CASES)
@torch.inference_mode()
def test_full_sequences_match(heads, theta, tied):
    reference = reference_model(heads, theta, tied)
    ids = random_ids(3, 300)
    expected = reference(ids).logits
    torch.testing.assert_close(our_model(reference)(ids).logits, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("chunk", [1, 7, 300])
@pytest.mark.parametrize(("heads", "theta", "tied"), CASES)
@torch.inference_mode()
def test_prompts_in_chunks_on_a_cache_match(heads, theta, tied, chunk):
    reference = reference_model(heads, theta, tied)
    model = our_model(reference)
    ids = random_ids(2, 300)
    expected = reference(ids).logits
    cache, logits = None, []
    for part in ids.split(chunk, dim=1):
        output = model(part, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        logits.append(output.logits)
    assert cache.length == 300
    torch.testing.assert_close(torch.cat(logits, 1), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(("heads", "theta", "tied"), CASES)
@torch.inference_mode()
def test_left_padded_batches_match_each_row_alone_and_transformers(heads, theta, tied):
    reference = reference_model(heads, theta, tied)
    model = our_model(reference)
    ids = random_ids(3, 20)
    mask = torch.ones_like(ids)
    for row, padding in enumerate((0, 5, 19)):
        mask[row, :padding] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    expected = reference(ids, attention_mask=mask, position_ids=positions).logits
    for chunk in (1, 7, 20):
        cache, logits = None, []
        for start in range(0, 20, chunk):
            end = min(20, start + chunk)
            output = model(ids[:, start:end], mask[:, :end], cache, use_cache=True)
            cache = output.past_key_values
            logits.append(output.logits)
        got = torch.cat(logits, 1)
        assert got.isfinite().all()
        real = mask.bool()
        torch.testing.assert_close(got[real], expected[real], atol=TOLERANCE, rtol=0)
    for row in range(3):
        alone = model(ids[row : row + 1, mask[row].bool()]).logits[0, -1]
        torch.testing.assert_close(got[row, -1], alone, atol=TOLERANCE, rtol=0)


@torch.inference_mode()
def test_padding_on_the_right_changes_nothing_before_it():
    model = our_model(reference_model("GQA", 10_000.0, True))
    ids = random_ids(1, 12)
    mask = torch.ones_like(ids)
    mask[0, 9:] = 0
    torch.testing.assert_close(
        model(ids, mask).logits[0, :9], model(ids[:, :9]).logits[0], atol=TOLERANCE, rtol=0
    )


@torch.inference_mode()
def test_a_truncated_cache_continues_as_if_the_rest_had_never_been_read():
    model = our_model(reference_model("GQA", 10_000.0, True))
    ids = random_ids(1, 40)
    cache = model(ids, use_cache=True).past_key_values
    cache.truncate(15)
    other = random_ids(1, 10, seed=5)
    warm = model(other, past_key_values=cache).logits
    cold = model(torch.cat((ids[:, :15], other), 1)).logits[:, 15:]
    torch.testing.assert_close(warm, cold, atol=TOLERANCE, rtol=0)


@torch.inference_mode()
def test_the_cache_grows_without_losing_what_it_holds():
    model = our_model(reference_model("GQA", 10_000.0, True))
    ids = random_ids(1, 400)
    cache = KVCache(model.config)
    first_capacity = cache.capacity
    assert first_capacity < 400
    steps = [model(part, past_key_values=cache).logits for part in ids.split(50, dim=1)]
    assert cache.capacity >= 400
    torch.testing.assert_close(torch.cat(steps, 1), model(ids).logits, atol=TOLERANCE, rtol=0)


@torch.inference_mode()
def test_a_call_stopped_between_layers_leaves_the_cache_as_it_was():
    model = our_model(reference_model("GQA", 10_000.0, True))
    ids = random_ids(1, 30)
    cache = model(ids[:, :20], use_cache=True).past_key_values

    def stop(layer: int) -> None:
        if layer == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model(random_ids(1, 300, seed=9), past_key_values=cache, before_layer=stop)
    assert cache.length == 20
    warm = model(ids[:, 20:], past_key_values=cache).logits
    torch.testing.assert_close(warm, model(ids).logits[:, 20:], atol=TOLERANCE, rtol=0)


@torch.inference_mode()
def test_logits_can_be_limited_to_the_last_positions():
    model = our_model(reference_model("GQA", 10_000.0, False))
    ids = random_ids(2, 9)
    torch.testing.assert_close(model(ids, logits_to_keep=2).logits, model(ids).logits[:, -2:])


def test_angles_in_a_bf16_model_are_as_exact_as_bf16_can_show_them():
    config = our_model(reference_model("GQA", 10_000.0, True)).config
    positions = torch.arange(8192)[None]
    rotation = rotation_at(positions, config, torch.bfloat16)
    frequency = config.rope_theta ** (-torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    angle = (positions[0, :, None] * frequency).repeat(1, 2)
    assert (rotation.cos[0, 0].double() - angle.cos()).abs().max() < 2**-8
    assert (rotation.sin[0, 0].double() - angle.sin()).abs().max() < 2**-8


def test_it_can_be_trained_to_know_one_batch_by_heart():
    torch.manual_seed(0)
    config = ModelConfig.from_hf(reference_model("GQA", 10_000.0, True).config)
    model = Llama(config)
    ids = random_ids(4, 24)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def loss() -> torch.Tensor:
        logits = model(ids[:, :-1]).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    before = loss().item()
    for _ in range(60):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
    assert before > 4
    assert loss().item() < 0.1


def test_gradients_match_transformers_with_and_without_a_cache():
    reference = reference_model("GQA", 10_000.0, False)
    model = our_model(reference)
    ids = random_ids(2, 12)
    reference(ids).logits.square().mean().backward()
    expected = dict(reference.named_parameters())
    for use_cache in (False, True):
        model.zero_grad()
        model(ids, use_cache=use_cache).logits.square().mean().backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(
                parameter.grad, expected[name].grad, atol=1e-4, rtol=1e-3, msg=name
            )


def test_a_new_model_is_spread_as_its_config_says():
    torch.manual_seed(0)
    config = ModelConfig.from_hf(reference_model("MHA", 10_000.0, False).config)
    model = Llama(config)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            assert (parameter == 1).all()
        else:
            assert parameter.std().item() == pytest.approx(config.initializer_range, rel=0.1), name


MISFITS = [
    ("no tokens", {"input_ids": random_ids(2, 0)}),
    ("do not fit 512 positions", {"input_ids": random_ids(1, 513)}),
    (
        "must cover past and new",
        {"input_ids": random_ids(2, 4), "attention_mask": torch.ones(2, 3)},
    ),
    ("holds 2 sequences", {"input_ids": random_ids(1, 4), "past_key_values": "of two rows"}),
]


@pytest.mark.parametrize(("reason", "arguments"), MISFITS)
def test_calls_that_do_not_fit_are_refused_with_the_reason(reason, arguments):
    model = our_model(reference_model("GQA", 10_000.0, True))
    if arguments.get("past_key_values"):
        arguments = arguments | {"past_key_values": KVCache(model.config, batch_size=2)}
    with pytest.raises(ValueError, match=reason), torch.no_grad():
        model(**arguments)
