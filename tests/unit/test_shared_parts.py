"""What is the same around a change is left out of the work, and changes no answer."""

from __future__ import annotations

import ast

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from codeflash_parallel.model import bodies
from codeflash_parallel.model.bodies import body_change
from codeflash_parallel.model.fingerprint import fingerprint
from codeflash_parallel.model.source import decoded, parse, skeleton, statements

PIECES = (
    '"""Prose."""\n',
    "'more prose'\n",
    "import os\n",
    "x = 1; y = 2\n",
    "# a comment\n\n",
    "def f(a):\n    return a\n",
    "def f(a):\n    return a + 1\n",
    "def f(a):\n    '''Says so.'''\n    return a\n",
    "@decorated\ndef g(a=1):\n    yield a\n",
    "@decorated\ndef g(a=1):\n    yield a + 1\n",
    "class C:\n    def m(self):\n        return 1\n",
    "class C:\n    def m(self):\n        return super().m()\n",
    "class C:\n    def m(self):\n        return 2\n\n    limit = 3\n",
    "if x:\n    z = 1\n",
    "else:\n    z = 2\n",
    "    z = 3\n",
    "@decorated\n",
    'text = """\n',
    '"""\n',
    "value = (\n",
    ")\n",
    "w = \\\n",
    "5",
    "def f(a): return a",
    "\r\n",
    "\x0c",
)
TARGETS = ("f", "g", "C.m")
texts = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)


@given(texts, texts, texts, texts)
@example("def f(a):\n    return 1\n", "", "", "x = 1")
@example("if x:\n    z = 1\n", "", "else:\n    z = 2\n", "y = 1\n")
@example("x = 1\n", "def f(a): return a", "def f(a): return a + 1", "")
@hypothesis_settings(max_examples=400)
def test_a_change_is_the_same_whether_all_is_looked_at_or_what_differs(
    head: str, one: str, other: str, tail: str
) -> None:
    old, new = head + one + tail, head + other + tail
    seen = body_change(old, new, TARGETS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "_differing", lambda old, new: (parse(old), parse(new)))
        whole = body_change(old, new, TARGETS)
    assert seen.qualnames == whole.qualnames
    assert bool(seen.why) == bool(whole.why)


@given(texts, texts)
@hypothesis_settings(max_examples=300)
def test_fingerprints_are_equal_for_equal_trees_and_no_others(one: str, other: str) -> None:
    first, second = (fingerprint({"m.py": text.encode()}) for text in (one, other))
    assert (first == second) == (tree_of(one) == tree_of(other))


def tree_of(text: str) -> str:
    try:
        return skeleton(parse(text))
    except SyntaxError:
        return f"raw {text}"


@given(texts)
def test_an_outermost_statement_stands_where_it_says(text: str) -> None:
    try:
        tree = parse(text)
    except SyntaxError:
        return
    for statement, node in zip(statements(text), tree.body, strict=True):
        part = ast.parse(text[statement.start : statement.end]).body
        assert skeleton(node) in [skeleton(found) for found in part]
        assert statement.alone == (len(part) == 1)


def test_an_encoding_that_is_named_is_not_guessed() -> None:
    assert decoded("x = 'é'\n".encode()) == "x = 'é'\n"
    assert decoded(b"# coding: latin-1\nx = 1\n") is None
    assert decoded(b"#!/bin/python\n# -*- coding: utf-8 -*-\n") is None
    assert decoded(b"x = '\xe9'\n") is None
    named = b"# coding: latin-1\nx = '\xc3\xa9'\n"
    assert fingerprint({"m.py": named}) != fingerprint({"m.py": named.partition(b"\n")[2]})
