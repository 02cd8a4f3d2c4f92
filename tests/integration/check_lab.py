"""Check candidates of a small project with the real runner: a baseline, a workspace, and servers if wanted."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
from runner_sessions import shared_runner, write_files

from codeflash_parallel.baseline.baseline_findings import repetitions, stable, stable_globals
from codeflash_parallel.baseline.baseline_replay import BaselineReplayer, absences, replayed
from codeflash_parallel.baseline.preflight import canaries_to_try
from codeflash_parallel.baseline.step_reporter import StepReporter
from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckOutcome, CheckPlan
from codeflash_parallel.check.checker import check
from codeflash_parallel.check.comparison.outcome_comparison import outcomes_by_test
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.check.dispatch.run_dispatch import WarmServers, template_spec
from codeflash_parallel.check.integrity.process_faults import with_canaries
from codeflash_parallel.check.session.runner_report import CallOutcome
from codeflash_parallel.check.session.runner_session import (
    DerivationRequest,
    RunnerConfig,
    SelectedRun,
    TestRequest,
    WrapMode,
    first_run_spec,
    replay_spec,
    run_session,
    selected_run_spec,
)
from codeflash_parallel.check.session.selected_tests import executing_tests, selected_tests
from codeflash_parallel.process.launcher.launcher import Launcher, open_launcher
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Edit,
    digest_of,
)
from codeflash_parallel.result.runtime_protocols import ProcessLimits, WarmProcess, Workspace, WorkspaceTree
from codeflash_parallel.sandbox.runner_command import ControlChannelUse, start_command
from codeflash_parallel.warm.slot_servers import verify
from codeflash_parallel.warm.warm_server import start_server

LIMITS = ProcessLimits(wall_s=60.0, cpu_s=10.0)
READY_S = 60.0

PROJECT = {
    "shop/__init__.py": "",
    "shop/sums.py": """
from shop.helper import double

def total(values):
    result = 0
    for value in values:
        result += value
    return result

def unused():
    return double(1)
""",
    "shop/helper.py": "def double(x):\n    return 2 * x\n",
    "tests/test_sums.py": """
import pytest
from shop.sums import total

@pytest.mark.parametrize("values", [[], [1], [1, 2, 3]])
def test_total(values):
    assert total(values) == sum(values)

def test_blind():
    total([5, 5])

def test_last():
    assert total([2]) == 2
""",
    "tests/test_helper.py": """
from shop.helper import double

def test_double():
    assert double(2) == 4
