"""Fork a check off a template, and make the fork like a new process.

A check is forked twice: the middle process exits at once, so that the check becomes a child of the launcher.
Beyond memory a fork shares *open file descriptions* with its parent (offsets, and the content of files that
have no name): each regular file gets a description of its own.
"""

import contextlib
import ctypes
import fcntl
import os
import random
import resource
import signal
import stat
import sys

from ..sandbox import syscalls

#: The name of a job's marker in the environment.
MARKER = "CODEFLASH_PARALLEL_JOB"
#: What F_GETFL says of an open file that can be given to open() again.
_KEPT_FLAGS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR | os.O_APPEND
_WRITES = os.O_WRONLY | os.O_RDWR
_COPIED_AT_ONCE = 1 << 20

#: Kept from the start: a project may replace them (gevent does).
fork, _waitpid = os.fork, os.waitpid


def fork_twice():
    """Fork a check.

    Returns:
        Its pid in the template, once the middle process is gone; 0 in the check.

    Raises:
        OSError: there is no room for another process.
    """
    reading, writing = os.pipe()
    middle = fork()
    if middle == 0:
        os.close(reading)
        if _is_check(writing):
            return 0
    os.close(writing)
    told = os.read(reading, 32)
    os.close(reading)
    _waitpid(middle, 0)
    if not told:
        raise OSError("the second fork failed")
    return int(told)


def _is_check(writing):
    """Fork again in the middle process, which ends here; return True in the check."""
    try:
        pid = fork()
        if pid == 0:
            os.close(writing)
            return True
        os.write(writing, b"%d" % pid)
    except OSError:
        os._exit(1)
    os._exit(0)
    return False


# ---- session and marker


def detach(marker, tag):
    """Become the head of an own session that carries its own job's marker and tag."""
    os.setsid()
    if marker:
        _overwrite_marker(marker.encode())
        os.environ[MARKER] = marker
    if tag:
        resource.setrlimit(resource.RLIMIT_MSGQUEUE, (tag, tag))


def _overwrite_marker(marker):
    # /proc/<pid>/environ shows the block that the process was started with, whatever os.environ says.
    with open("/proc/self/environ", "rb") as file:
        block = file.read()
    key = MARKER.encode() + b"="
    at = 0 if block.startswith(key) else block.find(b"\0" + key) + 1
    end = block.find(b"\0", at)
    if not block[at:].startswith(key) or end - at != len(key + marker):
        return
    ctypes.memmove(_environment_start() + at + len(key), marker, len(marker))


def _environment_start():
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b") ")[2].split()
    return int(fields[47])


def die_with_parent(parent):
    """Let the kernel kill us when our parent (the launcher, which has adopted us) ends."""
    syscalls.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


# ---- descriptors


def identity(number):
    """Return what tells whether two descriptors are the same file or pipe; None for a device."""
    found = os.fstat(number)
    return None if stat.S_ISCHR(found.st_mode) else (found.st_dev, found.st_ino)


def open_numbers():
    """Return the numbers of all descriptors."""
    numbers = []
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue  # that of the listing itself
        numbers.append(int(name))
    return sorted(numbers)


def connect(streams):
    """Put new pipes in the place of old ones.

    Args:
        streams: (number in use from the start, identity of the old pipe, new descriptor) for each; all
            other descriptors of the old pipe, such as the copies that a capture has saved, follow.
    """
    for number in open_numbers():
        new = _successor(streams, number)
        if new is not None:
            os.dup2(new, number, inheritable=os.get_inheritable(number))
    for _, _, new in streams:
        os.close(new)


def _successor(streams, number):
    found = identity(number)
    # stdout and stderr may be one pipe: then the numbers tell them apart, and the copies go to stdout.
    for first, old, new in streams:
        if number == first and found == old:
            return new
    for _, old, new in streams:
        if found == old and found is not None:
            return new
    return None


def regular_files():
    """Return the open regular files: for each a list of descriptions, each a list of descriptors."""
    by_file = {}
    for number in open_numbers():
        found = os.fstat(number)
        if stat.S_ISREG(found.st_mode) and not flags_of(number) & os.O_PATH:
            by_file.setdefault((found.st_dev, found.st_ino), []).append(number)
    return [_descriptions(numbers) for numbers in by_file.values()]


