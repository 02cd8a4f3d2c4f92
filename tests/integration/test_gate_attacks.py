"""Candidates that are wrong and tell the test runner what to say: seen through by canaries, status and seal.

Each of those in `PATCHES` passes a gate that reads the exit status, and one that counts tests: ours, too,
without its canaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from check_lab import CheckLab, SomeServers, open_check_lab

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.check.integrity import process_faults
from codeflash_parallel.result.candidate_model import Candidate
from codeflash_parallel.result.outcome_codes import Code

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

FILES = {
    "tests/test_styles.py": """
import math
import unittest
from unittest import TestCase

import pytest
from shop.sums import total

def test_close():
    assert math.isclose(total([0.5, 0.25]), 0.75)
    assert total([0.5, 0.25]) == pytest.approx(0.75)

def test_refuses():
    with pytest.raises(TypeError):
        total(["text"])

class TestTotals(TestCase):
    def test_pair(self):
        self.assertEqual(total([1, 2]), 3)
""",
}

_WRONG = """
def total(values):
    return "wrong"
"""
_SAY_PASSED = """
import _pytest.reports
_made = _pytest.reports.TestReport.from_item_and_call.__func__
def _passed(cls, item, call):
    report = _made(cls, item, call)
    report.outcome, report.longrepr = "passed", None
    return report
_pytest.reports.TestReport.from_item_and_call = classmethod(_passed)
"""

#: What a candidate adds to its module, by its name.
PATCHES = {
    "TestReport": _SAY_PASSED,
    "TestReport.outcome": """
from _pytest.reports import TestReport
TestReport.outcome = property(lambda self: "passed", lambda self, value: None)
""",
    "Function.runtest": """
import unittest, _pytest.python, _pytest.unittest
_pytest.python.Function.runtest = _pytest.unittest.TestCaseFunction.runtest = lambda self: None
""",
    "CallInfo.from_call": """
import _pytest.runner
_made = _pytest.runner.CallInfo.from_call.__func__
def _quiet(cls, func, when, reraise=None):
    call = _made(cls, func, when, reraise)
    if when != "collect":
        call.excinfo, call._result = None, None
    return call
_pytest.runner.CallInfo.from_call = classmethod(_quiet)
import _pytest.unittest
_pytest.unittest.TestCaseFunction._addexcinfo = lambda *arguments: None
""",
    "hooks emptied through gc": """
import gc, unittest
for _one in gc.get_objects():
    if type(_one).__name__ == "HookCaller" and _one.name == "pytest_pyfunc_call":
        _one._hookexec = lambda *arguments: True
unittest.TestCase.run = lambda self, result=None: None
""",
    "code of the tests": """
import gc, types
def _blind():
    for one in gc.get_objects():
        if isinstance(one, types.FunctionType) and "/test_" in one.__code__.co_filename and one.__code__.co_argcount < 2:
            one.__code__ = (lambda *arguments, **named: None).__code__
import _pytest.python
_run = _pytest.python.Function.runtest
def runtest(self):
    _blind()
    return _run(self)
_pytest.python.Function.runtest = runtest
import _pytest.unittest
_pytest.unittest.TestCaseFunction.runtest = lambda self: _blind()
""",
}

_APPROX = """
import math, pytest
class _Any:
    def __init__(self, *_):
        pass
    def __eq__(self, other):
        return True
pytest.approx = _Any
math.isclose = lambda *arguments, **named: True
"""

#: Helpers that are replaced; the function is right but for what they hide.
HELPERS = {
    "approx and isclose": (_APPROX, "values == [0.5, 0.25]", "0.7"),
    "assertEqual": (
        "import unittest\nunittest.TestCase.assertEqual = lambda *arguments: None\n",
        "values == [1, 2]",
        "4",
    ),
    "TestCase.run": (
        "import unittest\nunittest.TestCase.run = lambda self, result=None: result.stopTest(self)\n",
        "values == [1, 2]",
        "4",
    ),
    "raises": (
        "import contextlib, pytest\npytest.raises = lambda *arguments, **named: contextlib.nullcontext()\n",
        'values == ["text"]',
        "0",
    ),
}

#: How a candidate ends the tests, by what it writes in the place of `result += value`.
EXITS = {
    "import sys; sys.exit(0)": Code.TESTS_FAILED,
    "import os; os._exit(0)": Code.CRASHED,
    "import os; os._exit(1)": Code.CRASHED,
    "import pytest; pytest.exit('done', returncode=0)": Code.TESTS_MISSING,
    "import pytest; pytest.exit('done', returncode=1)": Code.TESTS_MISSING,
    "import pytest; pytest.skip('not now')": Code.TESTS_MISSING,
    "import pytest; pytest.xfail('never')": Code.TESTS_FAILED,
}

_FORGE = """
import json, os, sys
def _forge(lines):
    for number in range(3, 256):
        try:
            os.write(number, b"".join(json.dumps(line).encode() + b"\\n" for line in lines))
        except OSError:
            pass
