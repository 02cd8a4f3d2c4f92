"""What the files of a slot's tree are by right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codeflash_parallel.workspace.git.git_client import Git, GitFailed, TreeEntry, blob_id, read_blobs
from codeflash_parallel.workspace.slot.tree_guard import NotRestored, OriginalFile

#: Every file of the snapshot has this mtime in every slot, so that bytecode of one slot is good in all; a
#: staged file has the time of its staging, so that bytecode of the snapshot is never taken for it.
SNAPSHOT_MTIME_NS = 1_000_000_000 * 10**9


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotFiles:
    """What the files of a slot's tree are by right: blobs of the snapshot, and files of the slot's own."""

    git: Git
    entries: Mapping[str, TreeEntry]
    own: dict[str, OriginalFile]

    def __call__(self, paths: Sequence[str]) -> dict[str, OriginalFile]:
        """Return what these paths must hold.

        Raises:
            NotRestored: the mirror does not have them any more.
        """
        found = {path: self.own[path] for path in paths if path in self.own}
        wanted = {path: self.entries[path] for path in paths if path not in found}
        try:
            blobs = read_blobs(self.git, [entry.blob for entry in wanted.values()])
        except GitFailed as error:
            raise NotRestored(str(error)) from error
        for path, entry in wanted.items():
            data = blobs[entry.blob]
            if blob_id(data) != entry.blob:
                raise NotRestored(f"the mirror's copy of {path} was changed")
            found[path] = OriginalFile(data=data, mode=int(entry.mode, 8), mtime_ns=SNAPSHOT_MTIME_NS)
        return found
