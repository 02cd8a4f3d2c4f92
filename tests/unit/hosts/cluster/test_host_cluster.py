"""The submitting side: shards, hosts that are lost or unfit, and races; its engine is a script."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from ranking_cases import held

from codeflash_parallel import __version__
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.hosts.cluster.environment_stamp import EnvironmentStamp
from codeflash_parallel.hosts.cluster.host_cluster import ClusterHosts, _Waiting, open_cluster
from codeflash_parallel.hosts.cluster.host_job import HostJob, Message
from codeflash_parallel.race.race_result import RaceFailed, RaceRanking
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Edit,
    PatchText,
    Submission,
)
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.result.events import CandidateMoved, Event, RaceProgress, RunWaits, Stage, Step
from codeflash_parallel.result.outcome_codes import Code, Verdict
from codeflash_parallel.run.check_phase.candidate_examiner import _Examined
from codeflash_parallel.run.ledger import CandidateEntry, CandidateTimes, Ledger, RaceFinding
from codeflash_parallel.run.remote_hosts import RemoteRace, RunPart
from codeflash_parallel.run.run_state import RaceMode, StepCache, StepKind, text_of
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

pytestmark = pytest.mark.anyio

DEADLINE_S = 30.0
STAMP = EnvironmentStamp(python="CPython 3.11.4", platform="Linux")

# --- an engine that does what it is told ---------------------------------------------------------------------


@dataclass(kw_only=True, eq=False)
class Task:
    """A job in the engine's hands.

    Attributes:
        number: of the job, from 1.
        cancelled: nobody wants it any more.
    """

    job: HostJob
    host: str
    number: int
    is_race: bool
    play: Callable[[Task], Iterator[Message]]
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def names(self) -> list[str]:
        return [submission.id for submission in self.job.submissions]

    def messages(self) -> Iterator[Message]:
        for message in self.play(self):
            yield {"host": self.host, **message}

    def cancel(self) -> None:
        self.cancelled.set()


class Engine:
    """Plays jobs on hosts, in turn; `log` has what it was given."""

    def __init__(self, play: Callable[[Task], Iterator[Message]], *hosts: str, places: int = 1) -> None:
        self._play, self._hosts, self._places = play, hosts or ("h1",), places
        self.log: list[Task] = []
        self.wanted: list[str] = []

    def hosts(self) -> Sequence[str]:
        return self._hosts

    def places(self, avoid: Collection[str]) -> int:
        return self._places * sum(host not in avoid for host in self._hosts)

    def share(self, bundle: bytes) -> None:
        raise AssertionError("it is shared before the hosts are opened")

    def submit(self, job: str, *, is_race: bool, avoid: Collection[str], wanted: str = "") -> Task:
        left = [host for host in self._hosts if host not in avoid]
        if wanted and wanted not in left:
            raise EnvironmentFault("HOST_GONE", f"Host {wanted} is not there any more.")
        if not left:
            raise EnvironmentFault("NO_CLUSTER", "No host is left that could race.")
        number = len(self.log) + 1
        host = wanted or left[(number - 1) % len(left)]
        read: HostJob = from_plain(HostJob, json.loads(job))
        task = Task(job=read, host=host, number=number, is_race=is_race, play=self._play)
        self.log.append(task)
        self.wanted.append(wanted)
        return task

    def close(self) -> None:
        """There is nothing to leave."""

    @property
    def shards(self) -> list[list[str]]:
        return [task.names for task in self.log]


# --- what hosts say ------------------------------------------------------------------------------------------

LOST = {"t": "lost", "why": "it was killed."}
ENDED = {"t": "ended", "race": None, "overhead_s": 1.0, "checks_s": 2.0}
OTHER = {"t": "fault", "code": "OTHER_ENVIRONMENT", "message": "It is another one.", "hint": "Make it so."}


def content_of(name: str) -> str:
    return staged(name).content_key


def staged(name: str) -> Candidate:
    edit = Edit(path="a.py", old_digest=None, new=name.encode())
    return Candidate(id=CandidateId(name), origin=CandidateOrigin.PATCH, edits=(edit,))


def found(code: Code, kind: StepKind, name: str) -> Message:
    outcome = CheckOutcome(code=code, reason=f"it is {code}")
    examined = _Examined(outcome=outcome, times=CandidateTimes(), notes=(), kept_slot="", reproduce="")
    text = text_of(_Examined, examined).decode()
    return {"t": "step", "kind": kind.value, "content": content_of(name), "text": text}


def judgement(name: str, status: str, code: Code) -> Message:
    return {"t": "judged", "candidate": name, "status": status, "code": code.value, "reason": f"it is {code}"}


def checked(name: str, code: Code = Code.OK) -> Iterator[Message]:
    """One candidate, checked as a host does it."""
    yield {"t": "checking", "candidate": name}
    yield found(code, StepKind.SCREEN, name)
    if code is Code.OK:
        yield judgement(name, "undecided", Code.NOT_RACED)
    else:
        yield judgement(name, "rejected", code)


def good(task: Task) -> Iterator[Message]:
    """A host that finds every candidate equivalent."""
    yield {"t": "began", "environment": f"that of {task.host}"}
    for name in task.names:
        yield from checked(name)
    yield ENDED


# --- a run around it -----------------------------------------------------------------------------------------


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def context(tmp_path: Path, events: list[Event], monkeypatch: pytest.MonkeyPatch) -> Any:
    """What hosts see of a run: ledger and step cache are real."""
    setup = SimpleNamespace(
        repository=SimpleNamespace(root=Path("/place/shop"), project=Path("sub")),
        interpreter=Path("/place/python"),
        pass_env=("TOKEN",),
    )
    monkeypatch.setenv("TOKEN", "secret")
    return SimpleNamespace(
        run_id="run",
        seed=7,
        races=True,
        setup=setup,
        settings=Settings(prepare="make env", pass_env=("TOK*",), cache_dir="/place/cache"),
        ledger=Ledger("run", (events.append,)),
        cache=StepCache(tmp_path / "run"),
        snapshot=Snapshot(commit="1" * 40, tree="2" * 40, base="3" * 40),
        targets=("shop/sums.py::total",),
    )


def entry_of(context: Any, name: str, *steps: Step) -> CandidateEntry:
    entry = context.ledger.add(Submission(id=CandidateId(name), content=PatchText(patch=name)))
    entry.candidate = staged(name)
    for step in (Step.PREPARE, Step.ENQUEUE, *steps):
        context.ledger.move(entry, step)
    return entry


@asynccontextmanager
async def hosts_of(engine: Engine, context: Any, *, evidence: bool = False) -> AsyncIterator[ClusterHosts]:
    """Open the hosts of a run as it is done, but for the bundle; within a deadline."""
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as group:
            hosts = ClusterHosts(engine, context, STAMP, group, wants_evidence=evidence)
            group.start_soon(hosts.dispatch)
            yield hosts
            group.cancel_scope.cancel()


async def check_all(engine: Engine, context: Any, *names: str) -> tuple[dict[str, Code | None], ClusterHosts]:
    """Have candidates checked together; return why each of them cannot be judged."""
    entries = [entry_of(context, name) for name in names]
    said: dict[str, Code | None] = {}

    async def check(hosts: ClusterHosts, entry: CandidateEntry) -> None:
        failed = await hosts.check(entry)
        said[entry.id] = failed.code if failed else None

    async with hosts_of(engine, context) as hosts, anyio.create_task_group() as group:
        for entry in entries:
            group.start_soon(check, hosts, entry)
    return said, hosts


# --- shards --------------------------------------------------------------------------------------------------


async def test_candidates_are_checked_in_shards_and_judged(context: Any) -> None:
    engine = Engine(good, "h1", "h2")
    names = [f"c{number}" for number in range(9)]
    said, hosts = await check_all(engine, context, *names)
    assert said == dict.fromkeys(names)
    assert sorted(name for shard in engine.shards for name in shard) == names
    assert 2 <= len(engine.log) < len(names)
    assert all(context.cache.text(StepKind.SCREEN, content_of(name)) for name in names)
    uses = {use.host: use for use in hosts.uses()}
    assert set(uses) == {"h1", "h2"}
    assert uses["h1"].environment == "that of h1"
    assert sorted((*uses["h1"].checked, *uses["h2"].checked)) == names
    assert not any(use.raced or use.left_out for use in uses.values())
    assert all(task.cancelled.is_set() for task in engine.log)


async def test_a_job_says_what_a_host_has_to_know(context: Any) -> None:
    submission = Submission(id=CandidateId("c"), content=PatchText(patch="c"))
    prepared = staged("c")
    context.cache.put(Candidate, prepared, StepKind.PREPARED, to_plain(submission))
    engine = Engine(good)
    await check_all(engine, context, "c")
    (task,) = engine.log
    job = task.job
    assert (job.version, job.run_id, job.seed, job.part) == (__version__, "run", 7, RunPart.CHECKS)
    assert (job.mode, task.is_race, job.before) == (RaceMode.RACE, False, None)
    assert (job.repository, job.project, job.snapshot) == ("shop", "sub", context.snapshot)
    assert (job.python, job.prepare, job.environment) == ("/place/python", "make env", STAMP)
    assert job.submissions == (submission,)
    assert job.settings["functions"] == ["shop/sums.py::total"]
    assert job.settings["pass_env"] == ["TOK*"]
    assert job.variables["TOKEN"] == "secret"
    assert "PATH" not in job.variables
    assert (job.root, job.cache_dir, job.constants) == ("/place/shop", "/place/cache", ())
    (step,) = job.steps
    assert step.kind is StepKind.PREPARED
    assert json.loads(step.text)["value"] == to_plain(prepared)
    assert json.loads(step.key) == [to_plain(submission)]


@pytest.mark.parametrize("evidence", [False, True])
async def test_evidence_is_looked_for_where_somebody_repairs(context: Any, evidence: bool) -> None:
    engine = Engine(good)
    async with hosts_of(engine, context, evidence=evidence) as hosts:
        await hosts.check(entry_of(context, "c"))
    assert engine.log[0].job.wants_evidence is evidence


async def test_no_more_shards_at_once_than_there_are_places(context: Any) -> None:
    at_once, most, lock = 0, 0, threading.Lock()

    def slow(task: Task) -> Iterator[Message]:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        task.cancelled.wait(0.05)
        yield from list(good(task))[:-1]
        with lock:
            at_once -= 1
        yield ENDED

    await check_all(Engine(slow, places=2), context, *(f"c{number}" for number in range(12)))
    assert most == 2


async def test_observers_see_where_a_candidate_is_checked(context: Any, events: list[Event]) -> None:
    await check_all(Engine(good, "h1"), context, "c")
    moves = [event for event in events if isinstance(event, CandidateMoved)]
    assert (moves[-1].stage, moves[-1].host) == (Stage.CHECKING, "h1")


async def test_what_a_host_rejects_is_not_a_failure_of_the_check(context: Any) -> None:
    def rejecting(task: Task) -> Iterator[Message]:
        for name in task.names:
            yield from checked(name, Code.TESTS_FAILED)
        yield ENDED

    said, _ = await check_all(Engine(rejecting), context, "c")
    assert said == {"c": None}
    assert b"TESTS_FAILED" in context.cache.text(StepKind.SCREEN, content_of("c"))


async def test_a_candidate_that_fails_a_later_check_is_not_a_failure_of_the_check(context: Any) -> None:
    def later(task: Task) -> Iterator[Message]:
        (name,) = task.names
        yield found(Code.OK, StepKind.SCREEN, name)
        yield found(Code.VALUE_DIFFERS, StepKind.FRESH, name)
        yield judgement(name, "rejected", Code.VALUE_DIFFERS)
        yield ENDED

    said, _ = await check_all(Engine(later), context, "c")
    assert said == {"c": None}
    assert b"VALUE_DIFFERS" in context.cache.text(StepKind.FRESH, content_of("c"))


@pytest.mark.parametrize(("status", "code"), [("rejected", Code.TIMEOUT), ("infra", Code.INFRA_MEMORY)])
async def test_what_is_judged_without_a_step_is_the_outcome(context: Any, status: str, code: Code) -> None:
    def slow(task: Task) -> Iterator[Message]:
        for name in task.names:
            yield {"t": "checking", "candidate": name}
            yield judgement(name, status, code)
        yield ENDED

    said, _ = await check_all(Engine(slow), context, "a", "b")
    assert said == {"a": code, "b": code}
    assert context.cache.count(StepKind.SCREEN) == 0


async def test_a_candidate_that_a_host_forgets_is_not_judged(context: Any) -> None:
    def forgetful(task: Task) -> Iterator[Message]:
        yield from checked("a")
        yield ENDED

    said, _ = await check_all(Engine(forgetful), context, "a", "b")
    assert said == {"a": None, "b": Code.INFRA_LOST}


@pytest.mark.parametrize(
    ("status", "code"), [("undecided", Code.NOT_RACED), ("unappliable", Code.DOES_NOT_APPLY)]
)
async def test_what_was_not_checked_is_not_taken_for_right(context: Any, status: str, code: Code) -> None:
    def odd(task: Task) -> Iterator[Message]:
        yield judgement("c", status, code)
        yield ENDED

    async with hosts_of(Engine(odd), context) as hosts:
        failed = await hosts.check(entry_of(context, "c"))
    assert failed is not None
    assert (failed.code, failed.reason) == (Code.INFRA_LOST, f"Its host has not checked it: it is {code}")
    assert not context.cache.text(StepKind.JUDGED, content_of("c"))


async def test_a_candidate_that_was_screened_only_is_not_taken_for_judged(context: Any) -> None:
    def half(task: Task) -> Iterator[Message]:
        yield found(Code.OK, StepKind.SCREEN, "c")
        yield OTHER

    async with hosts_of(Engine(half, "h1"), context) as hosts:
        with pytest.raises(EnvironmentFault, match="another one"):
            await hosts.check(entry_of(context, "c"))
    assert not context.cache.text(StepKind.JUDGED, content_of("c"))


async def test_all_checks_of_a_candidate_that_came_to_their_end_are_a_step(context: Any) -> None:
    await check_all(Engine(good), context, "c")
    assert context.cache.get(bool, StepKind.JUDGED, content_of("c")) is True


async def test_what_shards_have_taken_is_told_by_host(context: Any) -> None:
    engine = Engine(good, "h1")
    async with hosts_of(engine, context) as hosts:
        for name in "ab":
            await hosts.check(entry_of(context, name))
        await until(lambda: hosts.uses()[0].shards == len(engine.log) == 2)
        (use,) = hosts.uses()
    assert (use.overhead_s, use.checks_s) == (2.0, 4.0)


async def test_constants_that_were_told_go_to_every_later_job(context: Any) -> None:
    engine = Engine(lambda task: racing(task) if task.is_race else good(task))
    async with hosts_of(engine, context) as hosts:
        hosts.use_constants((1, "a"))
        hosts.use_constants((2, 1))
        await hosts.check(entry_of(context, "c"))
        await hosts.race(passed(context, "d"), None)
        hosts.use_constants(range(10_000))
        await hosts.check(entry_of(context, "e"))
    check, race, last = (task.job.constants for task in engine.log)
    assert check == race == (1, "a", 2)
    assert last[:4] == (1, "a", 2, 0)
    assert len(last) == 2000


async def test_warnings_of_hosts_are_those_of_the_run(context: Any) -> None:
    def warning(task: Task) -> Iterator[Message]:
        yield {"t": "waits", "why": "another race has this machine"}
        yield {"t": "warning", "message": "Mind the gap."}
        yield from good(task)

    await check_all(Engine(warning), context, "c")
    assert context.ledger.warnings == ["Mind the gap."]


# --- hosts that are lost -------------------------------------------------------------------------------------


async def test_a_lost_shard_is_submitted_again_without_what_is_known(context: Any) -> None:
    def first_one_dies(task: Task) -> Iterator[Message]:
        if task.number > 1:
            yield from good(task)
            return
        yield from checked(task.names[0], Code.TESTS_FAILED)
        yield {"t": "checking", "candidate": task.names[1]}
        yield LOST

    engine = Engine(first_one_dies)
    said, _ = await check_all(engine, context, "a", "b", "c", "d")
    assert said == dict.fromkeys("abcd")
    first, second, *_ = engine.shards
    assert second[: len(first) - 1] == first[1:]
    assert Counter(name for shard in engine.shards for name in shard)[first[0]] == 1
    assert context.ledger.get(CandidateId(first[1])).stage is Stage.CHECKING


@pytest.mark.parametrize("kind", [StepKind.SCREEN, StepKind.REST, StepKind.CLEAN, StepKind.FRESH])
async def test_a_lost_shard_takes_along_what_was_found_before(context: Any, kind: StepKind) -> None:
    def dies_late(task: Task) -> Iterator[Message]:
        if task.number == 1:
            yield found(Code.OK, kind, "c")
            yield LOST
            return
        yield from good(task)

    engine = Engine(dies_late)
    said, _ = await check_all(engine, context, "c")
    assert said == {"c": None}
    first, second = ({step.kind: step for step in task.job.steps} for task in engine.log)
    assert set(first) == {StepKind.PREPARED}
    assert set(second) == {StepKind.PREPARED, kind}
    assert second[kind].text == found(Code.OK, kind, "c")["text"]
    assert json.loads(second[kind].key) == [content_of("c")]


async def test_candidates_that_were_lost_twice_go_alone(context: Any) -> None:
    def dies_of_c(task: Task) -> Iterator[Message]:
        if "c" in task.names and len(task.names) > 1:
            yield LOST
            return
        yield from good(task)

    engine = Engine(dies_of_c)
    said, _ = await check_all(engine, context, "a", "b", "c", "d")
    assert said == dict.fromkeys("abcd")
    lost = [shard for shard in engine.shards if "c" in shard and len(shard) > 1]
    assert len(lost) == 2
    assert ["c"] in engine.shards


async def test_who_is_lost_alone_after_that_is_not_judged_and_no_other_is_blamed(context: Any) -> None:
    def dies_of_c(task: Task) -> Iterator[Message]:
        if "c" in task.names:
            yield LOST
            return
        yield from good(task)

    engine = Engine(dies_of_c, "h1")
    said, _ = await check_all(engine, context, "a", "b", "c", "d")
    assert said == {"a": None, "b": None, "c": Code.INFRA_LOST, "d": None}
    assert sum("c" in shard for shard in engine.shards) == 3
    assert [shard for shard in engine.shards if "c" in shard][-1] == ["c"]


async def test_of_one_that_is_not_judged_it_is_said_why(context: Any) -> None:
    def dies(task: Task) -> Iterator[Message]:
        yield LOST

    async with hosts_of(Engine(dies, "h1"), context) as hosts:
        failed = await hosts.check(entry_of(context, "c"))
    assert failed is not None
    assert failed.reason == "Its process was lost 3 times, the last time alone: h1: it was killed."


async def test_messages_that_end_without_a_last_one_are_a_loss(context: Any) -> None:
    def silent(task: Task) -> Iterator[Message]:
        if task.number > 1:
            yield from good(task)

    engine = Engine(silent)
    said, _ = await check_all(engine, context, "c")
    assert said == {"c": None}
    assert len(engine.log) == 2


# --- hosts that are unfit ------------------------------------------------------------------------------------


def unfit(*hosts: str) -> Callable[[Task], Iterator[Message]]:
    def play(task: Task) -> Iterator[Message]:
        if task.host in hosts:
            yield OTHER
            return
        yield from good(task)

    return play


async def test_an_unfit_host_is_left_out_with_a_warning_and_others_get_its_shard(context: Any) -> None:
    engine = Engine(unfit("h1"), "h1", "h2")
    said, hosts = await check_all(engine, context, *"abcdefgh")
    assert said == dict.fromkeys("abcdefgh")
    assert Counter(task.host for task in engine.log)["h1"] == 1
    assert context.ledger.warnings == ["Host h1 is left out. It is another one. Make it so."]
    uses = {use.host: use for use in hosts.uses()}
    assert uses["h1"].left_out == "It is another one. Make it so."
    assert uses["h1"].checked == ()
    assert sorted(uses["h2"].checked) == list("abcdefgh")


async def test_where_every_host_is_left_out_the_fault_is_raised(context: Any) -> None:
    async with hosts_of(Engine(unfit("h1", "h2"), "h1", "h2"), context) as hosts:
        for name in "ab":  # whoever comes later is told, too
            with pytest.raises(EnvironmentFault) as caught:
                await hosts.check(entry_of(context, name))
            assert (caught.value.code, caught.value.hint) == ("OTHER_ENVIRONMENT", "Make it so.")


async def test_where_the_first_hosts_are_all_unfit_the_others_are_not_tried(context: Any) -> None:
    names = [f"h{number}" for number in range(100)]
    engine = Engine(unfit(*names), *names)
    async with hosts_of(engine, context) as hosts:
        with pytest.raises(EnvironmentFault) as caught:
            await hosts.check(entry_of(context, "a"))
    assert caught.value.code == "OTHER_ENVIRONMENT"
    assert len(engine.log) == 5


async def test_without_any_place_there_is_no_cluster(context: Any) -> None:
    async with hosts_of(Engine(good, places=0), context) as hosts:
        with pytest.raises(EnvironmentFault) as caught:
            await hosts.check(entry_of(context, "a"))
    assert caught.value.code == "NO_CLUSTER"


async def test_the_fault_of_one_host_is_no_outcome_of_a_timeout_on_another(context: Any) -> None:
    def slow(task: Task) -> Iterator[Message]:
        if task.host == "h1":
            yield OTHER
            return
        yield judgement(task.names[0], "rejected", Code.TIMEOUT)
        yield ENDED

    said, _ = await check_all(Engine(slow, "h1", "h2"), context, "c")
    assert said == {"c": Code.TIMEOUT}


async def test_hosts_that_disagree_are_both_named(context: Any) -> None:
    def differing(task: Task) -> Iterator[Message]:
        yield found(Code.OK if task.host == "h1" else Code.TESTS_FAILED, StepKind.SCREEN, "c")
        yield LOST if task.host == "h1" else judgement("c", "rejected", Code.TESTS_FAILED)
        yield ENDED

    async with hosts_of(Engine(differing, "h1", "h2"), context) as hosts:
        failed = await hosts.check(entry_of(context, "c"))
    assert failed is not None
    assert failed.code is Code.HOSTS_DISAGREE
    for words in ("h1 has found OK", "h2 TESTS_FAILED"):
        assert words in failed.reason


async def test_a_later_word_of_a_host_does_not_hide_that_hosts_disagree(context: Any) -> None:
    context.cache.take(
        found(Code.OK, StepKind.SCREEN, "c")["text"].encode(), StepKind.SCREEN, content_of("c")
    )
    hosts: Any = ClusterHosts(Engine(good), context, STAMP, cast("Any", None), wants_evidence=False)
    one = _Waiting(entry_of(context, "c"))
    for message in (
        found(Code.TESTS_FAILED, StepKind.SCREEN, "c"),
        judgement("c", "rejected", Code.TESTS_FAILED),
    ):
        hosts._take_of_check([one], {"host": "h2", **message})
    assert one.failed is not None
    assert one.failed.code is Code.HOSTS_DISAGREE
    assert not context.cache.text(StepKind.JUDGED, content_of("c"))


async def test_hosts_that_find_the_same_do_not_disagree(context: Any) -> None:
    def dies_late(task: Task) -> Iterator[Message]:
        yield found(Code.OK, StepKind.SCREEN, "c")
        if task.host == "h1":
            yield LOST
            return
        yield judgement("c", "undecided", Code.NOT_RACED)
        yield ENDED

    said, _ = await check_all(Engine(dies_late, "h1", "h2"), context, "c")
    assert said == {"c": None}


# --- cancelling ----------------------------------------------------------------------------------------------


def waiting(task: Task) -> Iterator[Message]:
    """A host that checks for ever."""
    yield {"t": "checking", "candidate": task.names[0]}
    task.cancelled.wait(DEADLINE_S)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what other threads do."""
    while not condition():  # noqa: ASYNC110 - they set no event of this loop
        await anyio.sleep(0.01)


