"""Candidates in slots: how many at once, what is tried again, where their time goes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Edit,
    PatchText,
    Submission,
)
from codeflash_parallel.result.events import Step
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.result.result_model import FailedTest
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.run.check_phase.candidate_examiner import (
    MAX_ATTEMPTS,
    CandidateExaminer,
    Examination,
    escaped,
    escapes,
    with_trace,
)
from codeflash_parallel.run.ledger import CandidateEntry
from codeflash_parallel.run.run_state import StepCache, StepKind
from codeflash_parallel.workspace.slot.slot import SlotResidue

SECOND = 10**9
OK = CheckOutcome(code=Code.OK, reason="")
FAILED = CheckOutcome(code=Code.TESTS_FAILED, reason="wrong")
BROKEN = CheckOutcome(code=Code.INFRA_SLOT, reason="it broke")
STARVED = CheckOutcome(code=Code.TIMEOUT, reason="slow", starved=True)


class Slot:
    def __init__(self, number: int, folder: Path) -> None:
        self.number, self.folder, self.broken = number, folder, ""
        self.workspace = SimpleNamespace(number=number)
        self.staged: list[object] = []
        self.trace = SlotResidue()

    async def stage(self, edits: object) -> None:
        self.staged.append(edits)


class Pool:
    """Slots without anything in them; knows how many are held and were held at most."""

    def __init__(self, size: int, folder: Path) -> None:
        self.size, self.held, self.most, self.alone = size, 0, 0, 0
        self._slots = [Slot(number + 1, folder) for number in range(size)]
        self._free = anyio.Semaphore(size)

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Slot]:
        async with self._free:
            self.held += 1
            self.most = max(self.most, self.held)
            slot = self._slots.pop()
            yield slot
            self._slots.append(slot)
            self.held -= 1

    @asynccontextmanager
    async def acquire_all(self) -> AsyncIterator[tuple[Slot, ...]]:
        self.alone += 1
        yield tuple(self._slots)


@dataclass(kw_only=True, eq=False)
class Entry(CandidateEntry):
    """A candidate that counts the attempts at it."""

    attempts: int = 0


class Script(Examination):
    """Gives the outcomes that it is told to, one after the other; the last one again and again."""

    def __init__(self, *outcomes: CheckOutcome, breaks: bool = False) -> None:
        self._outcomes = list(outcomes)
        self._breaks = breaks
        self.prepared: list[int] = []

    async def prepare(self, slot: Any, /) -> None:
        assert slot.staged == []
        self.prepared.append(slot.number)

    async def run(self, entry: CandidateEntry, slot: Any, /) -> CheckOutcome:
        assert isinstance(entry, Entry)
        entry.attempts += 1
        assert slot.staged.pop() == entry.staged.edits
        await anyio.lowlevel.checkpoint()
        slot.broken = "it cannot be restored" if self._breaks else ""
        return self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]

    def workspace(self, slot: Any, /) -> Workspace:
        raise AssertionError("a slot is kept")


class Steps:
    """A ledger that notes the steps of candidates."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def move(self, _entry: CandidateEntry, step: Step, _slot: int) -> None:
        self.taken.append(step.value)


class Forgetful:
    """A step cache in which nothing is found; `stored` has what was put there."""

    def __init__(self) -> None:
        self.stored: list[Any] = []

    def get(self, *_key: object) -> None:
        """Nothing is known."""

    def put(self, _result: object, value: object, *_key: object) -> None:
        self.stored.append(value)


def context(
    pool: Pool, *, cores: float = 8, wall_s: float = 1.0, cpu_s: float = 1.0, rss_bytes: int = 0
) -> Any:
    async def dismiss(_number: int) -> None:
        """There are no servers."""

    baseline = SimpleNamespace(
        cpu_ns=int(cpu_s * SECOND), wall_ns=int(wall_s * SECOND), rss_bytes=rss_bytes, leftovers=()
    )
    return SimpleNamespace(
        pool=pool,
        baseline=baseline,
        setup=SimpleNamespace(shares=SimpleNamespace(cores=cores, free_bytes=1 << 30)),
        ledger=Steps(),
        fleet=SimpleNamespace(bytes_of_a_slot=100 << 20, dismiss=dismiss),
        settings=SimpleNamespace(keep_slots=False),
        quiet=HostLock(None),
        cache=Forgetful(),
    )


