"""What a run that goes on knows from its journal. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from codeflash_parallel.repair.provider_protocol import Answer
from codeflash_parallel.result.candidate.candidate_model import Submission
from codeflash_parallel.result.line_profile import LineProfile
from codeflash_parallel.run.store.journal_events import (
    Answered,
    Begun,
    Checked,
    Ended,
    Ending,
    Grounded,
    Happened,
    Look,
    Prepared,
    Profiled,
    Request,
    Resumed,
    Snapshotted,
    SourceEnded,
    Submitted,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalState:
    """Findings by the keys of submissions (`happened.key_of`).

    Attributes:
        submissions: as they were handed in, in order, under their names in the run.
        source_ended: no more were to come.
        resumed: how often the run was gone on with.
        ended: how the run ended last; `None`: it was killed.
    """

    begun: Begun
    submissions: tuple[Submission, ...] = ()
    source_ended: bool = False
    snapshot: Snapshotted | None = None
    ground: str = ""
    prepared: Mapping[str, Prepared] = field(default_factory=dict)
    checks: Mapping[tuple[str, Look], Checked] = field(default_factory=dict)
    answers: Mapping[tuple[Request, tuple[str, ...]], tuple[Answer, ...]] = field(default_factory=dict)
    profiles: Mapping[str, LineProfile] = field(default_factory=dict)
    resumed: int = 0
    ended: Ended | None = None

    @property
    def is_finished(self) -> bool:
        """Say whether there is nothing to go on with."""
        return self.ended is not None and self.ended.ending is Ending.FINISHED

    @property
    def judged(self) -> int:
        """Return how many candidates have been checked."""
        return len({key for key, _look in self.checks})

    @property
    def is_whole(self) -> bool:
        """Say whether every candidate that was handed in at once is known."""
        return len(self.submissions) >= self.begun.expected

    def without_findings(self) -> JournalState:
        """Return what still holds where candidates are judged under other circumstances: answers do."""
        return replace(self, checks={}, profiles={}, ground="", prepared=_alone(self.prepared))


def _alone(prepared: Mapping[str, Prepared]) -> dict[str, Prepared]:
    """Forget who repeats whom: those may not exist this time."""
    return {key: replace(event, duplicate_of="") for key, event in prepared.items()}


def recollect(events: Sequence[Happened]) -> JournalState:
    """Return what a journal says.

    Args:
        events: the first is `Begun`.
    """
    begun = events[0]
    assert isinstance(begun, Begun)
    grounds = [event for event in events if isinstance(event, Grounded)]
    snapshots = [event for event in events if isinstance(event, Snapshotted)]
    since = _ground_changed(events)
    before = _alone({e.key: e for e in events[:since] if isinstance(e, Prepared)})
    latest = events[since:]
    last = [event for event in events if isinstance(event, Ended | Resumed)][-1:]
    return JournalState(
        begun=begun,
        submissions=tuple(event.submission for event in events if isinstance(event, Submitted)),
        source_ended=any(isinstance(event, SourceEnded) for event in events),
        snapshot=snapshots[-1] if snapshots else None,
        ground=grounds[-1].key if grounds else "",
        prepared={**before, **{e.key: e for e in latest if isinstance(e, Prepared)}},
        checks={(e.key, e.look): e for e in latest if isinstance(e, Checked)},
        answers={(e.request, e.about): e.answers for e in events if isinstance(e, Answered)},
        profiles={e.key: e.profile for e in latest if isinstance(e, Profiled)},
        resumed=sum(isinstance(event, Resumed) for event in events),
        ended=last[0] if last and isinstance(last[0], Ended) else None,
    )


def _ground_changed(events: Sequence[Happened]) -> int:
    """Return from where on findings hold: who was judged on another ground was judged anew."""
    since, ground = 0, ""
    for number, event in enumerate(events):
        if isinstance(event, Grounded):
            since = number if ground not in {"", event.key} else since
            ground = event.key
    return since
