"""Fitness of candidates by their status, and its form for each host; no run is needed for that."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from result_strategies import run_results

from codeflash_parallel.hosts.scoring import (
    Score,
    ScoreFormat,
    metrics_of,
    scores_of,
    submissions_of,
    texts_of,
)
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin, FileText, FileTexts
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import (
    CandidateResult,
    FirstDifference,
    LineProfile,
    LineTiming,
    RunResult,
    Speedup,
)

GAIN = Speedup(estimate=2.0, low=1.6, high=2.4)
LOSS = Speedup(estimate=0.8, low=0.7, high=0.9)


def candidate(status: CandidateStatus, code: Code, **fields: object) -> CandidateResult:
    given = {"id": CandidateId("program-1"), "origin": CandidateOrigin.EDITS, "reason": "So.", **fields}
    return CandidateResult(status=status, code=code, **given)  # type: ignore[arg-type]


def score_of(*candidates: CandidateResult, **fields: object) -> Score:
    run = RunResult(run_id="r1", complete=True, verdict=Verdict.TIE, candidates=candidates, **fields)  # type: ignore[arg-type]
    return scores_of(run)[0]


@pytest.mark.parametrize(
    ("status", "code", "speedup", "fitness", "is_correct"),
    [
        (CandidateStatus.WON, Code.OK, GAIN, 1.6, True),
        (CandidateStatus.TIED, Code.OK, GAIN, 1.6, True),
        (CandidateStatus.LOST, Code.BEATEN, GAIN, 1.6, True),
        (CandidateStatus.LOST, Code.NOT_FASTER, LOSS, 0.7, True),
        (CandidateStatus.LOST, Code.GAIN_ONLY_ON_SEEN_INPUTS, GAIN, 1.0, True),
        (CandidateStatus.LOST, Code.NOT_CONFIRMED, GAIN, 1.0, True),
        (CandidateStatus.LOST, Code.TOO_NOISY, None, 1.0, True),
        (CandidateStatus.REJECTED, Code.VALUE_DIFFERS, None, 0.0, False),
        (CandidateStatus.UNAPPLIABLE, Code.DOES_NOT_PARSE, None, 0.0, False),
    ],
)
def test_fitness_is_the_lower_bound_of_what_is_credited(
    status: CandidateStatus, code: Code, speedup: Speedup | None, fitness: float, *, is_correct: bool
) -> None:
    score = score_of(candidate(status, code, speedup=speedup))
    assert (score.fitness, score.is_correct) == (fitness, is_correct)


def test_a_duplicate_has_the_score_of_what_it_repeats() -> None:
    same = candidate(CandidateStatus.DUPLICATE, Code.SAME_CODE, duplicate_of="baseline")
    assert (score_of(same).fitness, score_of(same).is_correct) == (1.0, True)
    won = candidate(CandidateStatus.WON, Code.OK, id=CandidateId("program-2"), speedup=GAIN)
    again = candidate(CandidateStatus.DUPLICATE, Code.SAME_CODE, duplicate_of="program-2")
    assert score_of(again, won).fitness == 1.6
    third = candidate(
        CandidateStatus.DUPLICATE, Code.SAME_CODE, id=CandidateId("c"), duplicate_of="program-1"
    )
    assert (score_of(third, same).fitness, score_of(third, same).is_correct) == (1.0, True)


def test_feedback_shows_the_first_difference_and_the_slowest_lines() -> None:
    difference = FirstDifference(
        target="m.py::f", test="t", call=3, inputs="[1, 2]", expected="3", got="4", smaller_inputs="[1]"
    )
    wrong = candidate(CandidateStatus.REJECTED, Code.VALUE_DIFFERS, difference=difference)
    feedback = score_of(wrong).feedback
    assert "inputs:   [1]" in feedback
    assert "expected: 3" in feedback
    assert "got:      4" in feedback
    won = candidate(CandidateStatus.WON, Code.OK, speedup=GAIN)
    lines = [LineTiming(path="m.py", line=n, hits=1, time_ns=10 * n, text=f"line {n}") for n in (1, 2, 7)]
    profile = LineProfile(tracer="sys.settrace", lines=tuple(lines))
    assert " 70% 7: line 7\n   20% 2: line 2" in score_of(won, winner=won.id, winner_profile=profile).feedback


def test_programs_are_texts_files_or_several_files(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("a = 1\n")
    given = ["a = 1\n", tmp_path / "p.py", {"m.py": "a = 1\n"}]
    submissions = submissions_of(given, "m.py")
    assert [one.id for one in submissions] == ["program-1", "program-2", "program-3"]
    assert {one.content for one in submissions} == {FileTexts(files=(FileText(path="m.py", text="a = 1\n"),))}


SCORE = Score(fitness=1.6, is_correct=True, estimate=2.0, code="OK", feedback="won OK: So.", run_id="r1")


def test_every_host_gets_its_form() -> None:
    assert texts_of(SCORE, ScoreFormat.METRIC) == {
        "-": "METRIC combined_score=1.6\nMETRIC correct=1\nMETRIC speedup=2\n"
    }
    found = {
        form: {name: json.loads(text) for name, text in texts_of(SCORE, form).items()}
        for form in ScoreFormat
        if form is not ScoreFormat.METRIC
    }
    assert found[ScoreFormat.OPENEVOLVE]["-"]["metrics"] == metrics_of(SCORE)
    assert found[ScoreFormat.GEPA]["-"]["score"] == 1.6
    assert found[ScoreFormat.SHINKA]["correct.json"] == {"correct": True, "error": ""}
    assert found[ScoreFormat.SHINKA]["metrics.json"]["combined_score"] == 1.6
    assert found[ScoreFormat.CORAL]["-"]["aggregated"] == 1.6
    assert found[ScoreFormat.CORAL]["-"]["scores"]["speedup"]["value"] == 1.6
    assert found[ScoreFormat.EVO]["-"]["score"] == 1.6
    assert found[ScoreFormat.HARBOR] == {"reward.json": {"reward": 1.6, "correct": 1.0}}
    assert all(("-" not in texts) == form.has_files for form, texts in found.items())


@pytest.mark.parametrize("status", [CandidateStatus.INFRA, CandidateStatus.CANCELLED])
def test_a_failure_of_the_machinery_is_no_score(status: CandidateStatus) -> None:
    lost = candidate(status, Code.INFRA_DISK)
    again = candidate(CandidateStatus.DUPLICATE, Code.SAME_CODE, id=CandidateId("b"), duplicate_of=lost.id)
    with pytest.raises(EnvironmentFault, match=r"There is no score: So\."):
        score_of(again, lost)


@given(run_results())
def test_any_result_has_scores(result: RunResult) -> None:
    submitted = [one for one in result.candidates if one.parent is None]
    with suppress(EnvironmentFault):  # not all of them were judged
        scores = scores_of(result)
        assert len(scores) == len(submitted)
        assert all(score.fitness == 0 or score.is_correct for score in scores)
