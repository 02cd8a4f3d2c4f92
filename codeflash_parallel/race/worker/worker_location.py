"""Where an arm is: which process it is to the kernel, and what it sees as its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from codeflash_parallel.process.process_table import child_called, children, own_number
from codeflash_parallel.race.worker.leftover_files import LeftoverFiles, private_folders
from codeflash_parallel.race.worker.process_accounting import ProcessEnded
from codeflash_parallel.result.runtime_protocols import Workspace

#: What the first process of a namespace calls itself, and the one that it starts, which is the guest.
_INIT, _GUEST = 1, 2
#: Folders that all programs share; in a namespace of files they are new, and the arm's alone.
_SHARED = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - only looked at


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerLocation:
    """An arm's place.

    Attributes:
        pid: the process in which the arm's code runs.
        init: the first process of its namespace, in which no code of a project runs; 0: it has none.
    """

    pid: int
    init: int = 0

    @property
    def shares_memory(self) -> bool:
        """Whether its shared memory is that of all programs; one of its own is emptied after each round."""
        return not self.init

    def leftovers(self, workspace: Workspace) -> LeftoverFiles:
        """Return the folders that are to be emptied after each round, as they are now."""
        if not self.init:
            return LeftoverFiles(private_folders(workspace))
        return LeftoverFiles((workspace.private, *_SHARED), Path(f"/proc/{self.init}/root"))


def seat_of(pid: int, workspace: Workspace) -> WorkerLocation:
    """Return the place of an arm, as the kernel knows it: what the arm says of itself is not asked for.

    Args:
        pid: the process that the launcher follows; with a process namespace it only waits for the arm.
        workspace: the arm's.

    Raises:
        ProcessGone: it has ended.
    """
    if not workspace.isolation.level.has_process_namespace:
        return WorkerLocation(pid=pid)
    init = next((child for child in children(pid) if own_number(child) == _INIT), 0)
    guest = child_called(init, _GUEST) if init else 0
    if not guest:
        raise ProcessEnded
    return WorkerLocation(pid=guest, init=init)
