"""Real runs of one campaign: they share one error budget, and say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import git
from projects import FAST_TOTAL, SLOW_TOTAL, make_project

from codeflash_parallel import Settings, Submission, evaluate
from codeflash_parallel.result.candidate_model import CandidateId, FileText, FileTexts
from codeflash_parallel.result.result_model import RunResult

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TARGET = "shop/sums.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def run(project: Path, tmp_path: Path, text: str) -> RunResult:
    settings = Settings(
        functions=(f"{TARGET}::total",),
        cache_dir=str(tmp_path / "cache"),
        parallel_candidates=2,
        time_budget=150,
        campaign="nightly",
    )
    files = FileTexts(files=(FileText(path=TARGET, text=text),))
    return evaluate([Submission(id=CandidateId("one"), content=files)], project, settings)


def test_runs_of_a_campaign_share_its_error_and_the_champion_is_asked_for(
    project: Path, tmp_path: Path
) -> None:
    first = run(project, tmp_path, FAST_TOTAL)
    assert first.winner == "one"
    campaign = first.race["campaign"]
    assert campaign == {"name": "nightly", "number": 1, "kept": 0, "error": pytest.approx(0.005)}
    assert "It was comparison 1 of campaign nightly, tested at an error of 0.5 %." in first.summary

    again = run(project, tmp_path, FAST_TOTAL)
    assert again.race["campaign"]["number"] == 2
    assert again.race["campaign"]["kept"] == 1
    assert any(f"that of run {first.run_id}, is not in the tree" in text for text in again.warnings)

    (project / TARGET).write_text(FAST_TOTAL)
    git(project, "commit", "-aqm", "keep it")
    slower = run(project, tmp_path, SLOW_TOTAL)
    assert slower.winner is None
    assert slower.race["campaign"] == {
        "name": "nightly",
        "number": 3,
        "kept": 2,
        "error": pytest.approx(0.01 * 3 / 12),
    }
    assert not any("is not in the tree" in text for text in slower.warnings)
