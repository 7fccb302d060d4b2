"""A session: what was read stays read, and a warm cache answers exactly as a cold one.

A tiny random model with the real tokenizer and chat template, in fp32.
"""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.errors import DeviceError, PromptTooLongError
from engine.events import Finished, PromptProgress, Token
from engine.files.weights import read_config
from engine.loading import load_text
from engine.messages import Message
from engine.model.config import ModelConfig
from engine.model.llama import Llama
from engine.options import LiveOptions, SamplingOptions
from engine.run.torch_runner import TorchRunner
from engine.sampling import candidates, new_rng, sample
from engine.session import Session

GREEDY = SamplingOptions(temperature=0, max_new_tokens=8, end_loops=False)
CONTEXT = 400


@pytest.fixture(scope="module")
def text(default_model_path):
    return load_text(default_model_path, read_config(default_model_path))


def tiny_model(**changes) -> Llama:
    torch.manual_seed(5)
    settings = {
        "vocab_size": 49152,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": False,
        "initializer_range": 0.3,
    }
    return Llama(ModelConfig(**settings | changes)).eval()


def model_that_always_says(token_id: int) -> Llama:
    model = tiny_model()
    with torch.no_grad():
        model.model.embed_tokens.weight.fill_(1.0)
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.lm_head.weight.zero_()
        model.lm_head.weight[token_id] = 1.0
    return model


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.fixture
def new_session(model, text):
    def make(own_model: Llama | None = None) -> Session:
        return Session(TorchRunner(own_model or model, chunk_size=16), *text)

    return make


def user(content: str) -> Message:
    return Message("user", content)


def finish(events) -> tuple[list[Token], Finished]:
    events = list(events)
    assert isinstance(events[-1], Finished)
    tokens = [event for event in events if isinstance(event, Token)]
    finished = events[-1]
    assert "".join(token.text for token in tokens) + finished.tail == finished.text
    assert tuple(token.id for token in tokens) == finished.token_ids
    return tokens, finished


def assert_same_reply(warm: Session, cold: Session, messages: list[Message]) -> Finished:
    warm_tokens, warm_end = finish(warm.reply(messages, GREEDY, top=50))
    cold_tokens, cold_end = finish(cold.reply(messages, GREEDY, top=50))
    assert cold_end.statistics.reused_tokens == 0
    assert warm_end.statistics.reused_tokens > 0
    assert warm_end.token_ids == cold_end.token_ids
    for warm_token, cold_token in zip(warm_tokens, cold_tokens, strict=True):
        np.testing.assert_allclose(warm_token.top.logits, cold_token.top.logits, atol=1e-4, rtol=0)
        assert warm_token.top.log_sum_exp == pytest.approx(cold_token.top.log_sum_exp, abs=1e-4)
    return warm_end


def replied(session: Session, messages: list[Message]) -> list[Message]:
    _, finished = finish(session.reply(messages, GREEDY))
    return [*messages, finished.message()]


FIRST = [user("What is a tide?"), Message("assistant", "Water that moves."), user("And why?")]


@pytest.mark.parametrize(
    "then",
    [
        pytest.param([*FIRST[:2], user("And who says so?")], id="edit"),
        pytest.param(FIRST, id="regenerate"),
        pytest.param([Message("system", "Be brief."), *FIRST], id="changed system prompt"),
        pytest.param([Message("system", ""), *FIRST], id="empty system prompt"),
        pytest.param([FIRST[0], Message("assistant", "Wet."), FIRST[2]], id="branch"),
        pytest.param(FIRST[2:], id="oldest turns left out"),
        pytest.param([user("Something else")], id="another chat"),
    ],
)
def test_a_warm_cache_answers_as_a_cold_one(new_session, then):
    warm = new_session()
    replied(warm, FIRST)
    assert_same_reply(warm, new_session(), then)


def test_the_next_turn_reads_only_what_is_new(new_session):
    warm = new_session()
    dialog = [*replied(warm, FIRST), user("Go on.")]
    finished = assert_same_reply(warm, new_session(), dialog)
    # All of the last turn but its last token, which was sampled and never read.
    known = len(warm.prompt_ids(FIRST)) + len(dialog[-2].token_ids) - 1
    assert finished.statistics.reused_tokens == known
    assert finished.statistics.prompt_tokens == len(warm.prompt_ids(dialog))


