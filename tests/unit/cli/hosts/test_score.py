"""Bad input of `score`: one line on standard error, no score on standard output."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import SLOW_TOTAL, make_project

from codeflash_parallel.cli.main import main

TARGET = "shop/sums.py"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = make_project(tmp_path / "project")
    monkeypatch.chdir(root)
    monkeypatch.setenv("CODEFLASH_PARALLEL_CACHE_DIR", str(tmp_path / "cache"))
    return root


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("gone.py", "--target", TARGET), 2, "gone.py: No such file"),
        (("shop", "--target", TARGET), 2, "shop: Is a directory"),
        (("latin.py", "--target", TARGET), 2, "latin.py is no text in UTF-8"),
        ((TARGET, "--target", "shop/gone.py"), 2, "There is no file shop/gone.py in"),
        ((TARGET, "--target", TARGET, "--project", "/"), 2, "not in a git repository"),
        ((TARGET, "--target", TARGET, "--format", "shinka"), 2, "--results-dir goes with"),
        ((TARGET, "--target", TARGET, "--results-dir", "x"), 2, "--results-dir goes with"),
        ((TARGET, "--target", TARGET, "--format", "harbor", "--results-dir", TARGET), 4, "cannot be written"),
        ((TARGET,), 2, "--target"),
        ((TARGET, "--target", TARGET, "--format", "other"), 2, "invalid choice"),
    ],
)
def test_bad_input_is_said_and_scores_nothing(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, words: str
) -> None:
    (project / "latin.py").write_bytes(b"x = '\xff'\n")
    assert main(["score", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.startswith("error: ")
    assert (project / TARGET).read_text() == SLOW_TOTAL
