"""Scheduling policy: the next job, wait reasons and positions. Pure: lanes and accounts in, a decision out.

A lane holds the waiting jobs of one submitter (in its share), one kind and one priority. A share is a run,
or a submitter without one. With `fair`, shares are served in order of their virtual time, and the submitters
of a share in order of theirs: CPU time received divided by weight. A claim is charged with its expected cost,
which is corrected when the cost has been measured. An account that returns from idleness starts at the least
virtual time of those with jobs, and one that its own limits held back saves nothing up either.

A suspect, a job that ran when a daemon died, runs alone: when it is next, nothing starts until all running
jobs have ended, and nothing starts beside it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from codeflash_parallel.queue.jobs import JobKind, Priority, Strategy, WaitReason

#: Waiting for so long makes a job as urgent as a new one of the next higher priority.
AGEING_MS = 600_000

#: Expected cost of a job while nothing has been measured.
FIRST_GUESS_US = 1_000_000

#: A job that occupies a slot and computes nothing costs this fraction of the time.
IDLE_SHARE = 0.1

#: Smallest charge: virtual time moves with every job.
_LEAST_TICKS = 1_000

_NOTHING: Mapping[Any, int] = MappingProxyType({})

#: Rank of each priority; 0 is the most urgent.
LEVELS = {priority: level for level, priority in enumerate(Priority)}

#: Kinds that need the benchmark token.
TIMED = frozenset({JobKind.EVALUATE, JobKind.RACE})


class Lane(NamedTuple):
    """Jobs that differ only in age.

    Args:
        ready: number of jobs that may start.
        turn: of the first one: its place in the order of insertion. The first one is the most urgent one.
        urgency_ms: of the first one.
        suspect: whether the first one has to run alone.
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
        vtime: microseconds of cost divided by weight.
        since: turn of the job with which it last returned from idleness.
        step: of a submitter: charge of its next claim.
        share_step: of a submitter: what a claim charges its share.
    """

    vtime: int
    since: int
    step: int = 0
    share_step: int = 0


class ConcurrencyLimits(NamedTuple):
    """Limits of running jobs; 0 means no limit.

    Args:
        slots: in total.
        submitter: of one submitter.
        kinds: by kind.
        starts: of one submitter within the window of its rate.
    """

    slots: int
    submitter: int = 0
    kinds: Mapping[str, int] = _NOTHING
    starts: int = 0


class PolicyInputs(NamedTuple):
    """Everything that a decision depends on.

    Args:
        submitters: accounts by share and submitter.
        running: number of running jobs by submitter and kind.
        runs_suspect: whether a suspect runs.
        starts: within the window of the rate, by submitter.
    """

    lanes: tuple[Lane, ...]
    shares: Mapping[str, CostAccount]
    submitters: Mapping[tuple[str, str], CostAccount]
    running: Mapping[tuple[str, str], int]
    limits: ConcurrencyLimits
    strategy: Strategy
    is_paused: bool = False
    runs_suspect: bool = False
    starts: Mapping[str, int] = _NOTHING


class NextLane(NamedTuple):
    """The lane whose first job is next.

    Args:
        passed_shares: shares that their own limits held back, and that were before it.
        passed_submitters: the same, of submitters in its share.
    """

    lane: Lane
    passed_shares: tuple[str, ...] = ()
    passed_submitters: tuple[str, ...] = ()


def urgency_of(queued_ms: int, priority: Priority) -> int:
    """Return the urgency of a job; less is more urgent."""
    return queued_ms + LEVELS[priority] * AGEING_MS


@lru_cache(maxsize=1024)
def ticks(cost_us: int, weight: float) -> int:
    """Return the virtual time of a cost."""
    return max(_LEAST_TICKS, round(cost_us / weight))


def cost_us(cpu_s: float, wall_s: float) -> int:
    """Return the cost of an attempt."""
    return round(max(cpu_s, wall_s * IDLE_SHARE) * 1e6)


def closed(inputs: PolicyInputs) -> WaitReason | None:
    """Return why no job at all may start; `None` if one may."""
    if inputs.is_paused:
        return WaitReason.PAUSED
    if sum(inputs.running.values()) >= inputs.limits.slots:
        return WaitReason.SLOTS
    return WaitReason.ALONE if inputs.runs_suspect else None


def held_back(submitter: str, kind: str, inputs: PolicyInputs) -> WaitReason | None:
    """Return the limit that keeps a submitter's jobs of a kind from starting."""
    limits, running = inputs.limits, inputs.running.items()
    if kind in limits.kinds and sum(n for (_, its), n in running if its == kind) >= limits.kinds[kind]:
        return WaitReason.KIND
    if limits.submitter and sum(n for (who, _), n in running if who == submitter) >= limits.submitter:
        return WaitReason.SUBMITTER
    if limits.starts and inputs.starts.get(submitter, 0) >= limits.starts:
        return WaitReason.RATE
    return None


def _open_lanes(inputs: PolicyInputs) -> list[Lane]:
    return [lane for lane in inputs.lanes if not held_back(lane.submitter, lane.kind, inputs)]


