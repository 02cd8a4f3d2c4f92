"""Look at what a run left: in the user's tree, among the processes, in the cache."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

Picture = dict[str, tuple[int | str, ...]]


def picture(root: Path) -> Picture:
    """Return everything under a folder: mode, times, inode, links, owner and content of each path."""
    return {str(path.relative_to(root)): _look(path) for path in _walk(root)}


def _walk(root: Path) -> Iterator[Path]:
    yield root
    for folder, names, files in os.walk(root):
        yield from (Path(folder, name) for name in [*names, *files])


def _look(path: Path) -> tuple[int | str, ...]:
    seen = path.lstat()
    content = ""
    if stat.S_ISLNK(seen.st_mode):
        content = str(path.readlink())
    elif stat.S_ISREG(seen.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    stamps = (seen.st_mtime_ns, seen.st_ctime_ns)  # the second tells what was done and undone
    return seen.st_mode, *stamps, seen.st_ino, seen.st_nlink, seen.st_uid, seen.st_gid, content


def assert_same(before: Picture, after: Picture) -> None:
    """Say which paths of the user's tree are not what they were."""
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    assert not changed, (
        f"the user's tree has changed: {[(p, before.get(p), after.get(p)) for p in changed[:5]]}"
    )


def processes_of(cache: Path) -> list[str]:
    """Return the processes that belong to runs with this cache: by environment, arguments or folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            known = [(entry / name).read_bytes() for name in ("environ", "cmdline")]
            known.append(os.fsencode((entry / "cwd").readlink()))
            state = (
                (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
            )
        except (OSError, ValueError):
            continue
        if state != "Z" and any(os.fsencode(cache) in text for text in known):
            found.append(f"{entry.name} {known[1].decode('utf-8', 'replace')}")
    return found


def worktrees_left(cache: Path) -> list[str]:
    """Return the working trees and the entries of working trees that are left in a cache."""
    entries = [
        entry
        for folder in cache.rglob("worktrees")
        if (folder.parent / "HEAD").is_file()
        for entry in folder.iterdir()
    ]
    trees = [link.parent for link in cache.rglob(".git") if link.is_file()]
    return sorted(str(path.relative_to(cache)) for path in [*entries, *trees])
