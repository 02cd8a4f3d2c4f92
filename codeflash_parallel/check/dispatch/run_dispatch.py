"""Start a runner at the chosen fork point, at an earlier one where that fails, or in a new process.

`StepTimes` says where the time of a check's runs went, by the names of `result.result_model.STEPS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from time import monotonic_ns
from typing import Any, Protocol

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.dispatch.fork_points import ForkChoice, ForkPoint, weakest
from codeflash_parallel.check.integrity.canaries import Canary, RunSecrets, arm
from codeflash_parallel.check.session.runner_report import RunnerReport
from codeflash_parallel.check.session.runner_session import (
    RunnerConfig,
    RunnerSession,
    SelectedRun,
    read_session,
    replay_spec,
    selected_run_spec,
)
from codeflash_parallel.result.runtime_protocols import (
    ProcessExit,
    ProcessLimits,
    ServerGone,
    WarmProcess,
    Workspace,
)
from codeflash_parallel.sandbox.runner_command import start_command, write_spec


class WarmServers(Protocol):
    """The warm servers that serve a slot, for one selection of tests; implemented by `warm`."""

    async def server(self, mode: str, point: ForkPoint, /) -> WarmProcess | None:
        """Return the server of a mode (`tests` or `replay`) that stands at a point; `None`: there is none."""
        ...

    def why(self) -> str:
        """Return why the last answer was `None`, one clause."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class FallbackReason:
    """Why a run did not begin further on.

    Attributes:
        reason: one clause.
        point: the point that did not do for this reason; empty where it is about the edits.
    """

    reason: str
    point: str = ""


def told(whys: Iterable[FallbackReason]) -> str:
    """Return reasons as one text: each stands there once, and points that share one are named together."""
    points: dict[str, dict[str, None]] = {}
    for why in whys:
        points.setdefault(why.reason, {}).update({why.point: None} if why.point else {})
    return "; ".join(f"not {', '.join(at)}: {reason}" if at else reason for reason, at in points.items())


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedRun:
    """One run of a runner, and where it began.

    Attributes:
        whys: why it did not begin further on; none at `collected`.
        run_ns: wall time of the run that counts.
        abandoned_ns: of runs before it that did not count.
        reading_ns: of reading its records.
    """

    session: RunnerSession
    point: ForkPoint
    run_ns: int
    whys: tuple[FallbackReason, ...] = ()
    abandoned_ns: int = 0
    reading_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPlace:
    """The place of the runs of one check.

    Attributes:
        servers: that serve the slot, for this selection of tests; `None`: every run gets a new process.
    """

    runner: RunnerConfig
    workspace: Workspace
    limits: ProcessLimits
    servers: WarmServers | None


def no_canaries() -> tuple[Canary, ...]:
    """Draw no canaries."""
    return ()


async def run_served(
    place: RunPlace,
    spec: Mapping[str, Any],
    serving: ForkChoice,
    doubt: Callable[[RunnerSession], str],
    draw: Callable[[], tuple[Canary, ...]] = no_canaries,
) -> ServedRun:
    """Start a runner at the chosen point or at the next one that there is; a new process is always there.

    A forked run that ends in a way that the fork might be to blame for counts for nothing.

    Args:
        place: where.
        spec: of a mode that servers have.
        serving: the choice.
        doubt: returns why a forked run is to be made again in a new process; empty: it counts.
        draw: returns the canaries of a run, others each time.

    Raises:
        InternalError, EnvironmentFault: the launcher is gone, or descriptors are.
    """
    began = monotonic_ns()
    whys = [FallbackReason(reason=serving.why)] if serving.why else []
    served = None
    if place.servers is not None:
        served = await _forked(place, place.servers, spec, serving.point, doubt, draw, whys)
    elif serving.point is not ForkPoint.NEW_PROCESS:
        whys.append(FallbackReason(reason="there is no server for these tests"))
    if served is None:
        started = monotonic_ns()
        armed, arms = arm(place.workspace, spec, draw())
        command = start_command(place.workspace, armed, place.limits, place.runner.directory)
        served = _read(await place.runner.launcher.run(command), arms, ForkPoint.NEW_PROCESS, started)
    abandoned_ns = monotonic_ns() - began - served.run_ns - served.reading_ns
    return replace(served, whys=tuple(whys), abandoned_ns=max(0, abandoned_ns))


async def _forked(
    place: RunPlace,
    servers: WarmServers,
    spec: Mapping[str, Any],
    furthest: ForkPoint,
    doubt: Callable[[RunnerSession], str],
    draw: Callable[[], tuple[Canary, ...]],
    whys: list[FallbackReason],
) -> ServedRun | None:
    """Run in a fork, from the furthest point down; add to `whys` why one does not do."""
    for point in furthest.downwards():
        server = await servers.server(str(spec["mode"]), point)
        got = servers.why() if server is None else await _fork(place, server, point, spec, draw)
        if isinstance(got, ServedRun):
            doubtful = doubt(got.session)
            if not doubtful:
                return got
            whys.append(FallbackReason(reason=f"checked again, as a fork could be to blame: {doubtful}"))
            return None
        whys.append(FallbackReason(reason=got, point=point))
    return None


async def _fork(
    place: RunPlace,
    server: WarmProcess,
    point: ForkPoint,
    spec: Mapping[str, Any],
    draw: Callable[[], tuple[Canary, ...]],
) -> ServedRun | str:
    """Run in a fork of one server; return why that does not do, one clause, where it does not."""
    started = monotonic_ns()
    armed, arms = arm(place.workspace, spec, draw())
    path = write_spec(place.workspace, armed, place.runner.directory)
    try:
        served = _read(await server.run(path, place.limits), arms, point, started)
    except ServerGone as gone:
        return f"its server is gone ({gone})"
    return served.session.report.unswappable or served


def _read(done: ProcessExit, arms: RunSecrets, point: ForkPoint, started_ns: int) -> ServedRun:
    ended = monotonic_ns()
    session = read_session(done, arms)
    reading_ns = monotonic_ns() - ended
    return ServedRun(session=session, point=point, run_ns=ended - started_ns, reading_ns=reading_ns)


def template_spec(
    runner: RunnerConfig,
    workspace: Workspace,
    baseline: Baseline,
    mode: str,
    until: ForkPoint,
    only: tuple[str, ...] | None = None,
) -> dict[str, Any]:
    """Return the spec of a server's first process.

    Args:
        runner: of the run.
        workspace: the slot's; it holds the unchanged snapshot.
        baseline: what is known.
        mode: ``tests`` or ``replay``.
        until: the point where it is to wait.
        only: the selection that its forks run, as in `SelectedRun`; `None`: the selected tests.
    """
    if mode == "tests":
        spec = selected_run_spec(runner, workspace, baseline, SelectedRun(only=only))
    else:
        spec = replay_spec(runner, baseline.inputs, (), ())
    gate = sorted({target.path for target in runner.targets})
    return {**spec, "serve": {"until": until.value, "gate": gate}}


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
