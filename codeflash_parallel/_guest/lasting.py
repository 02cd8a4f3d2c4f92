"""A second look at what calls gave, when all calls are made: a result must stay what it was.

Whoever reuses one buffer, or has a thread, a signal or the collector come back to it, spoils what a caller
still holds. What is looked at is kept alive meanwhile, so only as much of it as is quick to encode.
"""

import gc
import signal
import sys
import threading
import time

from .encode import digest_raise, digest_return

#: CPU time of the first look at all that is kept; the second takes as much.
_KEPT_NS = 150_000_000
#: Threads that calls have left behind get so many seconds to end.
_PATIENCE_S = 0.25
#: Who is seen idle so often, one time after the other, is so.
_OFTEN = 5
_FIXED = frozenset({int, float, complex, bool, str, bytes, type(None)})


class Lasting:
    """What calls gave, and whether it is still that."""

    def __init__(self):
        self._kept, self._left_ns = [], _KEPT_NS
        self._threads = frozenset(sys._current_frames())

    def keep(self, index, outcome, args, kwargs, fields, ns):
        """Keep what a call gave and its arguments, unless nothing in them can change.

        Args:
            fields: what the first look gave.
            ns: the CPU time that it took.
        """
        parts = (outcome, *args, *kwargs.values())
        if self._left_ns <= 0 or not fields["digest"] or _FIXED.issuperset(map(type, parts)):
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
        """Return where the threads are that were not there at first."""
        frames = sys._current_frames()
        return [frames[one] for one in frames.keys() - self._threads - {threading.get_ident()}]

    def _busy(self):
        """Say whether one of them does something; those of a pool wait for work."""
        return not all(map(_is_idle, self._new()))


def _is_idle(frame):
    """Say whether a thread waits for work in one of the standard library's pools."""
    executors, pools = map(sys.modules.get, ("concurrent.futures.thread", "multiprocessing.pool"))
    waiting = getattr(getattr(executors, "_worker", None), "__code__", None)
    if frame.f_code is waiting:
        return True
    file = getattr(pools, "__file__", None)
    while frame is not None and file is not None:
        if frame.f_code.co_filename == file:
            return frame.f_code.co_name in _POOL and frame.f_locals.get("task") is None
        frame = frame.f_back
    return False


#: The loops of a pool's threads.
_POOL = frozenset({"worker", "_handle_workers", "_wait_for_updates", "_handle_tasks", "_handle_results"})


def _is_same(outcome, args, kwargs, fields):
    look = digest_raise if fields["kind"] == "raise" else digest_return
    again = look(outcome, args, kwargs)
    return (again["digest"], again["after"]) == (fields["digest"], fields["after"])
