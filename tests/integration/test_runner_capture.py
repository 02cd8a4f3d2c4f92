"""The runner records what targets are called with and what they give, without anybody noticing."""

from __future__ import annotations

from pathlib import Path

import pytest
from runner_sessions import PYTHONS, calls_of, run_session, write_files

from codeflash_parallel._runner.values import call_files

SHAPES = '''
import abc, contextlib, functools, threading
from functools import lru_cache as remember
from typing import overload

class Shop(abc.ABC):
    class Inner:
        def deep(self, x): return [x]
    def __init__(self, n=2): self.n = n
    def __eq__(self, other): return self.n == other.n
    def method(self, x, *, y=1): return x + y
    @staticmethod
    def static(x): return (x,)
    @classmethod
    def klass(cls, x): return cls.__name__ + x
    @property
    def prop(self):
        """The property."""
        return {"n": self.n}
    @prop.setter
    def prop(self, value): self.n = value
    @functools.cached_property
    def cached(self): return self.n * 2
    @abc.abstractmethod
    def abstract(self): return 1

class Stall(Shop):
    def abstract(self): return super().abstract() + 1

@remember(maxsize=None)
def memo(x): return [x]

@overload
def typed(x: int) -> int: ...
@overload
def typed(x: str) -> str: ...
def typed(x): return x

def tweak(function):
    @functools.wraps(function)
    def inner(*args): return function(*args) * 2
    inner.tweaked = True
    return inner

@tweak
def decorated(x): return [x]

@contextlib.contextmanager
def managed(x): yield [x]

def generator(n):
    """Count."""
    got = []
    for i in range(n):
        got.append((yield i))
    return got

async def coroutine(x): return [x]

async def asyncgen(n):
    for i in range(n): yield i

if True:
    def conditional(x=(1, 2)): return x
'''

SUITE = """
import asyncio, inspect, pickle
import pytest
import mod
from mod import decorated as other_name

def test_methods():
    stall = mod.Stall()
    assert stall.method(1, y=2) == 3 and mod.Stall.method(stall, 1) == 2
    assert stall.static(1) == mod.Shop.static(1) == (1,)
    assert stall.klass("x") == "Stallx" and mod.Shop.klass("x") == "Shopx"
    assert stall.prop == {"n": 2}
    stall.prop = 3
    assert stall.prop == {"n": 3} and mod.Shop.prop.__doc__ == "The property."
    assert stall.cached == 6 and stall.cached == 6
    assert stall.abstract() == 2
    assert mod.Shop.Inner().deep(1) == [1]
    with pytest.raises(TypeError): mod.Shop()

def test_functions():
    assert mod.memo(1) is mod.memo(1)
    assert mod.memo.cache_info().hits == 1
    mod.memo.cache_clear()
    assert mod.memo.cache_info().currsize == 0
    assert mod.typed(1) == 1
    assert other_name(1) == [1, 1] and other_name.tweaked
    with mod.managed(1) as value: assert value == [1]
    assert mod.conditional() == (1, 2)

def test_generators():
    found = mod.generator(3)
    assert next(found) == 0
    assert found.send("a") == 1
    assert list(found) == [2]
    assert inspect.isgenerator(found) and inspect.isgeneratorfunction(mod.generator)
    part = mod.generator(9)
    assert next(part) == 0
    with pytest.raises(KeyError): part.throw(KeyError("mine"))
    lazy = mod.generator(9)
    assert next(lazy) == 0
    lazy.close()
    def delegating():
        result = yield from mod.generator(1)
        assert result == [None]
    assert list(delegating()) == [0]

def test_asynchronous():
    async def main():
        assert inspect.iscoroutinefunction(mod.coroutine) and inspect.isasyncgenfunction(mod.asyncgen)
        assert await asyncio.gather(mod.coroutine(1), mod.coroutine(2)) == [[1], [2]]
        assert [i async for i in mod.asyncgen(3)] == [0, 1, 2]
        async for i in mod.asyncgen(3): break
    asyncio.run(main())

def test_disguise():
    assert mod.conditional.__name__ == "conditional" and mod.conditional.__module__ == "mod"
    assert mod.Shop.method.__qualname__ == "Shop.method"
    assert str(inspect.signature(mod.Shop.method)) == "(self, x, *, y=1)"
    assert pickle.loads(pickle.dumps(mod.conditional)) is mod.conditional
    assert inspect.getsource(mod.generator).startswith("def generator(n):")
    assert not [name for name in vars(mod) if "codeflash" in name]
    assert isinstance(vars(mod.Shop)["static"], staticmethod) and isinstance(vars(mod.Shop)["klass"], classmethod)
"""

