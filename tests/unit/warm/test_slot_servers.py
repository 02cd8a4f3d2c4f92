"""When a template of a slot is replaced."""

from __future__ import annotations

from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel.check.session.runner_report import RunnerReport
from codeflash_parallel.warm import slot_servers
from codeflash_parallel.warm.slot_servers import LONGEST_S, _Standing


@pytest.mark.parametrize(
    ("rss_bytes", "age_s", "is_worn"), [(1 << 20, 10.0, False), (0, 10.0, True), (1 << 20, LONGEST_S, True)]
)
def test_a_template_is_replaced_when_it_is_gone_or_old(rss_bytes: int, age_s: float, is_worn: bool) -> None:
    server: Any = SimpleNamespace(rss_bytes=lambda: rss_bytes)
    assert _Standing(server=server, spec={}, since_s=monotonic() - age_s).is_worn is is_worn


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (RunnerReport(), ""),
        (RunnerReport(sources={"m.py": frozenset({"digest"})}), ""),
        (
            RunnerReport(sources={"m.py": frozenset({"digest", "other"})}),
            "the m.py that ran is not the snapshot's",
        ),
        (RunnerReport(unswappable="a decorator"), "a decorator"),
    ],
)
def test_code_that_is_not_the_snapshot_s_speaks_against_a_server(
    report: RunnerReport, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_servers, "machinery_fault", lambda _: None)
    baseline: Any = SimpleNamespace(leaks=True, loaded={"m.py": "digest"})
    session: Any = SimpleNamespace(report=report)
    assert slot_servers._fault(baseline, session) == why
