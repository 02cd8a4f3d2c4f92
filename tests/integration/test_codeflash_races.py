"""Candidates of codeflash are raced: of a small package with its interface, and of the real one if installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import git
from projects import FAST_TOTAL, SLOW_TOTAL, WRONG_TOTAL, make_project
from serial_optimizer import install

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

pytestmark = [pytest.mark.engine, pytest.mark.slow]

#: On a machine that other tests use, the automatic budget may be too short.
BUDGET = {"CODEFLASH_PARALLEL_TIME_BUDGET": "150"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def race(
    project: Path, candidates: dict[str, str], *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command beside the small package, on candidates of the shop's `total`."""
    folder = project.parent
    for name, text in candidates.items():
        (folder / f"{name}.py").write_text(text)
    path = os.pathsep.join(
        filter(None, (str(install(folder / "site", "0.20.9")), os.environ.get("PYTHONPATH")))
    )
    arguments = ("shop/sums.py", "total", *(str(folder / f"{name}.py") for name in candidates))
    return subprocess.run(
        [sys.executable, "-m", "codeflash_parallel", "codeflash", *options, "--", *arguments],
        cwd=project,
        env={
            **os.environ,
            **BUDGET,
            "PYTHONPATH": path,
            "CODEFLASH_PARALLEL_CACHE_DIR": str(folder / "cache"),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


CANDIDATES = {"wrong": WRONG_TOTAL, "broken": "def total(:\n", "fast": FAST_TOTAL}


def test_one_race_names_the_winner_and_the_tree_stays_as_it_is(project: Path) -> None:
    done = race(project, CANDIDATES, "--json", "-j", "2")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["replaced"], document["exit_code"]) == (True, 0)
    (function,) = document["functions"]
    assert (function["function"], function["winner"]) == ("shop/sums.py::total", "candidate-3")
    assert "Candidate 2 is left out: invalid syntax" in done.stderr
    assert "best: fast" in done.stderr
    assert "one by one" not in done.stderr
    assert "a repair is asked for" not in done.stderr
    assert "entries: [('fast', 3.0), ('wrong', None)]" in done.stderr
    assert git(project, "status", "--short") == ""
    run = json.loads(next(project.parent.glob("cache/*/runs/*/result.json")).read_text())
    assert run["run_id"] == function["run_id"]
    statuses = {one["id"]: one["status"] for one in run["candidates"]}
    assert statuses == {"candidate-1": "rejected", "candidate-3": "won"}
    assert any("codeflash_generated_tests" in test for test in json.dumps(run).split('"'))


def test_without_a_verdict_codeflash_evaluates_itself(project: Path) -> None:
    red = "from shop.sums import total\n\n\ndef test_red():\n    assert total([1]) == 2\n"
    (project / "tests" / "test_sums.py").write_text(red)
    done = race(project, CANDIDATES)
    assert done.returncode == 0
    assert "The baseline is red" in done.stderr
    assert "codeflash evaluates the candidates itself." in done.stderr
    assert "one by one: fast" in done.stdout
    assert "shop/sums.py::total: The baseline is red" in done.stdout


@pytest.mark.witness
def test_what_its_own_tests_refuse_does_not_win(project: Path) -> None:
    done = race(project, {"slow": SLOW_TOTAL, "fast": FAST_TOTAL + "# refused\n"})
    assert "refused by codeflash's own tests" in done.stderr
    assert "best: None" in done.stdout
    assert git(project, "status", "--short") == ""


def test_codeflash_itself_is_given_the_winner(tmp_path: Path) -> None:
    pytest.importorskip("codeflash.main", reason="codeflash is not installed")
    import codeflash_service
    from codeflash_service import FUNCTION, MODULE, Service, serving

    names = {"counter", "set-and-list", "two-sets"}
    chosen = [one for one in codeflash_service.CANDIDATES if one.name in names]
    shop = codeflash_service.make_project(tmp_path / "shop")
    (tmp_path / "home").mkdir()
    words = ("--file", MODULE, "--function", FUNCTION, "--no-pr", "--yes")
    with serving(Service(candidates=chosen[:2], later=chosen[2:])) as service:
        done = subprocess.run(
            [sys.executable, "-m", "codeflash_parallel", "codeflash", "--json", "-j", "2", "--", *words],
            cwd=shop,
            env={
                **service.environment(tmp_path / "home"),
                **BUDGET,
                "CODEFLASH_LOOPING_TIME": "2",
                "CODEFLASH_PARALLEL_CACHE_DIR": str(tmp_path / "cache"),
            },
            capture_output=True,
            text=True,
            timeout=480,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    functions = json.loads(done.stdout)["functions"]
    assert [one["winner"] for one in functions] == ["candidate-3"], done.stderr
    assert "again[word] = None" in (shop / MODULE).read_text()
    assert git(shop, "status", "--short").split() == ["M", MODULE]
    asked = {path for path in service.asked if path.startswith("/ai/")}
    assert {"/ai/optimize-line-profiler", "/ai/explain", "/ai/log_features"} <= asked
    assert not asked & {"/ai/code_repair", "/ai/refinement", "/ai/rank"}
