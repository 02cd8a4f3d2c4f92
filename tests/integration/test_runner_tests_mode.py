"""The runner runs a project's tests: ids, phases, selection, what is neutralised, and how it ends."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from runner_sessions import PYTHONS, SessionRun, run_session, write_files

SUITE = """
import unittest
import pytest

def test_passes(): pass
def test_fails(): assert [1] == [2]
@pytest.mark.xfail
def test_xfails(): assert 0
@pytest.mark.xfail
def test_xpasses(): pass
@pytest.mark.xfail(strict=True)
def test_xpasses_strictly(): pass
@pytest.mark.skip
def test_skips(): pass
@pytest.mark.parametrize("text", ["a::b", "c d", "\\u00e9\\n", "[x]", "a@b"])
def test_parametrized(text): pass
@pytest.fixture
def broken(): raise OSError("no")
def test_with_broken_fixture(broken): pass
@pytest.fixture
def breaks_later():
    yield
    raise OSError("late")
def test_with_late_error(breaks_later): pass

class TestClass:
    def test_method(self): pass

class Case(unittest.TestCase):
    def test_case(self): self.assertEqual(1, 1)
    def test_sub(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)
    @unittest.expectedFailure
    def test_expected(self): self.fail()
"""


MODULE = '''
def double(x):
    """Double.

    >>> double(2)
    4
    >>> double(3)
    7
    """
    return 2 * x
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "sp ace é"
    root.mkdir()
    return root


@pytest.mark.parametrize("python", PYTHONS)
def test_every_kind_of_test_is_reported(tmp_path: Path, project: Path, python: str) -> None:
    write_files(project, {"test_it.py": SUITE, "mod.py": MODULE, "doc.txt": ">>> 1 + 1\n2\n"})
    args = ["--doctest-modules", "--doctest-glob=*.txt"]
    run = run_session(tmp_path, project, python=python, args=args)
    outcomes = run.outcomes
    subtest = outcomes.pop("Case::test_sub")
    assert subtest == "failed"
    assert outcomes == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_xfails": "xskipped",
        "test_xpasses": "xpassed",
        "test_xpasses_strictly": "failed",
        "test_skips": "setup skipped",
        "test_parametrized[a::b]": "passed",
        "test_parametrized[c d]": "passed",
        "test_parametrized[\\xe9\\n]": "passed",
        "test_parametrized[[x]]": "passed",
        "test_parametrized[a@b]": "passed",
        "test_with_broken_fixture": "setup failed",
        "test_with_late_error": "teardown failed",
        "TestClass::test_method": "passed",
        "Case::test_case": "passed",
        "Case::test_expected": "xskipped",
        "mod.double": "failed",
        "doc.txt": "passed",
    }
    failed = next(r for r in run.named("phase") if r["id"].endswith("test_fails") and r["when"] == "call")
    assert "assert [1] == [2]" in failed["message"]
    assert failed["ns"] > 0
    assert sorted(run.one("collected")["ids"]) == sorted({r["id"] for r in run.named("phase")})
    assert run.records[-1] == {"t": "end", "status": 1}
    assert run.status == 1
    hello = run.one("hello")
    assert hello["protocol"] == 1
    assert hello["pytest"].split(".")[0] in "789"


def test_asynchronous_tests_run(tmp_path: Path, project: Path) -> None:
    suite = """
