"""What comes out: the frozen result of a run. `report.json_document` turns it into the JSON contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from codeflash_parallel.result.candidate.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.check_evidence import FailedTest, FirstDifference, TestCounts, ValueCounts
from codeflash_parallel.result.line_profile import LineProfile
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, FlagKind, Level, Verdict

#: Major.minor of the JSON document. Codes are only added within a major version.
SCHEMA_VERSION = "2.0"

#: Where the time of a candidate goes, in the order of the tables; milliseconds each. `queue` is the wait for
#: a slot, the others add up to the time the slot was held: `stage` (staging, audit, undoing), `start` (of the
#: process, or a fork), `import`, `collect`, `calls` (the tests' own setup, call and teardown, and the
#: replayed calls), `evidence` (runs that only find out more about a failure), `compare`, `confirm` (tests
#: that screening left out, and a clean process after a race; their calls are `calls`), and `other`.
STEPS = ("queue", "stage", "start", "import", "collect", "calls", "evidence", "compare", "confirm", "other")


@dataclass(frozen=True, kw_only=True, slots=True)
class Speedup:
    """Baseline time divided by candidate time, with its interval.

    Attributes:
        estimate: 2.0 means twice as fast.
        low, high: bounds at the run's confidence; of what is not claimed, at 98 %.
        clock: `cpu` or `wall`.
        stage: `race` (orientation) or `confirmation` (the claim).
    """

    estimate: float
    low: float
    high: float
    clock: str = "cpu"
    stage: str = "race"


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceFigures:
    """What was measured of one candidate, in the confirmation if it was in one, else in the race.

    Attributes:
        stage: `race` or `confirmation`.
        rounds: that counted for it.
        dropped: why it was not timed to the end, one clause; empty when it was.
        dropped_after: rounds of its race after which it was dropped, 0 when it was not.
        cpu, wall: speedups on either clock; `None` with too few rounds. Where the wall clock decides, `cpu`
            is that of whole processes with their children.
        seen: speedup on the calls of the tests, or whatever else is timed.
        unseen: that on other values of the same shape; `None` where there are none.
        peak_bytes, baseline_peak_bytes: by how much resident memory grew at most while the work was done.
        calls_per_s, baseline_calls_per_s: on the wall clock; `None` where tests, their benchmarks or commands
            are timed.
    """

    stage: str
    rounds: int
    dropped: str = ""
    dropped_after: int = 0
    cpu: Speedup | None = None
    wall: Speedup | None = None
    seen: float | None = None
    unseen: float | None = None
    peak_bytes: int = 0
    baseline_peak_bytes: int = 0
    calls_per_s: float | None = None
    baseline_calls_per_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """Something in a candidate's code that the baseline's has not, and that is a reason to look harder.

    Attributes:
        kind: what it may be misused for.
        what: the construct itself, e.g. ``sys._getframe`` or ``time.perf_counter = ...``.
        path: POSIX, relative to the root of the repository.
        line: of the candidate's file, from 1; 0: the whole file.
    """

    kind: FlagKind
    what: str
    path: str
    line: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidateResult:
    """What became of one candidate.

    Attributes:
        lineage: ids of its ancestors, the oldest first, itself not included.
        reason: one sentence.
        outside: the smallest example of a difference outside of what was observed; it decides nothing.
        hints: differences that are reasons for a review and decide nothing, a sentence each.
        duplicate_of: an id, or ``"baseline"``; empty when it is no duplicate.
        overhead_ms: time its check held a slot minus its tests' own setup, call and teardown; evidence for a
            repair, tests that screening left out, the race and the look after it do not count.
        gate_ms: what canaries, seals and their comparison took of all its checks.
        isolation_ms: what its processes took of all its checks to enter their isolation level.
        diff_path: file that holds its diff; empty when there is none.
        timings_ms: where its time went, by the names of `STEPS`; empty when it never held a slot.
        served: where its checks began: at a point of a warm server (`collected`, `imported`) or in a
            `new-process`; empty when it was not checked.
        served_why: why it was not served further on, one clause.
        race: what was measured of it; `None` when it was not timed.
        flags: what its code has and the baseline's has not; never part of a verdict.
    """

    id: CandidateId
    origin: CandidateOrigin
    status: CandidateStatus
    code: Code
    reason: str
    parent: CandidateId | None = None
    lineage: tuple[CandidateId, ...] = ()
    explanation: str = ""
    duplicate_of: str = ""
    tests: TestCounts = field(default_factory=TestCounts)
    values: ValueCounts = field(default_factory=ValueCounts)
    speedup: Speedup | None = None
    overhead_ms: float | None = None
    gate_ms: float = 0.0
    isolation_ms: float = 0.0
    diff_path: str = ""
    diff: str = field(default="", repr=False)
    difference: FirstDifference | None = None
    outside: FirstDifference | None = None
    hints: tuple[str, ...] = ()
    failures: tuple[FailedTest, ...] = ()
    group_speedups: tuple[tuple[str, Speedup], ...] = ()
    kept_slot: str = ""
    reproduce: str = ""
    notes: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    served: str = ""
    served_why: str = ""
    race: RaceFigures | None = None
    flags: tuple[Flag, ...] = ()

    @property
    def claim(self) -> str:
        """Say what the candidate was compared on, and what it gains there."""
        values, race = self.values, self.race
        gains = ((race.seen, "on your calls"), (race.unseen, "on unseen ones")) if race is not None else ()
        figures = ", ".join(f"{gain:.1f}x {where}" for gain, where in gains if gain is not None)
        calls = f"{values.compared + values.repeated:,} calls of your tests"
        return f"Equal on {calls} and on {values.fresh}{'; ' if figures else ''}{figures}."


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFault:
    """Why there is no verdict: the error families of `errors`, and `interrupted`."""

    family: str
    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """The result of a run.

    Attributes:
        complete: the run came to its own end; what its budgets did not reach is `cancelled`. A run in which
            none is known to be equivalent and some were not judged is incomplete, without an error.
        verdict: `None` iff there is an error or the run is incomplete.
        winner: non-`None` iff the verdict is `winner` or `tie` (then the first of the set).
        snapshot: commit id of the snapshot in the mirror, 40 hexadecimal digits; empty if it got none.
        pass_env: names of variables that were passed on because they were asked for; never their values.
        quarantined: test ids that disagree with themselves on the baseline.
        candidates: submitted ones in submission order, derived ones after them in order of arrival.
        summary: the verdict as one sentence that can be quoted.
        steps_ms: the sum of the candidates' `timings_ms`, by the same names.
        slots: `kind` (`worktree` or `reflink`), and what one slot costs, `bytes` and `inodes`;
            empty when there were none.
        warm: `servers` that were started, `forks` that they made, `restarts`, and `unfit`: why servers could
            not be used, one clause each; empty when none was asked for.
        race: `workload` (its kind), `why`, `timed` (a clause that says both, and what one could name
            instead), `rounds` and `void` (those that did not count), `seconds`,
            `budget_s` (of one race), `groups` (of each group of tests its name, `share` of the time and
            `tests`), and `unit_sd` (spread of one round of the second baseline, or of the
            quietest candidate, as a fraction; `None` with too few rounds); empty when there was no race.
    """

    run_id: str
    complete: bool
    error: RunFault | None = None
    verdict: Verdict | None = None
    winner: CandidateId | None = None
    tie_set: tuple[CandidateId, ...] = ()
    isolation: str = "none"
    isolation_requested: str = "none"
    compare: str = "values"
    pass_env: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    snapshot: str = ""
    base: str = ""
    seed: int = 0
    python: str = ""
    tests_selected: int = 0
    level: Level = Level.NONE
    quarantined: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    candidates: tuple[CandidateResult, ...] = ()
    winner_profile: LineProfile | None = None
    baseline_profile: LineProfile | None = None
    timings: Mapping[str, float] = field(default_factory=dict)
    load: Mapping[str, float] = field(default_factory=dict)
    steps_ms: Mapping[str, float] = field(default_factory=dict)
    slots: Mapping[str, Any] = field(default_factory=dict)
    warm: Mapping[str, Any] = field(default_factory=dict)
    race: Mapping[str, Any] = field(default_factory=dict)
    repository: str = ""
    run_dir: str = ""
    summary: str = ""

    def candidate(self, candidate_id: str) -> CandidateResult | None:
        """Return the result of one candidate, `None` if the run had none of that id."""
        return next((c for c in self.candidates if c.id == candidate_id), None)