async def begun(engine: Engine) -> Task:
    await until(lambda: bool(engine.log))
    return engine.log[0]


async def test_a_shard_that_nobody_waits_for_is_cancelled(context: Any) -> None:
    engine = Engine(waiting, "h1")
    async with hosts_of(engine, context) as hosts:
        async with anyio.create_task_group() as group:
            for name in "ab":
                group.start_soon(hosts.check, entry_of(context, name))
            task = await begun(engine)
            group.cancel_scope.cancel()
        await until(task.cancelled.is_set)
        engine._play = good  # the place is free again
        assert await hosts.check(entry_of(context, "c")) is None


async def test_a_shard_that_somebody_waits_for_goes_on(context: Any) -> None:
    release = threading.Event()

    def stopped(task: Task) -> Iterator[Message]:
        release.wait(DEADLINE_S)
        yield from good(task)

    engine = Engine(stopped, "h1")
    entries = [entry_of(context, name) for name in "abcd"]
    async with hosts_of(engine, context) as hosts, anyio.create_task_group() as group:
        unwanted = anyio.CancelScope()

        async def give_up() -> None:
            with unwanted:
                await hosts.check(entries[0])

        group.start_soon(give_up)
        for entry in entries[1:]:
            group.start_soon(hosts.check, entry)
        task = await begun(engine)
        assert len(task.names) > 1
        unwanted.cancel()
        await anyio.sleep(0.05)
        assert not task.cancelled.is_set()
        release.set()


