"""With and without `--new-process`: the same status and code for every candidate.

In the gate, the fixture that a shortcut is most likely to get wrong. All of them, and as many seeds of random
patches as one asks for: `nox -s new_process_and_warm`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from both_ways import assert_agreement, both_ways, finished_both_ways, judged, random_patches, write_manifest
from expectations import assert_expected
from harness import (
    Fixture,
    Place,
    all_fixtures,
    assert_nothing_left,
    assert_same,
    load_fixture,
    picture,
)
from test_fixtures import TRIED_BOTH_WAYS, arguments

#: How many seeds of random patches.
SEEDS = int(os.environ.get("CODEFLASH_PARALLEL_SEEDS", "1"))
#: How many random patches of each seed, of a single one half as many: one command judges them all.
PATCHES = 16 if SEEDS > 1 else 8
#: Of `many_shapes`: these can be swapped in place; with all of its targets, calls are recorded inside tests.
PLAIN = ("pkg/core.py::titles", "pkg/core.py::Box.area", "pkg/core.py::Box.parse")


def _parameters() -> list[object]:
    long = [pytest.mark.campaign]
    return [pytest.param(f.name, marks=[] if f.name in TRIED_BOTH_WAYS else long) for f in all_fixtures()]


@pytest.mark.witness
@pytest.mark.parametrize("name", _parameters())
def test_fixture(name: str, build: Callable[[Fixture], Place]) -> None:
    fixture = load_fixture(name)
    place = build(fixture)
    before = picture(place.repository)
    warm, new_process = finished_both_ways(place, *arguments(fixture, place))
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)
    assert_agreement(judged(warm, new_process))
    if name in TRIED_BOTH_WAYS:  # the others are held against it by `test_fixtures.py`
        assert_expected(fixture.expected, warm)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_patches(seed: int, build: Callable[[Fixture], Place]) -> None:
    """Imports, module state, decorators, defaults, class bodies, several, new and deleted files, `__init__`."""
    fixture = load_fixture("many_shapes")
    place = build(fixture)
    targets = fixture.expected["functions"] if seed % 2 else PLAIN
    patches = random_patches(fixture.folder / "project", targets, PATCHES, seed)
    manifest = write_manifest(place.state / "patches.jsonl", patches)
    functions = [text for name in targets for text in ("--function", name)]
    options = ("--timeout", "2", "-j", "2", "--output-format", "json")
    found = both_ways(place, "check", *functions, "--candidates", str(manifest), *options)
    assert len(found) == PATCHES, "the run came to no verdict"
    assert_agreement(found)
