from __future__ import annotations

import sys
from pathlib import Path

import pytest

from codeflash_parallel.cli.main import main


def test_without_the_sdk_the_command_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert main(["mcp", "--project", str(tmp_path)]) == 4
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 2
    assert "pip install 'codeflash-parallel[mcp]'" in said.err
