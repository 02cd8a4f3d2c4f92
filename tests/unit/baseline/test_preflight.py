"""What is said about a baseline that fails: what its tests lack, and the option that gives it to them."""

from __future__ import annotations

import pytest

from codeflash_parallel.baseline.preflight import (
    MissingPrerequisite,
    must_be_ours,
    must_have_run,
    red_baseline,
)
from codeflash_parallel.check.session.runner_report import RunnerReport, TestOutcome
from codeflash_parallel.check.session.runner_session import RunnerSession
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit

ABSENT = MissingPrerequisite(ignored=("conf/generated.toml",), withheld=("API_KEY", "DB_URL"))


def hint_of(*messages: str, absent: MissingPrerequisite = ABSENT) -> str:
    tests = {f"t{n}": TestOutcome(id=f"t{n}", outcome="failed", message=m) for n, m in enumerate(messages)}
    fault = red_baseline(tuple(tests), RunnerReport(tests=tests), absent)
    assert fault.code == "RED_BASELINE"
    return fault.hint


def test_a_variable_that_a_failing_test_speaks_of_is_named_with_its_option() -> None:
    assert "--pass-env API_KEY." in hint_of("KeyError: 'API_KEY'")
    assert "--pass-env API_KEY --pass-env DB_URL." in hint_of("no API_KEY here", "assert DB_URL")


def test_a_variable_that_the_user_does_not_have_is_not_offered() -> None:
    assert "OTHER" not in hint_of("KeyError: 'OTHER'")


def test_a_file_is_named_where_no_variable_is() -> None:
    assert "--include-ignored conf/generated.toml" in hint_of("no such file: generated.toml")


def test_where_nothing_is_spoken_of_the_option_is_named_all_the_same() -> None:
    assert "--pass-env NAME" in hint_of("assert 1 == 2")
    assert "--pass-env" not in hint_of("assert 1 == 2", absent=MissingPrerequisite())


@pytest.mark.parametrize(
    ("stderr", "words"), [("KeyError: 'DB_URL'", "--pass-env DB_URL"), ("no luck", "no luck")]
)
def test_a_crash_before_any_test_is_looked_at_too(stderr: str, words: str) -> None:
    session = RunnerSession(
        report=RunnerReport(), exit=ProcessExit(ended=ExitKind.EXITED, status=4, stderr=stderr)
    )
    with pytest.raises(EnvironmentFault) as caught:
        must_have_run(session, ABSENT)
    assert caught.value.code == "BASELINE_CRASHED"
    assert words in caught.value.hint


def test_calls_whose_code_cannot_be_proven_are_said_before_any_candidate() -> None:
    must_be_ours(RunnerReport(), {"m.py": b""})
    with pytest.raises(EnvironmentFault, match="can be made again"):
        must_be_ours(RunnerReport(), {"m.py": b""}, {"m.py"})