async def test_who_is_cancelled_before_it_is_submitted_is_not_submitted(context: Any) -> None:
    release = threading.Event()

    def stopped(task: Task) -> Iterator[Message]:
        release.wait(DEADLINE_S)
        yield from good(task)

    engine = Engine(stopped, "h1")
    async with hosts_of(engine, context) as hosts, anyio.create_task_group() as group:
        group.start_soon(hosts.check, entry_of(context, "a"))
        await begun(engine)
        with anyio.move_on_after(0.1):
            await hosts.check(entry_of(context, "b"))
        release.set()
        await hosts.check(entry_of(context, "c"))
    assert sorted(name for shard in engine.shards for name in shard) == ["a", "c"]


async def test_leaving_the_hosts_cancels_what_runs(context: Any) -> None:
    engine = Engine(waiting, "h1")
    with anyio.CancelScope() as scope:
        async with hosts_of(engine, context) as hosts, anyio.create_task_group() as group:
            group.start_soon(hosts.check, entry_of(context, "a"))
            task = await begun(engine)
            scope.cancel()
            await anyio.sleep_forever()
    assert task.cancelled.is_set()


# --- races ---------------------------------------------------------------------------------------------------


def finding(*names: str, not_held: str = "") -> RaceFinding:
    ranking = RaceRanking(verdict=Verdict.WINNER, winner=names[0], candidates=(), summary="It wins.")
    return RaceFinding(races=(RaceFailed(candidates=names, reason="no"),), ranking=ranking, not_held=not_held)