def pick(inputs: PolicyInputs, ending: int = 0) -> NextLane | None:
    """Return the next lane; `None` if nothing may start.

    Args:
        ending: number of jobs that have ended for the queue, but whose processes may still exist.
    """
    if closed(inputs):
        return None
    lanes = _open_lanes(inputs)
    if not lanes:
        return None
    lane = min(lanes, key=lambda lane: _order(lane, inputs))
    if lane.suspect and (any(inputs.running.values()) or ending):
        return None
    if inputs.strategy is not Strategy.FAIR:
        return NextLane(lane=lane)
    held = set(inputs.lanes) - set(lanes)
    shares = {its.share for its in held} - {its.share for its in lanes}
    mates = {its.submitter for its in held if its.share == lane.share}
    mates -= {its.submitter for its in lanes if its.share == lane.share}
    share_vtime = inputs.shares[lane.share].vtime
    vtime = inputs.submitters[lane.share, lane.submitter].vtime
    return NextLane(
        lane=lane,
        passed_shares=tuple(sorted(its for its in shares if inputs.shares[its].vtime < share_vtime)),
        passed_submitters=tuple(
            sorted(its for its in mates if inputs.submitters[lane.share, its].vtime < vtime)
        ),
    )


def _order(lane: Lane, inputs: PolicyInputs) -> tuple[int, ...]:
    """Return the sort key of a lane's first job; the least one is next."""
    match inputs.strategy:
        case Strategy.FAIR:
            share = inputs.shares[lane.share]
            submitter = inputs.submitters[lane.share, lane.submitter]
            accounts = (share.vtime, share.since, submitter.vtime, submitter.since)
            return (*accounts, lane.urgency_ms, lane.turn)
        case Strategy.FIFO:
            return (lane.turn,)
        case Strategy.PRIORITY:
            return (lane.urgency_ms, lane.turn)


def position(inputs: PolicyInputs, share: str, submitter: str, before: int) -> int:
    """Return the rank of a waiting job in the order of claims; 1 is next.

    It is the number of claims up to and including this job if costs are as expected and no job comes or goes.
    Jobs that their own limits hold back do not count; such a job itself gets its rank without its limit.

    Args:
        before: number of jobs before it: with `fair` its submitter's, with the other strategies all.
    """
    if inputs.strategy is not Strategy.FAIR:
        return before + 1
    jobs: dict[tuple[str, str], int] = {}
    for lane in _open_lanes(inputs):
        who = (lane.share, lane.submitter)
        jobs[who] = jobs.get(who, 0) + lane.ready
    jobs[share, submitter] = before + 1
    claims = enumerate(_claims(inputs, jobs), start=1)
    own = (rank for rank, who in claims if who == (share, submitter))
    return next(islice(own, before, None))


def _claims(inputs: PolicyInputs, jobs: Mapping[tuple[str, str], int]) -> Iterator[tuple[str, str]]:
    """Yield share and submitter of each claim in the order in which `pick` would make them.

    Args:
        jobs: number of waiting jobs by share and submitter.
    """
    queues: dict[str, list[tuple[int, int, str, int]]] = {}
    for (share, submitter), count in jobs.items():
        account = inputs.submitters[share, submitter]
        queues.setdefault(share, []).append((account.vtime, account.since, submitter, count))
    shares = [(inputs.shares[share].vtime, inputs.shares[share].since, share) for share in queues]
    heapq.heapify(shares)
    for queue in queues.values():
        heapq.heapify(queue)
    while shares:
        share_vtime, share_since, share = shares[0]
        vtime, since, submitter, left = queues[share][0]
        yield share, submitter
        account = inputs.submitters[share, submitter]
        if left > 1:
            heapq.heapreplace(queues[share], (vtime + account.step, since, submitter, left - 1))
        else:
            heapq.heappop(queues[share])
        if queues[share]:
            heapq.heapreplace(shares, (share_vtime + account.share_step, share_since, share))
        else:
            heapq.heappop(shares)


def reason(
    inputs: PolicyInputs, submitter: str, kind: JobKind, position: int, *, suspect: bool, token_busy: bool
) -> WaitReason:
    """Return why a job that may start does not run."""
    shut = closed(inputs)
    own = held_back(submitter, kind, inputs)
    if own is not None and shut is not WaitReason.PAUSED:
        return own
    if shut is not None:
        return shut
    if position > 1:
        return WaitReason.TURN
    if suspect and any(inputs.running.values()):
        return WaitReason.ALONE
    return WaitReason.TOKEN if token_busy and kind in TIMED else WaitReason.NEXT


def wait_s(position: int, inputs: PolicyInputs, mean_wall_s: float) -> float:
    """Return the expected wait of the job at a position; negative if nothing has been measured.

    Slots become free one after the other, evenly over the mean time of a job.
    """
    if mean_wall_s <= 0:
        return -1.0
    slots = inputs.limits.slots
    free = max(0, slots - sum(inputs.running.values()))
    return max(0, position - free) * mean_wall_s / slots
