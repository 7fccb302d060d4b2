"""A dialog that is too long: whole oldest turns are left out, and rarely others than before."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import PromptTooLongError
from engine.events import Finished, Token
from engine.files.weights import read_config
from engine.loading import load_text
from engine.messages import Message, Role
from engine.model.llama import Llama
from engine.options import SamplingOptions
from engine.run.torch_runner import TorchRunner
from engine.session import Session
from engine.text.context_window import ContextWindow, first_kept

CONTEXT = 400
LIMIT = CONTEXT - CONTEXT // 8
GREEDY = SamplingOptions(temperature=0, max_new_tokens=8, end_loops=False)
SYSTEM = Message("system", "Be brief.")


@pytest.fixture(scope="module")
def text(default_model_path: Any) -> Any:
    tokenizer, template = load_text(default_model_path, read_config(default_model_path))
    return template, tokenizer


@pytest.fixture
def window(text: Any) -> ContextWindow:
    return ContextWindow(*text, context_length=CONTEXT)


def user(content: str) -> Message:
    return Message("user", content)


def reply(content: str) -> Message:
    return Message("assistant", content)


def turns(count: int, words: int = 20) -> list[Message]:
    """Turns that can be told apart, each of two messages of about so many tokens."""
    return [
        message
        for number in range(count)
        for message in (user(f"{number} " + "sea " * words), reply("moon " * words))
    ]


def read(text: Any, kept: list[Message]) -> list[int]:
    """What is read for a dialog of which nothing is left out."""
    template, tokenizer = text
    return template.encode(kept, tokenizer)


class TestWhatIsKept:
    def test_all_of_it_as_long_as_it_fits(self, window: ContextWindow, text: Any) -> None:
        dialog = [SYSTEM, *turns(5), user("And?")]
        prompt = window.prompt(dialog)
        assert prompt.ids == read(text, dialog)
        assert prompt.left_out_messages == 0

    @pytest.mark.parametrize("system", [[], [SYSTEM]])
    def test_it_fits_to_the_last_token(
        self, window: ContextWindow, text: Any, system: list[Message]
    ) -> None:
        dialog = [*system, *turns(5), user("And?")]
        spare = LIMIT - len(window.prompt(dialog).ids)
        full = [*dialog[:-1], user("And?" + " sea" * spare)]
        assert len(window.prompt(full).ids) == LIMIT
        one_more = [*dialog[:-1], user("And?" + " sea" * (spare + 1))]
        assert window.prompt(one_more).left_out_messages > 0

    @pytest.mark.parametrize("system", [[], [SYSTEM]])
    def test_whole_turns_go_down_to_half(
        self, window: ContextWindow, text: Any, system: list[Message]
    ) -> None:
        frame = len(read(text, [*system, user("x")])) - 12  # 11 are around a turn
        half = (LIMIT - frame) // 2
        said, before, drops = turns(30), 0, 0
        for end in range(1, len(said), 2):
            dialog = said[:end]
            prompt = window.prompt([*system, *dialog])
            first = prompt.left_out_messages
            assert dialog[first].role == "user"
            assert prompt.ids == read(text, [*system, *dialog[first:]])
            if first > before:
                drops += 1
                assert len(prompt.ids) - frame <= half
                assert len(read(text, [*system, *dialog[first - 2 :]])) - frame > half
            before = first
        assert drops > 3

    def test_the_last_turn_stays_whatever_its_length(
        self, window: ContextWindow, text: Any
    ) -> None:
        long = user("sea " * (CONTEXT - 50))
        prompt = window.prompt([SYSTEM, *turns(5), long])
        assert prompt.ids == read(text, [SYSTEM, long])
        assert prompt.left_out_messages == 10

    def test_a_reply_that_goes_on_stays_with_its_question(
        self, window: ContextWindow, text: Any
    ) -> None:
        begun = replace(reply("moon"), token_ids=tuple(range(100, 350)))
        prompt = window.prompt([*turns(5), user("And?"), begun])
        assert prompt.ids == [*read(text, [user("And?")]), *range(100, 350)]
        assert prompt.begun == begun.token_ids
        assert prompt.left_out_messages == 10

    def test_a_turn_is_a_question_with_all_that_follows_it(self) -> None:
        roles: list[Role] = ["user", "assistant", "assistant", "user", "user", "assistant", "user"]
        dialog = [Message(role, "") for role in roles]
        costs = [10] * len(dialog)
        found = [first_kept(dialog, costs, room=room) for room in (70, 69, 59, 39, 0)]
        assert found == [0, 4, 4, 6, 6]

    def test_a_dialog_that_begins_with_a_reply(self) -> None:
        dialog = [reply(""), user(""), reply(""), user("")]
        assert first_kept(dialog, [10] * 4, room=39) == 3
        assert first_kept(dialog, [10] * 4, room=40) == 0

    def test_messages_of_megabytes_are_not_cut_into_tokens(
        self, window: ContextWindow, text: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, tokenizer = text
        encode, longest = tokenizer.encode, 0

        def watched(part: str) -> list[int]:
            nonlocal longest
            longest = max(longest, len(part))
            return encode(part)

        monkeypatch.setattr(tokenizer, "encode", watched)
        megabytes = "word " * 500_000
        assert window.prompt([user(megabytes), reply("Oh."), user("And?")]).left_out_messages == 2
        for dialog in ([user(megabytes)], [Message("system", megabytes), user("And?")]):
            with pytest.raises(PromptTooLongError, match="characters"):
                window.prompt(dialog)
        assert longest < 1000

    def test_each_message_is_counted_once(
        self, window: ContextWindow, text: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, tokenizer = text
        dialog = [*turns(8), user("And?")]
        window.prompt(dialog)
        encode, parts = tokenizer.encode, []
        monkeypatch.setattr(tokenizer, "encode", lambda part: parts.append(part) or encode(part))
        window.prompt([*dialog, reply("Because."), user("New?")])
        assert [part for part in parts if part in (user("New?").content, "Because.")]
        assert not [part for part in parts if part in {message.content for message in dialog}]


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.integers(1, 60)), max_size=60),
    st.integers(-5, 100),
)
def test_what_was_left_out_stays_left_out(said: list[tuple[Role, int]], room: int) -> None:
    messages = [Message(role, "") for role, _ in said]
    costs = [cost for _, cost in said]
    before = 0
    for end in range(1, len(said) + 1):
        first = first_kept(messages[:end], costs[:end], room=room)
        length = sum(costs[first:end])
        last = max((i for i in range(end) if messages[i].role == "user"), default=0)
        assert before <= first <= last
        assert length <= room or first == last
        if first > before:
            assert sum(costs[before:end]) > room, "nothing goes while all fits"
            assert length <= room // 2 or first == last
        before = first


def test_over_200_turns_the_beginning_changes_seldom_and_little_is_read_again(
    window: ContextWindow,
) -> None:
    dialog, held = [SYSTEM], [0]
    changes, total, newly_read = 0, 0, 0
    for number in range(200):
        dialog.append(user(f"{number} sea sea sea"))
        ids = window.prompt(dialog).ids
        assert len(ids) <= LIMIT
        shared = int(np.cumprod([a == b for a, b in zip(held, ids, strict=False)]).sum())
        changes += shared < len(held)
        newly_read += len(ids) - shared
        total += len(ids)
        held = ids
        dialog.append(reply("moon moon moon"))
    # A turn takes 17 tokens or 19, and there are about 170 for new ones until the next drop, which
    # has as many read again.
    assert 15 <= changes <= 25
    assert 200 * 17 < newly_read < 200 * 19 * 2.1
    assert newly_read < total / 6


@pytest.fixture(scope="module")
def model(tiny_models: Any) -> Llama:
    torch.manual_seed(5)
    config = tiny_models.tiny_config(
        vocab_size=49152,
        hidden_size=32,
        head_dim=8,
        max_position_embeddings=CONTEXT,
        initializer_range=0.3,
    )
    return Llama(config).eval().requires_grad_(False)


@pytest.fixture
def new_session(model: Llama, text: Any) -> Any:
    template, tokenizer = text
    return lambda: Session(TorchRunner(model, chunk_size=16), tokenizer, template)


def finish(session: Session, dialog: list[Message], options: SamplingOptions) -> Any:
    *events, finished = session.reply(dialog, options, top=20)
    assert isinstance(finished, Finished)
    return finished, [event.top.logits for event in events if isinstance(event, Token)]


class TestSession:
    @pytest.mark.parametrize("seed", [None, 7])
    def test_a_dialog_of_50_turns_is_answered_and_mostly_remembered(
        self, new_session: Any, seed: int | None
    ) -> None:
        session = new_session()
        options = replace(GREEDY, seed=seed)
        dialog, left_out, reused, total = [SYSTEM], [], 0, 0
        for number in range(50):
            dialog.append(user(f"{number} " + "sea " * (number * 7 % 40)))
            finished, _ = finish(session, dialog, options)
            dialog.append(finished.message())
            left_out.append(finished.statistics.left_out_messages)
            reused += finished.statistics.reused_tokens
            total += finished.statistics.prompt_tokens
        assert left_out == sorted(left_out)
        assert 3 < len(set(left_out)) < 20
        assert reused > total * 0.6

    @pytest.mark.parametrize("seed", [None, 7])
    def test_warm_is_cold_after_turns_were_left_out(
        self, new_session: Any, seed: int | None
    ) -> None:
        warm = new_session()
        options = replace(GREEDY, temperature=1.0 if seed else 0, seed=seed)
        dialog = turns(5)
        for number in range(5):
            dialog.append(user(f"{number} " + "sea " * 20))
            found, found_logits = finish(warm, dialog, options)
            wanted, wanted_logits = finish(new_session(), dialog, options)
            assert found.token_ids == wanted.token_ids
            np.testing.assert_allclose(found_logits, wanted_logits, atol=1e-4, rtol=0)
            dialog.append(found.message())
        assert found.statistics.left_out_messages > 0

    def test_the_prompt_is_what_is_read(self, new_session: Any) -> None:
        session = new_session()
        dialog = [SYSTEM, *turns(9), user("And?")]
        ids = session.prompt_ids(dialog)
        finished, _ = finish(session, dialog, GREEDY)
        assert session._runner.ids == [*ids, *finished.token_ids[:-1]]
        assert finished.statistics.prompt_tokens == len(ids)
        left_out = finished.statistics.left_out_messages
        assert left_out > 0
        assert ids == session.prompt_ids([SYSTEM, *dialog[1 + left_out :]])

    def test_there_is_room_for_a_reply_that_then_ends_as_context_full(
        self, new_session: Any
    ) -> None:
        dialog = [*turns(5), user("And?")]
        finished, _ = finish(new_session(), dialog, replace(GREEDY, max_new_tokens=None))
        assert finished.reason == "context_full"
        assert len(finished.token_ids) >= CONTEXT // 8

    def test_a_reply_that_filled_the_context_goes_on_once_older_turns_are_gone(
        self, new_session: Any
    ) -> None:
        session, options = new_session(), replace(GREEDY, max_new_tokens=None)
        dialog = [*turns(5), user("And?")]
        begun, _ = finish(session, dialog, options)
        finished, _ = finish(session, [*dialog, begun.message()], options)
        assert finished.statistics.left_out_messages > 0
        assert finished.token_ids
        full = Message("assistant", "", tuple(range(100, 100 + CONTEXT)))
        with pytest.raises(PromptTooLongError, match=r"^This reply .* new message\.$"):
            session.reply([*dialog, full], options)
