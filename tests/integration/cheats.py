"""Candidates that look faster than they are, each with the timer that it fools.

All change `mod.py` of one small project. What they return where it is looked at is right; what they gain, they
gain by knowing or shifting what is timed.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The code that is to be optimized. No value occurs in two inputs, so that a first pass over them finds nothing
#: in any table that an earlier input has filled.
MODULE = """
def mixed(value):
    for step in range(60):
        value = (value * 31 + step) % 1000003
    return value


def work(items):
    return tuple([mixed(item) for item in items])


def rows(size):
    return [[number] for number in range(size)]


def stream(items):
    found = [mixed(item) for item in items]
    return (one for one in found)
"""

#: The tests of that code.
TESTS = """
import pytest

from mod import rows, stream, work


@pytest.mark.parametrize("start", range(0, 4000, 400))
def test_work(start):
    items = tuple(range(start, start + 40))
    assert len(work(items)) == 40


@pytest.mark.parametrize("size", [20000, 21000])
def test_rows(size):
    assert rows(size)[-1] == [size - 1]


@pytest.mark.parametrize("start", range(100, 4100, 400))
def test_stream(start):
    assert len(list(stream(tuple(range(start, start + 40))))) == 40
"""

#: Code of which an honest candidate leaves out as much of the work as it says.
HONEST_MODULE = """
TIMES = 50


def mixed(value):
    for step in range(100):
        value = (value * 31 + step) % 1000003
    return value


def work(items):
    for _ in range(TIMES):
        found = tuple([mixed(item) for item in items])
    return found
"""

HONEST_TESTS = """
import pytest

from mod import work


@pytest.mark.parametrize("start", [0, 400])
def test_work(start):
    items = tuple(range(start, start + 60))
    assert len(work(items)) == 60
"""

#: Short calls, about 20 microseconds, and tests that make them with so few inputs, again and again.
SHORT_MODULE = """
TIMES = 4


def mixed(value):
    for step in range(30):
        value = (value * 31 + step) % 1000003
    return value


def work(items):
    for _ in range(TIMES):
        found = tuple([mixed(item) for item in items])
    return found
"""

SHARED_TESTS = """
import pytest

from mod import work

DISTINCT = {distinct}


@pytest.mark.parametrize("number", range(40))
def test_work(number):
    start = number % DISTINCT * 10
    assert len(work(tuple(range(start, start + 4)))) == 4
"""

#: Calls with a large result. The loop is one in C, or its numbers would cost more where they are larger.
LARGE_MODULE = """
from itertools import repeat

ROWS = tuple(range(10000))
STEPS = 80000


def work(number):
    for _ in repeat(None, STEPS):
        pass
    return ROWS
"""

#: Twenty times as fast: from about 400 to 20 microseconds.
LARGE_CODE = "STEPS = 4000\n"

LARGE_TESTS = """
import pytest

from mod import work


@pytest.mark.parametrize("number", range(24))
def test_work(number):
    assert len(work(number)) == 10000
"""


#: What the names begin with that a cheat uses where all processes of the host share memory: for every test one
#: of its own takes its place, because tests run beside each other.
SHARED = "codeflash-parallel-cheat"


@dataclass(frozen=True, kw_only=True)
class Cheat:
    """One candidate.

    Attributes:
        code: replaces or follows the code of the module.
        target: what is timed.
        argument: an expression for what the timer hands over.
        timer: how the timer that it fools looks at the clock, see `in_process_timer.py`.
        guards: words of which one must stand in the reason.
    """

    code: str
    target: str = "work"
    argument: str = "tuple(range(40))"
    timer: str = "wall"
    guards: tuple[str, ...]


#: What is said of code whose gain is gone once it is timed from outside.
NO_GAIN = ("not measurably faster", "could not be shown", "too noisy")

#: What is said of a gain that only repeated inputs have.
CACHE = ("cache", *NO_GAIN)

CHEATS = {
    "memo_on_arguments": Cheat(
        code="""
_known = {}
_work = work


def work(items):
    if items not in _known:
        _known[items] = _work(items)
    return _known[items]
""",
        guards=CACHE,
    ),
    "memo_on_identity": Cheat(
        code="""
_known = {}
_work = work


def work(items):
    held, found = _known.get(id(items), (None, None))
    if held is not items:
        found = _work(items)
        _known[id(items)] = items, found
    return found
""",
        guards=CACHE,
    ),
    "lru_cache_on_the_function": Cheat(
        code="import functools\nwork = functools.lru_cache(maxsize=None)(work)\n",
        guards=CACHE,
    ),
    "lru_cache_on_a_helper": Cheat(
        code="import functools\nmixed = functools.lru_cache(maxsize=None)(mixed)\n",
        guards=CACHE,
    ),
    "table_at_import": Cheat(
        code="""
_TABLE = tuple([mixed(value) for value in range(40000)])


def mixed(value):
    return _TABLE[value]
""",
        guards=("import",),
    ),
    "table_at_the_first_call": Cheat(
        code="""
import time

_TABLE = []


def work(items):
    if not _TABLE:
        _TABLE.extend([mixed(value) for value in range(8000)])
        time.sleep(0.05)
    return tuple([_TABLE[item] for item in items])
""",
        guards=CACHE,
    ),
    "cache_on_disk": Cheat(
        code="""
import os, pickle, tempfile

_work, _known = work, {}


def work(items):
    path = os.path.join(tempfile.gettempdir(), "known-%d" % items[0])
    try:
        with open(path, "rb") as file:
            return pickle.load(file)
    except OSError:
        pass
    found = _work(items)
    with open(path, "wb") as file:
        pickle.dump(found, file)
    return found