NAMES = (
    *(
        "Shop.Inner.deep",
        "Shop.method",
        "Shop.static",
        "Shop.klass",
        "Shop.prop",
        "Shop.cached",
        "Stall.abstract",
    ),
    *("memo", "typed", "decorated", "managed", "conditional", "generator", "coroutine", "asyncgen"),
)
CALLS = {
    "test_methods": {0: 1, 1: 2, 2: 2, 3: 2, 4: 2, 5: 1, 6: 1},
    "test_functions": {7: 2, 8: 1, 9: 1, 10: 1, 11: 1},
    "test_generators": {12: 4},
    "test_asynchronous": {13: 2, 14: 2},
}
SHAPE = {"Shop.prop": "property", "Shop.cached": "property", "managed": "generator"}
SHAPE |= {name: name for name in ("generator", "coroutine", "asyncgen")}


@pytest.mark.parametrize("python", PYTHONS)
def test_every_shape_is_counted_and_captured(tmp_path: Path, python: str) -> None:
    root = write_files(tmp_path / "root", {"mod.py": SHAPES, "test_it.py": SUITE})
    targets = tuple(f"mod.py::{name}" for name in NAMES)
    run = run_session(tmp_path, root, python=python, targets=targets, wrap="capture")
    assert set(run.outcomes.values()) == {"passed"}, run.output
    expected = {(test, target): n for test, counts in CALLS.items() for target, n in counts.items()}
    assert run.executed == expected
    calls = run.named("call")
    assert [call["i"] for call in calls] == list(range(len(calls)))
    assert len(calls) == sum(expected.values())
    assert {(NAMES[call["target"]], call["why"]) for call in calls if not call["captured"]} == set()
    metas = [call.meta for call in call_files.read_calls(root.parent / "private" / "inputs")]
    assert {meta["i"] for meta in metas} == set(range(len(calls)))
    assert {NAMES[meta["target"]]: meta["shape"] for meta in metas} == {
        name: SHAPE.get(name, "function") for name in NAMES
    }
    inner = {NAMES[meta["target"]] for meta in metas if meta["via"] == "inner"}
    assert inner == {"decorated", "managed"}
    assert {meta["module"] for meta in metas} == {"mod"}
    assert [meta.get("items") for meta in metas if meta["target"] == 14] == [None, 1]
    kinds = [(call["kind"], call["type"]) for call in calls_of(run, 12)]
    assert ("raise", "builtins.KeyError") in kinds
    assert calls_of(run, 1)[0]["args"].endswith("1, y=2")
    assert calls_of(run, 1)[0]["text"] == "3"
    assert all(call["digest"] for call in calls)


DEPTH = """
import asyncio, sys, threading, time
def recursive(n): return 1 if n == 0 else n * recursive(n - 1)
def walk(tree):
    yield tree[0]
    for child in tree[1:]: yield from walk(child)
def helper(n): return recursive(n) + recursive(n)
async def climb(n):
    await asyncio.sleep(0)
    return recursive(n) if n == 0 else await climb(n - 1)
def fails(n):
    raise LookupError(n)
"""
DEPTH_SUITE = """
import asyncio, threading
import pytest
from mod import climb, fails, helper, recursive, walk
def test_recursion(): assert recursive(20) == 2432902008176640000
def test_deep_recursion(): assert recursive(900) > 0
def test_another_target_is_inside(): assert helper(3) == 12
def test_recursive_generator():
    tree = (1, (2, (3,)), (4,))
    for x in walk(tree):
        recursive(1)
    assert list(walk(tree)) == [1, 2, 3, 4]
def test_threads():
    started = threading.Barrier(4)
    def work():
        started.wait()
        for n in range(500): recursive(3)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
def test_tasks():
    async def main():
        await asyncio.gather(*[climb(3) for _ in range(5)])
        recursive(1)
    asyncio.run(main())
def test_raises():
    with pytest.raises(LookupError) as caught: fails(7)
    assert caught.value.args == (7,)
    recursive(1)
@pytest.fixture
def prepared(): return recursive(2)
def test_fixture(prepared): pass
VALUE = recursive(1)
"""


@pytest.mark.parametrize("python", PYTHONS)
def test_only_outermost_calls_count(tmp_path: Path, python: str) -> None:
    root = write_files(tmp_path / "root", {"mod.py": DEPTH, "test_it.py": DEPTH_SUITE})
    names = ("recursive", "walk", "helper", "climb", "fails")
    targets = tuple(f"mod.py::{name}" for name in names)
    run = run_session(tmp_path, root, python=python, targets=targets, wrap="digest")
    assert set(run.outcomes.values()) == {"passed"}, run.output
    assert run.executed == {
        ("", 0): 1,
        ("test_recursion", 0): 1,
        ("test_deep_recursion", 0): 1,
        ("test_another_target_is_inside", 2): 1,
        ("test_recursive_generator", 0): 4,
        ("test_recursive_generator", 1): 2,
        ("test_threads", 0): 2000,
        ("test_tasks", 3): 5,
        ("test_tasks", 0): 1,
        ("test_raises", 0): 1,
        ("test_raises", 4): 1,
        ("test_fixture", 0): 1,
    }
    assert {call["thread"] for call in run.named("call") if call["test"].endswith("test_threads")} == {True}
    (failed,) = calls_of(run, 4)
    assert (failed["kind"], failed["type"], failed["captured"]) == ("raise", "builtins.LookupError", False)


