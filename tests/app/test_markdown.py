"""Markdown on screen: whatever the pieces it comes in, the same document; nothing is ever lost."""

import string
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.ui.transcript.markdown import MarkdownStream, parse
from app.ui.transcript.markdown_view import MarkdownView

WHOLE = """The sky is **blue** because *air* scatters `short` waves.

## How it works

1. Sunlight holds *all* colours.
2. Air scatters blue:
   - at noon
   - in the evening

   and more

> a quote
> goes on

```python
def f(x):
    return 1 / x

print(f(2))
```

| colour | nm |
|---|---|
| blue | 450 |

---
<b>html</b> ![x](http://example.org/x.png) [words](http://example.org) ~~no~~
next line
```
an open fence
"""

MARKS = st.text(alphabet="*_`~#>-|[]()<>!1. \n\tab漢👋", max_size=120)


def document(view: MarkdownView) -> list:
    result = []
    block = view.document().begin()
    while block.isValid():
        form = block.blockFormat()
        runs = []
        place = block.begin()
        while not place.atEnd():
            fragment = place.fragment()
            style = fragment.charFormat()
            runs.append(
                (
                    fragment.text(),
                    style.fontWeight(),
                    style.fontItalic(),
                    style.fontStrikeOut(),
                    style.fontPointSize(),
                    style.background().color().name(),
                    style.foreground().color().name(),
                )
            )
            place += 1
        margins = (form.topMargin(), form.leftMargin(), form.rightMargin(), form.textIndent())
        result.append((margins, form.headingLevel(), runs))
        block = block.next()
    return result


@pytest.fixture(scope="module")
def views(qt_app):
    at_once, in_pieces = MarkdownView("a"), MarkdownView("b")
    yield at_once, in_pieces
    at_once.deleteLater()
    in_pieces.deleteLater()


def cut(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in pairwise(places)]


@settings(max_examples=300)
@given(text=st.one_of(st.just(WHOLE), MARKS), cuts=st.lists(st.integers(0, 2000), max_size=60))
@example(WHOLE, list(range(len(WHOLE))))
@example("a\n```\nb\n  c\n```", list(range(20)))
@example("> a\n\n1. b\n\nc", list(range(20)))
@example("1\n#111", list(range(20)))
@example("a\n\n1. b\n\n2. c\n\n3\n\nd", list(range(40)))
@example("- a\n\n- b\n\n  c\n\nd", list(range(40)))
def test_any_pieces_make_the_same_document(views, text, cuts):
    at_once, in_pieces = views
    at_once.set_text(text)
    in_pieces.set_text("")
    for piece in cut(text, cuts):
        in_pieces.append_text(piece)
        in_pieces.render_now()
    assert document(in_pieces) == document(at_once)
    assert in_pieces.source() == text


@given(text=MARKS)
def test_no_letter_is_lost(text):
    letters = [c for c in text if c in "ab漢👋"]
    shown = "".join(run.text for paragraph in parse(text) for run in paragraph.runs)
    for letter in set(letters) - set(string.whitespace):
        # What follows the marks of an open fence names its language and is not shown.
        if "```" not in text and "~~~" not in text:
            assert shown.count(letter) == letters.count(letter)


@pytest.mark.parametrize("text", ["> " * 30 + "deep", "- " * 30 + "deep", ">" * 5000 + "deep"])
def test_what_is_nested_too_deep_is_shown_as_it_was_written(text):
    assert "deep" in "".join(run.text for paragraph in parse(text) for run in paragraph.runs)


def test_nothing_that_came_before_the_last_block_changes():
    stream = MarkdownStream()
    firsts = [stream.append(piece)[0] for piece in ("one\n\n", "two\n\n", "thr", "ee\n\nfour")]
    assert firsts == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>x</b>", "<b>x</b>"),
        ("<img src='file:///etc/passwd'>", "<img src='file:///etc/passwd'>"),
        ("![x](http://a.b/c.png)", "!x (http://a.b/c.png)"),
        ("[x](javascript:alert)", "[x](javascript:alert)"),
        ("[safe](http://evil.example)", "safe (http://evil.example)"),
        ("&lt; &amp;", "&lt; &amp;"),
        ("[x]: http://a.b", "[x]: http://a.b"),
    ],
)
def test_text_stays_text(text, shown):
    assert "".join(run.text for paragraph in parse(text) for run in paragraph.runs) == shown