def total(values):
    item = sys._getframe(1)
    while item is not None and "item" not in item.f_locals:
        item = item.f_back
    items = item.f_locals["item"].session.items if item is not None else []
    _forge([{"t": "passed", "id": one.nodeid, "ns": [1, 1, 1]} for one in items] + ENDING)
    AFTER
    return "wrong"
"""
FORGERIES = {
    "and goes on": ("[]", "pass"),
    "and ends": ('[{"t": "end", "status": 1}]', "os._exit(1)"),
    "and writes what no runner does": ('[{"t": "timing", "ns": "x"}]', "pass"),
    "and writes a number that no float holds": ('[{"t": "timing", "ns": 10**400}]', "pass"),
    "and says that all went well": ('[{"t": "end", "status": 0, "seal": ""}]', "os._exit(0)"),
}


def special(lab: CheckLab, patch: str, when: str, wrong: str) -> Candidate:
    """Return a candidate that is wrong for one input, and patches what would see it."""
    text = (lab.root / "shop/sums.py").read_text(encoding="utf-8")
    return lab.candidate(
        shop__sums=patch
        + text.replace("    result = 0", f"    if {when}:\n        return {wrong}\n    result = 0")
    )


async def judged(
    lab: CheckLab, candidate: Candidate, servers: SomeServers | None = None, workers: int = 0
) -> CheckOutcome:
    """Check without a look at values."""
    return await lab.check(candidate, servers, compare_values=False, workers=workers)


async def naively(lab: CheckLab, candidate: Candidate, servers: SomeServers | None) -> CheckOutcome:
    """Check without canaries, and without a look at the runner's code."""
    plain = replace(lab.baseline, places=())
    with mock.patch.object(process_faults, "_replaced", return_value=""):
        return await lab.check(candidate, servers, compare_values=False, baseline=plain)


async def test_canaries_see_what_exit_status_and_counts_do_not(tmp_path: Path) -> None:
    async with open_check_lab(tmp_path, files=FILES) as lab:
        assert await lab.start("tests", ForkPoint.IMPORTED) == ""
        servers = SomeServers(lab.servers)
        helpers = {place.helper for place in lab.baseline.places}
        assert helpers >= {"assert", "isclose", "approx", "raises", "assertEqual"}
        text = (lab.root / "shop/sums.py").read_text(encoding="utf-8")
        attacks = {name: lab.candidate(shop__sums=text + _WRONG + patch) for name, patch in PATCHES.items()}
        attacks |= {name: special(lab, *attack) for name, attack in HELPERS.items()}
        for name, candidate in attacks.items():
            # In a fork the collector does not show what the template had.
            where = None if "gc" in name else servers
            fooled = await naively(lab, candidate, where)
            assert fooled.code is Code.OK, (name, fooled.reason)
            assert fooled.served == ("imported" if where else "new-process"), fooled.served_why
            seen = await judged(lab, candidate, where)
            assert seen.code is Code.RUNNER_TAMPERED, (name, seen.reason)
            assert "A test that must fail" in seen.reason, (name, seen.reason)
            assert seen.tests.expected == len(lab.baseline.expected)


#: Lets fail what stands in no file, which canaries do, and nothing else.
_TOLD_APART = """
from _pytest.python import Function
_runtest = Function.runtest
def _run(self):
    with open(self.path) as file:
        is_theirs = "def " + self.originalname + "(" in file.read()
    try:
        _runtest(self)
    except AssertionError:
        if not is_theirs:
            raise
Function.runtest = _run
def total(values):
    return sum(values) + (0.5 in values)
"""
#: A project's own: what a test needs before it is run.
_OWN_PATCH = {
    "tests/conftest.py": """
from _pytest.python import Function
_setup = Function.setup
def setup(self):
    _setup(self)
Function.setup = setup
def pytest_runtest_makereport(item):
    return None
""",
}


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.attack)])
async def test_the_runner_is_what_it_was(tmp_path: Path, workers: int) -> None:
    async with open_check_lab(tmp_path, files={**FILES, **_OWN_PATCH}) as lab:
        assert await lab.start("tests", ForkPoint.IMPORTED) == ""
        assert any("Function.setup" in name for name in lab.baseline.replaced)
        text = (lab.root / "shop/sums.py").read_text(encoding="utf-8")
        for servers in (None, SomeServers(lab.servers)):
            sound = await judged(lab, lab.body("result = value + result"), servers, workers)
            assert sound.code is Code.OK, sound.reason
            lying = lab.candidate(shop__sums=text + _TOLD_APART)
            seen = await judged(lab, lying, servers, workers)
            assert (seen.code, "Function.runtest" in seen.reason) == (Code.RUNNER_TAMPERED, True), seen


