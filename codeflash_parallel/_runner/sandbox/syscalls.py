"""The few system calls of a sandbox that Python has no function for."""

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REC, MS_PRIVATE = 0x4000, 0x40000

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE = 1
_OPEN_TREE_CLOEXEC = os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 4
_MOUNT_ATTR_RDONLY = 1
#: The same numbers on every architecture but alpha, whose interpreters we have never met.
_OPEN_TREE, _MOVE_MOUNT, _PIDFD_OPEN, _MOUNT_SETATTR = 428, 429, 434, 442
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_VERSION = 1
_LANDLOCK_PATH_BENEATH = 1
_CAPABILITY_VERSION_3 = 0x20080522

_PROT_READ_AND_WRITE = 3
_MAP_SHARED_FIXED = 0x11

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_ssize_t


class SyscallRefusal(OSError):  # noqa: N818 - a state of the machine
    """The kernel does not do what it was asked; the message names the call."""


def _checked(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise SyscallRefusal(number, "%s: %s" % (what, os.strerror(number)))
    return result


def _path(path):
    return ctypes.c_char_p(os.fsencode(path))


def unshare(flags):
    """Leave namespaces of the parent; this process must have one thread."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def prctl(option, value, what):
    """Set one attribute of this process."""
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero), what)


def die_with_parent(number):
    """Be sent a signal when the thread that forked this process ends; 0: none."""
    prctl(PR_SET_PDEATHSIG, number, "prctl(PR_SET_PDEATHSIG)")


def be_called(name):
    """Change the name by which the process table knows this process; at most 15 bytes."""
    prctl(PR_SET_NAME, ctypes.cast(ctypes.c_char_p(name), ctypes.c_void_p).value, "prctl(PR_SET_NAME)")


def no_new_privileges():
    """Let no program of this process or its children gain privileges by being started."""
    prctl(PR_SET_NO_NEW_PRIVS, 1, "prctl(PR_SET_NO_NEW_PRIVS)")


def pidfd_open(pid):
    """Return a descriptor of a process, which is ready once that has ended (not every Python has it)."""
    return _checked(_libc.syscall(_PIDFD_OPEN, ctypes.c_int(pid), ctypes.c_uint(0)), "pidfd_open")


def map_over(number, start, size):
    """Map the beginning of a file, writable and shared, in the place of what is mapped at an address."""
    place = (ctypes.c_void_p(start), ctypes.c_size_t(size))
    how = (ctypes.c_int(_PROT_READ_AND_WRITE), ctypes.c_int(_MAP_SHARED_FIXED))
    _checked(_libc.mmap(*place, *how, ctypes.c_int(number), ctypes.c_long(0)), "mmap")


# ---- mounts


def mount(source, target, kind, flags, options=""):
    """Mount a file system, or change how a mount propagates."""
    arguments = (_path(source), _path(target), _path(kind), ctypes.c_ulong(flags), _path(options))
    _checked(_libc.mount(*arguments), "mount %s on %s" % (kind or "attributes", target))


def copy_mounts(path):
    """Return a descriptor of what is mounted at a path and below, as it is now."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    call = _libc.syscall(_OPEN_TREE, ctypes.c_int(_AT_FDCWD), _path(path), ctypes.c_uint(flags))
    return _checked(call, "open_tree %s" % path)


def place_mounts(number, target):
    """Mount what `copy_mounts` has returned."""
    arguments = (ctypes.c_int(number), _path(""), ctypes.c_int(_AT_FDCWD), _path(target))
    _checked(
        _libc.syscall(_MOVE_MOUNT, *arguments, ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH)),
        "move_mount to %s" % target,
    )


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def make_read_only(number):
    """Make a mount and all below it read-only.

    Args:
        number: descriptor of its root.
    """
    attributes = _MountAttributes(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = ctypes.c_uint(_AT_EMPTY_PATH | _AT_RECURSIVE)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    call = _libc.syscall(
        _MOUNT_SETATTR, ctypes.c_int(number), _path(""), flags, ctypes.byref(attributes), size
    )
    _checked(call, "mount_setattr")


# ---- capabilities


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapabilityHalf(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


def keep_capabilities(kept):
    """Give up all capabilities but some.

    Args:
        kept: their numbers.
    """
    for number in range(64):
        if number not in kept and _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0) < 0:
            break  # the kernel knows no more
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    mask = sum(1 << number for number in kept)
    halves = (_CapabilityHalf * 2)()
    for half, bits in zip(halves, (mask & 0xFFFFFFFF, mask >> 32)):
        half.effective = half.permitted = bits
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref(halves)), "capset")


# ---- Landlock


class _Ruleset(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("fs", "net", "scoped")]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def landlock_abi():
    """Return the version of Landlock that the kernel has; 0: none."""
    size = ctypes.c_size_t(0)
    found = _libc.syscall(_LANDLOCK_CREATE, None, size, ctypes.c_uint(_LANDLOCK_VERSION))
    return max(found, 0)


def landlock_ruleset(abi, fs, net, scoped):
    """Return a descriptor of a new set of rules; what the ABI does not know must be 0."""
    size = ctypes.c_size_t(8 if abi < 4 else 16 if abi < 6 else 24)
    rules = _Ruleset(fs, net, scoped)
    call = _libc.syscall(_LANDLOCK_CREATE, ctypes.byref(rules), size, ctypes.c_uint(0))
    return _checked(call, "landlock_create_ruleset")


def landlock_allow(ruleset, number, access):
    """Allow something below a file or folder, given by its descriptor."""
    rule = _PathBeneath(access, number)
    kind, flags = ctypes.c_uint(_LANDLOCK_PATH_BENEATH), ctypes.c_uint(0)
    call = _libc.syscall(_LANDLOCK_ADD, ctypes.c_int(ruleset), kind, ctypes.byref(rule), flags)
    _checked(call, "landlock_add_rule")


def landlock_restrict(ruleset):
    """Put this process, and all that it starts from now on, under a set of rules."""
    call = _libc.syscall(_LANDLOCK_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint(0))
    _checked(call, "landlock_restrict_self")
