"""The same verdicts with and without `--new-process` on the real projects: `nox -s new_process_and_warm`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from both_ways import assert_agreement, both_ways
from harness import Place, assert_nothing_left
from real_project import NAMES, Project, load

pytestmark = [pytest.mark.campaign, pytest.mark.slow]


@pytest.mark.parametrize("name", NAMES)
def test_both_ways(name: str, build: Callable[[Project], Place]) -> None:
    project = load(name)
    place = build(project)
    source = (place.repository / project.path).read_text(encoding="utf-8")
    candidates = project.write_candidates(source, place.state / "candidates")
    python = ["--python", str(place.venv / "bin" / "python")] if place.venv else []
    found = both_ways(place, "check", *project.arguments(candidates), *python, "-j", "2")
    assert len(found) == len(project.expected["candidates"])
    assert_agreement(found)
    assert_nothing_left(place)
