"""How many jobs are before one that waits, by the rule that schedules. Pure.

The number follows in closed form from the counts of lanes, so that it is as quick to tell for the last of
100,000 jobs as for the first: the n-th job of a submitter has its turn at the submitter's virtual time plus
n steps, and before that time each other one has had as many turns as its own steps fit in.

It is the number of claims until this one if costs are what they are taken to be and nobody comes or goes.
Jobs that limits of their own hold back are before nobody; one that is held back itself is told its place
without its limit, and the limit as the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from codeflash_parallel.queue.jobs import JobKind, Priority, Strategy, WaitReason
from codeflash_parallel.queue.policy.scheduling_policy import (
    AGEING_MS,
    LEVELS,
    TIMED,
    Lane,
    PolicyInputs,
    closed,
    held_back,
    is_busy,
    open_lanes,
)


class WaitingJob(NamedTuple):
    """A job that waits, as the order sees it."""

    share: str
    submitter: str
    kind: JobKind
    priority: Priority
    turn: int
    urgency_ms: int
    suspect: bool = False


class Flow(NamedTuple):
    """The jobs of one submitter, one after the other.

    Args:
        step: virtual time of each.
        share_step: virtual time of its share of each.
    """

    vtime: int
    since: int
    step: int
    share_step: int
    jobs: int

    def before(self, vtime: int, since: int) -> int:
        """Return how many of its jobs have their turn before a moment of virtual time."""
        room = vtime - self.vtime + (self.since < since)
        return min(self.jobs, -(-room // self.step)) if room > 0 else 0


def lanes_before(picture: PolicyInputs, job: WaitingJob) -> Iterator[tuple[Lane, int]]:
    """Yield the lanes whose jobs have to be counted one by one, and the urgency from which they are not.

    Before the job are those with a lesser urgency, or the same one and a lesser turn.
    """
    for lane in picture.lanes:
        is_own = (lane.share, lane.submitter) == (job.share, job.submitter)
        if picture.strategy is Strategy.FAIR and not is_own:
            continue
        same_lane = is_own and (lane.kind, lane.priority) == (job.kind, job.priority)
        if same_lane or not held_back(lane.submitter, lane.kind, picture):
            yield lane, _horizon(lane, picture, job)


def _horizon(lane: Lane, picture: PolicyInputs, job: WaitingJob) -> int:
    match picture.strategy:
        case Strategy.FAIR:
            return job.urgency_ms
        case Strategy.FIFO:
            return job.urgency_ms + (LEVELS[lane.priority] - LEVELS[job.priority]) * AGEING_MS
        case Strategy.PRIORITY:
            return job.urgency_ms


def others_before(picture: PolicyInputs, job: WaitingJob, own: int) -> int:
    """Return how many jobs of others are before one, of which its submitter has so many before it."""
    if picture.strategy is not Strategy.FAIR:
        return 0
    shares = _flows(picture)
    account = picture.submitters[job.share, job.submitter]
    turn = (account.vtime + own * account.step, account.since)
    mates = [flow for flow in shares.pop(job.share, []) if flow.since != account.since]
    had = [flow.before(*turn) for flow in mates]
    spent = own * account.share_step + sum(n * f.share_step for n, f in zip(had, mates, strict=True))
    mine = picture.shares[job.share]
    moment, count = mine.vtime + spent, sum(had)
    for share, flows in shares.items():
        theirs = picture.shares[share]
        count += _turns(flows, moment - theirs.vtime + (theirs.since < mine.since))
    return count


def _flows(picture: PolicyInputs) -> dict[str, list[Flow]]:
    """Return the flows of all submitters that may start something, by share."""
    jobs: dict[tuple[str, str], int] = {}
    for lane in open_lanes(picture):
        who = (lane.share, lane.submitter)
        jobs[who] = jobs.get(who, 0) + lane.ready
    found: dict[str, list[Flow]] = {}
    for who, count in jobs.items():
        found.setdefault(who[0], []).append(Flow(*picture.submitters[who], count))
    return found


def _turns(flows: Sequence[Flow], room: int) -> int:
    """Return how many jobs of a share have their turn while it has had less virtual time than `room`."""
    if room <= 0:
        return 0
    if len(flows) == 1:
        return min(flows[0].jobs, -(-room // flows[0].share_step))
    moment = _last_moment(flows, room)
    counts = [flow.before(moment, 0) for flow in flows]
    spent = sum(count * flow.share_step for count, flow in zip(counts, flows, strict=True))
    turns = sum(counts)
    for flow, count in sorted(zip(flows, counts, strict=True), key=lambda pair: pair[0].since):
        is_due = count < flow.jobs and flow.vtime + count * flow.step == moment
        if is_due and spent < room:
            turns += 1
            spent += flow.share_step
    return turns


def _last_moment(flows: Sequence[Flow], room: int) -> int:
    """Return the last moment of a share's inner time before which less than `room` has been charged."""
    low = min(flow.vtime for flow in flows)
    high = max(flow.vtime + flow.jobs * flow.step for flow in flows)
    while low < high:
        middle = (low + high + 1) // 2
        if _charged(flows, middle) < room:
            low = middle
        else:
            high = middle - 1
    return low


def _charged(flows: Iterable[Flow], moment: int) -> int:
    return sum(flow.before(moment, 0) * flow.share_step for flow in flows)


def reason(picture: PolicyInputs, job: WaitingJob, position: int, *, token_busy: bool) -> WaitReason:
    """Return why a job that may start does not run."""
    shut = closed(picture)
    own = held_back(job.submitter, job.kind, picture)
    if own is not None and shut is not WaitReason.PAUSED:
        return own
    if shut is not None:
        return shut
    if position > 1:
        return WaitReason.TURN
    if job.suspect and is_busy(picture):
        return WaitReason.ALONE
    return WaitReason.TOKEN if token_busy and job.kind in TIMED else WaitReason.NEXT


def wait_s(position: int, picture: PolicyInputs, mean_wall_s: float) -> float:
    """Return an estimate of how long the job at a position waits; negative where nothing has been measured.

    Slots come free one after the other, evenly over the mean time of a job.
    """
    if mean_wall_s <= 0:
        return -1.0
    slots = picture.limits.slots
    free = max(0, slots - sum(picture.running.values()))
    return max(0, position - free) * mean_wall_s / slots
