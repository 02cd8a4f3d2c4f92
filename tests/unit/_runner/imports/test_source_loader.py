"""Bytes of proven modules are recorded, and bytecode is written below the slot only."""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from codeflash_parallel._runner.channels import RecordBuffer
from codeflash_parallel._runner.imports.source_loader import (
    REGISTRY,
    Instrumentation,
    VerifiedSources,
    definitions,
    registering,
    restrict_bytecode,
)


def test_a_proven_module_is_compiled_from_its_source(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("VALUE = 1\n")
    places = SimpleNamespace(relative=lambda text: text.removeprefix(f"{tmp_path}/"))
    channel = RecordBuffer()
    sources = VerifiedSources({"prove": ["m.py"], "targets": []}, places, channel)
    spec = importlib.util.spec_from_file_location("m", path)
    assert spec
    spec.loader = sources.loader_for("m", spec)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.VALUE == 1
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert channel.records == [{"t": "source", "path": "m.py", "digest": digest, "module": "m"}]
    other = importlib.util.spec_from_file_location("n", tmp_path / "n.py")
    assert sources.loader_for("n", other) is None


def test_bytecode_stays_below_the_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader_type = importlib.machinery.SourceFileLoader
    monkeypatch.setattr(loader_type, "set_data", loader_type.set_data)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    slot, elsewhere = tmp_path / "slot", tmp_path / "elsewhere"
    slot.mkdir()
    allowed = restrict_bytecode({"root": str(slot), "runner": str(tmp_path / "runner")})
    loader = loader_type("m", str(slot / "m.py"))
    for folder in (slot, elsewhere):
        loader.set_data(str(folder / "m.pyc"), b"code")
    assert (slot / "m.pyc").read_bytes() == b"code"
    assert not elsewhere.exists()
    assert allowed(slot / "x")
    assert not allowed(elsewhere / "x")


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
