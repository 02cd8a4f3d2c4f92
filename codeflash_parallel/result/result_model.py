"""The frozen result of a run. `result_document` turns it into the JSON contract.

`docs/json_schema.py` makes the schema and the reference page of these classes: the words under `Attributes`
are the descriptions of the fields there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypedDict

from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.isolation_policy import IsolationLevel
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, FlagKind, Level, Verdict

#: Major.minor of the JSON document. Codes are only added within a major version.
SCHEMA_VERSION = "2.0"

#: Inputs are called larger from so many times the size of those of the tests on.
_LARGER = 1.5
#: How many test ids a document lists at most, a list.
MAX_IDS = 50

#: Where the time of a candidate goes, in the order of the tables; milliseconds each. All but `queue` add up
#: to the time that the slot was held.
STEPS: Mapping[str, str] = {
    "queue": "Wait for a slot.",
    "stage": "Writing the candidate into the slot, audit, and undoing it.",
    "start": "Start of the process, or the fork of a warm server.",
    "import": "Imports: pytest and its plugins, the project, the targets.",
    "collect": "Collection of the tests.",
    "calls": "The tests' own setup, call and teardown, and the replayed calls.",
    "evidence": "Runs that only find out more about a failure.",
    "compare": "Comparison of outcomes and values with the baseline's.",
    "confirm": "Tests that screening left out, and the check in a clean process; their calls are `calls`.",
    "other": "What is left of the time a slot was held.",
}

#: Types with what the schema says of them besides.
Count = Annotated[int, {"minimum": 0}]
CodeName = Annotated[Code, {"type": "string", "pattern": "^[A-Z][A-Z0-9_]*$"}]
FaultFamily = Annotated[str, {"enum": ["usage", "environment", "internal", "interrupted"]}]
RaceStage = Annotated[str, {"enum": ["race", "confirmation"]}]
ServicePoint = Annotated[str, {"enum": ["", "collected", "imported", "new-process"]}]


@dataclass(frozen=True, kw_only=True, slots=True)
class TestCounts:
    """Tests of one candidate against the baseline's: counts, and the first 50 ids.

    Attributes:
        expected: tests that pass or fail the same way twice on the baseline.
        missing: not collected, or did not run though nothing had been decided.
        not_run: expected tests that were not started, because what had failed before them decided.
        failed_ids, missing_ids: the first 50.
    """

    #: Keeps pytest from taking this for a test class where a test module imports it.
    __test__: ClassVar[bool] = False

    expected: Count = 0
    passed: Count = 0
    failed: Count = 0
    missing: Count = 0
    not_run: Count = 0
    failed_ids: tuple[str, ...] = ()
    missing_ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueCounts:
    """Captured calls of one candidate against the baseline's.

    Attributes:
        compared: calls that were made again.
        differing: of those.
        accepted: calls, captured and derived, whose other result the user's judge has accepted.
        repeated: captured calls that were not: their inputs and outcomes are those of two that were.
        unstable: captured calls that were not: the baseline disagrees with itself.
        derived: derived inputs that keep all relations of the observed ones; the call was made with each.
        largest_seen: length of the longest container or text in the captured calls.
        largest_fresh: the same of the calls with derived inputs.
        dropped: why other derived inputs do not count, with their number.
        derived_differing: of `derived`; they reject like captured calls.
        outside: derived inputs that break a relation; the call was made with each.
        outside_differing: of those, and derived inputs whose outcomes differ by rounding only; shown, and a
            rejection only when differences outside are to reject.
        uncaptured: why calls could not be captured or replayed, with their number.
        beside: calls of functions that are no targets, in the files that are edited, that were made again.
        uncompared: functions that are changed and are no targets, and no call of which could be made again.
    """

    compared: Count = 0
    differing: Count = 0
    accepted: Count = 0
    repeated: Count = 0
    unstable: Count = 0
    derived: Count = 0
    largest_seen: Count = 0
    largest_fresh: Count = 0
    dropped: Mapping[str, Count] = field(default_factory=dict)
    derived_differing: Count = 0
    outside: Count = 0
    outside_differing: Count = 0
    uncaptured: Mapping[str, Count] = field(default_factory=dict)
    beside: Count = 0
    uncompared: tuple[str, ...] = ()
    level: Level = Level.NONE

    @property
    def fresh(self) -> str:
        """Say how many fresh inputs were compared, and how large they are beside those of the tests."""
        times = self.largest_fresh / self.largest_seen if self.largest_seen else 0.0
        larger = f" up to {times:.0f} times as large" if times >= _LARGER else ""
        return f"{self.derived:,} fresh inputs{larger}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstDifference:
    """The first call whose outcome differs, as printable text.

    Attributes:
        target: `path.py::qualname`.
        test: id of the test whose call it is.
        call: index among the captured and derived calls.
        inputs, expected, got: shortened representations.
        derived: its input was derived from that of a captured call; `test` is the test of that one.
        breaks: what all observed inputs have in common and this one has not; empty: it has it all.
        smaller_inputs, smaller_expected, smaller_got: a smaller example of the same; empty: none was found,
            or this one is small.
    """

    target: str
    test: str
    call: int
    inputs: str
    expected: str
    got: str
    derived: bool = False
    breaks: str = ""
    smaller_inputs: str = ""
    smaller_expected: str = ""
    smaller_got: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedTest:
    """A failing test and its own message."""

    id: str
    phase: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LineTiming:
    """One line of a line profile."""

    path: str
    line: Count
    hits: Count
    time_ns: Count
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LineProfile:
    """A line profile of the targets over the captured calls.

    Attributes:
        tracer: `line_profiler` or `sys.settrace`.
        lines: in order of path and line; only lines of the targets.
    """

    tracer: str
    lines: tuple[LineTiming, ...]


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
    clock: Annotated[str, {"enum": ["cpu", "wall"]}] = "cpu"
    stage: RaceStage = "race"


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSpeedup(Speedup):
    """The speedup of a group of tests or calls.

    Attributes:
        group: its name; `groups` of the race has its tests.
    """

    group: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceFigures:
    """Measurements of one candidate, in the confirmation if it was in one, else in the race.

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

    stage: RaceStage
    rounds: Count
    dropped: str = ""
    dropped_after: Count = 0
    cpu: Speedup | None = None
    wall: Speedup | None = None
    seen: float | None = None
    unseen: float | None = None
    peak_bytes: Count = 0
    baseline_peak_bytes: Count = 0
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
    line: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidateResult:
    """The result of one candidate.

    Attributes:
        code: one of the codes.
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
    code: CodeName
    reason: str
    parent: CandidateId | None = None
    lineage: tuple[CandidateId, ...] = ()
    explanation: str = ""
    duplicate_of: str = ""
    tests: TestCounts = field(default_factory=TestCounts)
    values: ValueCounts = field(default_factory=ValueCounts)
    speedup: Speedup | None = None
    overhead_ms: float | None = None
    gate_ms: Annotated[float, {"minimum": 0}] = 0.0
    isolation_ms: Annotated[float, {"minimum": 0}] = 0.0
    diff_path: str = ""
    diff: str = field(default="", repr=False)
    difference: FirstDifference | None = None
    outside: FirstDifference | None = None
    hints: tuple[str, ...] = ()
    failures: tuple[FailedTest, ...] = ()
    group_speedups: tuple[GroupSpeedup, ...] = ()
    kept_slot: str = ""
    reproduce: str = ""
    notes: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    served: ServicePoint = ""
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

    family: FaultFamily
    code: Annotated[str, {"pattern": "^[A-Z][A-Z0-9_]*$"}]
    message: str
    hint: str = ""


class SlotSummary(TypedDict, total=False):
    """Kind of the slots of a run, and the cost of one of them; empty: there were none.

    Attributes:
        kind: `worktree` (files of its own) or `reflink` (copies that share their blocks).
        bytes: disk space of one slot.
        inodes: files and folders of one slot.
    """

    kind: Annotated[str, {"enum": ["worktree", "reflink"]}]
    bytes: Count
    inodes: Count


class WarmCounts(TypedDict, total=False):
    """Warm servers of a run; empty: none was asked for.

    Attributes:
        servers: that were started.
        forks: checks that were forked from them.
        restarts: servers that were replaced: aged, grown, or gone.
        unfit: why servers could not be used, one clause each.
    """

    servers: Count
    forks: Count
    restarts: Count
    unfit: tuple[str, ...]


class RaceGroup(TypedDict):
    """Tests that are timed together.

    Attributes:
        share: its weight in a speedup, as a fraction: its share of the baseline's time.
        tests: ids of its tests, 50 at most; none where a callable or a command is timed.
    """

    group: str
    share: float
    tests: tuple[str, ...]


class CampaignComparison(TypedDict):
    """The comparison of a campaign that a run was.

    Attributes:
        name: of the campaign.
        number: of the comparison, from 1.
        kept: how many of the earlier ones named a winner.
        error: chance at most that it names a winner where none is faster.
    """

    name: str
    number: Count
    kept: Count
    error: float


class RaceSummary(TypedDict, total=False):
    """The races of a run; empty: there was none.

    Attributes:
        workload: what was timed, its kind.
        why: why that was timed, one clause.
        timed: how much was timed and why, and what the user could name instead, one line.
        rounds: of all races and confirmations.
        void: those of them that did not count, because the machine disturbed them.
        seconds: wall seconds of all races and confirmations.
        budget_s: wall seconds that one race might take.
        groups: what stands behind the names in `group_speedups`, in the same order.
        unit_sd: spread of one round of the second baseline, or of the quietest candidate, as a fraction;
            null: too few rounds.
        campaign: the run's last comparison in the campaign that it belongs to.
    """

    workload: str
    why: str
    timed: str
    rounds: Count
    void: Count
    seconds: float
    budget_s: float
    groups: tuple[RaceGroup, ...]
    unit_sd: float | None
    campaign: CampaignComparison


@dataclass(frozen=True, kw_only=True, slots=True)
class HostUse:
    """One host of a run that was made on several, and what it did.

    Attributes:
        host: its name.
        environment: interpreter, number of packages and platform, as its stamp has them, one clause.
        checked: candidates whose verdicts are from there.
        raced: the last races of the run were held there.
        left_out: why it is not used any more; empty: it is.
        timed: when it timed something and did nothing else, pairs of nanoseconds since its start.
        shards: of candidates that it has checked.
        overhead_s: seconds that those have taken before their first check and after their last one.
        checks_s: seconds between.
    """

    host: str
    environment: str = ""
    checked: tuple[CandidateId, ...] = ()
    raced: bool = False
    left_out: str = ""
    timed: tuple[tuple[int, int], ...] = ()
    shards: Count = 0
    overhead_s: float = 0.0
    checks_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """The result of a run.

    Attributes:
        run_id: name of the run; empty when it failed before it had one.
        complete: the run came to its own end; what its budgets did not reach is `cancelled`. A run in which
            none is known to be equivalent and some were not judged is incomplete, without an error.
        error: why there is no verdict.
        verdict: `None` iff there is an error or the run is incomplete.
        winner: non-`None` iff the verdict is `winner` or `tie` (then the first of the set).
        tie_set: candidates that are faster than the baseline and cannot be told apart.
        isolation: the level that was in force.
        isolation_requested: the setting.
        targets: `path.py::qualname`, each.
        base: git ref or commit that the run started from.
        seed: of everything random.
        python: interpreter that ran the tests.
        level: how deep the comparison went.
        timings: milliseconds by phase, waiting for others on this machine apart (`waited`), and in all.
        load: cores and load average.
        snapshot: commit id of the snapshot in the mirror, 40 hexadecimal digits; empty if it got none.
        pass_env: names of variables that were passed on because they were asked for; never their values.
        quarantined: test ids that disagree with themselves on the baseline.
        candidates: submitted ones in submission order, derived ones after them in order of arrival.
        summary: the verdict as one sentence that can be quoted.
        steps_ms: the sum of the candidates' `timings_ms`, by the same names.
        repository: root of the user's repository.
        run_dir: folder that holds what the run stored; empty: nothing.
        hosts: that the run was made on, where it was made on several; the submitting one is not among them.
    """

    run_id: str
    complete: bool
    error: RunFault | None = None
    verdict: Verdict | None = None
    winner: CandidateId | None = None
    tie_set: tuple[CandidateId, ...] = ()
    isolation: Annotated[str, IsolationLevel] = "none"
    isolation_requested: Annotated[str, {"enum": ["auto", *IsolationLevel]}] = "none"
    compare: Annotated[str, {"enum": ["values", "pass-fail"]}] = "values"
    pass_env: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    snapshot: Annotated[str, {"pattern": "^([0-9a-f]{40}([0-9a-f]{24})?)?$"}] = ""
    base: str = ""
    seed: int = 0
    python: str = ""
    tests_selected: Count = 0
    level: Level = Level.NONE
    quarantined: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    candidates: tuple[CandidateResult, ...] = ()
    winner_profile: LineProfile | None = None
    baseline_profile: LineProfile | None = None
    timings: Mapping[str, float] = field(default_factory=dict)
    load: Mapping[str, float] = field(default_factory=dict)
    steps_ms: Mapping[str, float] = field(default_factory=dict)
    slots: Annotated[Mapping[str, Any], SlotSummary] = field(default_factory=dict)
    warm: Annotated[Mapping[str, Any], WarmCounts] = field(default_factory=dict)
    race: Annotated[Mapping[str, Any], RaceSummary] = field(default_factory=dict)
    repository: str = ""
    run_dir: str = ""
    hosts: tuple[HostUse, ...] = ()
    summary: str = ""

    def candidate(self, candidate_id: str) -> CandidateResult | None:
        """Return the result of one candidate, `None` if the run had none of that id."""
        return next((c for c in self.candidates if c.id == candidate_id), None)
