"""One event a line, numbered, and the document of the run as the last line."""

from __future__ import annotations

import io
import json

from codeflash_parallel.report.json_lines import JsonLines
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.events import (
    CandidateFinished,
    CandidateMoved,
    RaceProgress,
    RunFinished,
    Stage,
    Warned,
)
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_document import candidate_document
from codeflash_parallel.result.result_model import CandidateResult, RunResult

A = CandidateId("a")


def lines_of(*events, document=None) -> list[dict]:
    stream = io.StringIO()
    lines = JsonLines(stream)
    for event in events:
        lines(event)
    if document is not None:
        lines.finish(document)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_lines_are_numbered_and_name_event_and_candidate() -> None:
    moved = CandidateMoved(run_id="r", candidate=A, stage=Stage.CHECKING, slot=2)
    assert lines_of(moved, Warned(run_id="r", message="slow disk")) == [
        {
            "run_id": "r",
            "seq": 0,
            "event": "candidate_moved",
            "candidate": "a",
            "stage": "checking",
            "slot": 2,
            "host": "",
        },
        {"run_id": "r", "seq": 1, "event": "warned", "candidate": None, "message": "slow disk"},
    ]


def test_the_leader_of_a_race_is_the_candidate_of_its_line() -> None:
    progress = RaceProgress(
        run_id="r", stage="race", rounds=3, most_rounds=9, racing=2, leader=A, speedup=1.5, seconds_left=4.0
    )
    (line,) = lines_of(progress)
    assert line["candidate"] == "a"
    assert "leader" not in line
    assert line["rounds"] == 3


def test_a_finished_candidate_is_written_as_in_the_document() -> None:
    result = CandidateResult(
        id=A, origin=CandidateOrigin.PATCH, status=CandidateStatus.LOST, code=Code.BEATEN, reason="So."
    )
    (line,) = lines_of(CandidateFinished(run_id="r", candidate=A, result=result))
    assert line["result"] == json.loads(json.dumps(candidate_document(result)))


def test_the_document_is_the_last_line_and_the_end_is_told_once() -> None:
    result = RunResult(run_id="r", complete=True, verdict=Verdict.NOTHING_FASTER)
    lines = lines_of(RunFinished(run_id="r", result=result), document={"run_id": "r", "verdict": "x"})
    assert lines == [{"run_id": "r", "seq": 0, "event": "run_finished", "candidate": None, "verdict": "x"}]


def test_text_that_is_not_unicode_is_written_as_json() -> None:
    (line,) = lines_of(Warned(run_id="r", message="bad \udcff name"))
    assert line["message"].encode()