def entry(name: str = "c") -> Entry:
    made = Entry(submission=Submission(id=CandidateId(name), content=PatchText(patch="")), lineage=())
    made.candidate = Candidate(id=made.id, origin=CandidateOrigin.PATCH, edits=())
    return made


async def judge(judging: CandidateExaminer, one: CandidateEntry, examination: Script) -> CheckOutcome:
    return await judging.judge(one, examination, StepKind.SCREEN)


async def crowd(pool: Pool, surroundings: Any, count: int = 12, outcome: CheckOutcome = OK) -> Pool:
    judging = CandidateExaminer(surroundings)
    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(judge, judging, entry(f"c{number}"), Script(outcome))
    return pool


@pytest.mark.anyio
async def test_as_many_at_once_as_there_are_slots(tmp_path: Path) -> None:
    pool = Pool(4, tmp_path)
    assert (await crowd(pool, context(pool))).most == 4


@pytest.mark.anyio
@pytest.mark.parametrize(
    "surroundings",
    [{"cores": 2}, {"cores": 4, "cpu_s": 2.0}, {"rss_bytes": 400 << 20}],
    ids=["cores", "busy", "memory"],
)
async def test_no_more_than_cores_and_memory_bear(tmp_path: Path, surroundings: dict[str, float]) -> None:
    pool = Pool(4, tmp_path)
    assert (await crowd(pool, context(pool, **surroundings))).most == 2


@pytest.mark.anyio
async def test_what_the_machinery_breaks_is_tried_again(tmp_path: Path) -> None:
    surroundings, one = context(Pool(1, tmp_path)), entry()
    examination = Script(BROKEN, OK)
    assert await judge(CandidateExaminer(surroundings), one, examination) is OK
    assert (one.attempts, examination.prepared) == (2, [1, 1])
    assert surroundings.ledger.taken == ["stage", "return", "stage"]


@pytest.mark.anyio
async def test_it_is_given_up_after_some_times(tmp_path: Path) -> None:
    surroundings, one = context(Pool(1, tmp_path)), entry()
    assert await judge(CandidateExaminer(surroundings), one, Script(BROKEN)) is BROKEN
    assert one.attempts == MAX_ATTEMPTS
    assert surroundings.ledger.taken == ["stage", "return", "stage", "return", "stage"]


@pytest.mark.anyio
async def test_a_slot_that_cannot_be_restored_says_nothing_of_a_candidate(tmp_path: Path) -> None:
    pool = Pool(1, tmp_path)
    outcome = await judge(CandidateExaminer(context(pool)), entry(), Script(OK, breaks=True))
    assert (outcome.code, outcome.reason) == (Code.INFRA_SLOT, "it cannot be restored")


@pytest.mark.anyio
@pytest.mark.parametrize(("then", "attempts"), [(OK, 2), (STARVED, 2)])
async def test_who_starved_is_tried_once_more_alone(
    tmp_path: Path, then: CheckOutcome, attempts: int
) -> None:
    pool, one = Pool(2, tmp_path), entry()
    assert await judge(CandidateExaminer(context(pool)), one, Script(STARVED, then)) is then
    assert (one.attempts, pool.alone) == (attempts, 1)


@pytest.mark.anyio
@pytest.mark.parametrize(("slots", "attempts"), [(2, 2), (1, 1)])
async def test_who_found_a_port_taken_is_tried_once_more_alone(
    tmp_path: Path, slots: int, attempts: int
) -> None:
    failed = FailedTest(id="t::a", phase="setup", message="OSError: [Errno 98] Address already in use")
    taken = CheckOutcome(code=Code.TESTS_FAILED, reason="", failures=(failed,))
    pool, one = Pool(slots, tmp_path), entry()
    assert (await judge(CandidateExaminer(context(pool)), one, Script(taken))).code is Code.TESTS_FAILED
    assert (one.attempts, pool.alone, len(one.notes)) == (attempts, attempts - 1, attempts - 1)


