"""Programs of evolution loops are scored by real runs, and read by the loaders of the loops' own packages."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from harness import git
from projects import FAST_TOTAL, SLOW_TOTAL, WRONG_TOTAL, make_project

from codeflash_parallel import Settings
from codeflash_parallel.hosts import scoring

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TARGET = "shop/sums.py"
#: On a machine that other tests use, the automatic budget may be too short.
BUDGET_S = 150.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def settings(tmp_path: Path) -> Settings:
    return Settings(
        functions=(f"{TARGET}::total",),
        cache_dir=str(tmp_path / "cache"),
        parallel_candidates=2,
        time_budget=BUDGET_S,
    )


def command(project: Path, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [
        "score",
        "--cache-dir",
        str(tmp_path / "cache"),
        "--function",
        f"{TARGET}::total",
        f"--time-budget={BUDGET_S}",
        *arguments,
    ]
    return subprocess.run(
        [sys.executable, "-m", "codeflash_parallel", *words],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_batch_is_one_race_and_the_tree_stays_as_it_is(project: Path, tmp_path: Path) -> None:
    programs = [FAST_TOTAL, WRONG_TOTAL, SLOW_TOTAL, {TARGET: FAST_TOTAL}]
    pairs = [(program, None) for program in programs]
    found = scoring.batch_evaluate(pairs, target=TARGET, repository=project, settings=settings(tmp_path))
    fast, wrong, same, again = (fitness for fitness, _ in found)
    assert fast > 1.0
    assert again == fast
    assert (wrong, same) == (0.0, 1.0)
    assert "fails" in found[1][1]["feedback"]
    assert len(list((tmp_path / "cache").glob("*/runs/*"))) == 1
    assert git(project, "status", "--short") == ""


def test_the_command_writes_what_shinka_reads(project: Path, tmp_path: Path) -> None:
    program, results = tmp_path / "program.py", tmp_path / "results"
    program.write_text(FAST_TOTAL)
    place = ("--target", TARGET, "--format", "shinka", "--results-dir", str(results))
    done = command(project, tmp_path, str(program), *place)
    assert done.returncode == 0, done.stderr
    assert json.loads((results / "correct.json").read_text()) == {"correct": True, "error": ""}
    assert json.loads((results / "metrics.json").read_text())["combined_score"] > 1.0


def test_a_target_outside_scores_nothing(project: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FAST_TOTAL)
    place = (str(tmp_path / "program.py"), "--target", "../program.py")
    done = command(project, tmp_path, *place)
    assert (done.returncode, done.stdout) == (0, "METRIC combined_score=0\nMETRIC correct=0\n")
    document = json.loads(command(project, tmp_path, *place, "--json").stdout)
    assert (document["fitness"], document["code"]) == (0.0, "PATH_NOT_ALLOWED")


def test_a_folder_that_nothing_can_be_written_to_is_said(project: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SLOW_TOTAL)
    place = ("--target", TARGET, "--format", "harbor", "--results-dir", "/proc/results")
    done = command(project, tmp_path, str(tmp_path / "program.py"), *place)
    assert done.returncode == 4
    assert "cannot be written" in done.stderr


def test_shinka_reads_the_files(tmp_path: Path) -> None:
    host = pytest.importorskip("shinka.utils.general")
    score = scoring.Score(fitness=1.6, is_correct=True, estimate=2.0, code="OK", feedback="So.")
    for name, text in scoring.texts_of(score, scoring.ScoreFormat.SHINKA).items():
        (tmp_path / name).write_text(text)
    loaded = host.load_results(str(tmp_path))
    assert loaded["correct"]["correct"] is True
    assert loaded["metrics"]["combined_score"] == 1.6


def test_harbor_reads_the_reward(tmp_path: Path) -> None:
    host = pytest.importorskip("harbor.verifier.verifier")
    score = scoring.Score(fitness=1.6, is_correct=True, estimate=2.0, code="OK", feedback="So.")
    (text,) = scoring.texts_of(score, scoring.ScoreFormat.HARBOR).values()
    (tmp_path / "reward.json").write_text(text)
    verifier = host.Verifier.__new__(host.Verifier)
    verifier.trial_paths = SimpleNamespace(reward_json_path=tmp_path / "reward.json")
    assert verifier._parse_reward_json() == {"reward": 1.6, "correct": 1.0}


def test_coral_reads_the_bundle() -> None:
    host = pytest.importorskip("coral.types")
    score = scoring.Score(fitness=1.6, is_correct=True, estimate=2.0, code="OK", feedback="So.")
    text = scoring.texts_of(score, scoring.ScoreFormat.CORAL)["-"]
    bundle = host.ScoreBundle.from_dict(json.loads(text))
    assert (bundle.aggregated, bundle.feedback, bundle.get_score_value("speedup")) == (1.6, "So.", 1.6)


def test_evo_reads_what_the_command_prints(project: Path, tmp_path: Path) -> None:
    host = pytest.importorskip("evo.core")
    program = tmp_path / "program.py"
    program.write_text(FAST_TOTAL)
    done = command(project, tmp_path, str(program), "--target", TARGET, "--format", "evo")
    score, _parsed = host.load_result(tmp_path / "absent.json", done.stdout)
    assert score > 1.0


def test_openevolve_loads_and_calls_the_evaluator(project: Path, tmp_path: Path) -> None:
    config = pytest.importorskip("openevolve.config")
    evaluator = pytest.importorskip("openevolve.evaluator")
    file = tmp_path / "evaluator.py"
    file.write_text(
        "from functools import partial\n"
        "from codeflash_parallel import Settings\n"
        "from codeflash_parallel.hosts import scoring\n"
        f"settings = Settings(functions=({TARGET + '::total'!r},), cache_dir={str(tmp_path / 'cache')!r}, time_budget=150.0)\n"
        f"evaluate = partial(scoring.evaluate, target={TARGET!r}, repository={str(project)!r}, settings=settings)\n"
    )
    given = config.EvaluatorConfig(cascade_evaluation=False)
    host = evaluator.Evaluator(given, str(file))
    fast = asyncio.run(host.evaluate_program(FAST_TOTAL, "fast"))
    wrong = asyncio.run(host.evaluate_program(WRONG_TOTAL, "wrong"))
    assert fast["combined_score"] > 1.0
    assert wrong["combined_score"] == 0.0
    assert "fails" in host.get_pending_artifacts("wrong")["feedback"]


def test_gepa_takes_a_batch_as_one_race(project: Path, tmp_path: Path) -> None:
    anything = pytest.importorskip("gepa.optimize_anything")
    batch = partial(scoring.batch_evaluate, target=TARGET, repository=project, settings=settings(tmp_path))
    reflected = [f"```\n{FAST_TOTAL}```", f"```\n{WRONG_TOTAL}```"]
    engine = anything.EngineConfig(max_metric_calls=4, raise_on_exception=True)
    reflection = anything.ReflectionConfig(
        reflection_lm=lambda _: reflected.pop(0) if reflected else "```\n```"
    )
    result = anything.optimize_anything(
        SLOW_TOTAL.lstrip(),
        batch_evaluator=batch,
        objective="faster",
        config=anything.GEPAConfig(engine=engine, reflection=reflection),
    )
    assert result.val_aggregate_scores[0] == 1.0
    assert max(result.val_aggregate_scores) > 1.0