def test_switching_back_and_forth_between_branches_stays_right(new_session):
    warm = new_session()
    replied(warm, FIRST)
    for branch in ([*FIRST[:2], user("Or how?")], FIRST, [user("Hm?")], FIRST):
        assert_same_reply(warm, new_session(), branch)


def test_a_reply_stopped_while_reading_keeps_what_was_read(new_session):
    warm = new_session()
    long = [user("word " * 150)]
    cancel = threading.Event()
    seen = []
    for event in warm.reply(long, GREEDY, cancel=cancel):
        seen.append(event)
        if isinstance(event, PromptProgress) and event.done > 0:
            cancel.set()
    assert seen[-1].reason == "stopped"
    assert seen[-1].text == ""
    assert 0 < seen[-2].done < seen[-2].total
    assert_same_reply(warm, new_session(), long)


def test_stop_takes_effect_within_one_token_and_keeps_the_text(new_session):
    warm = new_session()
    cancel = threading.Event()
    tokens = 0
    for event in warm.reply(FIRST, GREEDY, cancel=cancel):
        if isinstance(event, Token):
            tokens += 1
            if tokens == 3:
                cancel.set()
    assert event.reason == "stopped"
    assert len(event.token_ids) == 3
    assert event.text
    assert_same_reply(warm, new_session(), FIRST)


def test_a_reply_abandoned_anywhere_leaves_the_session_right(new_session):
    for events_taken in (1, 2, 5, 9):
        warm = new_session()
        replied(warm, FIRST)
        reply = warm.reply([*FIRST[:2], user("Left alone")], GREEDY)
        for _ in range(events_taken):
            next(reply)
        reply.close()
        assert_same_reply(warm, new_session(), FIRST)


def test_prompt_progress_rises_to_the_whole(new_session):
    progress = [
        event
        for event in new_session().reply([user("word " * 100)], GREEDY)
        if isinstance(event, PromptProgress)
    ]
    done = [event.done for event in progress]
    assert len(done) > 3
    assert done == sorted(set(done))
    assert done[0] == 0
    assert done[-1] == progress[0].total


def test_a_prompt_beyond_the_context_is_refused_and_nothing_is_lost(new_session):
    warm = new_session()
    replied(warm, FIRST)
    with pytest.raises(PromptTooLongError) as caught:
        list(warm.reply([user("word " * CONTEXT)], GREEDY))
    assert f"{CONTEXT}" in caught.value.what
    assert caught.value.remedy
    assert_same_reply(warm, new_session(), FIRST)


@pytest.mark.parametrize("before", [[], [Message("system", "")], FIRST[:2]])
def test_a_message_that_alone_is_too_long_is_what_an_error_speaks_of(new_session, before):
    with pytest.raises(PromptTooLongError, match=r"^This is .* shorter one\.$"):
        new_session().reply([*before, user("word " * CONTEXT)], GREEDY)


def test_a_message_far_beyond_the_context_is_refused_without_cutting_it_into_tokens(
    new_session, monkeypatch
):
    session = new_session()
    monkeypatch.setattr(session._tokenizer, "encode", lambda text: pytest.fail("was encoded"))
    with pytest.raises(PromptTooLongError, match=f"{CONTEXT}"):
        session.reply([user("word " * 200_000)], GREEDY)


def test_the_last_token_that_fits_ends_the_reply_as_context_full(new_session):
    session = new_session()
    options = SamplingOptions(temperature=0, end_loops=False)
    prompt = [5] * (CONTEXT - 3)
    _, finished = finish(session.complete(prompt, options))
    assert finished.reason == "context_full"
    assert len(finished.token_ids) == 3


def test_a_changed_option_acts_on_the_very_next_token(new_session):
    live = LiveOptions(SamplingOptions(temperature=2.0, seed=3, max_new_tokens=12))
    greedy = []
    count = 0
    for event in new_session().reply(FIRST, live, top=1):
        if isinstance(event, Token):
            count += 1
            greedy.append(event.id == event.top.ids[0])
            if count == 6:
                live.change(temperature=0.0)
    assert not any(greedy[:6]), "hot sampling from 49152 random tokens is never the likeliest"
    assert all(greedy[6:])