@pytest.mark.anyio
async def test_who_just_fails_is_not_tried_again(tmp_path: Path) -> None:
    failed = FailedTest(id="t::a", phase="call", message="AssertionError")
    wrong = CheckOutcome(code=Code.TESTS_FAILED, reason="", failures=(failed,))
    one = entry()
    await judge(CandidateExaminer(context(Pool(2, tmp_path))), one, Script(wrong))
    assert (one.attempts, one.notes) == (1, [])


@pytest.mark.anyio
@pytest.mark.parametrize("first", [STARVED, BROKEN])
async def test_an_attempt_that_does_not_count_keeps_no_slot(tmp_path: Path, first: CheckOutcome) -> None:
    surroundings = context(Pool(2, tmp_path))
    surroundings.settings.keep_slots = True
    one = entry()
    assert await judge(CandidateExaminer(surroundings), one, Script(first, OK)) is OK
    assert one.kept_slot == ""
    with pytest.raises(AssertionError, match="a slot is kept"):
        await judge(CandidateExaminer(surroundings), entry(), Script(first, STARVED))


@pytest.mark.anyio
@pytest.mark.parametrize("code", [Code.INFRA_KILLED, Code.INFRA_MEMORY, Code.INFRA_DISK])
async def test_who_met_a_machine_without_means_is_tried_again_alone(tmp_path: Path, code: Code) -> None:
    pool = Pool(2, tmp_path)
    one = entry()
    assert (
        await judge(CandidateExaminer(context(pool)), one, Script(CheckOutcome(code=code, reason=""), OK))
        is OK
    )
    assert (one.attempts, pool.alone) == (2, 1)


KILLED = CheckOutcome(code=Code.INFRA_KILLED, reason="SIGKILL.", killed=True)


@pytest.mark.anyio
@pytest.mark.parametrize("slots", [1, 2])
async def test_who_is_killed_in_each_attempt_does_so_himself(tmp_path: Path, slots: int) -> None:
    pool, one = Pool(slots, tmp_path), entry()
    outcome = await judge(CandidateExaminer(context(pool)), one, Script(KILLED))
    assert (outcome.code, one.attempts, pool.alone) == (Code.CRASHED, 3, 2)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "attempts",
    [
        (KILLED, BROKEN, KILLED),
        (replace(KILLED, killed=False), KILLED, KILLED),
        (KILLED, KILLED, replace(KILLED, killed=False)),
    ],
)
async def test_who_was_not_killed_by_nobody_known_each_time_is_not_charged(
    tmp_path: Path, attempts: tuple[CheckOutcome, ...]
) -> None:
    outcome = await judge(CandidateExaminer(context(Pool(2, tmp_path))), entry(), Script(*attempts))
    assert outcome.code is Code.INFRA_KILLED


@pytest.mark.anyio
@pytest.mark.parametrize(("slots", "attempts"), [(2, 2), (1, 1)])
async def test_who_got_no_disk_is_charged_only_alone(tmp_path: Path, slots: int, attempts: int) -> None:
    failure = FailedTest(id="t", phase="call", message="OSError: [Errno 28] No space left on device")
    failing = CheckOutcome(code=Code.TESTS_FAILED, reason="t fails", failures=(failure,))
    one = entry()
    outcome = await judge(CandidateExaminer(context(Pool(slots, tmp_path))), one, Script(failing))
    assert (outcome.code, one.attempts) == (Code.DISK_LIMIT, attempts)


def measured(code: Code) -> CheckOutcome:
    return CheckOutcome(code=code, reason="", tests_ns=SECOND, timings_ms={"calls": 1000.0})


@pytest.mark.anyio
async def test_time_is_counted_over_all_attempts(tmp_path: Path) -> None:
    pool, one = Pool(1, tmp_path), entry()
    await judge(CandidateExaminer(context(pool)), one, Script(measured(Code.INFRA_KILLED), measured(Code.OK)))
    assert one.time.tests_ns == 2 * SECOND
    assert one.time.by_step()["calls"] == 2000.0
    assert one.time.held_ns > one.time.stage_ns > 0


