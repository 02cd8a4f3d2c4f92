"""What a preflight has to do with warm servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.result.candidate_model import Edit


class WarmServerControl(Protocol):
    """The warm servers, as far as a preflight has to do with them."""

    async def begin(self, draft: Baseline, /) -> None:
        """Start servers of its tests on cores that nobody uses; one of them is the preflight's."""
        ...

    async def go_on(self, draft: Baseline, /) -> None:
        """Start all servers; `calls` are those that the tests made."""
        ...

    async def sees(self, draft: Baseline, edits: Sequence[Edit], /) -> bool:
        """Say whether a test fails in a fork that runs these edits; no: nothing is known."""
        ...

    async def distrust(self, draft: Baseline, /) -> None:
        """Give up what has not seen a failure that a new process saw."""
        ...
