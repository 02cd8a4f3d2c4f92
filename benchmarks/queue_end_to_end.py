"""Agents share one daemon: candidates of two real packages, a flood, a dead agent, a dead daemon.

    python benchmarks/queue_end_to_end.py STATE [--rounds 1] [--agents 6] [--candidates 60] [--races 6]
        [--max-concurrent 3] [--kills 1] [--minutes 60] [--seed 1]

A round: so many agents, a process each, hand in candidates by `queue submit`, a job a candidate; the first
one floods with half of them at once, the others come later with the rest, some of theirs with a race. One
agent is killed with SIGKILL when it has handed in and is started again, the daemon so many times at moments
that are drawn. Each agent asks `queue wait --max 20s` until all of its jobs are done. Then it is looked at:

- every job that was acknowledged has exactly one result, and that is the verdict of `check` (of `run` where
  it raced) on the same candidate;
- fair order: while an agent waited, the flood was not served more than the agent and one job a slot;
- no timed section overlaps another one or a check, of whichever job, by the recorded intervals.

Each round is a line of STATE; one that is there is not made again. Exits 1 if any round broke a promise.
`CODEFLASH_PARALLEL_SDISTS` may name a folder that has the packages' archives already.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workloads import WORKLOADS, Candidate, Prepared, generated, machine, manifest_of, prepare

from codeflash_parallel.queue.jobs import Job, JobState
from codeflash_parallel.queue.sync_client import EvalQueueClient

#: Two packages, each with functions whose checks take a second or so.
PACKAGES = ("short-strings", "short-iterators")
#: A race is as short as it may be: what is asked here is who is next, not who is faster.
RACE = ("--time-budget", "5")
#: One `queue wait`; agents' shells would cut a longer one off.
WAIT_S = 20
#: The whole of a round; more is a hang.
LONGEST_S = 3600.0
STILL_WAITING = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One candidate, whose it is, and how it is judged."""

    agent: int
    prepared: Prepared
    candidate: Candidate
    kind: str

    @property
    def name(self) -> str:
        return f"{self.prepared.workload.kind}/{self.candidate.id}/{self.kind}"

    def options(self, manifest: Path) -> list[str]:
        workload = self.prepared.workload
        functions = [text for target in workload.targets for text in ("--function", target)]
        given = ["--candidates", str(manifest), "--python", self.prepared.python, *functions]
        return [*given, "--tests", *workload.tests, *(RACE if self.kind == "evaluate" else ())]


# --- what is handed in -----------------------------------------------------------------------------------


