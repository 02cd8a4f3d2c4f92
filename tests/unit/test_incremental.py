"""What is compiled block by block is what the compiler makes of the whole, to the last position; else nothing."""

from __future__ import annotations

import argparse
import ast
import bisect
import dataclasses
import random
import textwrap
import types
import typing
import warnings
from pathlib import Path
from typing import Any

import pytest
from effort import TIMES, drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from codeflash_parallel._guest import codes, incremental

MODULE = b'''"""Doc."""
# About imports.
import os.path as path, sys
count = 0

def counts(a, *, b=[x for x in (1, 2)]):
    """Count."""
    def inner():
        global count
        count += path.join(a.first())
    return inner, lambda: a


@staticmethod
def decorated(x): return x.y()
class C(int, metaclass=type):
    x: int = 1
    def m(self):
        return super().m, __class__, self.__private
if sys:
    import json
    def maybe(): return json.loads
one = 1; two = 2
async def behind(x): return {z async for z in x}
'''


def everything(code: types.CodeType) -> list[Any]:
    inside = [
        everything(const) if isinstance(const, types.CodeType) else (type(const), repr(const))
        for const in code.co_consts
    ]
    return [code, codes.lines(code), code.co_filename, code.co_stacksize, list(code.co_positions()), inside]


def whole(text: bytes) -> types.CodeType:
    return compile(text, "m.py", "exec", dont_inherit=True)


def made(text: bytes, old: bytes = MODULE) -> Any:
    return incremental.Incremental(old, "m.py").code_of(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""),
        (b"count = 0\n", b"count = 0\n_CACHE = {}\n\ndef helper(x):\n    return _CACHE[x]\n"),
        (b"count = 0\n", b""),
        (b"def counts", b"@decorated\ndef counts"),
        (b"        global count\n", b""),
        (b"return x.y()\n", b"\n    global more\n    more = x\n    return x.y(1)\n"),
        (b"import os.path as path, sys\n", b"import os.path as path, sys, re\n"),
        (b"    import json\n", b"    from json import (\n        loads\n    )\n"),
        (b"path, sys\n", b"path\nsys = 1\n"),
        (b"class C", b"@decorated(\n    1)\nclass C"),
        (b"one = 1; two = 2\n", b"two = 2; one = 1\n"),
        (b"# About imports.\n", b"# About.\n# Imports.\n"),
        (b'"""Doc."""\n', b""),
        (b"x: int = 1\n", b"x: int = 2\n    y: str\n"),
        (b"count = 0\n", b"if path:\n    class D(C):\n        def m(self): return super().m\n"),
    ],
)
def test_it_is_the_code_of_the_whole(before: bytes, after: bytes) -> None:
    text = MODULE.replace(before, after)
    assert everything(made(text)) == everything(whole(text))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            b"import os.path as path, sys\n",
            b"import os.path as path, sys, a\n",
        ),  # a.first() is compiled otherwise
        (b"count = 0\n", b"count = super\n"),
        (b"count = 0\n", b"super: int\n"),  # from here on the names in the module's code do not tell
        (b"count = 0\n", b"count = [super for super in ()]\n"),
        (b"count = 0\n", b"def new(a=[super for super in ()]): pass\n"),
        (b"count = 0\n", b"if path:\n    def new(): global super\n"),
        (b"return x.y()\n", b"\n    global super\n    return x.y()\n"),
        (b"count = 0\n", b"count = 1 is 1\n"),
        (b"count = 0\n", b"count = '''\n"),
        (b"count = 0\n", b"count = 0\r\n"),
        (b"count = 0\n", b"\v\n"),
        (b"count = 0\n", b"from __future__ import annotations\n"),
        (b"return x.y()\n", b"return x.y() \\\n"),
        (b"return x.y()\n", b"return x.y()\n    else: 1\n"),
        (b"one = 1; two = 2\n", b"    one = 1; two = 2\n"),
        (b"in x}\n", b"in x}"),
        (b'"""Doc."""', b"# coding: latin-1"),
    ],
)
def test_what_is_in_doubt_needs_the_whole(before: bytes, after: bytes) -> None:
    assert before in MODULE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert made(MODULE.replace(before, after)) is None


