"""Wear of a template server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codeflash_parallel.warm.server_recycling import LONGEST_S, MOST_FORKS, Wear, worn

FRESH = Wear(forks=3, age_s=10.0, rss_at_ready_bytes=100 << 20, rss_bytes=101 << 20)


@pytest.mark.parametrize(
    ("wear", "why"),
    [
        (FRESH, ""),
        (replace(FRESH, rss_bytes=0), "it is gone"),
        (replace(FRESH, forks=MOST_FORKS), f"it has made {MOST_FORKS} forks"),
        (replace(FRESH, age_s=LONGEST_S), "it is 30 minutes old"),
        (replace(FRESH, rss_bytes=300 << 20), "it has grown by 200 MiB"),
        (replace(FRESH, rss_at_ready_bytes=10 << 20, rss_bytes=60 << 20), ""),
    ],
)
def test_a_template_is_replaced_when_it_is_worn(wear: Wear, why: str) -> None:
    assert worn(wear) == why
