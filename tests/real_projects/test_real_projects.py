"""Well-known packages with their own tests: exact verdicts for six and more candidates of one function each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from harness import EXECUTOR, Finished, Place, assert_nothing_left, assert_same, picture
from real_project import COUNT, NAMES, Project, load

#: How many slots: more than there are cores, and where time is no matter one.
SLOTS = (4,) if len(NAMES) > COUNT else (1, 4)

pytestmark = [pytest.mark.real_projects, pytest.mark.slow]


def run(project: Project, place: Place, *options: str) -> Finished:
    """Run the command line and look at what must hold of every run."""
    source = (place.repository / project.path).read_text(encoding="utf-8")
    candidates = project.write_candidates(
        source, place.state / f"candidates-{len(list(place.state.iterdir()))}"
    )
    before = picture(place.repository)
    python = ["--python", str(place.venv / "bin" / "python")] if place.venv else []
    finished = place.run("run", *project.arguments(candidates), *python, *options, *EXECUTOR)
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)
    return finished


def verdicts(data: dict[str, Any]) -> dict[str, str]:
    return {candidate["id"]: f"{candidate['status']} {candidate['code']}" for candidate in data["candidates"]}


def expected_verdicts(project: Project) -> dict[str, str]:
    return {name: f"{e['status']} {e['code']}" for name, e in project.expected["candidates"].items()}


@pytest.mark.parametrize("name", NAMES[:COUNT])
def test_verdicts(name: str, build: Callable[[Project], Place]) -> None:
    project = load(name)
    finished = run(project, build(project), "-j", "2")
    data = finished.document
    context = {c["id"]: f"{c['code']}: {c['reason']} {c['speedup']}" for c in data["candidates"]}
    assert data["error"] is None, (data["error"], finished.errors[-2000:])
    assert verdicts(data) == expected_verdicts(project), context
    assert (data["verdict"], data["winner"], finished.status) == ("winner", "faster", 0), context
    assert data["quarantined"] == []
    # Derived where the arguments are plain enough for it, which those of some projects are not.
    assert data["level"] in {"captured", "derived"}


def test_any_number_of_slots_gives_the_same_verdicts(build: Callable[[Project], Place]) -> None:
    """Eight candidates, four at a time, and one where all projects are run; two are `test_verdicts[packaging]`."""
    project = load("packaging")
    assert len(project.expected["candidates"]) == 8
    place = build(project)
    for slots in SLOTS:
        data = run(project, place, "-j", str(slots)).document
        assert (slots, verdicts(data)) == (slots, expected_verdicts(project))
        assert data["winner"] == "faster"
