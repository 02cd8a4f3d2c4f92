"""Bad input of `gate` in every option: one line each; and what a result exits with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from projects import make_project

from codeflash_parallel.cli.gate import _exit_code
from codeflash_parallel.cli.main import main
from codeflash_parallel.gate.gate_result import GateResult, Qualification, SpeedBounds
from codeflash_parallel.race.statistics.slowdown_test import Change, GateRules


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = make_project(tmp_path / "project")
    monkeypatch.chdir(root)
    monkeypatch.setenv("CODEFLASH_PARALLEL_CACHE_DIR", str(tmp_path / "cache"))
    return root


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "--base"),
        (("--base", "gone"), 2, "--base 'gone' names no commit"),
        (("--base", "HEAD", "--head", "gone"), 2, "--head 'gone' names no commit"),
        (("--base", "HEAD", "--project", "/"), 2, "not in a git repository"),
        (
            ("--base", "HEAD", "--budget", "1"),
            2,
            "--budget: must be a number of seconds, 5 at least, not '1'",
        ),
        (("--base", "HEAD", "--budget", "nan"), 2, "--budget: must be"),
        (("--base", "HEAD", "--budget", "soon"), 2, "--budget: must be"),
        (("--base", "HEAD", "--max-regression", "2"), 2, "--max-regression: must be a fraction"),
        (("--base", "HEAD", "--max-regression", "nan"), 2, "--max-regression: must be a fraction"),
        (("--base", "HEAD", "--benchmark", "run"), 2, "--benchmark: must be a callable, path.py::name"),
        (("--base", "HEAD", "--benchmark", "gone.py::run"), 2, "gone.py, which the snapshot does not have"),
        (("--base", "HEAD", "--benchmark-command", "a", "--benchmark", "b.py::c"), 2, "give one of them"),
        (("--base", "HEAD", "--benchmark-command", "'"), 2, "is not a command line"),
        (("--base", "HEAD", "--benchmark-command", " "), 2, "names no program"),
        (("--base", "HEAD", "--confidence", "0.1"), 2, "confidence must lie between"),
        (("--base", "HEAD", "--python", "/gone"), 2, "--python '/gone' is no executable"),
        (("--base", "HEAD", "--isolation", "some"), 2, "isolation must be one of"),
        (("--base", "HEAD", "--markdown", "shop"), 4, "shop cannot be written"),
        (("--base", "HEAD", "--output", "shop"), 4, "shop cannot be written"),
        (("--base", "HEAD", "--time-budget", "5"), 2, "unrecognized arguments"),
        (("--base", "HEAD", "--output-format", "xml"), 2, "invalid choice"),
    ],
)
def test_bad_input_is_one_line(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, words: str
) -> None:
    assert main(["gate", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert words in line


RESULT = GateResult(
    verdict=Change.TOO_NOISY,
    why="",
    speed=SpeedBounds(),
    benchmarks=(),
    base="",
    head="",
    rules=GateRules(),
    budget_s=60.0,
    seconds=1.0,
    rounds=12,
)


@pytest.mark.parametrize(
    ("verdict", "code"),
    [(Change.FASTER, 0), (Change.NOT_SLOWER, 0), (Change.SLOWER, 1), (Change.TOO_NOISY, 4)],
)
def test_exit_codes(verdict: Change, code: int) -> None:
    result = replace(RESULT, verdict=verdict)
    assert _exit_code(result, allow_noise=False) == code
    assert _exit_code(result, allow_noise=True) == (code if code != 4 else 0)


def test_nothing_raced_is_never_green() -> None:
    assert _exit_code(replace(RESULT, rounds=0), allow_noise=True) == 4


@pytest.mark.parametrize(("seconds", "code"), [(20.0, 0), (None, 4)])
def test_a_qualification_says_whether_the_machine_will_do(seconds: float | None, code: int) -> None:
    found = replace(RESULT, qualification=Qualification(planted=0.05, seconds=seconds))
    assert _exit_code(found, allow_noise=False) == code