""",
}


TARGETS = ("shop/sums.py::total",)

#: The baseline of the project above and the bytes of its inputs file, once they are known.
_of_the_usual: list[tuple[Baseline, bytes]] = []


@dataclass
class CheckLab:
    """A project with a known baseline.

    Attributes:
        tree: lets tests lie elsewhere while calls are made again.
        servers: what `at` has started, by mode and point.
    """

    base: Path
    launcher: Launcher
    files: Mapping[str, str]
    targets: tuple[str, ...] = TARGETS
    derives: bool = False
    tree: WorkspaceTree | None = None
    servers: dict[tuple[str, ForkPoint], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = write_files(self.base / "root", self.files)
        self.private = self.base / "private"
        self.private.mkdir()
        self.runner = RunnerConfig(
            launcher=self.launcher,
            directory=shared_runner(),
            targets=tuple(map(Target.parse, self.targets)),
            request=TestRequest(),
            seed=7,
        )
        self.workspace = Workspace(
            root=self.root,
            project=self.root,
            user_root=self.base / "elsewhere",
            interpreter=Path(sys.executable),
            private=self.private,
            environment={
                "PATH": os.environ["PATH"],
                "HOME": str(self.private),
                "TMPDIR": str(self.private),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTHONHASHSEED": "0",
            },
        )

    async def learn(self) -> None:
        """Find out what the baseline does; of the usual project once a process, as it is once for all slots."""
        if dict(self.files) != PROJECT or self.targets != TARGETS or self.derives:
            self.baseline = await self._learned()
            return
        if not _of_the_usual:
            found = await self._learned()
            _of_the_usual.append((found, await anyio.Path(found.inputs).read_bytes()))
        known, inputs = _of_the_usual[0]
        own = self.private / "inputs"
        own.write_bytes(inputs)
        self.baseline = replace(known, inputs=str(own))

    async def _learned(self) -> Baseline:
        """Find it out as the preflight would."""
        first = (await self._run(first_run_spec(self.runner, self.workspace))).report
        selected = selected_tests(first, targets=len(self.targets))
        draft = Baseline(
            targets=self.targets,
            python=first.python,
            pytest=first.pytest,
            plugins=first.plugins,
            rootdir=".",
            inifile="",
            selected=selected,
            expected={test: first.tests[test].outcome for test in selected},
            executing=executing_tests(first),
            asked=first.collected,
            asked_expected={test: outcome.outcome for test, outcome in first.tests.items()},
            inputs=str(self.private / "inputs"),
            loaded={path: next(iter(digests)) for path, digests in first.sources.items()},
        )
        capture = SelectedRun(wrap=WrapMode.CAPTURE, inputs=draft.inputs)
        spec = selected_run_spec(self.runner, self.workspace, draft, capture)
        second = await run_session(
            self.runner, self.workspace, spec, LIMITS, canaries_to_try(self.workspace, draft)
        )
        draft, seen = with_canaries(draft, second), second.report
        captured = {call.index: call for call in seen.calls if call.captured}
        repeated = repetitions(captured)
        made = tuple(index for index in captured if index not in repeated)
        if self.derives:
            return await self._derived(draft, captured)
        replay = (await self._run(replay_spec(self.runner, draft.inputs, (), made, texts=made))).report
        found = stable(captured, [replay], repeated)
        sound = {*found.calls, *found.repeats}
        inside = [call for call in seen.calls if call.index not in sound]
        told = {"observed": outcomes_by_test(inside), "manners": tuple(replay.manners)}
        return replace(draft, calls=found.calls, repeats=found.repeats, **told)

    async def _derived(self, draft: Baseline, captured: Mapping[int, CallOutcome]) -> Baseline:
        inputs = Path(draft.inputs)
        making = BaselineReplayer(
            runner=self.runner,
            workspace=self.workspace,
            inputs=inputs,
            derived=inputs.with_name("derived"),
            tree=self.tree,
            limits=LIMITS,
            steps=StepReporter(lambda _event: None),
            wanted=DerivationRequest(check_s=0.5),
        )
        levels = absences(self.files, draft.asked, ".", {target.path for target in self.runner.targets})
        got = await replayed(making, captured, levels if self.tree else ())
        making = replace(making, aside=got.aside)
        _, derived = await making.run(captured, tuple(got.found.calls), await making.drawn(captured))
        return replace(
            draft,
            calls=got.found.calls,
            repeats=got.found.repeats,
            derived=derived.calls,
            breaks=derived.breaks,
            sizes=derived.sizes,
            derived_inputs=str(making.derived),
            aside=got.aside,
            sheltered=got.sheltered,
            **stable_globals(got.replays),
            manners=got.manners,
        )

    async def _run(self, spec: Mapping[str, Any]) -> Any:
        return await run_session(self.runner, self.workspace, spec, LIMITS)

    def plan(self, **fields: Any) -> CheckPlan:
        sources = {t.path: (self.root / t.path).read_bytes() for t in self.runner.targets}
        plan = CheckPlan(
            runner=self.runner, baseline=self.baseline, limits=LIMITS, compare_values=True, sources=sources
        )
        return replace(plan, **fields)

    # --- candidates ------------------------------------------------------------------------------------

    def candidate(self, **texts: str | None) -> Candidate:
        """Return a candidate; ``shop__sums="..."`` is the new text of a file, `None` removes it."""
        edits = []
        for name, text in texts.items():
            path = name.replace("__", "/") + ".py"
            old = (self.root / path).read_bytes() if (self.root / path).exists() else None
            new = None if text is None else text.encode()
            edits.append(Edit(path=path, old_digest=digest_of(old) if old is not None else None, new=new))
        return Candidate(id=CandidateId("c"), origin=CandidateOrigin.EDITS, edits=tuple(edits))

    def body(self, text: str) -> Candidate:
        """Return a candidate with another body of the loop of `total`."""
        old = (self.root / "shop/sums.py").read_text(encoding="utf-8")
        return self.candidate(shop__sums=old.replace("result += value", text))

    @contextmanager
    def staged(self, candidate: Candidate) -> Any:
        paths = {edit.path: self.root / edit.path for edit in candidate.edits}
        before = {name: path.read_bytes() if path.exists() else None for name, path in paths.items()}
        for edit in candidate.edits:
            _put(paths[edit.path], edit.new)
        try:
            yield
        finally:
            for name, text in before.items():
                _put(paths[name], text)

    async def check(
        self, candidate: Candidate, servers: WarmServers | None = None, **plan: Any
    ) -> CheckOutcome:
        made = self.plan(**plan)
        with self.staged(candidate):
            return await check(made, self.workspace, candidate, servers, self.tree)

    # --- servers ---------------------------------------------------------------------------------------

    async def start(self, mode: str, point: ForkPoint) -> str:
        """Start a server and return why it cannot be used."""
        before = self.servers.get((mode, ForkPoint.IMPORTED)) if point is ForkPoint.COLLECTED else None
        spec = template_spec(self.runner, self.workspace, self.baseline, mode, point)
        if (mode, point) == ("tests", ForkPoint.COLLECTED) and self.plan().watches:
            spec["wrap"] = "digest"
        command = start_command(
            self.workspace, spec, LIMITS, self.runner.directory, control=ControlChannelUse.LINES
        )
        if before is None:
            server = await start_server(self.launcher, command, READY_S)
        else:
            server = await before.advance(point.value, READY_S, Path(command.argv[2]))
        self.servers[mode, point] = server
        unfit = server.ready.unfit
        return unfit or (await verify(self.plan(), self.workspace, mode, server)).why

    async def close(self) -> None:
        for server in self.servers.values():
            await server.close()


def _put(path: Path, text: bytes | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(text)


@dataclass
class SomeServers:
    """Servers of a slot: some of those that stand."""

    standing: Mapping[tuple[str, ForkPoint], WarmProcess]
    points: Iterable[ForkPoint] = tuple(ForkPoint)

    async def server(self, mode: str, point: ForkPoint, /) -> WarmProcess | None:
        return self.standing.get((mode, point)) if point in self.points else None

    def why(self) -> str:
        return "it is not used in this test"


@asynccontextmanager
async def open_check_lab(base: Path, **options: Any) -> AsyncIterator[CheckLab]:
    files = {**PROJECT, **options.pop("files", {})}
    learns = options.pop("learns", True)
    async with open_launcher() as launcher:
        lab = CheckLab(base, launcher, files, **options)
        if learns:
            await lab.learn()
        try:
            yield lab
        finally:
            await lab.close()
