"""Whatever the order, the servers and the killers: the code is that of all tests in one new process.

The runner is played: tests have outcomes, and some of them fail because of what ran before them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from fake_seal import sealed
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckOutcome, CheckPlan
from codeflash_parallel.check.checker import check, evidence
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.check.session.runner_session import RunnerConfig, TestRequest
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Edit,
    digest_of,
)
from codeflash_parallel.result.outcome_codes import Code, ExitKind
from codeflash_parallel.result.runtime_protocols import (
    ChildCommand,
    ProcessExit,
    ProcessLimits,
    ServerGone,
    TemplateReady,
    Workspace,
)

TESTS = tuple(f"{file}.py::{test}" for file in "ab" for test in "xyz")
OLD, NEW = b"def f():\n    return 1\n", b"def f():\n    return 2\n"
CANDIDATE = Candidate(
    id=CandidateId("c"),
    origin=CandidateOrigin.EDITS,
    edits=(Edit(path="m.py", old_digest=digest_of(OLD), new=NEW),),
)
#: Phases that give an outcome.
PHASES = {
    "passed": [("call", "passed", False)],
    "failed": [("call", "failed", False)],
    "error": [("setup", "failed", False)],
    "skipped": [("setup", "skipped", False)],
    "xfailed": [("call", "skipped", True)],
}


@dataclass
class Play:
    """A runner whose tests have known outcomes.

    Attributes:
        outcomes: of the candidate's tests, `absent` where it is not collected.
        spoiled: tests that fail if another one ran before them.
    """

    outcomes: Mapping[str, str]
    spoiled: Mapping[str, str] = field(default_factory=dict)
    runs: int = 0

    def exit(self, path: Path) -> ProcessExit:
        self.runs += 1
        spec = json.loads(path.read_bytes())
        wanted = spec.get("order") or spec["select"]
        lines = (json.dumps(record) for record in self._records(spec, wanted))
        return ProcessExit(ended=ExitKind.EXITED, records=sealed(path, "\n".join(lines).encode()))

    def _records(self, spec: Mapping[str, Any], wanted: Iterable[str]) -> Iterator[dict[str, Any]]:
        yield {"t": "source", "path": "m.py", "digest": digest_of(NEW)}
        collected = [test for test in wanted if self.outcomes[test] != "absent"]
        yield {"t": "collected", "ids": collected}
        for number, test in enumerate(collected):
            outcome = self.outcome(test, collected[:number])
            for when, result, xfail in PHASES[outcome]:
                yield {"t": "phase", "id": test, "when": when, "outcome": result, "xfail": xfail, "ns": 1}
            if outcome in {"failed", "error"} and spec["stop"] == "decisive":
                break
        yield {"t": "end", "status": 0}

    def outcome(self, test: str, before: Iterable[str]) -> str:
        spoiled = self.outcomes[test] == "passed" and self.spoiled.get(test) in set(before)
        return "failed" if spoiled else self.outcomes[test]

    # A launcher, as far as checks need one.

    async def run(self, command: ChildCommand, /) -> ProcessExit:
        return self.exit(Path(command.argv[2]))

    async def open(self, command: ChildCommand, /) -> object:
        raise NotImplementedError


@dataclass
class PlayedServer:
    play: Play
    ready: TemplateReady = field(default_factory=lambda: TemplateReady(point="imported"))
    forks: int = 0
    gone: bool = False

    async def run(self, spec_path: Path, limits: ProcessLimits, /) -> ProcessExit:
        if self.gone:
            raise ServerGone("it was killed")
        self.forks += 1
        return self.play.exit(spec_path)

    def rss_bytes(self) -> int:
        return 1


@dataclass
class PlayedServers:
    """A server at some points; some of them are gone."""

    play: Play
    points: Mapping[ForkPoint, bool]

    async def server(self, mode: str, point: ForkPoint, /) -> PlayedServer | None:
        return PlayedServer(self.play, gone=self.points[point]) if point in self.points else None

    def why(self) -> str:
        return "there is none"


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("private")


def plan_of(
    play: Play, expected: Mapping[str, str], private: Path, **fields: Any
) -> tuple[CheckPlan, Workspace]:
    workspace = Workspace(
        root=private,
        project=private,
        user_root=private / "elsewhere",
        interpreter=Path("/usr/bin/python"),
        private=private,
        environment={},
    )
    runner = RunnerConfig(
        launcher=play,
        directory=private,
        targets=(Target(path="m.py", qualname="f"),),
        request=TestRequest(),
        seed=1,
    )
    baseline = Baseline(
        targets=("m.py::f",),
        python="3.11",
        pytest="8",
        plugins=(),
        rootdir=".",
        inifile="",
        selected=TESTS,
        expected=expected,
        executing=TESTS,
        loaded={"m.py": digest_of(OLD)},
    )
    plan = CheckPlan(
        runner=runner,
        baseline=baseline,
        limits=ProcessLimits(wall_s=1),
        compare_values=False,
        sources={"m.py": OLD},
    )
    return replace(plan, **fields), workspace


#: A test is spoiled by one that comes after it in the order that the baseline was run in.
SPOILED = st.dictionaries(st.integers(0, 4), st.integers(1, 5)).map(
    lambda pairs: {TESTS[a]: TESTS[a + b] for a, b in pairs.items() if a + b < len(TESTS)}
)
KNOWN = st.fixed_dictionaries({test: st.sampled_from(["passed", "skipped", "xfailed"]) for test in TESTS})
CHANGES = st.dictionaries(
    st.sampled_from(TESTS), st.sampled_from(["passed", "failed", "error", "skipped", "absent"]), max_size=3
)
SERVERS = st.none() | st.dictionaries(
    st.sampled_from([ForkPoint.COLLECTED, ForkPoint.IMPORTED]), st.booleans()
)


def trusted(
    killers: Iterable[str], expected: Mapping[str, str], spoiled: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the killers that the baseline passes in their place, as the engine finds out."""
    baseline, kept = Play(expected, spoiled), []
    for test in dict.fromkeys(killers):
        if baseline.outcome(test, kept) == expected[test]:
            kept.append(test)
    return tuple(kept)


@given(KNOWN, CHANGES, SPOILED, st.lists(st.sampled_from(TESTS), max_size=4), SERVERS, st.integers(0, 2))
def test_shortcuts_do_not_change_the_code(
    private: Path,
    expected: dict[str, str],
    changes: dict[str, str],
    spoiled: dict[str, str],
    killers: list[str],
    servers: dict[ForkPoint, bool] | None,
    workers: int,
) -> None:
    play = Play({**expected, **changes}, spoiled)
    fields = {"killers": trusted(killers, expected, spoiled), "workers": workers}
    quick, workspace = plan_of(play, expected, private, **fields)
    plain, _ = plan_of(play, expected, private, new_process="one was asked for")

    async def both() -> tuple[CheckOutcome, CheckOutcome]:
        there = None if servers is None else PlayedServers(play, servers)
        screened = await check(quick, workspace, CANDIDATE, there)
        return screened, await evidence(plain, workspace, CANDIDATE, None)

    screened, whole = anyio.run(both)
    assert screened.code is whole.code
    counts = screened.tests
    assert counts.passed + counts.failed + counts.missing + counts.not_run == len(TESTS)
    assert (counts.not_run == 0) or counts.failed
    assert screened.served in set(ForkPoint)
    if workers or servers is None:
        assert screened.served == ForkPoint.NEW_PROCESS
    if screened.code is Code.OK:
        assert counts.passed == len(TESTS)
