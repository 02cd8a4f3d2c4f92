"""A replacement is put into its module, and nothing else of it is changed."""

from __future__ import annotations

import ast
import importlib.util
import random
import re
import sys
from pathlib import Path

import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from splice_cases import CASES, ORIGINAL, text

from codeflash_parallel.candidates.function_replacement import SpliceError, splice
from codeflash_parallel.candidates.functions import functions_of, locate
from codeflash_parallel.candidates.python_source import first_line
from codeflash_parallel.candidates.source_text import SourceText


@pytest.mark.parametrize("case", CASES)
def test_a_table_of_replacements(case):
    qualname, replacement, changes = CASES[case]
    expected = ORIGINAL
    for old, new in changes.items():
        assert expected.count(old) == 1, old
        expected = expected.replace(old, new)
    assert splice(ORIGINAL, replacement, qualname) == expected


@pytest.mark.parametrize("case", CASES)
def test_the_same_with_windows_line_ends_and_a_byte_order_mark(case):
    qualname, replacement, _ = CASES[case]
    plain = ORIGINAL.replace("#!/usr/bin/env python\n", "")
    source = SourceText.read(b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode())
    result = source.write(splice(source.text, "\ufeff" + replacement, qualname))
    expected = splice(ORIGINAL, replacement, qualname).replace("#!/usr/bin/env python\n", "")
    assert result == b"\xef\xbb\xbf" + expected.replace("\n", "\r\n").encode()
    assert splice(ORIGINAL, replacement.replace("\n", "\r\n"), qualname) == splice(
        ORIGINAL, replacement, qualname
    )


@pytest.mark.parametrize("case", CASES)
def test_splicing_twice_changes_nothing_more(case):
    qualname, replacement, _ = CASES[case]
    once = splice(ORIGINAL, replacement, qualname)
    assert splice(once, replacement, qualname) == once


@pytest.mark.parametrize("qualname", functions_of(ORIGINAL))
def test_a_module_in_its_own_place_changes_nothing(qualname):
    assert splice(ORIGINAL, ORIGINAL, qualname) == ORIGINAL


