"""Runs on other hosts beside local ones: verdicts, overhead, and what is left after kills.

    python benchmarks/cluster_runs.py overhead --candidates 48     # seconds beside a local run, per shard
    python benchmarks/cluster_runs.py races --runs 4               # runs at the same time: races per node
    python benchmarks/cluster_runs.py kills --workers 20 --nodes 5 --submitters 5
    python benchmarks/cluster_runs.py tests PYTEST ARGUMENTS       # verdicts of fixtures, real projects

Needs Ray: it starts a cluster of three nodes on this machine, each with a cache of its own. `--engine slurm`
has submitit's local executor in its place (which has no nodes that could be killed). Candidates are variants
of those of the demonstration, each a little different, so that none is a duplicate.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEMONSTRATION = ROOT / "fixtures" / "demonstration"
GIT = ["git", "-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost"]
NODES, SLOTS = 3, 2
#: Statuses that are decided by checks alone.
_DECIDED = {"rejected", "unappliable", "duplicate", "infra"}


@dataclass
class Place:
    """A repository with candidates, and the engine's options."""

    folder: Path
    options: list[str]
    nodes: list[Any] = field(default_factory=list)
    cluster: Any = None

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("CODEFLASH_")}
        return {**kept, "XDG_CACHE_HOME": str(self.folder / "submitter"), "CI": "1"}

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "codeflash_parallel", *arguments, "--output-format", "json"]
        return subprocess.Popen(
            command,
            cwd=self.folder / "taskgraph",
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "errors").open("wb"),
            start_new_session=True,
        )

    def run(self, *options: str) -> dict[str, Any]:
        return finished(self.start(*self.arguments(*options)))

    def arguments(self, *options: str) -> list[str]:
        target = ("--function", "taskgraph/ordering.py::topological_sort")
        return ["run", *target, "--candidates", str(self.folder / "candidates"), *options]


def finished(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=900)
    try:
        found: dict[str, Any] = json.loads(out)
    except ValueError:
        raise RuntimeError(f"status {process.returncode}: {out[-500:]!r}") from None
    return found


def write_candidates(folder: Path, count: int) -> None:
    """Write variants of the demonstration's candidates: a constant that nobody reads tells them apart."""
    folder.mkdir()
    sources = sorted((DEMONSTRATION / "candidates").glob("*.py"))
    for number in range(count):
        source = sources[number % len(sources)]
        lines = source.read_text(encoding="utf-8").splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("def ")) + 1
        while not lines[first - 1].rstrip().endswith(":"):
            first += 1
        lines.insert(first, f"    _variant = {number}")
        (folder / f"{source.stem}_{number}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")


@contextmanager
def place(engine: str, candidates: int) -> Iterator[Place]:
    """Make the repository and start the engine."""
    with tempfile.TemporaryDirectory(prefix="cluster-runs-") as text:
        folder = Path(text)
        shutil.copytree(DEMONSTRATION / "project", folder / "taskgraph")
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "taskgraph 1.0"]):
            subprocess.run([*GIT, *command], cwd=folder / "taskgraph", check=True)
        write_candidates(folder / "candidates", candidates)
        if engine == "slurm":
            slots = str(os.cpu_count() or 2)
            yield Place(folder, ["--executor", "slurm", "--cluster", "local", "--cluster-jobs", slots])
            return
        from ray.cluster_utils import Cluster

        made = Place(folder, [], cluster=Cluster())
        made.nodes = [add_node(made, number) for number in range(NODES)]
        made.options += ["--executor", "ray", "--cluster", made.cluster.address]
        try:
            yield made
        finally:
            made.cluster.shutdown()


def add_node(made: Place, number: int) -> Any:
    cache = {"XDG_CACHE_HOME": str(made.folder / f"node{number}")}
    resources = {"codeflash_slot": SLOTS}
    return made.cluster.add_node(
        num_cpus=SLOTS,
        resources=resources,
        env_vars=cache,
        object_store_memory=80 << 20,
        include_dashboard=False,
    )


def processes(words: str, made: Place) -> list[int]:
    """Return processes whose command line or environment has some words, of this place only."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (entry / "environ").read_bytes().decode(errors="replace")
            is_zombie = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            if words in command and str(made.folder) in environment + command and not is_zombie:
                found.append(int(entry.name))
    return found


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    """Return the verdicts that a run's checks decide; all that are equivalent count as the same."""
    return {
        one["id"]: one["code"] if one["status"] in _DECIDED else "equivalent"
        for one in document["candidates"]
    }


def judged_twice(document: dict[str, Any]) -> list[str]:
    names = [name for host in document["hosts"] for name in host["checked"]]
    return sorted({name for name in names if names.count(name) > 1})


