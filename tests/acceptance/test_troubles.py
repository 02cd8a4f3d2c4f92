"""A full disk, a deleted mirror, a user who rewrites history meanwhile, two runs at once."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from harness import (
    Fixture,
    Place,
    assert_nothing_left,
    assert_same,
    load_fixture,
    picture,
    processes_of,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def fixture() -> Fixture:
    return load_fixture("clear_winner")


def arguments(fixture: Fixture, command: str = "check") -> list[str]:
    functions = ["--function", *fixture.expected["functions"]]
    return [
        command,
        *functions,
        "--candidates",
        str(fixture.candidates),
        "-j",
        "2",
        "--output-format",
        "json",
    ]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that makes a small file system; skip with the machine's words when it may not."""
    mounted = []

    def mount(size: str) -> Path:
        folder = tmp_path / f"disk-{size}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"mount: {done.stderr.strip() or done.stdout.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small file system")
@pytest.mark.parametrize(
    "size",
    [
        "16k",
        pytest.param("300k", marks=pytest.mark.campaign),
        "400k",
        pytest.param("640k", marks=pytest.mark.campaign),
    ],
)
def test_full_disk(
    size: str, build: Callable[[Fixture], Place], fixture: Fixture, small_disk: Callable[[str], Path]
) -> None:
    place = build(fixture)
    place = replace(place, cache=small_disk(size))
    before = picture(place.repository)
    finished = place.run(*arguments(fixture))
    data = finished.document
    assert_same(before, picture(place.repository))
    assert processes_of(place.cache) == []
    assert "Traceback" not in finished.errors
    if data["error"] is None:
        assert {c["code"] for c in data["candidates"]} <= {"INFRA_DISK", "NOT_RACED"}, data["candidates"]
    else:
        assert finished.status == 4, (data["error"], finished.errors)
        assert "space" in data["error"]["message"].lower() or data["error"]["code"] == "DISK_FULL"


@pytest.mark.witness
def test_cache_deleted_during_a_run(build: Callable[[Fixture], Place], fixture: Fixture) -> None:
    place = build(fixture)
    before = picture(place.repository)
    started = place.start(*arguments(fixture))
    started.wait_until_it_says("baseline")
    shutil.rmtree(place.cache, ignore_errors=True)
    finished = started.finish()
    assert "Traceback" not in finished.errors
    assert finished.document["complete"] or finished.status in {3, 4}, finished.document["error"]
    assert_same(before, picture(place.repository))
    assert processes_of(place.cache) == []
    again = place.run(*arguments(fixture))
    assert again.status == 0, (again.document["error"], again.errors)
    assert_nothing_left(place)


@pytest.mark.witness
def test_two_runs_at_once_and_one_without_mirrors(
    build: Callable[[Fixture], Place], fixture: Fixture
) -> None:
    """And the cache is a cache: without its mirrors, a later run is as good as the first."""
    place = build(fixture)
    before = picture(place.repository)
    both = [place.start(*arguments(fixture)) for _ in range(2)]
    finished = [started.finish() for started in both]
    assert [f.status for f in finished] == [0, 0], [f.document["error"] for f in finished]
    assert len({f.document["run_id"] for f in finished}) == 2
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)

    mirrors = [head.parent for head in place.cache.rglob("HEAD") if (head.parent / "objects").is_dir()]
    assert mirrors
    for mirror in mirrors:
        shutil.rmtree(mirror)
    again = place.run(*arguments(fixture))
    assert again.status == 0, (again.document["error"], again.errors)
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)