ODD = """
import threading, sys
class Hostile:
    def __reduce__(self): raise ValueError("not me")
    def __repr__(self): raise ValueError("nor me")
    def __eq__(self, other): raise ValueError("never")
    __hash__ = None
class Reentrant:
    def __getstate__(self): return {"n": f(1)}
class Pair:
    def __init__(self): self.items = [3, 1, 2]
def f(x): return x
def nameless(): return lambda: 1
def mutates(items): items.sort(); return items
def lazy(items): return map(str, items)
def consumes(iterator): return sum(iterator)
"""
ODD_SUITE = """
import mod, threading
def test_unpicklable():
    lock = threading.Lock()
    lock.acquire()
    assert mod.f(lock) is lock
    hostile = mod.Hostile()
    assert mod.f(hostile) is hostile
    assert mod.f(mod.nameless())() == 1
    class Local: pass
    assert isinstance(mod.f(Local()), Local)
def test_reentrant(): assert isinstance(mod.f(mod.Reentrant()), mod.Reentrant)
def test_mutation():
    items = [3, 1]
    assert mod.mutates(items) is items == [1, 3]
def test_iterators_are_not_consumed():
    assert list(mod.lazy([1, 2])) == ["1", "2"]
    assert mod.consumes(iter([1, 2])) == 3
    assert mod.consumes(n for n in [1, 2]) == 3
    assert next(mod.f(iter([5]))) == 5
"""


@pytest.mark.parametrize("python", PYTHONS)
def test_awkward_values(tmp_path: Path, python: str) -> None:
    root = write_files(tmp_path / "root", {"mod.py": ODD, "test_it.py": ODD_SUITE})
    targets = tuple(f"mod.py::{name}" for name in ("f", "mutates", "lazy", "consumes"))
    run = run_session(tmp_path, root, python=python, targets=targets, wrap="capture")
    assert set(run.outcomes.values()) == {"passed"}, run.output
    assert run.executed[("test_reentrant", 0)] == 1, "what pickling calls does not count"
    lock, hostile, function, local = [c for c in calls_of(run, 0) if c["test"].endswith("unpicklable")]
    assert not any(call["captured"] for call in (lock, hostile, local))
    assert function["captured"], "of its module, and no target's own"
    assert "ValueError" in hostile["why"]
    assert all(call["kind"] == "return" for call in (lock, hostile, function, local))
    assert local["type"].endswith("Local")
    unencodable = {record["i"] for record in run.named("unencodable")}
    assert {lock["i"], hostile["i"], function["i"]} <= unencodable
    (lazy,) = calls_of(run, 2)
    assert lazy["i"] in unencodable
    assert lazy["captured"]
    iterator, generator = calls_of(run, 3)
    assert (iterator["captured"], generator["captured"]) == (True, False)
    (call,) = call_files.read_calls(tmp_path / "private" / "inputs", [calls_of(run, 1)[0]["i"]])
    assert call_files.load(call) == (([3, 1],), {}), "as they were before the call"


def test_what_cannot_be_wrapped_runs_as_it_is(tmp_path: Path) -> None:
    module = """
def njit(function): return function
import numba_like as numba
@numba.njit
def compiled(x): return x
present = lambda x: x
"""
    files = {
        "mod.py": module.replace("import numba_like as numba", "import numba"),
        "numba.py": "def njit(f): return f\n",
    }
    files["test_it.py"] = "import mod\ndef test_a(): assert mod.compiled(1) == mod.present(1) == 1\n"
    root = write_files(tmp_path / "root", files)
    targets = ("mod.py::compiled", "mod.py::present", "mod.py::absent")
    run = run_session(tmp_path, root, targets=targets, wrap="digest")
    assert run.outcomes == {"test_a": "passed"}
    assert not run.executed


def test_first_lines_and_tracebacks_stay(tmp_path: Path) -> None:
    module = "import functools\n\n\n@functools.lru_cache\ndef f(x):\n    raise KeyError(x)\n\ndef g(x):\n    return f(x)\n"
    suite = """
import mod, traceback
def test_lines():
    assert mod.f.__wrapped__.__wrapped__.__code__.co_firstlineno == 4
    assert mod.g.__wrapped__.__code__.co_firstlineno == 8
    try: mod.g(1)
    except KeyError as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == mod.__file__]
    assert lines == [9, 6]
"""
    root = write_files(tmp_path / "root", {"mod.py": module, "test_it.py": suite})
    run = run_session(tmp_path, root, targets=("mod.py::f", "mod.py::g"), wrap="digest")
    assert run.outcomes == {"test_lines": "passed"}, run.output
