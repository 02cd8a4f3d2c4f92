"""Kill the queue's processes with the real engine at work, and look whether anything was lost.

Submitters hand in checks of a small project, a daemon with two workers judges them, and at random moments
one of all these processes is killed (SIGKILL); who was killed is started again. At the end of every episode:

- every job that was acknowledged has exactly one result, and it is the right verdict;
- nothing runs any more once the daemon has been told to end, and no worktree is left;
- the store is sound (`integrity_check`).

    python benchmarks/queue_kills.py --kills 40 --state FOLDER        # goes on where it was broken off
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "integration")]

from aftermath import processes_of, worktrees_left  # noqa: E402
from daemon_support import Place  # noqa: E402
from projects import make_project  # noqa: E402

from codeflash_parallel.queue.jobs import JobState  # noqa: E402
from codeflash_parallel.result.errors import CodeflashParallelError  # noqa: E402

#: Kills of one episode; after each the world is looked at.
_EPISODE = 10
_SUBMITTERS = 3
#: Attempts are not what is tested here: every kill may cost one.
_RULES = {"max_concurrent": 2, "max_attempts": 1000, "lease": 2.0, "heartbeat": 0.5}
_LONG_S = 600.0

#: What a submitter does: hand in, write down what was acknowledged, wait for it, hand in the next.
_SUBMITTER = """
import json, os, sys
from pathlib import Path
from daemon_support import Place
from projects import FAST_TOTAL, WRONG_TOTAL
base, name, acknowledged, rules = sys.argv[1:]
place, acknowledged = Place(base=Path(base), rules=json.loads(rules)), Path(acknowledged)
with place.client() as client, acknowledged.open("a") as book:
    for number in range(10_000):
        code, word = ((FAST_TOTAL, "right"), (WRONG_TOTAL, "wrong"))[number % 2]
        future = client.submit(place.request(f"{code}    # {name} {number}\\n", submitter=name))
        book.write(f"{future.job_id} {word}\\n")
        book.flush()
        os.fsync(book.fileno())
        future.exception()
"""


@dataclass(kw_only=True)
class World:
    """One episode's processes."""

    place: Place
    draw: random.Random
    daemon: subprocess.Popen[bytes] | None = None
    submitters: list[subprocess.Popen[bytes]] = field(default_factory=list)
    started: int = 0
    killed: dict[str, int] = field(default_factory=lambda: {"daemon": 0, "worker": 0, "submitter": 0})

    @property
    def book(self) -> Path:
        return self.place.base / "acknowledged"

    def start_submitter(self) -> None:
        self.started += 1
        command = [
            sys.executable,
            "-c",
            _SUBMITTER,
            str(self.place.base),
            f"agent-{self.started}",
            str(self.book),
            json.dumps(_RULES),
        ]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path[:2], str(ROOT)])}
        self.submitters.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))

    def kill_somebody(self) -> None:
        who = self.draw.choice(["daemon", "worker", "worker", "submitter"])
        pid = self._pick(who)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.killed[who] += 1
        self._mend()

    def _pick(self, who: str) -> int:
        if who == "daemon":
            assert self.daemon is not None
            return self.daemon.pid
        if who == "submitter":
            return self.draw.choice(self.submitters).pid
        with self.place.client() as client:
            info = client.daemon
        return self.draw.choice(info.workers).pid if info and info.workers else 0

    def _mend(self) -> None:
        for submitter in tuple(self.submitters):
            if submitter.poll() is not None:
                self.submitters.remove(submitter)
                self.start_submitter()
        assert self.daemon is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.daemon.wait(0.1)
        if self.daemon.poll() is not None:
            self.daemon = self.place.start(**_RULES)


def episode(folder: Path, seed: int, kills: int) -> dict[str, Any]:
    """Make a world, kill in it, and return what was found."""
    make_project(folder / "project")
    world = World(place=Place(base=folder, rules=_RULES), draw=random.Random(seed))
    begun = time.monotonic()
    world.daemon = world.place.start(**_RULES)
    for _ in range(_SUBMITTERS):
        world.start_submitter()
    try:
        while sum(world.killed.values()) < kills:
            time.sleep(world.draw.uniform(0.1, 2.0))
            world.kill_somebody()
    finally:
        for submitter in world.submitters:
            submitter.kill()
            submitter.wait()
    found = _settled(world)
    world.daemon.terminate()
    status = world.daemon.wait(_LONG_S)
    return {
        "seed": seed,
        "kills": world.killed,
        **found,
        "daemon_status": status,
        "orphans": _gone(folder),
        "worktrees": worktrees_left(world.place.cache),
        "integrity": _integrity(world.place.folder / "queue.sqlite3"),
        "seconds": round(time.monotonic() - begun, 1),
    }


def _settled(world: World) -> dict[str, Any]:
    """Wait for every job that was acknowledged, and hold its verdict against the right one."""
    expected = dict(line.split() for line in world.book.read_text().splitlines())
    wrong, lost, crashes = [], [], 0
    with world.place.client() as client:
        for job_id, word in expected.items():
            try:
                job = client.wait(job_id, _LONG_S)
            except (CodeflashParallelError, TimeoutError) as error:
                lost.append(f"{job_id}: {error}")
                continue
            crashes += job.crashes + job.machinery_faults
            if job.state is not JobState.DONE or _word(job.result) != word:
                wrong.append(f"{job_id}: {job.state} {job.result[:200]}")
        states = client.health().states
    events = [json.loads(path.read_text()) for path in (world.place.folder / "results").glob("*.json")]
    missing = sorted(expected.keys() - {event["job_id"] for event in events})
    return {
        "acknowledged": len(expected),
        "lost": lost,
        "wrong": wrong,
        "without_file": missing,
        "charged_attempts": crashes,
        "states": dict(states),
    }


def _word(result: str) -> str:
    document = json.loads(result)["document"]
    code = document["candidates"][0]["code"] if document else ""
    return {"NOT_RACED": "right", "TESTS_FAILED": "wrong"}.get(code, code)


def _gone(folder: Path) -> list[str]:
    """Return what still runs of an episode; who has just been told to end has a moment."""
    end = time.monotonic() + 20
    while (left := processes_of(folder)) and time.monotonic() < end:
        time.sleep(0.1)
    return [str(process) for process in left]


def _integrity(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as opened:
        return str(opened.execute("PRAGMA integrity_check").fetchone()[0])


def is_sound(found: dict[str, Any]) -> bool:
    """Say whether an episode found nothing."""
    bad = ("lost", "wrong", "without_file", "orphans", "worktrees", "daemon_status")
    return not any(found[name] for name in bad) and found["integrity"] == "ok"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=Path, required=True)
    options = parser.parse_args()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options.state.mkdir(parents=True, exist_ok=True)
    record = options.state / "episodes.jsonl"
    done = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    while (killed := sum(sum(found["kills"].values()) for found in done)) < options.kills:
        folder = options.state / f"world-{len(done)}-{os.getpid()}"
        found = episode(folder, options.seed + len(done), min(_EPISODE, options.kills - killed))
        done.append(found)
        with record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
        print(json.dumps(found), flush=True)
    sound = sum(map(is_sound, done))
    jobs = sum(found["acknowledged"] for found in done)
    print(f"{killed} kills, {jobs} acknowledged jobs, {sound} of {len(done)} episodes without a finding")
    return 0 if sound == len(done) else 1


if __name__ == "__main__":
    sys.exit(main())
