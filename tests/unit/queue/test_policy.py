"""The policy of the queue: fairness, orders, positions, limits."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from effort import TIMES
from simulated_queue import Arrival, Served, SimulatedQueue, copy_of, drawn_arrivals, serve

from codeflash_parallel.queue.jobs import JobKind, Priority, Strategy, WaitReason
from codeflash_parallel.queue.policy import (
    AGEING_MS,
    ConcurrencyLimits,
    CostAccount,
    Lane,
    PolicyInputs,
    closed,
    cost_us,
    held_back,
    pick,
    reason,
    ticks,
    wait_s,
)

SECOND = 10**6

#: Histories of the gate; a campaign tries more.
SEEDS = 500 * TIMES

#: Seeds with which something was wrong once: they are always tried.
FAILED_ONCE: tuple[int, ...] = ()


def order_of(served: list[Served]) -> str:
    return "".join(one.entry.submitter for one in served)


def flood(
    submitter: str, jobs: int, *, at_us: int = 0, cost_us: int = SECOND, run: str = ""
) -> list[Arrival]:
    return [Arrival(at_us, submitter, cost_us, run) for _ in range(jobs)]


# Fairness


def test_latecomers_are_served_in_turn_although_somebody_floods_the_queue():
    late = [job for who in "bcd" for job in flood(who, 5, at_us=10 * SECOND)]
    served = serve(SimulatedQueue(), flood("a", 100) + late)

    order = order_of(served)
    first = min(order.index(who) for who in "bcd")
    assert first == 11, order  # a job a second, and at the tie who came first
    assert order[first - 1 : first + 19] == "abcd" * 5, order
    assert order[first + 19 :] == "a" * 85


@pytest.mark.slow
def test_costs_that_differ_hundredfold_are_shared_by_cost_and_not_by_jobs():
    jobs = flood("a", 40, cost_us=100 * SECOND) + flood("b", 2000, cost_us=SECOND)
    served = serve(SimulatedQueue(), jobs, until_us=2000 * SECOND)

    had = Counter[str]()
    for one in served:
        had[one.entry.submitter] += one.entry.cost_us
    assert abs(had["a"] - had["b"]) <= 2 * 100 * SECOND, had


def test_weights_divide_the_machine_within_five_percent():
    jobs = [job for who in "abc" for job in flood(who, 1000)]
    queue = SimulatedQueue(slots=4, weights={"a": 1, "b": 2, "c": 4})
    had = Counter(order_of(serve(queue, jobs, until_us=200 * SECOND)))

    whole = sum(had.values())
    for who, weight in (("a", 1), ("b", 2), ("c", 4)):
        assert had[who] / whole == pytest.approx(weight / 7, rel=0.05), had


@pytest.mark.slow
def test_weights_hold_for_jobs_of_many_sizes():
    rng = random.Random(7)
    jobs = [Arrival(0, who, round(SECOND * rng.lognormvariate(0, 1))) for who in "abc" for _ in range(1200)]
    queue = SimulatedQueue(slots=4, weights={"a": 1, "b": 2, "c": 4})
    had = Counter[str]()
    for one in serve(queue, jobs, until_us=600 * SECOND):
        had[one.entry.submitter] += one.entry.cost_us

    whole = sum(had.values())
    for who, weight in (("a", 1), ("b", 2), ("c", 4)):
        assert had[who] / whole == pytest.approx(weight / 7, rel=0.05), had


def test_a_run_with_twenty_agents_has_one_share():
    many = [job for n in range(20) for job in flood(f"agent{n}", 20, run="big")]
    served = serve(SimulatedQueue(slots=2), many + flood("alone", 200), until_us=150 * SECOND)

    had = Counter("alone" if one.entry.submitter == "alone" else "big" for one in served)
    assert abs(had["alone"] - had["big"]) <= 2, had
    of_agents = Counter(one.entry.submitter for one in served if one.entry.submitter != "alone")
    assert len(of_agents) == 20
    assert max(of_agents.values()) - min(of_agents.values()) <= 1, of_agents


def test_who_returns_from_idleness_has_saved_nothing_up():
    jobs = flood("a", 1) + flood("b", 1) + flood("b", 300, at_us=SECOND) + flood("a", 50, at_us=200 * SECOND)
    served = [one for one in serve(SimulatedQueue(), jobs) if one.began_us >= 200 * SECOND]

    assert order_of(served)[:100].count("a") == 50
    assert "aaa" not in order_of(served)


def test_who_had_the_machine_alone_owes_nothing_once_it_was_idle():
    jobs = flood("a", 100) + flood("a", 20, at_us=500 * SECOND) + flood("b", 20, at_us=500 * SECOND)
    served = [one for one in serve(SimulatedQueue(), jobs) if one.came_us >= 500 * SECOND]
    assert order_of(served) == "ab" * 20


def test_who_is_held_back_by_a_limit_of_its_own_saves_nothing_up():
    queue = SimulatedQueue(slots=2, kind_limits={"race": 1})
    races = [Arrival(0, who, SECOND, kind=JobKind.RACE) for who in "aa" for _ in range(10)]
    long = [Arrival(0, "c", 300 * SECOND, kind=JobKind.RACE)]
    checks = [Arrival(0, "b", SECOND) for _ in range(400)]
    late = [Arrival(310 * SECOND, "a", SECOND) for _ in range(50)]
    served = serve(queue, long + races + checks + late)

    after = [one for one in served if one.began_us >= 310 * SECOND and one.entry.kind is JobKind.CHECK]
    assert "aaa" not in order_of(after)[:60], order_of(after)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(0, SEEDS, 50), *FAILED_ONCE])
def test_waiting_is_bounded_at_every_seed(seed: int):
    """Fifty histories each. Before a share's next job starts, another one has got its own part, and no more.

    Since the share had jobs waiting, another one has been given at most (its weight / the share's) times what
    the share was charged, and 3 x slots + 1 of the largest jobs.
    """
    for one in range(seed, seed + 50):
        rng = random.Random(one)
        weights = {name: rng.choice([0.5, 1, 2, 4]) for name in ("r1", "r2", "s0", "s1", "s2")}
        queue = SimulatedQueue(slots=rng.randint(1, 4), weights=weights)
        served = serve(queue, drawn_arrivals(rng, 40))
        assert len({job.entry.number for job in served}) >= 40, one
        assert_bounded(queue, served, f"seed {one}")


def test_the_bound_is_one_that_can_be_broken():
    jobs = flood("a", 60) + flood("b", 60)
    queue = SimulatedQueue(strategy=Strategy.FIFO)
    with pytest.raises(AssertionError, match="alone b waits for alone a"):
        assert_bounded(queue, serve(queue, jobs), "fifo")


def assert_bounded(queue: SimulatedQueue, served: list[Served], seed: str) -> None:
    assert excess(queue, served, seed) <= 1


def excess(queue: SimulatedQueue, served: list[Served], seed: str = "") -> float:
    """Return the largest part of the bound that anybody has waited for; says who if it is more than all of it."""
    largest = max([job.entry.cost_us for job in served] + [SECOND])
    worst = 0.0
    for share in {job.entry.share for job in served}:
        for begin, end in _busy_periods(share, served):
            had = Counter[str]()
            for job in served:
                name = job.entry.share
                if not begin <= job.began_us <= end:
                    continue
                had[name] += job.entry.cost_us
                if name != share:
                    part = queue.weight(name) / queue.weight(share)
                    bound = part * had[share] + (3 * queue.slots + 1) * largest * max(1, part)
                    worst = max(worst, had[name] / bound)
                    assert worst <= 1, f"{seed}: {share} waits for {name}: {had[name]} > {bound}"
    return worst


def _busy_periods(share: str, served: list[Served]) -> list[tuple[int, int]]:
    """Return the times in which a share always had jobs waiting."""
    periods: list[tuple[int, int]] = []
    for job in sorted((job for job in served if job.entry.share == share), key=lambda job: job.came_us):
        if periods and job.came_us <= periods[-1][1]:
            begin, end = periods.pop()
            periods.append((begin, max(end, job.began_us)))
        else:
            periods.append((job.came_us, job.began_us))
    return periods


# Orders


def test_fifo_serves_in_the_order_of_insertion_whoever_asks():
    jobs = [Arrival(n * 1000, "abc"[n % 3], SECOND, priority=list(Priority)[n % 5]) for n in range(30)]
    served = serve(SimulatedQueue(strategy=Strategy.FIFO), jobs)
    assert [one.entry.number for one in served] == list(range(1, 31))


def test_priority_serves_the_most_urgent_first_and_equals_in_the_order_of_insertion():
    queue = SimulatedQueue(strategy=Strategy.PRIORITY)
    wanted = [Priority.IDLE, Priority.NORMAL, Priority.CRITICAL, Priority.NORMAL, Priority.HIGH, Priority.LOW]
    served = serve(queue, [Arrival(0, "a", SECOND, priority=priority) for priority in wanted])
    assert [one.entry.number for one in served] == [3, 5, 2, 4, 6, 1]


@pytest.mark.parametrize("strategy", [Strategy.PRIORITY, Strategy.FAIR])
def test_a_job_of_low_priority_waits_for_those_only_that_come_within_its_ageing(strategy: Strategy):
    ageing = AGEING_MS * 1000
    urgent = [Arrival(n * SECOND, "a", SECOND, priority=Priority.HIGH) for n in range(2 * ageing // SECOND)]
    served = serve(
        SimulatedQueue(strategy=strategy), [Arrival(0, "a", SECOND, priority=Priority.LOW), *urgent]
    )

    low = next(place for place, one in enumerate(served) if one.entry.priority is Priority.LOW)
    ahead = [one.came_us for one in served[:low]]
    assert max(ahead) <= 2 * ageing
    assert len(ahead) == 2 * ageing // SECOND  # HIGH is two levels above LOW: those of two ageings


def test_ties_between_shares_are_broken_by_who_came_first():
    served = serve(SimulatedQueue(), [Arrival(0, who, SECOND) for who in "zay" for _ in range(2)])
    assert order_of(served) == "zayzay"


# Positions


def drawn_queue(rng: random.Random, strategy: Strategy) -> SimulatedQueue:
    """Draw a queue in the middle of its life."""
    queue = SimulatedQueue(slots=3, strategy=strategy, weights={"s0": 2, "r1": 3})
    waiting = drawn_arrivals(rng, 25)
    for arrival in waiting:
        queue.submit(
            arrival.submitter, run=arrival.run, kind=arrival.kind, priority=arrival.priority,
            now_ms=arrival.at_us // 1000 if strategy is not Strategy.FIFO else 0, cost_us=arrival.cost_us,
        )  # fmt: skip
        if rng.random() < 0.5 and (entry := queue.claim()) is not None and rng.random() < 0.7:
            queue.complete(entry)
    return queue


@pytest.mark.slow
@pytest.mark.parametrize("strategy", Strategy)
def test_positions_are_the_order_of_the_claims(strategy: Strategy):
    for seed in range(60 * TIMES):
        queue = drawn_queue(random.Random(seed), strategy)
        told = {entry.number: queue.position(entry) for lane in queue.waiting.values() for entry in lane}
        drained = copy_of(queue)
        drained.slots = 10**6
        claims = [entry.number for entry in iter(drained.claim, None)]
        assert [told[number] for number in claims] == list(range(1, len(claims) + 1)), seed


def test_who_is_held_back_is_before_nobody_and_is_told_its_own_place():
    queue = SimulatedQueue(slots=4, kind_limits={"race": 1})
    queue.submit("a", kind=JobKind.RACE)
    assert queue.claim() is not None
    held = queue.submit("a", kind=JobKind.RACE)
    free = queue.submit("b")
    assert queue.position(free) == 1
    assert queue.position(held) == 1  # without its limit it would be: it came first
    claimed = queue.claim()
    assert claimed is not None
    assert claimed.number == free.number
    assert queue.position(held) == 1
    assert queue.claim() is None


# Limits and reasons


def picture(**changes: object) -> PolicyInputs:
    lane = Lane(
        share="alone a",
        submitter="a",
        kind=JobKind.CHECK,
        priority=Priority.NORMAL,
        ready=1,
        turn=1,
        urgency_ms=0,
    )
    plain = {
        "lanes": (lane,),
        "shares": {"alone a": CostAccount(vtime=0, since=1)},
        "submitters": {("alone a", "a"): CostAccount(vtime=0, since=1, step=1, share_step=1)},
        "running": {},
        "limits": ConcurrencyLimits(slots=2),
        "strategy": Strategy.FAIR,
    }
    return PolicyInputs(**{**plain, **changes})


def reason_of(
    inputs: PolicyInputs, position: int, kind: JobKind = JobKind.CHECK, *, busy: bool = False
) -> str:
    return reason(inputs, "a", kind, position, suspect=False, token_busy=busy)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, WaitReason.NEXT),
        ({"is_paused": True}, WaitReason.PAUSED),
        ({"running": {("b", "check"): 2}}, WaitReason.SLOTS),
        (
            {"running": {("a", "race"): 1}, "limits": ConcurrencyLimits(slots=2, submitter=1)},
            WaitReason.SUBMITTER,
        ),
        (
            {"running": {("b", "check"): 1}, "limits": ConcurrencyLimits(slots=2, kinds={"check": 1})},
            WaitReason.KIND,
        ),
        ({"starts": {"a": 3}, "limits": ConcurrencyLimits(slots=2, starts=3)}, WaitReason.RATE),
        ({"starts": {"a": 2, "b": 3}, "limits": ConcurrencyLimits(slots=2, starts=3)}, WaitReason.NEXT),
    ],
)
def test_what_keeps_a_job_from_starting_is_what_its_submitter_is_told(
    changes: dict[str, object], why: WaitReason
):
    seen = picture(**changes)
    assert reason_of(seen, 1) is why
    assert (pick(seen) is not None) is (why is WaitReason.NEXT)
    assert (closed(seen) or held_back("a", "check", seen) or WaitReason.NEXT) is why


def test_a_job_that_times_is_told_that_the_token_is_taken():
    assert reason_of(picture(), 1, JobKind.RACE, busy=True) is WaitReason.TOKEN
    assert reason_of(picture(), 2, JobKind.RACE, busy=True) is WaitReason.TURN
    assert reason_of(picture(), 1, busy=True) is WaitReason.NEXT


def test_what_an_attempt_costs_is_its_cpu_time_and_a_little_for_an_idle_slot():
    assert cost_us(2.0, 3.0) == 2 * SECOND
    assert cost_us(0.0, 100.0) == 10 * SECOND
    assert ticks(8 * SECOND, 4) == 2 * SECOND
    assert ticks(0, 1) > 0


def test_the_wait_is_estimated_by_the_slots_that_come_free():
    assert wait_s(1, picture(), 10.0) == 0
    assert wait_s(5, picture(), 10.0) == 15.0
    assert wait_s(1, picture(running={("b", "check"): 2}), 10.0) == 5.0
    assert wait_s(1, picture(), 0.0) < 0


def test_virtual_time_never_goes_back_for_who_waits():
    """The least time of those who wait grows from claim to claim, but for what estimates were too high by."""
    for seed in range(20):
        queue = SimulatedQueue(slots=1)
        for arrival in drawn_arrivals(random.Random(seed), 30):
            queue.submit(arrival.submitter, run=arrival.run, cost_us=SECOND)
        floors = []
        while (entry := queue.claim()) is not None:
            queue.complete(entry)
            waiting = {lane[0] for lane in queue.waiting}
            floors.append(min((queue.shares[share].vtime for share in waiting), default=10**18))
        assert all(earlier <= later for earlier, later in pairwise(floors)), seed
