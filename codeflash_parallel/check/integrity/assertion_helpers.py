"""Which assertion helpers test modules use, and how a test fails that uses one of them. Pure.

A form is the body of a test that must fail: it computes a value (`{a} * {b}`), holds it against a wrong one
through the helper as that module calls it (`{call}`), and its failure must name what `tells` says: a text
that nobody has who has not computed the value, or the words of the helper itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from codeflash_parallel.candidates.analysis.functions import parse_or_none

#: The assert statement, which every test module has.
STATEMENT = "assert"


@dataclass(frozen=True, slots=True)
class AssertionForm:
    """How one helper is made to fail.

    Attributes:
        lines: of the body; `{v}` is a variable's name, `{wrong}` a number that is greater than the value.
        tells: what the failure's message must hold.
    """

    lines: tuple[str, ...]
    tells: str = "{value}"


def _of(*lines: str, tells: str = "{value}") -> tuple[AssertionForm, ...]:
    return (AssertionForm(("{v} = {a} * {b}", *lines), tells),)


_PREDICATE = _of("assert {call}({v}, {wrong}), {v}")
_PROCEDURE = _of("{call}({v}, {wrong})")
_MOCK = _of("mock = __import__('unittest.mock').mock.Mock()", "mock({v})", "mock.{name}({wrong})")

#: Helpers by the last part of their name.
FORMS: Mapping[str, tuple[AssertionForm, ...]] = {
    STATEMENT: _of("assert {v} == {wrong}, {v}"),
    "approx": _of("assert {v} == {call}({wrong}), {v}"),
    **dict.fromkeys(("isclose", "allclose", "array_equal", "array_equiv"), _PREDICATE),
    **dict.fromkeys(
        ("assert_allclose", "assert_array_equal", "assert_equal", "assert_almost_equal"), _PROCEDURE
    ),
    "assert_array_almost_equal": _PROCEDURE,
    "assert_series_equal": _of("make = __import__('pandas').Series", "{call}(make([{v}]), make([{wrong}]))"),
    "assert_frame_equal": _of(
        "make = __import__('pandas').DataFrame", "{call}(make([[{v}]]), make([[{wrong}]]))"
    ),
    "raises": (
        *_of("with {call}(ValueError, match='{wrong}'):", "    raise ValueError({v})", tells="{wrong}"),
        *_of("with {call}(ValueError):", "    str({v})", tells="DID NOT RAISE"),
    ),
    "warns": _of("with {call}(UserWarning):", "    str({v})", tells="DID NOT WARN"),
    "fail": _of("{call}(str({v}))"),
    **dict.fromkeys(("assert_called_with", "assert_called_once_with", "assert_any_call"), _MOCK),
}

#: Methods of `unittest.TestCase`.
METHODS: Mapping[str, tuple[AssertionForm, ...]] = {
    **dict.fromkeys(("assertEqual", "assertAlmostEqual", "assertGreater", "assertGreaterEqual"), _PROCEDURE),
    "assertIs": _PROCEDURE,
    "assertLess": _of("{call}({wrong}, {v})"),
    "assertLessEqual": _of("{call}({wrong}, {v})"),
    "assertNotEqual": _of("{call}({v}, {v})"),
    "assertTrue": _of("{call}({v} == {wrong}, {v})"),
    "assertFalse": _of("{call}({v} != {wrong}, {v})"),
    "assertIn": _of("{call}({v}, [{wrong}])"),
    "assertNotIn": _of("{call}({v}, [{v}])"),
    "assertIsNone": _of("{call}({v})"),
    "assertIsInstance": _of("{call}({v}, str)"),
    **dict.fromkeys(
        ("assertListEqual", "assertSequenceEqual", "assertCountEqual"), _of("{call}([{v}], [{wrong}])")
    ),
    "assertTupleEqual": _of("{call}(({v},), ({wrong},))"),
    "assertSetEqual": _of("{call}({{{v}}}, {{{wrong}}})"),
    "assertDictEqual": _of("{call}({{1: {v}}}, {{1: {wrong}}})"),
    "assertRegex": _of("{call}(str({v}), '{wrong}')"),
    "assertRaises": _of("with {call}(ValueError):", "    str({v})", tells="ValueError not raised"),
    "assertRaisesRegex": _of(
        "with {call}(ValueError, '{wrong}'):", "    raise ValueError({v})", tells="{wrong}"
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class AssertionHelpers:
    """The helpers that one test module uses.

    Attributes:
        everywhere: helper by the dotted name that it is called by; good in the whole module.
        in_class: methods of `TestCase` by the class that calls them (``"Outer.Inner"``).
    """

    everywhere: Mapping[str, str] = field(default_factory=dict)
    in_class: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def by_call(self, cls: str) -> dict[str, str]:
        """Return helper by call that tests of a class can use; the class is ``""`` for the module's own."""
        methods = {f"self.{name}": name for name in sorted(self.in_class.get(cls, ()))}
        return {STATEMENT: STATEMENT, **self.everywhere, **methods}


def form_of(helper: str, call: str) -> tuple[AssertionForm, ...]:
    """Return the forms of a helper."""
    return METHODS[helper] if call.startswith("self.") else FORMS[helper]


def uses(text: bytes) -> AssertionHelpers:
    """Return the helpers that a module's text calls; none where it does not parse."""
    tree = parse_or_none(text.decode("utf-8", "replace"))
    everywhere: dict[str, str] = {}
    in_class: dict[str, set[str]] = {}
    for cls, call in _calls(tree.body, "") if tree else ():
        name = call.rpartition(".")[2]
        if call == f"self.{name}" and name in METHODS:
            in_class.setdefault(cls, set()).add(name)
        elif name in FORMS and FORMS[name] is _MOCK:
            everywhere.setdefault(name, name)
        elif name in FORMS and not call.startswith("self."):
            everywhere.setdefault(call, name)
    return AssertionHelpers(
        everywhere=everywhere, in_class={cls: frozenset(names) for cls, names in in_class.items()}
    )


def _calls(body: Iterable[ast.stmt], cls: str) -> Iterator[tuple[str, str]]:
    """Yield class and dotted name of every call."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _calls(statement.body, f"{cls}.{statement.name}".lstrip("."))
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Call):
                yield cls, _dotted(node.func)


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_dotted(value)}.{name}"
        case _:
            return "?"