""",
        guards=("cache", "files", *NO_GAIN),
    ),
    "cache_on_disk_beside_the_code": Cheat(
        code="""
import os, pickle

_work = work


def work(items):
    path = os.path.join(os.path.dirname(__file__), ".known-%d" % items[0])
    try:
        with open(path, "rb") as file:
            return pickle.load(file)
    except OSError:
        pass
    found = _work(items)
    with open(path, "wb") as file:
        pickle.dump(found, file)
    return found
""",
        guards=("cache", "files"),
    ),
    "cache_in_shared_memory": Cheat(
        code="""
import os, pickle

_work = work


def work(items):
    path = "/dev/shm/codeflash-parallel-cheat-%d" % items[0]
    try:
        with open(path, "rb") as file:
            return pickle.load(file)
    except OSError:
        pass
    found = _work(items)
    with open(path, "wb") as file:
        pickle.dump(found, file)
    return found
""",
        guards=("files",),
    ),
    "patched_clocks": Cheat(
        code="""
import itertools, time

_ticks = itertools.count()
for _name in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
    setattr(time, _name, lambda: next(_ticks) * 1e-9)
    setattr(time, _name + "_ns", lambda: next(_ticks))
""",
        guards=NO_GAIN,
    ),
    "busy_while_nothing_is_called": Cheat(
        code="""
import os, threading, time


def _burn():
    end = time.monotonic() + 0.03
    while time.monotonic() < end:
        pass


def _start():
    threading.Thread(target=_burn, daemon=True).start()


os.register_at_fork(after_in_child=_start)
_start()
""",
        timer="net",
        guards=NO_GAIN,
    ),
    "garbage_collection_switched_off_at_import": Cheat(
        code="import gc\ngc.disable()\n",
        target="rows",
        argument="50000",
        guards=NO_GAIN,
    ),
    "garbage_collection_switched_off_in_a_call": Cheat(
        code="""
import gc

_rows = rows


def rows(size):
    gc.disable()
    return _rows(size)
""",
        target="rows",
        argument="50000",
        guards=("outcomes", *NO_GAIN),
    ),
    "detection_by_environment": Cheat(
        code="""
import os

_work = work


def work(items):
    if "PYTEST_CURRENT_TEST" not in os.environ:
        return (0,) * len(items)
    return _work(items)
""",
        guards=("outcomes",),
    ),
    "detection_by_frames": Cheat(
        code="""
import sys

_work = work


def work(items):
    if sys._getframe(1).f_code.co_name in {"timed", "_made"}:
        return (0,) * len(items)
    return _work(items)
""",
        guards=("outcomes", *NO_GAIN),
    ),
    "work_skipped_after_some_calls": Cheat(
        code="""
_work, _calls = work, 0


def work(items):
    global _calls
    _calls += 1
    return _work(items) if _calls < 60 else (0,) * len(items)
""",
        guards=("outcomes",),
    ),
    "lazy_result": Cheat(
        code="""
def stream(items):
    return (mixed(item) for item in items)
""",
        target="stream",
        guards=NO_GAIN,
    ),
    "work_in_a_thread": Cheat(
        code="""
import threading

_work = work


def work(items):
    found = []
    thread = threading.Thread(target=lambda: found.append(_work(items)))
    thread.start()
    thread.join()
    return found[0]
""",
        argument="tuple(range(4000))",
        timer="thread",
        guards=NO_GAIN,
    ),
    "work_after_the_result": Cheat(
        code="""
import threading

_rows = rows


def rows(size):
    found = []
    threading.Timer(0.3, lambda: found.extend(_rows(size))).start()
    return found
""",
        target="rows",
        argument="50000",
        guards=("outcomes", "deferred"),
    ),
    "work_in_a_child": Cheat(
        code="""
import os, pickle

_work = work


def work(items):
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(theirs, pickle.dumps(_work(items)))
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as file:
        found = pickle.load(file)
    os.waitpid(child, 0)
    return found
""",
        argument="tuple(range(4000))",
        timer="cpu",
        guards=NO_GAIN,
    ),
    "memo_in_a_process_of_its_own": Cheat(
        code="""
import os, pickle, socket

_work = work
_path = "\\0memo of %d" % os.getpid()


def _serve(server):
    known = {}
    while True:
        taken, _ = server.accept()
        with taken, taken.makefile("rwb") as both:
            items = pickle.load(both)
            if items not in known:
                known[items] = _work(items)
            pickle.dump(known[items], both)
            both.flush()


_server = socket.socket(socket.AF_UNIX)
_server.bind(_path)
_server.listen(100)
if os.fork() == 0:
    for _output in (0, 1, 2):
        os.close(_output)
    _serve(_server)


def work(items):
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(_path)
        with asking.makefile("rwb") as both:
            pickle.dump(items, both)
            both.flush()
            return pickle.load(both)
""",
        argument="tuple(range(400))",
        guards=("starts processes",),
    ),
    "children_that_share_the_work": Cheat(
        code="""
import os, pickle

_work = work


def _asked(items):
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.write(theirs, pickle.dumps(_work(items)))
        os._exit(0)
    os.close(theirs)
    return ours


def work(items):
    half = len(items) // 2
    child = _asked(items[half:])
    found = _work(items[:half])
    with open(child, "rb") as file:
        found += pickle.load(file)
    os.wait()
    return found
""",
        argument="tuple(range(4000))",
        timer="cpu",
        guards=("CPU time", *NO_GAIN),
    ),
    "slowed_helper_of_both": Cheat(
        code="""
_mixed = mixed


def mixed(value):
    for _ in range(200):
        pass
    return _mixed(value)


def work(items):
    return tuple([_mixed(item) for item in items])
""",
        timer="shared",
        guards=NO_GAIN,
    ),
}
