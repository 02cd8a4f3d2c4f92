"""`selftest` end to end: naive judges are fooled, our gate is not, and what it says is what it found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codeflash_parallel.model.settings import SETTING_NAMES

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def run_selftest(folder: Path, *arguments: str, timeout_s: float = 240) -> tuple[int, dict]:
    home = folder / "home"
    home.mkdir()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "codeflash_parallel",
            "selftest",
            "--cache-dir",
            str(folder),
            "--json",
            *arguments,
        ],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.stdout, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


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


def test_a_level_that_there_is_not_is_refused_before_anybody_is_judged(tmp_path):
    status, said = run_selftest(tmp_path, "--isolation", "L7")

    assert status == 2
    assert said["error"]["message"] == "isolation must be one of auto, L0, L1, L2, L3, not L7."


@pytest.mark.campaign
@pytest.mark.parametrize("level", ["L0", "L1", "L2", "L3"])
def test_the_whole_corpus(tmp_path, level):
    if "isolation" not in SETTING_NAMES and level != "L0":
        pytest.skip("there are no isolation levels")
    options = ("--isolation", level) if "isolation" in SETTING_NAMES else ()
    status, said = run_selftest(tmp_path, "--all", *options, timeout_s=3600)
    bad = [
        (one["name"], one["became"], one["code"], one["reason"])
        for one in said["outcomes"]
        if one["became"] in {"ACCEPTED", "CREDITED", "ESCAPED", "REJECTED", "no verdict"}
    ]
    assert (status, bad) == (0, [])
    assert said["totals"]["attacks"] >= 80
