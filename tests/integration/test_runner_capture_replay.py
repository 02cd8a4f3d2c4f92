"""Captured generators, functions without a name, and objects that cannot be copied."""

from __future__ import annotations

from pathlib import Path

from runner_sessions import budget, calls_of, run_session, write_files

ROUND_TRIP = """
import collections, json, threading, types
class Service:
    __slots__ = ("lock", "again", "module", "table", "n")
    def __init__(self, n):
        self.lock, self.again, self.module = threading.Lock(), threading.RLock(), json
        self.table, self.n = types.MappingProxyType({"a": n}), n
    def __reduce__(self): return _service, (self.n,)
    def get(self): return self.n
def _service(n): return Service(n)
def held(x): return 1
"""


def test_modules_locks_and_unmade_objects_can_be_captured(tmp_path: Path) -> None:
    suite = """
import json, threading, types, mod
def test_a():
    assert mod.Service(3).get() == 3
    lock, held = threading.Lock(), threading.Lock()
    held.acquire()
    mod.held([json, lock, threading.RLock(), types.MappingProxyType({1: 2})])
    mod.held(held)
"""
    root = write_files(tmp_path / "root", {"mod.py": ROUND_TRIP, "test_it.py": suite})
    targets = tuple(f"mod.py::{name}" for name in ("Service.__init__", "Service.get", "held"))
    run = run_session(tmp_path, root, targets=targets, wrap="capture")
    assert run.outcomes == {"test_a": "passed"}, run.output
    captured = [(call["target"], call["captured"]) for call in run.named("call")]
    assert captured == [(0, True), (1, True), (2, True), (2, False)]
    replay = run_session(tmp_path, root, targets=targets, mode="replay", calls=None, texts=[0, 1, 2, 3])
    assert [call["text"] for call in replay.named("call")] == ["None", "3", "1"], replay.records


def test_generators_are_passed_by_and_driven_with_every_message(tmp_path: Path) -> None:
    module = """
def echo():
    got = None
    while True:
        try: got = yield got
        except ValueError as error: got = "caught %s" % error
def lot(n): yield from range(n)
"""
    suite = """
import pytest, mod
@pytest.mark.parametrize("number", range(4))
def test_echo(number):
    found = mod.echo()
    assert next(found) is None and found.send(1) == 1
    assert found.throw(ValueError("x")) == "caught x" and found.send(2) == 2
    with pytest.raises(KeyError): found.throw(KeyError())
    with pytest.raises(StopIteration): next(found)
def test_lot():
    assert sum(mod.lot(30_000)) == sum(range(30_000))
    assert list(zip(mod.lot(3), mod.lot(3))) == [(0, 0), (1, 1), (2, 2)]
"""
    root = write_files(tmp_path / "root", {"mod.py": module, "test_it.py": suite})
    targets = ("mod.py::echo", "mod.py::lot")
    few = run_session(tmp_path, root, targets=targets, wrap="digest", budget=budget(2))
    many = run_session(tmp_path, root, targets=targets, wrap="digest")
    for run in (few, many):
        assert set(run.outcomes.values()) == {"passed"}, run.output
        assert sum(run.executed.values()) == 7
    assert len(many.named("call")) == 7
    digests = {call["digest"] for call in calls_of(many, 0)}
    assert len(digests) == 1


def test_nameless_functions_are_captured_by_their_code(tmp_path: Path) -> None:
    module = "def apply(function, *args, **kwargs): return function(*args, **kwargs)\n"
    suite = """
import mod
FACTOR = 10
def test_a():
    seen = []
    def count(n):
        seen.append(n)
        return 0 if n == 0 else FACTOR + count(n - 1)
    def first(): seen.append("first")
    def second(): return list(seen)
    assert mod.apply(lambda x, *, y=2: x * y, 3) == 6
    assert mod.apply(count, 2) == 20
    seen.clear()
    assert mod.apply(lambda: [first(), second()]) == [None, ["first"]]
    assert mod.apply(sorted, [2, 1], key=lambda x: -x) == [2, 1]
"""
    root = write_files(tmp_path / "root", {"mod.py": module, "test_it.py": suite})
    targets = ("mod.py::apply",)
    run = run_session(tmp_path, root, targets=targets, wrap="capture")
    assert run.outcomes == {"test_a": "passed"}, run.output
    assert [call["captured"] for call in run.named("call")] == [True] * 4
    replay = run_session(tmp_path, root, targets=targets, mode="replay", calls=None, texts=[0, 1, 2, 3])
    texts = [call["text"] for call in replay.named("call")]
    assert texts == ["6", "20", "[None, ['first']]", "[2, 1]"], replay.records


def test_functions_of_doctests_are_captured_when_they_need_no_globals(tmp_path: Path) -> None:
    module = '''
def apply(function, x):
    """Apply.

    >>> apply(lambda x: len([x]), 3)
    1
    >>> factor = 2
    >>> apply(lambda x: x * factor, 3)
    6
    """
    return function(x)
'''
    root = write_files(tmp_path / "root", {"mod.py": module})
    args = ["--doctest-modules", "mod.py"]
    run = run_session(tmp_path, root, targets=("mod.py::apply",), wrap="capture", args=args)
    assert run.outcomes == {"mod.apply": "passed"}, run.output
    assert [call["captured"] for call in run.named("call")] == [True, False]


def test_matches_are_captured_and_made_again(tmp_path: Path) -> None:
    module = "def value(match): return (match.lastgroup, match[0], match.span(), match.pos, match.endpos)\n"
    suite = """
import re
import mod
WORD = re.compile(r"(?P<a>a+)|(?P<b>b|)")
class Text(str): pass
def test_a():
    seen = []
    def kept(match):
        seen.append(mod.value(match))
        return "-"
    assert WORD.sub(kept, "aabxa") == "---x--"
    assert mod.value(WORD.search("xaab", 1, 3)) == ("a", "aa", (1, 3), 1, 3)
    assert mod.value(re.fullmatch("(?P<c>a|ab)", "ab"))[1] == "ab"
    assert mod.value(re.compile(rb"(?P<d>b)$").search(b"ab"))[1] == b"b"
def test_b():
    assert mod.value(re.match("(?P<e>a)", Text("a")))[1] == "a"
"""
    root = write_files(tmp_path / "root", {"mod.py": module, "test_it.py": suite})
    targets = ("mod.py::value",)
    run = run_session(tmp_path, root, targets=targets, wrap="capture")
    assert set(run.outcomes.values()) == {"passed"}, run.output
    calls = run.named("call")
    assert [call["why"] for call in calls if not call["captured"]] == []
    replay = run_session(
        tmp_path, root, targets=targets, mode="replay", calls=None, texts=[*range(len(calls))]
    )
    same = ("i", "kind", "digest", "after", "text")
    assert [[call[n] for n in same] for call in replay.named("call")] == [
        [call[n] for n in same] for call in calls
    ]