import anyio, pytest
@pytest.mark.asyncio
async def test_of_pytest_asyncio(): await anyio.sleep(0)
@pytest.mark.anyio
async def test_of_anyio(anyio_backend): await anyio.sleep(0)
"""
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": ""}
    run = run_session(tmp_path, write_files(project, {"test_it.py": suite}), environment=environment)
    assert set(run.outcomes.values()) == {"passed"}
    assert "test_of_pytest_asyncio" in run.outcomes
    assert {"anyio", "asyncio"} <= set(run.one("hello")["plugins"])


def test_selection_keeps_the_order_and_the_weirdest_ids(tmp_path: Path, project: Path) -> None:
    write_files(project, {"test_it.py": SUITE, "test_other.py": "def test_passes(): pass\n"})
    everything = run_session(tmp_path, project).one("collected")["ids"]
    wanted = [test for test in everything if "parametrized" in test or "test_case" in test]
    run = run_session(tmp_path, project, select=[*reversed(wanted), "test_it.py::test_gone"])
    assert run.one("collected")["ids"] == wanted
    assert run.one("collected")["deselected"] == len(everything) - len(wanted)
    assert {r["id"] for r in run.named("phase")} == set(wanted)
    assert run.status == 0


def test_duplicate_ids_are_all_selected(tmp_path: Path, project: Path) -> None:
    write_files(project, {"test_it.py": "def test_a(): pass\ndef test_b(): pass\n"})
    args = ["--keep-duplicates", "test_it.py", "test_it.py"]
    run = run_session(tmp_path, project, args=args, select=["test_it.py::test_a"])
    assert set(run.one("collected")["ids"]) == {"test_it.py::test_a"}
    assert len([r for r in run.named("phase") if r["when"] == "call"]) == len(run.one("collected")["ids"])


#: Loaded by name: loading all plugins of this environment takes a second each time.
PLUGINS = ("xdist.plugin", "pytest_cov", "pytest_randomly")

HOSTILE = {
    "n": "-n auto",
    "dist": "-n 2 --dist=loadfile --maxprocesses=4",
    "cov": "--cov --cov-report=html --cov-fail-under=100",
    "cov of a package": "--cov=mod --cov-branch",
    "x": "-x",
    "maxfail": "--maxfail=1",
    "colour": "--color=yes -vv",
    "junit": "--junitxml=report.xml",
    "last failed": "--lf --ff --nf",
    "stepwise": "--sw",
    "collect only": "--collect-only",
    "setup": "--setup-plan",
    "pdb": "--pdb",
    "trace": "--trace",
    "debug": "--debug",
    "quiet": "-q -s --tb=long -l --durations=3",
    "no cache": "-p no:cacheprovider",
    "no plugins": "-p no:xdist.plugin -p no:pytest_randomly -p no:pytest_cov",
    "randomly": "--randomly-seed=7",
}


@pytest.mark.parametrize("options", HOSTILE.values(), ids=HOSTILE)
def test_options_that_would_break_a_check_are_neutralised(
    tmp_path: Path, project: Path, options: str
) -> None:
    if any(find_spec(module) is None for module in PLUGINS):
        pytest.skip("the plugins whose options these are, are not installed")
    suite = "def test_a(): assert 0\ndef test_b(): pass\ndef test_c(): assert 0\ndef test_d(): pass\n"
    files = {"test_it.py": suite, "mod.py": "", "pytest.ini": f"[pytest]\naddopts = {options}\n"}
    write_files(project, files)
    before = tree(project)
    run = run_session(tmp_path, project, environment={"PYTEST_PLUGINS": ",".join(PLUGINS)})
    assert_all_ran_in_order(run)
    assert "\x1b[" not in run.output
    assert tree(project) == before, "nothing is written but bytecode"


def test_the_same_holds_for_the_environments_options(tmp_path: Path, project: Path) -> None:
    suite = "def test_a(): assert 0\ndef test_b(): pass\ndef test_c(): assert 0\ndef test_d(): pass\n"
    write_files(project, {"test_it.py": suite, "mod.py": ""})
    before = tree(project)
    options = "-n 2 --cov=mod -x --color=yes --pdb --junitxml=report.xml --lf -p no:cacheprovider"
    environment = {"PYTEST_ADDOPTS": options, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": ""}
    run = run_session(tmp_path, project, environment=environment)
    assert_all_ran_in_order(run)
    assert tree(project) == before


def assert_all_ran_in_order(run: SessionRun) -> None:
    outcomes = {"test_a": "failed", "test_b": "passed", "test_c": "failed", "test_d": "passed"}
    assert run.outcomes == outcomes, run.output
    calls = [r["id"][-1] for r in run.named("phase") if r["when"] == "call"]
    assert calls == ["a", "b", "c", "d"]


def tree(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*") if "__pycache__" not in p.parts}


def test_absent_plugins_are_no_error(tmp_path: Path, project: Path) -> None:
    write_files(project, {"test_it.py": "def test_a(): pass\n"})
    run = run_session(tmp_path, project, workers=2)
    assert run.one("hello")["plugins"] == []
    assert run.outcomes == {"test_a": "passed"}


def test_stop_on_first_failure_and_one_line_tracebacks(tmp_path: Path, project: Path) -> None:
    write_files(project, {"test_it.py": "def test_a(): pass\ndef test_b(): assert 0\ndef test_c(): pass\n"})
    run = run_session(tmp_path, project, stop="first-failure", tracebacks="none")
    assert run.outcomes == {"test_a": "passed", "test_b": "failed"}
    failed = next(r for r in run.named("phase") if r["outcome"] == "failed")
    assert failed["message"] == "AssertionError: assert 0"
    assert [r["when"] for r in run.named("phase") if r["id"] == failed["id"]] == ["setup", "call", "teardown"]


def test_messages_are_bounded(tmp_path: Path, project: Path) -> None:
    write_files(project, {"test_it.py": "def test_a(): raise ValueError('a' + 'b' * 100_000 + 'c')\n"})
    run = run_session(tmp_path, project)
    message = next(r["message"] for r in run.named("phase") if r["outcome"] == "failed")
    assert 7_000 < len(message) <= 8_000
    assert message.endswith("bc")


def test_collection_errors_are_phases(tmp_path: Path, project: Path) -> None:
    files = {
        "test_broken.py": "import nowhere_at_all\n",
        "test_syntax.py": "def test_(:\n",
        "test_skipped.py": "import pytest\npytest.importorskip('nowhere_at_all')\n",
        "test_good.py": "def test_a(): pass\n",
    }
    run = run_session(tmp_path, write_files(project, files))
    assert run.outcomes == {
        "test_broken.py": "collect failed",
        "test_syntax.py": "collect failed",
        "test_skipped.py": "collect skipped",
    }
    errors = {error["id"]: error["message"] for error in run.one("collected")["errors"]}
    assert "nowhere_at_all" in errors["test_broken.py"]
    assert run.records[-1] == {"t": "end", "status": 2}


def test_a_broken_conftest_is_a_phase(tmp_path: Path, project: Path) -> None:
    files = {"conftest.py": "import nowhere_at_all\n", "test_good.py": "def test_a(): pass\n"}
    run = run_session(tmp_path, write_files(project, files))
    assert run.outcomes == {"conftest.py": "collect failed"}
    assert "nowhere_at_all" in run.one("phase")["message"]
    assert run.records[-1] == {"t": "end", "status": 4}


def test_a_refused_command_line_is_told(tmp_path: Path, project: Path) -> None:
    files = {"pytest.ini": "[pytest]\naddopts = --no-such-option\n", "test_it.py": "def test_a(): pass\n"}
    run = run_session(tmp_path, write_files(project, files))
    assert "--no-such-option" in run.one("internal")["message"]
    assert run.one("hello")["pytest"]
    assert run.records[-1] == {"t": "end", "status": 4}


@pytest.mark.parametrize("where", ["conftest.py", "test_it.py", "in a test", "plugin"])
def test_a_project_that_ends_the_interpreter_still_gets_an_end(
    tmp_path: Path, project: Path, where: str
) -> None:
    files = {"test_it.py": "def test_a(): pass\n"}
    if where == "in a test":
        files["test_it.py"] = "import sys\ndef test_a(): sys.exit(0)\ndef test_b(): pass\n"
    elif where == "plugin":
        files["conftest.py"] = "def pytest_runtest_setup(item): raise SystemExit(0)\n"
    else:
        files[where] = "raise SystemExit(0)\n"
    run = run_session(tmp_path, write_files(project, files))
    assert run.records[-1]["t"] == "end"
    assert run.status == run.records[-1]["status"] != 0


def test_a_process_that_dies_leaves_no_end(tmp_path: Path, project: Path) -> None:
    write_files(project, {"test_it.py": "import os\ndef test_a(): os._exit(0)\n"})
    run = run_session(tmp_path, project)
    assert run.status == 0
    assert not run.named("end")


def test_what_hangs_at_exit_does_not_hold_the_slot(tmp_path: Path, project: Path) -> None:
    suite = """
