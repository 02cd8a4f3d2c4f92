"""Replay captured calls on a candidate outside its tests; the command that reproduces a rejection."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from codeflash_parallel.check.assessment import (
    CandidateFinding,
    doubt,
    gives_alike,
    judged_replay,
    untold,
    with_words,
)
from codeflash_parallel.check.baseline_model import Baseline, ReplayGroup
from codeflash_parallel.check.check_plan import CheckOutcome, CheckPlan
from codeflash_parallel.check.comparison.call_comparison import CallMeasurement
from codeflash_parallel.check.comparison.value_comparison import (
    ValueComparison,
    measure,
    to_measure,
    together,
)
from codeflash_parallel.check.dispatch.fork_points import ForkChoice, choose
from codeflash_parallel.check.dispatch.run_dispatch import RunPlace, StepTimes, run_served
from codeflash_parallel.check.session.runner_session import (
    RunnerConfig,
    RunnerSession,
    SelectedRun,
    replay_spec,
    selected_run_spec,
)
from codeflash_parallel.result.candidate_model import Candidate
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.sandbox.runner_command import start_command
from codeflash_parallel.workspace.slot.slot import Slot

#: Numbers of captured calls, and of those with derived inputs, which are made after them.
_Calls = tuple[tuple[int, ...], tuple[int, ...]]


@asynccontextmanager
async def without(tree: Slot | None, paths: tuple[str, ...]) -> AsyncIterator[None]:
    """Have files not there while something runs, where there is a tree that can do so and any are named."""
    if tree is None or not paths:
        yield
        return
    async with tree.without(paths):
        yield


@dataclass(frozen=True, kw_only=True, slots=True)
class CallReplay:
    """Replays of one check.

    Attributes:
        place: where the candidate is staged.
        tree: lets tests lie elsewhere meanwhile; `None`: they stay.
        by_edits: where a run may begin, as far as the candidate is concerned.
        account: is told of every run.
    """

    plan: CheckPlan
    place: RunPlace
    tree: Slot | None
    candidate: Candidate
    by_edits: ForkChoice
    account: StepTimes

    async def run(self, found: CandidateFinding) -> CandidateFinding:
        """Make the calls, and add what they say to what the tests said; the first difference decides."""
        before: ValueComparison | None = None
        for part in self.plan.baseline.parts:
            if found.code is not Code.OK:
                return found
            found = await self._part(found, part)
            if before is not None and found.values is not None:
                found = replace(found, values=together(before, found.values))
            before = found.values
        return found

    async def _part(self, found: CandidateFinding, part: ReplayGroup) -> CandidateFinding:
        plan = self.plan
        session = await self._replay(part, (), _calls_of(part))
        measured = await self._measured(part, session)
        found = judged_replay(found, session, self.candidate, plan.baseline, plan.rules, measured, part.known)
        shown = untold(found, session)
        if shown is None:
            return found
        return with_words(found, await self._retold(part, session, shown), plan.baseline)

    async def _retold(self, part: ReplayGroup, session: RunnerSession, shown: int) -> RunnerSession:
        """Make a differing call again, in words: alone if it gives the same, else after those before it."""
        captured, derived = _calls_of(part)
        alone: _Calls
        before: _Calls
        if shown in derived:
            alone, before = ((), (shown,)), (captured, derived[: derived.index(shown) + 1])
        else:
            alone, before = ((shown,), ()), (captured[: captured.index(shown) + 1], ())
        again = await self._replay(part, (shown,), alone)
        return again if gives_alike(shown, again, session) else await self._replay(part, (shown,), before)

    async def _measured(self, part: ReplayGroup, session: RunnerSession) -> Mapping[int, CallMeasurement]:
        """Make the calls once more to get the floats of those that may differ in nothing else."""
        rules = self.plan.rules
        wanted = to_measure(part.known, session.report, rules)
        if not wanted:
            return {}
        again = await self._replay(part, wanted, _calls_of(part))
        found = measure(part.known, session.report, again.report.calls, rules)
        if not rules.judge or self.plan.judge is None:
            return found
        calls = [c for c in again.report.calls if c.index not in found or not found[c.index].is_accepted]
        judge, baseline = self.plan.judge, self.plan.baseline
        return {**found, **await judge.measured(baseline, part.known, session.report, calls)}

    async def _replay(self, part: ReplayGroup, texts: tuple[int, ...], calls: _Calls) -> RunnerSession:
        """Make calls, some of them with their outcomes in words."""
        plan, baseline = self.plan, self.plan.baseline
        captured, derived = calls
        made = (baseline.derived_inputs, derived)
        prove = tuple(edit.path for edit in self.candidate.edits)
        spec = replay_spec(plan.runner, baseline.inputs, prove, captured, texts, made)
        serving = choose(self.by_edits, new_process=plan.new_process)
        async with without(self.tree, part.aside):
            served = await run_served(self.place, spec, serving, partial(self._doubt, part))
        self.account.replay(served)
        return served.session

    def _doubt(self, part: ReplayGroup, session: RunnerSession) -> str:
        loaded = self.plan.baseline.loaded
        return doubt(session, self.candidate, self.plan.baseline, {}, part.known.paths & loaded.keys())


def _calls_of(part: ReplayGroup) -> _Calls:
    return tuple(part.known.calls), tuple(part.known.derived)


#: More failing tests than this are not run again: one is enough to look at.
_TESTS = 5
#: Where the runner's records go when pytest's own output is what one wants to see.
_HIDDEN_RECORDS = ("3", " 3>/dev/null")
#: Where they go when they are the answer: the replayed call, its value, its arguments afterwards.
_SHOWN_RECORDS = ("1", "")


def reproduction(
    runner: RunnerConfig, baseline: Baseline, workspace: Workspace, outcome: CheckOutcome
) -> str:
    """Write a spec beside the slot's tree and return the shell command that runs it.

    A differing call is replayed alone and printed as a JSON record, while the tests lie elsewhere if they did
    so in the check; otherwise the failing tests are run. Sets have the order that they had: the hash seed is
    that of the workspace.

    Args:
        runner, baseline: what the candidate was held against.
        workspace: where it is staged.
        outcome: of its check.
    """
    difference = outcome.difference
    aside: tuple[str, ...] = ()
    if difference is not None and difference.call in baseline.known.all:
        call = (difference.call,)
        captured, derived = ((), call) if difference.derived else (call, ())
        made = (baseline.derived_inputs, derived)
        spec = replay_spec(runner, baseline.inputs, (), captured, texts=call, derived=made)
        descriptor, redirection = _SHOWN_RECORDS
        aside = next(part.aside for part in baseline.parts if difference.call in part.known.all)
    else:
        failing = (*outcome.tests.failed_ids, *outcome.tests.missing_ids)[:_TESTS]
        run = SelectedRun(only=failing or None)
        spec = {**selected_run_spec(runner, workspace, baseline, run), "summary": True}
        descriptor, redirection = _HIDDEN_RECORDS
    command = start_command(workspace, spec, ProcessLimits(wall_s=0), runner.directory)
    words = [descriptor if word == "{records}" else word for word in command.argv]
    seed = f"PYTHONHASHSEED={workspace.environment['PYTHONHASHSEED']}"
    return _without(workspace.root, aside, shlex.join(["env", seed, *words]) + redirection)


def _without(tree: Path, paths: Sequence[str], command: str) -> str:
    """Return a shell command that runs another one while files of a tree lie beside it, Ctrl-C or not."""
    if not paths:
        return command
    folder = tree.with_name(f"{tree.name}-aside")
    pairs = [(shlex.quote(str(tree / path)), shlex.quote(f"{folder}/{n}")) for n, path in enumerate(paths)]
    away = " && ".join([f"mkdir -p {shlex.quote(str(folder))}", *(f"mv {at} {to}" for at, to in pairs)])
    back = "; ".join(f"mv {to} {at}" for at, to in pairs)
    # `status` cannot be assigned in zsh.
    return f"(trap : INT; {away} && {command}; ended=$?; {back}; exit $ended)"
