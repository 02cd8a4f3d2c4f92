"""`show`, `list`, `apply` and `clean` on a stored run, in a real repository."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from page_cases import assert_sound

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.main import main
from codeflash_parallel.cli.stored_runs import BY_VERDICT, exit_code_of
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Edit,
    digest_of,
)
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import (
    CandidateResult,
    FailedTest,
    FirstDifference,
    RunFault,
    RunResult,
)
from codeflash_parallel.run.run_folder import save_diff, save_run
from codeflash_parallel.workspace.git.git_client import find_repository

OLD, NEW = b"def f():\n    return sum([1, 2])\n", b"def f():\n    return 3\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "m.py").write_bytes(OLD)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    subprocess.run(["git", "init", "--quiet", str(root)], check=True, env=environment)
    monkeypatch.chdir(root)
    monkeypatch.setenv("CODEFLASH_PARALLEL_CACHE_DIR", str(tmp_path / "cache"))
    return root


@pytest.fixture
def run_id(repository: Path, tmp_path: Path) -> str:
    home = tmp_path / "cache" / find_repository(repository).key
    (home / "use.lock").parent.mkdir(parents=True)
    (home / "use.lock").touch()
    run_dir = home / "runs" / "20250101-120000-abcdef"
    edit = Edit(path="m.py", old_digest=digest_of(OLD), new=NEW)
    candidates = [
        Candidate(id=CandidateId(name), origin=CandidateOrigin.PATCH, edits=(edit,), diff=f"+{name}\n")
        for name in ("fast", "wrong")
    ]
    results = tuple(
        replace(r, diff_path=str(save_diff(run_dir, c))) for r, c in zip(judged(), candidates, strict=True)
    )
    result = RunResult(
        run_id=run_dir.name,
        complete=True,
        verdict=Verdict.WINNER,
        winner=CandidateId("fast"),
        candidates=results,
        repository=str(repository.resolve()),
        run_dir=str(run_dir),
    )
    save_run(run_dir, result, candidates)
    return run_dir.name


def judged() -> tuple[CandidateResult, CandidateResult]:
    difference = FirstDifference(
        target="m.py::f", test="t.py::t", call=0, inputs="no arguments", expected="3", got="4\x1b[2J"
    )
    failure = FailedTest(id="t.py::t", phase="call", message="E  assert 4 == 3")
    return (
        CandidateResult(
            id=CandidateId("fast"),
            origin=CandidateOrigin.PATCH,
            status=CandidateStatus.WON,
            code=Code.OK,
            reason="Fast.",
        ),
        CandidateResult(
            id=CandidateId("wrong"),
            origin=CandidateOrigin.PATCH,
            status=CandidateStatus.REJECTED,
            code=Code.VALUE_DIFFERS,
            reason="Wrong.",
            difference=difference,
            failures=(failure,),
            kept_slot="/kept/slot",
            reproduce="cd /kept/slot && python -m pytest t.py::t",
        ),
    )


@pytest.mark.parametrize("name", ["last", "20250101-120000-abcdef", "20250101"])
def test_show_tells_everything_about_those_that_failed(run_id: str, name: str, capsys) -> None:
    assert main(["show", name]) == 0
    shown = capsys.readouterr().out
    for words in (
        "assert 4 == 3",
        "no arguments",
        "4\\x1b[2J",
        "cd /kept/slot && python -m pytest t.py::t",
        "winner: ",
    ):
        assert words in shown


def test_show_one_candidate(run_id: str, capsys) -> None:
    assert main(["show", "--candidate", "wrong"]) == 0
    shown = capsys.readouterr().out
    assert "+wrong" in shown
    assert "fast" not in shown


def test_show_for_programs(run_id: str, capsys) -> None:
    assert main(["show", "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["winner"] == "fast"
    assert main(["show", "--candidate", "wrong", "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["code"] == "VALUE_DIFFERS"


def test_report_writes_a_page_or_the_same_for_programs(run_id: str, tmp_path: Path, capsys) -> None:
    assert main(["report", "--output", str(tmp_path / "new" / "page.html")]) == 0
    root = assert_sound((tmp_path / "new" / "page.html").read_text("utf-8"))
    assert root.findtext(".//h1") == "Winner: fast"
    assert main(["report", run_id[:8]]) == 0
    assert_sound(capsys.readouterr().out)
    assert main(["report", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["winner"], data["rounds"], data["timeline"]) == ("fast", {}, [])


def test_a_page_does_not_fill_a_terminal(run_id: str, monkeypatch, capsys) -> None:
    assert main(["report", "--output-format", "brief"]) == 2
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert main(["report"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("Give --output PATH.") == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nope"], 2, "no run 'nope'"),
        (["--output", "."], 4, "Is a directory"),
        (["--output", "m.py/page.html"], 4, "Not a directory"),
        (["--output", "/dev/full"], 4, "No space left on device"),
    ],
)
def test_a_page_that_cannot_be_made_is_one_line(
    run_id: str, arguments: list[str], code: int, words: str, capsys
) -> None:
    assert main(["report", *arguments]) == code
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert words in said.split("\n")[0]


def test_list(run_id: str, capsys) -> None:
    assert main(["list"]) == 0
    assert run_id in capsys.readouterr().out
    assert main(["list", "--output-format", "json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["run_id"], listed["outcome"], listed["candidates"]) == (run_id, "winner", 2)


def test_apply_writes_the_winner(run_id: str, repository: Path) -> None:
    assert main(["apply"]) == 0
    assert (repository / "m.py").read_bytes() == NEW
    assert main(["apply", run_id]) == 0


def test_apply_onto_something_else_is_refused(run_id: str, repository: Path, capsys) -> None:
    (repository / "m.py").write_bytes(OLD + b"# mine\n")
    assert main(["apply", "--candidate", "wrong"]) == 2
    assert (repository / "m.py").read_bytes() == OLD + b"# mine\n"
    assert "no longer" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["show", "nope"], ["show", "--candidate", "nope"], ["apply", "--candidate", "nope"]]
)
def test_what_is_not_there(run_id: str, arguments: list[str], capsys) -> None:
    assert main(arguments) == 2
    assert "nope" in capsys.readouterr().err


def test_clean_says_and_then_does(run_id: str, tmp_path: Path, capsys) -> None:
    assert main(["clean", "--dry-run"]) == 0
    assert run_id in capsys.readouterr().out
    assert list((tmp_path / "cache").glob(f"*/runs/{run_id}"))
    assert main(["clean"]) == 0
    assert not list((tmp_path / "cache").glob(f"*/runs/{run_id}"))
    assert main(["list"]) == 0


def test_apply_for_programs(run_id: str, repository: Path, capsys) -> None:
    assert main(["apply", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["run_id"], data["candidate"], data["status"], data["code"]) == (run_id, "fast", "won", "OK")
    assert any("m.py" in line for line in data["changes"])
    assert (repository / "m.py").read_bytes() == NEW


def test_clean_for_programs(run_id: str, tmp_path: Path, capsys) -> None:
    assert main(["clean", "--dry-run", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["cache"], data["dry_run"]) == (str(tmp_path / "cache"), True)
    assert data["removed"]
    assert all(Path(one["path"]).exists() and one["kind"] for one in data["removed"])


def candidate_with(code: Code) -> CandidateResult:
    return CandidateResult(
        id=CandidateId("a"),
        origin=CandidateOrigin.PATCH,
        status=CandidateStatus.UNDECIDED,
        code=code,
        reason="So.",
    )


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        ("winner", 0),
        ("tie", 0),
        ("checked", 0),
        ("nothing_faster", 1),
        ("none_correct", 1),
        ("suspect", 1),
        ("too_noisy", 4),
    ],
)
def test_verdicts(verdict: str, code: int) -> None:
    assert exit_code_of(RunResult(run_id="r", complete=True, verdict=Verdict(verdict))) == code


@pytest.mark.parametrize(("verdict", "code"), [(Verdict.TOO_NOISY, 7), (Verdict.WINNER, 0)])
def test_a_race_that_was_not_held_has_an_exit_code_of_its_own(verdict: Verdict, code: int) -> None:
    result = RunResult(
        run_id="r", complete=True, verdict=verdict, candidates=(candidate_with(Code.RACE_NOT_HELD),)
    )
    assert exit_code_of(result) == code


@pytest.mark.parametrize(
    ("family", "code", "expected"),
    [
        ("interrupted", "SIGINT", 130),
        ("interrupted", "SIGTERM", 143),
        ("environment", "X", 4),
        ("usage", "X", 2),
    ],
)
def test_results_with_errors(family: str, code: str, expected: int) -> None:
    fault = RunFault(family=family, code=code, message="m")
    assert exit_code_of(RunResult(run_id="r", complete=False, error=fault)) == expected


def test_an_incomplete_result_is_no_verdict() -> None:
    assert exit_code_of(RunResult(run_id="r", complete=False)) == ExitCode.UNFIT


def test_every_verdict_has_an_exit_code() -> None:
    assert set(BY_VERDICT) == set(Verdict)
