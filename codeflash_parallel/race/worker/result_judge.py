"""What a race asks where results may differ from the baseline's: some of them are judged after each round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledResult:
    """A result of a timed call that was drawn, and is none of those that were accepted before.

    Attributes:
        call: number of the captured call.
        digest: of the result.
        plain: the result, a JSON text; empty where it cannot be told, and `untold` says what it holds.
    """

    arm: str
    call: int
    digest: str
    plain: str
    untold: str


class ResultJudge(Protocol):
    """Judges results; implemented by the engine."""

    def accepts(self, call: int, digest: str, /) -> bool:
        """Say whether a result was accepted before, or is the baseline's."""
        ...

    async def refused(self, results: Sequence[SampledResult], /) -> Mapping[str, str]:
        """Return the arms of which a result is not accepted, and why, one clause each."""
        ...
