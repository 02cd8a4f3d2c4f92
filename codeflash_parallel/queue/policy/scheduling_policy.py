"""Who is next, and why the others wait. Pure: lanes and accounts in, a decision out.

A lane holds the waiting jobs of one submitter (in its share), of one kind and one priority. A share is a
run, or a submitter without one; shares take turns by their virtual time, and in a share its submitters by
theirs: CPU time had, divided by weight. A claim is charged with an estimate, which is put right when its
cost has been measured. Who comes back from idleness starts at the least time of those that are there; who
is held back by limits of its own saves nothing up either.

A suspect, whose daemon died while it ran, runs alone: when its turn has come, nothing starts until what runs
has ended, and then nothing but it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from codeflash_parallel.queue.jobs import JobKind, Priority, Strategy, WaitReason

#: Waiting for so long makes a job as urgent as a new one of the next higher priority.
AGEING_MS = 600_000

#: What a job is taken to cost while nothing has been measured.
FIRST_GUESS_US = 1_000_000

#: A job that occupies a slot and computes nothing costs this fraction of the time.
IDLE_SHARE = 0.1

#: Least that is charged: virtual time moves with every job.
_LEAST_TICKS = 1_000

#: No limits, no starts.
_NOTHING: Mapping[Any, int] = MappingProxyType({})

#: Of each priority; 0 is the most urgent.
LEVELS = {priority: level for level, priority in enumerate(Priority)}

#: Kinds that time something.
TIMED = frozenset({JobKind.EVALUATE, JobKind.RACE})


class Lane(NamedTuple):
    """Jobs that differ in their age only. A tuple, as `CostAccount` is: every decision makes one of each row.

    Args:
        ready: those that may start.
        turn: of the first one that may start: its place in the order of insertion.
        urgency_ms: of the same one.
        suspect: whether that one has to run alone.
    """

    share: str
    submitter: str
    kind: JobKind
    priority: Priority
    ready: int
    turn: int
    urgency_ms: int
    suspect: bool = False


class CostAccount(NamedTuple):
    """Virtual time of a share, or of a submitter in its share.

    Args:
        vtime: microseconds of cost, divided by weight.
        since: turn of the job with which it last came back from idleness: no two have the same.
        step: what the next claim is charged; for a share: a claim of this submitter.
        share_step: of a submitter: what a claim charges its share.
    """

    vtime: int
    since: int
    step: int = 0
    share_step: int = 0


class ConcurrencyLimits(NamedTuple):
    """How many jobs may run; 0 means no limit.

    Args:
        slots: in all.
        submitter: of one submitter.
        kinds: of a kind.
        starts: of one submitter within a minute.
    """

    slots: int
    submitter: int = 0
    kinds: Mapping[str, int] = _NOTHING
    starts: int = 0


class PolicyInputs(NamedTuple):
    """All that a decision depends on.

    Args:
        submitters: accounts by share and submitter.
        running: jobs that run, by submitter and kind.
        starts: of the last minute, by submitter.
        is_taken: a suspect runs.
    """

    lanes: tuple[Lane, ...]
    shares: Mapping[str, CostAccount]
    submitters: Mapping[tuple[str, str], CostAccount]
    running: Mapping[tuple[str, str], int]
    limits: ConcurrencyLimits
    strategy: Strategy
    is_paused: bool = False
    is_taken: bool = False
    starts: Mapping[str, int] = _NOTHING


class NextLane(NamedTuple):
    """The lane whose first job is next.

    Args:
        passed_shares: those that were before it but for limits of their own.
        passed_submitters: the same, in its share.
    """

    lane: Lane
    passed_shares: tuple[str, ...] = ()
    passed_submitters: tuple[str, ...] = ()


def urgency_of(queued_ms: int, priority: Priority) -> int:
    """Return how urgent a job is; less is more. Waiting makes up for priority."""
    return queued_ms + LEVELS[priority] * AGEING_MS


@lru_cache(maxsize=1024)
def ticks(cost_us: int, weight: float) -> int:
    """Return the virtual time that a cost takes."""
    return max(_LEAST_TICKS, round(cost_us / weight))


def cost_us(cpu_s: float, wall_s: float) -> int:
    """Return what an attempt has cost."""
    return round(max(cpu_s, wall_s * IDLE_SHARE) * 1e6)


def closed(picture: PolicyInputs) -> WaitReason | None:
    """Return why nothing at all may start."""
    if picture.is_paused:
        return WaitReason.PAUSED
    if sum(picture.running.values()) >= picture.limits.slots:
        return WaitReason.SLOTS
    return WaitReason.ALONE if picture.is_taken else None


def is_busy(picture: PolicyInputs) -> bool:
    """Say whether anything runs."""
    return any(picture.running.values())


def held_back(submitter: str, kind: str, picture: PolicyInputs) -> WaitReason | None:
    """Return which limit of its own keeps a submitter's job of a kind from starting."""
    limits, running = picture.limits, picture.running.items()
    if kind in limits.kinds and sum(n for (_, its), n in running if its == kind) >= limits.kinds[kind]:
        return WaitReason.KIND
    if limits.submitter and sum(n for (who, _), n in running if who == submitter) >= limits.submitter:
        return WaitReason.SUBMITTER
    if limits.starts and picture.starts.get(submitter, 0) >= limits.starts:
        return WaitReason.RATE
    return None


