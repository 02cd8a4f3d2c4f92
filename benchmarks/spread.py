"""A long suite over idle cores: one candidate checked with and without pytest-xdist in its interpreter.

    python benchmarks/spread.py [--runs 3] [--tests 8] [--seconds 0.75]

Makes two environments with pip (pytest with and without xdist), one project with a slow suite, and checks the
same candidate in both, in turns. Prints the ratio of the wall times of the candidate's test process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from codeflash_parallel import RaceMode, Replacement, Settings, Submission, evaluate
from codeflash_parallel.result.candidate_model import CandidateId

SUITE = """
import time
import pytest
from slow import work

@pytest.mark.parametrize("number", range({tests}))
def test_work(number):
    end = time.process_time() + {seconds}
    while time.process_time() < end:
        assert work(number) == number + 1
"""


def make_project(folder: Path, tests: int, seconds: float) -> Path:
    folder.mkdir()
    (folder / "slow.py").write_text("def work(number):\n    return number + 1\n")
    (folder / "test_slow.py").write_text(SUITE.format(tests=tests, seconds=seconds))
    git = ["git", "-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "slow"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


def make_environment(folder: Path, *packages: str) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    return python


def check(project: Path, python: Path, cache: Path, number: int) -> tuple[float, set[str]]:
    """Return the wall milliseconds of the candidate's test process, and what happened to its tests."""
    settings = Settings(
        functions=("slow.py::work",), parallel_candidates=1, python=str(python), cache_dir=str(cache)
    )
    code = f"def work(number):\n    return {number} + 1 + number - {number}\n"
    submission = Submission(id=CandidateId("other"), content=Replacement(code=code))
    result = evaluate([submission], project, settings, race=RaceMode.CHECK)
    candidate = result.candidates[0]
    assert candidate.tests.expected == candidate.tests.passed, candidate
    return candidate.timings_ms["pytest_process"], set(candidate.notes)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tests", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.75)
    options = parser.parse_args()
    print(f"cores {len(os.sched_getaffinity(0))}, load {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory(prefix="spread-") as name:
        folder = Path(name)
        project = make_project(folder / "project", options.tests, options.seconds)
        pythons = {
            "one process": make_environment(folder / "plain", "pytest"),
            "xdist": make_environment(folder / "xdist", "pytest", "pytest-xdist"),
        }
        times: dict[str, list[float]] = {kind: [] for kind in pythons}
        for number in range(options.runs):
            for kind, python in pythons.items():
                ms, _ = check(project, python, folder / "cache", number + 1)
                times[kind].append(ms)
                print(f"run {number + 1}: {kind:12} {ms:8.0f} ms")
    ratios = [a / b for a, b in zip(times["one process"], times["xdist"], strict=True)]
    print(f"one process ÷ xdist: median {statistics.median(ratios):.2f}, of {len(ratios)} pairs {ratios}")


if __name__ == "__main__":
    main()
