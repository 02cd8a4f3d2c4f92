"""Preparation of a run: snapshot, targets, slots, candidates' edits, baseline."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, islice
from pathlib import Path

import anyio

from codeflash_parallel.baseline.preflight.preflight import PreflightDepth
from codeflash_parallel.baseline.preflight.step_reporter import StepReporter
from codeflash_parallel.candidates.target import Target
from codeflash_parallel.check.candidate_changes import Changes
from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.session.runner_session import RunnerConfig
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.result.candidate.candidate_model import (
    Candidate,
    CandidateId,
    Submission,
    Unappliable,
)
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.run.ledger import CandidateEntry
from codeflash_parallel.run.run_context import RunContext, RunFindings
from codeflash_parallel.run.setup.baseline_manager import BaselineRequest
from codeflash_parallel.run.setup.evaluator_resources import EvaluatorResources
from codeflash_parallel.run.step_cache import StepCache, StepKind
from codeflash_parallel.run.target_functions import derived_targets, must_have_named, named_targets
from codeflash_parallel.warm.server_fleet import Fleet
from codeflash_parallel.workspace.git.git_client import load_reader
from codeflash_parallel.workspace.slot_pool import SlotPool
from codeflash_parallel.workspace.snapshot.candidate_builder import materialise
from codeflash_parallel.workspace.snapshot.mirror import Mirror
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedRun:
    """A run whose baseline is known.

    Attributes:
        drafting: makes candidates of submissions.
        source: the candidates, with those that were taken to find the targets put back.
    """

    context: RunContext
    drafting: CandidatePreparer
    source: Entries


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ground:
    """What a run stands on.

    Attributes:
        source: with what was taken from it to find the targets put back.
    """

    snapshot: Snapshot
    pool: SlotPool
    targets: tuple[Target, ...]
    source: Entries


class RunPreparation:
    """Prepares one run.

    Args:
        account: of the run.
        cache: of the run; it gets its ground here.
    """

    def __init__(
        self, around: EvaluatorResources, account: RunFindings, cache: StepCache, steps: StepReporter
    ) -> None:
        self._around, self._setup, self._settings = around, around.setup, around.setup.settings
        self._account, self._ledger, self._cache, self._steps = account, account.ledger, cache, steps

    async def prepare(self, source: Entries) -> PreparedRun:
        """Freeze the tree, make the slots, and find out what the baseline does.

        Raises:
            UsageError, EnvironmentFault: there can be no run.
        """
        with self._account.phase("snapshot"):
            ground = await self._grounded(source)
        with self._account.phase("baseline"):
            guest = self._setup.guest(ground.targets, ground.snapshot, self._account.seed)
            drafting = self._drafting(guest, ground)
            self._account.context = context = await self._known(guest, ground, drafting)
        return PreparedRun(context=context, drafting=drafting, source=ground.source)

    async def _grounded(self, source: Entries) -> _Ground:
        """Freeze the tree, find the targets and make the slots."""
        quiet = self._setup.quiet
        await anyio.to_thread.run_sync(must_have_named, self._setup.repository, self._settings)
        async with anyio.create_task_group() as group:
            group.start_soon(self._load)
            async with quiet.shared():
                snapshot = await self._snapshot()
            # In no block: the first candidate may be long in coming, and races of others would wait for it.
            seen, source = await self._seen(source)
            async with quiet.shared():
                targets = await self._targets(seen, snapshot)
                pool = await self._around.pool(snapshot, self._slots_name())
        for warning in pool.warnings:
            self._ledger.warn(warning)
        return _Ground(snapshot=snapshot, pool=pool, targets=targets, source=source)

    async def _snapshot(self) -> Snapshot:
        """Freeze the user's tree, unless the run has a snapshot."""
        known: Snapshot | None = self._cache.get(Snapshot, StepKind.SNAPSHOT)
        if known is not None:
            return await self._around.same_snapshot(known, self._ledger.warn)
        snapshot = await self._around.snapshot()
        self._cache.put(Snapshot, snapshot, StepKind.SNAPSHOT)
        return snapshot

    def _slots_name(self) -> str:
        """Name the run's slots; those that an earlier process of the run kept stay where they are."""
        names = (f"{self._account.run_id}.{number}" if number else self._account.run_id for number in count())
        return next(name for name in names if not (self._setup.home / "slots" / name).exists())

    async def _load(self) -> None:
        """Make ready what the first check needs."""
        async with self._setup.quiet.shared(), anyio.create_task_group() as group:
            group.start_soon(self._around.compile_guest)
            group.start_soon(anyio.to_thread.run_sync, load_reader)

    async def _seen(self, source: Entries) -> tuple[Sequence[CandidateEntry], Entries]:
        """Return what the targets are found by, and the source with whatever was taken from it put back."""
        return ((), source) if self._settings.functions else await peek(source)

    async def _targets(self, seen: Sequence[CandidateEntry], snapshot: Snapshot) -> tuple[Target, ...]:
        mirror = self._setup.mirror
        if self._settings.functions:
            return named_targets(mirror, snapshot, self._settings.functions)
        return await derived_targets(mirror, snapshot, [entry.submission for entry in seen])

    def _drafting(self, guest: RunnerConfig, ground: _Ground) -> CandidatePreparer:
        standing = self._around.learner.ground(guest, ground.snapshot)
        if self._cache.set_ground(standing):
            self._ledger.warn(
                "Interpreter, packages, environment or our version have changed: all are judged again."
            )
        setup = self._setup
        return CandidatePreparer(
            setup.mirror, ground.snapshot, ground.targets, setup.interpreter, self._cache
        )

    async def _known(self, guest: RunnerConfig, ground: _Ground, drafting: CandidatePreparer) -> RunContext:
        """Return what the run knows once the baseline is known."""
        async with self._setup.quiet.shared():
            plan, fleet = await self._baseline(guest, ground, drafting)
        for warning in plan.baseline.warnings:
            self._ledger.warn(warning)
        return self._context(ground, plan, fleet)

    async def _baseline(
        self, guest: RunnerConfig, ground: _Ground, drafting: CandidatePreparer
    ) -> tuple[CheckPlan, Fleet]:
        """Find out what the baseline does, and make candidates of what is there meanwhile."""
        source, limit = ground.source, self._settings.max_candidates or None
        there = source[:limit] if isinstance(source, Sequence) else ()
        demand = BaselineRequest(
            guest=guest,
            snapshot=ground.snapshot,
            pool=ground.pool,
            candidates=len(there) if isinstance(source, Sequence) else self._setup.shares.slots,
            depth=self._depth,
            steps=self._steps,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(drafting.ahead, there)
            found = await self._around.learner.baseline(demand)
            group.cancel_scope.cancel()
        return found

    @property
    def _depth(self) -> PreflightDepth:
        calls = self._account.races or self._settings.compare is ComparisonMode.VALUES
        return PreflightDepth.CALLS if calls else PreflightDepth.OUTCOMES

    def _context(self, ground: _Ground, plan: CheckPlan, fleet: Fleet) -> RunContext:
        setup = self._setup
        return RunContext(
            run_id=self._account.run_id,
            run_dir=self._account.folder,
            settings=self._settings,
            runner=setup.launcher,
            mirror=setup.mirror,
            snapshot=ground.snapshot,
            pool=ground.pool,
            interpreter=setup.interpreter,
            targets=ground.targets,
            plan=plan,
            fleet=fleet,
            free_bytes=setup.shares.free_bytes,
            cores=setup.shares.cores,
            seed=self._account.seed,
            cache=self._cache,
            quiet=setup.quiet,
            steps=self._steps,
        )


_Made = Candidate | Unappliable


class CandidatePreparer:
    """Makes candidates of one run's submissions.

    Args:
        cache: holds what submissions have become; a ref may name something else by now.
    """

    def __init__(
        self,
        mirror: Mirror,
        snapshot: Snapshot,
        targets: Sequence[Target],
        interpreter: Path,
        cache: StepCache,
    ) -> None:
        self._cache = cache
        self._mirror, self._snapshot = mirror, snapshot
        self._targets, self._interpreter = targets, interpreter
        self._made: dict[CandidateId, Candidate | Unappliable] = {}
        #: Of the candidates that are made here.
        self.changes = Changes(targets, partial(mirror.read, snapshot))

    async def ahead(self, entries: Iterable[CandidateEntry]) -> None:
        """Make candidates that will be asked for; nobody is told yet. Cancelling keeps what is made.

        Raises:
            EnvironmentFault: the mirror or its disk.
        """
        for entry in entries:
            await self.candidate(entry)

    async def candidate(self, entry: CandidateEntry) -> Candidate | Unappliable:
        """Return the candidate of a submission, or why it cannot be one.

        Raises:
            EnvironmentFault: the mirror or its disk.
        """
        if entry.id not in self._made:
            self._made[entry.id] = await self._make(entry)
        return self._made[entry.id]

    async def _make(self, entry: CandidateEntry) -> Candidate | Unappliable:
        submission = entry.submission
        key = to_plain(submission)
        made: Candidate | Unappliable | None = self._cache.get(_Made, StepKind.PREPARED, key)
        if made is None:
            made = await materialise(
                self._mirror, self._snapshot, submission, self._targets, interpreter=self._interpreter
            )
            self._cache.put(_Made, made, StepKind.PREPARED, key)
        if isinstance(made, Candidate):
            self.changes.look_at(made)
        return made


Entries = AsyncIterable[CandidateEntry] | Iterable[CandidateEntry]


Enter = Callable[[Submission], CandidateEntry]


async def entering(
    enter: Enter, source: AsyncIterable[Submission], at_end: Callable[[], None]
) -> AsyncIterator[CandidateEntry]:
    """Enter submissions as they come, and tell when there are no more."""
    async for submission in source:
        yield enter(submission)
    at_end()


def entered(
    enter: Enter, source: Iterable[Submission], at_end: Callable[[], None]
) -> Iterator[CandidateEntry]:
    """Enter submissions as they are asked for, and tell when there are no more."""
    for submission in source:
        yield enter(submission)
    at_end()


async def peek(source: Entries) -> tuple[Sequence[CandidateEntry], Entries]:
    """Return what is there; of a source that is still producing, the first, and put it back in front."""
    if isinstance(source, Sequence):
        return source, source
    if isinstance(source, AsyncIterable):
        iterator = aiter(source)
        first = [entry async for entry in _at_most_one(iterator)]
        return first, _chained(first, iterator)
    plain = iter(source)
    first = list(islice(plain, 1))
    return first, chain(first, plain)


async def _at_most_one(iterator: AsyncIterator[CandidateEntry]) -> AsyncIterator[CandidateEntry]:
    try:
        yield await anext(iterator)
    except StopAsyncIteration:
        return


async def _chained(
    first: Iterable[CandidateEntry], rest: AsyncIterator[CandidateEntry]
) -> AsyncIterator[CandidateEntry]:
    for entry in first:
        yield entry
    async for entry in rest:
        yield entry
