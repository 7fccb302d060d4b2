"""The real 135M weights in fp32 against values that transformers computed from them."""

import json
from pathlib import Path

import pytest
import torch

from engine.events import Finished
from engine.loading import load
from engine.messages import Message
from engine.options import SamplingOptions

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden_q4_1.json").read_text())["cases"]


@pytest.fixture(scope="module")
def engine(default_model_path):
    return load(default_model_path, device="cpu", precision="fp32")


@pytest.fixture(autouse=True)
def _all_threads(_one_thread, engine) -> None:
    torch.set_num_threads(engine.device.threads)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['kind']}-{case['greedy_text']}")
def test_the_real_model_answers_as_the_reference(engine, case):
    session = engine.session()
    if case["kind"] == "chat":
        prompt_ids = session.prompt_ids([Message(*turn) for turn in case["prompt"]])
    else:
        prompt_ids = engine.tokenizer.encode(case["prompt"])
    assert prompt_ids == case["prompt_ids"]
    top = session.next_logits(prompt_ids, top=len(case["top_ids"]))
    assert list(top.ids) == case["top_ids"]
    assert top.logits == pytest.approx(case["top_logits"], abs=2e-3)
    options = SamplingOptions(
        temperature=0, max_new_tokens=len(case["greedy_ids"]), end_loops=False
    )
    *_, finished = session.complete(prompt_ids, options)
    assert isinstance(finished, Finished)
    end = [] if finished.end_id is None else [finished.end_id]
    assert [*finished.token_ids, *end] == case["greedy_ids"]
    text = case["greedy_text"].removesuffix("<|im_end|>")
    assert finished.text == text


def test_a_warm_cache_answers_as_a_cold_one_with_the_real_model(engine):
    """Two turns, then the first one edited: ids equal to those of a session that starts anew."""
    options = SamplingOptions(temperature=0, max_new_tokens=12)
    warm = engine.session()
    dialog = [Message("user", "Name a colour.")]
    *_, first = warm.reply(dialog, options)
    dialog += [Message("assistant", first.text, first.token_ids), Message("user", "Another?")]
    for messages in (dialog, [Message("user", "Name a fruit.")], dialog):
        *_, got = warm.reply(messages, options)
        *_, expected = engine.session().reply(messages, options)
        assert got.statistics.reused_tokens > 0
        assert got.token_ids == expected.token_ids
