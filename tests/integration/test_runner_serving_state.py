"""A fork looks like a process of its own to the tests in it, and a template that could not be forked says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from runner_sessions import PYTHONS
from serving_lab import POINTS, Gate, ServingLab, anyio_backend, lab, last_words, open_lab

from codeflash_parallel.result.runtime_protocols import ServerGone

__all__ = ["anyio_backend", "lab"]
pytestmark = pytest.mark.anyio

MODULE = "def f(x): return x + 1\n"


#: Each test prints what it sees, and fails so that the text is in its record.
LOOKING = """
import gc, json, os, random, resource, signal, sys, threading
from mod import f

def tell(*things): raise AssertionError(json.dumps(things))

def links():
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + number)
        except OSError:
            continue
        if not target.endswith("/fd"):
            # A capture's file has no name; that of a fork lies in memory.
            nameless = target.endswith(" (deleted)")
            found[number] = "nameless" if nameless else target.partition(":")[0].partition("/pytest-")[0]
    return found

def test_descriptors(): tell(sorted(links().items()))
def test_offsets():
    tell({n: os.lseek(int(n), 0, 1) for n, t in sorted(links().items()) if t not in ("pipe", "socket", "/dev/null")})
def test_name(): tell(os.environ["CODEFLASH_PARALLEL_RUNNER_SPEC"].count("/"), os.getpid() == os.getsid(0))
def test_marker():
    with open("/proc/self/environ", "rb") as file:
        block = dict(item.partition("=")[::2] for item in file.read().decode().split("\\0"))
    name = "CODEFLASH_PARALLEL_JOB"
    assert block.get(name) == os.environ.get(name) and block.get(name)
    assert set(block) <= set(os.environ) | {""}
    limit = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
    tell(len(block[name]), limit[0] == limit[1])
def test_collector(): tell(gc.get_threshold(), gc.isenabled())
def test_threads(): tell(threading.active_count(), threading.current_thread() is threading.main_thread())
def test_limits(): tell(resource.getrlimit(resource.RLIMIT_CORE), sys.getrecursionlimit())
def test_signals(): tell({n: str(signal.getsignal(n)) for n in sorted(signal.valid_signals())})
def test_times(): tell(os.times().user < 20, sys.argv[0].rpartition("/")[2], os.getcwd(), sys.flags.hash_randomization)
def test_random(): tell(random.random())
def test_path(): tell(sys.path, [type(finder).__name__ for finder in sys.meta_path])
def test_modules(): tell([n for n in sys.modules if n.startswith("_codeflash_runner.") and "serving" in n and 0])
"""


@pytest.mark.parametrize("python", PYTHONS)
async def test_what_tests_see(tmp_path: Path, python: str) -> None:
    async with open_lab(tmp_path, python=python) as lab:
        lab.write(conftest="import random\nrandom.seed(3)\nrandom.random()\n", mod=MODULE, test_it=LOOKING)
        new_process = await lab.new_process(tracebacks="none")
        for until, gate in POINTS:
            async with lab.server(until, gate=gate) as server:
                assert not server.ready.unfit
                for _ in range(2):
                    run = await lab.fork(server, tracebacks="none")
                    assert told(run) == told(new_process)


def told(run) -> dict[str, str]:
    return {
        record["id"].partition("::")[2]: record["message"]
        for record in run.named("phase")
        if "message" in record
    }


async def test_chance(lab: ServingLab) -> None:
    lab.write(
        mod=MODULE, test_it="import random\nfrom mod import f\ndef test_it(): assert random.random() < 0\n"
    )
    async with lab.server() as server:
        seen = {str(told(await lab.fork(server))) for _ in range(3)}
    assert len(seen) == 3


NUMPY = """
class Generator:
    def __init__(self): self.seed()
    def seed(self, seed=None):
        import os
        self.state = int.from_bytes(os.urandom(8), "big") if seed is None else seed
    def get_state(self): return ("X", self.state)
_rand = Generator()
"""


@pytest.mark.parametrize("seed", ["", "mtrand._rand.seed(5)"])
async def test_chance_of_numpy(lab: ServingLab, seed: str) -> None:
    site = lab.base / "site" / "numpy" / "random"
    site.mkdir(parents=True)
    (site.parent / "__init__.py").write_text("")
    (site / "__init__.py").write_text("from . import mtrand, other\n")
    (site / "mtrand.py").write_text(NUMPY)
    (site / "other.py").write_text("")
    lab.environment["PYTHONPATH"] = str(lab.base / "site")
    conftest = f"from numpy.random import mtrand\n{seed}\n"
    test = (
        "from numpy.random import mtrand\nfrom mod import f\ndef test_it(): assert not mtrand._rand.state\n"
    )
    lab.write(conftest=conftest, mod=MODULE, test_it=test)
    async with lab.server() as server:
        assert not server.ready.unfit
        seen = {str(told(await lab.fork(server))) for _ in range(3)}
    assert len(seen) == (1 if seed else 3)


BUSY = """
import faulthandler, multiprocessing, os, subprocess, sys, threading
import pytest
from mod import f

