from __future__ import annotations

import ast
import asyncio
import inspect
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.functions import (
    FORCED_FAILURE,
    Target,
    force_failure,
    functions_of,
    is_generator,
    locate,
    touched,
)
from codeflash_parallel.candidates.python_source import first_line
from codeflash_parallel.result.errors import UsageError


@pytest.mark.parametrize(
    "text", ["pkg/mod.py::Shape.area", "pkg/mod.py::Shape::area", "./pkg/mod.py::Shape.area"]
)
def test_a_target_is_a_file_and_a_dotted_name(text: str) -> None:
    target = Target.parse(text)
    assert (target.path, target.qualname, target.name) == ("pkg/mod.py", "Shape.area", "area")
    assert str(target) == "pkg/mod.py::Shape.area"


@pytest.mark.parametrize("text", ["", "shop::total", "/m.py::f", "../m.py::f", "m.py", "m.py::", "m.py::a b"])
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Target.parse(text)
    assert caught.value.code == "BAD_FUNCTION"


MODULE = '''\
"""Module."""
import functools
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    def seen_by_checkers_only() -> int: ...


@overload
def f(x: int) -> int: ...
@overload
def f(x: str) -> str: ...
def f(x):
    def inner():
        return x
    return inner()


class A:
    class B:
        async def m(self):
            return 1

    @property
    def size(self):
        return 1

    @size.setter
    def size(self, value):
        pass

    @functools.lru_cache(
        maxsize=None,
    )
    @staticmethod
    def cached(): return 2


try:
    import fast
except ImportError:
    def fallback():
        class Local:
            def hidden(self): pass
        return Local
else:
    fallback = fast.fallback
'''


def test_lists_functions_in_order_and_leaves_out_what_is_inside_functions():
    assert functions_of(MODULE) == ("f", "A.B.m", "A.size", "A.cached", "fallback")


@pytest.mark.parametrize(
    ("qualname", "first", "definition", "last"),
    [
        ("f", 13, 13, 16),
        ("A.B.m", 21, 21, 22),
        ("A.size", 24, 25, 26),
        ("A.cached", 32, 36, 36),
        ("fallback", 42, 42, 45),
    ],
)
def test_locates_the_definition_that_a_name_stands_for(qualname, first, definition, last):
    node = locate(MODULE, qualname)
    assert node is not None
    assert (first_line(node) + 1, node.lineno, node.end_lineno) == (first, definition, last)
    assert node.name == qualname.rpartition(".")[2]


@pytest.mark.parametrize("qualname", ["g", "A", "A.m", "f.inner", "seen_by_checkers_only", ""])
def test_finds_nothing_where_there_is_nothing(qualname):
    assert locate(MODULE, qualname) is None


@pytest.mark.parametrize(
    "source", ["def f(:", "x = '\0'", "(" * 5000, "def f():\n\treturn 1\n        return 2"]
)
def test_source_that_does_not_parse_has_no_functions(source):
    assert functions_of(source) == ()
    assert locate(source, "f") is None
    assert touched(source, source) == ()


def test_only_overloads_give_the_first_of_them():
    node = locate("from typing import overload\n@overload\ndef f(): ...\n", "f")
    assert node is not None
    assert node.lineno == 3


def test_touched_names_functions_that_differ_in_both():
    new = MODULE.replace("return 1\n\n    @property", "return 10\n\n    @property").replace(
        "def fallback", "def other"
    )
    new = new.replace("        pass\n\n    @functools", "        self.x = value\n\n    @functools")
    assert touched(MODULE, new) == ("A.B.m", "A.size")


def test_formatting_comments_and_docstrings_touch_nothing():
    old = "def f(a):\n    return a+1\n\nX = 1\n"
    new = "X = 2\ndef f(a):\n    'doc'\n    # why\n    return (a +\n       1)\n"
    assert touched(old, new) == ()


def test_a_decorator_and_a_default_touch():
    assert touched("def f(a=1): pass\ndef g(): pass", "def f(a=2): pass\n@cache\ndef g(): pass") == ("f", "g")


