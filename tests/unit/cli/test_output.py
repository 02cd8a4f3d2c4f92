"""The place and the form of the result."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from codeflash_parallel.cli.main import main
from codeflash_parallel.cli.output import Format, Output, last_value


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


@pytest.mark.parametrize(
    ("arguments", "form"),
    [
        ([], Format.TEXT),
        (["--json"], Format.JSON),
        (["--output-format", "jsonl"], Format.JSONL),
        (["--output-format=json"], Format.JSON),
        (["--output-format", "xml"], Format.TEXT),
        (["--", "--json"], Format.TEXT),
    ],
)
def test_the_form_is_found_in_lines_that_do_not_parse(arguments: list[str], form: Format) -> None:
    assert Output.found_in(arguments).form is form


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
