"""Crashes of the queue's users, at random and at every system call. Used by `queue_store.py`."""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from linearizable import check_history, record_history  # noqa: E402

from codeflash_parallel.queue.jobs import (  # noqa: E402
    Job,
    JobKind,
    JobRequest,
    JobState,
    now,
)
from codeflash_parallel.queue.queue_errors import LeaseLost  # noqa: E402
from codeflash_parallel.queue.queue_settings import QueueSettings  # noqa: E402
from codeflash_parallel.queue.store.database import DatabaseFileCheck  # noqa: E402
from codeflash_parallel.queue.store.store import Store  # noqa: E402

#: What a job does in the campaign of kills.
BODY_S = 0.02
#: Leases are short, so that jobs of the dead come back within the campaign; attempts are many.
SETTINGS = QueueSettings(
    max_concurrent=64, max_queue_size=0, lease=1.0, heartbeat=0.3, max_attempts=100_000, queue_timeout=0.0
)


def request(key: str, submitter: str, payload: str = "{}") -> JobRequest:
    return JobRequest(kind=JobKind.CHECK, key=key, payload=payload, submitter=submitter)


def forked(work: Callable[[], None]) -> int:
    """Run something in a process of its own and return its id; it has nothing of ours open."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001 - told, and the process ends
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(code)


# Kills at random moments


def submitter(folder: Path, name: str, log: Path) -> None:
    """Submit jobs without end, and write down what was acknowledged, in one write each."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with Store.open(folder, SETTINGS) as store:
        for number in range(10**9):
            receipt = store.submit(request(f"{name}-{os.getpid()}-{number}", name), now())
            os.write(handle, f"{receipt.job.key} {receipt.job.job_id}\n".encode())
            time.sleep(0.005)


def worker(folder: Path, name: str, log: Path, stop: Path) -> None:
    """Serve jobs until told to stop and none is left, and write down what was taken."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with Store.open(folder, SETTINGS) as store:
        while True:
            job = store.claim(name, now())
            if job is None:
                if stop.exists() and not store.jobs(states={JobState.QUEUED, JobState.RUNNING}, limit=1):
                    return
                time.sleep(0.01)
                continue
            time.sleep(BODY_S)
            result = f"{name} {os.getpid()} {job.fence}"
            with suppress(LeaseLost):
                store.complete(job.job_id, job.fence, result, now(), cpu_s=BODY_S, wall_s=BODY_S)
                os.write(handle, f"{job.job_id} {result}\n".encode())


def kills(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """Kill submitters and workers at random moments, let the rest be served, and look."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = random.Random(seed)
    queue, stop = folder / "queue", folder / "stop"
    acked, done = folder / "acked", folder / "done"
    with Store.open(queue, SETTINGS):
        record_history(queue)
    begin: dict[str, Callable[[], None]] = {
        **{f"s{n}": lambda n=n: submitter(queue, f"s{n}", acked) for n in range(4)},
        **{f"w{n}": lambda n=n: worker(queue, f"w{n}", done, stop) for n in range(6)},
    }
    alive = {name: forked(work) for name, work in begin.items()}
    for _ in range(count):
        time.sleep(rng.uniform(0.002, 0.05))
        name = rng.choice(list(begin))
        os.kill(alive[name], signal.SIGKILL)
        os.waitpid(alive[name], 0)
        alive[name] = forked(begin[name])
    for name in [name for name in alive if name.startswith("s")]:
        os.kill(alive[name], signal.SIGKILL)
        os.waitpid(alive.pop(name), 0)
    stop.touch()
    failed = [name for name, child in alive.items() if os.waitpid(child, 0)[1]]
    return {"kills": count, "workers_failed": failed, **looked(queue, acked, done)}


def looked(queue: Path, acked: Path, done: Path) -> dict[str, Any]:
    """Compare the queue with what was acknowledged, after everybody has gone."""
    history = check_history(queue)
    with Store.open(queue, SETTINGS, DatabaseFileCheck.FULL) as store:
        jobs = {str(job.job_id): job for job in store.jobs()}
        synchronous = store._database.number("PRAGMA synchronous")  # noqa: SLF001
    pairs = [line.split(" ", 1) for line in acked.read_text().splitlines()]
    results = [line.split(" ", 1) for line in done.read_text().splitlines()]
    return {
        "acknowledged": len(pairs),
        "lost": sum(job_id not in jobs or jobs[job_id].key != key for key, job_id in pairs),
        "without_result": sum(job.state is not JobState.DONE for job in jobs.values()),
        "duplicate_results": len(results) - len({job_id for job_id, _ in results}),
        "other_results": sum(jobs[job_id].result != result for job_id, result in results),
        "jobs": len(jobs),
        "claims": len(history.claims),
        "synchronous_full": synchronous == 2,
    }


