"""Entries, tables and modules of editable installations, pointed at the slot."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from codeflash_parallel._runner.channel.record_channel import RecordBuffer
from codeflash_parallel._runner.imports.editable_installs import EditableInstalls
from codeflash_parallel._runner.paths.path_locations import PathLocations


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
