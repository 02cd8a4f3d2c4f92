"""Overlays: a slot's tree is a view of one pristine tree, and only what differs takes room.

A mount is seen by every process of the machine, the launcher's children and ours alike, and it outlives us
when we are killed: whoever removes a slot's folder unmounts what is below it first. Only root can mount; a
mount in a user namespace would change what tests see (docs/decisions/0011).
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from codeflash_parallel.worktrees.layout import remove_tree
from codeflash_parallel.worktrees.seen import Seen, scan

#: `MNT_DETACH`: a template's working directory may be below; it keeps the old view until it ends.
_DETACH = 2
#: Folders can be renamed, and hard links stay links, as on any other file system; and unmounting does not
#: wait for everything that anybody has written to the disk.
_OPTIONS = "redirect_dir=on,index=on,volatile"
#: Copying one tree; a hanging file system must not hang a run.
_DEADLINE_S = 600.0
_MOUNTS = Path("/proc/self/mountinfo")
#: What separates the mount's options, and what escapes it.
_SEPARATORS = frozenset(":,\\\n")
#: Beside the tree.
UPPER, WORK = "upper", "work"


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlay:
    """One slot's view.

    Attributes:
        lower: the pristine tree, shared by slots; nobody writes there.
        folder: of the slot; holds `upper` and `work`.
        tree: where it is mounted.
    """

    lower: Path
    folder: Path
    tree: Path

    def mount(self) -> bool:
        """Mount it; say whether the machine allows that."""
        places = {"lowerdir": self.lower, "upperdir": self.folder / UPPER, "workdir": self.folder / WORK}
        if any(_SEPARATORS & set(str(place)) for place in places.values()):
            return False
        for place in (places["upperdir"], places["workdir"]):
            place.mkdir(mode=0o755)
        options = ",".join([*(f"{name}={place}" for name, place in places.items()), _OPTIONS])
        mount = ctypes.CDLL(None).mount
        return bool(mount(b"overlay", os.fsencode(self.tree), b"overlay", 0, os.fsencode(options)) == 0)

    def dissolve(self) -> None:
        """Make a plain tree of it, which needs no mount any more.

        Raises:
            OSError: the disk is full, or it cannot be read.
        """
        copy = self.folder / "copy"
        command = ("cp", "--archive", "--", f"{self.tree}/.", str(copy))
        done = subprocess.run(command, capture_output=True, check=False, timeout=_DEADLINE_S, process_group=0)
        if done.returncode:
            raise OSError(errno.EIO, os.fsdecode(done.stderr).strip())
        unmount_all(self.folder)
        for place in (self.tree, self.folder / UPPER, self.folder / WORK):
            remove_tree(place)
        copy.rename(self.tree)

    def stray(self, known: Mapping[str, Seen]) -> str:
        """Return a path that somebody put behind the view, empty if there is none.

        The view lists a folder that is in both layers from memory; what is added below is not in that list,
        yet it can be opened. Other folders, and every file, the view looks up each time.

        Args:
            known: what the view must hold.
        """
        folders = [""]
        for path, status in scan(self.folder / UPPER):
            is_whiteout = stat.S_ISCHR(status.st_mode) and status.st_rdev == 0
            if not is_whiteout and path not in known:
                return f"{UPPER}/{path}"
            folders += [path] if stat.S_ISDIR(status.st_mode) else []
        return next(_unknown(self.lower, folders, known), "")


def _unknown(lower: Path, folders: Iterable[str], known: Mapping[str, Seen]) -> Iterator[str]:
    for folder in folders:
        with suppress(OSError):  # it is in the upper layer alone
            for name in os.listdir(lower / folder):  # noqa: PTH208 - names are what is wanted
                path = f"{folder}/{name}" if folder else name
                if path not in known:
                    yield f"{lower.name}/{path}"


def probe_overlay(folder: Path) -> bool:
    """Find out whether overlays can be mounted below a folder and do what a file system does, by doing it.

    Raises:
        OSError: nothing can be written there.
    """
    overlay = Overlay(lower=folder / "lower", folder=folder, tree=folder / "tree")
    (overlay.lower / "a").mkdir(parents=True)
    overlay.tree.mkdir()
    try:
        if not overlay.mount():
            return False
        (overlay.tree / "a").rename(overlay.tree / "b")
        return not (overlay.tree / "a").exists()
    except OSError:
        return False
    finally:
        unmount_all(folder)


def unmount_all(folder: Path) -> None:
    """Unmount whatever is mounted in a folder or on it: by us, by a run that was killed, or by a test."""
    place = f"{os.path.realpath(folder.parent)}/{folder.name}/"  # the folder itself may be a link by now
    unmount = ctypes.CDLL(None).umount2
    for mounted in reversed([_point(line) for line in _MOUNTS.read_bytes().splitlines()]):
        if f"{os.fsdecode(mounted)}/".startswith(place):
            unmount(mounted, _DETACH)


def _point(line: bytes) -> bytes:
    """Return the mount point of a line, whose odd characters are written as octal numbers."""
    field = line.split(b" ")[4]
    for code in (b"040", b"011", b"012", b"134"):
        field = field.replace(b"\\" + code, bytes([int(code, 8)]))
    return field


def unmount_and_remove(folder: Path) -> None:
    """Remove a folder, but nothing of what is mounted in it.

    Raises:
        OSError: something cannot be removed.
    """
    unmount_all(folder)
    remove_tree(folder)