def double(x): return f(x) * 2

def test_fork():
    pid = os.fork()
    if pid == 0:
        print("in the child")
        os._exit(f(1))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_multiprocessing(method):
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(double, [1, 2]) == [4, 6]
def test_python():
    code = "import mod; print(mod.f(1))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "2\\n"
def test_threads():
    found = []
    threads = [threading.Thread(target=lambda: found.append(f(1))) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert found == [2] * 4
def test_capfd(capfd):
    os.system("echo hello")
    assert capfd.readouterr().out == "hello\\n"
def test_crash_dump():
    with open("dump", "w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        assert "test_crash_dump" in file.read()
def test_inner_session(pytester):
    pytester.makepyfile("def test_inner(): pass")
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
"""


@pytest.mark.parametrize("python", PYTHONS)
async def test_what_tests_do(tmp_path: Path, python: str) -> None:
    async with open_lab(tmp_path, python=python) as lab:
        lab.write(conftest="pytest_plugins = ['pytester']\n", mod=MODULE, test_it=BUSY)
        new_process = await lab.new_process()
        assert set(new_process.outcomes.values()) == {"passed"}, new_process.outcomes
        for until, gate in POINTS:
            async with lab.server(until, gate=gate) as server:
                assert not server.ready.unfit
                for _ in range(2):
                    run = await lab.fork(server)
                    assert run.outcomes == new_process.outcomes
                    assert last_words(run) == {"t": "end", "status": 0}
                    assert not run.exit.leaked


async def test_a_fork_that_crashes_tells_where(lab: ServingLab) -> None:
    lab.write(
        mod="import ctypes\ndef f(x): ctypes.string_at(0)\n",
        test_it="from mod import f\ndef test_it(): f(1)\n",
    )
    async with lab.server() as server:
        run = await lab.fork(server)
    assert run.status == -11
    assert "Segmentation fault" in run.exit.stderr
    assert "test_it" in run.exit.stderr


async def test_the_working_directory_is_one_that_is_there(lab: ServingLab) -> None:
    lab.write(
        conftest="import os\nos.makedirs('deep', exist_ok=True)\nos.chdir('deep')\n",
        mod=MODULE,
        test_it="import os\nfrom mod import f\ndef test_it(): open('made', 'x'); assert os.listdir() == ['made']\n",
    )
    async with lab.server() as server:
        for _ in range(2):
            assert (await lab.fork(server)).outcomes == {"test_it": "passed"}
            (lab.root / "deep/made").unlink()
            (lab.root / "deep").rmdir()
            (lab.root / "deep").mkdir()


async def test_lines_of_tracebacks_are_those_of_the_file_now(lab: ServingLab) -> None:
    lab.write(
        conftest="import linecache, os\nlinecache.getline(os.path.abspath('mod.py').replace('mod', 'test_it'), 1)\n",
        mod="def f(x):\n    raise OSError('one')\n",
        test_it="from mod import f\ndef test_it(): f(1)\n",
    )
    async with lab.server() as server:
        for text in ("raise OSError('two')", "raise OSError('three')  # here"):
            lab.write(mod=f"def f(x):\n\n    {text}\n")
            for tracebacks in ("short", "native"):
                run = await lab.fork(server, tracebacks=tracebacks)
                assert text in told(run)["test_it"]


async def test_a_target_that_only_a_test_imports(lab: ServingLab) -> None:
    lab.write(mod=MODULE, test_it="def test_it():\n    import mod\n    assert mod.f(1) == 2\n")
    async with lab.server() as server:
        assert not server.ready.unfit
        lab.write(mod="def f(x): return 0\n")
        run = await lab.fork(server)
        assert run.outcomes == {"test_it": "failed"}
        assert run.one("source")["path"] == "mod.py"
        second = await server.advance("collected", 60)
        assert second.ready.point == "collected"
        run = await lab.fork(second)
        assert run.outcomes == {"test_it": "failed"}
        assert run.one("source")["path"] == "mod.py"
        await second.close()


async def test_without_a_gate_changes_everywhere_are_seen(lab: ServingLab) -> None:
    lab.write(conftest="import helper\n", helper="N = 1\n", pkg____init__="", pkg__one="N = 1\n", mod=MODULE)
    lab.write(
        test_it="import helper, pkg.one\nfrom mod import f\ndef test_it(): assert (helper.N, pkg.one.N) == (1, 1)\n"
    )
    async with lab.server("imported", gate=()) as server:
        assert not server.ready.unfit
        assert (await lab.fork(server)).outcomes == {"test_it": "passed"}
        lab.write(helper="from pkg.new import N\n", pkg__new="N = 2\n", conftest="import pytest, helper\n")
        assert "assert (2, 1) == (1, 1)" in told(await lab.fork(server))["test_it"]


UNFIT = {
    "import threading\nthreading.Thread(target=threading.Event().wait, name='waiter', daemon=True).start()": (
        "a thread is started before the target is imported: waiter"
    ),
    "import socket\nS = socket.socketpair()": "a socket is opened before the target is imported",
    "import os\nP = os.pipe()": "a pipe is opened before",
    "import os\nP = os.posix_spawn('/bin/sleep', ['sleep', '600'], {})": "a child process is started before",
    "import subprocess\nsubprocess.run(['true'])": "a process is started before the target is imported: true",
    "import select\nE = select.epoll()": "a descriptor that forks would share is opened before .*: eventpoll",
    "import asyncio\nL = asyncio.new_event_loop()": "before the target is imported",
    "import tempfile\nD = tempfile.mkdtemp()": "a temporary file is made before .*: tmp/",
    "F = open('log', 'w')": "a file is opened for writing before .*/log",
    "import mmap\nM = mmap.mmap(-1, 4096)": "memory is shared with other processes before",
    "import os, mmap\nN = os.memfd_create('sem.mine')\nos.truncate(N, 4096)\nM = mmap.mmap(N, 4096)": (
        "memory is shared with other processes before"
    ),
    "SOURCE = open('mod.py').read()": "a file that candidates change is read before the target is imported: mod.py",
    "import pathlib\nSOURCE = pathlib.Path('mod.py').read_bytes()": "a file that candidates change is read",
}


@pytest.mark.parametrize("conftest", UNFIT)
async def test_what_makes_a_template_unfit(lab: ServingLab, conftest: str) -> None:
    lab.write(conftest=conftest, mod=MODULE, test_it="from mod import f\ndef test_it(): assert f(1) == 2\n")
    async with lab.server() as server:
        assert server.ready.unfit
        assert re.search(UNFIT[conftest], server.ready.unfit), server.ready.unfit
        with pytest.raises(ServerGone, match="before the target is imported"):
            await lab.fork(server)
    async with lab.server("imported", gate=()) as server:
        assert not server.ready.unfit
        assert (await lab.fork(server)).outcomes == {"test_it": "passed"}


LOCKED = """
import multiprocessing
LOCK = multiprocessing.get_context("fork").Lock()
def f(x): return x + 1
"""


async def test_a_semaphore_without_a_name_is_each_fork_s_own(lab: ServingLab) -> None:
    holding = "from mod import LOCK\ndef test_it(): assert LOCK.acquire(timeout=10)\n"
    lab.write(mod=LOCKED, conftest=LOCKED, test_it=holding)
    async with lab.server() as server:
        assert not server.ready.unfit
        collected = await server.advance("collected", 60)
        assert not collected.ready.unfit
        for _ in range(2):  # the first one ends with the lock in its hands
            assert (await lab.fork(collected)).outcomes == {"test_it": "passed"}
        assert (await lab.fork(server)).outcomes == {"test_it": "passed"}
        await collected.close()


@pytest.mark.parametrize(("until", "gate"), POINTS[:2])
async def test_a_template_that_does_not_get_there(lab: ServingLab, until: str, gate: Gate) -> None:
    lab.write(mod=MODULE, test_it="from mod import f\n")
    with pytest.raises(ServerGone, match="no_such_option"):
        await lab.start(until, gate=gate, args=["--no_such_option"])


async def test_a_plugin_that_collects_in_its_own_way(lab: ServingLab) -> None:
    conftest = """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    collector = pytest.Module.from_parent(session, path=session.path / "test_it.py")
    session.items = list(session.genitems(collector))
    session.testscollected = len(session.items)
    return True
"""
    lab.write(conftest=conftest, mod=MODULE, test_it="def test_it():\n  import mod\n  assert mod.f(1) == 2\n")
    async with lab.server() as server:
        lab.write(mod="def f(x): return 0\n")
        assert (await lab.fork(server)).outcomes == {"test_it": "failed"}


async def test_workers_of_xdist_are_not_served(lab: ServingLab) -> None:
    lab.write(mod=MODULE, test_it="import mod\ndef test_it(): pass\n")
    with pytest.raises(ServerGone, match="cannot be forked for xdist's workers"):
        await lab.start("imported", workers=2)