def raced(host: str, *names: str) -> Message:
    race = RemoteRace(host=host, finding=finding(*names), timed={"why": "it was asked for"})
    return {"t": "ended", "race": to_plain(race, RemoteRace), "overhead_s": 0.0, "checks_s": 0.0}


def racing(task: Task) -> Iterator[Message]:
    yield {"t": "began", "environment": "e"}
    yield raced(task.host, *task.names)


def passed(context: Any, *names: str) -> list[CandidateEntry]:
    entries = [entry_of(context, name, Step.STAGE, Step.PASS) for name in names]
    for name in names:
        text = found(Code.OK, StepKind.SCREEN, name)["text"].encode()
        context.cache.take(text, StepKind.SCREEN, content_of(name))
    return entries


async def held_race(
    engine: Engine, context: Any, entries: Sequence[CandidateEntry], before: RemoteRace | None = None
) -> tuple[RemoteRace, ClusterHosts]:
    async with hosts_of(engine, context) as hosts:
        race = await hosts.race(entries, before)
    return race, hosts


async def test_a_race_is_what_its_host_has_found(context: Any) -> None:
    engine = Engine(racing, "h1", "h2")
    race, hosts = await held_race(engine, context, passed(context, "a", "b"))
    assert race == RemoteRace(host="h1", finding=finding("a", "b"), timed={"why": "it was asked for"})
    (task,) = engine.log
    assert (task.is_race, task.job.part, task.job.mode) == (True, RunPart.RACE, RaceMode.TIME)
    assert task.job.wants_evidence is False
    assert [(use.host, use.raced) for use in hosts.uses()] == [("h1", True)]


