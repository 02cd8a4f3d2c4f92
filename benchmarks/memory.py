"""Memory of each slot and its servers while candidates are checked, for 1, 2, 4 and 8 slots.

    python benchmarks/memory.py [--workload short] [--slots 1 2 4 8] [--candidates 8]

While one `check` runs, its processes are looked at again and again. Resident memory counts shared pages in
every process that maps them, proportional memory (PSS) divides them among these; what slots cost together is
the sum of the latter. A server is a runner that was told to serve and outlives a check by far (its forks were
told the same); the table says the most that was seen at one time. At full size: one to two minutes.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workloads import LONGEST_S, WORKLOADS, Prepared, generated, machine, manifest_of, prepare

#: Seconds between two looks. A look at a process costs about a tenth of a millisecond.
PERIOD_S = 0.05
#: Of those that were told to serve, one that was seen in so many looks is the server; forks are over sooner.
SERVING_LOOKS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One process at one time."""

    pid: int
    runner: bool
    serves: bool
    rss_mib: float
    pss_mib: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Peaks:
    """The most that was seen at one time, in MiB."""

    whole_pss: float
    runners_pss: float
    server_rss: float
    server_pss: float
    servers: int


def look(root: int) -> list[Seen]:
    """Return every process below a process, itself included."""
    return [seen for pid in family(root) if (seen := see(pid)) is not None]


def family(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            children.setdefault(parent_of(entry), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found


def parent_of(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def see(pid: int) -> Seen | None:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    sizes = {
        name: value.split()[0] for name, colon, value in (line.partition(":") for line in lines) if colon
    }
    if "Pss" not in sizes:
        return None
    return Seen(
        pid=pid,
        runner=b"CODEFLASH_PARALLEL_JOB=" in environment,
        serves=any(told_to_serve(os.fsdecode(word)) for word in words if word.endswith(b".json")),
        rss_mib=int(sizes["Rss"]) / 1024,
        pss_mib=int(sizes["Pss"]) / 1024,
    )


@functools.cache
def told_to_serve(spec: str) -> bool:
    """Say whether the spec of a runner makes a server of it."""
    try:
        return "serve" in json.loads(Path(spec).read_bytes())
    except (OSError, ValueError):
        return False


def looks_at(process: subprocess.Popen[bytes]) -> Iterator[list[Seen]]:
    end = time.monotonic() + LONGEST_S
    while process.poll() is None:
        if time.monotonic() > end:
            process.kill()
            raise SystemExit("it hangs")
        yield look(process.pid)
        time.sleep(PERIOD_S)


def peaks_of(looks: list[list[Seen]]) -> Peaks:
    times: dict[int, int] = {}
    for seen in looks:
        for process in seen:
            times[process.pid] = times.get(process.pid, 0) + process.serves
    servers = [[p for p in seen if times[p.pid] >= SERVING_LOOKS] for seen in looks]
    return Peaks(
        whole_pss=max(sum(p.pss_mib for p in seen) for seen in looks),
        runners_pss=max(sum(p.pss_mib for p in seen if p.runner) for seen in looks),
        server_rss=max((p.rss_mib for seen in servers for p in seen), default=0.0),
        server_pss=max((p.pss_mib for seen in servers for p in seen), default=0.0),
        servers=max(len(seen) for seen in servers),
    )


def measure(prepared: Prepared, manifest: Path, slots: int, *flags: str) -> Peaks:
    given = ["--candidates", str(manifest), "--python", prepared.python, "-j", str(slots), *flags]
    functions = [text for target in prepared.workload.targets for text in ("--function", target)]
    command = prepared.place.command("check", *functions, *given, "--tests", *prepared.workload.tests, "-q")
    process = subprocess.Popen(
        command,
        cwd=prepared.place.repository,
        env=dict(prepared.place.environment),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return peaks_of(list(looks_at(process)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workload", default="short", choices=list(WORKLOADS))
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--candidates", type=int, default=8, help="for each slot")
    options = parser.parse_args()
    print(f"{machine()}; MiB, the most at one time")
    with tempfile.TemporaryDirectory(prefix="memory-") as name:
        prepared = prepare(WORKLOADS[options.workload], Path(name))
        print(
            f"{prepared.workload.pin}; {'way':8}{'slots':>6}{'all PSS':>9}{'slots PSS':>11}{'each':>7}",
            end="",
        )
        print(f"{'servers':>9}{'RSS':>7}{'PSS':>7}")
        for flags in ((), ("--new-process",)):
            for slots in options.slots:
                count = options.candidates * slots
                candidates = generated(prepared, count - count // 4, count // 4)
                manifest = manifest_of(prepared, candidates, prepared.place.state / "candidates.jsonl")
                peaks = measure(prepared, manifest, slots, *flags)
                show(" ".join(flags) or "warm", slots, peaks, len(prepared.workload.pin))
    print(f"load {os.getloadavg()[0]:.2f}")


def show(way: str, slots: int, peaks: Peaks, indent: int) -> None:
    each = peaks.runners_pss / slots
    print(
        f"{'':{indent}}  {way:8}{slots:6}{peaks.whole_pss:9.0f}{peaks.runners_pss:11.0f}{each:7.0f}", end=""
    )
    print(f"{peaks.servers:9}{peaks.server_rss:7.0f}{peaks.server_pss:7.0f}", flush=True)


if __name__ == "__main__":
    main()
