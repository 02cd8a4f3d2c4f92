"""Fresh inputs of a field: made while candidates are checked, for those that pass, and for the race.

The check compares calls with inputs that no test uses. These are made of the constants of what the
candidates change: one that treats a size of 50 or the text "de" in its own way has said so. The baseline's
outcomes are computed once for the whole field; each candidate then makes the calls in a process of its own.

For a call that differs a smaller input is sought. Some rounds, each of two processes: the baseline makes
simpler inputs and the call with each, the candidate makes the call with the same. The smallest one that
differs in the same way is where the next round begins. It decides nothing.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path

import anyio
import anyio.to_thread

from codeflash_parallel.baseline.baseline_replay import BaselineReplayer
from codeflash_parallel.baseline.baseline_store import load_or_learn
from codeflash_parallel.baseline.preflight import later_limits
from codeflash_parallel.candidates.code_changes import Constant, constants_of
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.call_replay import without
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.checker import replays_alone
from codeflash_parallel.check.comparison.accept_function import AcceptFunction
from codeflash_parallel.check.comparison.call_comparison import ENOUGH, call_code
from codeflash_parallel.check.comparison.difference_text import outcome_text
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport
from codeflash_parallel.check.session.runner_session import (
    DerivationRequest,
    RunnerConfig,
    hashed,
    replay_spec,
    run_session,
    shrink_spec,
)
from codeflash_parallel.config.environment import HASH_SEEDS
from codeflash_parallel.config.settings import ComparisonMode, InputDepth
from codeflash_parallel.process.files import write_atomically
from codeflash_parallel.result.candidate_model import Candidate, name_of
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.result.outcome_codes import Code, Level, Trait
from codeflash_parallel.result.result_model import FirstDifference
from codeflash_parallel.result.runtime_protocols import ProcessLimits
from codeflash_parallel.run.check_phase.candidate_examiner import Examination, combined
from codeflash_parallel.run.ledger import CandidateEntry, RunContext
from codeflash_parallel.workspace.slot_pool import Slot

#: Constants of one candidate that are tried.
_MOST_CONSTANTS = 32
#: Inputs of each target before a race; CPU seconds that all may take then, and for a check at least. Each
#: candidate takes two or three times as long, with the comparison of results.
_INSIDE, _RACE_S, _CHECK_S = 2_000, 0.5, 0.13
#: File beside inputs that says what they are made of.
_WANTED = "wanted.json"
#: The same with `--depth full`, raced or not.
_FULL, _FULL_S = 4_000, 1.0


@dataclass(kw_only=True, slots=True)
class FreshInputs(Examination):
    """Makes and compares fresh inputs for the fields of one run.

    Attributes:
        constants: of the whole run, where there are more than those of the candidates here.
        known: what the baseline does with those of the last field; `None`: there are none.
        candidates: of the last field.
        judge: the user's, for these; `None`: there is none.
    """

    context: RunContext
    constants: Sequence[Constant] = ()
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
        constants = self.constants_of(candidates)
        judge = self.context.plan.judge
        # Calls have the numbers of others in each field.
        self.judge = None if judge is None else replace(judge, known={})
        wanted = DerivationRequest(check_s=max(_CHECK_S, whole.replay_cpu_ns / 1e9), constants=constants)
        if self.context.settings.depth == InputDepth.FULL:
            wanted = replace(wanted, inside=_FULL, check_s=_FULL_S)
        elif self.context.races:
            wanted = replace(wanted, inside=_INSIDE, check_s=_RACE_S)
        folder, wanted = await anyio.to_thread.run_sync(fitting, Path(whole.inputs).parent / "fresh", wanted)
        known = await load_or_learn(folder, partial(self._learned, folder, wanted))
        self.known = known if known.derived else None

    def constants_of(self, candidates: Sequence[Candidate]) -> tuple[Constant, ...]:
        """Return the constants of all candidates, taken in turns, of the run, and of the targets."""
        found = [self.constants_in(candidate) for candidate in candidates]
        theirs = (c for c in chain.from_iterable(zip_longest(*found)) if c is not None)
        runner, sources = self.context.runner, self.context.plan.sources
        names = {path: [t.qualname for t in runner.targets if t.path == path] for path in sources}
        own = (c for path, text in sources.items() for c in constants_of(text, names[path]))
        return tuple(dict.fromkeys((*theirs, *self.constants, *own)))

    def constants_in(self, candidate: Candidate) -> tuple[Constant, ...]:
        """Return the constants of a candidate that are tried."""
        return self.context.changes.constants(candidate)[:_MOST_CONSTANTS]

    async def _learned(self, folder: Path, wanted: DerivationRequest) -> Baseline:
        """Make inputs and the baseline's calls with them; of the captured calls one of each target."""
        context, whole = self.context, self.context.baseline
        await anyio.to_thread.run_sync(_put_inputs, folder, Path(whole.inputs), wanted)
        async with context.quiet.shared(), context.pool.acquire(unused=True) as slot:
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


def fitting(parent: Path, wanted: DerivationRequest) -> tuple[Path, DerivationRequest]:
    """Return a folder of inputs that are made of all wanted constants, and what is wanted there. Blocking.

    What an earlier field of the same baseline had made is taken where its constants are among those. New ones
    are not joined with earlier ones: inputs for constants come before all others, and would crowd them out.

    Args:
        parent: of the folders, one for each set of constants.
        wanted: by a field.
    """
    fits = [
        found for found in _made_before(parent, wanted) if set(found[1].constants) >= set(wanted.constants)
    ]
    name = name_of([sorted(map(repr, wanted.constants)), wanted.inside, wanted.check_s])
    return min(fits, key=lambda found: len(found[1].constants), default=(parent / name, wanted))


def _made_before(parent: Path, wanted: DerivationRequest) -> Iterator[tuple[Path, DerivationRequest]]:
    """Yield folders with as many inputs as are wanted, and what they were made of."""
    for path in sorted(parent.glob(f"*/{_WANTED}")):
        with suppress(OSError, ValueError, TypeError, KeyError):  # damaged, or removed meanwhile
            plain = json.loads(path.read_bytes())
            made = replace(wanted, constants=tuple(plain["constants"]))
            if to_plain(made) == plain and (path.parent / "baseline.json").is_file():
                yield path.parent, made


def _put_inputs(folder: Path, inputs: Path, wanted: DerivationRequest) -> None:
    """Put captured inputs beside those that are made of them: what is kept there is whole by itself."""
    write_atomically(folder / _WANTED, json.dumps(to_plain(wanted)).encode())
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
        spec = shrink_spec(context.runner, baseline.inputs, base, str(out), first, self._tries)
        async with context.pool.baselines_turn:
            slot = context.pool.baseline
            workspace = hashed(slot.workspace, HASH_SEEDS[1])
            async with without(slot, baseline.aside):
                session = await run_session(context.runner, workspace, spec, _TRYING)
            await slot.discard()
        return {call.index: call for call in session.report.calls if not call.unencodable}

    async def _got(
        self, candidate: Candidate, slot: Slot, out: str, numbers: tuple[int, ...], texts: tuple[int, ...]
    ) -> RunnerReport:
        context, baseline = self._context, self._baseline
        if not numbers:
            return RunnerReport()
        prove = tuple(edit.path for edit in candidate.edits)
        spec = replay_spec(context.runner, baseline.inputs, prove, baseline.anchors, texts, (out, numbers))
        async with without(slot, baseline.aside):
            session = await run_session(context.runner, slot.workspace, spec, context.plan.limits)
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
