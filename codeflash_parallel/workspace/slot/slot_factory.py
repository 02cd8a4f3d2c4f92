"""Make and remove slots: worktrees of the mirror, one at a time where git cannot bear more."""

from __future__ import annotations

import itertools
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.isolation_policy import IsolationPolicy
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.workspace.cache_layout import cache_faults, locked, remove_tree
from codeflash_parallel.workspace.cleanup import drop_worktrees
from codeflash_parallel.workspace.git.git_client import TreeEntry, blob_id
from codeflash_parallel.workspace.slot.slot import Slot, SlotTrash
from codeflash_parallel.workspace.slot.slot_files import (
    SNAPSHOT_MTIME_NS,
    SlotFiles,
    SlotKind,
    clone,
    clones_work,
    cost_of,
)
from codeflash_parallel.workspace.snapshot.mirror import Mirror, mend
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot
from codeflash_parallel.workspace.tree_guard import NotRestored, OriginalFile, TreeGuard, write_file

EnvironmentFor = Callable[[Path, int], Mapping[str, str]]

#: What pytest, in the path of a root, takes for parameters, variables, or a home.
_MISREAD = frozenset("[]$%~\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotFactory:
    """Makes slots of one run. Everything here blocks.

    Attributes:
        interpreter: absolute path of the project's Python.
        environment_for: builds the environment of a slot's children from its private folder and number;
            may create folders there.
        isolation: of every slot.
    """

    mirror: Mirror
    snapshot: Snapshot
    run_id: str
    interpreter: Path
    environment_for: EnvironmentFor
    isolation: IsolationPolicy = field(default_factory=IsolationPolicy)
    _serial: itertools.count[int] = field(default_factory=partial(itertools.count, 1))

    @property
    def folder(self) -> Path:
        """Folder of the run's slots."""
        return self.mirror.home.slots / self.run_id

    def make(self, number: int, pristine: Slot | None = None) -> Slot:
        """Make a slot.

        Args:
            pristine: one in which nothing has run, and whose blocks it may share.

        Raises:
            EnvironmentFault: the disk is full, or git cannot do it.
        """
        return self._clean_make(number, self.folder / f"{number}", pristine)

    def can_share(self) -> bool:
        """Say whether the file system lets slots share the blocks of their files.

        Raises:
            EnvironmentFault: the cache cannot be written.
        """
        with cache_faults(self.mirror.home.path), self.mirror.home.scratch() as scratch:
            return clones_work(scratch)

    def make_again(self, number: int) -> Slot:
        """Make a slot after candidates may have run; where they can reach the mirror, look at every file.

        Raises:
            EnvironmentFault: as `make`, and `MIRROR_DAMAGED`.
        """
        slot = self._clean_make(number, self.folder / f"{number}.{next(self._serial)}", None)
        if self.isolation.is_closed:
            return slot
        entries = self.mirror.entries(self.snapshot)
        root = slot.workspace.root
        wrong = next((path for path, entry in entries.items() if not _holds(root / path, entry)), "")
        if wrong:
            self.remove(slot)
            raise EnvironmentFault(
                "MIRROR_DAMAGED", f"The mirror's copy of {wrong} was changed.", "Run again."
            )
        return slot

    def _clean_make(self, number: int, folder: Path, pristine: Slot | None) -> Slot:
        """Make a slot in a new folder, and leave nothing when that fails."""
        try:
            # Told before anything is removed: afterwards a full disk is not full any more.
            with cache_faults(self.mirror.home.path):
                folder.mkdir(parents=True, mode=0o700)
                return self._make(number, folder, pristine)
        except BaseException:
            with cache_faults(self.mirror.home.path):
                self._remove(folder)
            raise

    def _make(self, number: int, folder: Path, pristine: Slot | None) -> Slot:
        repository = self.mirror.repository
        tree = folder / _tree_name(repository.root.name)
        admin = self._add_worktree(tree)
        link = OriginalFile(data=(tree / ".git").read_bytes(), mode=stat.S_IFREG | 0o644)
        kind = self._fill(tree, admin, pristine)
        write_file(tree / ".git", link)
        contents = SlotFiles(
            git=self.mirror.git, entries=self.mirror.entries(self.snapshot), own={".git": link}
        )
        workspace = Workspace(
            root=tree,
            project=tree / repository.project,
            user_root=repository.installed,
            interpreter=self.interpreter,
            private=folder / "private",
            environment={},
            number=number,
            isolation=self.isolation,
            mounted=self.mirror.home.mounted_slot if self.isolation.is_closed else None,
        )
        workspace = replace(workspace, environment=self._environment(workspace))
        workspace.project.mkdir(parents=True, exist_ok=True)
        waste = SlotTrash(folder)
        guards = (
            TreeGuard(tree, contents, waste.drop),
            TreeGuard(admin, _Saved(admin), waste.drop),
        )
        return Slot(workspace, folder, guards, contents, waste, kind, cost_of(kind, folder, guards))

    def _environment(self, workspace: Workspace) -> Mapping[str, str]:
        """Make the private folder; return the environment, the same in all slots seen at one path."""
        private = workspace.private
        for folder in (private, private / "home", private / "tmp"):
            folder.mkdir(mode=0o700)
        if workspace.mounted is None:
            return self.environment_for(private, workspace.number)
        for path in (workspace.root, private):
            workspace.seen(path).mkdir(parents=True, exist_ok=True)
        return self.environment_for(workspace.seen(private), 1)

    def _add_worktree(self, tree: Path) -> Path:
        """Add a detached worktree without files; return its folder in the mirror.

        Adding is serialised, as git's own is not safe: parallel ones fail. Filling is not.
        """
        mirror = self.mirror
        with locked(mirror.home.mirror_lock) as lock:
            mend(mirror.home.mirror)
            mirror.git.holding(lock.fd).run(
                "worktree", "add", "--detach", "--no-checkout", str(tree), self.snapshot.commit
            )
        return Path(os.fsdecode((tree / ".git").read_bytes().removeprefix(b"gitdir: ").rstrip(b"\n")))

    def _fill(self, tree: Path, admin: Path, pristine: Slot | None) -> SlotKind:
        """Give a new worktree its files, in the cheapest way that works here."""
        if pristine is not None and clone(pristine.workspace.root, tree):
            shutil.copyfile(pristine.admin / "index", admin / "index")
            return SlotKind.REFLINK
        git = self.mirror.git.having(GIT_DIR=admin, GIT_WORK_TREE=tree)
        git.run("read-tree", "--reset", "-u", self.snapshot.tree)
        _age(tree, self.mirror.entries(self.snapshot))
        return SlotKind.WORKTREE

    def remove(self, slot: Slot) -> None:
        """Remove a slot and its worktree; what cannot be removed is left to the next start."""
        self._remove(slot.folder)

    def _remove(self, folder: Path) -> None:
        remove_tree(folder)
        with locked(self.mirror.home.mirror_lock):
            drop_worktrees(self.mirror.home, lambda tree: tree.parent == folder)


@dataclass(slots=True)
class _Saved:
    """Files of a slot's folder in the mirror, held in memory."""

    files: dict[str, OriginalFile]

    def __init__(self, root: Path) -> None:
        found = (path for path in root.rglob("*") if path.is_file())
        self.files = {
            str(path.relative_to(root)): OriginalFile(data=path.read_bytes(), mode=path.stat().st_mode)
            for path in found
        }

    def __call__(self, paths: object) -> dict[str, OriginalFile]:
        assert isinstance(paths, list)
        missing = [path for path in paths if path not in self.files]
        if missing:
            raise NotRestored(f"{missing[0]} of the worktree is unknown")
        return {path: self.files[path] for path in paths}


def _tree_name(name: str) -> str:
    """Return the name of the user's root, by which a project may be imported; never one that is misread."""
    usable = name and not name.startswith(".") and not _MISREAD & {*name}
    return name if usable and name not in {"private", "journal", "kept.json"} else "tree"


def _age(tree: Path, entries: Mapping[str, TreeEntry]) -> None:
    """Give every file of a new tree the snapshot's own time."""
    times = (SNAPSHOT_MTIME_NS, SNAPSHOT_MTIME_NS)
    top = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path, entry in entries.items():
            if entry.mode != "120000":
                os.utime(path, ns=times, dir_fd=top)
    finally:
        os.close(top)


def _holds(path: Path, entry: TreeEntry) -> bool:
    """Say whether a file has the bytes that its entry names."""
    data = os.fsencode(path.readlink()) if entry.mode == "120000" else path.read_bytes()
    return blob_id(data) == entry.blob
