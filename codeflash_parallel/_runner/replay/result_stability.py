"""A second look at what calls gave, when all calls are made: a result must stay what it was.

Whoever reuses one buffer, or has a thread, a signal or the collector come back to it, spoils what a caller
still holds. What is looked at is kept alive meanwhile, so only as much of it as is quick to encode.
"""

import _thread
import faulthandler
import gc
import linecache
import os
import re
import signal
import sys
import threading
import time

from ..values.value_digests import digest_raise, digest_return

#: CPU time of the first look at all that is kept; the second takes as much.
_KEPT_NS = 150_000_000
#: Threads that calls have left behind get so many seconds to end.
_PATIENCE_S = 0.25
#: Who is seen idle so often, one time after the other, is so.
_OFTEN = 5
_FIXED = frozenset({int, float, complex, bool, str, bytes, type(None)})


class ResultStability:
    """What calls gave, and whether it is still that.

    Attributes:
        unseen: numbers of the calls that there was no more time for: which ones differs from run to run.
    """

    def __init__(self):
        self._kept, self._left_ns, self.unseen = [], _KEPT_NS, []
        self._threads = frozenset(_stacks())

    def keep(self, index, outcome, args, kwargs, fields, ns):
        """Keep what a call gave and its arguments, unless nothing in them can change.

        Args:
            fields: what the first look gave.
            ns: the CPU time that it took.
        """
        parts = (outcome, *args, *kwargs.values())
        if not (fields["digest"] and fields["after"]) or _FIXED.issuperset(map(type, parts)):
            return
        if self._left_ns <= 0:
            self.unseen.append(index)
            return
        self._left_ns -= ns
        self._kept.append((index, outcome, args, kwargs, fields))

    def more(self):
        """Let as much be kept again: other calls follow."""
        self._left_ns = _KEPT_NS

    def spoiled(self):
        """Return the numbers of the calls of which the result, or an argument, is not what it was."""
        gc.collect()  # whoever waits for it
        return [kept[0] for kept in self._kept if not _is_same(*kept[1:])]

    def left(self):
        """Wait for threads that the calls have started, and say what is still to come."""
        until, idle = time.monotonic() + _PATIENCE_S, 0
        # What was given to a pool is not yet in the hands of its threads.
        while self._new() and idle < _OFTEN and time.monotonic() < until:
            idle = 0 if self._busy() else idle + 1
            time.sleep(0.002)
        timers = [signal.getitimer(which)[0] for which in (signal.ITIMER_REAL, signal.ITIMER_PROF)]
        found = ["threads: left running"] if self._busy() else []
        return found + (["signals: a timer is left running"] if any(timers) else [])

    def _new(self):
        """Return what the threads do that were not there at first."""
        return [stack for thread, stack in _stacks().items() if thread not in self._threads]

    def _busy(self):
        """Say whether one of them does something; those of a pool wait for work."""
        return not all(map(_is_idle, self._new()))


_THREAD = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)")
_CALL = re.compile(r'  File "(.*)", line (\d+) in (.*)')


def _stacks():
    """Return the calls of all other threads, the innermost first, as (file, line, function), by thread.

    Read from a dump: to hold frames of threads that run ends Python 3.12 and 3.13 now and then.
    """
    if not _thread._count():
        return {}
    stacks, calls = {}, []
    for line in _dumped().splitlines():
        thread, call = _THREAD.match(line), _CALL.match(line)
        if thread:
            calls = stacks.setdefault(int(thread[1], 16), [])
        elif call:
            calls.append((call[1], int(call[2]), call[3]))
    stacks.pop(threading.get_ident(), None)
    return stacks


def _dumped():
    try:
        descriptor = os.memfd_create("stacks")
    except OSError:  # whoever has used up the descriptors is told so by his own calls
        return ""
    try:
        faulthandler.dump_traceback(descriptor, all_threads=True)
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _is_idle(stack):
    """Say whether a thread waits for work in one of the standard library's pools."""
    executors, pools = map(sys.modules.get, ("concurrent.futures.thread", "multiprocessing.pool"))
    if stack and stack[0][0] == getattr(executors, "__file__", None):
        return stack[0][2] == "_worker" and ".get" in linecache.getline(*stack[0][:2])
    file = getattr(pools, "__file__", None)
    return next((_waits(*call) for call in stack if call[0] == file), False)


def _waits(file, line, name):
    """Say whether a loop of a pool waits."""
    if name in _GETTING:
        return linecache.getline(file, line).strip() == "task = get()"
    return name in _WATCHING


#: Loops of a pool's threads: those that get tasks or results one by one, and those that wait for the others.
_GETTING = frozenset({"worker", "_handle_results"})
_WATCHING = frozenset({"_handle_workers", "_wait_for_updates", "_handle_tasks"})


def _is_same(outcome, args, kwargs, fields):
    look = digest_raise if fields["kind"] == "raise" else digest_return
    try:
        again = look(outcome, args, kwargs)
    except Exception:  # a view that was released meanwhile, say
        return False
    return (again["digest"], again["after"]) == (fields["digest"], fields["after"])
