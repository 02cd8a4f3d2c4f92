"""The protocols of those who answer: repairers and refiners, and what they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from codeflash_parallel.result.candidate_model import CandidateId, Content
from codeflash_parallel.result.result_model import FailedTest, FirstDifference, LineProfile, Speedup


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One new candidate proposed by a provider.

    Attributes:
        content: the change, relative to the *snapshot* (not to the parent).
        explanation: the author's words.
        parent: id of the request's candidate it descends from; empty: the first of the request.
    """

    content: Content
    explanation: str = ""
    parent: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RepairRequest:
    """Evidence about one candidate that is not equivalent.

    Attributes:
        code: stable code of the rejection.
        diff: the candidate's change as a unified diff.
        source: text of the target's file with the candidate applied, by path.
        failures: failing tests with their messages.
        difference: first differing call, where values differ.
        ancestry: ids from the oldest ancestor to the candidate itself.
    """

    candidate: CandidateId
    targets: tuple[str, ...]
    code: str
    reason: str
    diff: str
    source: tuple[tuple[str, str], ...]
    failures: tuple[FailedTest, ...] = ()
    missing: tuple[str, ...] = ()
    difference: FirstDifference | None = None
    ancestry: tuple[CandidateId, ...] = ()


class RefinementKind(StrEnum):
    """How a candidate is to be refined."""

    #: Make this winner faster still.
    FIRST = "first"
    #: Descends from a refinement: adapt, seeing the whole ancestry and what each step brought.
    ADAPTIVE = "adaptive"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ancestor:
    """One step of a lineage, the oldest first, with what it brought."""

    candidate: CandidateId
    diff: str
    explanation: str
    speedup: Speedup | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RefinementRequest:
    """Evidence about one candidate that is faster.

    Attributes:
        profile, baseline_profile: line profiles of the candidate and of the baseline; `None` if the
            profiler failed (then `speedup` is the evidence).
        ancestry: every ancestor and, last, the candidate itself.
    """

    candidate: CandidateId
    kind: RefinementKind
    targets: tuple[str, ...]
    diff: str
    source: tuple[tuple[str, str], ...]
    speedup: Speedup
    profile: LineProfile | None = None
    baseline_profile: LineProfile | None = None
    ancestry: tuple[Ancestor, ...] = ()


class Repairer(Protocol):
    """Answers a repair request with a new candidate, several, or `None` when it has no idea."""

    def __call__(self, request: RepairRequest, /) -> Answer | Sequence[Answer] | None:
        """Answer one request; called on a thread of an executor."""
        ...


class Refiner(Protocol):
    """Answers a *batch* of refinement requests: all winners ready at that moment."""

    def __call__(self, requests: Sequence[RefinementRequest], /) -> Answer | Sequence[Answer] | None:
        """Answer a batch of requests; called on a thread of an executor."""
        ...