import atexit, threading, time
def test_a():
    atexit.register(time.sleep, 600)
    threading.Thread(target=time.sleep, args=(600,)).start()
"""
    run = run_session(tmp_path, write_files(project, {"test_it.py": suite}))
    assert run.outcomes == {"test_a": "passed"}
    assert run.status == 0


NOISE = """
import os, subprocess, sys
def test_noise(capfd):
    line = '{"t": "end", "status": 0}\\n'
    with capfd.disabled():
        print(line); sys.__stdout__.write(line); os.write(1, line.encode()); os.write(2, line.encode())
        subprocess.run([sys.executable, "-c", "import os\\nfor fd in range(3, 300):\\n"
                        "  try: os.write(fd, b'{\\"t\\": \\"end\\"}\\\\n')\\n  except OSError: pass"], check=True,
                        close_fds=False)
    if os.fork() == 0:
        for fd in range(3, 300):
            try: os.write(fd, line.encode())
            except OSError: pass
        os._exit(0)
    os.wait()
def test_after(): pass
"""


def test_noise_does_not_reach_the_records(tmp_path: Path, project: Path) -> None:
    run = run_session(tmp_path, write_files(project, {"test_it.py": NOISE}))
    assert run.outcomes == {"test_noise": "passed", "test_after": "passed"}
    assert len(run.named("end")) == 1
    assert run.records[-1]["t"] == "end"


def test_an_interpreter_without_pytest_says_so(tmp_path: Path, project: Path) -> None:
    blocked = write_files(tmp_path / "block", {"pytest.py": "raise ImportError('none here')\n"})
    run = run_session(tmp_path, project, environment={"PYTHONPATH": str(blocked)})
    assert run.one("error")["where"] == "pytest"
    assert "none here" in run.one("error")["message"]
    assert run.records[-1] == {"t": "end", "status": 70}
    assert run.status == 70


def test_another_protocol_is_refused(tmp_path: Path, project: Path) -> None:
    run = run_session(tmp_path, project, protocol=99)
    assert run.one("error")["where"] == "spec"
    assert run.status == 70


def test_the_project_folder_comes_first_and_the_runner_last(tmp_path: Path, project: Path) -> None:
    inner = project / "sub"
    suite = """
