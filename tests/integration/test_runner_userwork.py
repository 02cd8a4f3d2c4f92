"""Arms that time what the user names: a callable of the snapshot, a command."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
from runner_lab import PYTHONS, Lab

GROUPS = [{"name": "benchmark", "calls": [], "tests": []}]

MODULE = """
def work(n):
    return sum(range(n))
"""


@pytest.fixture(params=PYTHONS, ids=lambda path: path.split("/")[-3])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    made = Lab(tmp_path, python=request.param)
    made.file("mod.py", MODULE)
    made.target("work")
    return made


def callable_arm(lab: Lab, source: str, name: str = "main", **more: Any) -> Any:
    given = {"path": "tools/speed.py", "name": name, "source": source}
    return lab.arm(GROUPS, work="callable", callables=[given], **more)


def checked(lab: Lab, source: str, calls: int = 3, **more: Any) -> dict[str, Any]:
    with callable_arm(lab, source, **more) as arm:
        assert arm.hear()["calls"] == [1]
        assert arm.ask(op="unit", core=None, unit=0)["t"] == "unit"
        found = arm.block(0, calls)
        assert arm.block(0, 0)["inputs"] == 0
        assert arm.ask(op="end")["status"] == 0
        return found


def test_a_callable_is_taken_from_the_text_that_was_given(lab: Lab) -> None:
    lab.file("tools/speed.py", "raise SystemExit('the file in the slot')")
    lab.file("tools/beside.py", "NUMBER = 7")
    found = checked(lab, "import beside, mod\ndef main():\n    return mod.work(beside.NUMBER)\n")
    assert (found["raised"], found["inputs"]) == (False, 1)
    other = checked(lab, "def main():\n    return 22\n")
    assert found["digest"] != other["digest"] == checked(lab, "def main():\n    return 11 + 11\n")["digest"]


BURN = """
import asyncio, time

def burn():
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass
"""


@pytest.mark.parametrize(
    "source",
    [
        "async def main():\n    await asyncio.sleep(0)\n    burn()",
        "def main():\n    yield 1\n    burn()",
        "async def main():\n    yield 1\n    burn()",
        "class Main:\n    async def __call__(self):\n        burn()\nmain = Main()",
        "def main():\n    burn()",
    ],
    ids=["coroutine", "generator", "asyncgen", "object", "function"],
)
def test_whatever_it_returns_is_worked_off_before_done(lab: Lab, source: str) -> None:
    with callable_arm(lab, BURN + source) as arm:
        arm.hear()
        pid = arm.ask(op="unit", core=None, unit=0)["pid"]
        arm.ask(op="block", group=0, calls=3)
        before = cpu_ns(pid)
        assert arm.ask(op="go") == {"t": "done"}
        assert cpu_ns(pid) - before > 55_000_000
        assert arm.ask(op="check")["raised"] is False


def cpu_ns(pid: int) -> int:
    return time.clock_gettime_ns((~pid << 3) | 2)


def test_what_a_callable_raises_is_said(lab: Lab) -> None:
    found = checked(lab, "def main():\n    raise ValueError('no data')\n")
    assert found["raised"] is True
    assert found["said"] == "it raises ValueError: no data"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("main = 3\n", "tools/speed.py::main is no callable"),
        ("", "tools/speed.py::main is no callable"),
        ("import missing_thing\n", "tools/speed.py cannot be imported (ModuleNotFoundError: No module"),
        ("def main(:\n", "tools/speed.py cannot be imported (SyntaxError"),
    ],
)
def test_a_callable_that_is_not_there(lab: Lab, source: str, said: str) -> None:
    with callable_arm(lab, source) as arm:
        assert arm.hear() == {"t": "closed"}
        assert said in (lab.private / "records").read_text()


def command_arm(lab: Lab, *words: str, **more: Any) -> Any:
    return lab.arm(GROUPS, work="command", command=list(words), **more)


def run_of(lab: Lab, *words: str, calls: int = 2, **more: Any) -> dict[str, Any]:
    with command_arm(lab, *words, **more) as arm:
        assert arm.hear()["calls"] == [1]
        arm.ask(op="unit", core=None, unit=0)
        arm.ask(op="block", group=0, calls=calls)
        done = arm.ask(op="go")
        assert done["t"] == "done"
        found = arm.ask(op="check")
        assert arm.block(0, 0)["inputs"] == 0
        assert arm.ask(op="end")["status"] == 0
        return {**found, "children_ns": done["children_ns"]}


def test_a_command_runs_in_the_project_with_its_interpreter(lab: Lab) -> None:
    lab.file("speed.py", "import sys, os, mod\nprint(sys.prefix, os.getcwd(), mod.work(3))")
    found = run_of(lab, "python", "speed.py")
    again = run_of(lab, "echo", str(Path(lab.python).parent.parent), str(lab.project), "3")
    assert (found["raised"], found["inputs"], again["raised"]) == (False, 1, False)
    assert found["digest"] == again["digest"] != run_of(lab, "echo", "other")["digest"]


def test_without_values_only_failures_are_outcomes(lab: Lab) -> None:
    one, other = (run_of(lab, "echo", word, compare="returns")["digest"] for word in ("one", "other"))
    assert one == other != run_of(lab, "false", compare="returns")["digest"]
    sources = ("return 1", "return 1.0", "raise ValueError")
    found = [checked(lab, f"def main():\n    {body}\n", compare="returns")["digest"] for body in sources]
    assert found[0] == found[1] != found[2]


def test_the_time_of_its_processes_is_told(lab: Lab) -> None:
    lab.file("speed.py", BURN + "burn()")
    before = time.perf_counter_ns()
    found = run_of(lab, "python", "speed.py", calls=3)
    assert 60_000_000 <= found["children_ns"] <= time.perf_counter_ns() - before


def test_what_a_failing_command_says(lab: Lab) -> None:
    lab.file("speed.py", "import sys\nprint('first', file=sys.stderr)\nsys.exit('no data')")
    found = run_of(lab, "python", "speed.py")
    assert (found["raised"], found["said"]) == (True, "it ends with status 1: no data")
    assert found["digest"] != run_of(lab, "true")["digest"]


def test_a_command_that_does_not_exist(lab: Lab) -> None:
    with command_arm(lab, "no-such-command") as arm:
        arm.hear()
        arm.ask(op="unit", core=None, unit=0)
        found = arm.block(0, 1)
        assert found["raised"] is True
        assert found["said"].startswith("it ends with status 127: [Errno 2]")


def test_a_command_may_say_much(lab: Lab) -> None:
    lab.file("speed.py", "print('x' * 5_000_000)")
    assert run_of(lab, sys.executable, "speed.py")["raised"] is False
