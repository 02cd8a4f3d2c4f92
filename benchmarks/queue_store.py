"""The queue's store under load, under kills, with 100,000 jobs, and how fair it is.

    python benchmarks/queue_store.py STATE [--kills 960] [--every 1] [--submitters 32] [--workers 8]
        [--jobs 10000] [--rate 550] [--depth 100000] [--seeds 5000]
        [--parts kills,calls,load,offered,depth,fairness]

Each finding is a line of STATE; one that is there is not made again. *kills*: SIGKILL at random moments of
four submitters and six workers, in batches of sixty. *calls*: a crash at every n-th system call of submit,
claim and complete, by strace. *load*: all submitters and workers in processes of their own, as fast as they
can. *offered*: the same, but submissions come at a rate, whether the queue keeps up or not. *depth*: claims
and positions in a long queue. *fairness*: the simulated policy. Exits 1 if any figure misses its mark.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from queue_crashes import crashed, kills, moments, request, why_no_strace
from queue_load import load, percentiles
from simulated_queue import Arrival, SimulatedQueue, drawn_arrivals, serve

from codeflash_parallel.queue.jobs import JobState, Strategy, now
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.store import Store

BATCH = 60
SIZES = {
    "kills": 960,
    "every": 1,
    "submitters": 32,
    "workers": 8,
    "jobs": 10_000,
    "rate": 550,
    "depth": 100_000,
    "seeds": 5000,
}
SECOND = 10**6


# Depth


def depth(folder: Path, jobs: int) -> Iterator[dict[str, Any]]:
    """Fill a queue, and time claims and positions in it under each strategy."""
    shutil.rmtree(folder, ignore_errors=True)
    rng = random.Random(1)
    fill(folder, jobs)
    for strategy in Strategy:
        chosen = QueueSettings(max_concurrent=10**6, max_queue_size=0, strategy=strategy)
        with Store.open(folder, chosen) as store:
            ids = [job.job_id for job in store.jobs(states={JobState.QUEUED})]
            looked = [timed(partial(store.place, job_id, now())) for job_id in rng.choices(ids, k=300)]
            claimed = [timed(partial(store.claim, "w", now())) for _ in range(300)]
        yield {
            "strategy": strategy.value,
            "queued": len(ids),
            "place": percentiles(looked),
            "claim": percentiles(claimed),
        }


def fill(folder: Path, jobs: int) -> None:
    """Submit many jobs in few transactions: a fourth of them one submitter's, the others' thirty-two's."""
    with Store.open(folder, QueueSettings(max_queue_size=0)) as store:
        database, lifecycle = store._database, store._lifecycle  # noqa: SLF001 - one by one takes minutes
        for begin in range(0, jobs, 5000):
            with database.changing(now()) as now_ms:
                for n in range(begin, min(jobs, begin + 5000)):
                    wanted = request(f"k{n}", f"s{n % 32}" if n % 4 else "flood", "x" * 300)
                    lifecycle.admit(wanted, now_ms, now())


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


# Fairness


