"""The checker where nothing has to be run, and the packages that a candidate adds files to."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from test_check_plan import BASELINE, RUNNER

from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.checker import _packages, replays_alone, rest
from codeflash_parallel.result.candidate_model import Candidate, CandidateId, CandidateOrigin, Edit
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace

PLAN = CheckPlan(runner=RUNNER, baseline=BASELINE, limits=ProcessLimits(wall_s=1), compare_values=False)


def candidate(*added: str) -> Candidate:
    edits = tuple(Edit(path=path, old_digest=None, new=b"") for path in added)
    return Candidate(id=CandidateId("c"), origin=CandidateOrigin.PATCH, edits=edits)


def workspace(root: Path) -> Workspace:
    return Workspace(
        root=root,
        project=root,
        user_root=root,
        interpreter=Path(sys.executable),
        private=root,
        environment={},
    )


@pytest.mark.anyio
async def test_where_all_tests_were_selected_the_rest_is_sound_without_a_run(tmp_path: Path) -> None:
    plan = replace(PLAN, baseline=replace(BASELINE, selected=BASELINE.asked))
    outcome = await rest(plan, workspace(tmp_path), candidate())
    assert (outcome.code, outcome.tests.passed, outcome.tests_ns) == (Code.OK, 0, 0)


@pytest.mark.anyio
async def test_no_call_is_made_where_values_are_not_compared(tmp_path: Path) -> None:
    outcome = await replays_alone(PLAN, workspace(tmp_path), candidate(), None)
    assert (outcome.code, outcome.values.compared, outcome.tests_ns) == (Code.OK, 0, 0)


def test_packages_of_the_snapshot_that_get_new_files_are_found(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "__init__.py").touch()
    added = candidate("pkg/mod.py", "new/__init__.py", "plain/mod.py")
    assert _packages(workspace(tmp_path), added) == {"pkg"}
