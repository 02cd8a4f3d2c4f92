"""What the runner makes of the answers of a user's judge."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel._runner import user_judge
from codeflash_parallel._runner.values import call_files


class Odd:
    def __eq__(self, other: object) -> bool:
        raise ValueError(other)

    __hash__ = None  # type: ignore[assignment]


def pack(box: int, *sizes: int, order: str = "none") -> int:
    return box


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(user_judge, "ANSWER_S", 0.05)
    monkeypatch.setattr(call_files, "load", lambda _call: ((1, 2, 3), {}))
    targets = SimpleNamespace(function=lambda _meta: pack)

    def asked(judge: Any, expected: str = "1", actual: str = '["tuple", 2]') -> str:
        return user_judge._why_not(judge, targets, SimpleNamespace(meta={}), expected, actual)

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
    assert user_judge._read(type("bool_", (int,), {})(1)) == ""


def test_what_goes_wrong_is_told(ask: Any) -> None:
    assert ask(lambda *_: Odd() == 1) == "the judge raises (ValueError: 1)"
    assert ask(lambda *_: time.sleep(9)).startswith("the judge gives no answer within")
    assert ask(lambda *_: True, actual='["dataclass", "os", "system", 1]').startswith("it holds os.system")
    assert ask(lambda *_: True, actual='["Fraction", "1e999999999"]').startswith("it holds what cannot")
