"""Fresh inputs of a field: made while candidates are checked, for those that pass, and for the race.

The check compares calls with inputs that no test uses. These are made of the constants of what the
candidates change: one that treats a size of 50 or the text "de" in its own way has said so. The baseline's
outcomes are computed once for the whole field; each candidate then makes the calls in a process of its own.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path

import anyio
import anyio.to_thread

from codeflash_parallel.baseline.baseline_store import load_or_learn
from codeflash_parallel.baseline.input_derivation import BaselineReplayer
from codeflash_parallel.baseline.preflight import later_limits
from codeflash_parallel.candidates.code_changes import Constant, constants_of
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.checker import replays_alone
from codeflash_parallel.check.comparison.accept_function import AcceptFunction
from codeflash_parallel.check.comparison.call_comparison import ENOUGH
from codeflash_parallel.check.session.runner_session import DerivationRequest, RunnerConfig
from codeflash_parallel.config.settings import ComparisonMode, InputDepth
from codeflash_parallel.result.candidate_model import Candidate, name_of
from codeflash_parallel.result.outcome_codes import Level
from codeflash_parallel.run.check_phase.candidate_examiner import Examination, combined
from codeflash_parallel.run.check_phase.counterexample_shrinker import CounterexampleShrinker
from codeflash_parallel.run.ledger import CandidateEntry
from codeflash_parallel.run.run_context import RunContext
from codeflash_parallel.workspace.slot_pool import Slot

#: Constants of one candidate that are tried.
_MOST_CONSTANTS = 32
#: Inputs of each target before a race; CPU seconds that all may take then, and for a check at least. Each
#: candidate takes two or three times as long, with the comparison of results.
_INSIDE, _RACE_S, _CHECK_S = 2_000, 0.5, 0.13
#: The same with `--depth full`, raced or not.
_FULL, _FULL_S = 4_000, 1.0


@dataclass(kw_only=True, slots=True)
class FreshInputs(Examination):
    """Makes and compares fresh inputs for the fields of one run.

    Attributes:
        known: what the baseline does with those of the last field; `None`: there are none.
        candidates: of the last field.
        judge: the user's, for these; `None`: there is none.
    """

    context: RunContext
    known: Baseline | None = None
    candidates: Sequence[Candidate] = ()
    judge: AcceptFunction | None = None

    async def cover(self, entries: Sequence[CandidateEntry]) -> None:
        """Make inputs anew if there are candidates whose constants are not in those of the last field."""
        if not {entry.id for entry in entries} <= {candidate.id for candidate in self.candidates}:
            await self.learn([entry.staged for entry in entries])

    async def learn(self, candidates: Sequence[Candidate]) -> None:
        """Make inputs for the candidates of a field, in a slot of the pool."""
        whole, self.known, self.candidates = self.context.baseline, None, candidates
        is_values = self.context.settings.compare is ComparisonMode.VALUES
        if not candidates or not whole.anchors or not is_values:
            return
        constants = self._constants(candidates)
        judge = self.context.plan.judge
        # Calls have the numbers of others in each field.
        self.judge = None if judge is None else replace(judge, known={})
        wanted = DerivationRequest(check_s=max(_CHECK_S, whole.replay_cpu_ns / 1e9), constants=constants)
        if self.context.settings.depth == InputDepth.FULL:
            wanted = replace(wanted, inside=_FULL, check_s=_FULL_S)
        elif self.context.races:
            wanted = replace(wanted, inside=_INSIDE, check_s=_RACE_S)
        name = name_of([sorted(map(repr, constants)), wanted.inside, wanted.check_s])
        folder = Path(whole.inputs).parent / "fresh" / name
        known = await load_or_learn(folder, partial(self._learned, folder, wanted))
        self.known = known if known.derived else None

    def _constants(self, candidates: Sequence[Candidate]) -> tuple[Constant, ...]:
        """Return the constants of all candidates, taken in turns, and those of the targets."""
        found = [self.context.changes.constants(candidate)[:_MOST_CONSTANTS] for candidate in candidates]
        theirs = (c for c in chain.from_iterable(zip_longest(*found)) if c is not None)
        runner, sources = self.context.runner, self.context.plan.sources
        names = {path: [t.qualname for t in runner.targets if t.path == path] for path in sources}
        own = (c for path, text in sources.items() for c in constants_of(text, names[path]))
        return tuple(dict.fromkeys((*theirs, *own)))

    async def _learned(self, folder: Path, wanted: DerivationRequest) -> Baseline:
        """Make inputs and the baseline's calls with them; of the captured calls one of each target."""
        context, whole = self.context, self.context.baseline
        await anyio.to_thread.run_sync(_put_inputs, folder, Path(whole.inputs))
        async with context.quiet.shared(), context.pool.acquire() as slot:
            return await self._learned_in(slot, folder, wanted)

    async def _learned_in(self, slot: Slot, folder: Path, wanted: DerivationRequest) -> Baseline:
        context, whole = self.context, self.context.baseline
        aside = () if set(whole.anchors) <= set(whole.sheltered) else whole.aside
        making = BaselineReplayer(
            runner=context.runner,
            workspace=slot.workspace,
            inputs=folder / "inputs",
            derived=folder / "derived",
            tree=slot,
            aside=aside,
            limits=later_limits(whole),
            steps=context.steps,
            wanted=wanted,
        )
        replays, found = await making.run(whole.calls, whole.anchors, await making.drawn(whole.calls))
        context.steps.begin("")
        learned = replace(
            whole,
            calls={index: whole.calls[index] for index in whole.anchors},
            derived=found.calls,
            breaks=found.breaks,
            sizes=found.sizes,
            dropped=found.dropped,
            inputs=str(making.inputs),
            derived_inputs=str(making.derived),
            manners=tuple(sorted({*whole.manners, *(manner for got in replays for manner in got.manners)})),
            replaced=tuple(sorted({*whole.replaced, *(name for got in replays for name in got.replaced)})),
            globals=(),
            changed_globals={},
            aside=aside,
            sheltered=(),
        )
        return learned if self.judge is None else await self.judge.settled(learned)

    async def prepare(self, slot: Slot, /) -> None:
        """Make the slot's servers ready."""
        await self.context.fleet.prepare(slot)

    async def run(self, entry: CandidateEntry, slot: Slot, /) -> CheckOutcome:
        """Make the calls with what is staged, and add what they say to what its check said."""
        context, before = self.context, entry.outcome
        assert self.known is not None
        assert before is not None
        loosens = self.context.changes.loosens(entry.staged)
        rules = replace(context.plan.rules, unkept=context.fleet.unkept, loosens=loosens)
        by_edits = self.context.changes.known_serving(entry.staged)
        plan = replace(context.plan, baseline=self.known, rules=rules, by_edits=by_edits, judge=self.judge)
        servers = context.fleet.of(slot)
        got = await replays_alone(plan, slot.workspace, entry.staged, slot, servers)
        return with_fresh(
            before, await CounterexampleShrinker(context, self.known).smaller(got, entry.staged, slot)
        )

    def ground(self, _entry: CandidateEntry, _outcome: CheckOutcome, /) -> tuple[RunnerConfig, Baseline]:
        """Return what candidates are compared with."""
        return self.context.runner, self.known or self.context.baseline


def _put_inputs(folder: Path, inputs: Path) -> None:
    """Put captured inputs beside those that are made of them: what is kept there is whole by itself."""
    (folder / "inputs").unlink(missing_ok=True)
    try:
        (folder / "inputs").hardlink_to(inputs)
    except OSError:  # a file system without links
        shutil.copyfile(inputs, folder / "inputs")


def with_fresh(before: CheckOutcome, got: CheckOutcome) -> CheckOutcome:
    """Add what calls with fresh inputs say to what a check said that let the candidate pass."""
    counts = ("derived", "derived_differing", "outside", "outside_differing")
    sums = {name: getattr(before.values, name) + getattr(got.values, name) for name in counts}
    larger = ("largest_seen", "largest_fresh")
    sums |= {name: max(getattr(before.values, name), getattr(got.values, name)) for name in larger}
    dropped = dict(Counter(before.values.dropped) + Counter(got.values.dropped))
    level = before.values.level
    if level is Level.CAPTURED and sums["derived"] >= ENOUGH:
        level = Level.DERIVED
    return combined(before, got, replace(before.values, **sums, dropped=dropped, level=level))
