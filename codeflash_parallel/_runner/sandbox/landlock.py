"""Landlock: what this process, and everything it starts from now on, may read, write and reach.

Rules only allow; what no rule allows is denied. So a hidden folder is one that no rule covers: its neighbours
are named one by one. Reading a file can be denied that way, listing folders cannot (their parents would
have to be closed, too), and neither can looking at sizes and times, nor changing modes and times of what
one owns: Landlock has no rule for that.
"""

import errno
import os
import stat

from . import syscalls

_EXECUTE, _WRITE_FILE, _READ_FILE = 1 << 0, 1 << 1, 1 << 2
#: Removing and making files, folders, devices, sockets, pipes, links.
_CHANGES = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_READS = _EXECUTE | _READ_FILE
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2

#: ABI from which on something can be denied.
_HAS_REFER, _HAS_TRUNCATE, _HAS_NET, _HAS_SCOPES = 2, 3, 4, 6

#: Devices that any program may use; the disks of the machine are not among them.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue")
_GONE = (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


def writes(version):
    """Return all rights of writing that a version of Landlock can deny."""
    refer = _REFER if version >= _HAS_REFER else 0
    truncate = _TRUNCATE if version >= _HAS_TRUNCATE else 0
    return _WRITE_FILE | _CHANGES | refer | truncate


def restrict(writable, readable=None, *, network=True):
    """Confine this process; it must have `no_new_privileges`.

    Args:
        writable: files and folders that may be changed.
        readable: files and folders whose content may be read or executed; None: all.
        network: whether TCP connections may be made and accepted; only denied where the kernel can.

    Raises:
        SyscallRefusal: there is no Landlock here.
    """
    version = syscalls.landlock_abi()
    changing = writes(version)
    reading = 0 if readable is None else _READS
    net = _BIND_TCP | _CONNECT_TCP if version >= _HAS_NET and not network else 0
    scoped = _ABSTRACT_SOCKETS | _SIGNALS if version >= _HAS_SCOPES else 0
    ruleset = syscalls.landlock_ruleset(version, changing | reading, net, scoped)
    try:
        for path in readable or ():
            _allow(ruleset, path, reading)
        for path in writable:
            _allow(ruleset, path, changing | reading)
        syscalls.landlock_restrict(ruleset)
    finally:
        os.close(ruleset)


def _allow(ruleset, path, access):
    """Allow something below a path; one that is not there, or not ours, needs no rule."""
    try:
        number = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _GONE:
            return
        raise
    try:
        if not stat.S_ISDIR(os.fstat(number).st_mode):
            access &= _READS | _WRITE_FILE | _TRUNCATE
        if access:
            syscalls.landlock_allow(ruleset, number, access)
    finally:
        os.close(number)


def around(hidden, visible):
    """Return files and folders that together hold everything but the hidden ones, and the devices of /dev.

    Args:
        hidden: real paths.
        visible: paths that are to be there although they lie below a hidden one.
    """
    closed = {*hidden, "/dev"}
    above = {parent for path in closed for parent in _parents(path)}
    found = list(visible) + ["/dev/" + name for name in DEVICES]
    folders = ["/"]
    while folders:
        for entry in _entries(folders.pop()):
            if entry.path in closed or entry.is_symlink():
                continue  # where a link leads is named by its own path
            if entry.path in above:
                folders.append(entry.path)
            else:
                found.append(entry.path)
    return found


def _entries(folder):
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []  # then its content cannot be read anyway


def _parents(path):
    while path not in ("/", ""):
        path = os.path.dirname(path)
        yield path
