"""Hints change the order of the queue, within what ageing makes up for."""

from __future__ import annotations

import pytest
from simulated_queue import SimulatedQueue

from codeflash_parallel.evalqueue.hints import (
    MOST_RANKS,
    HintRow,
    longest_without_a_verdict,
    names_winner,
    ranks,
    recently_improved,
)
from codeflash_parallel.evalqueue.policy import (
    AGEING_MS,
)
from codeflash_parallel.model.jobs import Strategy

SECOND = 10**6


def row(submitter: str, verdict_s: float, improvement_s: float) -> HintRow:
    return HintRow(
        share=f"alone {submitter}", submitter=submitter, queued=1, running=0,
        since_verdict_s=verdict_s, since_improvement_s=improvement_s,
    )  # fmt: skip


ROWS = [row("a", 5.0, 500.0), row("b", float("inf"), float("inf")), row("c", 50.0, 60.0), row("d", 5.0, 60.0)]


def test_hints_that_ship_rank_by_improvements_and_by_verdicts():
    assert list(recently_improved(ROWS)) == [1, 2, 0, 0]
    assert list(longest_without_a_verdict(ROWS)) == [2, 0, 1, 2]


def test_a_hint_is_kept_within_what_ageing_makes_up_for():
    assert list(ranks(lambda rows: [-5, 0, 99, 2], ROWS).values()) == [0, 0, MOST_RANKS, 2]
    with pytest.raises(ValueError, match="4 rows"):
        ranks(lambda rows: [1], ROWS)


def test_a_hint_changes_who_is_next_and_ageing_makes_up_for_it():
    queue = SimulatedQueue(strategy=Strategy.PRIORITY)
    first, second = queue.submit("a"), queue.submit("b")
    queue.ranks = {("alone a", "a"): 1}
    assert [queue.position(second), queue.position(first)] == [1, 2]
    late = queue.submit("b", now_ms=AGEING_MS + 1)
    assert [queue.position(entry) for entry in (second, first, late)] == [1, 2, 3]


def test_a_result_names_a_winner_or_does_not():
    assert names_winner('{"document": {"winner": "a"}}')
    assert not any(
        map(names_winner, ['{"document": {"winner": null}}', '{"document": null}', "[]", "no JSON", "{}"])
    )
