"""Say where the time of a check went, by the names of `result.result_model.STEPS`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from codeflash_parallel.check.dispatch.fork_points import weakest
from codeflash_parallel.check.dispatch.run_dispatch import ServedRun, told
from codeflash_parallel.check.session.runner_report import RunnerReport
from codeflash_parallel.result.runtime_protocols import ProcessExit

#: What the runner's own clocks say before its tests run, by step; the first ones are spent first.
_BEFORE = {"import": ("import_pytest", "config"), "collect": ("collect",)}


def steps_of_tests(report: RunnerReport, run_ns: int) -> Counter[str]:
    """Split the wall time of a test run.

    The runner's words cannot add up to more than the launcher's clock has seen: tests that ran beside each
    other count as long as they took together. What happened before the runner's first clock and after its
    last is `start`; of a run that did not come to its end, what is left belongs to where it was.
    """
    steps = {name: _sum(report, names) for name, names in _BEFORE.items()}
    session_ns = report.timings_ns.get("session", 0)
    calls_ns = min(report.tests_ns, session_ns) if session_ns else report.tests_ns
    return _split(run_ns, {**steps, "calls": calls_ns, "other": max(0, session_ns - calls_ns)}, _last(report))


def _last(report: RunnerReport) -> str:
    if "session" in report.timings_ns:
        return "start"
    return "calls" if "collect" in report.timings_ns else "import"


def steps_of_replay(report: RunnerReport, run_ns: int) -> Counter[str]:
    """Split the wall time of a replay."""
    calls_ns = sum(call.ns for call in report.calls) + sum(answer.ns for answer in report.answers)
    return _split(run_ns, {"import": _sum(report, ("import",)), "calls": calls_ns}, "start")


def _sum(report: RunnerReport, names: Iterable[str]) -> int:
    return sum(report.timings_ns.get(name, 0) for name in names)


def _split(whole_ns: int, parts: Mapping[str, int], rest: str) -> Counter[str]:
    """Give every part its time, as long as there is any left; the rest has a name."""
    steps: Counter[str] = Counter()
    left = whole_ns
    for name, wanted in parts.items():
        steps[name] = min(wanted, left)
        left -= steps[name]
    steps[rest] += left
    return steps


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessUsage:
    """Resources that the processes of a check have used.

    Attributes:
        cpu_ns, wall_ns: from start to end, of one after the other.
        rss_bytes: largest resident size of one process.
    """

    cpu_ns: int = 0
    wall_ns: int = 0
    rss_bytes: int = 0


def used_by(exits: Iterable[ProcessExit]) -> ProcessUsage:
    """Return what some processes that ran one after the other have used."""
    done = tuple(exits)
    return ProcessUsage(
        cpu_ns=sum(one.cpu_ns for one in done),
        wall_ns=sum(one.wall_ns for one in done),
        rss_bytes=max((one.max_rss_bytes for one in done), default=0),
    )


class StepTimes:
    """The runs of one check: where they began, and what they took."""

    def __init__(self) -> None:
        self._steps: Counter[str] = Counter()
        self._runs: list[ServedRun] = []
        self.tests_ns = 0

    def tests(self, served: ServedRun) -> None:
        """Add a run of tests."""
        report = served.session.report
        self._add(served, steps_of_tests(report, served.run_ns))
        self.tests_ns += report.tests_ns

    def replay(self, served: ServedRun) -> None:
        """Add a replay."""
        self._add(served, steps_of_replay(served.session.report, served.run_ns))

    def _add(self, served: ServedRun, steps: Counter[str]) -> None:
        self._steps += steps
        self._steps += Counter({"compare": served.reading_ns, "other": served.abandoned_ns})
        self._runs.append(served)

    @property
    def gate_ns(self) -> int:
        """Return what canaries and seals took, in runners and here."""
        return sum(run.session.gate_ns for run in self._runs)

    @property
    def isolation_ns(self) -> int:
        """Return what runners took to enter their isolation level."""
        return sum(run.session.isolation_ns for run in self._runs)

    @property
    def served(self) -> str:
        """Return the earliest point at which a run began; empty without runs."""
        return weakest(*(run.point for run in self._runs)).value if self._runs else ""

    @property
    def served_why(self) -> str:
        """Return why no run began further on."""
        return told(why for run in self._runs for why in run.whys)

    @property
    def used(self) -> ProcessUsage:
        """Return what the runs have used."""
        return used_by(run.session.exit for run in self._runs)

    def timings_ms(self, whole_ns: int) -> dict[str, float]:
        """Return the steps; what no run has taken was spent on specs and comparisons."""
        left = max(0, whole_ns - self._steps.total())
        steps = self._steps + Counter({"compare": left})
        return {name: ns / 1e6 for name, ns in steps.items()}