async def test_a_race_takes_along_what_checks_have_found(context: Any) -> None:
    entries = passed(context, "a", "b")
    fresh = found(Code.OK, StepKind.FRESH, "b")["text"]
    clean = found(Code.OK, StepKind.CLEAN, "b")["text"]
    context.cache.take(fresh.encode(), StepKind.FRESH, content_of("b"))
    context.cache.take(clean.encode(), StepKind.CLEAN, content_of("b"))
    engine = Engine(racing)
    await held_race(engine, context, entries)
    sent = {(step.kind, step.key): step.text for step in engine.log[0].job.steps}
    own, other = (json.dumps((content_of(name),)) for name in "ab")
    assert sent[StepKind.SCREEN, own] == found(Code.OK, StepKind.SCREEN, "a")["text"]
    assert sent[StepKind.SCREEN, other] == fresh
    assert sent[StepKind.CLEAN, other] == clean
    assert (StepKind.CLEAN, own) not in sent


async def test_a_race_tells_how_far_it_is_and_what_it_waits_for(context: Any, events: list[Event]) -> None:
    progress = RaceProgress(
        run_id="run.race1.77",
        stage="race",
        rounds=3,
        most_rounds=9,
        racing=1,
        leader=CandidateId("a"),
        speedup=1.5,
        seconds_left=2.0,
        out={CandidateId("b"): "it is slower"},
    )

    def telling(task: Task) -> Iterator[Message]:
        yield {"t": "waits", "why": "checks are still running on this machine"}
        yield {"t": "waits", "why": ""}
        yield {"t": "progress", "event": to_plain(progress)}
        yield found(Code.OK, StepKind.CLEAN, "a")
        yield from racing(task)

    await held_race(Engine(telling, "h1"), context, passed(context, "a"))
    waits = [event.why for event in events if isinstance(event, RunWaits)]
    assert waits == ["host h1: checks are still running on this machine", ""]
    assert [event for event in events if isinstance(event, RaceProgress)] == [replace(progress, run_id="run")]
    assert context.cache.text(StepKind.CLEAN, content_of("a"))


