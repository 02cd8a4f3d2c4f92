"""Writable memory that a template shares with its forks.

A semaphore that `multiprocessing` makes is a page of a file in `/dev/shm` which has lost its name at once;
some libraries make one while they are imported. Only forks can come to it, so each fork can have its own, as
it would in a new process, and share that with its own children. All other shared memory stays what makes a
template unfit.
"""

import ctypes
import os
from collections import namedtuple

from ..sandbox import syscalls

_FOLDER = "/dev/shm"
_COPY = "sem.codeflash-parallel"
#: Of a mapped file in `/proc/self/maps`. Semaphores are mapped by another name than their later one: all of
#: them seem to be deleted, and a name that leads to one is to be looked for.
_DELETED = " (deleted)"

#: Address and length in bytes.
Page = namedtuple("Page", "start size")  # noqa: PYI024 - typing is slow to import


def shared():
    """Return the pages of nameless semaphores, and whether any other writable memory is shared."""
    pages, others, named = [], False, None
    with open("/proc/self/maps") as file:
        for line in file:
            addresses, permissions, _, device, inode, *path = line.rstrip("\n").split(None, 5)
            if permissions[1] != "w" or permissions[3] != "s":
                continue
            named = _named() if named is None else named
            start, end = (int(part, 16) for part in addresses.split("-"))
            page = Page(start, end - start)
            if page.size <= os.sysconf("SC_PAGE_SIZE") and _is_nameless(
                "".join(path), (device, int(inode)), named
            ):
                pages.append(page)
            else:
                others = True
    return pages, others


def _is_nameless(path, identity, named):
    """Say whether a mapping is that of a semaphore to which no name leads."""
    if path == "/memfd:" + _COPY + _DELETED:
        return True
    folder, _, name = path.rpartition("/")
    is_semaphore = folder == _FOLDER and name.startswith("sem.") and name.endswith(_DELETED)
    device, inode = identity
    return is_semaphore and device == named[0] and inode not in named[1]


def _named():
    """Return the device of the folder of semaphores, as maps have it, and the inodes with a name there."""
    try:
        device = os.stat(_FOLDER).st_dev
        with os.scandir(_FOLDER) as entries:
            return "%02x:%02x" % (os.major(device), os.minor(device)), {entry.inode() for entry in entries}
    except OSError:
        return "", set()


def separate(pages):
    """Put copies in the place of pages, which only this process and its later children share.

    Args:
        pages: what `shared` has found in the template.
    """
    for page in pages:
        copy = os.memfd_create(_COPY, os.MFD_CLOEXEC)
        try:
            os.ftruncate(copy, page.size)
            os.pwrite(copy, ctypes.string_at(page.start, page.size), 0)
            syscalls.map_over(copy, page.start, page.size)
        finally:
            os.close(copy)
