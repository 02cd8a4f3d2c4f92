"""Start a runner in a workspace and read what it reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from time import perf_counter_ns
from typing import Any, ClassVar

from codeflash_parallel.candidates.code_changes import Constant
from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.call_comparison import DERIVED_INSIDE
from codeflash_parallel.check.integrity.canaries import Canary, RunSecrets, arm, broken_seal, sift
from codeflash_parallel.check.session.runner_report import (
    CONFINED,
    ForeignRecord,
    RunnerReport,
    TestOutcome,
    read_report,
)
from codeflash_parallel.process.launcher.launcher import Launcher
from codeflash_parallel.result.runtime_protocols import ProcessExit, ProcessLimits, Watch, Workspace
from codeflash_parallel.sandbox.runner_command import parse_records, start_command


@dataclass(frozen=True, kw_only=True, slots=True)
class TestRequest:
    """The tests that were asked for.

    Attributes:
        paths: files, folders or ids, relative to the project folder; empty: the configured `testpaths`.
        keyword, marker: pytest's ``-k`` and ``-m``.
    """

    # Not a test: pytest must not collect it where it is imported.
    __test__: ClassVar[bool] = False

    paths: tuple[str, ...] = ()
    keyword: str = ""
    marker: str = ""


def _expressions(request: TestRequest) -> tuple[str, ...]:
    keyword = ("-k", request.keyword) if request.keyword else ()
    marker = ("-m", request.marker) if request.marker else ()
    return (*keyword, *marker)


def test_files(ids: Iterable[str], rootdir: str) -> tuple[str, ...]:
    """Return the files of some test ids, absolute, in order, each once."""
    return tuple(dict.fromkeys(f"{rootdir}/{test.partition('::')[0]}" for test in ids))


#: What a capture may cost: calls, bytes of pickled inputs (the design's budgets).
CAPTURE_CALLS = 2_000
CAPTURE_BYTES = 64 * 1024 * 1024


class WrapMode(StrEnum):
    """Wrapping of targets during a test run."""

    #: Not at all.
    NONE = "none"
    #: Calls are counted and their outcomes digested.
    DIGEST = "digest"
    #: Their inputs are kept as well.
    CAPTURE = "capture"
    #: An evaluator is told when they begin and end.
    ANNOUNCE = "announce"


class StopRule(StrEnum):
    """When a test run ends early."""

    NEVER = "never"
    FIRST_FAILURE = "first-failure"
    #: At the first failure of a test whose outcome on the baseline is known.
    DECISIVE = "decisive"


class Tracebacks(StrEnum):
    """Form of the texts of failures."""

    #: As pytest does, which reads and parses sources.
    SHORT = "short"
    #: As the interpreter does: next to nothing.
    NATIVE = "native"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunnerSession:
    """One run of a runner: what it claims, and what the launcher saw.

    Attributes:
        report: without canaries.
        canaries: those that it was to run, and `canary_outcomes` by their ids.
        is_forged: somebody else than the runner wrote records.
        gate_ns: what canaries and seal took.
        isolation_ns: what entering its isolation level took.
    """

    report: RunnerReport
    exit: ProcessExit
    canaries: tuple[Canary, ...] = ()
    canary_outcomes: Mapping[str, TestOutcome] = field(default_factory=dict)
    is_forged: bool = False
    gate_ns: int = 0
    isolation_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class RunnerConfig:
    """Everything that stays the same between the runners of one run.

    Attributes:
        launcher: starts children.
        directory: folder of the runner's installed code.
        targets: the functions under optimization, by number.
        request: which tests the user asked for.
        seed: of random state; drawn from the run's seed.
        overlaid: folders of tests that come on top, relative to the workspace's root.
        encoders: files and names of functions that take values of the user's own types apart.
        judged: results are told in plain form, for the user's judge.
    """

    launcher: Launcher
    directory: Path
    targets: tuple[Target, ...]
    request: TestRequest
    seed: int
    overlaid: tuple[str, ...] = ()
    encoders: tuple[tuple[str, str], ...] = ()
    judged: bool = False

    def spec(self, mode: str, prove: Sequence[str], **more: Any) -> dict[str, Any]:
        """Return the common part of a spec."""
        return {
            "mode": mode,
            "targets": [{"path": t.path, "qualname": t.qualname} for t in self.targets],
            "prove": sorted({*prove, *(t.path for t in self.targets)}),
            "seed": self.seed,
            **({"encoders": [list(encoder) for encoder in self.encoders]} if self.encoders else {}),
            **({"judged": True} if self.judged else {}),
            **more,
        }


async def run_session(
    runner: RunnerConfig,
    workspace: Workspace,
    spec: Mapping[str, Any],
    limits: ProcessLimits,
    canaries: Sequence[Canary] = (),
    watch: Watch | None = None,
) -> RunnerSession:
    """Run one runner in a new process to its end and read its report.

    Args:
        watch: receives its records as they arrive.
    """
    armed, arms = arm(workspace, spec, canaries)
    command = replace(start_command(workspace, armed, limits, runner.directory), watch=watch)
    return read_session(await runner.launcher.run(command), arms)


def read_session(done: ProcessExit, arms: RunSecrets) -> RunnerSession:
    """Read the report of a runner that has ended.

    Args:
        done: how it ended, with its records.
        arms: what it was told apart from its spec.
    """
    try:
        told, is_readable = read_report(parse_records(done.records)), True
    except ForeignRecord:
        told, is_readable = RunnerReport(), False
    began = perf_counter_ns()
    report, outcomes = sift(told, arms.canaries)
    is_forged = not is_readable or (report.finished and broken_seal(done.records, arms.key))
    ours_ns = perf_counter_ns() - began
    return RunnerSession(
        report=report,
        exit=replace(done, records=b""),
        canaries=arms.canaries,
        canary_outcomes=outcomes,
        is_forged=is_forged,
        isolation_ns=told.timings_ns.get(CONFINED, 0),
        gate_ns=ours_ns + told.timings_ns.get("canaries", 0) + sum(found.ns for found in outcomes.values()),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRecording:
    """Limit of the time for recording calls of targets in a run of tests.

    Attributes:
        seconds: at first.
        share: and for each second that the tests themselves have taken.
    """

    seconds: float
    share: float = 0.0


#: Tests of the baseline must not become many times as slow because targets are called often.
BASELINE_RECORDING = CallRecording(seconds=0.5, share=0.5)


def hashed(workspace: Workspace, seed: int) -> Workspace:
    """Return the workspace with another hash seed."""
    environment = {**workspace.environment, "PYTHONHASHSEED": str(seed)}
    return replace(workspace, environment=environment)


def first_run_spec(runner: RunnerConfig, workspace: Workspace, inputs: str = "") -> dict[str, Any]:
    """Return the spec of the first baseline run: everything asked for, calls counted and digested.

    It also notes which tests start processes.

    Args:
        runner: of the run.
        workspace: where it is run.
        inputs: file for the inputs of calls; empty: they are not kept.
    """
    asked = (*_expressions(runner.request), *runner.request.paths)
    arguments = (*_fallback_configuration(workspace), *asked)
    also = [str(workspace.seen(workspace.root / path)) for path in runner.overlaid]
    wrap = WrapMode.CAPTURE if inputs else WrapMode.DIGEST
    fields = _tests_fields(arguments, None, wrap, StopRule.NEVER, BASELINE_RECORDING)
    return runner.spec("tests", (), **{**fields, "inputs": inputs}, also=also, watch=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectedRun:
    """A run of the selected tests (or, with `only`, of some of them).

    Attributes:
        prove: paths whose compiled bytes are reported besides the targets'.
        recording: what recording calls may cost.
        inputs: file that a capture writes.
        workers: xdist workers; 0 runs in one process.
        only: ids, in the order of the baseline; `None`: the selected tests.
        order: the same ids in the order in which they are to be run; empty: as they are collected.
        tolerated: ids whose failure ends nothing.
        not_before: nothing of the project is imported before, in seconds since the epoch; it is waited for a
            second at most.
    """

    prove: tuple[str, ...] = ()
    wrap: WrapMode = WrapMode.NONE
    stop: StopRule = StopRule.NEVER
    recording: CallRecording = field(default_factory=lambda: CallRecording(seconds=30.0))
    inputs: str = ""
    workers: int = 0
    only: tuple[str, ...] | None = None
    order: tuple[str, ...] = ()
    tolerated: tuple[str, ...] = ()
    tracebacks: Tracebacks = Tracebacks.SHORT
    not_before: float = 0.0


def selected_run_spec(
    runner: RunnerConfig, workspace: Workspace, baseline: Baseline, run: SelectedRun
) -> dict[str, Any]:
    """Return the spec of a run of the selected tests in any workspace.

    Only the files that hold them are collected; the runner deselects the rest of each file. With other paths
    than in the first run pytest might find another root or configuration, so both are given.
    """
    selected = baseline.selected if run.only is None else run.only
    root = workspace.seen(workspace.root)
    rootdir = str(root / baseline.rootdir)
    inifile = ("-c", str(root / baseline.inifile)) if baseline.inifile else ()
    where = () if inifile else _fallback_configuration(workspace)
    asked = (f"--rootdir={rootdir}", *inifile, *_expressions(runner.request), *test_files(selected, rootdir))
    fields = _tests_fields((*where, *asked), selected, run.wrap, run.stop, run.recording)
    more = {
        "inputs": run.inputs,
        "workers": run.workers,
        "tolerated": list(run.tolerated),
        "tracebacks": run.tracebacks.value,
        "not_before": run.not_before,
    }
    order = {"select": None, "order": list(run.order)} if run.order else {}
    return runner.spec("tests", run.prove, **{**fields, **more, **order})


def _tests_fields(
    arguments: Sequence[str],
    select: Sequence[str] | None,
    wrap: WrapMode,
    stop: StopRule,
    recording: CallRecording,
) -> dict[str, Any]:
    return {
        "args": list(arguments),
        "select": None if select is None else list(select),
        "wrap": wrap.value,
        "budget": {"calls": CAPTURE_CALLS, "bytes": CAPTURE_BYTES, **asdict(recording)},
        "inputs": "",
        "stop": stop.value,
        "tracebacks": Tracebacks.SHORT.value,
        "workers": 0,
    }


def _fallback_configuration(workspace: Workspace) -> tuple[str, ...]:
    """Keep pytest from looking for a configuration *above* the slot, where only our cache lies."""
    folders = [workspace.project, *workspace.project.parents]
    inside = folders[: folders.index(workspace.root) + 1]
    if any(_configures_pytest(folder) for folder in inside):
        return ()
    empty = workspace.private / "pytest.ini"
    if not empty.exists():
        empty.write_text("[pytest]\n", encoding="utf-8")
    return (f"--rootdir={workspace.seen(workspace.project)}", "-c", str(workspace.seen(empty)))


#: Files in which pytest looks for its configuration, and the section that makes them count.
_CONFIGURATIONS = {
    "pytest.toml": "",
    ".pytest.toml": "",
    "pytest.ini": "",
    ".pytest.ini": "",
    "pyproject.toml": "[tool.pytest",
    "tox.ini": "[pytest]",
    "setup.cfg": "[tool:pytest]",
}


def _configures_pytest(folder: Path) -> bool:
    for name, section in _CONFIGURATIONS.items():
        path = folder / name
        if path.is_file() and section in path.read_text(encoding="utf-8", errors="replace"):
            return True
    return False


#: CPU seconds for trying inputs out on the baseline.
_TRY_S = 1.0

#: Derived inputs are numbered from here on; captured calls never get that far.
FIRST_DERIVED = 1_000_000


def replay_spec(
    runner: RunnerConfig,
    inputs: str,
    prove: Sequence[str],
    calls: Sequence[int],
    texts: Sequence[int] = (),
    derived: tuple[str, Sequence[int]] = ("", ()),
) -> dict[str, Any]:
    """Return the spec of a replay of captured calls, and of calls with derived inputs after them.

    Args:
        runner: of the run.
        inputs: the file that holds them.
        prove: paths whose compiled bytes are reported besides the targets'.
        calls: which ones, by their numbers.
        texts: those of them whose arguments and outcomes are put into words; of the rest there are digests.
        derived: the file that holds the derived inputs, and which ones, by their numbers.
    """
    path, numbers = derived
    more = {"derived": path, "derived_calls": list(numbers)} if numbers else {}
    return runner.spec("replay", prove, inputs=inputs, calls=list(calls), texts=list(texts), **more)


@dataclass(frozen=True, kw_only=True, slots=True)
class DerivationRequest:
    """A request for fresh inputs.

    Attributes:
        inside: so many of each target that keep all relations; a sixth of that may break one.
        check_s: CPU seconds that all that are kept may take on the baseline.
        constants: numbers and texts of the code, which become values, sizes and parts.
    """

    inside: int = DERIVED_INSIDE
    check_s: float = 0.1
    constants: tuple[Constant, ...] = ()


def derive_spec(
    runner: RunnerConfig,
    inputs: str,
    derived: str,
    calls: Sequence[int],
    raises: Mapping[int, Sequence[str]],
    wanted: DerivationRequest,
) -> dict[str, Any]:
    """Return the spec that has inputs derived from captured ones and tried out.

    Args:
        runner: of the run.
        inputs: the file that holds the captured ones.
        derived: the file for the derived ones.
        calls: the captured ones that were observed, by their numbers.
        raises: by the number of a target: types of exceptions that are normal outcomes of it.
        wanted: how many, and made of what.
    """
    normal = {str(target): list(types) for target, types in raises.items()}
    sizes = {"inside": wanted.inside, "outside": wanted.inside // 6, "first": FIRST_DERIVED}
    times = {"try_s": _TRY_S, "check_s": wanted.check_s}
    made = {"inputs": inputs, "derived": derived, "calls": list(calls), "raises": normal}
    return runner.spec("derive", (), **made, **sizes, **times, constants=list(wanted.constants))


def shrink_spec(
    runner: RunnerConfig, inputs: str, base: tuple[str, int], out: str, first: int, tries: int
) -> dict[str, Any]:
    """Return the spec that has simpler inputs made of one, and the call made with each.

    Args:
        runner: of the run.
        inputs: the file that holds the captured ones; it says where modules lie.
        base: the file that holds that one, and its number.
        out: the file for the simpler ones.
        first: their first number.
        tries: how many, at most.
    """
    path, number = base
    made = {"inputs": inputs, "base": path, "derived": out, "calls": [number]}
    return runner.spec("derive", (), **made, first=first, shrink=tries)
