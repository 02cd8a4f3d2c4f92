"""Races that another host holds: who races, what is kept of it, and what is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ranking_cases import held

from codeflash_parallel.baseline.step_reporter import StepReporter
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.race.race_result import POLICIES, RaceRanking
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Edit,
    PatchText,
    Submission,
)
from codeflash_parallel.result.events import CandidateMoved, Event, PhaseStarted, Stage, Step
from codeflash_parallel.result.outcome_codes import Code, Verdict
from codeflash_parallel.run.campaign import Campaign
from codeflash_parallel.run.check_phase.candidate_examiner import _Examined
from codeflash_parallel.run.check_phase.check_coordinator import RaceAdmission
from codeflash_parallel.run.check_phase.host_examiner import HostExaminer
from codeflash_parallel.run.ledger import CandidateEntry, CandidateTimes, Ledger, RaceFinding, RunFindings
from codeflash_parallel.run.race_phase.host_races import HostRaces
from codeflash_parallel.run.remote_hosts import RemoteHosts, RemoteRace
from codeflash_parallel.run.run_state import StepCache, StepKind

pytestmark = pytest.mark.anyio


def finding(winner: str, *losers: str) -> RaceFinding:
    gains = {winner: 2.0, **dict.fromkeys(losers, 1.0)}
    ranking = RaceRanking(verdict=Verdict.WINNER, winner=winner, candidates=(), summary="It wins.")
    return RaceFinding(races=(held(gains),), ranking=ranking)


def _raced(race: RemoteRace) -> list[str]:
    return [name for one in race.finding.races for name in one.candidates]


@dataclass
class Hosts:
    """A host that finds what it is told to, one race after the other."""

    finds: list[RemoteRace]
    fields: list[list[str]] = field(default_factory=list)
    befores: list[RemoteRace | None] = field(default_factory=list)

    async def check(self, entry: CandidateEntry, /) -> CheckOutcome | None:
        raise AssertionError("it is checked")

    async def race(self, entries: Sequence[CandidateEntry], before: RemoteRace | None, /) -> RemoteRace:
        new = entries if before is None else entries[len({*_raced(before)}) :]
        assert all(entry.stage is Stage.RACING for entry in new)
        self.fields.append([entry.id for entry in entries])
        self.befores.append(before)
        return self.finds.pop(0)


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def context(tmp_path: Path, events: list[Event]) -> Any:
    ledger = Ledger("run", (events.append,))
    return SimpleNamespace(
        run_id="run",
        races=True,
        settings=Settings(),
        ledger=ledger,
        cache=StepCache(tmp_path / "run"),
        plan=SimpleNamespace(rest=()),
        campaign=Campaign(tmp_path, "spring"),
        snapshot=SimpleNamespace(tree="2" * 40),
        steps=StepReporter(ledger.announce, "run"),
    )


def account_of(context: Any) -> RunFindings:
    setup: Any = None
    return RunFindings(run_id="run", seed=7, races=True, setup=setup, ledger=context.ledger)


def races_of(context: Any, hosts: Hosts, account: RunFindings) -> HostRaces:
    remote = cast("RemoteHosts", hosts)
    admission = RaceAdmission(context, HostExaminer(context, remote))
    providers: Any = None
    return HostRaces(remote, account, context, admission, providers, POLICIES["fastest"])


def passed(context: Any, *names: str) -> list[CandidateEntry]:
    entries = []
    for name in names:
        entry = context.ledger.add(Submission(id=CandidateId(name), content=PatchText(patch=name)))
        edit = Edit(path="a.py", old_digest=None, new=name.encode())
        entry.candidate = Candidate(id=entry.id, origin=CandidateOrigin.PATCH, edits=(edit,))
        for step in (Step.PREPARE, Step.ENQUEUE, Step.STAGE, Step.PASS):
            context.ledger.move(entry, step)
        entries.append(entry)
    return entries


ROUND = RemoteRace(host="h1", finding=finding("a", "b"), timed={"why": "asked", "timed": "all tests"})


async def test_the_host_chooses_what_is_timed(context: Any) -> None:
    races = races_of(context, Hosts([]), account_of(context))
    assert await races.choose() is None
    await races.make_twins()


async def test_without_a_candidate_no_race_is_held(context: Any) -> None:
    hosts, account = Hosts([]), account_of(context)
    assert not await races_of(context, hosts, account).race()
    assert hosts.fields == []
    assert account.finding == RaceFinding()


async def test_what_a_host_finds_is_the_finding_of_the_run(context: Any, events: list[Event]) -> None:
    hosts, account = Hosts([ROUND]), account_of(context)
    entries = passed(context, "a", "b")
    assert await races_of(context, hosts, account).race()
    assert (hosts.fields, hosts.befores) == ([["a", "b"]], [None])
    assert (account.finding, dict(account.timed)) == (ROUND.finding, dict(ROUND.timed))
    assert {entry.stage for entry in entries} == {Stage.RACED}
    assert [event.phase for event in events if isinstance(event, PhaseStarted)] == ["race"]
    assert "race" in account.spent_ms
    assert context.ledger.warnings == []


async def test_a_later_race_is_held_with_all_that_ever_raced_and_the_new_ones(
    context: Any, events: list[Event]
) -> None:
    second = RemoteRace(host="h1", finding=finding("r", "a"))
    hosts, account = Hosts([ROUND, second]), account_of(context)
    races = races_of(context, hosts, account)
    first, other = passed(context, "a", "b")
    assert await races.race()
    passed(context, "r")
    assert await races.race()
    assert hosts.fields == [["a", "b"], ["a", "b", "r"]]
    raced = [(event.candidate, event.stage) for event in events if isinstance(event, CandidateMoved)]
    assert raced.count((first.id, Stage.RACING)) == 2  # a leader
    assert raced.count((other.id, Stage.RACING)) == 1
    assert hosts.befores == [None, ROUND]
    assert account.finding == second.finding
    assert not await races.race()


async def test_a_run_that_is_resumed_has_its_races_already(context: Any) -> None:
    hosts = Hosts([ROUND, RemoteRace(host="h2", finding=finding("r", "a"))])
    for _ in range(2):
        context.ledger = Ledger("run")
        account = account_of(context)
        passed(context, "a", "b")
        races = races_of(context, hosts, account)
        assert await races.race()
        assert account.finding == ROUND.finding
    assert hosts.fields == [["a", "b"]]
    passed(context, "r")
    assert await races.race()
    assert hosts.befores == [None, ROUND]  # it goes on where the first one was held


async def test_a_race_that_is_not_held_is_told_and_held_again_when_the_run_is_resumed(context: Any) -> None:
    lost = RemoteRace(host="", finding=RaceFinding(not_held="Hosts were lost in it: it was killed."))
    hosts, account = Hosts([lost, ROUND]), account_of(context)
    passed(context, "a", "b")
    assert not await races_of(context, hosts, account).race()
    (warning,) = context.ledger.warnings
    assert warning.startswith("The race was not held: Hosts were lost in it: it was killed. ")
    assert "codeflash-parallel resume run" in warning
    assert account.finding.not_held == "Hosts were lost in it: it was killed."

    context.ledger = Ledger("run")
    account = account_of(context)
    passed(context, "a", "b")
    assert await races_of(context, hosts, account).race()
    assert account.finding == ROUND.finding


async def test_a_later_race_that_is_not_held_keeps_what_the_first_one_has_found(context: Any) -> None:
    lost = RemoteRace(host="", finding=RaceFinding(not_held="Hosts were lost in it: it was killed."))
    hosts, account = Hosts([ROUND, lost, ROUND]), account_of(context)
    races = races_of(context, hosts, account)
    passed(context, "a", "b")
    assert await races.race()
    (new,) = passed(context, "r")
    assert not await races.race()
    assert account.finding == replace(ROUND.finding, not_held=lost.finding.not_held)
    assert dict(account.timed) == dict(ROUND.timed)
    assert new.stage is Stage.RACED
    assert len(context.ledger.warnings) == 1


async def test_a_run_that_only_checks_holds_no_race(context: Any) -> None:
    context.races = False
    hosts = Hosts([])
    passed(context, "a")
    assert not await races_of(context, hosts, account_of(context)).race()
    assert hosts.fields == []


async def test_leaders_that_a_host_has_confirmed_are_confirmed(context: Any, events: list[Event]) -> None:
    outcome = CheckOutcome(code=Code.OK, reason="")
    times = CandidateTimes(held_ns=9, tests_ns=4)
    clean = _Examined(outcome=outcome, times=times, notes=(), kept_slot="", reproduce="")
    leader, other = passed(context, "a", "b")
    context.cache.put(_Examined, clean, StepKind.CLEAN, leader.staged.content_key)
    assert await races_of(context, Hosts([ROUND]), account_of(context)).race()
    confirming = [
        event.candidate
        for event in events
        if isinstance(event, CandidateMoved) and event.stage is Stage.CONFIRMING
    ]
    assert confirming == ["a"]
    assert (leader.stage, other.stage) == (Stage.RACED, Stage.RACED)
    assert (leader.confirming.tests_ns, other.confirming.tests_ns) == (4, 0)


async def test_a_race_of_a_campaign_is_its_next_comparison(context: Any) -> None:
    context.settings = replace(context.settings, campaign="spring")
    hosts, account = Hosts([ROUND]), account_of(context)
    passed(context, "a", "b")
    assert await races_of(context, hosts, account).race()
    assert account.comparison is not None
    assert context.cache.text(StepKind.COMPARISON, 0)