async def test_a_race_goes_on_where_the_last_one_was_held(context: Any) -> None:
    engine = Engine(racing, "h1", "h2")
    before = RemoteRace(host="h2", finding=finding("a", "b"))
    race, _ = await held_race(engine, context, passed(context, "a", "b", "c"), before)
    assert (race.host, engine.wanted) == ("h2", ["h2"])
    assert engine.log[0].names == ["a", "b", "c"]
    assert engine.log[0].job.before == before.finding


async def test_a_lost_race_is_held_again(context: Any) -> None:
    def first_one_dies(task: Task) -> Iterator[Message]:
        yield from [LOST] if task.number == 1 else racing(task)

    engine = Engine(first_one_dies, "h1", "h2")
    race, _ = await held_race(engine, context, passed(context, "a", "b"))
    assert race.host == "h2"
    assert engine.shards == [["a", "b"], ["a", "b"]]


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "lost"])
async def test_on_another_host_all_that_ever_raced_do_so_again(context: Any, gone: bool) -> None:
    def dies_on_h2(task: Task) -> Iterator[Message]:
        yield from [LOST] if task.host == "h2" else racing(task)

    before = RemoteRace(
        host="h2", finding=replace(finding("a"), races=(held({"a": 1.5, "b": 1.2}), held({"d": 1.1})))
    )
    engine = Engine(dies_on_h2, "h1") if gone else Engine(dies_on_h2, "h2", "h1")
    race, _ = await held_race(engine, context, passed(context, *"abdc"), before)
    assert race.host == "h1"
    task = engine.log[-1]
    assert (task.names, task.job.before) == (list("abdc"), None)
    assert len(engine.log) == (1 if gone else 2)


