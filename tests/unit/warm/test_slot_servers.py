"""When a template of a slot is replaced."""

from __future__ import annotations

from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel.warm.slot_servers import LONGEST_S, _Standing


@pytest.mark.parametrize(
    ("rss_bytes", "age_s", "is_worn"), [(1 << 20, 10.0, False), (0, 10.0, True), (1 << 20, LONGEST_S, True)]
)
def test_a_template_is_replaced_when_it_is_gone_or_old(rss_bytes: int, age_s: float, is_worn: bool) -> None:
    server: Any = SimpleNamespace(rss_bytes=lambda: rss_bytes)
    assert _Standing(server=server, spec={}, since_s=monotonic() - age_s).is_worn is is_worn