def open_lanes(picture: PolicyInputs) -> Sequence[Lane]:
    """Return the lanes that no limit of their own holds back; most queues have no such limit."""
    limits = picture.limits
    if not (limits.kinds or limits.submitter or limits.starts):
        return picture.lanes
    return [lane for lane in picture.lanes if not held_back(lane.submitter, lane.kind, picture)]


def pick(picture: PolicyInputs, kinds: Iterable[JobKind], ending: int = 0) -> NextLane | None:
    """Return who is next for a worker that takes jobs of some kinds, if anybody.

    Args:
        ending: jobs that do not run any more for the queue, but whose processes may not be gone.
    """
    if closed(picture):
        return None
    taken = frozenset(kinds)
    free = open_lanes(picture)
    wanted = [lane for lane in free if lane.kind in taken]
    if not wanted:
        return None
    lane = min(wanted, key=lambda lane: order(lane, picture))
    if lane.suspect and (is_busy(picture) or ending):
        return None
    if picture.strategy is not Strategy.FAIR:
        return NextLane(lane=lane)
    return NextLane(
        lane=lane,
        passed_shares=_passed_shares(picture, free, lane.share),
        passed_submitters=_passed_submitters(picture, free, lane),
    )


def order(lane: Lane, picture: PolicyInputs) -> tuple[int, ...]:
    """Return the place of a lane's first job; the least one is next."""
    match picture.strategy:
        case Strategy.FAIR:
            share = picture.shares[lane.share]
            submitter = picture.submitters[lane.share, lane.submitter]
            accounts = (share.vtime, share.since, submitter.vtime, submitter.since)
            return (*accounts, lane.urgency_ms, lane.turn)
        case Strategy.FIFO:
            return (lane.turn,)
        case Strategy.PRIORITY:
            return (lane.urgency_ms, lane.turn)


def _passed_shares(picture: PolicyInputs, free: Sequence[Lane], chosen: str) -> tuple[str, ...]:
    served = {lane.share for lane in free}
    vtime = picture.shares[chosen].vtime
    waiting = {lane.share for lane in picture.lanes} - served
    return tuple(sorted(share for share in waiting if picture.shares[share].vtime < vtime))


def _passed_submitters(picture: PolicyInputs, free: Sequence[Lane], chosen: Lane) -> tuple[str, ...]:
    served = {lane.submitter for lane in free if lane.share == chosen.share}
    vtime = picture.submitters[chosen.share, chosen.submitter].vtime
    waiting = {lane.submitter for lane in picture.lanes if lane.share == chosen.share} - served
    return tuple(sorted(who for who in waiting if picture.submitters[chosen.share, who].vtime < vtime))