# --- what is stored --------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_finding_is_not_made_again_and_its_times_are_restored(tmp_path: Path) -> None:
    pool, first, second = Pool(2, tmp_path), entry("a"), entry("b")
    surroundings = context(pool)
    surroundings.cache = StepCache(tmp_path)
    wrong = replace(measured(Code.TESTS_FAILED), notes=("n",))
    first.notes.append("before")
    assert await judge(CandidateExaminer(surroundings), first, Script(wrong)) == wrong

    assert await judge(CandidateExaminer(surroundings), second, Script(OK)) == wrong

    assert (surroundings.ledger.taken, pool.alone, second.attempts) == (["stage", "stage"], 0, 0)
    assert second.time == first.time
    assert second.notes == ["before"]


@pytest.mark.anyio
async def test_an_outcome_of_other_content_or_of_another_look_does_not_count(tmp_path: Path) -> None:
    surroundings = context(Pool(1, tmp_path))
    surroundings.cache = StepCache(tmp_path)
    judging, one, other = CandidateExaminer(surroundings), entry(), entry()
    other.candidate = replace(other.staged, edits=(Edit(path="p", old_digest=None, new=b"x"),))
    assert await judge(judging, one, Script(OK)) == OK
    assert (await judge(judging, other, Script(FAILED))).code is Code.TESTS_FAILED
    clean = await judging.judge(one, Script(FAILED), StepKind.CLEAN)
    assert clean.code is Code.TESTS_FAILED


@pytest.mark.anyio
@pytest.mark.parametrize(
    "code", [Code.INFRA_SLOT, Code.INFRA_DISK, Code.INFRA_MEMORY, Code.INFRA_KILLED, Code.TIMEOUT]
)
async def test_faults_of_the_machinery_and_timeouts_are_not_stored(tmp_path: Path, code: Code) -> None:
    surroundings = context(Pool(1, tmp_path))
    await judge(CandidateExaminer(surroundings), entry(), Script(CheckOutcome(code=code, reason="")))
    assert surroundings.cache.stored == []
    await judge(CandidateExaminer(surroundings), entry(), Script(FAILED))
    assert [one.outcome for one in surroundings.cache.stored] == [FAILED]


SOUND = CheckOutcome(code=Code.OK, reason="fine")


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (SlotResidue(), ""),
        (SlotResidue(added=("out.txt", "data/x.json", ".hypothesis/examples/a")), ""),
        (SlotResidue(changed=("tests/test_a.py",)), "tests/test_a.py"),
        (SlotResidue(added=("sitecustomize.py",)), "sitecustomize.py"),
        (SlotResidue(added=("lib/fast.so", "a.pth")), "a.pth, lib/fast.so"),
        (SlotResidue(added=("sub/pytest.ini",)), "sub/pytest.ini"),
        (SlotResidue(added=(".git/hooks/post-checkout",)), ".git/hooks"),
        (SlotResidue(mirror=("config",)), "mirror's own files were changed: config"),
        (SlotResidue(changed=("a", "b", "c", "d")), "a, b, c and 1 more"),
    ],
)
def test_what_escapes(trace: SlotResidue, words: str) -> None:
    why = escaped(trace, ())
    assert bool(why) == bool(words)
    assert words in why


def test_what_the_baseline_leaves_is_nobody_s_fault() -> None:
    assert escaped(SlotResidue(changed=("golden.txt",)), ["golden.txt"]) == ""
    assert escaped(SlotResidue(added=("gen/parser_2.py",)), ["gen/parser_1.py"]) == ""
    assert escaped(SlotResidue(added=("parser_2.py",)), ["gen/parser_1.py"]) != ""


def test_a_verdict_becomes_a_rejection_and_a_rejection_gets_a_note() -> None:
    trace = SlotResidue(changed=("tests/test_a.py",))
    assert with_trace(SOUND, SlotResidue(), ()) is SOUND
    assert with_trace(SOUND, trace, ()).code is Code.ESCAPED
    failed = with_trace(CheckOutcome(code=Code.TESTS_FAILED, reason="x"), trace, ())
    assert failed.code is Code.TESTS_FAILED
    assert "tests/test_a.py" in failed.notes[0]


def test_in_a_race_nobody_answers_for_the_mirror() -> None:
    found = escapes(
        {"a": SlotResidue(changed=("x.py",), mirror=("config",)), "b": SlotResidue(mirror=("config",))}, ()
    )
    assert set(found) == {"a"}
    assert (found["a"].status, found["a"].code) == (CandidateStatus.REJECTED, Code.ESCAPED)
