"""What a gate is asked for, and what it says of scatter."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.gate.regression_gate import GateRequest, _is_far, _scatter, gate
from codeflash_parallel.result.errors import UsageError


def test_nothing_but_a_base_is_needed() -> None:
    request = GateRequest(base="main")
    assert (request.head, request.budget_s, request.max_regression) == ("", 60.0, 0.02)


def test_what_is_no_repository_is_told(tmp_path: Path) -> None:
    settings = Settings(cache_dir=str(tmp_path / "cache"))
    with pytest.raises(UsageError, match="not in a git repository"):
        anyio.run(gate, tmp_path, settings, GateRequest(base="main"))


def test_a_head_is_far_slower_where_it_was_tried_as_well() -> None:
    assert _is_far(100, 500)
    assert not _is_far(100, 300)
    assert not _is_far("gone", 300)


def test_scatter_needs_two_values() -> None:
    assert _scatter([0.1]) == ""
    assert _scatter([0.0, 0.02]) == "it differs by 1.4% from one set of processes to the next"
