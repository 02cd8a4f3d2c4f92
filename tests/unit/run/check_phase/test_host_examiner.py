"""Checks by other hosts: who is sent to them, and what of their findings counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    PatchText,
    Submission,
)
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.events import Stage, Step
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.run.check_phase.candidate_examiner import Examination, _Examined
from codeflash_parallel.run.check_phase.host_examiner import HostExaminer
from codeflash_parallel.run.ledger import CandidateEntry, CandidateTimes, Ledger
from codeflash_parallel.run.remote_hosts import RemoteHosts
from codeflash_parallel.run.run_state import StepCache, StepKind

pytestmark = pytest.mark.anyio

OK = CheckOutcome(code=Code.OK, reason="")
WRONG = CheckOutcome(code=Code.TESTS_FAILED, reason="a test fails")
SLOW = CheckOutcome(code=Code.TIMEOUT, reason="it takes too long")
#: Nothing is run here.
NOTHING = Examination()


def put(context: Any, entry: CandidateEntry, look: StepKind, outcome: CheckOutcome) -> None:
    times = CandidateTimes(held_ns=5, tests_ns=3)
    found = _Examined(outcome=outcome, times=times, notes=("n",), kept_slot="", reproduce="run it")
    context.cache.put(_Examined, found, look, entry.staged.content_key)


def judged(context: Any, entry: CandidateEntry) -> None:
    context.cache.put(bool, True, StepKind.JUDGED, entry.staged.content_key)


@dataclass
class Hosts:
    """Hosts that find what they are told to."""

    context: Any
    finds: dict[StepKind, CheckOutcome] = field(default_factory=dict)
    fails: CheckOutcome | None = None
    fault: EnvironmentFault | None = None
    asked: list[str] = field(default_factory=list)

    async def check(self, entry: CandidateEntry, /) -> CheckOutcome | None:
        self.asked.append(entry.id)
        if self.fault is not None:
            raise self.fault
        self.context.ledger.move(entry, Step.STAGE, host="h1")
        for look, outcome in self.finds.items():
            put(self.context, entry, look, outcome)
        if self.fails is None:
            judged(self.context, entry)
        return self.fails


@pytest.fixture
def context(tmp_path: Path) -> Any:
    return SimpleNamespace(ledger=Ledger("run"), cache=StepCache(tmp_path))


@pytest.fixture
def entry(context: Any) -> CandidateEntry:
    made: CandidateEntry = context.ledger.add(
        Submission(id=CandidateId("c"), content=PatchText(patch="")),
    )
    made.candidate = Candidate(id=made.id, origin=CandidateOrigin.PATCH, edits=())
    for step in (Step.PREPARE, Step.ENQUEUE):
        context.ledger.move(made, step)
    return made


async def judge(context: Any, hosts: Hosts, entry: CandidateEntry, look: StepKind) -> CheckOutcome:
    return await HostExaminer(context, cast("RemoteHosts", hosts)).judge(entry, NOTHING, look)


@pytest.mark.parametrize("outcome", [OK, WRONG])
async def test_the_first_look_is_what_a_host_has_found(
    context: Any, entry: CandidateEntry, outcome: CheckOutcome
) -> None:
    hosts = Hosts(context, {StepKind.SCREEN: outcome})
    assert await judge(context, hosts, entry, StepKind.SCREEN) == outcome
    assert hosts.asked == ["c"]
    assert entry.stage is Stage.CHECKING
    assert (entry.time.tests_ns, entry.notes, entry.reproduce) == (3, ["n"], "run it")


@pytest.mark.parametrize("known", [StepKind.SCREEN, StepKind.CLEAN, StepKind.FRESH])
async def test_one_whose_checks_did_not_come_to_their_end_is_checked(
    context: Any, entry: CandidateEntry, known: StepKind
) -> None:
    put(context, entry, known, OK)
    hosts = Hosts(context, {StepKind.SCREEN: WRONG})
    assert await judge(context, hosts, entry, StepKind.SCREEN) == WRONG
    assert hosts.asked == ["c"]


async def test_one_that_is_judged_is_not_checked_again(context: Any, entry: CandidateEntry) -> None:
    put(context, entry, StepKind.SCREEN, WRONG)
    judged(context, entry)
    hosts = Hosts(context)
    assert await judge(context, hosts, entry, StepKind.SCREEN) == WRONG
    assert hosts.asked == []
    assert entry.stage is Stage.CHECKING


async def test_what_no_host_could_judge_is_the_outcome_whatever_is_stored(
    context: Any, entry: CandidateEntry
) -> None:
    hosts = Hosts(context, {StepKind.SCREEN: OK}, fails=SLOW)
    assert await judge(context, hosts, entry, StepKind.SCREEN) is SLOW


async def test_one_that_no_host_took_is_at_the_same_stage(context: Any, entry: CandidateEntry) -> None:
    class Refusing(Hosts):
        async def check(self, entry: CandidateEntry, /) -> CheckOutcome | None:
            return SLOW

    assert await judge(context, Refusing(context), entry, StepKind.SCREEN) is SLOW
    assert entry.stage is Stage.CHECKING


@pytest.mark.parametrize("look", [StepKind.REST, StepKind.CLEAN, StepKind.FRESH])
async def test_a_later_look_was_made_with_the_first_one(
    context: Any, entry: CandidateEntry, look: StepKind
) -> None:
    hosts = Hosts(context, {StepKind.SCREEN: OK, look: WRONG})
    entry.outcome = await judge(context, hosts, entry, StepKind.SCREEN)
    context.ledger.move(entry, Step.PASS)
    assert await judge(context, hosts, entry, look) == WRONG
    assert hosts.asked == ["c"]
    assert entry.stage is Stage.CHECKING
    assert entry.confirming.tests_ns == 3


async def test_a_later_look_that_no_host_made_has_nothing_to_add(context: Any, entry: CandidateEntry) -> None:
    hosts = Hosts(context, {StepKind.SCREEN: OK})
    entry.outcome = await judge(context, hosts, entry, StepKind.SCREEN)
    context.ledger.move(entry, Step.PASS)
    assert await judge(context, hosts, entry, StepKind.FRESH) == OK
    assert entry.stage is Stage.CHECKING
    assert hosts.asked == ["c"]


async def test_a_leader_that_is_confirmed_stays_at_its_stage(context: Any, entry: CandidateEntry) -> None:
    put(context, entry, StepKind.CLEAN, WRONG)
    for step in (Step.STAGE, Step.PASS, Step.RACE, Step.MEASURE, Step.CONFIRM):
        context.ledger.move(entry, step)
    assert await judge(context, Hosts(context), entry, StepKind.CLEAN) == WRONG
    assert entry.stage is Stage.CONFIRMING


async def test_a_fault_of_all_hosts_is_raised(context: Any, entry: CandidateEntry) -> None:
    hosts = Hosts(context, fault=EnvironmentFault("NO_CLUSTER", "No host is left."))
    with pytest.raises(EnvironmentFault, match="No host is left"):
        await judge(context, hosts, entry, StepKind.SCREEN)
    assert entry.stage is Stage.QUEUED
