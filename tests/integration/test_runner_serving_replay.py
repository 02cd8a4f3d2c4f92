"""Captured calls made again in forks of a template give what a process of its own gives."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from runner_sessions import PYTHONS
from serving_lab import POINTS, Gate, Run, ServingLab, anyio_backend, open_lab

__all__ = ["anyio_backend"]
pytestmark = pytest.mark.anyio

MODULE = """
import functools, random
from helper import Thing

def f(x, things=()):
    return [x + 1, random.random(), [thing.n for thing in things]]

@functools.lru_cache
def cached(x):
    return -x
"""
SUITE = """
import pytest
from mod import cached, f
from helper import Thing

class Own(Thing): pass

@pytest.mark.parametrize("x", range(3))
def test_f(x): f(x, things=(Thing(), Own())); cached(x)
def test_raises(): pytest.raises(TypeError, f, "a")
"""


@pytest.fixture(params=PYTHONS)
async def lab(tmp_path: Path, request: pytest.FixtureRequest):
    targets = ("mod.py::f", "mod.py::cached")
    async with open_lab(tmp_path, python=request.param, targets=targets) as made:
        made.write(mod=MODULE, test_it=SUITE, helper="class Thing:\n    def __init__(self): self.n = 1\n")
        await made.new_process(wrap="capture")
        yield made


async def replayed(lab: ServingLab, server: Any = None, **fields: Any) -> Run:
    fields = {"mode": "replay", "texts": list(range(100)), **fields}
    return await (lab.new_process(**fields) if server is None else lab.fork(server, **fields))


def calls(run: Run) -> list[dict[str, Any]]:
    return [record for record in run.essence if record["t"] == "call"]


@pytest.mark.parametrize(("until", "gate"), POINTS)
async def test_the_same_records_as_in_a_process_of_its_own(lab: ServingLab, until: str, gate: Gate) -> None:
    new_process = await replayed(lab)
    assert len(calls(new_process)) == 7
    # The engine's templates do not know yet which calls will be wanted.
    async with lab.server(until, gate=gate, mode="replay", calls=[]) as server:
        assert not server.ready.unfit
        for _ in range(2):
            run = await replayed(lab, server)
            assert sorted(map(str, run.essence)) == sorted(map(str, new_process.essence))
            assert run.records[1] == {"t": "served", "point": until}
        some = await replayed(lab, server, calls=[1, 2, 3], texts=[1, 3])
        assert [call["i"] for call in calls(some)] == [1, 3]
        assert [call for call in calls(new_process) if call["i"] in (1, 3)] == calls(some)
        assert some.one("answer")["of"][0] == 2


@pytest.mark.parametrize(("until", "gate"), POINTS)
async def test_what_a_candidate_changes_is_seen(lab: ServingLab, until: str, gate: Gate) -> None:
    async with lab.server(until, gate=gate, mode="replay", calls=[]) as server:
        before = await replayed(lab, server)
        lab.write(mod=MODULE.replace("x + 1", "x + 2"))
        new_process, run = await asyncio.gather(replayed(lab), replayed(lab, server))
        assert calls(run) == calls(new_process)
        assert calls(run) != calls(before)
        assert run.one("source") == new_process.one("source")
        lab.write(mod=MODULE.replace("def f", "def g"))
        run = await replayed(lab, server)
        if until == "collected":
            assert run.one("unswappable")
            assert run.status == 75
        else:
            assert len(run.named("unreplayable")) == 4
        lab.write(mod=MODULE)
        assert calls(await replayed(lab, server)) == calls(before)


async def test_collected_goes_on_from_imported(lab: ServingLab) -> None:
    new_process = await replayed(lab)
    async with lab.server("imported", mode="replay", calls=[]) as first:
        second = await first.advance("collected", 60)
        for server in (second, first):
            assert calls(await replayed(lab, server)) == calls(new_process)
        await second.close()


async def test_a_target_that_cannot_be_imported(lab: ServingLab) -> None:
    async with lab.server("imported", mode="replay", calls=[]) as server:
        lab.write(mod="import no_such_module\n")
        new_process, run = await replayed(lab), await replayed(lab, server)
        assert run.named("unreplayable") == new_process.named("unreplayable")
        assert len(run.named("unreplayable")) == 7
