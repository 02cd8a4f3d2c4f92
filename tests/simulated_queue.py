"""The queue without a disk: the rules of virtual time once more, in plain Python, around the real policy.

The store keeps the same accounts in SQL; `test_queue_agrees.py` lets both go through the same histories. Here a
history of thousands of jobs costs milliseconds, so that claims about fairness can be tried on many.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from codeflash_parallel.queue.jobs import JobKind, Priority, Strategy
from codeflash_parallel.queue.policy import (
    FIRST_GUESS_US,
    ConcurrencyLimits,
    CostAccount,
    Lane,
    PolicyInputs,
    held_back,
    pick,
    position,
    ticks,
    urgency_of,
)
from codeflash_parallel.queue.store.accounts import share_of


@dataclass(slots=True)
class Entry:
    """A job that waits or runs."""

    number: int
    share: str
    submitter: str
    kind: JobKind
    priority: Priority
    urgency_ms: int
    cost_us: int = 0
    share_ticks: int = 0
    submitter_ticks: int = 0

    @property
    def lane(self) -> tuple[str, str, JobKind, Priority]:
        return self.share, self.submitter, self.kind, self.priority


@dataclass(slots=True)
class Figures:
    vtime: int = 0
    since: int = 0
    measured: int = 0
    cost_us: int = 0

    def learn(self, cost_us: int) -> None:
        self.measured = min(self.measured + 1, 20)
        difference = cost_us - self.cost_us
        step = abs(difference) // self.measured  # SQLite divides towards zero
        self.cost_us += step if difference > 0 else -step


@dataclass(slots=True)
class SimulatedQueue:
    slots: int = 1
    strategy: Strategy = Strategy.FAIR
    weights: Mapping[str, float] = field(default_factory=dict)
    per_submitter_running: int = 0
    kind_limits: Mapping[str, int] = field(default_factory=dict)
    number: int = 0
    waiting: dict[tuple[str, str, JobKind, Priority], list[Entry]] = field(default_factory=dict)
    running: dict[int, Entry] = field(default_factory=dict)
    shares: dict[str, Figures] = field(default_factory=dict)
    submitters: dict[tuple[str, str], Figures] = field(default_factory=dict)
    overall: Figures = field(default_factory=Figures)

    def submit(
        self,
        submitter: str,
        *,
        run: str = "",
        kind: JobKind = JobKind.CHECK,
        priority: Priority = Priority.NORMAL,
        now_ms: int = 0,
        cost_us: int = FIRST_GUESS_US,
    ) -> Entry:
        self.number += 1
        share = share_of(run, submitter)
        self.shares.setdefault(share, Figures())
        self.submitters.setdefault((share, submitter), Figures())
        urgency = urgency_of(now_ms, priority)
        entry = Entry(self.number, share, submitter, kind, priority, urgency, cost_us)
        self._wait(entry)
        return entry

    def _wait(self, entry: Entry) -> None:
        self._enter(entry)
        lane = self.waiting.setdefault(entry.lane, [])
        lane.append(entry)
        lane.sort(key=lambda e: (e.urgency_ms, e.number))

    def _enter(self, entry: Entry) -> None:
        busy = {lane[0] for lane in self.waiting} | {e.share for e in self.running.values()}
        if not any(lane[0] == entry.share for lane in self.waiting):
            others = [self.shares[share].vtime for share in busy - {entry.share}]
            _come_back(self.shares[entry.share], others, list(self.shares.values()), entry.number)
        own = (entry.share, entry.submitter)
        if not any(lane[:2] == own for lane in self.waiting):
            there = {lane[:2] for lane in self.waiting} | {
                (e.share, e.submitter) for e in self.running.values()
            }
            mates = [self.submitters[who].vtime for who in there - {own} if who[0] == entry.share]
            known = [figures for who, figures in self.submitters.items() if who[0] == entry.share]
            _come_back(self.submitters[own], mates, known, entry.number)

    def account(self, who: tuple[str, str]) -> CostAccount:
        figures = self.submitters[who]
        guess = figures.cost_us if figures.measured else self.overall.cost_us or FIRST_GUESS_US
        return CostAccount(
            vtime=figures.vtime,
            since=figures.since,
            step=ticks(guess, self.weights.get(who[1], 1.0)),
            share_step=ticks(guess, self.weight(who[0])),
        )

    def weight(self, share: str) -> float:
        return self.weights.get(share.partition(" ")[2], 1.0)

    def picture(self) -> PolicyInputs:
        counts: dict[tuple[str, str], int] = defaultdict(int)
        for entry in self.running.values():
            counts[entry.submitter, entry.kind] += 1
        return PolicyInputs(
            lanes=tuple(_lane(key, lane) for key, lane in self.waiting.items()),
            shares={name: CostAccount(vtime=f.vtime, since=f.since) for name, f in self.shares.items()},
            submitters={who: self.account(who) for who in self.submitters},
            running=counts,
            limits=ConcurrencyLimits(
                slots=self.slots, submitter=self.per_submitter_running, kinds=self.kind_limits
            ),
            strategy=self.strategy,
        )

    def claim(self) -> Entry | None:
        picked = pick(self.picture())
        if picked is None:
            return None
        lane = picked.lane
        own = (lane.share, lane.submitter)
        for passed in picked.passed_shares:
            self.shares[passed].vtime = self.shares[lane.share].vtime
        for passed in picked.passed_submitters:
            self.submitters[lane.share, passed].vtime = self.submitters[own].vtime
        account = self.account(own)
        key = (lane.share, lane.submitter, lane.kind, lane.priority)
        entry = self.waiting[key].pop(0)
        if not self.waiting[key]:
            del self.waiting[key]
        entry.share_ticks, entry.submitter_ticks = account.share_step, account.step
        self._move(entry, account.share_step, account.step)
        self.running[entry.number] = entry
        return entry

    def complete(self, entry: Entry) -> None:
        self._settle(entry, entry.cost_us)
        self.submitters[entry.share, entry.submitter].learn(entry.cost_us)
        self.overall.learn(entry.cost_us)
        del self.running[entry.number]

    def release(self, entry: Entry) -> None:
        self._settle(entry, 0)
        self._wait(entry)
        del self.running[entry.number]

    def cancel(self, entry: Entry) -> None:
        if entry.number in self.running:
            self._settle(entry, entry.cost_us)
            del self.running[entry.number]
            return
        self.waiting[entry.lane].remove(entry)
        if not self.waiting[entry.lane]:
            del self.waiting[entry.lane]

    def _settle(self, entry: Entry, cost_us: int) -> None:
        outer = ticks(cost_us, self.weight(entry.share)) if cost_us else 0
        inner = ticks(cost_us, self.weights.get(entry.submitter, 1.0)) if cost_us else 0
        self._move(entry, outer - entry.share_ticks, inner - entry.submitter_ticks)

    def _move(self, entry: Entry, outer: int, inner: int) -> None:
        self.shares[entry.share].vtime += outer
        self.submitters[entry.share, entry.submitter].vtime += inner

    def position(self, entry: Entry) -> int:
        inputs = self.picture()
        before = 0
        for lane, entries in self.waiting.items():
            is_own = lane[:2] == (entry.share, entry.submitter)
            is_shut = held_back(lane[1], lane[2], inputs) and lane[1:3] != (entry.submitter, entry.kind)
            if (is_own or self.strategy is not Strategy.FAIR) and not is_shut:
                before += sum(self._key(e) < self._key(entry) for e in entries)
        return position(inputs, entry.share, entry.submitter, before)

    def _key(self, entry: Entry) -> tuple[int, int]:
        urgency_ms = 0 if self.strategy is Strategy.FIFO else entry.urgency_ms
        return urgency_ms, entry.number


def _come_back(mine: Figures, others: list[int], known: list[Figures], turn: int) -> None:
    floor = min(others) if others else max(figures.vtime for figures in known)
    mine.vtime = max(mine.vtime, floor)
    mine.since = turn


def _lane(key: tuple[str, str, JobKind, Priority], lane: list[Entry]) -> Lane:
    share, submitter, kind, priority = key
    first = lane[0]
    return Lane(
        share=share,
        submitter=submitter,
        kind=kind,
        priority=priority,
        ready=len(lane),
        turn=first.number,
        urgency_ms=first.urgency_ms,
    )


@dataclass(frozen=True, slots=True)
class Arrival:
    at_us: int
    submitter: str
    cost_us: int
    run: str = ""
    kind: JobKind = JobKind.CHECK
    priority: Priority = Priority.NORMAL


@dataclass(slots=True)
class Served:
    """A job that was served, with the moments of its life in microseconds."""

    entry: Entry
    came_us: int
    began_us: int
    ended_us: int = -1


def serve(queue: SimulatedQueue, arrivals: Iterable[Arrival], until_us: int = 10**18) -> list[Served]:
    """Let the jobs come and be served until none is left, and return them in the order of their claims.

    A job takes a slot for as long as it costs.
    """
    coming = sorted(arrivals, key=lambda arrival: arrival.at_us)
    ends: list[tuple[int, int]] = []
    served: dict[int, Served] = {}
    came: dict[int, int] = {}
    now = 0
    while coming or ends or queue.waiting:
        now = min([arrival.at_us for arrival in coming[:1]] + [end for end, _ in ends[:1]], default=now)
        if now > until_us:
            break
        while ends and ends[0][0] <= now:
            number = heapq.heappop(ends)[1]
            served[number].ended_us = now
            queue.complete(served[number].entry)
        while coming and coming[0].at_us <= now:
            arrival = coming.pop(0)
            entry = queue.submit(
                arrival.submitter, run=arrival.run, kind=arrival.kind, priority=arrival.priority,
                now_ms=now // 1000, cost_us=arrival.cost_us,
            )  # fmt: skip
            came[entry.number] = now
        while (claimed := queue.claim()) is not None:
            served[claimed.number] = Served(claimed, came[claimed.number], now)
            heapq.heappush(ends, (now + claimed.cost_us, claimed.number))
    return list(served.values())


def drawn_arrivals(rng: random.Random, jobs: int) -> list[Arrival]:
    """Draw a history: floods and trickles, alone and in runs, cheap and dear."""
    who = [
        (f"s{n}", rng.choice(["", "", "r1", "r2"]), rng.choice([10**5, 10**6, 10**7]))
        for n in range(rng.randint(2, 6))
    ]
    arrivals = []
    while len(arrivals) < jobs:
        submitter, run, scale = rng.choice(who)
        at = rng.randint(0, 40) * 10**6
        for _ in range(rng.choice([1, 1, 2, 10])):
            cost = max(1000, round(scale * rng.choice([0.1, 1, 1, 10]) * rng.random()))
            kind = rng.choice([JobKind.CHECK, JobKind.RACE])
            priority = rng.choice([Priority.NORMAL, Priority.NORMAL, *Priority])
            arrivals.append(Arrival(at, submitter, cost, run, kind, priority))
    return arrivals


def copy_of(queue: SimulatedQueue) -> SimulatedQueue:
    """Return a queue that can be changed without this one."""
    return replace(
        queue,
        waiting={key: [replace(entry) for entry in lane] for key, lane in queue.waiting.items()},
        running={number: replace(entry) for number, entry in queue.running.items()},
        shares={name: replace(figures) for name, figures in queue.shares.items()},
        submitters={who: replace(figures) for who, figures in queue.submitters.items()},
        overall=replace(queue.overall),
    )