async def test_a_race_that_is_given_up_is_not_held_and_says_why(context: Any) -> None:
    def dies(task: Task) -> Iterator[Message]:
        yield LOST

    engine = Engine(dies, "h1")
    race, hosts = await held_race(engine, context, passed(context, "a"))
    assert race.finding.not_held == "Hosts were lost in it: it was killed."
    assert len(engine.log) == 3
    assert not any(use.raced for use in hosts.uses())


async def test_an_unfit_host_does_not_get_the_race_again(context: Any) -> None:
    engine = Engine(lambda task: iter([OTHER]) if task.host == "h1" else racing(task), "h1", "h2")
    race, _ = await held_race(engine, context, passed(context, "a"))
    assert race.host == "h2"
    assert context.ledger.warnings == ["Host h1 is left out. It is another one. Make it so."]


async def test_where_no_host_is_left_for_a_race_a_fault_is_raised(context: Any) -> None:
    async with hosts_of(Engine(unfit("h1"), "h1"), context) as hosts:
        with pytest.raises(EnvironmentFault) as caught:
            await hosts.race(passed(context, "a"), None)
    assert (caught.value.code, caught.value.hint) == ("OTHER_ENVIRONMENT", "Make it so.")


async def test_where_the_last_host_is_gone_there_is_no_cluster_for_a_race(context: Any) -> None:
    def gone(task: Task) -> Iterator[Message]:
        engine._hosts = ()
        yield LOST

    engine = Engine(gone, "h1")
    async with hosts_of(engine, context) as hosts:
        with pytest.raises(EnvironmentFault, match="could race: it was killed") as caught:
            await hosts.race(passed(context, "a"), None)
    assert caught.value.code == "NO_CLUSTER"
    assert len(engine.log) == 1


