"""The plan of a run's checks, and the outcome of a check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.accept_function import AcceptFunction
from codeflash_parallel.check.comparison.call_comparison import ComparisonRules
from codeflash_parallel.check.dispatch.fork_points import ForkChoice
from codeflash_parallel.check.dispatch.run_dispatch import ProcessUsage
from codeflash_parallel.check.session.runner_session import RunnerConfig
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.result_model import FailedTest, FirstDifference, TestCounts, ValueCounts
from codeflash_parallel.result.runtime_protocols import ProcessLimits


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckOutcome:
    """Outcome of a check: `OK`, a code of rejection, or an `INFRA_…` code.

    Attributes:
        tests_ns: the tests' own setup, call and teardown.
        starved: the wall deadline was reached while CPU was left; worth one more try, alone.
        killed: by SIGKILL, which neither we sent nor the kernel for want of memory.
        timings_ms: where the time went, by the names of `result.result_model.STEPS` except `queue`
            and `stage`;
            together the wall time of the check.
        served: where its runs began (the earliest point, if they differ), a `ForkPoint`.
        served_why: why not further on.
        used: by all its runs that count.
        gate_ns: what the gate's own parts took of that: canaries, seals and their comparison.
        isolation_ns: what its processes took of that to enter their isolation level.
        outside: the smallest example of a difference that decides nothing by itself.
        hints: as in `ValueComparison`.
    """

    code: Code
    reason: str
    tests: TestCounts = field(default_factory=TestCounts)
    values: ValueCounts = field(default_factory=ValueCounts)
    failures: tuple[FailedTest, ...] = ()
    difference: FirstDifference | None = None
    outside: FirstDifference | None = None
    hints: tuple[str, ...] = ()
    tests_ns: int = 0
    starved: bool = False
    killed: bool = False
    notes: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    served: str = ""
    served_why: str = ""
    used: ProcessUsage = field(default_factory=ProcessUsage)
    gate_ns: int = 0
    isolation_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckPlan:
    """The plan by which candidates of this run are checked.

    Attributes:
        workers: xdist workers; with any there is no server.
        sources: the snapshot's text of the targets' files.
        killers: tests that caught earlier candidates, the most deadly first, which pass on the baseline
            when they are run in front of all others.
        new_process: why every run gets a new process, one clause; empty: servers may be used.
        by_edits: where a run of this candidate may begin, as far as its edits tell; `None`: not known yet.
        rules: what a difference of values has to be to count.
        judge: the user's, which is asked about other results; `None`: there is none.
    """

    runner: RunnerConfig
    baseline: Baseline
    limits: ProcessLimits
    compare_values: bool
    workers: int = 0
    sources: Mapping[str, bytes] = field(default_factory=dict)
    killers: tuple[str, ...] = ()
    new_process: str = ""
    by_edits: ForkChoice | None = None
    rules: ComparisonRules = field(default_factory=ComparisonRules)
    judge: AcceptFunction | None = None

    @property
    def watches(self) -> bool:
        """Return whether calls are recorded inside the tests: there are some that cannot be replayed."""
        return self.compare_values and self.workers == 0 and bool(self.baseline.observed)

    @property
    def rest(self) -> tuple[str, ...]:
        """Return the tests that were asked for and that screening leaves out."""
        selected = set(self.baseline.selected)
        return tuple(test for test in self.baseline.asked if test not in selected)
