"""The figures of a run as a table for people."""

from collections.abc import Iterator, Mapping
from typing import Any

_TITLES = {
    "decode_tok_s": "decode, tok/s, at a context of",
    "decode_balanced_tok_s": "the same, Balanced preset",
    "prefill_tok_s": "prefill, tok/s, of a prompt of",
    "ttft_ms": "first token, ms, in turn",
    "load_s": "load, s",
    "rss_mb": "resident memory, MB",
    "quality": "against fp32",
}
_TITLE_WIDTH = 32


def as_table(report: Mapping[str, Any]) -> str:
    """A line for each figure; a group of figures has their names above them."""
    lines: list[str] = []
    for key, value in report.items():
        title = _TITLES.get(key, key)
        if not isinstance(value, Mapping):
            lines.append(f"{title:{_TITLE_WIDTH}}{_shown(value)}")
        elif key == "quality":  # a group of groups
            lines += ["", *_group(title, value)]
        else:
            lines += ["", *_group(title, {"": value})]
    return "\n".join(lines)


def _group(title: str, rows: Mapping[str, Mapping[Any, Any]]) -> Iterator[str]:
    names = [_shown(name) for name in next(iter(rows.values()))]
    widths = [max(10, len(name) + 2) for name in names]
    for label, cells in [(title, names), *((label, row.values()) for label, row in rows.items())]:
        texts = zip(map(_shown, cells), widths, strict=True)
        yield f"{label:{_TITLE_WIDTH}}" + "".join(f"{text:>{width}}" for text, width in texts)


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
