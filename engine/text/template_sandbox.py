"""Runs a chat template, which is a program in a file that someone else made.

On top of jinja2's sandbox, which keeps a template away from Python: bounds on the time it takes,
on every value it makes, on all of them together and on its output. Every step that could repeat
or grow is watched: loops and calls, operators, filters and literals. Each of them is checked
before it can need more memory than the bounds allow; so no other thread or process is needed.
"""

import datetime
import functools
import json
import re
import time
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import islice
from types import FunctionType
from typing import Any, NoReturn

from jinja2 import Template, nodes, pass_context, pass_environment
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from engine.errors import TemplateError

MAX_SECONDS = 1.0
"""Processor time one rendering may take."""

MAX_SIZE = 250_000
"""Characters and items one value, or the output, may have beyond four times the dialog's."""

MAX_SIZES_TOGETHER = 100
"""All values made during one rendering may have this many times the size of one."""

MAX_INTEGER_BITS = 4_096

# fmt: off
_FILTERS = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items",
    "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse",
    "select", "selectattr", "sort", "string", "title", "trim", "unique", "upper",
)
_STR_METHODS = (
    "capitalize", "count", "endswith", "find", "index", "isalnum", "isalpha", "isdigit", "islower",
    "isspace", "isupper", "join", "lower", "lstrip", "partition", "removeprefix", "removesuffix",
    "replace", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "split", "splitlines",
    "startswith", "strip", "title", "upper",
)
# fmt: on
_METHODS: tuple[tuple[tuple[type, ...], tuple[str, ...]], ...] = (
    ((str,), _STR_METHODS),
    ((dict,), ("get", "items", "keys", "values")),
    ((list, tuple), ("count", "index")),
    ((int, float, bytes, range, type, FunctionType), ()),
)

