"""Preparation of a run: snapshot, targets, slots, candidates' edits, baseline."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from itertools import count

import anyio

from codeflash_parallel.baseline.step_reporter import StepReporter
from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.candidate_changes import Changes
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.result.candidate_model import Candidate, CandidateId, Unappliable
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.run.ledger import CandidateEntry, RunContext, RunFindings
from codeflash_parallel.run.run_state import StepCache, StepKind
from codeflash_parallel.run.run_targets import must_have_named, targets_of
from codeflash_parallel.run.setup.evaluator_resources import BaselineRequest, EvaluatorResources
from codeflash_parallel.run.setup.evaluator_setup import Setup
from codeflash_parallel.workspace.snapshot.candidate_builder import materialise
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

#: Candidates of a run: all of them, or a generator that is still producing.
Entries = Sequence[CandidateEntry] | AsyncGenerator[CandidateEntry, None]

_Made = Candidate | Unappliable


class CandidatePreparer:
    """Makes candidates of one run's submissions.

    Args:
        cache: holds what submissions have become; a ref may name something else by now.

    Attributes:
        changes: analysis of the candidates that are made here.
    """

    def __init__(self, setup: Setup, snapshot: Snapshot, targets: Sequence[Target], cache: StepCache) -> None:
        self._setup, self._snapshot, self._targets, self._cache = setup, snapshot, targets, cache
        self._made: dict[CandidateId, _Made] = {}
        self.changes = Changes(targets, partial(setup.mirror.read, snapshot))

    async def prepare_all(self, entries: Iterable[CandidateEntry]) -> list[Candidate]:
        """Return the candidates of those submissions that are some. Cancelling keeps what is made.

        Raises:
            EnvironmentFault: the mirror or its disk.
        """
        made = [await self.candidate(entry) for entry in entries]
        return [one for one in made if isinstance(one, Candidate)]

    async def candidate(self, entry: CandidateEntry) -> Candidate | Unappliable:
        """Return the candidate of a submission, or why it cannot be one.

        Raises:
            EnvironmentFault: the mirror or its disk.
        """
        if entry.id not in self._made:
            self._made[entry.id] = await self._make(entry)
        return self._made[entry.id]

    async def _make(self, entry: CandidateEntry) -> Candidate | Unappliable:
        setup, submission = self._setup, entry.submission
        key = to_plain(submission)
        made: Candidate | Unappliable | None = self._cache.get(_Made, StepKind.PREPARED, key)
        if made is None:
            made = await materialise(
                setup.mirror, self._snapshot, submission, self._targets, interpreter=setup.interpreter
            )
            self._cache.put(_Made, made, StepKind.PREPARED, key)
        if isinstance(made, Candidate):
            self.changes.look_at(made)
        return made


class RunPreparation:
    """Prepares one run.

    Args:
        cache: of the run; it gets its ground here.
    """

    def __init__(
        self, resources: EvaluatorResources, account: RunFindings, cache: StepCache, steps: StepReporter
    ) -> None:
        self._resources, self._setup, self._settings = resources, resources.setup, resources.setup.settings
        self._account, self._ledger, self._cache, self._steps = account, account.ledger, cache, steps

    async def prepare(
        self, source: Entries, *, checks_here: bool = True
    ) -> tuple[RunContext, CandidatePreparer, Entries]:
        """Freeze the tree, make the slots, and run the baseline.

        Args:
            checks_here: candidates are checked in this process, not by other hosts.

        Returns:
            The context, what makes candidates of submissions, and the source with what was taken from it to
            find the targets put back.

        Raises:
            UsageError, EnvironmentFault: there can be no run.
        """
        account, setup, quiet = self._account, self._setup, self._setup.quiet
        with account.phase("snapshot"):
            if self._resources.pinned is None:  # else that was done when the snapshot was taken
                await anyio.to_thread.run_sync(must_have_named, setup.repository, self._settings)
            async with anyio.create_task_group() as group:
                group.start_soon(self._resources.preload)
                async with quiet.shared():
                    snapshot = await self._snapshot()
                # In no block: the first candidate may be long in coming, and races of others would wait.
                named = self._settings.functions
                seen, source = ((), source) if named else await peek(source)
                async with quiet.shared():
                    submissions = [entry.submission for entry in seen]
                    targets = await targets_of(setup.mirror, snapshot, named, submissions)
                    pool = await self._resources.pool(snapshot, self._slots_name())
            self._warn(pool.new_warnings())
        with account.phase("baseline"):
            runner = setup.runner(targets, snapshot, account.seed)
            if self._cache.set_ground(self._resources.baselines.ground(runner, snapshot)):
                self._warn(
                    ["Interpreter, packages, environment or our version have changed: all are judged again."]
                )
            preparer = CandidatePreparer(setup, snapshot, targets, self._cache)
            there = known(source, self._settings.max_candidates)
            demand = BaselineRequest(
                runner=runner,
                snapshot=snapshot,
                pool=pool,
                candidates=self._expected(source, there) if checks_here else 0,
                are_all=isinstance(source, Sequence),
                replays=account.races or self._settings.compare is ComparisonMode.VALUES,
                steps=self._steps,
            )
            async with quiet.shared(), anyio.create_task_group() as group:
                group.start_soon(preparer.prepare_all, there)
                group.start_soon(pool.make_ready, demand.candidates)
                plan, fleet = await self._resources.baselines.baseline(demand)
                group.cancel_scope.cancel()
            self._warn(plan.baseline.warnings)
            account.context = RunContext(
                run_id=account.run_id,
                seed=account.seed,
                races=account.races,
                setup=setup,
                ledger=self._ledger,
                cache=self._cache,
                steps=self._steps,
                snapshot=snapshot,
                pool=pool,
                targets=targets,
                plan=plan,
                fleet=fleet,
                changes=preparer.changes,
            )
        return account.context, preparer, source

    async def _snapshot(self) -> Snapshot:
        """Freeze the user's tree, unless the run has a snapshot."""
        known: Snapshot | None = self._cache.get(Snapshot, StepKind.SNAPSHOT)
        if known is not None:
            return await self._resources.same_snapshot(known, self._ledger.warn)
        snapshot = await self._resources.snapshot()
        self._cache.put(Snapshot, snapshot, StepKind.SNAPSHOT)
        return snapshot

    def _expected(self, source: Entries, there: Sequence[CandidateEntry]) -> int:
        """Return how many candidates are known to come."""
        return self._left_of(there) if isinstance(source, Sequence) else self._setup.shares.slots

    def _left_of(self, entries: Sequence[CandidateEntry]) -> int:
        """Return how many candidates an earlier process of the run has not checked."""
        return max(0, len(entries) - self._cache.count(StepKind.SCREEN))

    def _slots_name(self) -> str:
        """Name the run's slots; those that an earlier process of the run kept stay where they are."""
        names = (f"{self._account.run_id}.{number}" if number else self._account.run_id for number in count())
        return next(name for name in names if not (self._setup.home / "slots" / name).exists())

    def _warn(self, warnings: Iterable[str]) -> None:
        for warning in warnings:
            self._ledger.warn(warning)


def known(source: Entries, limit: int) -> Sequence[CandidateEntry]:
    """Return the candidates that are there already, at most `limit` of them; 0: all."""
    return source[: limit or None] if isinstance(source, Sequence) else ()


async def peek(source: Entries) -> tuple[Sequence[CandidateEntry], Entries]:
    """Return what is there (the first, of a generator) and the source with that put back."""
    if isinstance(source, Sequence):
        return source, source
    taken = await anext(source, None)
    first = [] if taken is None else [taken]

    async def chained() -> AsyncGenerator[CandidateEntry, None]:
        async with aclosing(source):
            for entry in first:
                yield entry
            async for entry in source:
                yield entry

    return first, chained()
