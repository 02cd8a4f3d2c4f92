"""A smaller input that shows a difference: made by the baseline's process, seen by the evaluator.

Some rounds, each of two processes: the baseline makes simpler inputs and the call with each, the candidate
makes the call with the same. The smallest one that differs in the same way is where the next round begins.
It decides nothing.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.call_replay import without
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.comparison.call_comparison import call_code
from codeflash_parallel.check.comparison.difference_text import outcome_text
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport
from codeflash_parallel.check.session.runner_session import hashed, replay_spec, run_guest, shrink_spec
from codeflash_parallel.config.environment import HASH_SEEDS
from codeflash_parallel.result.candidate_model import Candidate
from codeflash_parallel.result.outcome_codes import Code, Trait
from codeflash_parallel.result.result_model import FirstDifference
from codeflash_parallel.result.runtime_protocols import ProcessLimits
from codeflash_parallel.run.run_context import RunContext
from codeflash_parallel.workspace.slot_pool import Slot

#: An example whose input is no longer than this, in characters, is small enough.
SHORT = 40
#: Rounds, and inputs that are tried in each; fewer where looking at a call takes long, none instead of few.
ROUNDS, TRIES, LEAST_TRIES = 3, 60, 10
#: CPU time of the tries of one round, on each side.
TRYING_NS = 300_000_000
#: Of the baseline's processes, which bound each call themselves; after so many seconds no round begins.
_TRYING, _LAST_S = ProcessLimits(wall_s=10.0, cpu_s=2.0), 1.5
#: Smaller inputs are numbered from here on; derived ones never get that far.
_FIRST = 2_000_000


@dataclass(frozen=True, slots=True)
class _Example:
    """An input that shows a difference.

    Attributes:
        source: file that holds it, under the number `index`.
    """

    source: str
    index: int
    expected: CallOutcome


class CounterexampleShrinker:
    """Looks for smaller examples.

    Args:
        baseline: what candidates are compared with.
    """

    def __init__(self, context: RunContext, baseline: Baseline) -> None:
        self._context, self._baseline = context, baseline

    async def smaller(self, outcome: CheckOutcome, candidate: Candidate, slot: Slot) -> CheckOutcome:
        """Add a smaller example to what differs, if there is one. Cancelling kills what runs.

        Args:
            outcome: of the check.
            candidate: it is staged.
            slot: where.
        """
        difference, known = outcome.difference, self._baseline.known.all
        if (
            Trait.SHRINKABLE not in outcome.code.traits
            or difference is None
            or len(difference.inputs) <= SHORT
        ):
            return outcome
        if difference.call not in known or known[difference.call].args != difference.inputs:
            return outcome  # not one of the targets' calls
        if self._tries < LEAST_TRIES:
            return outcome
        parent = Path(self._baseline.inputs).parent
        folder = Path(await anyio.to_thread.run_sync(partial(tempfile.mkdtemp, dir=parent, prefix="shrunk-")))
        try:
            found = await self._search(outcome.code, difference, candidate, slot, folder)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))
        return outcome if found is None else replace(outcome, difference=found)

    @property
    def _tries(self) -> int:
        """Inputs to try in a round, by the time that a captured call takes."""
        call_ns = self._baseline.replay_cpu_ns // max(1, len(self._baseline.calls))
        return min(TRIES, TRYING_NS // max(1, call_ns))

    async def _search(
        self, code: Code, difference: FirstDifference, candidate: Candidate, slot: Slot, folder: Path
    ) -> FirstDifference | None:
        baseline = self._baseline
        source = baseline.derived_inputs if difference.call in baseline.derived else baseline.inputs
        best = first = _Example(source, difference.call, baseline.known.all[difference.call])
        until = anyio.current_time() + _LAST_S
        for number in range(ROUNDS):
            out = folder / str(number)
            made = await self._made(best, out, _FIRST + 1000 * number)
            got = await self._got(candidate, slot, str(out), tuple(made), ())
            smallest = smallest_like(code, first.expected, made, got)
            if smallest is None:
                break
            best = _Example(str(out), smallest, made[smallest])
            if anyio.current_time() > until:
                break
        return None if best is first else await self._confirmed(code, difference, best, candidate, slot)

    async def _confirmed(
        self, code: Code, difference: FirstDifference, best: _Example, candidate: Candidate, slot: Slot
    ) -> FirstDifference | None:
        """Make the call once more on both sides, alone, and put it into words."""
        report = await self._got(candidate, slot, best.source, (best.index,), (best.index,))
        got = next((call for call in report.calls if call.index == best.index), None)
        if got is None or call_code(best.expected, got) is not code:
            return None
        return replace(
            difference,
            smaller_inputs=best.expected.args,
            smaller_expected=outcome_text(best.expected),
            smaller_got=outcome_text(got),
        )

    async def _made(self, example: _Example, out: Path, first: int) -> Mapping[int, CallOutcome]:
        """Return what the baseline gives for simpler inputs, the smallest first."""
        context, baseline = self._context, self._baseline
        base = (example.source, example.index)
        spec = shrink_spec(context.guest, baseline.inputs, base, str(out), first, self._tries)
        async with context.pool.baselines_turn:
            slot = context.pool.baseline
            workspace = hashed(slot.workspace, HASH_SEEDS[1])
            async with without(slot, baseline.aside):
                session = await run_guest(context.guest, workspace, spec, _TRYING)
            await slot.discard()
        return {call.index: call for call in session.report.calls if not call.unencodable}

    async def _got(
        self, candidate: Candidate, slot: Slot, out: str, numbers: tuple[int, ...], texts: tuple[int, ...]
    ) -> RunnerReport:
        context, baseline = self._context, self._baseline
        if not numbers:
            return RunnerReport()
        prove = tuple(edit.path for edit in candidate.edits)
        spec = replay_spec(context.guest, baseline.inputs, prove, baseline.anchors, texts, (out, numbers))
        async with without(slot, baseline.aside):
            session = await run_guest(context.guest, slot.workspace, spec, context.plan.limits)
        return session.report


def smallest_like(
    code: Code, example: CallOutcome, made: Mapping[int, CallOutcome], got: RunnerReport
) -> int | None:
    """Return the first input for which the candidate differs as it does for the example.

    Args:
        code: of the difference.
        example: what the baseline gives for the example: it must end in the same way for the other one.
        made: what the baseline gives, by number, the smallest first.
        got: the candidate's replay.
    """
    answers = {answer.call: answer for answer in got.answers}
    for index, expected in made.items():
        alike = (expected.kind, expected.type) == (example.kind, example.type)
        if alike and index in answers and call_code(expected, answers[index]) is code:
            return index
    return None
