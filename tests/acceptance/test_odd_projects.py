"""Candidates and projects that are out of the ordinary: what `check` says, with and without `--new-process`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import indent

import pytest
from both_ways import Judged, assert_agreement, both_ways, write_manifest
from harness import Fixture, Place, assert_nothing_left, commit_all, load_fixture, make_place

RIGHT = "return sum(value * value for value in values)"
WRONG = "return sum(value + value + 0 for value in values)"
MODULE = '''
def squares(values):
    """Add the squares up."""
    {body}


def other():
    return 1
'''
TESTS = """
import os
from core import other, squares

def test_three():
    assert squares([1, 2, 3]) == 14

def test_two():
    assert squares([2, 2]) == 8
"""
NINES_ARE_NOUGHTS = """
import ast
from importlib.machinery import SourceFileLoader

plain = SourceFileLoader.source_to_code

def source_to_code(self, data, path, **how):
    tree = data if isinstance(data, ast.AST) else ast.parse(data)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value == 9:
            node.value = 0
    return plain(self, tree, path, **how)

SourceFileLoader.source_to_code = source_to_code
"""
EQUIVALENT = "undecided/NOT_RACED"
#: Bodies that are wrong, or that are right and leave something behind: what they do, and what is said of them.
BODIES = {
    "right": (RIGHT, EQUIVALENT),
    "wrong": (WRONG, "rejected/TESTS_FAILED"),
    "ends the process": ("import os; os._exit(0)", "rejected/CRASHED"),
    "ends the session": ("import pytest; pytest.exit('done', 0)", "rejected/TESTS_MISSING"),
    "skips": ("import unittest; raise unittest.SkipTest", "rejected/TESTS_MISSING"),
    "is interrupted": ("raise KeyboardInterrupt", "rejected/TESTS_MISSING"),
    "closes everything": (f"import os; os.closerange(0, 4096)\n{WRONG}", "rejected/CRASHED"),
    "takes json away": (f"import json; json.dumps = lambda *a, **k: 'x'\n{WRONG}", "rejected/TESTS_FAILED"),
    "takes pickle away": (f"import pickle; pickle.dumps = None\n{WRONG}", "rejected/TESTS_FAILED"),
    "forgets all modules": (
        f"import sys\nfor name in set(sys.modules) - {{'sys'}}: del sys.modules[name]\n{WRONG}",
        "rejected/TESTS_FAILED",
    ),
    "ends well": (f"import atexit, os; atexit.register(os._exit, 0)\n{WRONG}", "rejected/TESTS_FAILED"),
    "rewrites the tests": (
        f"with open('test_core.py', 'w') as file: file.write('def test_three(): pass')\n{WRONG}",
        "rejected/TESTS_FAILED",
    ),
    "rewrites itself": (
        f"with open(__file__, 'w') as file: file.write('squares = sum')\n{WRONG}",
        "rejected/TESTS_FAILED",
    ),
    "replaces the tests": (
        f"import sys, test_core\ntest_core.test_two = test_core.test_three = lambda: None\n{WRONG}",
        "rejected/TESTS_FAILED",
    ),
    "empties the environment": (
        f"import os; os.environ.clear(); os.chdir('/')\n{RIGHT}",
        "undecided/NOT_RACED",  # a hint
    ),
    "leaves a process": (
        f"import os, signal\nif os.fork() == 0:\n    os.setsid(); signal.pause()\n{RIGHT}",
        "rejected/LEAKED_PROCESS",
    ),
    "leaves a thread": (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n" + RIGHT,
        "rejected/STATE_DIFFERS",
    ),
}
SLOW = "total = 0\nfor value in values:\n    total += value * value\nreturn total"


def candidate_of(body: str) -> str:
    return MODULE.format(body=indent(body, "    ").strip())


@pytest.fixture
def judge(tmp_path: Path) -> Callable[..., dict[str, Judged]]:
    def judged(
        candidates: Mapping[str, Mapping[str, str | None]], *more: str, **files: str
    ) -> dict[str, Judged]:
        place = make_place(tmp_path / "user")
        for name, text in {"core": candidate_of(SLOW), "test_core": TESTS, **files}.items():
            (place.repository / f"{name}.py").write_text(text, encoding="utf-8")
        commit_all(place.repository)
        manifest = write_manifest(place.state / "candidates.jsonl", list(candidates.items()))
        options = ("--candidates", str(manifest), "--output-format", "json", "-j", "2")
        found = both_ways(place, "check", "--function", "core.py::squares", *options, *more)
        assert_agreement(found)
        assert_nothing_left(place)
        return {judged.id: judged for judged in found}

    return judged


@pytest.mark.attack
def test_hostile_bodies(judge: Callable[..., dict[str, Judged]]) -> None:
    bodies = {name: {"core.py": candidate_of(body)} for name, (body, _) in BODIES.items()}
    found = judge(bodies)
    assert {name: judged.warm for name, judged in found.items()} == {
        name: verdict for name, (_, verdict) in BODIES.items()
    }
    # What a fork could be to blame for was looked at again in a new process.
    assert {judged.served.partition(":")[0] for judged in found.values()} == {"collected", "new-process"}


@pytest.mark.attack
def test_a_compiler_put_into_the_loaders_compiles_the_candidate(
    judge: Callable[..., dict[str, Judged]],
) -> None:
    bodies = {"eight": SLOW.replace("0", "8"), "nine": SLOW.replace("0", "9")}
    edits = {name: {"core.py": candidate_of(body)} for name, body in bodies.items()}
    found = judge(edits, "--compare", "pass-fail", conftest=NINES_ARE_NOUGHTS)
    assert {name: judged.warm for name, judged in found.items()} == {
        "eight": "rejected/TESTS_FAILED",
        "nine": EQUIVALENT,
    }


@pytest.mark.campaign
def test_who_changes_more_than_the_target_is_asked_for_all_tests(build: Callable[[Fixture], Place]) -> None:
    fixture = load_fixture("unselected_tests")
    place = build(fixture)
    candidates = ["--candidates", str(fixture.candidates), "--output-format", "json"]
    found = both_ways(place, "check", "--function", "lists.py::unique", *candidates)
    assert_agreement(found)
    assert {judged.id: judged.warm for judged in found} == {
        "faster": EQUIVALENT,
        "neutral": EQUIVALENT,
        "wrong": "rejected/TESTS_FAILED",
        "wrong_elsewhere": "rejected/TESTS_FAILED",
    }
