"""Checks that cannot begin where they should: the next point, or a new process, and the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest
from check_lab import CheckLab, SomeServers, open_check_lab
from fake_seal import sealed

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.checker import evidence
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.result.outcome_codes import Code, ExitKind, Level
from codeflash_parallel.result.runtime_protocols import ProcessExit, ProcessLimits, ServerGone, TemplateReady
from codeflash_parallel.warm.slot_servers import verify

pytestmark = [pytest.mark.anyio, pytest.mark.engine]


@dataclass
class FakeServer:
    """Ends every check with the same exit, or is gone."""

    exit: ProcessExit | None = None
    ready: TemplateReady = field(default_factory=lambda: TemplateReady(point="imported"))
    forks: int = 0

    async def run(self, spec_path: Path, limits: ProcessLimits, /) -> ProcessExit:
        assert await anyio.Path(spec_path).is_file()
        self.forks += 1
        if self.exit is None:
            raise ServerGone("killed")
        return replace(self.exit, records=sealed(spec_path, self.exit.records))

    def rss_bytes(self) -> int:
        return 1


def records(*lines: str) -> ProcessExit:
    return ProcessExit(ended=ExitKind.EXITED, records="\n".join(lines).encode())


async def judged(lab: CheckLab, servers: Mapping[tuple[str, ForkPoint], FakeServer]) -> CheckOutcome:
    return await lab.check(lab.body("result = value + result"), SomeServers(servers))


async def test_servers_that_do_not_do(tmp_path: Path) -> None:
    async with open_check_lab(tmp_path) as lab:
        nobody = await judged(lab, {})
        unused = "it is not used in this test"
        assert (nobody.code, nobody.served) == (Code.OK, "new-process")
        assert nobody.served_why == f"not collected, imported: {unused}"

        gone = await judged(lab, {("tests", ForkPoint.IMPORTED): FakeServer()})
        assert (gone.code, gone.served) == (Code.OK, "new-process")
        assert "not imported: its server is gone (killed)" in gone.served_why

        unswappable = FakeServer(exit=records('{"t": "unswappable", "why": "a decorator is not known"}'))
        other = await judged(lab, {("tests", ForkPoint.COLLECTED): unswappable})
        assert (other.code, other.served, unswappable.forks) == (Code.OK, "new-process", 1)
        assert other.served_why.startswith("not collected: a decorator is not known; not ")

        # A fork that died, one whose runner failed, one that ran nobody's code: none of them is believed.
        for end in (
            ProcessExit(ended=ExitKind.SIGNALLED, status=-11),
            records('{"t": "error", "where": "serving", "message": "boom"}', '{"t": "end", "status": 70}'),
            records('{"t": "end", "status": 0}'),
        ):
            server = FakeServer(exit=end)
            again = await judged(
                lab, {("tests", ForkPoint.COLLECTED): server, ("tests", ForkPoint.IMPORTED): FakeServer()}
            )
            assert (again.code, again.served, server.forks) == (Code.OK, "new-process", 1)
            assert again.served_why.startswith("checked again, as a fork could be to blame: ")

        # What a candidate wastes it wastes by itself.
        spent = await judged(
            lab, {("tests", ForkPoint.COLLECTED): FakeServer(exit=ProcessExit(ended=ExitKind.CPU_DEADLINE))}
        )
        assert (spent.code, spent.served) == (Code.TOO_SLOW, "collected")


SURROUNDINGS = {
    "shop/sums.py": "BASE = 0\n\ndef total(values):\n    return sum(values) + BASE\n",
    "tests/test_sums.py": """
from shop import sums

def test_total(monkeypatch):
    monkeypatch.setattr(sums, "BASE", 5)
    assert sums.total([1]) > 0
