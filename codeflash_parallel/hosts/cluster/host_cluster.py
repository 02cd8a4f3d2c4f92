"""The submitting side: candidates are split into shards, hosts check them, and one host races what passed.

A shard that is lost with its process or host is submitted again, with what is known already. Candidates of a
shard that is lost for the second time are submitted alone; one that is lost alone is not judged. A host that
cannot do a job (another environment, a full disk) is left out from then on.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from codeflash_parallel import __version__
from codeflash_parallel.candidates.code_changes import Constant
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.config.environment import shared_variables
from codeflash_parallel.config.settings import Executor, RankingMode, Settings, settings_document
from codeflash_parallel.config.settings_reader import cache_root
from codeflash_parallel.hosts.cluster.environment_stamp import EnvironmentStamp, stamp_of
from codeflash_parallel.hosts.cluster.host_checkout import bundle_of
from codeflash_parallel.hosts.cluster.host_job import HostExecutor, HostJob, Message, SentStep
from codeflash_parallel.hosts.cluster.shard_size import ShardCosts, shard_size
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.result.events import RaceProgress, RunWaits, Stage, Step
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.result.result_model import HostUse
from codeflash_parallel.run.ledger import CandidateEntry, RaceFinding, RunContext
from codeflash_parallel.run.remote_hosts import Cluster, RemoteHosts, RemoteRace, RunPart
from codeflash_parallel.run.run_state import CHECKS, RaceMode, StepKind

#: Candidates are waited for so long before a shard is made of those that are there.
_LINGER_S = 0.05
#: Seconds after which it is counted again how many candidates are to come.
_COUNT_S = 1.0
#: Candidates are prepared ahead: so many shards for each place.
_AHEAD = 3
#: Threads that wait for messages: one for each job.
_MOST_JOBS = 1000
#: Longest wait for the ends of jobs whose candidates are all judged: they say what they have cost.
_LAST_S = 2.0
#: Longest time that ending a job may take.
_CANCEL_S = 10.0
#: As many as inputs are made: more could not be tried.
_MOST_CONSTANTS = 2000
#: Attempts at a race whose host is lost.
_RACES = 3
#: So many unfit hosts, and no fit one, are enough to end a run.
_MOST_UNFIT = 5
#: Stages of candidates that are not handed over yet.
_COMING = frozenset({Stage.SUBMITTED, Stage.PREPARING})
#: A candidate that was lost so often is checked alone.
_ALONE = 2


@asynccontextmanager
async def open_cluster(settings: Settings) -> AsyncIterator[Cluster]:
    """Connect to the engine that the settings name; leaving the block ends what runs there.

    Raises:
        UsageError: `NO_ENGINE`: its package is not installed; `LOCAL_ONLY`: a setting that other hosts cannot
            keep.
        EnvironmentFault: `NO_CLUSTER`: it cannot be reached, or has no place for us.
    """
    if settings.ranking not in list(RankingMode):
        hint = "Give --ranking fastest or smallest-diff, or --executor local."
        raise UsageError("LOCAL_ONLY", "A ranking policy of your own is not known to other hosts.", hint)
    executor = await anyio.to_thread.run_sync(connected, settings)
    try:
        yield _EngineCluster(executor)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(executor.close)


def connected(settings: Settings) -> HostExecutor:
    """Return the engine that the settings name. Blocking.

    Raises:
        UsageError, EnvironmentFault: as `open_cluster`.
    """
    if settings.executor == Executor.RAY:
        from codeflash_parallel.hosts.cluster.ray_executor import RayExecutor

        return RayExecutor(settings.cluster)
    from codeflash_parallel.hosts.cluster.slurm_executor import SlurmExecutor

    return SlurmExecutor(settings.cluster, settings.cluster_jobs, cache_root(settings) / "slurm")


class _EngineCluster:
    """The hosts of an engine; a `run.remote_hosts.Cluster`."""

    def __init__(self, executor: HostExecutor) -> None:
        self._executor = executor

    def open_hosts(
        self, context: RunContext, *, wants_evidence: bool
    ) -> AbstractAsyncContextManager[RemoteHosts]:
        """Open the hosts for a run."""
        return _opened(self._executor, context, wants_evidence=wants_evidence)


@asynccontextmanager
async def _opened(
    executor: HostExecutor, context: RunContext, *, wants_evidence: bool
) -> AsyncIterator[RemoteHosts]:
    setup = context.setup
    bundle = await anyio.to_thread.run_sync(bundle_of, context.mirror, context.snapshot)
    await anyio.to_thread.run_sync(executor.share, bundle)
    stamp = await anyio.to_thread.run_sync(stamp_of, setup.interpreter)
    async with anyio.create_task_group() as group:
        hosts = ClusterHosts(executor, context, stamp, group, wants_evidence=wants_evidence)
        group.start_soon(hosts.dispatch)
        yield hosts
        with anyio.move_on_after(_LAST_S):
            await hosts.idle()
        group.cancel_scope.cancel()


@dataclass(slots=True, eq=False)
class _Waiting:
    """A candidate that is to be checked.

    Attributes:
        losses: how often a process that had it was lost.
        failed: why it cannot be judged, or what it was rejected for where that is not stored.
        is_judged: a host has come to an end with it, or it is given up.
        done: it is known.
        ended: nobody waits for it any more.
    """

    entry: CandidateEntry
    done: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    losses: int = 0
    failed: CheckOutcome | None = None
    is_judged: bool = False

    def end(self, code: Code, reason: str) -> None:
        """Give it up."""
        self.failed, self.is_judged = CheckOutcome(code=code, reason=reason), True
        self.done.set()


class ClusterHosts:
    """The hosts of one run; a `run.remote_hosts.RemoteHosts`.

    Args:
        stamp: of the submitting process's environment, which hosts must have.
        group: in which jobs are followed.
    """

    def __init__(
        self,
        executor: HostExecutor,
        context: RunContext,
        stamp: EnvironmentStamp,
        group: TaskGroup,
        *,
        wants_evidence: bool,
    ) -> None:
        self._executor, self._context, self._stamp, self._group = executor, context, stamp, group
        self._wants_evidence = wants_evidence
        self._waiting: list[_Waiting] = []
        self._more = anyio.Event()
        self._running, self._changed = 0, anyio.Event()
        self._costs = ShardCosts()
        self._numbers = count(1)
        self._threads = anyio.CapacityLimiter(_MOST_JOBS)
        self._used: dict[str, HostUse] = {}
        self._judges: dict[tuple[StepKind, str], str] = {}
        self._fault: EnvironmentFault | None = None
        self._places = 1
        self._coming, self._counted_s = 0, -_COUNT_S
        self._constants: dict[Constant, None] = {}

    # --- the run's side --------------------------------------------------------------------------------

    @property
    def ahead(self) -> int:
        """Number of candidates that are prepared ahead of those that are checked."""
        return _AHEAD * self._executor.places(()) * max(1, shard_size(1 << 30, 1, self._costs))

    def use_constants(self, constants: Sequence[Constant]) -> None:
        """Have fresh inputs made of these, too; see `run.remote_hosts.RemoteHosts`."""
        for constant in constants:
            if len(self._constants) < _MOST_CONSTANTS:
                self._constants[constant] = None

    async def idle(self) -> None:
        """Return when no job is followed any more."""
        while self._running:
            await self._changed.wait()

    def uses(self) -> tuple[HostUse, ...]:
        """Return the hosts that have worked for the run."""
        return tuple(self._used.values())

    async def check(self, entry: CandidateEntry) -> CheckOutcome | None:
        """Have a candidate checked; see `run.remote_hosts.RemoteHosts`."""
        waiting = _Waiting(entry)
        self._coming -= 1
        self._queue([waiting])
        try:
            await waiting.done.wait()
        finally:
            waiting.ended.set()
        if self._fault is not None and not waiting.is_judged:
            raise self._fault
        return waiting.failed

    async def race(self, entries: Sequence[CandidateEntry], before: RemoteRace | None) -> RemoteRace:
        """Have candidates raced; see `run.remote_hosts.RemoteHosts`."""
        why = ""
        for _ in range(_RACES):
            wanted = before.host if before else ""
            job = self._race_job(entries, before.finding if before else None)
            last: Message
            try:
                last = await self._follow(job, self._take, is_race=True, wanted=wanted)
            except EnvironmentFault as fault:
                if fault.code != "HOST_GONE":
                    raise
                last = {"t": "lost", "why": fault.message}
            if last["t"] == "ended":
                found: RemoteRace = from_plain(RemoteRace, last["race"])
                for other in self._used:
                    self._use(other, raced=False)
                self._use(found.host, raced=True, timed=(*self._timed(found.host), *found.intervals))
                return found
            why = last.get("why") or last["message"]
            if not await self._read_places():
                raise self._fault or EnvironmentFault("NO_CLUSTER", f"No host is left that could race: {why}")
            before = None
        return RemoteRace(host="", finding=RaceFinding(not_held=f"Hosts were lost in it: {why}"))

    # --- shards ----------------------------------------------------------------------------------------

    def _queue(self, waiting: Sequence[_Waiting], *, first: bool = False) -> None:
        self._waiting = [*waiting, *self._waiting] if first else [*self._waiting, *waiting]
        self._more.set()

    async def dispatch(self) -> None:
        """Make shards of what waits, as long as there are places."""
        while True:
            await self._more.wait()
            await anyio.sleep(_LINGER_S)
            self._more = anyio.Event()
            self._places = await self._read_places()
            coming = self._count_coming()
            while self._waiting and self._running < self._places and not self._is_hopeless:
                shard = self._cut(coming)
                if shard:
                    self._running += 1
                    self._group.start_soon(self._perform, shard)
            if self._waiting and (not self._places or self._is_hopeless):
                self._give_up()

    def _count_coming(self) -> int:
        """Return how many candidates are not handed over yet; a long ledger is not read often."""
        now_s = anyio.current_time()
        if now_s >= self._counted_s + _COUNT_S:
            self._counted_s = now_s
            self._coming = sum(entry.stage in _COMING for entry in self._context.ledger)
        return max(0, self._coming)

    async def _read_places(self) -> int:
        left_out = self._left_out()
        return await anyio.to_thread.run_sync(self._executor.places, left_out)

    def _left_out(self) -> tuple[str, ...]:
        return tuple(use.host for use in self._used.values() if use.left_out)

    @property
    def _is_hopeless(self) -> bool:
        """Whether several hosts were unfit and none has judged anything: then all others are unfit, too."""
        return len(self._left_out()) >= _MOST_UNFIT and not any(use.checked for use in self._used.values())

    def _give_up(self) -> None:
        """End the wait of all candidates: no host can check them."""
        self._fault = self._fault or EnvironmentFault("NO_CLUSTER", "No host is left that could check.")
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.done.set()

    def _cut(self, coming: int) -> list[_Waiting]:
        """Take the next shard from what waits; candidates that were lost twice go alone.

        Args:
            coming: candidates that do not wait yet.
        """
        self._waiting = [one for one in self._waiting if not one.ended.is_set()]
        if not self._waiting:
            return []
        losses = self._waiting[0].losses
        size = shard_size(len(self._waiting) + coming, self._places, self._costs) if losses < _ALONE else 1
        shard = [one for one in self._waiting[:size] if one.losses == losses]
        taken = set(map(id, shard))
        self._waiting = [one for one in self._waiting if id(one) not in taken]
        return shard

    async def _perform(self, shard: list[_Waiting]) -> None:
        """Have a shard checked, and see to what is left of it."""
        last: Message | None = None
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._cancel_unwanted, shard, group.cancel_scope)
                last = await self._follow(self._check_job(shard), partial(self._take_of_check, shard))
                group.cancel_scope.cancel()
            if last is not None:
                self._settle(shard, last)
        finally:
            self._running -= 1
            self._more.set()
            self._changed.set()
            self._changed = anyio.Event()

    async def _cancel_unwanted(self, shard: list[_Waiting], scope: anyio.CancelScope) -> None:
        """Cancel a shard when nobody waits for any of it."""
        for one in shard:
            await one.ended.wait()
        if not all(one.done.is_set() for one in shard):
            scope.cancel()

    def _settle(self, shard: list[_Waiting], last: Message) -> None:
        """Take note of a shard's end."""
        left = [one for one in shard if not one.done.is_set()]
        for one in left:
            if one.entry.stage is Stage.CHECKING:
                self._context.ledger.move(one.entry, Step.RETURN)
        if last["t"] == "ended":
            self._costs.add(last["overhead_s"], last["checks_s"], len(shard))
            before = self._used[last["host"]]
            self._use(
                last["host"],
                shards=before.shards + 1,
                overhead_s=before.overhead_s + last["overhead_s"],
                checks_s=before.checks_s + last["checks_s"],
            )
            for one in left:
                one.end(Code.INFRA_LOST, f"Host {last['host']} did not judge it.")
        elif last["t"] == "fault":
            self._queue(left, first=True)
        else:
            self._settle_lost(
                left, alone=len(shard) == 1, why=f"{last.get('host') or 'A host'}: {last['why']}"
            )

    def _settle_lost(self, left: list[_Waiting], *, alone: bool, why: str) -> None:
        for one in left:
            one.losses += 1
        given_up = [one for one in left if alone and one.losses > _ALONE]
        for one in given_up:
            one.end(Code.INFRA_LOST, f"Its process was lost {one.losses} times, the last time alone: {why}")
        self._queue([one for one in left if one not in given_up], first=True)

    # --- jobs ------------------------------------------------------------------------------------------

    async def _follow(
        self, job: HostJob, take: Callable[[Message], None], *, is_race: bool = False, wanted: str = ""
    ) -> Message:
        """Submit a job, have its messages taken, and return the last one; cancelling ends the job.

        Raises:
            EnvironmentFault: `HOST_GONE`, or a fault of every host.
        """
        submit = partial(
            self._executor.submit,
            json.dumps(to_plain(job)),
            is_race=is_race,
            avoid=self._left_out(),
            wanted=wanted,
        )
        task = await anyio.to_thread.run_sync(submit)
        following = partial(next, task.messages(), {"t": "lost", "why": "it ended without a word"})
        try:
            while True:
                message: Message = await anyio.to_thread.run_sync(
                    following, abandon_on_cancel=True, limiter=self._threads
                )
                if message["t"] == "fault":
                    self._leave_out(message)
                if message["t"] in {"ended", "fault", "lost"}:
                    return message
                take(message)
        finally:
            with anyio.move_on_after(_CANCEL_S, shield=True):
                await anyio.to_thread.run_sync(task.cancel, abandon_on_cancel=True)

    def _take(self, message: Message) -> None:
        """Take a message of any job."""
        ledger = self._context.ledger
        match message:
            case {"t": "began", "host": host, "environment": environment}:
                self._use(host, environment=environment)
            case {"t": "step"}:
                self._store(message)
            case {"t": "warning", "message": text}:
                ledger.warn(text)
            case {"t": "waits", "host": host, "why": why}:
                ledger.announce(RunWaits(run_id=ledger.run_id, why=f"host {host}: {why}" if why else ""))
            case {"t": "progress", "event": event}:
                progress: RaceProgress = from_plain(RaceProgress, event)
                ledger.announce(replace(progress, run_id=ledger.run_id))

    def _take_of_check(self, shard: Sequence[_Waiting], message: Message) -> None:
        """Take a message of a job that checks a shard."""
        match message:
            case {"t": "step", "content": content}:
                one = next((one for one in shard if one.entry.staged.content_key == content), None)
                differs = self._store(message)
                if differs and one is not None:
                    one.end(Code.HOSTS_DISAGREE, differs)
            case {"t": "checking", "candidate": candidate, "host": host}:
                one = _of(shard, candidate)
                if one.entry.stage is Stage.QUEUED:
                    self._context.ledger.move(one.entry, Step.STAGE, host=host)
            case {"t": "judged", "candidate": candidate, "host": host}:
                one = _of(shard, candidate)
                self._use(host, checked=(*self._checked(host), one.entry.id))
                code = Code(message["code"])
                self._judge(one, CandidateStatus(message["status"]), code, message["reason"])
            case {"t": "waits"}:
                pass
            case _:
                self._take(message)

    def _judge(self, one: _Waiting, status: CandidateStatus, code: Code, reason: str) -> None:
        """Take note of what a host says of a candidate at the end of its checks, unless it is given up."""
        if one.is_judged:
            return
        found = self._codes_of(one.entry)
        is_failed = status in {CandidateStatus.REJECTED, CandidateStatus.INFRA}
        if is_failed and code not in found:
            # Timeouts and faults of the machine are not stored: another attempt may be better.
            one.end(code, reason)
        elif not found:
            one.end(Code.INFRA_LOST, f"Its host has not checked it: {reason}")
        else:
            self._context.cache.put(bool, True, StepKind.JUDGED, one.entry.staged.content_key)
            one.is_judged = True
            one.done.set()

    def _checked(self, host: str) -> tuple[CandidateId, ...]:
        return self._used[host].checked if host in self._used else ()

    def _timed(self, host: str) -> tuple[tuple[int, int], ...]:
        return self._used[host].timed if host in self._used else ()

    def _codes_of(self, entry: CandidateEntry) -> set[Code]:
        """Return what the stored checks of a candidate have found."""
        texts = (self._context.cache.text(look, entry.staged.content_key) for look in CHECKS)
        return {_code_in(text) for text in texts if text}

    def _store(self, message: Message) -> str:
        """Store a step; return how it differs from what another host has found, empty if it does not."""
        kind, content, host = StepKind(message["kind"]), message["content"], message["host"]
        text, cache = message["text"].encode(), self._context.cache
        before, judge = cache.text(kind, content), self._judges.get((kind, content), "an earlier host")
        if before and judge != host and _code_in(before) is not _code_in(text):
            return (
                f"Hosts disagree on it: {judge} has found {_code_in(before)}, and {host} {_code_in(text)}. "
                "Their environments differ in something that their stamps do not show."
            )
        self._judges[kind, content] = host
        cache.take(text, kind, content)
        return ""

    def _leave_out(self, message: Message) -> None:
        """Leave a host out that cannot do its job; its fault is the run's where no other host is left."""
        host = message["host"]
        why = f"{message['message']} {message.get('hint') or ''}".strip()
        if host not in self._left_out():
            self._use(host, left_out=why)
            self._context.ledger.warn(f"Host {host} is left out. {why}")
        self._fault = EnvironmentFault(message["code"], message["message"], message.get("hint") or "")

    def _use(self, host: str, **changed: object) -> None:
        self._used[host] = replace(self._used.get(host, HostUse(host=host)), **changed)  # type: ignore[arg-type]

    def _check_job(self, shard: Sequence[_Waiting]) -> HostJob:
        return self._job([one.entry for one in shard], RunPart.CHECKS, self._prepared(shard), None)

    def _prepared(self, shard: Sequence[_Waiting]) -> list[SentStep]:
        return [step for one in shard for step in (*self._steps_of(one.entry), *self._found_for(one.entry))]

    def _found_for(self, entry: CandidateEntry) -> Iterator[SentStep]:
        """Yield what a host that was lost, or the run before it was resumed, has found about a candidate."""
        content = entry.staged.content_key
        for look in CHECKS:
            if text := self._context.cache.text(look, content):
                yield SentStep(kind=look, key=json.dumps((content,)), text=text.decode())

    def _steps_of(self, entry: CandidateEntry) -> list[SentStep]:
        """Return what became of a submission: a host has no other ref of the user's repository."""
        key = json.dumps((to_plain(entry.submission),))
        text = self._context.cache.text(StepKind.PREPARED, to_plain(entry.submission)).decode()
        return [SentStep(kind=StepKind.PREPARED, key=key, text=text)]

    def _race_job(self, entries: Sequence[CandidateEntry], before: RaceFinding | None) -> HostJob:
        cache, steps = self._context.cache, []
        for entry in entries:
            steps += self._steps_of(entry)
            content = entry.staged.content_key
            # The last look at a candidate holds what those before it have found.
            looks = (StepKind.FRESH, StepKind.SCREEN)
            text = next(filter(None, (cache.text(look, content) for look in looks)), b"")
            sent = [(StepKind.SCREEN, text), (StepKind.CLEAN, cache.text(StepKind.CLEAN, content))]
            sent.append((StepKind.REST, cache.text(StepKind.REST, content)))
            key = json.dumps((content,))
            steps += [SentStep(kind=kind, key=key, text=text.decode()) for kind, text in sent if text]
        number = len(before.races) if before else 0
        if comparison := cache.text(StepKind.COMPARISON, number):
            key = json.dumps((number,))
            steps.append(SentStep(kind=StepKind.COMPARISON, key=key, text=comparison.decode()))
        return self._job(entries, RunPart.RACE, steps, before)

    def _job(
        self,
        entries: Sequence[CandidateEntry],
        part: RunPart,
        steps: Sequence[SentStep],
        before: RaceFinding | None,
    ) -> HostJob:
        context, setup = self._context, self._context.setup
        is_race = part is RunPart.RACE
        return HostJob(
            version=__version__,
            run_id=context.run_id,
            job=f"{part.value}{next(self._numbers)}",
            part=part,
            mode=RaceMode.TIME if is_race else RaceMode.RACE if context.races else RaceMode.CHECK,
            seed=context.seed,
            root=str(setup.repository.root),
            repository=setup.repository.root.name or "repository",
            project=setup.repository.project.as_posix(),
            snapshot=context.snapshot,
            settings={
                **settings_document(context.settings),
                # A host has some of the candidates: together they may change other functions than all do.
                "functions": [str(target) for target in context.targets],
            },
            cache_dir=context.settings.cache_dir,
            python=str(setup.interpreter),
            prepare=context.settings.prepare,
            environment=self._stamp,
            variables=shared_variables(os.environ, context.settings.pass_env),
            wants_evidence=self._wants_evidence and not is_race,
            submissions=tuple(entry.submission for entry in entries),
            constants=tuple(self._constants),
            steps=tuple(steps),
            before=before,
        )


def _of(shard: Sequence[_Waiting], candidate: str) -> _Waiting:
    return next(one for one in shard if one.entry.id == candidate)


def _code_in(text: bytes) -> Code:
    """Return the code in the text of a check's step."""
    return Code(json.loads(text)["value"]["outcome"]["code"])
