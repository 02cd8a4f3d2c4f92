"""Repair and refinement through the whole engine, with scripted providers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from projects import FAST_TOTAL, WRONG_TOTAL, make_project
from scripted_race import simulated

from codeflash_parallel import (
    Answer,
    Evaluator,
    RaceMode,
    RefinementRequest,
    RepairRequest,
    Replacement,
    Settings,
    Submission,
)
from codeflash_parallel.repair.provider_protocol import RefinementKind
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.run.race_phase import race_coordinator

pytestmark = pytest.mark.engine

TARGET = "shop/sums.py::total"

#: Work in layers: each refinement takes one away, so that each is much faster than its parent.
LAYERS = """
def total(values):
    result = 0
    for value in values:
        for _ in range({layers}):
            pass  # layer
        result += value * value
    return result
"""

TESTS = """
import pytest
from shop.sums import total

@pytest.mark.parametrize("length", [50, 100, 150])
def test_total(length):
    assert total(list(range(length))) == sum(v * v for v in range(length))
"""


def candidate(name: str, code: str) -> Submission:
    return Submission(id=CandidateId(name), content=Replacement(code=code))


def settings(cache: Path, **fields: object) -> Settings:
    return Settings(functions=(TARGET,), cache_dir=str(cache), parallel_candidates=1, **fields)  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_a_repair_has_evidence_and_comes_back_as_a_candidate(shop: Path) -> None:
    project = shop / "project"
    asked: list[RepairRequest] = []

    def repair(request: RepairRequest) -> Answer:
        asked.append(request)
        return Answer(content=Replacement(code=FAST_TOTAL), explanation="square them")

    async with Evaluator(project, settings(shop / "cache")) as evaluator:
        result = await evaluator.evaluate(
            [candidate("wrong", WRONG_TOTAL)], repairer=repair, race=RaceMode.CHECK
        )
    (request,) = asked
    assert request.code == "TESTS_FAILED"
    assert "assert" in request.failures[0].message
    assert "sum(values)" in request.diff
    assert "sum(values)" in dict(request.source)["shop/sums.py"]
    wrong, repaired = result.candidates
    assert (wrong.status, wrong.code) == (CandidateStatus.REJECTED, Code.TESTS_FAILED)
    assert (repaired.status, repaired.origin) == (CandidateStatus.UNDECIDED, CandidateOrigin.REPAIR)
    assert (repaired.id, repaired.parent, repaired.lineage) == ("wrong-repaired", "wrong", ("wrong",))
    assert repaired.explanation == "square them"


@pytest.mark.anyio
async def test_repairs_stop_at_the_budget(shop: Path) -> None:
    project = shop / "project"
    asked: list[str] = []

    def repair(request: RepairRequest) -> Answer:
        asked.append(request.candidate)
        return Answer(content=Replacement(code=f"def total(values):\n    return {len(asked)}\n"))

    own = settings(shop / "cache", repairs_per_candidate=2)
    async with Evaluator(project, own) as evaluator:
        result = await evaluator.evaluate(
            [candidate("wrong", WRONG_TOTAL)], repairer=repair, race=RaceMode.CHECK
        )
    assert asked == ["wrong", "wrong-repaired"]
    assert [c.id for c in result.candidates] == ["wrong", "wrong-repaired", "wrong-repaired-repaired"]


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_provider_that_fails_costs_its_own_request_only(shop: Path) -> None:
    project = shop / "project"
    release = threading.Event()

    def repair(request: RepairRequest) -> Answer:
        if request.candidate == "raises":
            raise RuntimeError("no idea")
        if request.candidate == "nonsense":
            return "not an answer"  # type: ignore[return-value]
        release.wait()
        return Answer(content=Replacement(code=FAST_TOTAL))

    submissions = [
        candidate("raises", "def total(values):\n    return -1\n"),
        candidate("nonsense", "def total(values):\n    return -2\n"),
        candidate("hangs", "def total(values):\n    return -3\n"),
        candidate("right", FAST_TOTAL),
    ]
    own = settings(shop / "cache", provider_timeout=1.0)
    try:
        async with Evaluator(project, own) as evaluator:
            result = await evaluator.evaluate(submissions, repairer=repair, race=RaceMode.CHECK)
    finally:
        release.set()
    assert [c.status for c in result.candidates] == [CandidateStatus.REJECTED] * 3 + [
        CandidateStatus.UNDECIDED
    ]
    said = " ".join(result.warnings)
    assert "no idea" in said
    assert "expected an Answer" in said
    assert "within 1 s" in said


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_refinement_needs_the_profile_and_adaptive_ones_see_their_ancestors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a machine under load measures is not what this is about: the race is a simulated one."""
    texts = {"shop__sums_py": LAYERS.format(layers=400), "tests__test_sums_py": TESTS}
    project = make_project(tmp_path / "project", **texts)
    layers = {"first": 100}
    speedups = {"first": 400 / 100}
    monkeypatch.setattr(race_coordinator, "_race", simulated(speedups))
    batches: list[Sequence[RefinementRequest]] = []

    def refine(requests: Sequence[RefinementRequest]) -> list[Answer]:
        batches.append(requests)
        answers = []
        for request in requests:
            assert request.profile is not None
            hot = max(request.profile.lines, key=lambda line: line.hits)
            # Only the profile says which line is the hot one.
            assert "for _ in range" in hot.text or "pass" in hot.text
            left = layers[request.candidate] // 5
            layers[f"{request.candidate}-refined"] = left
            speedups[f"{request.candidate}-refined"] = 400 / max(left, 1)
            answers.append(
                Answer(content=Replacement(code=LAYERS.format(layers=left)), parent=request.candidate)
            )
        return answers

    own = settings(tmp_path / "cache", refine_top=1, refine_depth=3)
    async with Evaluator(project, own) as evaluator:
        result = await evaluator.evaluate([candidate("first", LAYERS.format(layers=100))], refiner=refine)
    requests = [request for batch in batches for request in batch]
    assert [r.kind for r in requests[:3]] == [RefinementKind.FIRST, *[RefinementKind.ADAPTIVE] * 2]
    assert [a.candidate for a in requests[2].ancestry] == [
        "first", "first-refined", "first-refined-refined",
    ]  # fmt: skip
    assert all(a.speedup is not None for a in requests[2].ancestry)
    assert result.verdict in {Verdict.WINNER, Verdict.TIE}
    assert result.winner != "first"
    derived = [c for c in result.candidates if c.origin is CandidateOrigin.REFINEMENT]
    assert [c.parent for c in derived[:2]] == ["first", "first-refined"]