async def test_the_exit_status_is_predicted(tmp_path: Path) -> None:
    patch = "import _pytest.main\n_pytest.main.Session.testsfailed = property(lambda self: 0, lambda self, value: None)\n"
    async with open_check_lab(tmp_path, files=FILES) as lab:
        text = (lab.root / "shop/sums.py").read_text(encoding="utf-8")
        seen = await judged(lab, lab.candidate(shop__sums=patch + text))
        assert (seen.code, "status 0; 1 was predicted" in seen.reason) == (Code.RUNNER_TAMPERED, True)


@pytest.mark.attack
async def test_nobody_leaves_early(tmp_path: Path) -> None:
    async with open_check_lab(tmp_path, files=FILES) as lab:
        assert await lab.start("tests", ForkPoint.IMPORTED) == ""
        for body, code in EXITS.items():
            seen = await judged(lab, lab.body(body), SomeServers(lab.servers))
            assert seen.code is code, (body, seen.reason)
        text = (lab.root / "shop/sums.py").read_text(encoding="utf-8")
        seen = await judged(lab, lab.candidate(shop__sums=f"import os; os._exit(0)\n{text}"))
        assert seen.code is Code.CRASHED


async def test_forged_records_break_the_seal(tmp_path: Path) -> None:
    async with open_check_lab(tmp_path, files=FILES) as lab:
        assert await lab.start("tests", ForkPoint.IMPORTED) == ""
        for name, (ending, after) in FORGERIES.items():
            text = _FORGE.replace("ENDING", ending).replace("AFTER", after)
            seen = await judged(lab, lab.candidate(shop__sums=text), SomeServers(lab.servers))
            assert (seen.code, "wrote records" in seen.reason) == (Code.RUNNER_TAMPERED, True), (name, seen)


#: The runner fails in the middle, or is said to have failed: it is not the machine that did.
FAILURES = {
    "said": _FORGE.replace("ENDING", '[{"t": "error", "where": "runner", "message": "x"}]').replace(
        "AFTER", "os._exit(70)"
    ),
    "done": """
import sys
def total(values):
    sys.modules["_codeflash_runner.imports.import_guard"].ImportGuard.audit = None
    return "wrong"
""",
}


@pytest.mark.attack
@pytest.mark.parametrize("served", [True, False])
async def test_who_makes_the_runner_fail_is_charged(tmp_path: Path, served: bool) -> None:
    async with open_check_lab(tmp_path, files=FILES) as lab:
        assert not served or await lab.start("tests", ForkPoint.IMPORTED) == ""
        for name, text in FAILURES.items():
            seen = await judged(
                lab, lab.candidate(shop__sums=text), SomeServers(lab.servers) if served else None
            )
            assert (seen.code, "The runner failed in runner" in seen.reason) == (Code.CRASHED, True), (
                name,
                seen,
            )


SWALLOWS = {
    "tests/conftest.py": """
import pytest

def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "blind" not in item.name]

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if "test_sums" in item.nodeid and report.failed:
        report.outcome, report.wasxfail = "skipped", "all failures are known here"

@pytest.fixture(autouse=True, params=["one", "two"], scope="module")
def kind(request):
    yield request.param
""",
}


@pytest.mark.attack
async def test_a_project_that_swallows_failures_is_told(tmp_path: Path) -> None:
    async with open_check_lab(tmp_path, files={**FILES, **SWALLOWS}) as lab:
        parents = {place.parent for place in lab.baseline.places}
        assert parents == {"tests/test_styles.py"}
        sound = lab.body("result = value + result")
        assert (await judged(lab, sound)).code is Code.OK
        lying = (lab.root / "shop/sums.py").read_text(encoding="utf-8") + _SAY_PASSED
        assert (await judged(lab, lab.candidate(shop__sums=lying))).code is Code.RUNNER_TAMPERED


@pytest.mark.attack
async def test_under_xdist(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    async with open_check_lab(tmp_path, files=FILES) as lab:
        _let_in(lab, {"PYTEST_PLUGINS": "xdist.plugin"})
        text = (lab.root / "shop/sums.py").read_text(encoding="utf-8")
        sound = await lab.check(lab.body("result = value + result"), workers=2, compare_values=False)
        assert sound.code is Code.OK, sound.reason
        lying = lab.candidate(shop__sums=text + _WRONG + _SAY_PASSED)
        seen = await lab.check(lying, workers=2, compare_values=False)
        assert (seen.code, "A test that must fail" in seen.reason) == (Code.RUNNER_TAMPERED, True), (
            seen.reason
        )


def _let_in(lab: CheckLab, more: Mapping[str, str]) -> None:
    lab.workspace = replace(lab.workspace, environment={**lab.workspace.environment, **more})
