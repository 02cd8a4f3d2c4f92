"""Who may be repaired or refined: pure decisions over what was spent so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.repair.provider_protocol import RefinementKind
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin


class RequestPermission(StrEnum):
    """Whether a request may be made; the value is the sentence that a person is shown."""

    #: Yes.
    GRANTED = "It may be asked for."
    #: No failing test, no missing test, no differing value: nothing to work with.
    NO_EVIDENCE = "There is no evidence to work with."
    #: The candidate's lineage has had its repairs.
    LINEAGE_SPENT = "Its lineage has had all its repairs."
    #: The run has had its repairs.
    RUN_SPENT = "The run has had all its repairs."
    #: Enough candidates are right already.
    ENOUGH_CORRECT = "Enough candidates are correct already."
    #: No further candidate would be judged.
    NO_CANDIDATES_LEFT = "The run judges no more candidates."
    #: The wall budget is used up.
    NO_TIME_LEFT = "The run's wall budget is spent."


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderSpending:
    """What a run has spent so far.

    Attributes:
        repairs: requests made, by the root of the lineage they were made for.
        refined: candidates that were sent to the refiner.
        correct: candidates that are equivalent to the baseline.
        candidates: candidates known, those that are still to be judged included.
        seconds_left: of the wall budget; infinite if there is none.
    """

    repairs: Mapping[CandidateId, int] = field(default_factory=dict)
    refined: frozenset[CandidateId] = frozenset()
    correct: int = 0
    candidates: int = 0
    seconds_left: float = float("inf")

    def with_repair(self, root: CandidateId) -> ProviderSpending:
        """Return the state after one more repair request."""
        return replace(self, repairs={**self.repairs, root: self.repairs.get(root, 0) + 1})

    def with_refinements(self, candidates: Sequence[CandidateId]) -> ProviderSpending:
        """Return the state after candidates were sent to the refiner."""
        return replace(self, refined=self.refined | set(candidates))


@dataclass(frozen=True, kw_only=True, slots=True)
class RefinementContender:
    """A candidate that is faster than the baseline, as the ranking sees it.

    Attributes:
        depth: refinements in its lineage, itself included.
        speedup: estimate against the baseline.
        parent_speedup: the estimate of the candidate that it refines; 0 if it refines none.
    """

    id: CandidateId
    depth: int
    speedup: float
    parent_speedup: float = 0.0


def may_repair(
    limits: Settings, spent: ProviderSpending, root: CandidateId, evidence: int
) -> RequestPermission:
    """Decide about one repair request.

    Args:
        limits: of the run; see `Settings` for what 0 means.
        spent: so far.
        root: oldest ancestor of the candidate (itself if it has no parent): a lineage shares its repairs.
        evidence: number of failing tests, missing tests and differing values that can be shown.
    """
    checks = (
        (evidence == 0, RequestPermission.NO_EVIDENCE),
        (_no_more_candidates(limits, spent), RequestPermission.NO_CANDIDATES_LEFT),
        (spent.seconds_left <= 0, RequestPermission.NO_TIME_LEFT),
        (0 < limits.enough_correct <= spent.correct, RequestPermission.ENOUGH_CORRECT),
        (spent.repairs.get(root, 0) >= limits.repairs_per_candidate, RequestPermission.LINEAGE_SPENT),
        (sum(spent.repairs.values()) >= limits.repairs_per_run, RequestPermission.RUN_SPENT),
    )
    return next((answer for refused, answer in checks if refused), RequestPermission.GRANTED)


def choose_refinements(
    limits: Settings, spent: ProviderSpending, ranked: Sequence[RefinementContender]
) -> tuple[CandidateId, ...]:
    """Return who is refined next: the top k that are new to the refiner and whose lineage still gains.

    Args:
        limits: of the run; see `Settings` for what 0 means.
        spent: so far.
        ranked: faster candidates, the fastest first.
    """
    if spent.seconds_left <= 0 or _no_more_candidates(limits, spent):
        return ()
    return tuple(
        contender.id
        for contender in ranked[: limits.refine_top]
        if contender.id not in spent.refined
        and contender.depth < limits.refine_depth
        # a lineage is followed for as long as it brings something
        and contender.speedup > contender.parent_speedup
    )


def refinement_depth(lineage: Sequence[CandidateOrigin]) -> int:
    """Return how many steps of a lineage, the candidate itself included, are refinements."""
    return sum(origin is CandidateOrigin.REFINEMENT for origin in lineage)


def refinement_kind(depth: int) -> RefinementKind:
    """Return how a candidate with so many refinements behind it is to be refined."""
    return RefinementKind.ADAPTIVE if depth else RefinementKind.FIRST


def _no_more_candidates(limits: Settings, spent: ProviderSpending) -> bool:
    return 0 < limits.max_candidates <= spent.candidates
