"""Statements, stubs and decorators that come along with a replacement."""

from __future__ import annotations

import sys

import pytest
from splice_cases import text

from codeflash_parallel.candidates.replacement.function_replacement import splice


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
