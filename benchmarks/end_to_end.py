"""Ten candidates on three real packages: a serial loop against one run of ours; and 20 calls on one snapshot.

    python benchmarks/end_to_end.py [--packages packaging more_itertools] [--loop-seconds 10] [--calls 20]

Both ways work on the same repository with the same candidates, one after the other. The serial loop is what a
script does: apply a candidate, `python -m pytest` on its tests, a benchmark loop of some seconds if they
pass, revert. Wall and CPU seconds count every child. `overhead_ms` is the time that a passing candidate held
a slot less its tests' own time; beside it stands what a plain start of pytest costs here, no test selected.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE / "tests"), str(HERE / "tests" / "real_projects")]

from harness import commit_all  # noqa: E402 - the tests' own helpers
from real_project import Project, load  # noqa: E402

from codeflash_parallel import Evaluator, RaceMode, RunResult, Settings, Submission  # noqa: E402
from codeflash_parallel.cli.candidates import read_submissions  # noqa: E402
from codeflash_parallel.model.candidate import CandidateId, Replacement  # noqa: E402
from codeflash_parallel.model.splice import SpliceError, splice  # noqa: E402

#: Runs the tests again and again for some seconds, in one process, as optimizers do to time a candidate.
LOOP = """
import sys, time, pytest
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[2:]])
"""


@dataclass(frozen=True)
class Cost:
    wall_s: float
    cpu_s: float


def cost_of(work: Callable[[], object]) -> Cost:
    def cpu_s() -> float:
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    wall, cpu = time.monotonic(), cpu_s()
    work()
    return Cost(wall_s=time.monotonic() - wall, cpu_s=cpu_s() - cpu)


def make_repository(project: Project, folder: Path) -> Path:
    sdists = folder / "sdists"
    own = os.environ.get("CODEFLASH_PARALLEL_SDISTS")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    command += ["-d", str(sdists), project.pin]
    if own:
        sdists = Path(own)
    else:
        subprocess.run(command, check=True)
    name = project.expected["distribution"].replace("-", "_")
    archive = next(iter([*sdists.glob(f"{name}-{project.expected['version']}.tar.gz")]))
    shutil.unpack_archive(archive, folder / "unpacked", filter="data")
    (top,) = (folder / "unpacked").iterdir()
    commit_all(top)
    return top


def ten_candidates(project: Project, repository: Path, folder: Path, count: int) -> list[Submission]:
    """The project's candidates, filled up with copies of the fastest that differ in a constant."""
    source = (repository / project.path).read_text(encoding="utf-8")
    written = project.write_candidates(source, folder)
    found = read_submissions([written])
    faster = next(s for s in found if s.id == "faster")
    if isinstance(faster.content, Replacement):
        for number in range(count - len(found)):
            code = f"{faster.content.code}\n\n_COPY = {number}\n"
            found.append(Submission(id=CandidateId(f"copy{number}"), content=Replacement(code=code)))
    return found[:count]


def apply(submission: Submission, project: Project, repository: Path) -> bool:
    path = repository / project.path
    if isinstance(submission.content, Replacement):
        with suppress(SpliceError, SyntaxError):
            name = project.expected["function"].partition("::")[2]
            path.write_text(splice(path.read_text(), submission.content.code, name))
            return True
        return False
    patch = getattr(submission.content, "patch", "")
    done = subprocess.run(
        ["git", "apply"], input=patch, text=True, cwd=repository, check=False, capture_output=True
    )
    return done.returncode == 0


def serial_loop(project: Project, repository: Path, submissions: Sequence[Submission], loop_s: float) -> None:
    tests = [str(t) for t in project.expected["tests"]]
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(repository / "src")}
    for submission in submissions:
        if apply(submission, project, repository):
            done = subprocess.run(run, cwd=repository, env=environment, capture_output=True, check=False)
            if done.returncode == 0:
                timing = [sys.executable, "-c", LOOP, str(loop_s), *tests]
                subprocess.run(timing, cwd=repository, env=environment, capture_output=True, check=False)
        subprocess.run(["git", "checkout", "-q", "--", "."], cwd=repository, check=True)


