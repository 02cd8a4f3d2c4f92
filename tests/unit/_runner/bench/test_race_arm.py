"""A template that serves units until it is told to quit."""

from __future__ import annotations

import os
from typing import Any

from codeflash_parallel._runner.bench import race_arm


class Control:
    def __init__(self, *orders: dict[str, Any]) -> None:
        self._orders, self.sent = list(orders), []  # type: list[dict[str, Any]], list[Any]

    def receive(self) -> dict[str, Any]:
        return self._orders.pop(0)

    def send(self, kind: str, **fields: Any) -> None:
        self.sent.append((kind, fields))

    def forget(self) -> None:
        self._orders = [{"op": "go"}, {"op": "quit"}]


class Work:
    sizes, skipped = (1,), {7: "why"}


def test_a_unit_that_dies_is_answered_for(monkeypatch: Any) -> None:
    monkeypatch.setattr(race_arm.gc, "freeze", lambda: None)
    monkeypatch.setattr(race_arm, "_serve_blocks", lambda *_: race_arm.os._exit(9))
    control = Control({"op": "unit"})
    race_arm.serve(control, Work())
    (ready, fields), *others = control.sent
    assert (ready, fields["calls"], fields["skipped"]) == ("ready", (1,), {7: "why"})
    assert [kind for kind, _ in others] == ["reaped", "reaped"]
    assert {answer["status"] for _, answer in others} == {9}


def test_a_fork_with_an_incomplete_order_ends() -> None:
    pid = os.fork()
    if pid == 0:
        race_arm._become({}, [0, 1], None, os.getppid())
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_fork_whose_gate_closes_ends() -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        race_arm._become({}, [0, 0, 0, reading, 0], None, os.getppid())
        os._exit(1)
    os.close(writing)
    os.close(reading)
    assert os.waitpid(pid, 0)[1] == 0