def tasks_of(packages: Sequence[Prepared], options: argparse.Namespace, seed: int) -> list[Task]:
    """Share candidates among agents: the first one has half of them, the others the rest, in turn."""
    each = -(-options.candidates // len(packages))
    found = [[(own, c) for c in generated(own, each // 2, each - each // 2, seed)] for own in packages]
    mixed = [pair for row in itertools.zip_longest(*found) for pair in row if pair is not None]
    mixed = mixed[: options.candidates]
    flood = len(mixed) // 2
    others = itertools.cycle(range(1, options.agents))
    races = 0
    tasks = []
    for place, (own, candidate) in enumerate(mixed):
        agent = 0 if place < flood else next(others)
        is_race = agent > 0 and candidate.id.startswith("right") and races < options.races
        races += is_race
        kind = "evaluate" if is_race else "check"
        tasks.append(Task(agent=agent, prepared=own, candidate=candidate, kind=kind))
    return tasks


def expected_of(tasks: Sequence[Task], folder: Path) -> dict[str, str]:
    """Judge every candidate without a queue: all that are checked at once, those that race one by one."""
    expected: dict[str, str] = {}
    groups: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        alone = task.candidate.id if task.kind == "evaluate" else ""
        groups.setdefault((task.prepared.workload.kind, alone), []).append(task)
    for group in groups.values():
        first = group[0]
        manifest = manifest_of(first.prepared, [t.candidate for t in group], folder / "expected.jsonl")
        command = "run" if first.kind == "evaluate" else "check"
        arguments = [command, *first.options(manifest), "--output-format", "json"]
        finished = first.prepared.place.run(*arguments, timeout_s=LONGEST_S)
        found = standings(json.loads(finished.stdout))
        expected |= {task.name: found[task.candidate.id] for task in group}
    return expected


def standings(document: Mapping[str, Any]) -> dict[str, str]:
    """Return what is right and what is wrong, and why: what no noise of the machine may change."""
    if document.get("error"):
        raise SystemExit(f"{document['error']}")
    return {c["id"]: _standing(c["status"], c["code"]) for c in document["candidates"]}


def _standing(status: str, code: str) -> str:
    same = {"won", "tied", "lost", "undecided", "duplicate"}
    return "equivalent" if status in same else f"{status} {code}"


# --- an agent, in a process of its own -------------------------------------------------------------------


def agent(folder: Path) -> int:
    """Hand in what is in the folder's list, and wait; everything that is answered is written down at once.

    What was handed in before a kill is handed in again: the queue knows it by its key.
    """
    orders = json.loads((folder / "orders.json").read_text(encoding="utf-8"))
    with (folder / "submitted.jsonl").open("a", encoding="utf-8") as submitted:
        for order in orders:
            answer, took_s = _ask([*order["submit"], "--json"], order)
            job = answer["jobs"][0]
            line = {"task": order["task"], "job": job["job_id"], "known": job["known"], "took_s": took_s}
            submitted.write(json.dumps(line) + "\n")
            submitted.flush()
    lines = (folder / "submitted.jsonl").read_text(encoding="utf-8").splitlines()
    jobs = [json.loads(line)["job"] for line in lines]
    for job in dict.fromkeys(jobs):
        while _wait(orders[0], job) == STILL_WAITING:
            pass
    return 0


def _ask(command: Sequence[str], order: Mapping[str, Any]) -> tuple[Any, float]:
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=order["cwd"], env=order["environment"], capture_output=True, check=False
    )
    took_s = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"{command[3:6]}: {done.returncode} {done.stdout[-2000:]!r} {done.stderr[-2000:]!r}")
    return json.loads(done.stdout), took_s


def _wait(order: Mapping[str, Any], job: str) -> int:
    command = [*order["queue"], "wait", *order["where"], job, "--max", f"{WAIT_S}s", "--json"]
    done = subprocess.run(
        command, cwd=order["cwd"], env=order["environment"], capture_output=True, check=False
    )
    if b"NO_DAEMON" in done.stdout or b"DAEMON_STALLED" in done.stdout:  # killed, and started again
        time.sleep(1.0)
        return STILL_WAITING
    return done.returncode


# --- a round ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """The queue and those who use it."""

    queue: Path
    folder: Path
    packages: Sequence[Prepared]
    options: argparse.Namespace

    def serve(self) -> subprocess.Popen[bytes]:
        place = self.packages[0].place
        log = (self.folder / "daemon.log").open("ab")
        arguments = ("serve", "--queue-dir", str(self.queue))
        with log:
            return subprocess.Popen(
                [*place.command(*arguments), "--max-concurrent", str(self.options.max_concurrent)],
                cwd=place.cwd,
                env=dict(place.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def orders(self, tasks: Sequence[Task], number: int) -> Path:
        """Write what an agent does into a folder of its own."""
        own = self.folder / f"agent{number}"
        own.mkdir()
        found = [self._order(task, own, place) for place, task in enumerate(tasks)]
        (own / "orders.json").write_text(json.dumps(found), encoding="utf-8")
        return own

    def _order(self, task: Task, own: Path, place: int) -> dict[str, Any]:
        manifest = manifest_of(task.prepared, [task.candidate], own / f"{place}.jsonl")
        user = task.prepared.place
        where = ["--cache-dir", str(user.cache), "--queue-dir", str(self.queue)]
        queue = [sys.executable, "-m", "codeflash_parallel", "queue"]
        mine = ["--submitter", f"agent{task.agent}", "--kind", task.kind]
        return {
            "task": task.name,
            "submit": [*queue, "submit", *where, *mine, *task.options(manifest)],
            "queue": queue,
            "where": where,
            "cwd": str(user.cwd),
            "environment": dict(user.environment),
        }


def start_agent(own: Path) -> subprocess.Popen[bytes]:
    with (own / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, __file__, "agent", str(own)], stdout=log, stderr=log, start_new_session=True
        )


def submitted(own: Path) -> list[dict[str, Any]]:
    path = own / "submitted.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def run_round(ground: Ground, tasks: Sequence[Task], chance: random.Random) -> dict[str, Any]:
    """Let agents and daemon run, and kill some; return what was seen, results not yet judged."""
    options = ground.options
    of_agent = [[t for t in tasks if t.agent == number] for number in range(options.agents)]
    folders = [ground.orders(own, number) for number, own in enumerate(of_agent)]
    daemon = ground.serve()
    agents = [start_agent(folders[0])]
    # The others come when the flood is in the queue.
    until(lambda: len(submitted(folders[0])) == len(of_agent[0]), "the flood is handed in")
    agents += [start_agent(own) for own in folders[1:]]
    victim = chance.randrange(1, options.agents)
    until(lambda: len(submitted(folders[victim])) >= 1, "the agent that is killed has handed in")
    os.killpg(agents[victim].pid, signal.SIGKILL)
    agents[victim].wait()
    agents[victim] = start_agent(folders[victim])
    moments = sorted(chance.randrange(1, max(2, len(tasks) * 3 // 4)) for _ in range(options.kills))
    with EvalQueueClient(ground.queue) as client:
        for done in moments:
            until(lambda done=done: finished(client) >= done, f"{done} jobs are done")
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()
            daemon = ground.serve()
        for one in agents:
            one.wait(LONGEST_S)
    daemon.send_signal(signal.SIGTERM)
    drained = daemon.wait(120)
    return {
        "agents": [one.returncode for one in agents],
        "killed_agent": victim,
        "daemon_killed_at": moments,
        "drained": drained,
        "submitted": {n: submitted(own) for n, own in enumerate(folders)},
    }


def finished(client: EvalQueueClient) -> int:
    return len(client.list(states=(JobState.DONE,), limit=100_000))


def until(holds: Any, what: str) -> None:
    end = time.monotonic() + LONGEST_S
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"never: {what}")
        time.sleep(0.05)


# --- what is looked at -----------------------------------------------------------------------------------


def judged(
    ground: Ground, tasks: Sequence[Task], seen: Mapping[str, Any], expected: Mapping[str, str]
) -> dict[str, Any]:
    """Hold what the queue has against what was promised."""
    acknowledged = {line["job"]: line["task"] for lines in seen["submitted"].values() for line in lines}
    with EvalQueueClient(ground.queue) as client:
        every = client.list(limit=100_000)
        jobs = {job.job_id: client.status(job.job_id).job for job in every}
    lost = [name for job, name in acknowledged.items() if job not in jobs or not jobs[job].result]
    keys = Counter(job.key for job in jobs.values() if job.state == JobState.DONE)
    found = {name: _verdict_of(jobs[job]) for job, name in acknowledged.items() if job in jobs}
    wrong = {n: [expected[n], verdict] for n, verdict in found.items() if verdict != expected[n]}
    took = sorted(line["took_s"] for lines in seen["submitted"].values() for line in lines)
    return {
        "tasks": len(tasks),
        "jobs": len(jobs),
        "lost": lost,
        "missing": [task.name for task in tasks if task.name not in found],
        "twice": [key for key, count in keys.items() if count > 1],
        "wrong": wrong,
        "crashes": sum(job.crashes for job in jobs.values()),
        "unfair": list(unfair(list(jobs.values()), ground.options.max_concurrent)),
        "overlaps": overlaps(list(jobs.values())),
        "timed_sections": sum(len(_intervals(job, "timed")) for job in jobs.values()),
        "submit_p50_s": took[len(took) // 2],
        "submit_max_s": took[-1],
        "orphans": orphans(ground.queue),
    }


def _verdict_of(job: Job) -> str:
    if not job.result:
        return f"{job.state} {job.fault}"
    result = json.loads(job.result)
    if result.get("error"):
        return str(result["error"]["code"])
    (standing,) = standings(result["document"]).values()
    return standing


def _intervals(job: Job, name: str) -> list[tuple[int, int]]:
    intervals = json.loads(job.result).get("intervals") or {} if job.result else {}
    return [(begin, end) for begin, end in intervals.get(name, ())]


def overlaps(jobs: Sequence[Job]) -> list[str]:
    """Name pairs of jobs of which one was timed while the other one was timed or checked."""
    timed = [(span, job.job_id) for job in jobs for span in _intervals(job, "timed")]
    others = [(span, job.job_id) for job in jobs for span in _intervals(job, "checks")] + timed
    return sorted(
        {
            f"{one} {other}"
            for (begin, end), one in timed
            for (begun, ended), other in others
            if one != other and begin < ended and begun < end
        }
    )


def unfair(jobs: Sequence[Job], slots: int) -> Iterator[str]:
    """Yield where the flood was served more than an agent that waited, and one job a slot besides.

    Served is counted from the agent's first submission to the end of its last job, by what the queue charges.
    """
    largest_s = max(map(_cost_s, jobs), default=0.0)
    flood = [(_end_ns(job), _cost_s(job)) for job in jobs if job.submitter == "agent0"]
    for name in sorted({job.submitter for job in jobs} - {"agent0"}):
        own = [job for job in jobs if job.submitter == name]
        begun_ns = min(job.submitted.boot_s for job in own) * 1e9
        end_ns = max(_end_ns(job) for job in own)
        flood_s = sum(cost_s for ended, cost_s in flood if begun_ns < ended < end_ns)
        own_s = sum(map(_cost_s, own))
        if flood_s > own_s + (slots + 1) * largest_s:
            yield f"{name} had {own_s:.1f} s while the flood had {flood_s:.1f} s"


def _cost_s(job: Job) -> float:
    """Return what the queue charges for a job: its CPU time, and a tenth of its time where it slept."""
    return max(job.cpu_s, job.wall_s / 10)


def _end_ns(job: Job) -> int:
    spans = [*_intervals(job, "checks"), *_intervals(job, "timed")]
    return max((end for _, end in spans), default=0)


def orphans(queue: Path) -> list[str]:
    """Name processes that still have the queue's folder in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(queue) in command:
                found.append(command.replace(b"\0", b" ").decode("utf-8", "replace")[:200])
    return found


def is_bad(line: Mapping[str, Any]) -> bool:
    """Say whether a round broke a promise."""
    broken = ("lost", "missing", "twice", "wrong", "unfair", "overlaps", "orphans")
    return any(line[name] for name in broken) or any(line["agents"]) or line["drained"] != 0


# --- the campaign ----------------------------------------------------------------------------------------


def play(number: int, options: argparse.Namespace) -> dict[str, Any]:
    """Make one round from nothing."""
    with tempfile.TemporaryDirectory(prefix="queue-end-to-end-") as name:
        folder = Path(name)
        found = [prepare(WORKLOADS[kind], folder) for kind in PACKAGES]
        cache = folder / "cache"
        packages = [replace(own, place=replace(own.place, cache=cache)) for own in found]
        tasks = tasks_of(packages, options, options.seed + number)
        expected = expected_of(tasks, folder)
        print(
            f"round {number}: {len(tasks)} candidates, {Counter(expected.values()).most_common()}", flush=True
        )
        ground = Ground(queue=folder / "queue", folder=folder, packages=packages, options=options)
        began = time.monotonic()
        seen = run_round(ground, tasks, random.Random(f"{options.seed} {number}"))
        took_s = time.monotonic() - began
        line = judged(ground, tasks, seen, expected)
        known = ("agents", "killed_agent", "daemon_killed_at", "drained")
        return {"round": number, "took_s": took_s, **{name: seen[name] for name in known}, **line}


def main() -> int:
    """Play the rounds that are not in the state yet, and sum up."""
    if sys.argv[1:2] == ["agent"]:
        return agent(Path(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("state", type=Path)
    for name, default in (("rounds", 1), ("agents", 6), ("candidates", 60), ("races", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in (("max-concurrent", 3), ("kills", 1), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    ends_s = time.monotonic() + 60 * options.minutes
    text = options.state.read_text(encoding="utf-8") if options.state.exists() else ""
    done = [json.loads(line) for line in text.splitlines()]
    print(machine(), flush=True)
    for number in range(options.rounds):
        if any(line["round"] == number for line in done) or time.monotonic() > ends_s:
            continue
        line = play(number, options)
        with options.state.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        done.append(line)
        print(json.dumps(line), flush=True)
    bad = [line["round"] for line in done if is_bad(line)]
    jobs = sum(line["jobs"] for line in done)
    timed = sum(line["timed_sections"] for line in done)
    print(f"{len(done)} rounds, {jobs} jobs, {timed} timed sections; broke a promise: {bad or 'none'}")
    return 1 if bad or not done else 0


if __name__ == "__main__":
    sys.exit(main())
