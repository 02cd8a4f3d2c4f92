"""The runner makes captured calls again: every shape of target, every way to end, in each interpreter at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runner_lab import PYTHONS, Lab, named

SHAPES = """
import asyncio, functools, random

class Shop:
    def __init__(self, n=2):
        self.n = n
    def method(self, x):
        return [self.n, x]
    @staticmethod
    def static(x, *, y=1):
        return (x, y)
    @classmethod
    def klass(cls, x):
        return cls.__name__ + x
    @property
    def prop(self):
        return {"n": self.n}
    @functools.cached_property
    def cached(self):
        return self.n * 2
    class Inner:
        def deep(self):
            return "deep"

class Sub(Shop):
    pass

@functools.lru_cache(maxsize=None)
def memo(x):
    return x + 1

def generator(n):
    for i in range(n):
        yield i
    return "over"

async def coroutine(x):
    await asyncio.sleep(0)
    asyncio.get_running_loop().create_task(asyncio.sleep(3600))
    return [x]

async def asyncgen(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i

def lazy(n):
    return map(str, range(n))

def endless():
    while True:
        yield 1

def tweak(function):
    def inner(*args):
        return function(*args)
    return inner

@tweak
def decorated(x):
    return -x

def mutate(items):
    items.append(1)
    return items

def copied(items):
    items.append(1)
    return list(items)

def fail(kind):
    raise {"exit": SystemExit, "interrupt": KeyboardInterrupt, "memory": MemoryError, "value": ValueError}[kind](kind)

def recurse(n):
    return 1 + recurse(n + 1)

def dice():
    return random.random()

def noise(x):
    print("noise", flush=True)
    return lambda: x
"""


@pytest.fixture(params=PYTHONS, ids=lambda path: path.split("/")[-3])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    made = Lab(tmp_path, python=request.param)
    made.file("mod.py", SHAPES)
    return made


EVERY = list(range(100))


def replay(lab: Lab, **more: Any) -> dict[int, dict[str, Any]]:
    return {record["i"]: record for record in named(lab.run("replay", texts=EVERY, **more), "call")}


def test_every_shape_of_target_is_called(lab: Lab) -> None:
    setup = "from mod import Shop, Sub"
    cases = [
        ("Shop.method", "Shop(3), 'a'", {}, "[3, 'a']", "builtins.list"),
        ("Shop.static", "1, y=2", {}, "(1, 2)", "builtins.tuple"),
        ("Shop.klass", "Sub, 'x'", {}, "'Subx'", "builtins.str"),
        ("Shop.prop", "Shop()", {"shape": "property"}, "{'n': 2}", "builtins.dict"),
        ("Shop.cached", "Shop()", {"shape": "property"}, "4", "builtins.int"),
        ("Shop.Inner.deep", "Shop.Inner()", {}, "'deep'", "builtins.str"),
        ("memo", "1", {}, "2", "builtins.int"),
        ("generator", "3", {"shape": "generator"}, "[0, 1, 2]", "builtins.generator"),
        ("generator", "3", {"shape": "generator", "items": 2}, "[0, 1]", "builtins.generator"),
        ("coroutine", "5", {"shape": "coroutine"}, "[5]", "builtins.list"),
        ("asyncgen", "2", {"shape": "asyncgen"}, "[0, 1]", "builtins.async_generator"),
        ("lazy", "2", {}, "['0', '1']", "builtins.map"),
        ("decorated", "4", {"via": "inner"}, "-4", "builtins.int"),
    ]
    for qualname, arguments, meta, _, _ in cases:
        lab.call(lab.target(qualname), arguments, setup=setup, **meta)
    records = replay(lab)
    assert [(records[i]["text"], records[i]["type"]) for i in range(len(cases))] == [c[3:] for c in cases]
    assert {record["kind"] for record in records.values()} == {"return"}
    assert all(record["digest"] and record["after"] and record["ns"] > 0 for record in records.values())
    assert records[1]["args"] == "1, y=2"


def test_a_call_cannot_hurt_the_others(lab: Lab) -> None:
    fail, recurse, static = lab.target("fail"), lab.target("recurse"), lab.target("Shop.static")
    for kind in ("exit", "interrupt", "memory", "value"):
        lab.call(fail, repr(kind))
    lab.call(recurse, "1")
    lab.call(static, "1")
    records = replay(lab)
    kinds = [records[i]["type"].rpartition(".")[2] for i in range(6)]
    assert kinds == [
        "SystemExit",
        "KeyboardInterrupt",
        "MemoryError",
        "ValueError",
        "RecursionError",
        "tuple",
    ]
    assert [records[i]["kind"] for i in range(6)] == ["raise"] * 5 + ["return"]


def test_what_happens_to_arguments_is_recorded(lab: Lab) -> None:
    for qualname in ("mutate", "copied"):
        lab.call(lab.target(qualname), "[5]")
    mutated, copied = replay(lab).values()
    assert mutated["args"] == "[5]"
    assert mutated["digest"] == copied["digest"]
    assert mutated["after"] != copied["after"]


def test_calls_that_cannot_be_made_say_why(lab: Lab) -> None:
    gone, static, noise = lab.target("gone"), lab.target("Shop.static"), lab.target("noise")
    lab.call(gone, "1")
    lab.call(static, "1", blob="no pickle")
    lab.call(noise, "1")
    records = lab.run("replay", texts=EVERY)
    assert {r["i"]: r["why"].split(" (")[0] for r in named(records, "unreplayable")} == {
        0: "mod.gone cannot be found",
        1: "the inputs cannot be unpickled",
    }
    (call,) = named(records, "call")
    (unencodable,) = named(records, "unencodable")
    assert (call["i"], call["digest"], call["kind"]) == (2, "", "return")
    assert "lambda" in unencodable["why"]


def test_endless_generators_are_read_up_to_a_limit(lab: Lab) -> None:
    lab.call(lab.target("endless"), "", shape="generator")
    assert replay(lab)[0]["text"].startswith("[1, 1,")


def test_replays_agree_with_each_other_and_random_is_seeded(lab: Lab) -> None:
    dice = lab.target("dice")
    for _ in range(3):
        lab.call(dice, "")
    first, second = replay(lab), replay(lab)
    digests = [[r["digest"] for r in records.values()] for records in (first, second)]
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 3
    assert [r["digest"] for r in replay(lab, seed=7).values()] != digests[0]


def test_an_answer_is_a_call_without_its_words(lab: Lab) -> None:
    for kind in ("value", "exit"):
        lab.call(lab.target("fail"), repr(kind))
    lab.call(lab.target("Shop.static"), "1.5, y=True")
    lab.call(lab.target("generator"), "3", shape="generator")
    lab.call(lab.target("noise"), "1")
    texts, records = replay(lab), lab.run("replay", texts=[2])
    assert [call["i"] for call in named(records, "call")] == [2]
    answers = {answer["of"][0]: answer["of"][1:-1] for answer in named(records, "answer")}
    parts = ("kind", "type", "digest", "floatless", "typeless", "after", "traces")
    assert answers == {i: [call[part] for part in parts] for i, call in texts.items() if i != 2}
    assert [record["i"] for record in named(records, "unencodable")] == [4]


def test_only_the_wanted_calls_are_made(lab: Lab) -> None:
    static = lab.target("Shop.static")
    for number in range(4):
        lab.call(static, str(number))
    assert sorted(replay(lab, calls=[1, 3])) == [1, 3]


def test_classes_of_test_modules_are_found_by_their_place(lab: Lab) -> None:
    lab.file("tests/helpers_of_tests.py", "class Box:\n    value = 3\n")
    lab.file("box.py", "def peek(box):\n    return box.value\n")
    setup = "import sys\nsys.path.insert(0, 'tests')\nfrom helpers_of_tests import Box"
    setup = setup.replace("'tests'", repr(str(lab.project / "tests")))
    lab.call(lab.target("peek", "box.py"), "Box()", setup=setup)
    assert replay(lab)[0]["text"] == "3"


def test_the_compiled_source_is_proven(lab: Lab) -> None:
    lab.call(lab.target("Shop.static"), "1")
    (source,) = named(lab.run("replay"), "source")
    assert (source["path"], source["module"]) == ("mod.py", "mod")


TESTS = """
import pytest
from helpers import Bag
from mod import Shop, copied, generator, memo, mutate, fail, decorated, lazy

@pytest.mark.parametrize("n", range(3))
def test_all(n):
    bag = Bag([n])
    assert Shop(n).method(bag)[1] is bag
    assert Shop().prop == {"n": 2}
    assert mutate([n])[-1] == 1
    assert copied([n])[-1] == 1
    assert memo(n) == n + 1
    assert decorated(n) == -n
    with pytest.raises(ValueError):
        fail("value")

def test_lazily():
    assert list(lazy(2)) == ["0", "1"]
    assert next(generator(10**9)) == 0
"""


def test_a_replay_gives_what_the_tests_saw(lab: Lab) -> None:
    names = ("Shop.method", "Shop.prop", "mutate", "copied", "memo", "decorated", "fail", "lazy", "generator")
    for name in names:
        lab.target(name)
    lab.file("tests/helpers.py", "class Bag:\n    def __init__(self, items):\n        self.items = items\n")
    lab.file("tests/test_it.py", TESTS)
    more = {"args": ["-q", "-p", "no:cacheprovider", "tests"], "select": None, "wrap": "capture"}
    seen = {r["i"]: r for r in named(lab.run("tests", **more), "call")}
    replayed = replay(lab)
    assert len(seen) == 3 * 7 + 2
    assert replayed.keys() == seen.keys()
    same = ("target", "test", "kind", "type", "digest", "floatless", "typeless", "after", "args")
    for index, call in seen.items():
        if names[call["target"]] not in {"lazy", "generator"}:  # the test has yet to read what they give
            assert {n: call[n] for n in same} == {n: replayed[index][n] for n in same}
    assert replayed[max(replayed)]["text"] == "[0]"


STEPS = """
def pairs(items):
    last = []
    for item in items:
        last = [item, item / 2, last]
        yield last
    return "over"

def broken(items):
    yield from items
    raise ValueError("no more")

async def later(items):
    for item in items:
        yield item
"""
READS = """
import asyncio, itertools
import pytest
from steps import broken, later, pairs

def test_to_the_end(): assert len(list(pairs([1, 2, 3]))) == 3
def test_in_part(): assert next(pairs([1, 2, 3]))[0] == 1
def test_nothing(): assert list(pairs([])) == []
def test_a_lot(): assert len(list(itertools.islice(pairs(range(20_000)), 12_000))) == 12_000

def test_raises():
    with pytest.raises(ValueError): list(broken(["a", 1.5]))

def test_later():
    async def read(): return [item async for item in later(["a", 1.5])]
    async def begin():
        async for item in later([1, 2]): break
    assert asyncio.run(read()) == ["a", 1.5]
    asyncio.run(begin())
"""


def test_a_generator_gives_in_a_replay_what_its_test_read(lab: Lab) -> None:
    for name in ("pairs", "broken", "later"):
        lab.target(name, "steps.py")
    lab.file("steps.py", STEPS)
    lab.file("tests/test_it.py", READS)
    more = {"args": ["-q", "-p", "no:cacheprovider", "tests"], "select": None, "wrap": "capture"}
    seen = {r["i"]: r for r in named(lab.run("tests", **more), "call")}
    replayed = replay(lab)
    assert len(seen) == 7
    assert replayed.keys() == seen.keys()
    assert "cpu" in {r["name"] for r in named(lab.run("replay"), "timing")}
    same = ("kind", "type", "digest", "floatless", "typeless")
    for index, call in seen.items():
        assert {n: call[n] for n in same} == {n: replayed[index][n] for n in same}, call["test"]
        assert call["digest"]
