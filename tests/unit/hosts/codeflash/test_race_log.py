from __future__ import annotations

from pathlib import Path

from codeflash_parallel.hosts.codeflash.race_log import FunctionRace, RacedCandidate, RaceLog


def test_races_come_back_in_order(tmp_path: Path) -> None:
    log = RaceLog(path=tmp_path / "log")
    assert log.document() == {"replaced": True, "why": "", "functions": []}
    one = RacedCandidate(
        id="candidate-1", optimization_id="x", status="won", code="OK", reason="2.00x", speedup=2.0
    )
    log.note_race(
        FunctionRace(
            function="a.py::f", run_id="r", winner="x", summary="It won.", seconds=1.5, candidates=[one]
        )
    )
    log.note_race(FunctionRace(function="a.py::g", summary="No verdict.", seconds=0.0))
    document = log.document()
    assert [(race["function"], race["winner"]) for race in document["functions"]] == [
        ("a.py::f", "x"),
        ("a.py::g", ""),
    ]
    assert document["functions"][0]["candidates"][0]["speedup"] == 2.0


def test_why_nothing_is_replaced_comes_back(tmp_path: Path) -> None:
    log = RaceLog(path=tmp_path / "log")
    log.note_unreplaced("another version")
    assert log.document() == {"replaced": False, "why": "another version", "functions": []}
