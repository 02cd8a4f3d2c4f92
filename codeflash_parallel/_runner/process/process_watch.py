"""Audit events; in the first baseline run, tests that start processes.

There is one audit hook for all listeners: hooks stay for good, and each slows down every `id()` of a test.
"""

import os
import sys
from os import getpid
from sys import _getframe

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
