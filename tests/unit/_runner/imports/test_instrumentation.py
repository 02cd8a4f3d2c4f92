"""Hooks around targets: where they stand, and which functions get none."""

from __future__ import annotations

import ast

import pytest

from codeflash_parallel._runner.imports.instrumentation import (
    REGISTRY,
    Instrumentation,
    definitions,
    registering,
)

TEXT = """
import functools, numba
from functools import lru_cache as cached

def plain(x):
    return x

@cached(maxsize=3)
def known(x): return x

@functools.partial(print)
def unknown(x): return x

@numba.njit
def compiled(x): return x

if plain:
    class C:
        @property
        def method(self): return 1
        @method.setter
        def method(self, value): pass
"""


def hooked(*qualnames: str) -> list[str]:
    spec = {"targets": [{"path": "m.py", "qualname": name} for name in qualnames]}
    tree = Instrumentation(spec, {"outer": "OUTER", "inner": "INNER"})("m.py", TEXT, "m.py")
    return (
        []
        if tree is None
        else [line for line in ast.unparse(tree).splitlines() if "NER(" in line or "TER(" in line]
    )


@pytest.mark.parametrize(
    ("qualname", "hooks"),
    [
        ("plain", ["@OUTER(0, __name__)"]),
        ("known", ["@OUTER(0, __name__)"]),
        ("unknown", ["@INNER(0, __name__)"]),
        ("compiled", []),
        ("C.method", ["        @OUTER(0, __name__)"]),
        ("absent", []),
    ],
)
def test_hooks_stand_where_the_decorators_allow(qualname: str, hooks: list[str]) -> None:
    assert hooked(qualname) == hooks


def test_order_of_decorators() -> None:
    spec = {"targets": [{"path": "m.py", "qualname": "unknown"}]}
    tree = Instrumentation(spec, {"outer": "OUTER", "inner": "INNER"})("m.py", TEXT, "m.py")
    (node,) = definitions(tree, ["unknown"])
    assert [ast.unparse(one) for one in node.decorator_list] == [
        "functools.partial(print)",
        "INNER(0, __name__)",
    ]
    assert Instrumentation(spec, {})("other.py", TEXT, "other.py") is None


def test_only_inner_calls_are_registered() -> None:
    class Call:
        meta = {"via": "inner", "target": 0}  # noqa: RUF012 - a stand-in

    spec = {"targets": [{"path": "m.py", "qualname": "plain"}]}
    assert registering(spec, []) is None
    text = "@staticmethod\n@print\ndef plain(x): return x"
    tree = registering(spec, [Call])("m.py", text.replace("@print\n", ""), "m.py")
    assert tree is None  # it is called through the finished object
    assert 0 not in REGISTRY
