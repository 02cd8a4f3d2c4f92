"""What a result says of a winner, for people."""

from __future__ import annotations

import pytest

from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.result.result_model import CandidateResult, RaceFigures, ValueCounts

VALUES = ValueCounts(compared=20, repeated=9, derived=1840, largest_seen=12, largest_fresh=960)


@pytest.mark.parametrize(
    ("values", "race", "claim"),
    [
        (
            VALUES,
            RaceFigures(stage="race", rounds=9, seen=2.14, unseen=2.0),
            (
                "Equal on 29 calls of your tests and on 1,840 fresh inputs up to 80 times as large; "
                "2.1x on your calls, 2.0x on unseen ones."
            ),
        ),
        (
            ValueCounts(compared=3, derived=40, largest_seen=12, largest_fresh=12),
            RaceFigures(stage="race", rounds=9, seen=1.5),
            "Equal on 3 calls of your tests and on 40 fresh inputs; 1.5x on your calls.",
        ),
        (
            ValueCounts(compared=3, derived=40),
            None,
            "Equal on 3 calls of your tests and on 40 fresh inputs.",
        ),
    ],
)
def test_a_claim_says_what_was_compared_and_what_is_gained(
    values: ValueCounts, race: RaceFigures | None, claim: str
) -> None:
    result = CandidateResult(
        id=CandidateId("c"),
        reason="",
        origin=CandidateOrigin.EDITS,
        status=CandidateStatus.WON,
        code=Code.OK,
        values=values,
        race=race,
    )
    assert result.claim == claim