def left(made: Place) -> int:
    """Return how many processes of runs are left after at most five seconds."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        found = [*processes("hosts.cluster.host_run", made), *processes("_codeflash_runner", made)]
        if not found:
            return 0
        time.sleep(0.1)
    return len(found)


def wait_for(condition: Callable[[], object], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.05)
    return False


def overhead(made: Place, args: argparse.Namespace) -> dict[str, Any]:
    rows = []
    for name, options in (("local", ["-j", "2"]), ("cluster, cold", made.options), ("cluster", made.options)):
        began = time.monotonic()
        document = made.run(*options)
        seconds = time.monotonic() - began
        hosts = document.get("hosts", [])
        shards = sum(host["shards"] for host in hosts)
        row = {
            "run": name,
            "seconds": round(seconds, 1),
            "behaviour_s": round(document["timings"]["behavior"] / 1e3, 1),
            "verdict": document["verdict"],
            "winner": document["winner"],
            "shards": shards,
        }
        if shards:
            row["overhead_s"] = round(sum(host["overhead_s"] for host in hosts) / shards, 2)
            row["checks_s"] = round(sum(host["checks_s"] for host in hosts) / shards, 2)
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
    scenarios = [scenario(rows[1], rows[2], made, args.candidates, is_cold=cold) for cold in (True, False)]
    return {"rows": rows, "load": os.getloadavg()[0], "cores": os.cpu_count(), "scenarios": scenarios}


def scenario(
    cold: dict[str, Any], warm: dict[str, Any], made: Place, candidates: int, *, is_cold: bool
) -> dict[str, Any]:
    """Return what `cluster_model.py --check` takes: one of the two runs, with the costs of both."""
    hosts = len(made.nodes) or 1
    slots = SLOTS if made.nodes else os.cpu_count() or 2
    row = cold if is_cold else warm
    # The first shard of a place has nearly all of the overhead.
    overhead_s = {
        name: one["overhead_s"] * one["shards"] / (hosts * slots)
        for name, one in (("cold", cold), ("warm", warm))
    }
    return {
        "name": row["run"],
        "measured_s": row["behaviour_s"],
        "hosts": hosts,
        "slots": slots,
        "candidates": candidates,
        "bundle_mb": 0.1,
        "first_s": overhead_s["warm"],
        "baseline_s": overhead_s["cold"] - overhead_s["warm"] if is_cold else 0.0,
        "check_s": row["checks_s"] * row["shards"] / candidates,
        "warm_s": 0.0,
        "straggler_share": 0.0,
        "loss_per_h": 0.0,
    }


def races(made: Place, args: argparse.Namespace) -> dict[str, Any]:
    """Make several runs at the same time; hosts note when they timed something and did nothing else."""
    running = [made.start(*made.arguments(*made.options, "--seed", str(n + 1))) for n in range(args.runs)]
    documents = [finished(process) for process in running]
    used = [host for document in documents for host in document["hosts"] if host["timed"]]
    timed = sorted((host["host"], *pair) for host in used for pair in host["timed"])
    overlaps = [(one, other) for one, other in pairwise(timed) if one[0] == other[0] and other[1] < one[2]]
    return {
        "runs": len(documents),
        "verdicts": [f"{document['verdict']} {document['winner']}" for document in documents],
        "intervals": timed,
        "overlaps": overlaps,
    }


def kills(made: Place, args: argparse.Namespace) -> dict[str, Any]:
    """Kill workers, nodes and submitters while candidates are checked or raced."""
    drawn = random.Random(args.seed)
    expected = verdicts(made.run(*made.options))
    rows: list[dict[str, Any]] = []
    plan = ["worker"] * args.workers + ["node"] * (args.nodes if made.nodes else 0)
    plan += ["submitter"] * args.submitters
    for number, kind in enumerate(plan):
        row = killed_once(made, kind, ("check", "run")[number % 2], drawn, expected)
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
    bad = [row for row in rows if row["differing"] or row["twice"] or row["left"] or not row["verdict"]]
    return {"kills": len(rows), "bad": bad, "rows": rows}


def killed_once(
    made: Place, kind: str, command: str, drawn: random.Random, expected: dict[str, str]
) -> dict[str, Any]:
    runs = next((made.folder / "submitter").glob("codeflash-parallel/*/runs"))
    before = {path.name for path in runs.iterdir()}
    process = made.start(command, *made.arguments(*made.options)[1:])
    wait_for(lambda: processes("hosts.cluster.host_run", made), 60)
    time.sleep(drawn.uniform(0.0, 6.0 if command == "check" else 20.0))
    if not wait_for(lambda: processes("hosts.cluster.host_run", made) or process.poll() is not None, 60):
        raise RuntimeError("nothing runs")
    began = time.monotonic()
    if kind == "worker":
        wanted = drawn.choice(["hosts.cluster.host_run", "ray::run_on_node"])
        victims = processes(wanted, made) or processes("hosts.cluster.host_run", made)
        for pid in victims[:1]:
            os.kill(pid, signal.SIGKILL)
    elif kind == "node":
        number = drawn.randrange(1, NODES)  # the first has the cluster's head
        made.cluster.remove_node(made.nodes[number], allow_graceful=False)
    else:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        gone = left(made)
        name = next(path.name for path in runs.iterdir() if path.name not in before)
        process = made.start("resume", name, *made.options)
        began = time.monotonic()
    document = finished(process)
    row: dict[str, Any] = {
        "kind": kind,
        "command": command,
        "seconds_after": round(time.monotonic() - began, 1),
        "verdict": document["verdict"],
        "error": document["error"],
        "differing": {n: c for n, c in verdicts(document).items() if expected.get(n) != c},
        "twice": judged_twice(document),
        "left": left(made),
    }
    if kind == "submitter":
        row["left_after_kill"] = gone
    if kind == "node":
        made.nodes[number] = add_node(made, number)
    return row


def tests(made: Place, args: argparse.Namespace) -> dict[str, Any]:
    """Run tests that look at verdicts with the engine in the place of this process."""
    environment = {**os.environ, "CODEFLASH_TEST_EXECUTOR": " ".join(made.options)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args.arguments]
    return {"status": subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=["overhead", "races", "kills", "tests"])
    parser.add_argument("--engine", choices=["ray", "slurm"], default="ray")
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--submitters", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    args, args.arguments = parser.parse_known_args()
    with place(args.engine, args.candidates) as made:
        steps = {"overhead": overhead, "races": races, "kills": kills, "tests": tests}
        found = steps[args.step](made, args)
    print(json.dumps(found, indent=1))
    sys.exit(found.get("status", 0) or len(found.get("bad", ())))


if __name__ == "__main__":
    main()