""",
    "tests/test_helper.py": "def test_nothing():\n    pass\n",
}


async def test_calls_inside_tests_are_recorded_at_every_point(tmp_path: Path) -> None:
    async with open_check_lab(tmp_path, files=SURROUNDINGS) as lab:
        assert lab.baseline.observed
        assert not lab.baseline.calls
        for point in (ForkPoint.IMPORTED, ForkPoint.COLLECTED):
            assert await lab.start("tests", point) == ""
        right = lab.candidate(
            shop__sums=SURROUNDINGS["shop/sums.py"].replace("sum(values) + BASE", "BASE + sum(values)")
        )
        wrong = lab.candidate(shop__sums=SURROUNDINGS["shop/sums.py"].replace("+ BASE", "+ BASE + 1"))
        for candidate, code in ((right, Code.OK), (wrong, Code.VALUE_DIFFERS)):
            for point in (ForkPoint.COLLECTED, ForkPoint.IMPORTED):
                outcome = await lab.check(candidate, SomeServers(lab.servers, (point,)))
                assert (outcome.code, outcome.served) == (code, point), outcome
                assert outcome.values.level is Level.CAPTURED
        # Where nothing is compared, nothing is recorded, and servers that do are not asked.
        with lab.staged(wrong):
            more = await evidence(lab.plan(), lab.workspace, wrong, SomeServers(lab.servers))
        assert (more.code, more.served) == (Code.OK, "imported")
        assert more.served_why == "calls inside the tests are not recorded"


PROCESS = {
    "conftest.py": "import os\nPID = os.getpid()\n",
    "tests/test_sums.py": """
import os
import conftest
from shop.sums import total

def test_total():
    assert total([1, 2]) == 3

def test_same_process():
    assert conftest.PID == os.getpid() and total([]) == 0
""",
}


async def test_a_point_that_does_not_tell_the_truth_is_found_out(tmp_path: Path) -> None:
    async with open_check_lab(tmp_path, files=PROCESS) as lab:
        why = await lab.start("tests", ForkPoint.IMPORTED)
        assert "tests/test_sums.py::test_same_process" in why
        assert await lab.start("replay", ForkPoint.IMPORTED) == ""


async def test_verifying_says_what_is_wrong(tmp_path: Path) -> None:
    async with open_check_lab(tmp_path) as lab:
        plan = lab.plan()
        for mode in ("tests", "replay"):
            for end, words in (
                (ProcessExit(ended=ExitKind.SIGNALLED, status=-11), "SIGSEGV"),
                (ProcessExit(ended=ExitKind.EXITED), "before the tests were over"),
                (records('{"t": "unswappable", "why": "because"}'), "because"),
                (
                    records('{"t": "source", "path": "shop/sums.py", "digest": "x"}', '{"t": "end"}'),
                    "is not the snapshot's",
                ),
                (
                    records('{"t": "end", "status": 0}'),
                    "did not run" if mode == "tests" else "another value",
                ),
            ):
                server = FakeServer(exit=end)
                assert words in (await verify(plan, lab.workspace, mode, server)).why
            assert "is gone" in (await verify(plan, lab.workspace, mode, FakeServer())).why


async def test_a_run_that_is_spread_is_no_last_word(tmp_path: Path) -> None:
    """One test needs what another has done in the same process."""
    together = """
from shop.sums import total
seen = []

def test_first():
    assert total([1]) == 1
    seen.append(1)

def test_second():
    assert total([2]) == 2 and seen
"""
    async with open_check_lab(tmp_path, files={"tests/test_sums.py": together}) as lab:
        lab.workspace.environment["PYTEST_PLUGINS"] = "xdist.plugin"
        right = await lab.check(lab.body("result = value + result"), workers=2)
        wrong = await lab.check(lab.body("result += 1"), workers=2)
    assert (right.code, right.tests.passed, right.served) == (Code.OK, 2, "new-process")
    assert "the tests are spread over 2 processes" in right.served_why
    assert (wrong.code, wrong.tests.failed_ids) == (Code.TESTS_FAILED, ("tests/test_sums.py::test_second",))
