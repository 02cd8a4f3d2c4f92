"""Limits of one call with a derived input: CPU time, and memory of the process that tries inputs out."""

import contextlib
import resource
import signal

#: CPU seconds of one call, on the baseline and on candidates alike; the calls that are kept take far less.
CALL_S = 1.0


class CallTimeout(BaseException):
    """A call with a derived input has used its CPU time (no `Exception`: the project must not catch it)."""


#: Seconds that the baseline may wait in one call that is tried out: for other inputs it may wait for ever.
WAIT_S = 1.0


#: Python code is given so much longer, in CPU seconds, to be ended by an exception.
_LATE_S = 0.2


def awaited(seconds=WAIT_S):
    """End what runs inside by `CallTimeout` when so much time has passed, even if it waits."""
    return _ended_by(signal.SIGALRM, signal.ITIMER_REAL, seconds)


def limited(seconds=CALL_S):
    """End what runs inside by `CallTimeout` once it has used so much CPU time (when Python code runs)."""
    return _ended_by(signal.SIGVTALRM, signal.ITIMER_VIRTUAL, seconds)


@contextlib.contextmanager
def mortal(seconds=CALL_S):
    """End the process once what runs inside has used much more CPU time than that, Python code or not."""
    signal.setitimer(signal.ITIMER_PROF, seconds + _LATE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@contextlib.contextmanager
def _ended_by(number, timer, seconds):
    before = signal.signal(number, _raise)
    signal.setitimer(timer, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)


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
