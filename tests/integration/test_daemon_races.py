"""Races and checks of several workers on one machine: what is timed is alone, as the recorded intervals show."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from daemon_support import Place, project_place
from harness import worktrees_left
from projects import FAST_TOTAL

pytestmark = [pytest.mark.slow, pytest.mark.campaign]

#: Races take as long as they take on a busy machine.
PATIENT_S = 600.0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with project_place(tmp_path, monkeypatch) as made:
        yield made
    assert worktrees_left(made.cache) == []


def overlapping(one: list[int], other: list[int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def test_nothing_runs_beside_what_is_timed(place: Place) -> None:
    place.start(max_concurrent=2)
    kinds = ("evaluate", "check", "race", "check", "check")
    with place.client() as client:
        requests = [
            place.request(f"{FAST_TOTAL}    # {number}\n", kind=kind, submitter=f"agent-{number}")
            for number, kind in enumerate(kinds)
        ]
        futures = [client.submit(request) for request in requests]
        results: list[dict[str, Any]] = [future.result(PATIENT_S) for future in futures]

    for kind, result in zip(kinds, results, strict=True):
        document = result["document"]
        assert document["error"] is None
        if kind == "check":
            assert document["candidates"][0]["code"] == "NOT_RACED"
            continue
        assert document["candidates"][0]["race"] is not None, document["summary"]
        assert document["winner"] in {"c", None}
        assert (document["winner_profile"] is not None) == (kind == "evaluate" and document["winner"] == "c")
    timed = [interval for result in results for interval in result["intervals"]["timed"]]
    checks = [interval for result in results for interval in result["intervals"]["checks"]]
    assert len(timed) >= 2  # the races of two jobs
    assert len(checks) >= 10
    assert len({result["worker"] for result in results}) == 2
    assert not any(overlapping(one, other) for one, other in combinations(timed, 2))
    assert not any(overlapping(one, other) for one in timed for other in checks)
    assert any(
        overlapping(one, other) for one, other in combinations(checks, 2)
    )  # it was a test of something
