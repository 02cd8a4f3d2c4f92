"""What is the same around a change is left out of the work, and changes no answer."""

from __future__ import annotations

import ast
import bisect
import colorsys
import reprlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from effort import drawn
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from codeflash_parallel.candidates import code_changes
from codeflash_parallel.candidates.code_changes import beyond_bodies, fingerprint
from codeflash_parallel.candidates.python_source import decoded, parse, parse_piece, pieces, skeleton

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
    "\\\n",
    "# why \\\n",
    "\ufeff",
    "from __future__ import annotations\n",
    "from __future__ import barry_as_FLUFL\n",
    "x <> y\n",
)
TARGETS = ("f", "g", "C.m")
#: Small modules of all kinds of statements, with one end of line and with the other.
MODULES = tuple(
    text.replace("\n", end)
    for module in (bisect, colorsys, reprlib)
    for text in (Path(module.__file__ or "").read_text(encoding="utf-8"),)
    for end in ("\n", "\r\n", "\r")
)
EDITS = (
    *PIECES,
    "",
    " ",
    "\n",
    "\\\n",
    "\r",
    "\ufeff",
    "\0",
    "#",
    ";",
    "(",
    ")",
    "'",
    "pass",
    "else:\n",
    "return 1",
    "    ",
)
texts = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)


@given(texts, texts, texts, texts)
@example("def f(a):\n    return 1\n", "", "", "x = 1")
@example("if x:\n    z = 1\n", "", "else:\n    z = 2\n", "y = 1\n")
@example("x = 1\n", "def f(a): return a", "def f(a): return a + 1", "")
@hypothesis_settings(max_examples=drawn(400))
def test_a_change_is_the_same_whether_all_is_looked_at_or_what_differs(
    head: str, one: str, other: str, tail: str
) -> None:
    old, new = head + one + tail, head + other + tail
    seen = beyond_bodies(old, new, TARGETS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_changes, "same_around", lambda _old, _new: (0, 0))
        whole = beyond_bodies(old, new, TARGETS)
    assert bool(seen) == bool(whole)


@given(texts, texts)
@hypothesis_settings(max_examples=drawn(300))
def test_fingerprints_are_equal_for_equal_trees_and_no_others(one: str, other: str) -> None:
    first, second = (fingerprint({"m.py": text.encode()}) for text in (one, other))
    assert (first == second) == (tree_of(one) == tree_of(other))


def tree_of(text: str) -> str:
    try:
        return skeleton(parse(text))
    except SyntaxError:
        return f"raw {text}"


@given(texts, texts)
@example("x = 1\n\\\ny = 2\n", "x = 1\n\\\n")
@example("x = 1\n'prose'\n", "'prose'\n")
@example("x = 1 <> 2\n", "from __future__ import barry_as_FLUFL\nx = 1 <> 2\n")
@hypothesis_settings(max_examples=drawn(400))
def test_pieces_mean_alone_what_they_mean_together(known: str, text: str) -> None:
    assert outcome(lambda: trees(pieces(text, known))) == outcome(
        lambda: trees([text.removeprefix("\ufeff")])
    )
    assert fingerprint({"m.py": text.encode()}, {"m.py": known.encode()}) == fingerprint(
        {"m.py": text.encode()}
    )


@pytest.mark.slow
@given(st.data())
@hypothesis_settings(max_examples=drawn(80), deadline=None)
def test_an_edited_module_of_the_standard_library_means_the_same_in_pieces(data: st.DataObject) -> None:
    known = data.draw(st.sampled_from(MODULES))
    start = data.draw(st.integers(0, len(known)))
    end = min(len(known), start + data.draw(st.integers(0, 40)))
    text = known[:start] + data.draw(st.sampled_from(EDITS)) + known[end:]
    assert outcome(lambda: trees(pieces(text, known))) == outcome(
        lambda: trees([text.removeprefix("\ufeff")])
    )
    assert fingerprint({"m.py": text.encode()}, {"m.py": known.encode()}) == fingerprint(
        {"m.py": text.encode()}
    )


def trees(parts: Iterable[str]) -> list[str]:
    """Return the outermost statements of some texts."""
    return [skeleton(node) for part in parts for node in parse_piece(part).body]


def outcome(make: Callable[[], list[str]]) -> list[str] | tuple[str, object]:
    """Return what a function returns, or what is wrong with the text and where."""
    try:
        return make()
    except SyntaxError as error:
        return error.msg, error.lineno


def test_an_encoding_that_is_named_is_not_guessed() -> None:
    assert decoded("x = 'é'\n".encode()) == "x = 'é'\n"
    assert decoded(b"# coding: latin-1\nx = 1\n") is None
    assert decoded(b"#!/bin/python\n# -*- coding: utf-8 -*-\n") is None
    assert decoded(b"x = '\xe9'\n") is None
    named = b"# coding: latin-1\nx = '\xc3\xa9'\n"
    assert fingerprint({"m.py": named}) != fingerprint({"m.py": named.partition(b"\n")[2]})


@given(st.text("ab(),'\"[]= \n", max_size=20), st.text("ab(),'\"[]= \n", max_size=20))
def test_equal_skeletons_mean_equal_trees(one, other):
    try:
        trees = ast.parse("0\n" + one), ast.parse("0\n" + other)
    except SyntaxError:
        return
    assert (skeleton(trees[0]) == skeleton(trees[1])) == (ast.dump(trees[0]) == ast.dump(trees[1]))