def _descriptions(numbers):
    groups = []
    for number in numbers:
        for group in groups:
            if _share_offset(group[0], number):
                group.append(number)
                break
        else:
            groups.append([number])
    return groups


def _share_offset(one, other):
    before = os.lseek(one, 0, os.SEEK_CUR)
    if os.lseek(other, 0, os.SEEK_CUR) != before:
        return False
    os.lseek(one, before + 1, os.SEEK_SET)
    try:
        return os.lseek(other, 0, os.SEEK_CUR) == before + 1
    finally:
        os.lseek(one, before, os.SEEK_SET)


def flags_of(number):
    """Return the flags that a descriptor was opened with."""
    return fcntl.fcntl(number, fcntl.F_GETFL)


def is_writable(number):
    """Say whether a descriptor can be written to."""
    return bool(flags_of(number) & _WRITES)


def separate(files):
    """Give open files descriptions of our own, and nameless ones content of our own.

    Args:
        files: what `regular_files` has found in the template.
    """
    for groups in files:
        first = groups[0][0]
        nameless = os.fstat(first).st_nlink == 0
        copy = _copied(first) if nameless and any(is_writable(group[0]) for group in groups) else None
        for group in groups:
            _reopen(group, "/proc/self/fd/%d" % (first if copy is None else copy))
        if copy is not None:
            os.close(copy)


def places_below(folder, files):
    """Return the paths of open files below a folder, by a descriptor of each description.

    Args:
        files: what `regular_files` has found.
    """
    places = {group[0]: os.readlink("/proc/self/fd/%d" % group[0]) for groups in files for group in groups}
    return {number: path for number, path in places.items() if path.startswith(folder + "/")}


def open_again(files, places):
    """Open files that are known by their paths again: another tree lies there now.

    What is not there keeps the file that it has.

    Args:
        places: what `places_below` has returned in the template.
    """
    for group in (group for groups in files for group in groups if group[0] in places):
        with contextlib.suppress(OSError):
            _reopen(group, places[group[0]])


def _copied(number):
    # In memory: a capture's files are small, and a disk's take as long to make as all else together.
    copy = os.memfd_create("codeflash-parallel", os.MFD_CLOEXEC)
    at = 0
    source = os.open("/proc/self/fd/%d" % number, os.O_RDONLY | os.O_CLOEXEC)
    while True:
        data = os.pread(source, _COPIED_AT_ONCE, at)
        if not data:
            break
        at += os.write(copy, data)
    os.close(source)
    return copy


def _reopen(group, source):
    """Put a new description of the file at a path in the place of one that some descriptors share."""
    flags = flags_of(group[0]) & _KEPT_FLAGS
    new = os.open(source, flags | os.O_CLOEXEC)
    os.lseek(new, os.lseek(group[0], 0, os.SEEK_CUR), os.SEEK_SET)
    for number in group:
        os.dup2(new, number, inheritable=os.get_inheritable(number))
    os.close(new)


# ---- random states


class RandomState:
    """Random states of the template: as the system gave them, or as the project has set them."""

    def __init__(self):
        self._initial = self._held = random.getstate()
        self._numpy = None

    def look(self):
        """Note the state of numpy's generator as soon as there is one, before anything can have seeded it."""
        if self._numpy is None:
            generator = _numpy_generator()
            self._numpy = None if generator is None else _state(generator)

    def hold(self):
        """Keep the state of `random`: the interpreter seeds it anew in every fork."""
        self._held = random.getstate()

    def renew(self):
        """Restore a state that was set, and seed anew what was not touched."""
        if self._held != self._initial:
            random.setstate(self._held)
        generator = _numpy_generator()
        if generator is not None and _state(generator) == self._numpy:
            generator.seed()


def _numpy_generator():
    return getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)


def _state(generator):
    return [getattr(part, "tolist", lambda part=part: part)() for part in generator.get_state()]
