from __future__ import annotations

from pathlib import Path

from codeflash_parallel.hosts.codeflash.race_log import FunctionRace, RaceLog


def test_races_come_back_in_order(tmp_path: Path) -> None:
    log = RaceLog(path=tmp_path / "log")
    assert log.document() == {"replaced": True, "why": "", "functions": []}
    log.note_race(FunctionRace(function="a.py::f", run_id="r", winner="x", summary="It won.", seconds=1.5))
    log.note_race(FunctionRace(function="a.py::g", summary="No verdict."))
    assert log.document()["functions"] == [
        {"function": "a.py::f", "run_id": "r", "winner": "x", "summary": "It won.", "seconds": 1.5},
        {"function": "a.py::g", "run_id": "", "winner": "", "summary": "No verdict.", "seconds": 0.0},
    ]


def test_why_nothing_is_replaced_comes_back(tmp_path: Path) -> None:
    log = RaceLog(path=tmp_path / "log")
    log.note_unreplaced("another version")
    assert log.document() == {"replaced": False, "why": "another version", "functions": []}
