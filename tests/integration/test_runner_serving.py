"""Forks of templates see what processes of their own would see, and report the same."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from runner_sessions import PYTHONS, write_files
from serving_lab import MODULE, POINTS, Gate, ServingLab, anyio_backend, by_kind, lab, open_lab

__all__ = ["anyio_backend", "lab"]
pytestmark = pytest.mark.anyio


EVERY_KIND = {
    "conftest.py": """
import pytest
pytest_plugins = ["local_plugin"]
SEEN = []
@pytest.fixture(params=["a", "b"])
def letter(request): return request.param
def pytest_collection_modifyitems(items): items.sort(key=lambda item: "last" in item.name)
""",
    "local_plugin.py": """
import pytest
@pytest.fixture(scope="session")
def shared(tmp_path_factory): return tmp_path_factory.mktemp("shared")
""",
    "mod.py": MODULE,
    "test_one.py": """
import asyncio, unittest, warnings
import pytest
from mod import f

def test_last(): pass
@pytest.mark.parametrize("x", range(3))
def test_f(x, letter): assert f(x) == x + 1
def test_fails(shared):
    print("to stdout", f(1))
    assert f(shared.name and 1) == [2]
@pytest.mark.xfail
def test_xfails(): assert 0
@pytest.mark.skip(reason="no")
def test_skips(): pass
def test_warns():
    warnings.warn("careful", UserWarning)
@pytest.fixture
def broken(): raise OSError("no")
def test_with_broken_fixture(broken): pass
def test_asynchronous(): assert asyncio.run(later()) == 2
async def later():
    await asyncio.sleep(0)
    return f(1)
class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.value = f(0)
    def test_case(self): self.assertEqual(self.value, 1)
    def test_wrong(self): self.assertEqual(self.value, 2)
""",
    "sub/test_two.py": "import mod\ndef test_by_name(tmp_path): assert mod.f(1) == 2 and not list(tmp_path.iterdir())\n",
    "pytest.ini": "[pytest]\naddopts = --doctest-modules\n",
}


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(("until", "gate"), POINTS)
async def test_the_same_records_as_in_a_process_of_its_own(
    tmp_path: Path, python: str, until: str, gate: Gate
) -> None:
    async with open_lab(tmp_path, python=python) as lab:
        write_files(lab.root, EVERY_KIND)
        options = {"args": ["-o", "addopts="]} if until == "collected" else {}
        new_process = await lab.new_process(**options)
        async with lab.server(until, gate=gate, **options) as server:
            assert not server.ready.unfit
            for _ in range(2):
                forked = await lab.fork(server, **options)
                assert forked.named("served") == [{"t": "served", "point": until}]
                assert forked.records[1]["t"] == "served"
                assert forked.exit.leaked == ()
                assert by_kind(forked.essence) == by_kind(new_process.essence)
                assert forked.status == new_process.status


@pytest.mark.witness
async def test_asynchronous_plugins(lab: ServingLab) -> None:
    lab.environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = ""
    lab.write(
        mod=MODULE,
        test_it="""
import anyio, pytest, random
from mod import f
@pytest.mark.asyncio
async def test_of_pytest_asyncio():
    await anyio.sleep(0)
    assert f(1) == 2
@pytest.mark.anyio
async def test_of_anyio(anyio_backend): await anyio.sleep(0)
def test_seeded_by_randomly(): assert random.random() < 0
""",
    )
    new_process = await lab.new_process()
    for until, gate in POINTS[:2]:
        async with lab.server(until, gate=gate) as server:
            assert not server.ready.unfit
            forked = await lab.fork(server)
        assert by_kind(forked.essence) == by_kind(new_process.essence)


@pytest.mark.parametrize(
    ("until", "gate"), [*(pytest.param(*early, marks=pytest.mark.witness) for early in POINTS[:2]), POINTS[2]]
)
async def test_each_fork_follows_its_own_spec(lab: ServingLab, until: str, gate: Gate) -> None:
    write_files(lab.root, EVERY_KIND)
    ids = [f"test_one.py::{name}" for name in ("test_fails", "test_warns", "Case::test_wrong", "test_skips")]
    common = {"args": ["-o", "addopts="]}
    async with lab.server(until, gate=gate, **common) as server:
        for fields in (
            {"select": ids[1:]},
            {"order": ids, "stop": "first-failure", "tracebacks": "native"},
            {"order": ids[::-1], "stop": "decisive", "tolerated": ids[2:], "tracebacks": "none"},
            {"order": ids[::-1], "stop": "decisive", "tracebacks": "short", "seed": 8},
            {"select": []},
        ):
            new_process = await lab.new_process(**common, **fields)
            run = await lab.fork(server, **common, **fields)
            assert by_kind(run.essence) == by_kind(new_process.essence)
            assert run.status == new_process.status


async def test_each_fork_runs_what_the_gate_holds_now(lab: ServingLab) -> None:
    lab.write(mod=MODULE, test_it="from mod import f\ndef test_f(): assert f(1) == 2\n")
    async with lab.server() as server:
        for number in (1, 2, 1):
            text = f"def f(x): return x + {number}\n"
            lab.write(mod=text)
            run = await lab.fork(server)
            assert run.one("source")["digest"] == sha256(text.encode()).hexdigest()
            assert run.outcomes == {"test_f": "passed" if number == 1 else "failed"}
            if number == 2:
                (message,) = [r["message"] for r in run.named("phase") if "message" in r]
                assert "assert 3 == 2" in message


LINED = """
import inspect, traceback
import mod

