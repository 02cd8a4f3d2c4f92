"""Checks with the real runner: the same verdict by every way, and the way is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from check_lab import CheckLab, SomeServers, open_check_lab

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.checker import confirm, evidence, rest
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.result.candidate_model import Candidate
from codeflash_parallel.result.outcome_codes import Code, Level
from codeflash_parallel.result.result_model import STEPS
from codeflash_parallel.result.runtime_protocols import ProcessLimits

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

Make = Callable[[CheckLab], Candidate]

#: What a candidate does, its verdict, and the point where its check may begin.
CASES: dict[str, tuple[Make, Code, ForkPoint]] = {
    "right": (lambda lab: lab.body("result = value + result"), Code.OK, ForkPoint.COLLECTED),
    "fails": (lambda lab: lab.body("result += 2 * value"), Code.TESTS_FAILED, ForkPoint.COLLECTED),
    "fails late": (lambda lab: lab.body("result += value - (value == 2) * (len(values) == 1)"), Code.TESTS_FAILED, ForkPoint.COLLECTED),
    "other value": (lambda lab: lab.body("result += value + (value == 5)"), Code.VALUE_DIFFERS, ForkPoint.COLLECTED),
    "other type": (lambda lab: lab.body("result = float(result + value) if value == 5 else result + value"), Code.TYPE_DIFFERS, ForkPoint.COLLECTED),
    "changes its arguments": (lambda lab: lab.body("result += value; values == [5, 5] and values.append(0)"), Code.INPUT_MUTATED, ForkPoint.COLLECTED),
    "exits": (lambda lab: lab.body("import os; os._exit(0)"), Code.CRASHED, ForkPoint.NEW_PROCESS),
    "crashes": (lambda lab: lab.body("import os; os.abort()"), Code.CRASHED, ForkPoint.NEW_PROCESS),
    "hangs": (lambda lab: lab.body("\n        while True: pass"), Code.TOO_SLOW, ForkPoint.COLLECTED),
    "import fails": (lambda lab: lab.candidate(shop__sums="import nowhere\n"), Code.TESTS_FAILED, ForkPoint.IMPORTED),
    "name is gone": (lambda lab: lab.candidate(shop__sums="def other():\n    pass\n"), Code.TESTS_FAILED, ForkPoint.IMPORTED),
    "skips itself": (lambda lab: lab.candidate(shop__sums="import pytest\npytest.skip(allow_module_level=True)\n"), Code.TESTS_MISSING, ForkPoint.IMPORTED),
    "default": (lambda lab: lab.candidate(shop__sums="def total(values, start=0):\n    return sum(values, start)\n"), Code.OK, ForkPoint.IMPORTED),
    "helper": (lambda lab: lab.candidate(shop__helper="def double(x):\n    return x + x\n"), Code.OK, ForkPoint.NEW_PROCESS),
    "new module": (
        lambda lab: lab.candidate(shop__sums="from shop.new import total\n", shop__new="def total(values):\n    return sum(values)\n"),
        Code.OK,
        ForkPoint.NEW_PROCESS,
    ),
    "removed": (lambda lab: lab.candidate(shop__sums="def total(values):\n    return sum(values)\n", shop__helper=None), Code.OK, ForkPoint.NEW_PROCESS),
    "leaks": (lambda lab: lab.body("result += value; import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"), Code.LEAKED_PROCESS, ForkPoint.NEW_PROCESS),
}  # fmt: skip
#: The same verdict needs more than its code.
EQUAL = ("code", "tests", "values", "difference", "starved")


def essence(outcome: CheckOutcome) -> dict[str, Any]:
    failed = [(failure.id, failure.phase) for failure in outcome.failures]
    return {"failed": failed, **{name: getattr(outcome, name) for name in EQUAL}}


def assert_accounted(outcome: CheckOutcome) -> None:
    assert outcome.timings_ms.keys() <= set(STEPS) - {"queue", "stage"}
    assert min(outcome.timings_ms.values()) >= 0
    assert outcome.used.wall_ns <= 1e6 * sum(outcome.timings_ms.values())


@pytest.fixture
async def lab(tmp_path: Path) -> Any:
    async with open_check_lab(tmp_path) as lab:
        yield lab


async def test_what_a_sound_candidate_leaves(lab: CheckLab) -> None:
    outcome = await lab.check(lab.body("result = value + result"))
    assert outcome.tests.passed == outcome.tests.expected == 5
    assert (outcome.values.level, outcome.values.differing) == (Level.CAPTURED, 0)
    assert outcome.values.compared == len(lab.baseline.calls) > 0
    assert (outcome.served, outcome.served_why) == ("new-process", "there is no server for these tests")


async def test_screening_ends_at_the_first_failure_and_evidence_does_not(lab: CheckLab) -> None:
    candidate = lab.body("result += 2 * value")
    outcome = await lab.check(candidate)
    failed = "tests/test_sums.py::test_total[values1]"
    assert (outcome.code, outcome.tests.failed_ids) == (Code.TESTS_FAILED, (failed,))
    assert (outcome.tests.passed, outcome.tests.missing, outcome.tests.not_run) == (1, 0, 3)
    with lab.staged(candidate):
        more = await evidence(lab.plan(), lab.workspace, candidate, None)
    assert (more.tests.failed, more.tests.passed, more.tests.not_run) == (3, 2, 0)
    assert len(more.failures) == 3
    assert "assert" in more.failures[0].message
    assert set(more.timings_ms) == {"evidence"}


async def test_killers_come_first_and_are_believed(lab: CheckLab) -> None:
    last = "tests/test_sums.py::test_last"
    outcome = await lab.check(lab.body("result += 2 * value"), killers=(last,))
    assert outcome.tests.failed_ids == (last,)
    assert outcome.tests.not_run == 4


async def test_who_fails_behind_a_killer_is_judged_in_the_known_order(tmp_path: Path) -> None:
    """A test that passes only before another one must not cost a right candidate its life."""
    fragile = """