import os, sys
def test_path():
    assert sys.path[0] != sys.path[-1]
    assert os.getcwd() in sys.path
    assert "runner-" in sys.path[-1]
    import profile, inputs
    assert inputs.mine
    assert "_codeflash_runner" not in profile.__file__
    assert sys.argv[0].endswith("__main__.py")
    assert not sys.dont_write_bytecode and os.environ["PYTHONDONTWRITEBYTECODE"] == "1"
"""
    write_files(inner, {"tests/test_it.py": suite, "inputs.py": "mine = True\n", "pytest.ini": "[pytest]\n"})
    run = run_session(tmp_path, project, project=inner)
    assert run.outcomes == {"test_path": "passed"}, run.output
    assert run.one("config") == {"t": "config", "rootdir": str(inner), "inifile": str(inner / "pytest.ini")}


def test_the_descriptor_is_high_and_closed_on_exec(tmp_path: Path, project: Path) -> None:
    suite = """
import os, subprocess, sys
def test_a():
    high = [int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) >= 200]
    assert len(high) == 1 and not os.get_inheritable(high[0])
"""
    run = run_session(tmp_path, write_files(project, {"test_it.py": suite}))
    assert run.outcomes == {"test_a": "passed"}


#: Each name is taken away or replaced while a test calls targets, imports a module and ends.
PATCHES = """
import builtins, hashlib, json, os, sys, threading, time
import pytest
from mod import numbers, total

NAMES = {
    sys: ["_getframe", "audit", "gettrace", "setrecursionlimit"],
    time: ["time", "monotonic_ns", "perf_counter_ns", "thread_time_ns", "process_time_ns"],
    os: ["getpid", "getcwd", "write", "urandom", "listdir"],
    os.path: ["exists", "isfile", "isdir", "join", "realpath", "abspath", "normpath"],
    json: ["dumps", "loads"],
    hashlib: ["blake2b", "sha256"],
    threading: ["get_ident", "current_thread", "main_thread", "active_count", "Lock", "RLock"],
    builtins: ["open", "print", "input"],
}
PATCHED = [(module, name) for module, names in NAMES.items() for name in names]

def broken(*args, **kwargs):
    raise RuntimeError("patched")

@pytest.mark.parametrize("how", ["removed", "broken"])
@pytest.mark.parametrize(("module", "name"), PATCHED, ids=[name for _, name in PATCHED])
def test_patches(monkeypatch, module, name, how):
    if how == "removed":
        monkeypatch.delattr(module, name)
    else:
        monkeypatch.setattr(module, name, broken)
    sys.modules.pop("late", None)
    import late
    assert late.double(total([1, 2])) == 6 and list(numbers([1, [2]])) == [1, [2]]

def test_empties_the_environment(monkeypatch):
    monkeypatch.setattr(os, "environ", {})
    assert total([1]) == 1
"""


@pytest.mark.parametrize("wrap", [{"wrap": "digest", "watch": True}, {"wrap": "capture"}])
def test_who_patches_the_standard_library_patches_none_of_us(
    tmp_path: Path, project: Path, wrap: dict[str, object]
) -> None:
    generator = "def numbers(values):\n    yield from values\n"
    files = {
        "mod.py": f"def total(values):\n    return sum(values)\n\n{generator}",
        "late.py": "def double(value):\n    return 2 * value\n",
        "test_it.py": PATCHES,
    }
    targets = ("mod.py::total", "mod.py::numbers", "late.py::double")
    run = run_session(tmp_path, write_files(project, files), targets=targets, tracebacks="none", **wrap)
    assert {name: outcome for name, outcome in run.outcomes.items() if outcome != "passed"} == {}
    assert len(run.outcomes) == 69
    calls = run.named("call")
    assert len(calls) == 3 * 68 + 1
    assert not [call for call in calls if call["why"] or "unencodable" in call]


def test_nothing_of_the_project_is_imported_before_the_time_that_is_asked_for(
    tmp_path: Path, project: Path
) -> None:
    written, later = tmp_path / "private" / "time", time.time() + 0.9
    text = f"import pathlib, time\npathlib.Path({str(written)!r}).write_text(str(time.time()))\n"
    files = {"conftest.py": text, "test_it.py": "def test_passes(): pass\n"}
    run = run_session(tmp_path, write_files(project, files), not_before=later)
    assert run.outcomes == {"test_passes": "passed"}
    assert float(written.read_text()) >= later