@pytest.mark.parametrize(
    "original", ["def f(): return 1", "def f():\n    return 1", "x = 1\ndef f(): return 1"]
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_the_end_of_the_file_is_kept(original, end):
    result = splice(original + end, "def f():\n    return 2\n\n\n", "f")
    assert result == (original.partition("def")[0] + "def f():\n    return 2" + end)


def test_definitions_in_branches_are_found_where_they_are():
    original = text("""
        import sys
        if sys.version_info > (3,):
            def f():
                return 1
        else:
            def f():
                return 2
        """)
    assert splice(original, "X = 1\ndef f():\n    return X\n", "f") == original.replace(
        "if sys", "X = 1\n\n\nif sys"
    ).replace("return 1", "return X")


def test_the_first_real_definition_among_overloads_is_replaced():
    original = "from typing import overload\n@overload\ndef f(x: int): ...\n@overload\ndef f(x: str): ...\ndef f(x): return x\n"
    assert splice(original, "def f(x): return [x]\n", "f") == original.replace("return x", "return [x]")


@pytest.mark.parametrize(
    ("original", "replacement", "qualname", "code", "named"),
    [
        ("def f(): pass", "def g(): pass", "f", "DOES_NOT_APPLY", "f"),
        ("class C:\n def f(self): pass", "class C:\n def g(self): pass", "C.f", "DOES_NOT_APPLY", "C.f"),
        ("def f(): pass", "def g(): pass", "g", "DOES_NOT_APPLY", "g"),
        ("def f(): pass", "def f(:", "f", "DOES_NOT_PARSE", "line 1"),
        ("def f(: pass", "def f(): pass", "f", "DOES_NOT_PARSE", "target's file"),
        ("def f(): pass", "", "f", "DOES_NOT_APPLY", "f"),
        ("def f(): pass", "# nothing\n", "f", "DOES_NOT_APPLY", "f"),
        ("", "def f(): pass", "f", "DOES_NOT_APPLY", "f"),
        ("def f(): pass", "x = '\0'", "f", "DOES_NOT_PARSE", "replacement"),
        ("def f(): pass", "```python\ndef f(): pass\n```", "f", "DOES_NOT_PARSE", "replacement"),
        ("def f(): pass", "f = lambda: 1\n", "f", "DOES_NOT_APPLY", "f"),
        ("f = 1", "def f(): pass\n", "f", "DOES_NOT_APPLY", "f"),
    ],
)
def test_what_cannot_be_spliced_is_named(original, replacement, qualname, code, named):
    with pytest.raises(SpliceError) as caught:
        splice(original, replacement, qualname)
    assert caught.value.code == code
    assert named in caught.value.reason


@pytest.mark.parametrize("name", ["textwrap", "heapq", "json.decoder", "functools"])
def test_every_function_of_real_modules_in_its_own_place_changes_nothing(name):
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    names = functions_of(source)
    for qualname in random.Random(7).sample(names, min(6, len(names))):
        node = locate(source, qualname)
        assert node is not None
        assert splice(source, "".join(lines[first_line(node) : node.end_lineno]), qualname) == source
    assert splice(source, source, names[-1]) == source


pieces = st.sampled_from(
    [
        "import os",
        "from a import b, c",
        "X = 1",
        "X = [\n    1,\n]",
        "Y: int = 2  # note",
        "# a comment",
        "",
        "def g(x):\n    return x",
        "@deco\ndef h():\n    '''Doc\n  string.'''\n    yield 1\n    # tail",
        "class C:\n    a = 1\n\n    def m(self):\n        return 1",
        "class C(B):\n    def m(self): pass\n    def n(self):\n        x = '''\n  y'''",
        "if X:\n    def k(): pass",
        "for i in X:\n    pass",
        "Z = '''\n# text\n'''",
    ]
)


@settings(max_examples=drawn(40), deadline=None)
@given(
    st.lists(pieces, max_size=5),
    st.lists(pieces, max_size=5),
    # nobody writes one replacement that defines the same name twice
    st.lists(pieces, max_size=6, unique_by=lambda piece: re.match(r"\W*\w* ?\w?", piece)[0]),
    st.booleans(),
)
def test_whatever_surrounds_the_target_the_result_parses_and_the_rest_stays(above, below, extra, tail):
    original = "\n".join([*above, "# mine", "@keep", "def f(a):", "    return a", *below]) + "\n" * tail
    replacement = "\n".join([*extra, "def f(a):", "    # new", "    return a + 1"])
    result = splice(original, replacement, "f")
    ast.parse(result)
    assert "@keep\ndef f(a):\n    # new\n    return a + 1" in result
    assert splice(result, replacement, "f") == result
    alone = splice(original, "def f(a):\n    # new\n    return a + 1", "f")
    assert alone == original.replace("    return a\n", "    # new\n    return a + 1\n") or not below
    defined = {name for name in ("X", "Y", "Z", "g", "h", "C") if bound(replacement, name)}
    assert all(bound(result, name) for name in defined)


def bound(source, name):
    nodes = ast.parse(source).body
    return any(
        getattr(n, "name", "") == name
        or any(
            isinstance(t, ast.Name) and t.id == name
            for t in [*getattr(n, "targets", ()), getattr(n, "target", None)]
        )
        for n in nodes
    )


def test_a_guarded_import_and_a_filled_table_come_along():
    new = text("""
        try:
            import numpy as np
        except ImportError:
            np = None
        TABLE = [0] * 4
        for i in range(4):
            TABLE[i] = i
        A = 1; B = 2
        def f(): return TABLE
        """)
    original = "TABLE = [1]\n\n\ndef g(): pass\n\n\ndef f(): pass\n"
    assert splice(original, new, "f") == text("""
        TABLE = [0] * 4


        def g(): pass


        try:
            import numpy as np
        except ImportError:
            np = None


        for i in range(4):
            TABLE[i] = i
        A = 1
        B = 2


        def f(): return TABLE
        """)


def test_a_constant_that_shares_its_statement_is_overridden():
    assert splice("A, B = 1, 2\ndef f(): return A\n", "A = 3\ndef f(): return A + 1\n", "f") == (
        "A, B = 1, 2\nA = 3\ndef f(): return A + 1\n"
    )
    assert splice("A = 1; B = 2\ndef f(): return A\n", "A = 3\ndef f(): return A + 1\n", "f") == (
        "A = 1; B = 2\nA = 3\ndef f(): return A + 1\n"
    )


def test_a_stub_is_context_and_not_a_new_version():
    original = "class C:\n    def a(self): return 1\n    def b(self): return 2\n"
    new = "class C:\n    ...\n    def a(self):\n        '''As before.'''\n        ...\n    def b(self): return 3\n"
    assert splice(original, new, "C.b") == original.replace("return 2", "return 3")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["o('a')", "o('b')"], ["o('a')", "o('b')", "static"]),
        (["o('b')"], ["o('a')", "o('b')", "static"]),
        (["o('a')", "o('c')", "static"], ["o('a')", "o('c')", "static"]),
        (["o('b')", "o('a')"], ["o('a')", "o('b')", "static"]),
        (["x.static", "fast"], ["o('a')", "o('b')", "x.static", "fast"]),
        (["fast"], ["o('a')", "o('b')", "static", "fast"]),
        (["outer", "o('a')"], ["outer", "o('a')", "o('b')", "static"]),
        ([], ["o('a')", "o('b')", "static"]),
    ],
)
def test_decorators_of_one_name_are_told_apart(given, expected):
    def text(decorators, result):
        return "".join(f"@{d}\n" for d in decorators) + f"def f(): return {result}\n"

    assert splice(text(["o('a')", "o('b')", "static"], 1), text(given, 2), "f") == text(expected, 2)


def test_type_parameters_stay_where_the_bases_change():
    header = "class C[T]({}):" if sys.version_info >= (3, 12) else "class C({}):"
    original = header.format("\n    A,  # first\n") + "  # note: old\n    def f(self):\n        return 1\n"
    replacement = header.format("B, metaclass=M") + "\n    def f(self):\n        return 2\n"
    assert splice(original, replacement, "C.f") == replacement