# Names that a template cannot write, for the checks that are put into its code.
_MADE, _PRINTABLE, _STEP = "(made)", "(printable)", "(step)"


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """A jinja2 environment for one template; one rendering at a time."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # nothing is computed before a rendering begins
            extensions=["jinja2.ext.loopcontrols"],
            finalize=pass_context(lambda _context, value: self._emit(value)),
        )
        checked = {name: FILTERS[name] for name in _FILTERS}
        checked |= {"join": _join, "replace": _replace, "safe": str, "tojson": _tojson}
        self.filters = {name: self._checked(function) for name, function in checked.items()}
        self.filters |= {_MADE: self._made, _PRINTABLE: self._printable, _STEP: self._step}
        self.globals = {
            "dict": _new_dict,
            "namespace": _new_namespace,
            "raise_exception": _raise_exception,
            "range": safe_range,
            "strftime_now": _strftime_now,
        }
        self.begin(0)

    def begin(self, dialog_size: int) -> None:
        """Start counting for one rendering of a dialog of this many characters."""
        self._size = MAX_SIZE + 4 * dialog_size
        self._sizes_left = self._size * MAX_SIZES_TOGETHER
        self._output_left = self._size
        self._deadline = time.thread_time() + MAX_SECONDS

    def compile_template(self, source: str) -> Template:
        """The template with the checks in its code. Raises what jinja2 and Python raise."""
        tree = _Watched().visit(self.parse(source))
        tree.set_environment(self)
        return self.template_class.from_code(self, self.compile(tree), dict(self.globals))

    def require_size(self, size: int) -> None:
        """Refuse a value of this size, best before it is made."""
        if size > self._size:
            _refuse("it makes a value that is far too large")

    def joinable(self, separator: str, items: Iterable[Any]) -> list[Any]:
        """The items as a list, if joining them makes a text of a size that is allowed."""
        listed = list(islice(items, self._size + 1))
        self.require_size(self._measure(listed) + len(separator) * len(listed))
        return listed

    def require_replaceable(self, text: str, old: Any, new: Any) -> None:
        """Refuse a replacement that makes a text of a size that is not allowed."""
        if isinstance(old, str) and isinstance(new, str):
            self.require_size(len(text) + text.count(old) * len(new))

    def call(  # jinja2's own parameter names would collide with a template's keywords
        __self,  # noqa: N805
        __context: Context,
        __obj: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Call a method, macro, loop or global function."""
        __self._step(None)
        owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if isinstance(owner, str) and name == "join" and args:
            args = (__self.joinable(owner, args[0]),)
        elif isinstance(owner, str) and name == "replace" and len(args) > 1:
            __self.require_replaceable(owner, *args[:2])
        return __self._made(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Apply an arithmetic operator."""
        self._step(None)
        if operator == "%" and isinstance(left, str):
            _refuse("it formats text with %")
        if operator == "*":
            for sequence, count in ((left, right), (right, left)):
                if isinstance(sequence, str | list | tuple) and isinstance(count, int):
                    self.require_size(len(sequence) * count)
        if operator == "**" and isinstance(left, int) and isinstance(right, int):
            self._require_bits(left.bit_length() * abs(right))
        return self._made(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Only methods that are known to be harmless."""
        for kinds, allowed in _METHODS:
            if isinstance(obj, kinds):
                return attr in allowed
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """No `str.format`: its widths are a way to make text of any size."""

    def _checked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter with its arguments and its result checked."""
        takes_context = hasattr(function, "jinja_pass_arg")

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for value in (*args[takes_context:], *kwargs.values()):
                self._printable(value)
            return self._made(function(*args, **kwargs))

        return checked

    def _step(self, value: Any) -> Any:
        if time.thread_time() > self._deadline:
            _refuse("it takes too long")
        return value

    def _made(self, value: Any) -> Any:
        """Check a value that the template just made; lazy ones become lists."""
        self._step(None)
        if isinstance(value, str):
            self.require_size(len(value))
            self._sizes_left -= len(value)
        elif isinstance(value, int):
            self._require_bits(value.bit_length())
        elif isinstance(value, list | tuple | dict):
            self.require_size(self._measure(value))
            self._sizes_left -= len(value)
        elif isinstance(value, Iterator) and not isinstance(value, LoopContext):
            return self._made(list(islice(value, self._size + 1)))
        self._sizes_left -= 1
        if self._sizes_left < 0:
            _refuse("it makes too many values")
        return value

    def _printable(self, value: Any) -> Any:
        """Check a value that may be written out as text."""
        self._step(None)
        self.require_size(self._measure(value))
        return value

    def _measure(self, value: Any) -> int:
        """Characters and items in a value, shared ones counted as often as they are met."""
        size, waiting = 0, [value]
        while waiting and size <= self._size:
            item = waiting.pop()
            size += 1
            if isinstance(item, str | range):
                size += len(item)
            elif isinstance(item, Mapping):
                waiting += (*item.keys(), *item.values())
            elif isinstance(item, list | tuple | KeysView | ValuesView | ItemsView):
                waiting += item
            elif not (item is None or isinstance(item, int | float | Undefined)):
                _refuse("it uses something as text that is not text")
        return size

    def _require_bits(self, bits: int) -> None:
        if bits > MAX_INTEGER_BITS:
            _refuse("it makes a number that is far too large")

    def _emit(self, value: Any) -> str:
        text = str(self._printable(value))
        self._output_left -= len(text)
        if self._output_left < 0:
            _refuse("its output is far too long")
        return text


class _Watched(NodeTransformer):
    """Puts the checks into a template's code."""

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        super().generic_visit(node, *args, **kwargs)
        if isinstance(node, nodes.For):
            step = _through(_STEP, nodes.Const(0, lineno=node.lineno))
            node.body.insert(0, nodes.ExprStmt(step, lineno=node.lineno))
        elif isinstance(node, nodes.Concat):
            node.nodes = [_through(_PRINTABLE, part) for part in node.nodes]
            return _through(_MADE, node)
        elif isinstance(node, nodes.TemplateData):
            # as an expression it is counted each time it is put out
            return _through(_STEP, nodes.Const(node.data, lineno=node.lineno))
        elif isinstance(node, nodes.List | nodes.Dict | nodes.Tuple):
            # a tuple may also be what a loop assigns to
            return node if getattr(node, "ctx", "load") != "load" else _through(_MADE, node)
        elif isinstance(node, nodes.Getitem):
            return _through(_MADE if isinstance(node.arg, nodes.Slice) else _STEP, node)
        elif isinstance(node, nodes.Compare | nodes.Test):
            return _through(_STEP, node)
        return node


def _through(name: str, node: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


@pass_environment
def _join(environment: Any, value: Any, d: str = "", attribute: str | None = None) -> str:
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    return str(d).join(map(str, environment.joinable(str(d), value)))


@pass_environment
def _replace(environment: Any, s: Any, old: str, new: str, count: int | None = None) -> str:
    text, old, new = str(s), str(old), str(new)
    environment.require_replaceable(text, old, new)
    return text.replace(old, new, -1 if count is None else count)


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None) -> str:
    """As transformers writes it: letters as they are, nothing escaped for HTML."""
    if indent is not None and not (isinstance(indent, int) and 0 <= indent <= 8):
        _refuse("it indents by more than 8 spaces")
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)


def _new_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)


def _new_namespace(*args: Any, **kwargs: Any) -> Namespace:
    return Namespace(*args, **kwargs)


def _strftime_now(form: str) -> str:
    # no widths ("%1000000d"), which some systems' C libraries obey
    if len(form) > 200 or not re.fullmatch(r"(?:[^%]|%-?[A-Za-z%])*", form):
        _refuse("it asks for the date in an unknown form")
    return datetime.datetime.now().strftime(form)


def _raise_exception(message: object) -> NoReturn:
    raise TemplateError(
        f"The model's chat template refuses this conversation: {str(message)[:300].rstrip('.')}.",
        "Change the conversation, or choose another model.",
    )


def _refuse(reason: str) -> NoReturn:
    raise TemplateError(
        f"The model's chat template was stopped: {reason}.",
        "Fetch the model again, or choose another model.",
    )
