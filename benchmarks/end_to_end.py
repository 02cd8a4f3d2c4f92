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

from harness import commit_all, make_venv, pip_install  # noqa: E402 - the tests' own helpers
from real_project import Project, load  # noqa: E402

from codeflash_parallel import Evaluator, RaceMode, RunResult, Settings, Submission  # noqa: E402
from codeflash_parallel.candidates.function_replacement import SpliceError, splice  # noqa: E402
from codeflash_parallel.candidates.submissions import CandidateSource, read_submissions  # noqa: E402
from codeflash_parallel.result.candidate.candidate_model import CandidateId, FileText, FileTexts, Replacement  # noqa: E402

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
    found = read_submissions([CandidateSource(str(written))])
    faster = next(s for s in found if s.id == "faster")
    assert apply(faster, project, repository)
    text = (repository / project.path).read_text(encoding="utf-8")
    revert(repository)
    for number in range(count - len(found)):
        files = (FileText(path=project.path, text=f"{text}\n\n_COPY = {number}\n"),)
        found.append(Submission(id=CandidateId(f"copy{number}"), content=FileTexts(files=files)))
    return found[:count]


def revert(repository: Path) -> None:
    subprocess.run(["git", "checkout", "-q", "--", "."], cwd=repository, check=True)


def apply(submission: Submission, project: Project, repository: Path) -> bool:
    path = repository / project.path
    if isinstance(submission.content, Replacement):
        with suppress(SpliceError, SyntaxError):
            name = project.expected["function"].partition("::")[2]
            path.write_text(splice(path.read_text(), submission.content.code, name))
            return True
        return False
    if isinstance(submission.content, FileTexts):
        path.write_text(submission.content.files[0].text or "", encoding="utf-8")
        return True
    patch = getattr(submission.content, "patch", "")
    done = subprocess.run(
        ["git", "apply"], input=patch, text=True, cwd=repository, check=False, capture_output=True
    )
    return done.returncode == 0


@dataclass(frozen=True)
class Case:
    """One package: its repository, the interpreter that both ways use, and where we keep our cache."""

    project: Project
    repository: Path
    python: str
    cache: Path

    @property
    def pytest(self) -> list[str]:
        tests = [str(t) for t in self.project.expected["tests"]]
        keyword = self.project.expected.get("keyword", "")
        return [
            self.python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *tests,
            *(["-k", keyword] if keyword else []),
        ]

    @property
    def settings(self) -> Settings:
        expected = self.project.expected
        return Settings(
            functions=(expected["function"],),
            tests=tuple(expected["tests"]),
            keyword=expected.get("keyword", ""),
            python=self.python,
            cache_dir=str(self.cache),
        )

    def run(self, command: Sequence[str]) -> int:
        done = subprocess.run(command, cwd=self.repository, capture_output=True, check=False)
        return done.returncode


def make_case(name: str, folder: Path) -> Case:
    project = load(name)
    repository = make_repository(project, folder)
    python = sys.executable
    if project.expected.get("editable"):
        venv = make_venv(folder / "venv")
        pip_install(venv, "-e", str(repository))
        python = str(venv / "bin" / "python")
    return Case(project=project, repository=repository, python=python, cache=folder / "cache")


def serial_loop(case: Case, submissions: Sequence[Submission], loop_s: float) -> int:
    """Return how many candidates passed and were timed."""
    timed = 0
    timing = [case.python, "-c", LOOP, str(loop_s), *(str(t) for t in case.project.expected["tests"])]
    for submission in submissions:
        if apply(submission, case.project, case.repository) and case.run(case.pytest) == 0:
            case.run(timing)
            timed += 1
        revert(case.repository)
    return timed


async def ours(case: Case, submissions: Sequence[Submission]) -> RunResult:
    async with Evaluator(case.repository, case.settings) as evaluator:
        return await evaluator.evaluate(submissions)


async def successive(case: Case, submission: Submission, calls: int) -> list[float]:
    """Return the wall seconds of each of some `evaluate` calls (check only) on one snapshot."""
    seconds = []
    async with Evaluator(case.repository, case.settings) as evaluator:
        for _ in range(calls):
            began = time.monotonic()
            await evaluator.evaluate([submission], race=RaceMode.CHECK)
            seconds.append(time.monotonic() - began)
    return seconds


def pytest_start_ms(case: Case) -> float:
    """Return what starting pytest on these tests costs when none is selected: median of five."""
    command = [*case.pytest, "-k", "no_such_test_at_all"]
    return 1e3 * statistics.median(cost_of(lambda: case.run(command)).wall_s for _ in range(5))


def measure(name: str, options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="end-to-end-") as folder_name:
        folder = Path(folder_name)
        case = make_case(name, folder)
        submissions = ten_candidates(case.project, case.repository, folder / "candidates", options.candidates)
        serial = cost_of(lambda: serial_loop(case, submissions, options.loop_seconds))
        results: list[RunResult] = []

        async def evaluate() -> None:
            results.append(await ours(case, submissions))

        own = cost_of(lambda: anyio.run(evaluate))
        (result,) = results
        wall, cpu = serial.wall_s / own.wall_s, serial.cpu_s / own.cpu_s
        print(f"\n{case.project.pin}: {len(submissions)} candidates. {result.summary}")
        print(f"  serial loop  {serial.wall_s:7.1f} s wall {serial.cpu_s:7.1f} s CPU")
        print(f"  ours         {own.wall_s:7.1f} s wall {own.cpu_s:7.1f} s CPU")
        print(f"  ratio        {wall:7.1f}   wall {cpu:7.1f}   CPU")
        print("  ours, ms: " + ", ".join(f"{k} {v:.0f}" for k, v in result.timings.items()))
        passing = [c.overhead_ms for c in result.candidates if c.status in {"won", "tied", "lost"}]
        overhead = statistics.median([ms for ms in passing if ms is not None] or [float("nan")])
        start = pytest_start_ms(case)
        print(f"  overhead_ms, passing: median {overhead:.0f}; pytest's own start {start:.0f} ms", flush=True)
        fast = next(s for s in submissions if s.id == "faster")
        calls = anyio.run(successive, case, fast, options.calls)
        later = statistics.median(calls[1:]) if len(calls) > 1 else float("nan")
        print(
            f"  {len(calls)} calls on one snapshot: first {calls[0]:.2f} s, median of the later {later:.2f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--packages", nargs="+", default=["packaging", "more_itertools", "toolz"])
    parser.add_argument("--candidates", type=int, default=10)
    parser.add_argument("--loop-seconds", type=float, default=10.0)
    parser.add_argument("--calls", type=int, default=20)
    options = parser.parse_args()
    # Both ways without the plugins of this environment, which the projects do not ask for.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    cores, python = len(os.sched_getaffinity(0)), sys.version.split()[0]
    print(f"cores {cores}, load {os.getloadavg()[0]:.2f}, Python {python}")
    for name in options.packages:
        measure(name, options)
    print(f"\nload {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
