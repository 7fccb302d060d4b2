"""Whatever a session was asked before, it answers as a new one does.

A tiny random model with the real tokenizer and chat template, in fp32, and a context so small that
turns are left out.
"""

from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from engine.events import Finished, PromptProgress, Token
from engine.files.weights import read_config
from engine.loading import load_text
from engine.messages import Message
from engine.model.llama import Llama
from engine.options import SamplingOptions
from engine.run.torch_runner import TorchRunner
from engine.session import Session

GREEDY = SamplingOptions(temperature=0, max_new_tokens=4, end_loops=False)
CONTEXT = 320
BUDGETS = [0, 2**16, 2**30]  # bytes: one branch, a few, all

Dialog = tuple[Message, ...]

words = st.integers(1, 60).flatmap(
    lambda count: st.sampled_from(["sea", "moon"]).map(lambda word: f"{word} " * count)
)
dialogs: Bundle[Dialog] = Bundle("dialogs")


class History(RuleBasedStateMachine):
    """Dialogs that grow, are changed, and are answered by one session."""

    def __init__(self, model: Llama, text: Any) -> None:
        super().__init__()
        self._model, self._text = model, text

    @initialize(budget=st.sampled_from(BUDGETS))
    def begin(self, budget: int) -> None:
        self._warm = self._session(budget)

    @rule(target=dialogs, said=words, system=st.sampled_from(["", "Be brief."]))
    def start(self, said: str, system: str) -> Dialog:
        first = (Message("system", system),) if system else ()
        return (*first, Message("user", said))

    @rule(target=dialogs, dialog=dialogs, said=words)
    def go_on(self, dialog: Dialog, said: str) -> Dialog:
        reply = self._same(dialog, GREEDY)
        return (*dialog, reply.message(), Message("user", said))

    @rule(dialog=dialogs, seed=st.integers(0, 3))
    def answer_again(self, dialog: Dialog, seed: int) -> None:
        self._same(dialog, replace(GREEDY, temperature=1.0, seed=seed))

    @rule(dialog=dialogs)
    def answer_in_two_parts(self, dialog: Dialog) -> None:
        begun = self._same(dialog, replace(GREEDY, max_new_tokens=2))
        self._same((*dialog, begun.message()), GREEDY)

    @rule(target=dialogs, dialog=dialogs, place=st.integers(0, 20), said=words)
    def edit(self, dialog: Dialog, place: int, said: str) -> Dialog:
        users = [index for index, message in enumerate(dialog) if message.role == "user"]
        return (*dialog[: users[place % len(users)]], Message("user", said))

    @rule(target=dialogs, dialog=dialogs, place=st.integers(0, 20))
    def delete_a_turn(self, dialog: Dialog, place: int) -> Dialog:
        users = [index for index, message in enumerate(dialog[:-1]) if message.role == "user"]
        if not users:
            return dialog
        start = users[place % len(users)]
        return (*dialog[:start], *dialog[start + 2 :])

    @rule(dialog=dialogs, events=st.integers(1, 6))
    def stop(self, dialog: Dialog, events: int) -> None:
        cancel = Event()
        for count, _ in enumerate(self._warm.reply(dialog, GREEDY, cancel=cancel), start=1):
            if count == events:
                cancel.set()

    @rule(dialog=dialogs, events=st.integers(1, 6))
    def abandon(self, dialog: Dialog, events: int) -> None:
        reply = self._warm.reply(dialog, GREEDY)
        for _ in range(events):
            next(reply, None)

    def _same(self, dialog: Dialog, options: SamplingOptions) -> Finished:
        warm, cold = (
            list(session.reply(dialog, options, top=20))
            for session in (self._warm, self._session(0))
        )
        assert isinstance(warm[-1], Finished)
        assert isinstance(cold[-1], Finished)
        assert warm[-1].token_ids == cold[-1].token_ids
        assert cold[0] == PromptProgress(0, cold[-1].statistics.prompt_tokens, 0)
        for one, other in zip(_logits(warm), _logits(cold), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4, rtol=0)
        return warm[-1]

    def _session(self, budget: int) -> Session:
        return Session(TorchRunner(self._model, chunk_size=16, budget=budget), *self._text)


def _logits(events: list[Any]) -> list[tuple[float, ...]]:
    return [event.top.logits for event in events if isinstance(event, Token)]


@pytest.fixture(scope="module")
def text(default_model_path: Any) -> Any:
    return load_text(default_model_path, read_config(default_model_path))


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


def test_random_histories(model: Llama, text: Any) -> None:
    run_state_machine_as_test(
        lambda: History(model, text),
        settings=settings(max_examples=12, stateful_step_count=12, deadline=None),
    )


class CountingRunner(TorchRunner):
    """Knows how many tokens it read."""

    count = 0

    def read(self, ids: Any, *, cancel: Event | None = None) -> np.ndarray:
        self.count += len(ids)
        return super().read(ids, cancel=cancel)

    def take_count(self) -> int:
        count, self.count = self.count, 0
        return count


@pytest.mark.parametrize("seed", [None, 1])
def test_going_back_to_a_dialog_after_an_edit_reads_only_what_is_new(
    model: Llama, text: Any, seed: int | None
) -> None:
    runner = CountingRunner(model, chunk_size=16)
    session = Session(runner, *text)
    first = [
        Message("user", "What is a tide? " * 3),
        Message("assistant", "Water that moves. " * 20),
        Message("user", "And why? " * 10),
    ]
    edited = [Message("user", "What is an eclipse? " * 3), *first[1:]]
    options = replace(GREEDY, seed=seed)
    for dialog in (first, edited):
        assert list(session.reply(dialog, options))
        assert runner.take_count() > 100
    for dialog in (first, edited, first):
        prompt = session.prompt_ids(dialog)
        *_, finished = session.reply(dialog, options)
        new = len(prompt) % 16 or 16 if seed is not None else 1
        assert finished.statistics.reused_tokens == len(prompt) - new
        assert runner.take_count() == new + GREEDY.max_new_tokens - 1
