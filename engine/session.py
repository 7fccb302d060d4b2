"""One conversation with the model: what was read stays read, a reply is a generator of events."""

from collections.abc import Generator, Iterator, Sequence
from threading import Event as CancelEvent

import numpy as np

from engine.errors import DeviceError, PromptTooLongError
from engine.events import (
    Event,
    Finished,
    FinishReason,
    PromptProgress,
    Token,
    TopLogits,
)
from engine.loops import is_looping
from engine.messages import Message
from engine.options import LiveOptions, SamplingOptions
from engine.prompt_lookup import reader_for
from engine.reply_run import ReplyRun
from engine.run.runner import Runner, Stopped
from engine.sampling import NonFiniteLogitsError, new_rng, sample, top_logits
from engine.scope import LONGEST_HISTORY, NextToken
from engine.text.chat_template import ChatTemplate
from engine.text.context_window import ContextWindow, Prompt
from engine.text.stream import TextStream
from engine.text.tokenizer import Tokenizer

_CUT_OFF: tuple[FinishReason, ...] = ("stopped", "length", "context_full")  # it may go on
_END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|im_start|>")


class Session:
    """Replies to dialogs, reading only what differs from the dialog before.

    Not for use by two threads at once, but for its `window`. A reply that is not consumed to its
    end leaves the session ready for the next one.
    """

    def __init__(
        self,
        runner: Runner,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        *,
        eos_token_ids: Sequence[int] = (),
    ) -> None:
        self._runner = runner
        self._tokenizer = tokenizer
        self.window = ContextWindow(template, tokenizer, context_length=runner.max_positions)
        named = (tokenizer.id_of(name) for name in _END_TOKENS)
        self._step: tuple[np.ndarray, list[int], int, int] | None = None
        self._ends = frozenset(eos_token_ids) | {id_ for id_ in named if id_ is not None}

    @property
    def runner(self) -> Runner:
        """What drives the model for this session; for measuring, while no reply is under way."""
        return self._runner

    @property
    def context_length(self) -> int:
        """How many tokens the model can remember."""
        return self._runner.max_positions

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """What the model reads for a dialog, up to where its reply begins.

        A dialog that ends with a reply is read up to where that reply would go on; of one that is
        too long, the oldest turns are left out. Raises TemplateError, and PromptTooLongError for
        more than could ever fit.
        """
        return self.window.prompt(messages).ids

    def prompt_parts(self, prompt_ids: Sequence[int]) -> list[tuple[str, bool]]:
        """A prompt for people to read: stretches of text, and whether each is a control token."""
        parts: list[tuple[str, bool]] = []
        plain: list[int] = []
        for token_id in prompt_ids:
            if token_id not in self._tokenizer.control_ids:
                plain.append(token_id)
                continue
            parts += [(self._tokenizer.decode(plain), False)] if plain else []
            parts.append((self._tokenizer.token_text(token_id), True))
            plain.clear()
        return [*parts, (self._tokenizer.decode(plain), False)] if plain else parts

    def reply(
        self,
        messages: Sequence[Message],
        options: SamplingOptions | LiveOptions | None = None,
        *,
        cancel: CancelEvent | None = None,
        top: int = 0,
    ) -> Iterator[Event]:
        """Answer a dialog, or go on with the reply it ends with; see `complete`.

        The events of a reply that goes on are about its new part only. Raises TemplateError for a
        dialog it cannot take.
        """
        prompt = self.window.prompt(messages)
        if prompt.begun and len(prompt.ids) >= self.context_length:
            raise PromptTooLongError(
                f"This reply and its question are {len(prompt.ids):,} tokens long, and the model "
                f"can remember {self.context_length:,}.",
                "Ask for the rest in a new message.",
            )
        return self._start(prompt, options, cancel, top)

    def complete(
        self,
        prompt_ids: Sequence[int],
        options: SamplingOptions | LiveOptions | None = None,
        *,
        cancel: CancelEvent | None = None,
        top: int = 0,
    ) -> Iterator[Event]:
        """Continue `prompt_ids`: PromptProgress events, then Tokens, then one Finished.

        LiveOptions are read anew for every token; seed and stop texts are fixed at the start.
        `cancel` ends the reply within one token. `top` asks for that many raw logits a token.
        Raises PromptTooLongError or, for ids that do not exist, ValueError before anything is read.
        """
        return self._start(Prompt(list(prompt_ids), (), 0), options, cancel, top)

    @property
    def next_token(self) -> NextToken | None:
        """The step that made the newest token of the reply under way, or of the last one."""
        if self._step is None:
            return None
        logits, context, length, drawn = self._step
        history = tuple(context[max(0, length - LONGEST_HISTORY) : length])
        return NextToken(logits, history, self._tokenizer.token_text, drawn)

    def look_ahead(
        self, messages: Sequence[Message], *, cancel: CancelEvent | None = None
    ) -> NextToken | None:
        """The step that would come next in a dialog; None if `cancel` was set before.

        What is read for it need not be read again by the reply. Raises TemplateError,
        PromptTooLongError, DeviceError.
        """
        prompt_ids = self.prompt_ids(messages)
        self._check(prompt_ids)
        run = ReplyRun(prompt_ids, cancel=cancel or CancelEvent())
        try:
            logits = _result(self._read_prompt(run))
        except Stopped:
            return None
        history = tuple(prompt_ids[-LONGEST_HISTORY:])
        return NextToken(logits, history, self._tokenizer.token_text)

    def next_logits(self, prompt_ids: Sequence[int], *, top: int) -> TopLogits:
        """The `top` largest raw logits for the token after `prompt_ids`.

        Raises PromptTooLongError.
        """
        self._check(prompt_ids)
        return top_logits(_result(self._read_prompt(ReplyRun(list(prompt_ids)))), top)

    def _start(
        self,
        prompt: Prompt,
        options: SamplingOptions | LiveOptions | None,
        cancel: CancelEvent | None,
        top: int,
    ) -> Iterator[Event]:
        self._check(prompt.ids)
        live = (
            options
            if isinstance(options, LiveOptions)
            else LiveOptions(options or SamplingOptions())
        )
        left_out = prompt.left_out_messages
        run = ReplyRun(prompt.ids, live, cancel or CancelEvent(), top, left_out)
        stop_texts = run.options.current.stop_texts
        return self._events(run, TextStream(self._tokenizer, stop_texts, after=prompt.begun))

    def _check(self, prompt_ids: Sequence[int]) -> None:
        if not prompt_ids:
            raise ValueError("the prompt holds no tokens")
        if min(prompt_ids) < 0 or max(prompt_ids) >= self._runner.vocab_size:
            raise ValueError(f"token ids go from 0 to {self._runner.vocab_size - 1}")
        if len(prompt_ids) >= self.context_length:
            raise PromptTooLongError(
                f"This is {len(prompt_ids):,} tokens long, and the model can remember "
                f"{self.context_length:,}.",
                "Send a shorter one.",
            )

    def _events(self, run: ReplyRun, stream: TextStream) -> Iterator[Event]:
        try:
            logits = yield from self._read_prompt(run)
            reason = yield from self._write(run, stream, logits)
        except Stopped:
            reason = "stopped"
        except (NonFiniteLogitsError, DeviceError) as error:
            if not run.ids and isinstance(error, DeviceError):
                raise  # nothing was said yet, so nothing has to be kept
            reason = "error"
            run.error = (
                str(error)
                if isinstance(error, DeviceError)
                else "The model's numbers broke down, so this reply ends here. "
                "Try again, or choose another precision."
            )
        tail = stream.finish(cut_off=reason in _CUT_OFF)
        run.pieces.append(tail)
        yield Finished(
            reason=reason,
            text="".join(run.pieces),
            tail=tail,
            token_ids=tuple(run.ids),
            end_id=run.end_id,
            seed=run.seed,
            statistics=run.statistics(),
            error=run.error,
            options=tuple(run.made_with),
        )

    def _read_prompt(self, run: ReplyRun) -> Generator[Event, None, np.ndarray]:
        """Bring the cache to hold exactly the prompt; returns the logits after it."""
        # The last token is read in any case: its logits are not kept. The same seed is to give the
        # same text, whatever was read before.
        seeded = run.options.current.seed is not None
        run.reused = self._runner.recall(run.prompt_ids[:-1], whole_chunks=seeded)
        return (yield from self._read_rest(run, run.prompt_ids))

    def _read_rest(self, run: ReplyRun, ids: Sequence[int]) -> Generator[Event, None, np.ndarray]:
        """Read those of `ids` that the cache does not hold yet; returns the logits after them."""
        done, total, size = len(self._runner.ids), len(ids), self._runner.chunk_size
        yield PromptProgress(done, total, run.reused)
        while True:
            chunk = ids[done : done + size]
            logits = self._runner.read(chunk, cancel=run.cancel)
            done += len(chunk)
            yield PromptProgress(done, total, run.reused)
            if done == total:
                return logits

    def _write(
        self, run: ReplyRun, stream: TextStream, logits: np.ndarray
    ) -> Generator[Event, None, FinishReason]:
        """Sample, show, step, until there is a reason to end; returns it."""
        rng = new_rng(run.seed)
        ahead = reader_for(self._runner)
        while True:
            if run.cancel.is_set():
                return "stopped"
            options = run.options.current
            try:
                token_id = sample(logits, run.context, options, rng)
            except NonFiniteLogitsError:
                if not self._runner.widen():
                    raise
                logits = _result(self._read_rest(run, run.context))
                token_id = sample(logits, run.context, options, rng)
            run.count_token(options)
            self._step = (logits, run.context, len(run.context), token_id)
            if token_id in self._ends:
                run.end_id = token_id
                return "end_of_turn"
            piece = stream.push(token_id)
            run.add(token_id, piece)
            yield Token(token_id, piece, top_logits(logits, run.top) if run.top else None)
            if stream.stopped:
                return "stop_text"
            options = run.options.current  # they may have changed while the token was shown
            if options.max_new_tokens is not None and len(run.ids) >= options.max_new_tokens:
                return "length"
            if options.end_loops and is_looping(run.ids):
                return "loop"
            if len(run.context) >= self.context_length:
                return "context_full"
            logits = ahead.read(run.context, cancel=run.cancel)


def _result(reading: Generator[Event, None, np.ndarray]) -> np.ndarray:
    """What a reading returns, without its progress."""
    while True:
        try:
            next(reading)
        except StopIteration as end:
            logits: np.ndarray = end.value
            return logits
