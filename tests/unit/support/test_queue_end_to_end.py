"""What the campaign of agents looks at must be able to fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from queue_cases import JOB

from codeflash_parallel.queue.jobs import Instant, Job, JobId, JobState

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

from queue_end_to_end import is_bad, overlaps, standings, unfair

S = 1_000_000_000


def job(
    name: str,
    submitter: str = "agent0",
    *,
    begun: float = 0.0,
    cpu_s: float = 1.0,
    checks: tuple[tuple[float, float], ...] = (),
    timed: tuple[tuple[float, float], ...] = (),
) -> Job:
    spans = {"checks": checks, "timed": timed}
    intervals = {key: [[int(a * S), int(b * S)] for a, b in value] for key, value in spans.items()}
    return JOB._replace(
        job_id=JobId(name),
        submitter=submitter,
        state=JobState.DONE,
        submitted=Instant(wall_s=0.0, boot_s=begun, boot_id="b"),
        result=json.dumps({"document": {}, "intervals": intervals}),
        cpu_s=cpu_s,
    )


@pytest.mark.parametrize(
    ("checks", "timed", "found"),
    [
        (((0, 1),), (), []),
        (((2.5, 4),), (), ["race other"]),
        ((), ((2.9, 3.5),), ["other race", "race other"]),
        (((1, 2), (3, 4)), (), []),
    ],
)
def test_a_timed_section_that_overlaps_is_found(checks, timed, found: list[str]) -> None:
    race = job("race", timed=((2.0, 3.0),), checks=((1.0, 2.5),))
    assert overlaps([race, job("other", checks=checks, timed=timed)]) == found


def test_a_flood_that_is_served_first_is_found() -> None:
    late = [job("a", "agent1", begun=1.0, checks=((30, 31),))]
    flood = [job(f"f{n}", checks=((n, n + 1),)) for n in range(30)]
    assert list(unfair([*flood, *late], slots=2)) == ["agent1 had 1.0 s while the flood had 29.0 s"]
    soon = [job("a", "agent1", begun=1.0, checks=((3, 4),))]
    assert list(unfair([*flood, *soon], slots=2)) == []


def test_every_promise_that_is_broken_is_bad() -> None:
    names = ("lost", "missing", "twice", "wrong", "unfair", "overlaps", "orphans")
    good = {"agents": [0, 0], "drained": 0} | {name: [] for name in names}
    assert not is_bad(good)
    for name in names:
        assert is_bad({**good, name: ["x"]})
    assert is_bad({**good, "agents": [0, 1]})
    assert is_bad({**good, "drained": -9})


def test_a_verdict_is_what_no_noise_may_change() -> None:
    candidates = [
        {"id": "a", "status": "won", "code": "FASTEST"},
        {"id": "b", "status": "rejected", "code": "TESTS_FAILED"},
    ]
    assert standings({"error": None, "candidates": candidates}) == {
        "a": "equivalent",
        "b": "rejected TESTS_FAILED",
    }
