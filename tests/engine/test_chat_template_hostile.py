"""Templates that are broken or hostile: refused in about a second, with bounded memory."""

import sys
import threading
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import TemplateError
from engine.messages import Message
from engine.text import template_sandbox
from engine.text.chat_template import CHATML, MAX_SOURCE_LENGTH, ChatTemplate

SHOWN = "{% for m in messages %}{{ m.content }}{% endfor %}"
LONG_TEXT = "{% set s = 'x' * 200000 %}"
LONG_LIST = "{% set l = [1] * 50000 %}"


def growing(step: str, *, start: str = "'a'", end: str = "") -> str:
    """A template that makes a value larger 99 times."""
    loop = "{% for i in range(99) %}" + step + "{% endfor %}"
    return "{% set ns = namespace(x=" + start + ") %}" + loop + end


def nested(levels: int, body: str) -> str:
    return "{% for i in range(100000) %}" * levels + body + "{% endfor %}" * levels


BOMBS = {
    "text times number": "{{ 'a' * 10**10 }}",
    "number times text": "{% set x = 10**10 * 'a' %}",
    "list times number": "{{ [0] * 10**10 }}",
    "power": "{{ 10 ** (10 ** 10) }}",
    "squares": growing("{% set ns.x = ns.x * ns.x %}", start="9"),
    "range": "{{ range(10**9) }}",
    "center": "{{ 'a'.center(10**10) }}",
    "ljust": "{{ 'a'.ljust(10**10) }}",
    "zfill": "{{ 'a'.zfill(10**10) }}",
    "expandtabs": "{{ '\\t'.expandtabs(10**10) }}",
    "method by item": "{{ 'a'['ljust'](10**10) }}",
    "center filter": "{{ 'a'|center(10**10) }}",
    "indent filter": "{{ 'a'|indent(10**10) }}",
    "format filter": "{{ '%9999999999d'|format(1) }}",
    "mapped filter": "{{ ['a']|map('center', 10**10)|list }}",
    "percent": "{{ '%9999999999d' % 1 }}",
    "str.format": "{{ '{:>9999999999}'.format(1) }}",
    "str.format_map": "{{ '{a:>9999999999}'.format_map({'a': 1}) }}",
    "to_bytes": "{{ (1).to_bytes(10**10, 'big') }}",
    "batch": "{{ [1]|batch(10**9, 1)|list }}",
    "slice": "{{ [1]|slice(10**9)|list }}",
    "round": "{{ 1|round(10**9, 'ceil') }}",
    "lipsum": "{{ lipsum(n=10**6) }}",
    "tojson": "{{ [[1]]|tojson(indent=10**9) }}",
    "date of any width": "{{ strftime_now('%999999999d') }}",
    "doubling with ~": growing("{% set ns.x = ns.x ~ ns.x %}"),
    "doubling with +": growing("{% set ns.x = ns.x + ns.x %}"),
    "doubling by capture": growing("{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}"),
    "shared lists": growing("{% set ns.x = [ns.x, ns.x] %}", end="{{ ns.x }}"),
    "shared tuples": growing("{% set ns.x = (ns.x, ns.x) %}", end="{{ ns.x == ns.x }}"),
    "shared dicts": growing("{% set ns.x = dict(a=ns.x, b=ns.x) %}", end="{{ ns.x|tojson }}"),
    "shared namespaces": growing(
        "{% set ns.x = namespace(a=ns.x, b=ns.x) %}", end="{{ ns.x ~ '' }}"
    ),
    "replace": LONG_TEXT + "{{ s.replace('x', s) }}",
    "replace nothing": LONG_TEXT + "{{ s.replace('', s) }}",
    "replace filter": LONG_TEXT + "{{ s|replace('x', s) }}",
    "replace, mapped": LONG_TEXT + "{{ [s]|map('replace', 'x', s)|list }}",
    "join": LONG_TEXT + "{{ s.join(s) }}",
    "join, kept for later": LONG_TEXT + "{% set j = s.join %}{{ j(s) }}",
    "join filter": LONG_TEXT + "{{ range(9999)|join(s) }}",
    "many texts": LONG_TEXT + "".join(f"{{% set s{i} = s ~ {i} %}}" for i in range(200)),
    "many lists": LONG_LIST + "".join(f"{{% set l{i} = l + l %}}" for i in range(200)),
    "many slices": LONG_LIST + "".join(f"{{% set l{i} = l[1:] %}}" for i in range(200)),
    "constant text": nested(2, "x" * 10_000),
    "captured text": "{% set y %}" + nested(2, "x" * 10_000) + "{% endset %}",
    "loops that do nothing": nested(4, ""),
    "loops that only assign": nested(3, "{% set x = 1 %}"),
    "macros": "{% macro f(n) %}{{ f(n-1) ~ f(n-1) if n }}{% endmacro %}{{ f(50) }}",
    "recursive loop": "{% for a in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "block": "{% block b %}{{ self.b() }}{% endblock %}",
    "sorting": LONG_LIST + nested(1, "{% set x = l|reverse|sort %}"),
    "comparing": LONG_LIST + "{% set m = [1] * 50000 %}" + nested(1, "{% if l == m %}{% endif %}"),
    "brackets": "{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}",
    "signs": "{{ " + "-" * 20_000 + "1 }}",
    "sum": "{{ 1" + "+1" * 2_000 + " }}",
    "ifs": "{% if 1 %}" * 2000 + "{% endif %}" * 2000,
    "nested loops": "{% for i in [1] %}" * 60 + "{% endfor %}" * 60,
    "chain of filters": "{{ range(100000)" + "|map('string')" * 2000 + "|list }}",
    "length": "x" * MAX_SOURCE_LENGTH,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_defused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # tracing memory makes everything several times slower
    monkeypatch.setattr(template_sandbox, "MAX_SECONDS", 0.1)
    started = time.thread_time()
    tracemalloc.start()
    try:
        with pytest.raises(TemplateError) as caught:
            ChatTemplate(BOMBS[name] + SHOWN)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 500
    assert peak < 200 * 2**20
    assert time.thread_time() - started < 4


@pytest.mark.parametrize("name", ["loops that do nothing", "comparing"])
def test_a_slow_template_is_stopped_in_about_a_second(name: str) -> None:
    started = time.thread_time()
    with pytest.raises(TemplateError, match="takes too long"):
        ChatTemplate(BOMBS[name] + SHOWN)
    assert time.thread_time() - started < 1.5


def test_a_tracer_is_left_alone() -> None:
    seen = []

    def tracer(*args: object) -> None:
        seen.append(args)

    previous = sys.gettrace()
    sys.settrace(tracer)
    try:
        ChatTemplate(SHOWN).render([Message("user", "a")])
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(previous)
    assert seen


@pytest.mark.parametrize(
    "source",
    [
        "{{ a['foo'(",
        "{# never ends",
        "{% if %}",
        "{% endfor %}",
        "{% for m in messages %}",
        "{% nonsense %}",
        "{{ 1|nonsense }}",
        "{{ nonsense() }}",
        "{{ nonsense.attribute }}",
        "{{ 1 / 0 }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages[0]['nonsense']['x'] }}",
        "{% for a, b in messages[0].content %}{% endfor %}",
        "{{ 'a'.join() }}",
        "{{ 'a'.replace() }}",
        "{{ {}|tojson(nonsense=1) }}",
    ],
)
def test_a_broken_template_is_refused_when_it_is_made(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        ChatTemplate(SHOWN + source)
    assert "chat template does not work" in caught.value.what
    assert caught.value.remedy


@pytest.mark.parametrize("source", ["", "hello", "{{ messages|length }}"])
def test_a_template_that_leaves_out_the_user_is_refused(source: str) -> None:
    with pytest.raises(TemplateError, match="leaves out what the user says"):
        ChatTemplate(source)


@pytest.mark.parametrize(
    "expression",
    [
        "''.__class__.__mro__",
        "''['__class__']['__mro__']",
        "['']|map(attribute='__class__')|map(attribute='__mro__')|list",
        "raise_exception.__globals__['__builtins__']",
        "range.__init__.__globals__['x']",
        "namespace.__init__.__globals__",
        "dict.__subclasses__()",
        "dict.mro()",
        "self.__init__.__globals__",
        "self._TemplateReference__context.environment",
        "cycler.__init__.__globals__",
        "''|attr('__class__')|string",
        "messages.append(1)",
        "messages[0].update(content='x')",
        "messages[0].clear()",
        "messages.__class__.__base__.__subclasses__()",
        "caller.__globals__.os",
    ],
)
def test_a_template_reaches_nothing_of_python(expression: str) -> None:
    with pytest.raises(TemplateError):
        ChatTemplate(SHOWN + "{{ " + expression + " }}")


@pytest.mark.parametrize(
    "statement",
    ["{% include '/etc/passwd' %}", "{% import 'os' as os %}", "{% extends '../secret' %}"],
)
def test_a_template_reads_no_files(statement: str) -> None:
    with pytest.raises(TemplateError):
        ChatTemplate(statement + SHOWN)


def test_checks_change_nothing_that_a_good_template_does() -> None:
    source = (
        "{% set ns = namespace(n=0, names=[]) %}"
        "{% for m in messages if m.role != 'system' %}"
        "{% set ns.n = ns.n + 1 %}{% set ns.names = ns.names + [m.role|capitalize] %}"
        "{% if ns.n > 3 %}{% break %}{% endif %}{{ loop.index }}/{{ loop.length }} "
        "{{ m.content }}{{ ', ' if not loop.last }}{% endfor %} "
        "{% macro shout(x, mark='!') %}{{ x|upper ~ mark * 3 }}{% endmacro %}{{ shout('hi') }} "
        "{{ ns.names|unique|join('+') }} {{ 'a-b-c'.split('-')[1:]|join }} "
        "{{ {'b': [1, 2.5, none], 'ä': true}|tojson }} {{ {'k': 'v'}.items()|list }} "
        "{{ messages|selectattr('role', 'equalto', 'user')|list|length }} "
        "{{ [3, 1, 2]|sort|reverse|list }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 2 ** 3 }} {{ -1 }} "
        "{% for k, v in {'x': 1}|dictsort %}{{ k }}{{ v }}{% endfor %} "
        "{{ (1, 2) }} {{ 'a' is string and nothing is not defined }} {{ nothing|default('d') }} "
        "{{ ' x '.strip() ~ 'abc'.replace('b', 'B') ~ 'x|y'|replace('|', '') }}"
    )
    dialog = [Message("system", "s"), Message("user", "one"), Message("assistant", "two")]
    assert ChatTemplate(source).render(dialog) == (
        "1/2 one, 2/2 two HI!!! User+Assistant bc "
        "{\"b\": [1, 2.5, null], \"ä\": true} [('k', 'v')] 1 [3, 2, 1] 3 3 8 -1 "
        "x1 (1, 2) True d xaBcxy"
    )


def test_a_template_refused_once_still_works_for_other_dialogs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(template_sandbox, "MAX_SECONDS", 0.2)
    source = SHOWN + "{% if messages|length > 3 %}" + nested(4, "") + "{% endif %}"
    template = ChatTemplate(source)
    with pytest.raises(TemplateError, match="takes too long"):
        template.render([Message("user", "a")] * 4)
    assert template.render([Message("user", "a")]) == "a"


def test_threads_share_a_template() -> None:
    template, results = ChatTemplate(CHATML), list[str]()

    def render(letter: str) -> None:
        for _ in range(20):
            results.append(template.render([Message("user", letter * 5)]))

    threads = [threading.Thread(target=render, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {template.render([Message("user", letter * 5)]) for letter in "abcd"}
    assert len(results) == 80
    assert set(results) == expected


FRAGMENTS = st.lists(
    st.sampled_from(
        [
            *("{{", "}}", "{%", "%}", "{#", "#}", "-", "|", ".", "(", ")", "[", "]", "'", '"', "~"),
            *(" for ", " in ", " if ", " else ", " endif ", " endfor ", " set ", " macro ", "="),
            *("messages", "m", "loop", "content", "range", "9", "*", "**", "join", "raw", "call"),
            *(SHOWN, "\n", "\x00", "\ud800", "é", "filter ", "block ", "self", "recursive"),
        ]
    ),
    max_size=14,
).map("".join)


@given(source=FRAGMENTS)
@settings(deadline=None, max_examples=300)
def test_any_source_gives_a_template_or_the_typed_error(source: str) -> None:
    try:
        template = ChatTemplate(source)
    except TemplateError:
        return
    assert "probe" in template.render([Message("user", "probe")])
