from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from contract import check_invariants

from codeflash_parallel.cli.exit_codes import SignalInterrupt, reporting_errors
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.result.errors import EnvironmentFault, InternalError, UsageError


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
