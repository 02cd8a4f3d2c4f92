"""Bytes of proven modules are recorded, and bytecode is written below the slot only."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from codeflash_parallel._runner.channels import RecordBuffer
from codeflash_parallel._runner.imports.source_loader import VerifiedSources, restrict_bytecode


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