def test_lines():
    lines = open(mod.__file__).read().splitlines()
    assert mod.f(1) == 1 + lines.count("TABLE = [1, 2]")
    assert mod.Behind.method.__code__.co_firstlineno == lines.index("    def method(self): pass") + 1
    assert inspect.getsource(mod.behind).splitlines()[0] == "def behind(x):"
    try: mod.behind(0)
    except ZeroDivisionError: assert "1 / x" in traceback.format_exc()
"""
ABOVE = "import sys\nTABLE = [1, 2]\n\ndef helper(): global TABLE\n"
BEHIND = """def behind(x):
    return 1 / x
class Behind:
    def method(self): pass
"""


async def test_code_behind_a_change_stands_on_its_new_lines(lab: ServingLab) -> None:
    lab.write(mod="def f(x): return x\n" + BEHIND, test_it=LINED)
    async with lab.server() as server:
        for count in (0, 1, 0, 3):
            lab.write(mod=f"{ABOVE * count}def f(x): return x + {count}\n{BEHIND}")
            assert (await lab.fork(server)).outcomes == {"test_lines": "passed"}


async def test_a_template_goes_on_to_the_next_point(lab: ServingLab) -> None:
    write_files(lab.root, EVERY_KIND)
    options = {"args": ["-o", "addopts="]}
    new_process = await lab.new_process(**options)
    async with lab.server("imported", **options) as first:
        second = await first.advance("collected", 60)
        assert second.ready.point == "collected"
        assert not second.ready.unfit
        for server in (second, first, second):
            run = await lab.fork(server, **options)
            assert by_kind(run.essence) == by_kind(new_process.essence)
            assert [record["point"] for record in run.named("served")] == [server.ready.point]
        await second.close()


async def test_what_f2_swaps(lab: ServingLab) -> None:
    lab.write(mod=MODULE, test_it="from mod import f\ndef test_f(): assert f(1) == 2\n")
    async with lab.server("collected") as server:
        lab.write(mod=MODULE.replace("x + 1", "x + 5"))
        run = await lab.fork(server)
        assert run.outcomes == {"test_f": "failed"}
        assert "x + 5" not in run.one("source")["digest"]
        lab.write(mod=MODULE.replace("f(x)", "f(x, y=2)"))
        run = await lab.fork(server)
        assert run.one("unswappable")["why"]
        assert run.status == 75
        lab.write(mod=MODULE)
        assert (await lab.fork(server)).outcomes == {"test_f": "passed"}


async def test_calls_are_watched_in_forks(lab: ServingLab) -> None:
    lab.write(mod=MODULE, test_it="from mod import f\ndef test_f(): assert f(1) == 2 and f(2) == 3\n")
    for wrap in ("digest", "capture"):
        new_process = await lab.new_process(wrap=wrap)
        for until, gate in POINTS[:2]:
            async with lab.server(until, gate=gate) as server:
                run = await lab.fork(server, wrap=wrap)
                plain = await lab.fork(server)
            expected = by_kind(new_process.essence)
            assert by_kind(run.essence) == expected
            assert run.executed == {("test_f", 0): 2}
            assert not plain.named("executed")


async def test_prints_are_captured_in_each_fork(lab: ServingLab) -> None:
    lab.write(
        conftest="""
import json, sys
print("conftest to stdout")
SECTIONS = []
def pytest_collectreport(report): SECTIONS.append([report.nodeid, report.sections])
def pytest_runtest_logreport(report): SECTIONS.append([report.nodeid, report.sections])
def pytest_sessionfinish():
    with open("sections.json", "w") as file:
        json.dump(SECTIONS, file)
""",
        mod="def f(x): return x\n",
        test_it="""
import os, sys
print("module before")
from mod import f
print("module after")
def test_python(): print("from print"); assert f(1)
def test_descriptor(): os.write(1, b"from write\\n"); os.system("echo from a child >&2"); assert f(1)
def test_capfd(capfd):
    os.write(1, b"x"); print("y")
    assert capfd.readouterr() == ("xy\\n", "")
def test_capsys(capsys):
    print("z", file=sys.stderr)
    assert capsys.readouterr() == ("", "z\\n")
""",
    )
    sections = lab.root / "sections.json"
    for arguments in ([], ["-s"], ["--capture=sys"]):
        new_process = await lab.new_process(args=arguments)
        kept = json.loads(sections.read_text())
        assert arguments or "module before\nmodule after\n" in str(kept).replace("\\n", "\n")
        for until, gate in POINTS:
            async with lab.server(until, gate=gate, args=arguments) as server:
                for _ in range(3):
                    run = await lab.fork(server, args=arguments)
                    assert run.outcomes == new_process.outcomes
                    assert json.loads(sections.read_text()) == kept
                    assert ("from print" in run.output) == ("from print" in new_process.output)
                    assert run.output.count("from a child") == new_process.output.count("from a child")