def test_max_new_tokens_can_be_lowered_while_a_reply_runs(new_session):
    live = LiveOptions(SamplingOptions(temperature=0, end_loops=False))
    tokens = 0
    for event in new_session().reply(FIRST, live):
        if isinstance(event, Token):
            tokens += 1
            if tokens == 5:
                live.change(max_new_tokens=5)
    assert event.reason == "length"
    assert tokens == 5


def test_a_seed_repeats_a_reply_and_every_reply_tells_its_seed(new_session):
    warm_options = SamplingOptions(temperature=1.0, max_new_tokens=10)
    _, first = finish(new_session().reply(FIRST, warm_options))
    _, other = finish(new_session().reply(FIRST, warm_options))
    again = SamplingOptions(temperature=1.0, max_new_tokens=10, seed=first.seed)
    _, replay = finish(new_session().reply(FIRST, again))
    assert replay.token_ids == first.token_ids
    assert replay.seed == first.seed
    assert other.seed != first.seed


def test_a_stop_text_ends_the_reply_before_it(new_session):
    _, free = finish(new_session().reply(FIRST, GREEDY))
    middle = len(free.text) // 2
    stop = free.text[middle : middle + 3]
    options = SamplingOptions(temperature=0, max_new_tokens=8, stop_texts=(stop,))
    _, finished = finish(new_session().reply(FIRST, options))
    assert finished.reason == "stop_text"
    assert finished.text == free.text[: free.text.index(stop)]


