"""Limits of one call with a derived input: CPU time, and memory of the process that tries inputs out."""

import contextlib
import resource
import signal
from _signal import setitimer as set_timer
from _signal import signal as set_handler

#: CPU seconds of one call, on the baseline and on candidates alike; the calls that are kept take far less.
CALL_S = 1.0


class CallTimeout(BaseException):
    """A call with a derived input has used its CPU time (no `Exception`: the project must not catch it)."""


#: Seconds that the baseline may wait in one call that is tried out: for other inputs it may wait for ever.
WAIT_S = 1.0


#: As numbers: a name of `signal` costs as much as setting the timer.
_SIGALRM, _SIGVTALRM = int(signal.SIGALRM), int(signal.SIGVTALRM)
#: Python code is given so much longer, in CPU seconds, to be ended by an exception.
_LATE_S = 0.2


def awaited(seconds=WAIT_S):
    """End what runs inside by `CallTimeout` when so much time has passed, even if it waits."""
    return _EndedBy(_SIGALRM, signal.ITIMER_REAL, seconds)


def limited(seconds=CALL_S):
    """End what runs inside by `CallTimeout` once it has used so much CPU time (when Python code runs)."""
    return _EndedBy(_SIGVTALRM, signal.ITIMER_VIRTUAL, seconds)


@contextlib.contextmanager
def mortal(seconds=CALL_S):
    """End the process once what runs inside has used much more CPU time than that, Python code or not."""
    signal.setitimer(signal.ITIMER_PROF, seconds + _LATE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class _EndedBy:
    """Ends what runs inside by the signal of a timer; a class because thousands of calls are made in it."""

    __slots__ = ("_before", "_number", "_seconds", "_timer")

    def __init__(self, number, timer, seconds):
        self._number, self._timer, self._seconds = number, timer, seconds

    def __enter__(self):
        self._before = set_handler(self._number, _raise)
        set_timer(self._timer, self._seconds, self._seconds)

    def __exit__(self, *raised):
        set_timer(self._timer, 0)
        set_handler(self._number, self._before)


def _raise(_number, _frame):
    raise CallTimeout


def limit_memory(more_bytes):
    """Limit the process to so much more memory than now; beyond that there is a `MemoryError`."""
    with open("/proc/self/status") as file:
        sizes = [line.split()[1] for line in file if line.startswith("VmData:")]
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = int(sizes[0]) * 1024 + more_bytes
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
