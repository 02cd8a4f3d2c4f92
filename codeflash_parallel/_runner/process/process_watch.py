"""Watch on this process: audit events, tests that start processes, fitness to be forked.

There is one audit hook for all listeners: hooks stay for good, and each slows down every `id()` of a test.

A fork should be like a process that came to the same point by itself. Memory is copied; threads, shared
pages and what lies behind sockets and pipes are not. Each finding of `ForkSafety` is one clause, which the
evaluator shows as the reason for a slower way.
"""

import os
import stat
import sys
import threading
from os import getpid
from sys import _getframe

from . import process_fork, shared_memory

_LISTENERS = {}
_INSTALLED = []

#: Audit events of starting a process or becoming another program.
STARTS = frozenset(
    {
        "subprocess.Popen",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.system",
        "os.exec",
        "os.spawn",
        "pty.spawn",
    }
)

#: Programs that tell libraries about the machine while these are imported (`ctypes.util`, `platform`, with
#: them trio and many others); none of them runs code of the project.
_TOOLS = frozenset(
    {"ldconfig", "ld", "gcc", "cc", "objdump", "uname", "file", "nproc", "lscpu", "lsb_release"}
)


def listen(events, tell):
    """Have `tell` called with name and arguments of audit events; the frame that raised one is two up."""
    if not _INSTALLED:
        _INSTALLED.append(True)
        sys.addaudithook(_hook)
    for event in events:
        _LISTENERS[event] = [*_LISTENERS.get(event, ()), tell]


def _hook(event, args):
    if event in _LISTENERS:
        for tell in _LISTENERS[event]:
            tell(event, args)


def is_tool(event, args):
    """Say whether an audit event starts a program that only tells something about the machine."""
    if event not in ("subprocess.Popen", "os.posix_spawn"):
        return False
    program = args[0]
    return isinstance(program, (str, bytes)) and os.path.basename(os.fsdecode(program)) in _TOOLS


def _wrap_multiprocessing(tell):
    """Watch the primitive that `multiprocessing` uses to spawn: it raises no audit event."""
    import _posixsubprocess

    fork_exec = _posixsubprocess.fork_exec

    def watched(*args):
        # `subprocess` has raised its audit event.
        if _getframe(1).f_globals.get("__name__") != "subprocess":
            tell()
        return fork_exec(*args)

    _posixsubprocess.fork_exec = watched


class SubprocessWatch:
    """Pytest plugin of the first baseline run.

    Writes a "spawned" record, once, for each test that starts processes or runs while such a one lives (an
    empty id: something outside of tests does). Costs one Python call for each audit event, and nothing a test
    until a process is started.
    """

    def __init__(self, channel):
        self._channel = channel
        self._test, self._told, self._pid = "", set(), getpid()
        self._started = False
        listen(STARTS, self._process_started)
        _wrap_multiprocessing(self._tell)

    def pytest_runtest_logstart(self, nodeid):
        """Attribute what is started from now on to a test."""
        self._test = nodeid
        if self._started and nodeid not in self._told and has_children():
            # A server that an earlier test's fixture started may run the target for this one, too.
            self._tell()

    def pytest_runtest_logfinish(self):
        """Attribute it to none."""
        self._test = ""

    def _process_started(self, event, args):
        if not is_tool(event, args):
            self._tell()

    def _tell(self):
        self._started = True
        if self._test not in self._told and getpid() == self._pid:
            self._told.add(self._test)
            self._channel.write("spawned", id=self._test)


def has_children():
    """Say whether this process has children, besides the resource tracker of `multiprocessing`."""
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    own = str(getattr(getattr(tracker, "_resource_tracker", None), "_pid", None))
    return any(child != own for child in _children())


def _children():
    for thread in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/children" % thread) as file:
                yield from file.read().split()
        except OSError:
            # The thread has just ended, or this kernel does not list children: there may be some.
            yield "?"


#: Folders below the private one that are emptied between candidates. Those for caches are not among them: a
#: library that fills one while it is imported (matplotlib) copes with an empty one.
_FOLDERS = ("home", "tmp", "run", "data", "state", "basetemp")

#: Fork points (`check.dispatch.fork_points`), and the words of a finding for the way there.
IMPORTED, COLLECTED = "imported", "collected"
_WHEN = {IMPORTED: "before the target is imported", COLLECTED: "before the first test runs"}


class ForkSafety:
    """The process as it was at its start; `complaint` compares."""

    def __init__(self, private):
        self._private = private
        self._ours = set()
        self._files = frozenset(self._made())

    def ours(self, *numbers):
        """Note descriptors that come from the evaluator or the launcher."""
        self._ours.update(map(process_fork.identity, numbers))

    def complaint(self, point, seen):
        """Return why this process is not fit to be forked at a point, as one clause; "" when it is.

        Args:
            seen: the finding of an `EarlyReadWatch`.
        """
        for finding in (*self._findings(), seen):
            if finding:
                what, _, detail = finding.partition(": ")
                return "%s %s%s" % (what, _WHEN[point], ": " + detail if detail else "")
        return ""

    def _findings(self):
        yield _thread()
        yield _child()
        yield from map(self._descriptor, process_fork.open_numbers())
        yield _shared_memory()
        yield self._file()

    def _descriptor(self, number):
        if process_fork.identity(number) in self._ours:
            return ""
        mode, place = os.fstat(number).st_mode, os.readlink("/proc/self/fd/%d" % number)
        if stat.S_ISSOCK(mode):
            return "a socket is opened"
        if stat.S_ISFIFO(mode):
            return "a pipe is opened"
        if place.startswith("anon_inode:"):
            return "a descriptor that forks would share is opened: " + place.partition(":")[2].strip("[]")
        if stat.S_ISREG(mode) and os.fstat(number).st_nlink and process_fork.is_writable(number):
            return "a file is opened for writing: " + place
        return ""

    def _file(self):
        for path in self._made():
            if path not in self._files:
                return "a temporary file is made: " + os.path.relpath(path, self._private)
        return ""

    def _made(self):
        for name in _FOLDERS:
            for folder, folders, files in os.walk(os.path.join(self._private, name)):
                for entry in folders + files:
                    yield os.path.join(folder, entry)


class EarlyReadWatch:
    """Notes the first read of a file that candidates change, or start of a process, before the fork point.

    Args:
        is_changing: says of a path whether candidates change it.
    """

    def __init__(self, is_changing):
        self.finding = ""
        self.is_on = False
        self._is_changing = is_changing
        self._among_project = False
        listen(["open", *STARTS], self._hear)

    def enter_project(self):
        """Note that code of the project runs from now on: a process that a plugin has started is harmless."""
        self._among_project = True

    def _hear(self, event, args):
        if not self.is_on or self.finding:
            return
        if event == "open":
            self._opened(args[0])
        elif event in STARTS and self._among_project and not is_tool(event, args):
            program = os.path.basename(os.fsdecode(args[0])) if event == "subprocess.Popen" else event
            self.finding = "a process is started: " + program

    def _opened(self, name):
        path = "" if isinstance(name, int) else os.path.realpath(os.fsdecode(name))
        if path.endswith(".py") and self._is_changing(path):
            self.finding = "a file that candidates change is read: " + os.path.basename(path)


def _thread():
    tasks = os.listdir("/proc/self/task")
    if len(tasks) == 1:
        return ""
    names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    return "a thread is started: " + (names[0] if names else "one of a library")


def _child():
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return ""
    return "a child process is started"


def _shared_memory():
    _, is_shared = shared_memory.shared()
    return "memory is shared with other processes" if is_shared else ""
