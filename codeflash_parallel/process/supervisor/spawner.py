"""Fork and exec of one child, inside the launcher (single-threaded, so forking is safe)."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: What the shell uses for "could not be started".
_NOT_STARTED_STATUS = 127
#: The kernel takes the children first when the whole machine runs out of memory, not the evaluator.
_OOM_SCORE = b"500"
#: Limits of message queues below this leave no room for a tag.
_SMALLEST_TAG = 65536

#: What a terminal or an init system sends to everybody; the launcher goes with its evaluator only.
_DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What the launcher ignores, by the interpreter's own doing or ours; exec keeps that, so children undo it.
_IGNORED = (*_DEAF_TO, signal.SIGPIPE, signal.SIGXFSZ)

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpawnPlan:
    """A child to be.

    Attributes:
        descriptors: number in the child, and what it is here.
        tag: the message queue limit that marks the job; 0: leave it.
    """

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    descriptors: Mapping[int, int]
    tag: int


def adopt_orphans() -> None:
    """Make every orphan below this process its child from now on."""
    _set_subreaper(1)


def adopt_no_more_orphans() -> None:
    """Leave orphans to whoever adopted them before."""
    _set_subreaper(0)


def _set_subreaper(value: int) -> None:
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def settle_signals() -> None:
    """Forget what our parent ignored, so that no child inherits it, and ignore what is not for us."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        signal.signal(number, signal.SIG_DFL)
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)


def top_tag() -> int:
    """Return the message queue limit below which those that mark jobs lie, 0 where there is no room."""
    hard = resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1]
    top = 819200 if hard == resource.RLIM_INFINITY else hard  # the kernel's own default
    return top if top > _SMALLEST_TAG else 0


def is_living_child(pid: int) -> bool:
    """Tell whether a process is a child of this one that has not ended; it is not reaped."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def spawn(plan: SpawnPlan) -> tuple[int, int]:
    """Start a child.

    Returns:
        Its pid, and a descriptor on which the reason arrives if it could not be started.
    """
    launcher = os.getpid()
    errors, sink = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        pid = os.fork()
    except OSError:
        os.close(errors)
        os.close(sink)
        raise
    if pid == 0:
        _become(plan, launcher, sink)
    os.close(sink)
    return pid, errors


def _become(plan: SpawnPlan, launcher: int, sink: int) -> None:
    """Turn into the child; never returns."""
    step = "fork"
    try:
        sink = fcntl.fcntl(sink, fcntl.F_DUPFD_CLOEXEC, 64)
        step = "limits"
        _detach(launcher, plan.tag)
        step = "descriptors"
        _connect(plan.descriptors)
        step = f"working directory {plan.cwd}"
        os.chdir(plan.cwd)
        step = plan.argv[0]
        os.execve(plan.argv[0], plan.argv, plan.environment)  # noqa: S606 - by design
    except BaseException as error:  # noqa: BLE001 - nothing may ever return into the launcher's loop
        os.write(sink, f"{step}: {error}"[:2000].encode("utf-8", "replace"))
    finally:
        os._exit(_NOT_STARTED_STATUS)


def _detach(launcher: int, tag: int) -> None:
    os.setsid()
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != launcher:  # it died before the line above
        os._exit(_NOT_STARTED_STATUS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if tag:
        resource.setrlimit(resource.RLIMIT_MSGQUEUE, (tag, tag))
    _prefer_for_oom()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _prefer_for_oom() -> None:
    try:
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        os.write(score, _OOM_SCORE)
        os.close(score)
    except OSError:  # a sandbox without it: then the kernel chooses by size alone
        sys.exc_info()


def _connect(descriptors: Mapping[int, int]) -> None:
    """Put every descriptor at its number; all others are closed by exec."""
    high = {to: fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, 64) for to, source in descriptors.items()}
    for to, source in high.items():
        os.dup2(source, to, inheritable=True)
