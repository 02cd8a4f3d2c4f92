"""Put together what the runs of one check say: faults, tests, values. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.call_comparison import (
    BaselineReplays,
    CallMeasurement,
    ComparisonRules,
)
from codeflash_parallel.check.comparison.difference_text import reworded
from codeflash_parallel.check.comparison.outcome_comparison import (
    DECISIVE,
    Outcomes,
    TestComparison,
    TestKey,
    compare_observed,
    compare_tests,
)
from codeflash_parallel.check.comparison.value_comparison import ValueComparison, compare_calls
from codeflash_parallel.check.integrity.process_faults import (
    ProcessFault,
    leak,
    machinery_fault,
    unbelievable,
    wrong_source,
)
from codeflash_parallel.check.session.runner_session import RunnerSession
from codeflash_parallel.result.candidate_model import Candidate
from codeflash_parallel.result.outcome_codes import Code, Level, Trait
from codeflash_parallel.result.result_model import ValueCounts


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidateFinding:
    """The findings about a candidate; the gravest one gives the code."""

    tests: TestComparison
    values: ValueComparison | None = None
    fault: ProcessFault | None = None

    @property
    def code(self) -> Code:
        """Return the code of the candidate."""
        return self._gravest[0]

    @property
    def reason(self) -> str:
        """Return the code in one sentence."""
        return self._gravest[1]

    @property
    def counts(self) -> ValueCounts:
        """Return how many values were compared, and how deep that was."""
        known = self.values is not None and self.fault is None
        return self.values.counts if known and self.values else ValueCounts(level=Level.TESTS)

    @property
    def _gravest(self) -> tuple[Code, str]:
        if self.fault is not None:
            return self.fault.code, self.fault.reason
        if self.tests.code is Code.OK and self.values is not None and self.values.reason:
            return self.values.code, self.values.reason
        return self.tests.code, self.tests.reason


def judged_tests(
    session: RunnerSession,
    compared: TestComparison,
    candidate: Candidate,
    baseline: Baseline,
    observed: Mapping[TestKey, Outcomes],
) -> CandidateFinding:
    """Judge a run of tests.

    Args:
        session: the run.
        compared: its outcomes, held against the baseline's.
        candidate: what was staged.
        baseline: what is known.
        observed: outcomes of calls inside the tests that the run has to repeat.
    """
    # A run that ended early may rightly not have reached a module.
    needed = () if compared.counts.not_run else baseline.loaded.keys()
    fault = run_fault(session, candidate, baseline, needed)
    if compared.code is Code.OK:
        fault = fault or unbelievable(session, baseline)
    if fault is not None or compared.code is not Code.OK or not observed:
        return CandidateFinding(tests=compared, fault=fault)
    return CandidateFinding(
        tests=compared, values=compare_observed(observed, session.report, baseline.targets)
    )


def observable(
    baseline: Baseline, targets: Iterable[Target], candidate: Candidate
) -> Mapping[TestKey, Outcomes]:
    """Return the calls inside tests that can be compared: all, if nothing but target files is changed."""
    target_paths = {target.path for target in targets}
    inside = all(edit.path in target_paths for edit in candidate.edits)
    return baseline.observed if inside else {}


def run_fault(
    session: RunnerSession, candidate: Candidate, baseline: Baseline, needed: Collection[str]
) -> ProcessFault | None:
    """Return what is wrong with a run besides its tests."""
    fault = machinery_fault(session, baseline.cpu_ns) or wrong_source(session.report, candidate, needed)
    return fault or (None if baseline.leaks else leak(session.exit))


def judged_replay(
    found: CandidateFinding,
    session: RunnerSession,
    candidate: Candidate,
    baseline: Baseline,
    rules: ComparisonRules,
    measured: Mapping[int, CallMeasurement],
    known: BaselineReplays,
) -> CandidateFinding:
    """Add what a replay of the captured calls and of those with derived inputs says to what was found before.

    A process that ends in a call with an input unlike all observed ones differs outside, and nothing more.

    Args:
        found: what the tests said, and replays before this one.
        session: the replay.
        candidate: what was staged.
        baseline: what is known.
        rules: what counts.
        measured: calls that differ in floats only.
        known: the calls that were to be made.
    """
    fault = run_fault(session, candidate, baseline, known.paths & baseline.loaded.keys())
    fault = fault or unbelievable(session, baseline)
    values = compare_calls(known, session.report, rules, measured)
    if (
        fault is not None
        and Trait.ENDS_PROCESS in fault.code.traits
        and _only_outside_is_missing(session, known)
    ):
        fault = None
    return replace(found, values=values, fault=fault)


def _only_outside_is_missing(session: RunnerSession, known: BaselineReplays) -> bool:
    answered = {answer.call for answer in session.report.answers} | session.report.unreplayable.keys()
    missing = known.all.keys() - answered
    return bool(missing) and missing <= known.breaks.keys()


def untold(found: CandidateFinding, session: RunnerSession) -> int | None:
    """Return the index of the differing call that people are shown and that a replay gave digests of.

    Args:
        found: what the replay said.
        session: the replay.
    """
    values = found.values
    difference = (values.difference or values.outside) if values else None
    answered = any(difference and answer.call == difference.call for answer in session.report.answers)
    return difference.call if difference and answered else None


#: What must be equal for two answers to a call to be the same.
_OF_AN_ANSWER = attrgetter("kind", "type", "digest", "after", "traces")


def gives_alike(shown: int, again: RunnerSession, session: RunnerSession) -> bool:
    """Return whether a call gave the same when it was made again, in words, as in the replay before."""
    before = [_OF_AN_ANSWER(answer) for answer in session.report.answers if answer.call == shown]
    return before == [_OF_AN_ANSWER(call) for call in again.report.calls if call.index == shown]


def with_words(found: CandidateFinding, again: RunnerSession, baseline: Baseline) -> CandidateFinding:
    """Put into words what a differing call gave; the verdict stays what it is.

    Args:
        found: what the first replay said.
        again: another replay, in which that call was made.
        baseline: what is known.
    """
    values = found.values
    shown = (values.difference or values.outside) if values else None
    if values is None or shown is None:
        return found
    answer = next((call for call in again.report.calls if call.index == shown.call), None)
    told = reworded(shown, baseline.known.all[shown.call], answer)
    difference = told if values.difference is not None else None
    outside = told if values.outside == shown else values.outside
    return replace(found, values=replace(values, difference=difference, outside=outside))


def doubt(
    session: RunnerSession,
    candidate: Candidate,
    baseline: Baseline,
    expected: Mapping[str, str],
    needed: Collection[str],
) -> str:
    """Return the code of what is wrong with a forked run, if the fork could be to blame; else nothing.

    A process that dies or leaves others behind may do so because it was forked; a server that has imported
    too much shows as wrong source.

    Args:
        expected: the baseline's outcome by id of the tests that were to be run; none in a replay.
        needed: paths that the run imports if it comes to its end.
    """
    ended_early = any(test.outcome in DECISIVE for test in session.report.tests.values())
    fault = run_fault(session, candidate, baseline, () if ended_early else needed)
    if fault is None and compare_tests(expected, session.report).code is Code.OK:
        fault = unbelievable(session, baseline)
    return "" if fault is None or Trait.LIMIT in fault.code.traits else fault.code.value
