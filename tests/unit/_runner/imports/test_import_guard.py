"""Modules come from the slot: found ones are moved there, others are told."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from codeflash_parallel._runner.channels import RecordBuffer
from codeflash_parallel._runner.imports.import_guard import EditableInstalls, ImportGuard
from codeflash_parallel._runner.slot_paths import PathLocations


@pytest.fixture
def guard(tmp_path: Path) -> ImportGuard:
    for path in ("user/both.py", "user/gone.py", "slot/both.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    keys = {"root": "slot", "user_root": "user", "runner": "runner", "private": "private"}
    spec = {key: str(tmp_path / name) for key, name in keys.items()}
    return ImportGuard(spec, PathLocations(spec), RecordBuffer())


def found(guard: ImportGuard, monkeypatch: pytest.MonkeyPatch, path: Path) -> Any:
    class Finder:
        @staticmethod
        def find_spec(name: str, *_: object) -> object:
            return importlib.util.spec_from_file_location(name, path)

    monkeypatch.setattr(sys, "meta_path", [Finder, guard])
    return guard.find_spec("cfp_module")


def test_a_module_of_the_checkout_is_loaded_from_the_slot(
    guard: ImportGuard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert found(guard, monkeypatch, tmp_path / "user/both.py").origin == str(tmp_path / "slot/both.py")
    assert sys.meta_path[0] is guard


def test_a_module_without_a_counterpart_is_refused_and_told(
    guard: ImportGuard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ImportError, match="outside of the worktree under test"):
        found(guard, monkeypatch, tmp_path / "user/gone.py")
    told = {"t": "outside", "module": "cfp_module", "path": str(tmp_path / "user/gone.py")}
    assert guard._channel.records == [told]


def test_modules_past_the_guard_are_told_once_and_not_again_in_forks(
    guard: ImportGuard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("cfp_first", "cfp_second"):
        module = ModuleType(name)
        module.__file__ = str(tmp_path / "user/both.py")
        monkeypatch.setitem(sys.modules, name, module)
        guard.audit_before_forks()
        guard.audit()
    assert [record["module"] for record in guard._channel.records] == ["cfp_first", "cfp_second"]


def test_an_editable_installation_points_into_the_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for root in ("user", "slot"):
        (tmp_path / root / "src/pkg").mkdir(parents=True)
        (tmp_path / root / "src/pkg/__init__.py").write_text("")
    user, slot = str(tmp_path / "user"), str(tmp_path / "slot")
    keys = {"root": slot, "user_root": user, "runner": str(tmp_path / "g"), "private": str(tmp_path / "p")}

    class Finder:
        MAPPING = {"pkg": f"{user}/src/pkg"}  # noqa: RUF012 - as setuptools has it

        @classmethod
        def find_spec(cls, *_: object) -> None:
            return None

    early = ModuleType("cfp_early")
    early.__file__ = f"{user}/src/pkg/__init__.py"
    monkeypatch.setattr(sys, "path", [f"{user}/src", "/elsewhere"])
    monkeypatch.setattr(sys, "meta_path", [Finder])
    monkeypatch.setitem(sys.modules, "cfp_early", early)
    monkeypatch.setenv("PYTHONPATH", f"{user}/src:/other")
    channel = RecordBuffer()
    assert EditableInstalls(PathLocations(keys), channel).apply() == ["cfp_early"]
    assert sys.path == [f"{slot}/src", "/elsewhere"]
    assert {"pkg": f"{slot}/src/pkg"} == Finder.MAPPING
    assert "cfp_early" not in sys.modules
    assert os.environ["PYTHONPATH"] == f"{slot}/src:/other"
    assert {record["from"] for record in channel.records} == {f"{user}/src", f"{user}/src/pkg"}