def test_what_is_imported_from_the_future_changes_everything() -> None:
    old = b"from __future__ import annotations\n" + MODULE.partition(b"\n")[2]
    assert made(old.partition(b"\n")[2], old) is None


def test_a_text_that_looks_like_a_stub_is_compiled_as_it_is() -> None:
    mark = next(iter(incremental.Incremental(MODULE, "m.py")._known))
    text = MODULE.replace(b"return x.y()", b"return %a" % mark)
    assert made(text) is None


@pytest.mark.parametrize(
    "old",
    [
        b"x = 1",
        b"x = 1 is 1\n",
        b"x = super\n",
        b"super: int\n",
        b"x = [super for super in ()]\n",
        b"x = 1 \\\n\n",
        b"x = 1\n \\\n\n",  # for Python 3.9 the next line may be indented
        b"def f():\n global super\n",
        b"if 1:\n def f():\n  global super\n",
    ],
)
def test_a_module_that_is_never_compiled_block_by_block(old: bytes) -> None:
    with pytest.raises(incremental.moving.InDoubtError):
        incremental.Incremental(old, "m.py")


def test_bytes_are_taken_back_and_forth() -> None:
    known = incremental.Incremental(MODULE, "m.py")
    for lines in (3, 1, 0, 2):
        text = MODULE.replace(b"count = 0\n", b"count = 0\n" + b"\n" * lines + b"x = 1\n")
        assert everything(known.code_of(text)) == everything(whole(text))
    assert known.code_of(MODULE) is known.code_of(MODULE)


SOURCES = [
    Path(module.__file__ or "").read_text()
    for module in (argparse, ast, bisect, dataclasses, textwrap, typing)
]
LINES = [
    "import re\n",
    "from os import (path,\n  name)\n",
    "_CACHE = {}\n",
    "def helper(a, b=1):\n    global _CACHE\n    return b\n",
    "class K(object):\n    x: int = 1\n    def m(self): return super().m()\n",
    "try:\n    import json, re as sys\nexcept ImportError:\n    json = None\n",
    "@property\ndef p(x): return [y for y in x if (z := y)]\n",
    "x = '''\n",
    "    x = 1\n",
    "else:\n    pass\n",
    "\n",
    "# about\n",
]


def patched(text: str, chance: random.Random) -> str:
    """Return a text with some lines added, gone or elsewhere, or with one thing changed."""
    lines = text.splitlines(keepends=True)
    for _ in range(chance.randint(1, 3)):
        at, count = chance.randrange(len(lines)), chance.choice((1, 5, 30))
        taken = lines[at : at + count]
        what = chance.choice(("add", "add at the top", "take", "move", "change"))
        if what in {"take", "move"}:
            del lines[at : at + count]
        if what == "move":
            to = chance.randrange(len(lines) + 1)
            lines[to:to] = taken
        elif what == "add at the top":
            at = chance.choice([number for number, line in enumerate(lines) if line[0].isalpha()] or [0])
        if what.startswith("add"):
            lines.insert(at, chance.choice(LINES))
        elif what == "change":
            lines[at] = lines[at].replace("self", "this").replace("1", "2").replace("import ", "import re, ")
    return "".join(lines)


KNOWN = [incremental.Incremental(text.encode(), "m.py") for text in SOURCES]


@given(number=st.integers(0, len(SOURCES) - 1), chance=st.randoms(use_true_random=False))
@settings(max_examples=drawn(60 * TIMES))
def test_random_patches_of_real_modules(number: int, chance: random.Random) -> None:
    text = patched(SOURCES[number], chance).encode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = KNOWN[number].code_of(text)
        assert code is None or everything(code) == everything(whole(text))