def fairness(seeds: int) -> dict[str, Any]:
    """Return what the simulated policy gives to whom."""
    late = [Arrival(10 * SECOND, who, SECOND) for who in "bcd" for _ in range(5)]
    flood = serve(SimulatedQueue(), [Arrival(0, "a", SECOND) for _ in range(100)] + late)
    order = "".join(one.entry.submitter for one in flood)
    weighted = Counter(
        one.entry.submitter
        for one in serve(
            SimulatedQueue(slots=4, weights={"a": 1, "b": 2, "c": 4}),
            [Arrival(0, who, SECOND) for who in "abc" for _ in range(2000)],
            until_us=400 * SECOND,
        )
    )
    costs = Counter[str]()
    for one in serve(
        SimulatedQueue(),
        [Arrival(0, "dear", 100 * SECOND) for _ in range(60)]
        + [Arrival(0, "cheap", SECOND) for _ in range(6000)],
        until_us=5000 * SECOND,
    ):
        costs[one.entry.submitter] += one.entry.cost_us
    agents = [Arrival(0, f"agent{n}", SECOND, "big") for n in range(20) for _ in range(50)]
    runs = Counter(
        "alone" if one.entry.submitter == "alone" else "run of 20"
        for one in serve(
            SimulatedQueue(), agents + [Arrival(0, "alone", SECOND)] * 500, until_us=600 * SECOND
        )
    )
    whole = sum(weighted.values())
    return {
        "flood_of_100_with_3_latecomers": order[8:34],
        "weights_1_2_4": {who: round(weighted[who] / whole, 4) for who in "abc"},
        "cost_in_s_100_to_1": {who: cost // SECOND for who, cost in costs.items()},
        "run_of_20_agents_and_one_alone": dict(runs),
        **bound(seeds),
    }


def bound(seeds: int) -> dict[str, Any]:
    """Return how close waiting comes to its bound, over so many histories."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "unit" / "queue"))
    from test_policy import excess

    worst = 0.0
    for seed in range(seeds):
        rng = random.Random(seed)
        weights = {name: rng.choice([0.5, 1, 2, 4]) for name in ("r1", "r2", "s0", "s1", "s2")}
        queue = SimulatedQueue(slots=rng.randint(1, 4), weights=weights)
        worst = max(worst, excess(queue, serve(queue, drawn_arrivals(rng, 40))))
    return {"seeds": seeds, "largest_part_of_the_bound": round(worst, 3)}


# The campaign


def marks(part: str, found: dict[str, Any]) -> bool:
    """Say whether a finding is what was promised."""
    if part == "kills":
        wrong = ("lost", "without_result", "duplicate_results", "other_results", "workers_failed")
        return not any(found[name] for name in wrong) and found["synchronous_full"]
    if part == "calls":
        return not found["problems"]
    if part in {"load", "offered"}:
        fast = found["submits_per_s"] >= 100
        return not found["failed_processes"] and not found["problems"] and fast
    if part == "depth":
        return max(found["place"]["p99_ms"], found["claim"]["p99_ms"]) < 10
    return found["largest_part_of_the_bound"] <= 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("state", type=Path)
    for name, default in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--parts", default="kills,calls,load,offered,depth,fairness")
    options = parser.parse_args()
    known = (
        [json.loads(text) for text in options.state.read_text().splitlines()]
        if options.state.exists()
        else []
    )
    done = {found["id"] for found in known}
    good = all(found["good"] for found in known)
    with tempfile.TemporaryDirectory(prefix="queue-", dir=options.state.resolve().parent) as name:
        for part, unique, make in work(options, Path(name) / "q", done):
            found = make()
            found |= {"id": unique, "part": part, "good": marks(part, found)}
            good &= found["good"]
            print(json.dumps(found), flush=True)
            with options.state.open("a") as file:
                file.write(json.dumps(found) + "\n")
    return 0 if good else 1


Work = Iterator[tuple[str, str, Callable[[], dict[str, Any]]]]


def work(options: argparse.Namespace, folder: Path, done: set[str]) -> Work:
    """Yield what is still to be found out: its part, its name, and how."""
    sizes = (options.submitters, options.workers, options.jobs)
    all_of_it: dict[str, Callable[[], Work]] = {
        "kills": lambda: _kills(options.kills, folder),
        "calls": lambda: _calls(options.every, folder),
        "load": lambda: iter([("load", "load", lambda: load(folder, *sizes))]),
        "offered": lambda: iter(
            [("offered", f"offered {options.rate}", lambda: load(folder, *sizes, options.rate))]
        ),
        "depth": lambda: _depth(options.depth, folder, done),
        "fairness": lambda: iter([("fairness", "fairness", lambda: fairness(options.seeds))]),
    }
    for part in options.parts.split(","):
        yield from (one for one in all_of_it[part]() if one[1] not in done)


def _kills(count: int, folder: Path) -> Work:
    for batch in range(-(-count // BATCH)):
        yield "kills", f"kills {batch}", partial(kills, folder, min(BATCH, count - batch * BATCH), batch)


def _calls(every: int, folder: Path) -> Work:
    if why := why_no_strace():
        print(f"calls: skipped: {why}")
        return
    for operation, call, number in moments(folder, every):
        yield "calls", f"calls {operation} {call} {number}", partial(crashed, operation, call, number, folder)


def _depth(jobs: int, folder: Path, done: set[str]) -> Work:
    if {f"depth {strategy}" for strategy in Strategy} <= done:
        return
    for found in depth(folder, jobs):
        yield "depth", f"depth {found['strategy']}", partial(dict, found)


if __name__ == "__main__":
    sys.exit(main())
