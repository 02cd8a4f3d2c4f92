"""Attempts at making inputs end in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from codeflash_parallel._runner.inputs import derived_inputs

Sent = tuple[Any, ...]


class Trial:
    """Takes what an attempt sends."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {"raised": 3, "failed": ""}
        self.kept: list[Any] = []
        self.deaths = 0

    def take(self, sent: Sent) -> bool:
        outside, one = sent
        if outside is None:
            self.told = one
            return True
        self.kept.append(one)
        return False

    def died(self, _spent_ns: float) -> None:
        self.deaths += 1


def attempt(work: Callable[[Callable[[Sent], Any]], object]) -> tuple[bool, Trial]:
    trial = Trial()
    return derived_inputs._in_fork(work, trial), trial


def test_a_defect_while_inputs_are_made_is_told_and_what_was_made_is_kept() -> None:
    def work(send: Callable[[Sent], Any]) -> None:
        send((False, "made"))
        raise OverflowError

    is_over, trial = attempt(work)
    assert is_over
    assert trial.kept == ["made"]
    assert trial.told == {"raised": 3, "failed": "builtins.OverflowError"}
    assert trial.deaths == 0


def test_an_attempt_whose_process_dies_is_counted() -> None:
    is_over, trial = attempt(lambda _send: os._exit(3))
    assert (is_over, trial.deaths, trial.told["failed"]) == (False, 1, "")
