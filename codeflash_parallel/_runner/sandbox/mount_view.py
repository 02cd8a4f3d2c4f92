"""The file system that a confined process sees: read-only, with what is hidden covered by empty folders.

Everything happens in mount namespaces of our own: it is not seen outside, and goes with the last process.
Covering a folder that holds something needed works in two steps: the needed mounts are copied before, and put
back, at the same path, into the empty folder that covers them.
"""

import contextlib
import os

from ..slot_paths import under
from . import syscalls

#: Devices that programs expect; the disks of the machine are not among them.
_NODES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}


#: A cover holds a few folders and nothing else.
_COVER = "mode=0755,size=64k,nr_inodes=512"


class MountView:
    """The paths of the file system to be seen, covered or renewed.

    Args:
        disk_bytes: what all folders of a moment hold together; 0: no limit of ours.
        files: how many files they hold together.
    """

    def __init__(self, disk_bytes=0, files=0):
        self._scratch_options = "mode=0700,size=%d,nr_inodes=%d" % (disk_bytes, files)
        self._covered, self._fresh, self._kept = set(), {}, {}

    def cover(self, paths):
        """Have nothing to be seen at some paths."""
        self._covered.update(path for path in paths if os.path.lexists(path))

    def renew(self, path, mode):
        """Have an empty folder at a path, whose files are not seen outside."""
        if os.path.isdir(path):
            self._fresh[path] = mode

    def keep(self, paths, *, writable=False, source=None):
        """Have paths seen as they are, whatever is covered around them.

        Args:
            source: what is to be seen there instead, another path of today.
        """
        for path in paths:
            if os.path.lexists(source or path):
                known, _ = self._kept.get(path, (False, path))
                self._kept[path] = writable or known, source or path

    def enter(self):
        """Make this process's mount namespace, which must be its own, look like that.

        Raises:
            SyscallRefusal: the kernel does not allow it.
        """
        syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
        copies = self._copies()
        nodes = {
            name: syscalls.copy_mounts("/dev/" + name) for name in _NODES if os.path.exists("/dev/" + name)
        }
        _close_root()
        self._cover_all()
        _devices(nodes)
        self._renew_all()
        for path in sorted(copies, key=_depth):
            self._put_back(path, *copies[path])

    def _copies(self):
        """Return, by path, a descriptor and whether it is a folder, of all that must be put back."""
        lost = [*self._covered, *self._fresh, "/dev"]
        copies = {}
        for path, (writable, source) in self._kept.items():
            is_lost = path != source or any(under(path, cover) for cover in lost)
            if is_lost or (writable and path not in self._covered):
                copies[path] = (syscalls.copy_mounts(source), os.path.isdir(source), writable)
        return copies

    def _cover_all(self):
        for path in sorted(self._covered, key=_depth):
            if os.path.isdir(path):
                syscalls.mount("none", path, "tmpfs", _FLAGS | syscalls.MS_NOEXEC, _COVER)
            elif os.path.lexists(path):
                syscalls.mount("/dev/null", path, "", _MS_BIND)

    def _renew_all(self):
        """Give all folders of a moment one file system, so that they have one limit.

        It stays mounted where it was made: unmounting waits for all processors of the machine.
        """
        base = max(self._fresh, key=_depth)
        os.makedirs(base, exist_ok=True)
        syscalls.mount("none", base, "tmpfs", _FLAGS, self._scratch_options)
        os.chmod(base, self._fresh[base])
        numbers = {base: syscalls.copy_mounts(base)}
        for serial, path in enumerate(path for path in self._fresh if path != base):
            inside = os.path.join(base, ".%d" % serial)
            os.mkdir(inside)
            os.chmod(inside, self._fresh[path])
            numbers[path] = syscalls.copy_mounts(inside)
        for path in sorted(numbers, key=_depth):
            os.makedirs(path, exist_ok=True)
            syscalls.place_mounts(numbers[path], path)
            os.close(numbers[path])

    def _put_back(self, path, number, is_folder, writable):
        if is_folder:
            os.makedirs(path, exist_ok=True)
        elif not os.path.lexists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        if not writable:
            syscalls.make_read_only(number)
        syscalls.place_mounts(number, path)
        os.close(number)


_FLAGS = syscalls.MS_NOSUID | syscalls.MS_NODEV
_MS_BIND = 0x1000


def _close_root():
    number = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        syscalls.make_read_only(number)
    finally:
        os.close(number)


def _devices(nodes):
    """Make a /dev with what any program may use, and with shared memory of its own."""
    syscalls.mount("none", "/dev", "tmpfs", _FLAGS & ~syscalls.MS_NODEV, "mode=0755,size=64k,nr_inodes=128")
    for name, number in nodes.items():
        os.close(os.open("/dev/" + name, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
        syscalls.place_mounts(number, "/dev/" + name)
        os.close(number)
    for folder in ("/dev/pts", "/dev/shm"):
        os.mkdir(folder)
    for name, target in _LINKS.items():
        os.symlink(target, "/dev/" + name)
    flags = syscalls.MS_NOSUID | syscalls.MS_NOEXEC
    syscalls.mount("devpts", "/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=620")


def fresh_proc():
    """Mount a /proc of this process's own process namespace, if that can be.

    Where a container has covered parts of its /proc, the kernel allows no other one. The old one then stays:
    it names processes outside, which cannot be reached all the same.
    """
    flags = _FLAGS | syscalls.MS_NOEXEC | (0 if os.geteuid() else syscalls.MS_RDONLY)
    with contextlib.suppress(OSError):
        syscalls.mount("proc", "/proc", "proc", flags)


def _depth(path):
    return path.count("/"), path
