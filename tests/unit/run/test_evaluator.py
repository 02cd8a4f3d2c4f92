"""What a grader prints is scores, or it is said what is wrong with it."""

from __future__ import annotations

import json

import pytest

from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit
from codeflash_parallel.run.evaluator import scores_of

COMMAND = ("python", "grade.py")


def printed(stdout: str, status: int | None = 0) -> ProcessExit:
    record = json.dumps({"t": "command", "status": status}).encode() + b"\n"
    return ProcessExit(ended=ExitKind.EXITED, status=0, stdout=stdout, records=record)


def test_an_object_is_scores() -> None:
    assert scores_of(printed('{"score": 1.5, "why": null}\n'), COMMAND) == {"score": 1.5, "why": None}


@pytest.mark.parametrize(
    ("stdout", "words"),
    [
        ("", "printed no JSON"),
        ("[1]", "no object"),
        ('{"score": NaN}', "printed no JSON: Out of range"),
        ('{"score": -Infinity}', "printed no JSON: Out of range"),
        ('{"scores": [1e999]}', "printed no JSON: Out of range"),
        ("[" * 100_000, "printed no JSON"),
    ],
)
def test_what_other_programs_could_not_read_is_refused(stdout: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        scores_of(printed(stdout), COMMAND)
    assert refused.value.code == "BAD_SCORES"


@pytest.mark.parametrize(
    ("stdout", "status", "words"),
    [
        ("oh", 3, "`python grade.py` ended with status 3: oh"),
        ("", 3, "`python grade.py` ended with status 3"),
        ("", None, "`python grade.py` was not found"),
    ],
)
def test_a_command_that_fails_is_said(stdout: str, status: int | None, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        scores_of(printed(stdout, status), COMMAND)
    assert (refused.value.code, refused.value.message) == ("COMMAND_FAILED", words)