from shop.sums import total
seen = []

def test_first():
    assert total([1]) == 1
    assert not seen

def test_second():
    assert total([2]) == 2
    seen.append(1)
"""
    async with open_check_lab(tmp_path, files={"tests/test_sums.py": fragile}) as lab:
        killers = ("tests/test_sums.py::test_second",)
        right = await lab.check(lab.body("result = value + result"), killers=killers)
        wrong = await lab.check(lab.body("result += 1"), killers=killers)
        assert (right.code, right.tests.passed) == (Code.OK, 2)
        assert (wrong.code, wrong.tests.failed_ids) == (Code.TESTS_FAILED, killers)


async def test_the_rest_and_the_confirmation(lab: CheckLab) -> None:
    wrong_elsewhere = lab.candidate(shop__helper="def double(x):\n    return x\n")
    plan = lab.plan()
    assert plan.rest == ("tests/test_helper.py::test_double",)
    assert (await lab.check(wrong_elsewhere)).code is Code.OK
    with lab.staged(wrong_elsewhere):
        for outcome in (
            await rest(plan, lab.workspace, wrong_elsewhere),
            await confirm(plan, lab.workspace, wrong_elsewhere),
        ):
            assert (outcome.code, outcome.tests.failed_ids) == (Code.TESTS_FAILED, plan.rest)
            assert outcome.tests.expected == 6
            assert outcome.served == "new-process"
    right = lab.body("result = value + result")
    with lab.staged(right):
        left = await rest(plan, lab.workspace, right)
        all_of_it = await confirm(plan, lab.workspace, right)
    assert (left.code, left.tests.expected) == (Code.OK, 1)
    assert (all_of_it.code, all_of_it.tests.passed) == (Code.OK, 6)
    assert all_of_it.values.compared == len(lab.baseline.calls)


async def test_without_a_rest_nothing_is_run(lab: CheckLab) -> None:
    everything = replace(lab.baseline, asked=lab.baseline.selected)
    candidate = lab.body("result = value + result")
    plan = lab.plan(baseline=everything)
    outcome = await rest(plan, lab.workspace, candidate)
    assert (outcome.code, outcome.served) == (Code.OK, "")


async def start_all(lab: CheckLab) -> None:
    for mode in ("tests", "replay"):
        for point in (ForkPoint.IMPORTED, ForkPoint.COLLECTED):
            assert await lab.start(mode, point) == "", (mode, point)


@pytest.mark.campaign
async def test_served_checks_say_what_fresh_ones_say(lab: CheckLab) -> None:
    await start_all(lab)
    short = ProcessLimits(wall_s=60, cpu_s=1)
    for name, (make, code, point) in CASES.items():
        candidate = make(lab)
        served = await lab.check(candidate, SomeServers(lab.servers), limits=short)
        new_process = await lab.check(candidate, new_process="a new process was asked for", limits=short)
        assert served.code is code, (name, served)
        assert new_process.code is code, (name, new_process)
        assert (new_process.served, new_process.served_why) == ("new-process", "a new process was asked for")
        assert_accounted(new_process)
        assert essence(served) == essence(new_process), name
        assert served.served == point, (name, served.served_why)
        assert bool(served.served_why) == (point is not ForkPoint.COLLECTED), name
        assert_accounted(served)


async def test_every_point_says_the_same(lab: CheckLab) -> None:
    await start_all(lab)
    for name in ("right", "fails", "other value"):
        make, code, _ = CASES[name]
        for points in ((ForkPoint.COLLECTED,), (ForkPoint.IMPORTED,)):
            outcome = await lab.check(make(lab), SomeServers(lab.servers, points))
            assert (outcome.code, outcome.served) == (code, points[0]), (name, outcome.served_why)
            assert ("not collected" in outcome.served_why) == (ForkPoint.COLLECTED not in points)
