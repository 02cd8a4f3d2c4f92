"""Whenever code objects are swapped, the module is as if it had been imported with the new text."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from effort import TIMES
from hypothesis import HealthCheck, event, given, settings
from runner_sessions import PYTHONS
from swap_cases import Case, cases

from codeflash_parallel.candidates.code_changes import beyond_bodies
from codeflash_parallel.sandbox.runner_command import PACKAGE, install_runner

DRIVER = Path(__file__).with_name("swap_driver.py")


class Driver:
    """A process that imports and swaps."""

    def __init__(self, python: str, folder: Path) -> None:
        runner = install_runner(folder / "cache") / PACKAGE
        (folder / "slot").mkdir()
        self._process = subprocess.Popen(
            [python, "-B", str(DRIVER), str(folder / "slot"), str(runner)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": "1"},
        )

    def ask(self, case: Case) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(asdict(case)) + "\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module", params=PYTHONS)
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(request.param, tmp_path_factory.mktemp("swapping"))
    yield driver
    driver.close()


@settings(
    max_examples=int(os.environ.get("CODEFLASH_SWAP_EXAMPLES", str(30 * TIMES))),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(case=cases())
def test_swapped_is_as_imported(driver: Driver, case: Case) -> None:
    answer = driver.ask(case)
    new_process, swapped = answer["new-process"], answer["swapped"]
    assert "broken" not in swapped, swapped["broken"]
    assert "broken" not in new_process, new_process["broken"]
    if beyond_bodies(case.old, case.new, case.targets):  # such a candidate does not come here
        event("more than bodies")
        return
    if "why" in swapped:
        event("bodies only, not swapped")
        assert swapped["why"]
        return
    event("swapped")
    assert swapped["facts"] == new_process["facts"]


OLD = '''
import contextlib, functools, inspect, types
def target(x, y=1):
    """Say it."""
    return x + y

def other(x):
    def inside(): return target(x)
    return inside

class Thing:
    def method(self):
        return 1
{more}
'''


def case_of(
    more: str = "", user: str = "from m import *\nimport m\n", target: str = "target", **change: str
) -> Case:
    old = OLD.format(more=more)
    new = old
    for before, after in (change or {"return x + y": "total = x\n    return total + y"}).items():
        assert before in old
        new = new.replace(before, after)
    return Case(old=old, new=new, user=user, targets=(target,))


MORE = "m.py: more than bodies of functions differs"
REFUSED = {
    "a default": (case_of(**{"y=1": "y=2"}), MORE),
    "an annotation": (case_of(**{"y=1": "y: int = 1"}), MORE),
    "a keyword-only argument": (case_of(**{"x, y=1": "x, *, y=1"}), MORE),
    "called for a table": (case_of("TABLE = [target(v) for v in range(3)]"), "was called"),
    "called by a caller": (case_of("TABLE = other(3)()"), "was called"),
    "called by a module of tests": (case_of(user="import m\nCASES = list(map(m.target, [1]))"), "was called"),
    "called in a thread": (
        case_of("import threading\nt = threading.Thread(target=target, args=(1,)); t.start(); t.join()"),
        "was called",
    ),
    "called and failed": (case_of("try: target(1, 'a')\nexcept TypeError: BAD = 1"), "was called"),
    "a process is started": (
        case_of("import os\nif os.fork() == 0: os._exit(0)\nos.wait()"),
        "a process is started",
    ),
    "code in a table": (
        case_of("CODES = {1: target.__code__}"),
        "something besides functions holds the code of target",
    ),
    "code in a table, unseen": (
        case_of("import gc\nCODES = [c for c in gc.get_referents(target) if isinstance(c, types.CodeType)]"),
        "something besides functions holds the code of target",
    ),
    "a copy of the code": (
        case_of(
            "import gc\nbefore = gc.get_referents(target)\ncode = next(c for c in before if isinstance(c, types.CodeType))\n"
            "copy = types.FunctionType(code.replace(co_name='copy'), globals())\ndel before, code"
        ),
        "there are copies of the code of copy",
    ),
    "a copy of the code that is frozen": (
        case_of(
            "import gc\ncode = next(c for c in gc.get_referents(target) if isinstance(c, types.CodeType))\n"
            "COPY = types.FunctionType(code.replace(co_name='copy'), globals())\ngc.freeze()\n"
            "target = types.FunctionType(code, globals(), 'target', (1,))\ndel code",
        ),
        "there are copies of the code of copy",
    ),
    "its source is read": (
        case_of("SOURCE = inspect.getsource(target)"),
        "a file that candidates change is read: m.py",
    ),
    "its file is read": (
        case_of("SIZE = len(open(__file__).read())"),
        "a file that candidates change is read: m.py",
    ),
    "its file is read by a name of bytes": (
        case_of("SIZE = len(open(__file__.encode(), 'rb').read())"),
        "a file that candidates change is read: m.py",
    ),
    "its loader is asked for its file": (
        case_of("SIZE = len(__loader__.get_data(__file__))"),
        "a file that candidates change is read: m.py",
    ),
    "its loader is asked for its source": (
        case_of("SIZE = len(__loader__.get_source(__name__))"),
        "a file that candidates change is read: m.py",
    ),
    "it is read as data of its package": (
        case_of("import pkgutil; SIZE = len(pkgutil.get_data(__name__, 'm.py'))"),
        "a file that candidates change is read: m.py",
    ),
    "a generator waits": (
        case_of("def late():\n    yield x + y\nWAITING = late()", target="late"),
        "something besides functions holds the code of late",
    ),
    "a constant of the module": (case_of("A = 1", **{"A = 1": "A = 1.0"}), MORE),
    "an import": (case_of("A = 1", **{"A = 1": "import string"}), MORE),
    "the cell of the class": (
        case_of(target="Thing.method", **{"return 1": "return super()"}),
        MORE,
    ),
    "warnings": (case_of(**{"return x + y": "return x is 5"}), MORE),
    "no Python": (case_of(**{"return x + y": "return ("}), "m.py: '(' was never closed"),
}
SWAPPED = {
    "an unknown decorator": case_of(
        "def deco(f): return f\n@deco\ndef late(): return 4\n", target="late", **{"return 4": "return 5"}
    ),
    "moved lines of a code that is held": case_of("CODES = {1: other.__code__}; CODES.clear()"),
    "the body": case_of(),
    "a comment": case_of(**{"return x + y": "# more\n    return x + y"}),
    "a nested function": case_of(**{"return x + y": "def add(z): return x + z\n    return add(y)"}),
    "no free variables any more": case_of(**{"return x + y": "return [v + x for v in [y]]"}),
    "aliases, partials and closures": case_of(
        "ALIAS = {'a': target}\nPARTIAL = functools.partial(target, 2)\nINSIDE = other(5)\nBOUND = Thing().method"
    ),
    "another function with the same code": case_of(
        "import gc\nSAME = types.FunctionType(next(c for c in gc.get_referents(target) if isinstance(c, types.CodeType)), globals(), 'same', (1,))"
    ),
    "what is there is frozen": case_of(user="from m import *\nimport m, gc\ngc.freeze()"),
    "signature and kind are asked": case_of("S = inspect.signature(target)\nK = inspect.iscoroutinefunction(target)"),
    "known decorators": case_of(
        "@functools.lru_cache(maxsize=4)\ndef late(x, y=3):\n    return x + y\n", target="late",
        **{"y=3):\n    return x + y": "y=3):\n    return y + x + 1"},
    ),
    "a context manager": case_of(
        "@contextlib.contextmanager\ndef late(x=2, y=3):\n    yield x - y\n", target="late", **{"yield x - y": "y = 9\n    yield y"}
    ),
    "a property": case_of(
        "class Late:\n    @property\n    def late(self):\n        return 7\n    @late.setter\n    def late(self, value): self.v = value",
        target="Late.late", **{"return 7": "self.u = 2\n        return 8"},
    ),
    "a method of a dataclass with slots": case_of(
        "import dataclasses\n@dataclasses.dataclass\nclass Late:\n    v: int = 2\n    def late(self):\n        return self.v\n    @classmethod\n    def make(cls): return cls()",
        target="Late.late", **{"return self.v": "w = self.v\n        return w + 1"},
    ),
    "super was there already": case_of(
        "class Late(Thing):\n    def method(self):\n        return super().method()\n", target="Late.method",
        **{"return super().method()": "before = super().method\n        return before() + 1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(driver: Driver, name: str) -> None:
    case, why = REFUSED[name]
    swapped = driver.ask(case)["swapped"]
    assert why in swapped.get("why", swapped)


@pytest.mark.parametrize("name", SWAPPED)
def test_swapped(driver: Driver, name: str) -> None:
    case = SWAPPED[name]
    answer = driver.ask(case)
    new_process, swapped = answer["new-process"], answer["swapped"]
    assert swapped.get("why", "") == ""
    assert swapped["facts"] == new_process["facts"]
    assert not beyond_bodies(case.old, case.new, case.targets)
    digest = hashlib.sha256(case.new.encode()).hexdigest()
    assert swapped["records"] == [{"t": "source", "path": "m.py", "digest": digest, "module": "m"}]
