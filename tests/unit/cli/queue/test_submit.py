"""`queue submit`: one job, its position at once, and the same job for the same candidate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from projects import FAST_TOTAL, make_project
from queue_cases import assert_valid

from codeflash_parallel.cli.main import main


def test_a_candidate_is_submitted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(make_project(tmp_path / "project"))
    (tmp_path / "fast.py").write_text(FAST_TOTAL)
    given = ("--candidates", "../fast.py", "--function", "shop/sums.py::total", "--queue-dir", "../q")

    assert main(["queue", "submit", *given, "--json", "--submitter", "ada"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert_valid(first)
    (job,) = first["jobs"]
    assert (job["known"], job["submitter"], job["place"]["reason"]) == (False, "ada", "NO_DAEMON")
    assert main(["queue", "submit", *given]) == 0
    said = capsys.readouterr()
    assert said.out == f"job {job['job_id']}: queued, position 1: no daemon is running\n"
    assert said.err.startswith("The same was submitted before; this is its job. Wait for it:")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), "NO_CANDIDATES"),
        (("--candidates", "x.py", "--kind", "command"), "BAD_ARGUMENTS"),
        (("--candidates", "x.py", "--kind", "command", "--command", "'"), "BAD_ARGUMENTS"),
        (("--candidates", "x.py", "--command", "ls"), "BAD_ARGUMENTS"),
    ],
)
def test_what_makes_no_job_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, options: tuple[str, ...], code: str
) -> None:
    monkeypatch.chdir(make_project(tmp_path / "project"))
    Path("x.py").write_text(FAST_TOTAL)
    assert main(["queue", "submit", *options, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code