def settings_for(project: Project, cache: Path) -> Settings:
    return Settings(
        functions=(project.expected["function"],),
        tests=tuple(project.expected["tests"]),
        keyword=project.expected.get("keyword", ""),
        cache_dir=str(cache),
        parallel_candidates="auto",
    )


async def ours(
    project: Project, repository: Path, submissions: Sequence[Submission], cache: Path
) -> RunResult:
    async with Evaluator(repository, settings_for(project, cache)) as evaluator:
        return await evaluator.evaluate(submissions)


async def successive(
    project: Project, repository: Path, submission: Submission, cache: Path, calls: int
) -> list[float]:
    """Return the wall seconds of each of some `evaluate` calls (check only) on one snapshot."""
    seconds = []
    async with Evaluator(repository, settings_for(project, cache)) as evaluator:
        for _ in range(calls):
            began = time.monotonic()
            await evaluator.evaluate([submission], race=RaceMode.CHECK)
            seconds.append(time.monotonic() - began)
    return seconds


def pytest_start_ms(project: Project, repository: Path) -> float:
    """Return what starting pytest costs, without any test: median of five."""
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "no_such_test_at_all"]
    run += [str(t) for t in project.expected["tests"]]
    environment = {**os.environ, "PYTHONPATH": str(repository / "src")}
    costs = [
        cost_of(
            lambda: subprocess.run(run, cwd=repository, env=environment, capture_output=True, check=False)
        )
        for _ in range(5)
    ]
    return 1e3 * statistics.median(cost.wall_s for cost in costs)


def measure(name: str, options: argparse.Namespace) -> None:
    project = load(name)
    with tempfile.TemporaryDirectory(prefix="end-to-end-") as folder_name:
        folder = Path(folder_name)
        repository = make_repository(project, folder)
        submissions = ten_candidates(project, repository, folder / "candidates", options.candidates)
        serial = cost_of(lambda: serial_loop(project, repository, submissions, options.loop_seconds))
        results: list[RunResult] = []

        async def evaluate() -> None:
            results.append(await ours(project, repository, submissions, folder / "cache"))

        own = cost_of(lambda: anyio.run(evaluate))
        (result,) = results
        print(f"\n{project.pin}: {len(submissions)} candidates, {result.summary}")
        print(f"  serial loop  {serial.wall_s:7.1f} s wall {serial.cpu_s:7.1f} s CPU")
        print(f"  ours         {own.wall_s:7.1f} s wall {own.cpu_s:7.1f} s CPU")
        print(
            f"  ratio        {serial.wall_s / own.wall_s:7.1f}   wall {serial.cpu_s / own.cpu_s:7.1f}   CPU"
        )
        print("  ours, ms: " + ", ".join(f"{k} {v:.0f}" for k, v in result.timings.items()))
        overheads = [c.overhead_ms for c in result.candidates if c.code in {"OK", "BEATEN", "NOT_FASTER"}]
        overhead = statistics.median([ms for ms in overheads if ms is not None] or [float("nan")])
        start = pytest_start_ms(project, repository)
        print(
            f"  overhead_ms of passing candidates: median {overhead:.0f}; pytest's own start {start:.0f} ms"
        )
        fast = next(s for s in submissions if s.id == "faster")
        calls = anyio.run(successive, project, repository, fast, folder / "cache", options.calls)
        later = statistics.median(calls[1:]) if len(calls) > 1 else float("nan")
        print(
            f"  {len(calls)} calls on one snapshot: first {calls[0]:.2f} s, later ones median {later:.2f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--packages", nargs="+", default=["packaging", "more_itertools", "toolz"])
    parser.add_argument("--candidates", type=int, default=10)
    parser.add_argument("--loop-seconds", type=float, default=10.0)
    parser.add_argument("--calls", type=int, default=20)
    options = parser.parse_args()
    cores, python = len(os.sched_getaffinity(0)), sys.version.split()[0]
    print(f"cores {cores}, load {os.getloadavg()[0]:.2f}, Python {python}")
    for name in options.packages:
        measure(name, options)
    print(f"\nload {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