def run_function(source, name="f"):
    space: dict = {}
    exec(compile(source.encode(), "<test>", "exec"), space)
    return space[name]


@pytest.mark.parametrize(
    "source",
    [
        "def f(): return 1",
        "def f(): return 1; x = 2",
        "def f(): x = [\n  1,\n  2]\n",
        "def f():\n    # first\n    return 1  # last",
        'def f():\n    """Doc.\n    More."""\n    return 1\n',
        'def f(): "doc"',
        'def f():\n    """Doc."""\n',
        "def f():\n    @str\n    def g(): pass\n    return g\n",
        "def f():\r\n    return 'ä'\r\n",
        "\ufeffdef f():\n\treturn 1\n",
        "x = 'ö'; y = 1\ndef f(): 'ü'; return 'é'; pass\n",
        "def f():\n    return 1;\n",
    ],
)
def test_a_forced_failure_fails_and_the_rest_stays(source):
    forced = force_failure(source, "f")
    function = run_function(forced)
    with pytest.raises(AssertionError, match="forced failure"):
        function()
    assert function.__doc__ == run_function(source).__doc__
    assert functions_of(forced) == functions_of(source)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("def f():\n    yield 1\n", inspect.isgeneratorfunction),
        ("def f(): x = yield", inspect.isgeneratorfunction),
        ("def f():\n    for x in ():\n        yield from x\n    return 1", inspect.isgeneratorfunction),
        ("async def f():\n    yield 1\n", inspect.isasyncgenfunction),
        ("async def f():\n    return 1\n", inspect.iscoroutinefunction),
        (
            "def f():\n    def g(): yield\n    return lambda: (yield)",
            lambda f: not inspect.isgeneratorfunction(f),
        ),
    ],
)
def test_a_forced_failure_keeps_the_kind_of_function(source, kind):
    forced = run_function(force_failure(source, "f"))
    assert kind(run_function(source))
    assert kind(forced)


def test_forced_coroutines_and_generators_fail_when_they_run():
    coroutine = run_function(force_failure("async def f(): return 1", "f"))
    with pytest.raises(AssertionError):
        asyncio.run(coroutine())
    with pytest.raises(AssertionError):
        list(run_function(force_failure("def f(): yield 1", "f"))())


def test_forcing_touches_exactly_that_function():
    for name in functions_of(MODULE):
        forced = force_failure(MODULE, name)
        ast.parse(forced)
        assert touched(MODULE, forced) == (name,)


def test_forcing_an_unknown_function_says_so():
    with pytest.raises(LookupError, match="nothing"):
        force_failure(MODULE, "nothing")


names = st.sampled_from(["f", "g", "ä", "_x"])


@st.composite
def blocks(draw, depth=2):
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["def", "async def", "class", "if"] if depth else ["def"]))
        name = draw(names)
        if kind == "class":
            lines += [f"class {name.upper()}:", textwrap.indent(draw(blocks(depth=depth - 1)), "    ")]
        elif kind == "if":
            lines += ["if True:", textwrap.indent(draw(blocks(depth=depth - 1)), "  ")]
        else:
            body = draw(
                st.sampled_from([" return 1", "\n    yield 1", "\n    'd'\n    return [\n1]", "\n\tpass"])
            )
            lines.append(f"{draw(st.sampled_from(['', '@d' + chr(10)]))}{kind} {name}():{body}")
    return "\n".join(lines)


@given(blocks())
def test_every_listed_function_is_located_and_can_be_forced(source):
    for name in functions_of(source):
        node = locate(source, name)
        assert node is not None
        lines = source.split("\n")
        assert f"def {node.name}" in lines[node.lineno - 1]
        forced = force_failure(source, name)
        again = locate(forced, name)
        assert again is not None
        assert is_generator(again) == is_generator(node)
        assert functions_of(forced) == functions_of(source)
    every = force_failure(source, *functions_of(source))
    assert functions_of(every) == functions_of(source)
    assert every.count(FORCED_FAILURE) == len(functions_of(source))
