"""The check phase: order, duplicates, repairs, limits; all without processes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from codeflash_parallel.candidates.code_changes import Constant
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    PatchText,
    Submission,
    Unappliable,
)
from codeflash_parallel.result.events import Step
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.run.check_phase import check_coordinator
from codeflash_parallel.run.check_phase.check_coordinator import AHEAD, CheckCoordinator
from codeflash_parallel.run.ledger import CandidateEntry, Ledger
from codeflash_parallel.run.run_state import StepCache, StepKind

#: Outcomes by the beginning of a candidate's name; all others pass.
CODES = {"wrong": Code.TESTS_FAILED, "broken": Code.INFRA_SLOT}


def submission(name: str, parent: str = "") -> Submission:
    origin = CandidateOrigin.REPAIR if parent else None
    return Submission(
        id=CandidateId(name),
        content=PatchText(patch=name),
        origin=origin,
        parent=CandidateId(parent) if parent else None,
    )


class Examiner:
    """Checks by name, one at a time."""

    def __init__(self, context: Any) -> None:
        self._ledger, self._turn = context.ledger, anyio.Lock()
        self.checked: list[str] = []

    async def judge(self, entry: CandidateEntry, _examination: object, look: StepKind) -> CheckOutcome:
        async with self._turn:
            self._ledger.move(entry, Step.STAGE)
            self.checked.append(entry.id)
            await anyio.lowlevel.checkpoint()
        code = next((code for start, code in CODES.items() if entry.id.startswith(start)), Code.OK)
        return CheckOutcome(code=code if look is StepKind.SCREEN else Code.OK, reason="so it is")


class Fresh:
    def __init__(self, context: object, constants: Sequence[Constant] = ()) -> None:
        self.known, self._constants = None, constants

    def constants_of(self, candidates: Sequence[Candidate]) -> tuple[Constant, ...]:
        return (*(candidate.id for candidate in candidates), *self._constants)

    def constants_in(self, candidate: Candidate) -> tuple[Constant, ...]:
        return (candidate.id,)

    async def cover(self, _entries: object) -> None:
        """There are none."""


class Preparer:
    async def candidate(self, entry: CandidateEntry) -> Candidate | Unappliable:
        await anyio.lowlevel.checkpoint()
        if entry.id == "nonsense":
            return Unappliable(code=Code.DOES_NOT_APPLY.value, reason="no")
        return Candidate(id=entry.id, origin=CandidateOrigin.PATCH, edits=(), diff=entry.id)

    async def prepare_all(self, entries: Iterable[CandidateEntry]) -> list[Candidate]:
        made = [await self.candidate(entry) for entry in entries]
        return [one for one in made if isinstance(one, Candidate)]


class Providers:
    """Repairs `wrong` candidates, whose repairs are wrong once more."""

    def __init__(self) -> None:
        self.left = 2

    async def repair(self, entry: CandidateEntry) -> list[Submission]:
        await anyio.lowlevel.checkpoint()
        self.left -= 1
        return [submission("wrong again" if self.left else "right", entry.id)] if self.left >= 0 else []


class Hosts:
    """Hosts that are told constants."""

    ahead = 3

    def __init__(self) -> None:
        self.told: list[Constant] = []

    def use_constants(self, constants: Sequence[Constant], /) -> None:
        self.told += constants


def made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hosts: Hosts | None = None,
    constants: Sequence[Constant] = (),
    **settings: int,
) -> Any:
    """Return the coordinator, its ledger and its examiner."""
    monkeypatch.setattr(check_coordinator, "CandidateExaminer", Examiner)
    monkeypatch.setattr(check_coordinator, "FreshInputs", Fresh)
    monkeypatch.setattr(check_coordinator, "ScreeningCheck", lambda *_: None)
    ledger = Ledger("run")
    changes = SimpleNamespace(
        flags_of=lambda _candidate: (),
        is_none=lambda candidate: candidate.id == "same",
        print_of=lambda candidate: candidate.id.partition(" ")[0] if "copy" in candidate.id else candidate.id,
    )
    context: Any = SimpleNamespace(
        ledger=ledger,
        cache=StepCache(tmp_path),
        run_dir=tmp_path,
        races=False,
        changes=changes,
        plan=SimpleNamespace(rest=()),
        settings=SimpleNamespace(**{"max_candidates": 0, "stop_after": 0, **settings}),
        steps=SimpleNamespace(begin=lambda _step: None),
    )
    providers, preparer = Providers(), Preparer()
    return CheckCoordinator(context, preparer, providers, hosts, constants), ledger  # type: ignore[arg-type]


def statuses(ledger: Ledger) -> dict[str, str]:
    return {entry.id: str(entry.result.status if entry.result else entry.stage) for entry in ledger}


@pytest.mark.anyio
async def test_candidates_are_checked_in_order_and_duplicates_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator, ledger = made(tmp_path, monkeypatch)
    names = ("a", "nonsense", "b", "same", "a copy", "broken")
    await coordinator.screen([ledger.add(submission(name)) for name in names])
    assert coordinator._examiner.checked == ["a", "b", "broken"]
    assert statuses(ledger) == {
        "a": "passed",
        "nonsense": CandidateStatus.UNAPPLIABLE,
        "b": "passed",
        "same": CandidateStatus.DUPLICATE,
        "a copy": CandidateStatus.DUPLICATE,
        "broken": CandidateStatus.INFRA,
    }
    copy = ledger.get(CandidateId("a copy")).result
    assert copy is not None
    assert copy.duplicate_of == "a"


@pytest.mark.anyio
async def test_repairs_are_checked_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator, ledger = made(tmp_path, monkeypatch)
    await coordinator.screen([ledger.add(submission("wrong"))])
    assert statuses(ledger) == {
        "wrong": CandidateStatus.REJECTED,
        "wrong again": CandidateStatus.REJECTED,
        "right": "passed",
    }
    assert ledger.get(CandidateId("right")).lineage == ("wrong", "wrong again")


@pytest.mark.anyio
async def test_no_more_are_checked_than_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator, ledger = made(tmp_path, monkeypatch, max_candidates=2)
    await coordinator.screen([ledger.add(submission(name)) for name in ("wrong", "b", "c")])
    assert statuses(ledger)["c"] == CandidateStatus.CANCELLED
    assert statuses(ledger)["wrong again"] == CandidateStatus.CANCELLED


@pytest.mark.anyio
async def test_an_endless_source_is_left_once_enough_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator, ledger = made(tmp_path, monkeypatch, stop_after=2)

    async def produce() -> AsyncGenerator[CandidateEntry, None]:
        number = 0
        while True:
            number += 1
            yield ledger.add(submission(f"c{number}"))

    with anyio.fail_after(30):
        await coordinator.screen(produce())
    found = list(statuses(ledger).values())
    assert found.count("passed") == 2
    assert set(found) == {"passed", CandidateStatus.CANCELLED}
    assert len(found) <= 2 + AHEAD


@pytest.mark.anyio
async def test_those_that_passed_are_completed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator, ledger = made(tmp_path, monkeypatch)
    learned = anyio.Event()
    learned.set()
    await coordinator.screen([ledger.add(submission(name)) for name in ("a", "b")])
    assert await coordinator.complete(learned) == []
    coordinator._fresh.cover = None
    assert await coordinator.complete(learned) == []


@pytest.mark.anyio
async def test_other_hosts_are_told_the_constants_of_all_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = Hosts()
    check, ledger = made(tmp_path, monkeypatch, hosts, max_candidates=3)
    entries = [ledger.add(submission(name)) for name in ("one", "nonsense", "two", "too many")]
    await check.tell_constants(entries)
    assert hosts.told == ["one", "two"]

    async def coming() -> AsyncGenerator[CandidateEntry, None]:
        yield entries[0]

    await check.tell_constants(coming())
    assert hosts.told == ["one", "two"]


@pytest.mark.anyio
async def test_constants_of_the_whole_run_are_used_besides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = Hosts()
    check, ledger = made(tmp_path, monkeypatch, hosts, constants=(7, "seven"))
    await check.tell_constants([ledger.add(submission("one"))])
    assert hosts.told == ["one", 7, "seven"]


@pytest.mark.anyio
async def test_constants_of_later_candidates_are_told_before_they_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = Hosts()
    monkeypatch.setattr(check_coordinator, "HostExaminer", lambda context, _hosts: Examiner(context))
    check, ledger = made(tmp_path, monkeypatch, hosts)
    await check.screen([ledger.add(submission(name)) for name in ("one", "nonsense", "one copy", "wrong")])
    assert hosts.told == ["one", "wrong", "wrong again", "right"]
