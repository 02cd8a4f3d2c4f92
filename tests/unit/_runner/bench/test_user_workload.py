"""Callables and commands that the user names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codeflash_parallel._runner.bench.user_workload import CallableWork, CommandWork
from codeflash_parallel._runner.session import RunnerFailure


def callable_work(tmp_path: Path, source: str) -> Any:
    given = {"path": "bench.py", "name": "work", "source": source}
    return CallableWork({"root": str(tmp_path), "callable": given})


def test_what_a_callable_raises_is_said(tmp_path: Path) -> None:
    batch = callable_work(tmp_path, "def work():\n    raise KeyError(3)\n").prepare(0, 2, 0)
    batch.run()
    checked = batch.check()
    assert (checked["raised"], checked["said"]) == (True, "it raises KeyError: 3")


def test_equal_results_have_one_digest(tmp_path: Path) -> None:
    digests = []
    for source in ("def work():\n    return [1]\n", "work = lambda: [0 + 1]\n", "work = lambda: [2]\n"):
        batch = callable_work(tmp_path, source).prepare(0, 3, 0)
        batch.run()
        digests.append(batch.check()["digest"])
    assert digests[0] == digests[1] != digests[2]


def test_a_name_that_is_no_callable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunnerFailure, match="is no callable"):
        callable_work(tmp_path, "work = 3\n")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["sh", "-c", "echo 1"], None),
        (["sh", "-c", "echo why >&2; exit 3"], "it ends with status 3: why"),
        (["no-such-command"], "it ends with status 127"),
    ],
)
def test_a_command_that_fails_says_why(command: list[str], said: str | None) -> None:
    batch = CommandWork({"command": command}).prepare(0, 1, 0)
    batch.run()
    checked = batch.check()
    assert checked["raised"] is (said is not None)
    assert checked.get("said", "").startswith(said or "")
