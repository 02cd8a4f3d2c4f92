"""What a preflight asks of the baseline's slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from codeflash_parallel.result.candidate_model import Edit
from codeflash_parallel.result.runtime_protocols import Workspace, WorkspaceTree


class StagingSlot(WorkspaceTree, Protocol):
    """The baseline's own slot."""

    @property
    def workspace(self) -> Workspace:
        """Where it is."""
        ...

    async def stage(self, edits: Sequence[Edit], /) -> None:
        """Write edits."""
        ...

    async def audit(self) -> tuple[str, ...]:
        """Return the paths that changed besides the staged edits, new bytecode apart."""
        ...

    async def discard(self) -> None:
        """Restore the snapshot."""
        ...

    async def accept_bytecode(self) -> None:
        """Let the bytecode that the baseline's runs have made be part of the snapshot."""
        ...
