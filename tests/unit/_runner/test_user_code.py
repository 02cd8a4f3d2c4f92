"""What the runner makes of the answers of a user's judge."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel._runner import user_code
from codeflash_parallel._runner.session import RunnerFailure
from codeflash_parallel._runner.user_code import CallableWork, CommandWork
from codeflash_parallel._runner.values import call_files


class Odd:
    def __eq__(self, other: object) -> bool:
        raise ValueError(other)

    __hash__ = None  # type: ignore[assignment]


def pack(box: int, *sizes: int, order: str = "none") -> int:
    return box


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(user_code, "ANSWER_S", 0.05)
    monkeypatch.setattr(call_files, "load", lambda _call: ((1, 2, 3), {}))
    targets = SimpleNamespace(function=lambda _meta: pack)

    def asked(judge: Any, expected: str = "1", actual: str = '["tuple", 2]') -> str:
        return user_code._why_not(judge, targets, SimpleNamespace(meta={}), expected, actual)

    return asked


def test_arguments_come_by_name_and_results_as_they_were(ask: Any) -> None:
    seen: list[Any] = []

    assert ask(lambda *given: not seen.append(given)) == ""
    assert seen == [({"box": 1, "sizes": (2, 3), "order": "none"}, 1, (2,))]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (True, ""),
        (False, "the judge returns False"),
        (None, "the judge returns NoneType, no bool"),
        (1, "the judge returns int, no bool"),
    ],
)
def test_only_true_accepts(ask: Any, answer: object, why: str) -> None:
    assert ask(lambda *_: answer) == why


def test_numpys_truth_is_one() -> None:
    assert user_code._verdict(type("bool_", (int,), {})(1)) == ""


def test_what_goes_wrong_is_told(ask: Any) -> None:
    assert ask(lambda *_: Odd() == 1) == "the judge raises (ValueError: 1)"
    assert ask(lambda *_: time.sleep(9)).startswith("the judge gives no answer within")
    assert ask(lambda *_: True, actual='["dataclass", "os", "system", 1]').startswith("it holds os.system")
    assert ask(lambda *_: True, actual='["Fraction", "1e999999999"]').startswith("it holds what cannot")


def callable_work(tmp_path: Path, source: str) -> Any:
    given = {"path": "bench.py", "name": "work", "source": source}
    return CallableWork({"root": str(tmp_path), "callables": [given]})


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