async def test_only_the_host_of_the_last_races_has_raced(context: Any) -> None:
    engine = Engine(racing, "h1", "h2")
    first, second = passed(context, "a", "b")
    async with hosts_of(engine, context) as hosts:
        before = await hosts.race([first], None)
        engine._hosts = ("h2",)
        await hosts.race([first, second], before)
    assert [use.host for use in hosts.uses() if use.raced] == ["h2"]


async def test_intervals_of_all_races_of_a_host_are_told(context: Any) -> None:
    def timing(task: Task) -> Iterator[Message]:
        race = RemoteRace(host=task.host, finding=finding("a"), intervals=((task.number, 9),))
        yield {"t": "ended", "race": to_plain(race, RemoteRace), "overhead_s": 0.0, "checks_s": 0.0}

    entries = passed(context, "a")
    async with hosts_of(Engine(timing, "h1"), context) as hosts:
        before = await hosts.race(entries, None)
        await hosts.race(entries, before)
    assert [use.timed for use in hosts.uses()] == [((1, 9), (2, 9))]


async def test_cancelling_a_race_ends_it_on_its_host(context: Any) -> None:
    engine = Engine(waiting_race, "h1")
    async with hosts_of(engine, context) as hosts:
        async with anyio.create_task_group() as group:
            group.start_soon(hosts.race, passed(context, "a"), None)
            task = await begun(engine)
            group.cancel_scope.cancel()
        assert task.cancelled.is_set()


def waiting_race(task: Task) -> Iterator[Message]:
    yield {"t": "began", "environment": "e"}
    task.cancelled.wait(DEADLINE_S)


# --- opening -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["ray", "slurm"])
async def test_a_ranking_of_one_s_own_is_local_only(executor: str) -> None:
    settings = Settings(executor=executor, cluster="local", ranking="own.py:order")
    with pytest.raises(UsageError, match="not known to other hosts") as caught:
        async with open_cluster(settings):
            raise AssertionError
    assert caught.value.code == "LOCAL_ONLY"
