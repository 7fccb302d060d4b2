"""Turns ids into text while they are generated; what was given out is never changed."""

import codecs
from collections.abc import Sequence

from engine.text.tokenizer import Tokenizer


class TextStream:
    """The text of a reply, piece by piece.

    A character is given out when all its bytes are there. Text that may become a stop text is held
    back, at most its length less one. The stop text that is complete first ends the reply (of two
    complete at once, the longer); neither it nor anything after it is given out.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop_texts: tuple[str, ...] = (),
        *,
        after: Sequence[int] = (),
    ) -> None:
        """`after` are the ids before: a character may have begun there."""
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token_id in after:
            self._decoder.decode(tokenizer.token_bytes(token_id))
        self._stop_texts = stop_texts
        self._longest = max(map(len, stop_texts), default=0)
        self._held = ""
        self.stopped = False

    def push(self, token_id: int) -> str:
        """The text that became certain with this token, often ""."""
        if self.stopped:
            return ""
        return self._settle(self._decoder.decode(self._tokenizer.token_bytes(token_id)))

    def finish(self, *, cut_off: bool = False) -> str:
        """What was still held back.

        An incomplete character becomes U+FFFD, or is left out of a reply that was `cut_off` and
        may go on.
        """
        if self.stopped:
            return ""
        text = "" if cut_off else self._settle(self._decoder.decode(b"", final=True))
        text, self._held = text + self._held, ""
        return text

    def _settle(self, new: str) -> str:
        text = self._held + new
        found = [
            (start + len(stop), start)
            for stop in self._stop_texts
            if (start := text.find(stop)) >= 0
        ]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)[1]]
        kept = len(text) - self._begun(text)
        self._held = text[kept:]
        return text[:kept]

    def _begun(self, text: str) -> int:
        """How many of the last characters may be the beginning of a stop text."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-length:]
            if any(len(stop) > length and stop.startswith(end) for stop in self._stop_texts):
                return length
        return 0