def test_after_a_stop_text_the_model_remembers_what_was_shown_and_no_more(new_session):
    session = new_session()
    _, free = finish(session.reply(FIRST, GREEDY))
    stop = free.text[len(free.text) // 2 :][:3]
    options = SamplingOptions(temperature=0, max_new_tokens=8, stop_texts=(stop,))
    _, finished = finish(session.reply(FIRST, options))
    following = [*FIRST, finished.message(), user("Go on.")]
    shown = [*FIRST, Message("assistant", finished.text), user("Go on.")]
    assert session.prompt_ids(following) == session.prompt_ids(shown)


@pytest.mark.parametrize("ids", [[], [-1], [5, 49152]])
def test_ids_that_do_not_exist_are_refused_before_anything_is_read(new_session, ids):
    session = new_session()
    replied(session, FIRST)
    for ask in (session.complete, lambda ids: session.next_logits(ids, top=3)):
        with pytest.raises(ValueError, match="token"):
            ask(ids)
    assert_same_reply(session, new_session(), FIRST)


def test_a_loop_is_ended_unless_that_is_switched_off(new_session):
    session = new_session(model_that_always_says(100))
    _, looping = finish(session.complete([5, 6, 7], SamplingOptions(temperature=0)))
    assert looping.reason == "loop"
    options = SamplingOptions(temperature=0, end_loops=False)
    _, kept = finish(session.complete([5, 6, 7], options))
    assert kept.reason == "context_full"


@pytest.mark.parametrize("end_id", [0, 1, 2])
def test_every_end_token_ends_the_turn_and_is_never_shown(new_session, end_id):
    tokens, finished = finish(new_session(model_that_always_says(end_id)).reply(FIRST, GREEDY))
    assert finished.reason == "end_of_turn"
    assert finished.end_id == end_id
    assert tokens == []
    assert finished.text == ""


def test_other_control_tokens_do_not_end_the_turn_and_are_not_shown(new_session):
    _, finished = finish(new_session(model_that_always_says(5)).reply(FIRST, GREEDY))
    assert finished.reason == "length"
    assert finished.text == ""


def test_broken_numbers_end_the_reply_in_a_plain_sentence_with_its_text_kept(new_session):
    model = tiny_model()
    session = new_session(model)
    events = session.reply(FIRST, GREEDY)
    tokens = 0
    for event in events:
        if isinstance(event, Token):
            tokens += 1
            if tokens == 4:
                with torch.no_grad():
                    model.lm_head.weight.fill_(torch.nan)
    assert event.reason == "error"
    assert "numbers broke down" in event.error
    assert len(event.token_ids) == 4
    assert event.text


def test_numbers_that_break_down_in_16_bits_go_on_in_32(new_session):
    exact = tiny_model()
    with torch.no_grad():
        exact.lm_head.weight *= 2e4  # logits beyond 65504, the largest fp16
    narrow = tiny_model()
    narrow.load_state_dict(exact.state_dict())
    narrow.half()
    expected_fp32 = tiny_model()
    expected_fp32.load_state_dict({k: v.float() for k, v in narrow.state_dict().items()})
    _, expected = finish(new_session(expected_fp32).reply(FIRST, GREEDY))
    _, finished = finish(new_session(narrow).reply(FIRST, GREEDY))
    assert finished.token_ids == expected.token_ids
    assert narrow.dtype == torch.float16, "other sessions keep the model they had"


def test_running_out_of_memory_ends_the_reply_with_its_text_kept(new_session, monkeypatch):
    session = new_session()
    tokens = 0
    for event in session.reply(FIRST, GREEDY):
        if isinstance(event, Token):
            tokens += 1
            if tokens == 3:
                monkeypatch.setattr(session._runner, "_model", OutOfMemory(session._runner._model))
    assert event.reason == "error"
    assert "memory" in event.error
    assert len(event.token_ids) == 3
    monkeypatch.undo()
    assert_same_reply(session, new_session(), FIRST)


def test_running_out_of_memory_while_reading_is_an_error(new_session, monkeypatch):
    session = new_session()
    monkeypatch.setattr(session._runner, "_model", OutOfMemory(session._runner._model))
    with pytest.raises(DeviceError, match="memory"):
        list(session.reply(FIRST, GREEDY))


class OutOfMemory:
    """A model whose every call fails as torch's CPU allocator does."""

    def __init__(self, model: Llama) -> None:
        self.model = model

    def __getattr__(self, name: str):
        return getattr(self.model, name)

    def __call__(self, *_args, **_kwargs):
        # What torch really raises, asked for here with an impossible size.
        torch.empty(2**60, dtype=torch.uint8)


def test_statistics_count_what_happened(new_session):
    session = new_session()
    _, finished = finish(session.reply(FIRST, GREEDY))
    statistics = finished.statistics
    assert statistics.prompt_tokens == len(session.prompt_ids(FIRST))
    assert statistics.new_tokens == 8
    assert statistics.time_to_first_token > 0
    assert statistics.tokens_per_second > 0


def test_next_logits_are_those_the_reply_would_sample_from(new_session):
    session = new_session()
    prompt = session.prompt_ids(FIRST)
    tokens, _ = finish(new_session().reply(FIRST, GREEDY, top=20))
    top = session.next_logits(prompt, top=20)
    assert top.ids == tokens[0].top.ids
    np.testing.assert_allclose(top.logits, tokens[0].top.logits, atol=1e-4)
    assert_same_reply(session, new_session(), FIRST)


class TestGoingOn:
    def test_a_reply_in_two_parts_is_the_reply_in_one(self, new_session):
        whole, _ = new_session(), new_session()
        _, in_one = finish(whole.reply(FIRST, GREEDY))
        session = new_session()
        _, first = finish(session.reply(FIRST, replace(GREEDY, max_new_tokens=3)))
        _, second = finish(
            session.reply([*FIRST, first.message()], replace(GREEDY, max_new_tokens=5))
        )
        assert first.token_ids + second.token_ids == in_one.token_ids
        assert first.text + second.text == in_one.text
        assert second.statistics.reused_tokens == second.statistics.prompt_tokens - 1

    def test_a_reply_whose_ids_are_not_known_goes_on_from_its_text(self, new_session):
        session = new_session()
        dialog = [*FIRST, Message("assistant", "Because the moon")]
        ids = session.prompt_ids(dialog)
        assert session.prompt_ids(FIRST) == ids[: len(session.prompt_ids(FIRST))]
        parts = session.prompt_parts(ids)
        assert parts[-2:] == [("<|im_start|>", True), ("assistant\nBecause the moon", False)]
        assert finish(session.reply(dialog, GREEDY))[1].token_ids

    def test_a_reply_cut_off_within_a_character_ends_before_it(self, new_session, text):
        tokenizer, _ = text
        begun = tokenizer.encode("漢")[0]
        assert tokenizer.token_text(begun) == "\ufffd"
        session = new_session(model_that_always_says(begun))
        _, finished = finish(session.reply(FIRST, replace(GREEDY, max_new_tokens=1)))
        assert finished.text == ""
        assert finished.token_ids == (begun,)


class TestNextToken:
    """What the bars draw is what the sampler drew from."""

    @pytest.mark.parametrize(
        "options",
        [
            SamplingOptions(temperature=0.9, top_p=0.8, top_k=40, seed=3, max_new_tokens=12),
            SamplingOptions(repetition_penalty=1.3, frequency_penalty=0.5, seed=4, min_p=0.02),
            SamplingOptions(temperature=1.4, temperature_last=True, seed=5, max_new_tokens=12),
        ],
    )
    def test_each_step_drawn_again_gives_the_same_token(self, new_session, options):
        options = replace(options, max_new_tokens=12, end_loops=False)
        session = new_session()
        rng = new_rng(options.seed)
        assert session.next_token is None
        for event in session.reply(FIRST, options):
            if not isinstance(event, Token):
                continue
            step = session.next_token
            assert step.drawn == event.id
            assert sample(step.logits, step.history, options, rng) == event.id
            among = candidates(step.logits, step.history, options)
            picture = step.picture(options, count=len(among.ids))
            assert [bar.id for bar in picture.bars] == among.ids.tolist()
            assert [bar.final for bar in picture.bars] == among.probabilities.tolist()
            assert [bar.id for bar in picture.bars if bar.drawn] == [event.id]
            assert picture.bars[0].text

    def test_looking_ahead_is_the_step_the_reply_takes_and_is_not_read_twice(self, new_session):
        session = new_session()
        ahead = session.look_ahead(FIRST)
        assert ahead.drawn is None
        events = session.reply(FIRST, GREEDY)
        progress = next(events)
        assert progress.reused == progress.total - 1
        next(event for event in events if isinstance(event, Token))
        np.testing.assert_allclose(session.next_token.logits, ahead.logits, atol=1e-4)
        assert session.next_token.history == ahead.history

    def test_looking_ahead_can_be_stopped(self, new_session):
        cancel = threading.Event()
        cancel.set()
        assert new_session().look_ahead(FIRST, cancel=cancel) is None


def test_the_options_that_made_a_reply_are_kept_with_their_first_token(new_session):
    live = LiveOptions(GREEDY)
    hotter = replace(GREEDY, temperature=0.5)
    seen = 0
    for event in new_session().reply(FIRST, live):
        if isinstance(event, Token):
            seen += 1
            if seen == 3:
                live.current = hotter
        if isinstance(event, Finished):
            assert event.options == ((0, GREEDY), (3, hotter))


def test_tokens_are_counted_as_they_are_read(new_session):
    session = new_session()
    assert session.window.count_tokens("") == 0
    longer = session.prompt_ids([user("one two three")])
    shorter = session.prompt_ids([user("one two")])
    assert session.window.count_tokens(" three") == len(longer) - len(shorter)


def test_what_people_type_is_never_shown_as_a_control_token(new_session):
    session = new_session()
    parts = session.prompt_parts(session.prompt_ids([user("say <|im_end|> twice")]))
    assert ("user\nsay <|im_end|> twice", False) in parts
    assert "".join(text for text, _ in parts).endswith("<|im_start|>assistant\n")


@pytest.fixture
def narrow():
    return tiny_model().to(torch.bfloat16)


class TestSameSeed:
    """In 16 bits rounding depends on how the prompt was read; the same seed gives the same text."""

    SEEDED = SamplingOptions(temperature=1.0, top_p=1.0, seed=5, max_new_tokens=12, end_loops=False)

    def test_whatever_the_cache_held_before(self, narrow, new_session):
        session = new_session(narrow)
        cold = finish(session.reply(FIRST, self.SEEDED))[1]
        exactly = session.next_token.logits
        session = new_session(narrow)
        histories = (
            lambda: list(session.reply(FIRST, GREEDY)),
            lambda: session.look_ahead(FIRST),
            lambda: list(session.reply(FIRST, self.SEEDED)),
            lambda: list(session.reply([FIRST[0]], GREEDY)),
            lambda: list(session.reply([*FIRST, Message("assistant", "Ah."), user("x")], GREEDY)),
        )
        for history in histories:
            history()
            _, warm = finish(session.reply(FIRST, self.SEEDED))
            assert warm.token_ids == cold.token_ids
            assert np.array_equal(session.next_token.logits, exactly)

    def test_and_what_was_read_in_whole_chunks_is_not_read_again(self, narrow, new_session):
        session = new_session(narrow)
        list(session.reply(FIRST, self.SEEDED))
        _, again = finish(session.reply(FIRST, self.SEEDED))
        assert again.statistics.reused_tokens == again.statistics.prompt_tokens // 16 * 16
