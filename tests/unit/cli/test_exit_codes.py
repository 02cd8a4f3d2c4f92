from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest
from contract import check_invariants

from codeflash_parallel.cli import main as main_module
from codeflash_parallel.cli.exit_codes import ExitCode, SignalInterrupt, reporting_errors
from codeflash_parallel.cli.main import main
from codeflash_parallel.cli.output import Format, Output, last_value
from codeflash_parallel.cli.run_support.verdict_exit_codes import exit_code_of
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.errors import EnvironmentFault, InternalError, UsageError
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import CandidateResult, RunFault, RunResult


def ended(error: BaseException, tmp_path: Path, form: Format = Format.TEXT) -> int:
    with reporting_errors(Output(form), ["--cache-dir", str(tmp_path)]) as ending:
        raise error
    return ending.code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("X", "m"), 2),
        (EnvironmentFault("X", "m"), 4),
        (InternalError("X", "m"), 3),
        (RuntimeError("m"), 3),
        (KeyboardInterrupt(), 130),
        (SignalInterrupt("SIGINT"), 130),
        (SignalInterrupt("SIGTERM"), 143),
        (SystemExit(0), 0),
        (SystemExit(7), 7),
        (BrokenPipeError(), 0),
        (ExceptionGroup("g", [EnvironmentFault("X", "m")]), 4),
        (ExceptionGroup("g", [ExceptionGroup("h", [UsageError("X", "m")])]), 2),
        (ExceptionGroup("g", [UsageError("X", "m"), ValueError()]), 3),
        (BaseExceptionGroup("g", [KeyboardInterrupt()]), 130),
    ],
    ids=repr,
)
def test_every_error_has_its_exit_code(error: BaseException, code: int, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert ended(error, tmp_path) == code


@pytest.mark.parametrize("form", [Format.JSON, Format.JSONL])
@pytest.mark.parametrize(
    "error", [UsageError("X", "m", "h"), RuntimeError("m"), SignalInterrupt("SIGTERM")], ids=repr
)
def test_programs_always_get_a_document(error, form: Format, tmp_path: Path, capsys) -> None:
    ended(error, tmp_path, form)
    data = json.loads(capsys.readouterr().out)
    assert check_invariants(data) == []
    assert data["error"]["family"] == getattr(error, "family", "internal")


def test_a_defect_leaves_a_log_that_is_worth_a_report(tmp_path: Path, capsys) -> None:
    ended(RuntimeError("went wrong \x1b[31m"), tmp_path)
    (log,) = (tmp_path / "logs").iterdir()
    said = capsys.readouterr().err
    assert str(log) in said
    assert "\x1b" not in said
    assert "Traceback" in log.read_text()
    assert "went wrong" in log.read_text()


def test_without_a_cache_the_log_goes_elsewhere(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with reporting_errors(Output(), ["--cache-dir", str(tmp_path / "file")]) as ending:
        raise RuntimeError
    assert ending.code == 3
    assert list(tmp_path.glob("*.log"))


def judged(code: Code) -> CandidateResult:
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
    result = RunResult(run_id="r", complete=True, verdict=verdict, candidates=(judged(Code.RACE_NOT_HELD),))
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


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ([], ""),
        (["--o", "a"], "a"),
        (["--o=a"], "a"),
        (["--o=a", "--o", "b"], "b"),
        (["--o"], ""),
        (["--oo", "a"], ""),
    ],
)
def test_options_are_found_in_lines_that_do_not_parse(arguments: list[str], value: str) -> None:
    assert last_value(arguments, "--o") == value


def test_a_wrong_command_line_still_gives_its_document(tmp_path: Path, capsys) -> None:
    target = tmp_path / "result.json"
    code = main(["run", "--no-such-option", "--output-format", "json", "--output", str(target)])
    assert code == 2
    assert json.loads(target.read_text())["error"]["code"] == "BAD_ARGUMENTS"
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert "--no-such-option" in captured.err


def test_an_output_that_cannot_be_written_leaves_the_document_on_stdout(tmp_path: Path, capsys) -> None:
    target = tmp_path / "absent" / "result.json"
    (tmp_path / "absent").write_text("")
    assert main(["run", "--output-format", "json", "--output", str(target)]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["code"] == "NO_CANDIDATES"
    assert "cannot be written" in captured.err


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    main(["run", "--output-format", "json", "--output", str(pipe)])
    assert b"NO_CANDIDATES" in os.read(reader, 100_000)
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("arguments", "hint"), [(["rum"], "'run'"), (["zzz"], "doctor"), (["run", "--sed"], "--seed")]
)
def test_mistakes_get_a_hint(arguments: list[str], hint: str, capsys) -> None:
    assert main(arguments) == 2
    assert hint in capsys.readouterr().err


def test_help_and_version(capsys) -> None:
    assert main([]) == 2
    assert main(["--help"]) == 0
    assert main(["run", "--help"]) == 0
    assert main(["--version"]) == 0
    assert "codeflash-parallel 0" in capsys.readouterr().out


def test_elsewhere_than_linux_one_line(monkeypatch, capsys) -> None:
    monkeypatch.setattr(main_module.sys, "platform", "darwin")
    code = main(["--help"])
    monkeypatch.undo()
    assert code == 4
    assert capsys.readouterr().err.count("\n") == 1


def test_the_program_reads_its_own_arguments(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["codeflash-parallel", "--version"])
    assert main() == 0
    assert capsys.readouterr().out
