"""What of a run of the unchanged snapshot speaks against a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel.check.dispatch import server_verification
from codeflash_parallel.check.session.runner_report import RunnerReport


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
    monkeypatch.setattr(server_verification, "machinery_fault", lambda _: None)
    baseline: Any = SimpleNamespace(leaks=True, loaded={"m.py": "digest"})
    session: Any = SimpleNamespace(report=report)
    assert server_verification._fault(baseline, session) == why
