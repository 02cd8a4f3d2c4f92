"""`selftest` end to end: naive judges are fooled, our gate is not, and what it says is what it found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def run_selftest(folder: Path, *arguments: str, timeout_s: float = 240) -> tuple[int, dict]:
    home = folder / "home"
    home.mkdir()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "selftest",
            "--cache-dir",
            str(folder),
            "--json",
            *arguments,
        ],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(TESTS)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.stdout, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


@pytest.mark.attack
def test_an_attack_fools_naive_judges_and_not_the_gate(tmp_path):
    names = ("patched_test_report", "point_as_a_dataclass", "columns_by_numpy")
    status, said = run_selftest(
        tmp_path, *(part for name in names for part in ("--only", name)), "--jobs", "1"
    )

    found = {one["name"]: one for one in said["outcomes"]}
    assert list(found) == ["patched_test_report", "point_as_a_dataclass", "columns_by_numpy"]
    attack = found["patched_test_report"]
    assert attack["fooled"]["by"] == ["exit code", "JUnit", "output"]
    assert (attack["became"], attack["expected"]) == ("rejected", True)
    assert found["point_as_a_dataclass"]["became"] == "equivalent"
    assert found["columns_by_numpy"]["became"] in {"skipped", "equivalent"}
    assert status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.campaign
@pytest.mark.parametrize("level", ["none", "landlock", "sandbox"])
def test_the_whole_corpus(tmp_path, level):
    status, said = run_selftest(tmp_path, "--all", "--isolation", level, timeout_s=3600)
    bad = [
        (one["name"], one["became"], one["code"], one["reason"])
        for one in said["outcomes"]
        if one["became"] in {"ACCEPTED", "CREDITED", "ESCAPED", "REJECTED", "no verdict"}
    ]
    assert (status, bad) == (0, [])
    assert said["totals"]["attacks"] >= 80
