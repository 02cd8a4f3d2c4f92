"""A process of its own world: namespaces, an init that reaps and tells, and a waiter outside.

Three processes take the place of one::

    waiter   outside; the launcher's child. Passes on how the runner ends, by ending alike.
    init     process 1 of the new process namespace: when it ends, the kernel kills all others in there.
    runner    process 2; the only one in which code of the project runs.

The init lives as long as any process in its namespace does, so that processes that the runner left can be
seen from outside; the waiter has ended with the runner by then, and the init is the launcher's child.
"""

import fcntl
import os
import select
import signal
import struct

from . import syscalls

#: Message of the init to the waiter: the runner's wait status, and whether no other process is left.
_NEWS = struct.Struct("i?")
#: The descriptors that waiter and init have: the pipe between them; the init's of waiter and launcher.
_KEPT = 3
#: What root may still do in its own namespace, to files it may touch anyway: CHOWN, DAC_OVERRIDE,
#: DAC_READ_SEARCH, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE.
_OF_ROOT = (0, 1, 2, 3, 4, 5, 6, 7, 10)
#: SETFCAP: without it root cannot be root in a namespace of his namespace.
_OF_A_TEMPLATE = (*_OF_ROOT, 31)
_LOOPBACK_UP = 0x8914  # SIOCSIFFLAGS
_IFF_UP = 1
_FAILED = 70
#: What the process table says, at most 15 letters; `process.process_table` knows them, too.
WAITER, INIT = b"cfp-waiter", b"cfp-init"

#: Kept from the start: a project may replace them (gevent does).
_fork, _waitpid, _exit = os.fork, os.waitpid, os._exit


def leave(flags):
    """Enter new namespaces, a user namespace among them in which this user keeps its number.

    Args:
        flags: of the namespaces besides; a process namespace is that of the children.

    Raises:
        SyscallRefusal: the kernel, or a security module, does not allow it.
    """
    user, group, parent = os.geteuid(), os.getegid(), os.getppid()
    syscalls.unshare(syscalls.CLONE_NEWUSER | flags)
    # Some kernels take new credentials for a reason to forget both.
    syscalls.die_with_parent(signal.SIGKILL)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1, "prctl(PR_SET_DUMPABLE)")
    if os.getppid() != parent:
        _exit(_FAILED)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", "%d %d 1" % (user, user)),
        ("gid_map", "%d %d 1" % (group, group)),
    ):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)
    if flags & syscalls.CLONE_NEWNET:
        _raise_loopback()


def _raise_loopback():
    """Let this network namespace reach itself, and nothing else."""
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _LOOPBACK_UP, struct.pack("16sh14x", b"lo", _IFF_UP))


def give_up_capabilities(*, template=False):
    """Be as powerless in this namespace as outside of it."""
    of_root = _OF_A_TEMPLATE if template else _OF_ROOT
    syscalls.keep_capabilities(of_root if os.geteuid() == 0 else ())


def fork_inside():
    """Continue as process 2 of a new process namespace, which `leave` has asked for.

    Returns in that process only. The one that called becomes the waiter, and ends as the runner ends; all end
    with the parent of that one, the launcher.

    Raises:
        OSError: there is no room for another process.
    """
    hearing, telling = os.pipe()
    watched = [syscalls.pidfd_open(pid) for pid in (os.getpid(), os.getppid())]
    highest = max(map(int, os.listdir("/proc/self/fd"))) + 1
    init = _fork()
    if init:
        _wait_outside(init, hearing, highest)  # which closes all others
    # What fails from here on is told by this process, for the missing runner: nothing has run in it.
    syscalls.die_with_parent(signal.SIGKILL)
    runner = _fork()
    os.close(hearing)
    if runner:
        _reap_inside(runner, [telling, *watched], highest)
    for number in (telling, *watched):
        os.close(number)
    os.setsid()
    syscalls.die_with_parent(signal.SIGKILL)


def _has_ended(process, wait_ms):
    ended = select.poll()
    ended.register(process, select.POLLIN)
    return bool(ended.poll(wait_ms))


# ---- the waiter


def _wait_outside(init, hearing, highest):
    """End as the runner ends; never returns."""
    try:
        (hearing,) = _only([hearing], highest)
        syscalls.be_called(WAITER)
        news = _read(hearing)
        if len(news) < _NEWS.size:  # the init was killed, and with it all others
            _end_like(_waitpid(init, 0)[1])
        status, is_empty = _NEWS.unpack(news)
        if is_empty:
            _waitpid(init, 0)
        _end_like(status)
    finally:
        _exit(_FAILED)


def _read(number):
    try:
        return os.read(number, _NEWS.size)
    except OSError:
        return b""


def _end_like(status):
    """End this process as another one has ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), number)
    _exit(os.WEXITSTATUS(status))


# ---- the init


def _reap_inside(runner, kept, highest):
    """Reap processes, tell of the runner, and end with the last one; never returns."""
    try:
        telling, *watched = _only(kept, highest)
        syscalls.be_called(INIT)
        while True:
            pid, status = _waitpid(-1, 0)
            if pid == runner:
                _tell(telling, status, watched)
    except ChildProcessError:
        _exit(0)
    finally:
        _exit(_FAILED)


def _tell(telling, status, watched):
    """Tell the waiter; it ends now, and must not take the others with it before they have been seen.

    After it the launcher is our parent; the death signal has to be the one that comes with *its* end. (The
    end of a pipe would be too early: the kernel closes files before it tells the children.)
    """
    is_empty = _is_empty()
    if not is_empty:
        syscalls.die_with_parent(0)
    os.write(telling, _NEWS.pack(status, is_empty))
    os.close(telling)
    if is_empty:
        _exit(0)
    waiter, launcher = watched
    if _has_ended(waiter, None):
        syscalls.die_with_parent(signal.SIGKILL)
        if _has_ended(launcher, 0):  # before the line above
            _exit(_FAILED)


def _is_empty():
    """Reap processes that have ended; say whether none is left."""
    try:
        while _waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return True
    return False


def _only(numbers, highest):
    """Close all descriptors but some, and return what these are called now.

    A pipe to the runner must end with the runner.
    """
    copies = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, highest) for number in numbers]
    kept = range(_KEPT, _KEPT + len(copies))
    for copy, number in zip(copies, kept):
        os.dup2(copy, number, inheritable=False)
    os.closerange(_KEPT + len(copies), highest + len(copies))
    os.closerange(0, _KEPT)
    return kept
