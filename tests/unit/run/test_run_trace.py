"""Rounds and moments of a run are stored with it and read back; what is damaged is left out."""

from __future__ import annotations

from pathlib import Path

from page_cases import TRACE

from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.events import CandidateMoved, PhaseStarted, RunStarted, Stage
from codeflash_parallel.run.run_trace import (
    Moment,
    RunTrace,
    StageSpan,
    TimelineRecorder,
    read_trace,
    spans_of,
)


def test_moments_are_stored_and_read_back(tmp_path: Path) -> None:
    recorder = TimelineRecorder()
    recorder(RunStarted(run_id="r", slots=2))
    recorder(PhaseStarted(run_id="r", phase="behavior"))
    recorder(CandidateMoved(run_id="r", candidate=CandidateId("a\ud800"), stage=Stage.CHECKING, slot=2))
    recorder.save(tmp_path)
    moments = read_trace(tmp_path).moments
    assert [(m.candidate, m.stage, m.slot) for m in moments] == [
        ("", "behavior", 0),
        ("a\ud800", "checking", 2),
    ]
    assert moments[0].at_ms <= moments[1].at_ms


def test_what_is_missing_or_damaged_is_left_out(tmp_path: Path) -> None:
    assert read_trace(tmp_path) == RunTrace()
    (tmp_path / "timeline.json").write_text('{"digest": "", "value": [[')
    (tmp_path / "steps" / "ground").mkdir(parents=True)
    (tmp_path / "steps" / "ground" / "race-1.json").write_text("{}")
    assert read_trace(tmp_path) == RunTrace()


def test_work_is_between_two_moments_of_a_candidate() -> None:
    found = spans_of(TRACE.moments)
    assert StageSpan("best", "checking", 1, 60.0, 90.0) in found
    assert StageSpan("best", "racing", 0, 101.0, 150.0) in found
    assert StageSpan("", "race", 0, 100.0, 200.0) in found  # the last phase goes to the end
    assert {span.stage for span in found if span.candidate} == {"checking", "racing", "confirming"}
    assert [span.from_ms for span in found] == sorted(span.from_ms for span in found)


def test_work_that_was_cut_off_ends_with_the_run() -> None:
    moments = (Moment(1.0, "a", "checking", 1), Moment(9.0, "b", "queued", 0))
    assert spans_of(moments) == [StageSpan("a", "checking", 1, 1.0, 9.0)]
    assert spans_of(()) == []
