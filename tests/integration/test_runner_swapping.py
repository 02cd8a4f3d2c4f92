"""Templates that have collected: what pytest and the import system add to swapping code objects."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from runner_sessions import PYTHONS, write_files
from serving_lab import ServingLab, anyio_backend, lab, open_lab

from codeflash_parallel.result.runtime_protocols import ServerGone

__all__ = ["anyio_backend", "lab"]
pytestmark = pytest.mark.anyio

MODULE = '''"""A module."""

def f(x):
    """Add one.

    >>> f(1)
    2
    """
    return x + 1

def g(x):
    return f(x) * 2

class Error(Exception): pass

def fails(x):
    raise Error(x)
'''
FASTER = "result = x\n    result += 1\n    return result"
TESTS = """
import inspect, pytest, traceback
import mod
from mod import f, g

def test_f(): assert f(1) == 2
def test_g(): assert g(1) == 4
def test_source(): assert "return x" not in inspect.getsource(g) and inspect.getsource(mod.fails).count("raise") == 1
def test_line(): assert mod.fails.__code__.co_firstlineno == inspect.getsourcelines(mod.fails)[1]
def test_trace():
    with pytest.raises(mod.Error) as caught:
        mod.fails(1)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].line == "raise Error(x)"
def test_failing(): assert mod.fails(f(1)) == 1
"""


STARTER = """
import subprocess, sys
OUT = subprocess.run([sys.executable, "-c", "import mod; mod.f(1)"])
def test_f(): import mod
"""


async def assert_swapped(lab: ServingLab, changed: str, file: str = "mod.py", **fields: object) -> None:
    """Assert that a fork for a changed file tells what a process of its own tells."""
    async with lab.server("collected", **fields) as server:
        assert not server.ready.unfit
        write_files(lab.root, {file: changed})
        forked = await lab.fork(server, **fields)
    new_process = await lab.new_process(**fields)
    assert "unswappable" not in {record["t"] for record in forked.records}, forked.one("unswappable")
    assert sorted(map(str, forked.essence)) == sorted(map(str, new_process.essence))
    assert forked.status == new_process.status


@pytest.mark.parametrize("python", PYTHONS)
async def test_lines_and_messages_are_the_candidates(tmp_path: Path, python: str) -> None:
    async with open_lab(tmp_path, python=python) as lab:
        lab.write(mod=MODULE, test_it=TESTS)
        for body in (FASTER, FASTER + " + 1", "raise KeyError(x)", "import os\n    os._exit(3)"):
            lab.write(mod=MODULE)
            await assert_swapped(lab, MODULE.replace("return x + 1", body))


async def test_a_target_that_a_test_imports(lab: ServingLab) -> None:
    lab.write(mod=MODULE, test_it="def test_f():\n    import mod\n    assert mod.f(1) == 2\n")
    await assert_swapped(lab, MODULE.replace("return x + 1", FASTER + " + 1"))


async def test_a_target_among_the_tests(lab: ServingLab) -> None:
    lab.targets = ("test_it.py::helper",)
    text = "def helper(x):\n    assert x != 5\n    return x\ndef test_one(): assert helper(1) == 1\ndef test_two(): helper(5)\n"
    lab.write(test_it=text)
    await assert_swapped(lab, text.replace("return x", "assert x == 2, 'no'\n    return x"), "test_it.py")


async def test_two_targets_in_two_files(lab: ServingLab) -> None:
    lab.targets = ("mod.py::f", "other.py::h")
    other = "import mod\ndef h(x):\n    return mod.f(x)\n"
    lab.write(mod=MODULE, other=other, test_it="import other\ndef test_h(): assert other.h(1) == 2\n")
    await assert_swapped(lab, other.replace("mod.f(x)", "1 + mod.f(x)"), "other.py")
    await assert_swapped(lab, MODULE.replace("return x + 1", FASTER))


@pytest.mark.parametrize(
    ("tests", "options", "why"),
    [
        ("import mod\nCASES = [mod.f(1)]\ndef test_f(): pass\n", [], "f was called while"),
        (
            "import mod, pytest\n@pytest.mark.parametrize('x', [mod.g(2)])\ndef test_f(x): assert x\n",
            [],
            "f was called while",
        ),
        (
            TESTS,
            ["--doctest-modules"],
            "a file that candidates change is read before the first test runs: mod.py",
        ),
        (STARTER, [], "a process is started before the first test runs"),
    ],
)
async def test_what_cannot_be_swapped(lab: ServingLab, tests: str, options: list[str], why: str) -> None:
    lab.write(mod=MODULE, test_it=tests)
    async with lab.server("collected", args=options) as server:
        assert why in server.ready.unfit
        with pytest.raises(ServerGone, match=re.escape(server.ready.unfit)):
            await lab.fork(server, args=options)


async def test_every_target_s_file_is_compiled_anew(lab: ServingLab) -> None:
    lab.targets = ("mod.py::f", "other.py::h")
    lab.write(
        mod=MODULE,
        other="def h(): return 1\n",
        test_it="import mod, other\ndef test_it(): assert (mod.f(1), other.h()) == (2, 1)\n",
    )
    async with lab.server("collected") as server:
        for other, outcome in (
            ("def h(): return 2\n", "failed"),
            ("# the same\ndef h(): return 1\n", "passed"),
        ):
            lab.write(other=other)
            forked = await lab.fork(server)
            assert forked.outcomes == {"test_it": outcome}
            assert [record["path"] for record in forked.named("source")] == ["mod.py", "other.py"]


HOOK = """
import importlib.machinery, importlib.util, itertools, os, sys
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mod.py")

class Loader(importlib.machinery.SourceFileLoader):
    numbers = itertools.count()
    def source_to_code(self, data, path, **options):
        code = super().source_to_code(data, path, **options)
        return code.replace(co_consts=(*code.co_consts, next(self.numbers)))

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, PATH, loader=Loader(name, PATH)) if name == "mod" else None

sys.meta_path.insert(0, Finder)
"""


async def test_an_import_hook_that_never_does_the_same_twice(lab: ServingLab) -> None:
    lab.write(mod=MODULE, conftest=HOOK, test_it=TESTS)
    async with lab.server("collected") as server:
        assert server.ready.unfit == "more than bodies of functions differs"


#: Runs before the runner, as a `.pth` file does, and leaves no module behind.
EARLY = """
import sys, types
sys.path.insert(0, {root!r})
import mod
KEPT = {kept}
del sys.modules["mod"], sys.path[0], mod
"""
THE_FUNCTION, A_COPY = "mod.f", "types.FunctionType(mod.f.__code__.replace(co_name='copy'), {})"


@pytest.mark.parametrize("kept", [THE_FUNCTION, A_COPY])
@pytest.mark.parametrize(
    ("tests", "why"),
    [
        ("import mod\n", "there are copies of the code of {name}"),
        ("", "there are copies of the code of {name}"),
    ],
)
async def test_who_holds_code_from_before_the_start_is_seen(
    lab: ServingLab, kept: str, tests: str, why: str
) -> None:
    site = lab.base / "site"
    site.mkdir()
    write_files(site, {"sitecustomize.py": EARLY.format(root=str(lab.root), kept=kept)})
    lab.environment["PYTHONPATH"] = str(site)
    lab.write(mod=MODULE, test_it=f"{tests}import sitecustomize\ndef test_f(): sitecustomize.KEPT(1)\n")
    name = "f" if kept == THE_FUNCTION else "copy"
    async with lab.server("collected") as server:
        assert server.ready.unfit == why.format(name=name)
    async with lab.server("imported") as server:
        assert server.ready.unfit == f"it is imported before its turn: {name}"
