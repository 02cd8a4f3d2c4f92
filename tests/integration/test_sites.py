"""The campaigns' own ground: a plain repository, and a run of it that ends as it should."""

from __future__ import annotations

from pathlib import Path

import pytest
from sites import Site
from ways_out import attempt, left_behind, success

pytestmark = [pytest.mark.engine, pytest.mark.witness]


def test_a_run_of_the_plain_shape_is_right_and_leaves_nothing(tmp_path: Path) -> None:
    site = Site.made(tmp_path / "site")
    tried = attempt(site, "success", ("check",), "1")
    before = site.pictures()
    assert success(tried) == "right"
    assert site.pictures() == before
    assert left_behind(tried.place, site.folder) == []
