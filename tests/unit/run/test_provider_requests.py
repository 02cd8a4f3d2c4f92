"""Requests to providers: what they show, when they are made, and answers that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.race.race_result import RaceRanking, RankedCandidate
from codeflash_parallel.repair.provider_protocol import (
    Answer,
    Outcome,
    ProviderAnswers,
    ProviderFailure,
    RefinementRequest,
    RepairRequest,
)
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    PatchText,
    Submission,
)
from codeflash_parallel.result.events import Step
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import FailedTest, Speedup
from codeflash_parallel.run.ledger import CandidateEntry, Ledger, RaceFinding
from codeflash_parallel.run.provider_requests import ProviderRequests
from codeflash_parallel.run.run_state import StepCache

FAILED = CheckOutcome(
    code=Code.TESTS_FAILED, reason="Wrong.", failures=(FailedTest(id="t", phase="call", message="E  assert"),)
)


class Broker:
    """Answers each request with one patch, or not at all."""

    def __init__(self, failure: str = "", *, is_there: bool = True) -> None:
        self.repairs = self.refines = is_there
        self._failure = failure
        self.asked: list[tuple[CandidateId, ...]] = []

    async def request_repair(self, request: RepairRequest) -> Outcome:
        return self._answer([request.candidate])

    async def request_refinement(self, requests: Sequence[RefinementRequest]) -> Outcome:
        return self._answer([request.candidate for request in requests])

    def _answer(self, names: Sequence[CandidateId]) -> Outcome:
        self.asked.append(tuple(names))
        if self._failure:
            return ProviderFailure(reason=self._failure)
        answers = [Answer(content=PatchText(patch=f"for {name}"), parent=name) for name in names]
        return ProviderAnswers(answers=tuple(answers))


def requests(folder: Path, broker: Broker, **settings: Any) -> tuple[ProviderRequests, Ledger]:
    ledger = Ledger("run")
    context: Any = SimpleNamespace(
        ledger=ledger,
        cache=StepCache(folder),
        settings=Settings(**settings),
        targets=("m.py::f",),
        baseline=SimpleNamespace(costs_ns={}),
        pool=None,
        sources_of=lambda _candidate: (("m.py", "text"),),
    )
    made = ProviderRequests(broker, context)  # type: ignore[arg-type]
    return made, ledger


def added(ledger: Ledger, name: str, parent: str = "", *, is_rejected: bool = False) -> CandidateEntry:
    submission = Submission(
        id=CandidateId(name),
        content=PatchText(patch=name),
        origin=CandidateOrigin.REFINEMENT if parent else None,
        parent=CandidateId(parent) if parent else None,
    )
    entry = ledger.add(submission)
    entry.candidate = Candidate(id=entry.id, origin=CandidateOrigin.PATCH, edits=(), diff=f"+{name}")
    if is_rejected:
        entry.outcome = FAILED
        for step in (Step.PREPARE, Step.ENQUEUE, Step.STAGE):
            ledger.move(entry, step)
        ledger.finish(entry, CandidateStatus.REJECTED, FAILED.code, FAILED.reason)
    return entry


@pytest.mark.anyio
async def test_a_rejected_candidate_is_repaired_within_its_budget(tmp_path: Path) -> None:
    broker = Broker()
    made, ledger = requests(tmp_path, broker, repairs_per_candidate=1)
    entry = added(ledger, "wrong", is_rejected=True)
    (submission,) = await made.repair(entry)
    assert (submission.id, submission.parent) == ("wrong-repaired", "wrong")
    assert (submission.kind, submission.content) == (CandidateOrigin.REPAIR, PatchText(patch="for wrong"))
    assert await made.repair(entry) == []
    assert broker.asked == [("wrong",)]


@pytest.mark.anyio
async def test_without_evidence_or_provider_nothing_is_requested(tmp_path: Path) -> None:
    for broker, outcome in (
        (Broker(), CheckOutcome(code=Code.CRASHED, reason="")),
        (Broker(is_there=False), FAILED),
    ):
        made, ledger = requests(tmp_path, broker)
        entry = added(ledger, "wrong", is_rejected=True)
        entry.outcome = outcome
        assert not made.wants_evidence(entry, outcome)
        assert await made.repair(entry) == []
        assert broker.asked == []


@pytest.mark.anyio
async def test_an_answer_is_kept_for_a_process_that_has_no_provider(tmp_path: Path) -> None:
    made, ledger = requests(tmp_path, Broker())
    first = await made.repair(added(ledger, "wrong", is_rejected=True))
    later = Broker(is_there=False)
    again, ledger = requests(tmp_path, later)
    assert await again.repair(added(ledger, "wrong", is_rejected=True)) == first
    assert later.asked == []


@pytest.mark.anyio
async def test_a_failure_is_a_warning_and_is_not_kept(tmp_path: Path) -> None:
    for broker in (Broker("It hung."), Broker("It hung.")):
        made, ledger = requests(tmp_path, broker)
        assert await made.repair(added(ledger, "wrong", is_rejected=True)) == []
        assert (ledger.warnings, broker.asked) == (["It hung."], [("wrong",)])


def finding(**speedups: tuple[float, float]) -> RaceFinding:
    candidates = [
        RankedCandidate(
            id=name,
            status=CandidateStatus.LOST,
            code=Code.OK,
            reason="",
            speedup=Speedup(estimate=estimate, low=low, high=estimate + 1),
        )
        for name, (estimate, low) in speedups.items()
    ]
    ranking = RaceRanking(
        verdict=Verdict.WINNER, winner="", tie_set=(), candidates=tuple(candidates), summary=""
    )
    return RaceFinding(ranking=ranking)


@pytest.mark.anyio
async def test_the_fastest_are_refined_once_and_only_while_their_lineage_gains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_profile(*_: object) -> None:
        """Nothing is profiled."""

    monkeypatch.setattr(ProviderRequests, "_profile_of", no_profile)
    broker = Broker()
    made, ledger = requests(tmp_path, broker, refine_top=3, refine_depth=2)
    for name, parent in (("slow", ""), ("open", ""), ("fast", ""), ("worse", "fast"), ("better", "slow")):
        added(ledger, name, parent)
    speedups = finding(
        slow=(1.1, 1.05), open=(3.0, 0.9), fast=(2.0, 1.8), worse=(1.9, 1.7), better=(1.5, 1.4)
    )
    submissions = await made.refine(speedups)
    assert broker.asked == [("fast", "better")]
    assert [submission.id for submission in submissions] == ["fast-refined", "better-refined"]
    assert await made.refine(speedups) == []