# A crash at every system call


def calls_of(operation: str, folder: Path) -> dict[str, int]:
    """Return how often an operation makes each system call."""
    counted: dict[str, int] = {}
    text, _ = injected(operation, folder, ["-e", "trace=all"])
    for line in text.splitlines():
        name = line.partition("(")[0].split()[-1] if "(" in line else ""
        if name.isidentifier():
            counted[name] = counted.get(name, 0) + 1
    counted.pop("read", None)  # the first one is that of our pipe; others are counted as pread64
    return counted


def injected(operation: str, folder: Path, options: list[str]) -> tuple[str, bool]:
    """Run an operation under strace, and return what strace says, and whether it was acknowledged."""
    queue, said = folder / "queue", folder / "strace"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    prepare(queue)
    go_read, go_write = os.pipe()
    told_read, told_write = os.pipe()

    def work() -> None:
        with Store.open(queue, SETTINGS) as store:
            os.write(told_write, b"r")
            os.read(go_read, 1)
            act(operation, store)
            os.write(told_write, b"a")

    child = forked(work)
    os.close(told_write)
    os.read(told_read, 1)
    strace = subprocess.Popen(
        ["strace", "-p", str(child), "-o", str(said), *options], stderr=subprocess.PIPE, text=True
    )
    assert strace.stderr is not None
    strace.stderr.readline()  # it says that it is attached
    os.write(go_write, b"g")
    os.waitpid(child, 0)
    strace.wait()
    strace.stderr.close()
    is_acknowledged = bool(select.select([told_read], [], [], 0)[0]) and os.read(told_read, 1) == b"a"
    for handle in (go_read, go_write, told_read):
        os.close(handle)
    return said.read_text(errors="replace"), is_acknowledged


def prepare(queue: Path) -> None:
    """Make a queue with one job that runs and one that waits."""
    with Store.open(queue, SETTINGS) as store:
        record_history(queue)
        store.submit(request("runs", "a"), now())
        store.submit(request("waits", "a"), now())
        store.claim("w", now())


def act(operation: str, store: Store) -> None:
    """Do the one thing that is interrupted."""
    if operation == "submit":
        store.submit(request("new", "b", payload="x" * 5000), now())
    elif operation == "claim":
        store.claim("v", now())
    else:
        job = found(store, "runs")
        assert job is not None
        store.complete(job.job_id, job.fence, "result", now(), cpu_s=1.0, wall_s=1.0)


def found(store: Store, key: str) -> Job | None:
    """Return the job with a key."""
    return next((job for job in store.jobs() if job.key == key), None)


def effect(operation: str, store: Store) -> bool:
    """Say whether the operation has been done."""
    if operation == "submit":
        return found(store, "new") is not None
    job = found(store, "waits" if operation == "claim" else "runs")
    assert job is not None
    wanted = (JobState.RUNNING, "") if operation == "claim" else (JobState.DONE, "result")
    return (job.state, job.result) == wanted


def crashed(operation: str, call: str, number: int, folder: Path) -> dict[str, Any]:
    """Kill an operation at one system call, look, and do what was not done."""
    rule = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}"]
    said, acknowledged = injected(operation, folder, rule)
    problems = []
    with Store.open(folder / "queue", SETTINGS, DatabaseFileCheck.FULL) as store:
        was_done = effect(operation, store)
        if acknowledged and not was_done:
            problems.append("acknowledged and lost")
        if not was_done:
            act(operation, store)
            if not effect(operation, store):
                problems.append("cannot be done again")
        expected = 3 if operation == "submit" else 2
        if len(store.jobs()) != expected:
            problems.append(f"{len(store.jobs())} jobs")
    history = check_history(folder / "queue")
    if len(set(history.claims)) != len(history.claims):
        problems.append("claims")
    return {
        "operation": operation,
        "call": call,
        "number": number,
        "killed": "KILL" in said,
        "acknowledged": acknowledged,
        "was_done": was_done,
        "problems": problems,
    }


def moments(folder: Path, every: int) -> Iterator[tuple[str, str, int]]:
    """Yield every n-th system call of each operation."""
    for operation in ("submit", "claim", "complete"):
        found = calls_of(operation, folder)
        all_of_it = [
            (operation, call, n) for call, count in sorted(found.items()) for n in range(1, count + 1)
        ]
        yield from all_of_it[::every]


def why_no_strace() -> str:
    """Return why system calls cannot be interrupted here; empty: they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    command = ["strace", "-o", "/dev/null", "-e", "inject=getppid:signal=KILL:when=1", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def line(found: dict[str, Any]) -> str:
    return json.dumps(found)
