"""Snapshots of jobs: taken by content, and removed when no job needs them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from harness import git
from projects import make_project

from codeflash_parallel.queue.snapshot_store import mirror_of, remove_unneeded, take_snapshot
from codeflash_parallel.workspace.git.repository import find_repository
from codeflash_parallel.workspace.snapshot.snapshot_request import SnapshotRequest

DAY_S = 86_400


def test_equal_trees_have_one_snapshot_and_an_edit_makes_another(tmp_path: Path) -> None:
    repository = find_repository(make_project(tmp_path / "project"))
    first, again = (take_snapshot(tmp_path / "q", repository, SnapshotRequest()) for _ in range(2))
    assert first == again
    (tmp_path / "project/shop/sums.py").write_text("edited\n")
    other = take_snapshot(tmp_path / "q", repository, SnapshotRequest())
    assert (other.place, other.snapshot.commit == first.snapshot.commit) == (first.place, False)
    mirror = mirror_of(tmp_path / "q", first.place)
    for stored in (first, other):
        assert git(mirror, "cat-file", "-t", stored.snapshot.commit).strip() == "commit"


def test_what_no_job_needs_is_removed_from_the_day_before_yesterday_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = find_repository(make_project(tmp_path / "project"))
    begun_s = time.time()
    places = []
    for day in range(4):
        monkeypatch.setattr(time, "time", lambda day=day: begun_s + day * DAY_S)
        places.append(take_snapshot(tmp_path / "q", repository, SnapshotRequest()).place)
    remove_unneeded(tmp_path / "q", {places[0]})
    assert [mirror_of(tmp_path / "q", place).exists() for place in places] == [True, False, True, True]
    assert not (tmp_path / "q/snapshots" / places[1]).parent.exists()
    remove_unneeded(tmp_path / "nowhere", ())
