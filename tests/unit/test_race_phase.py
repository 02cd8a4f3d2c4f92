"""What later rounds of a run make of what earlier ones found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codeflash_parallel.behavior.plan import CheckOutcome
from codeflash_parallel.benchmark.decide import Looks, Standing
from codeflash_parallel.benchmark.plan import Group, RacePlan
from codeflash_parallel.benchmark.raced import AFTERWARDS, Out, Raced, RaceFailed
from codeflash_parallel.benchmark.ranking import Ranking
from codeflash_parallel.benchmark.samples import Clock
from codeflash_parallel.benchmark.tracks import Track
from codeflash_parallel.engine.ledger import Ledger
from codeflash_parallel.engine.race_phase import RaceFinding, draws, kept, merits_of
from codeflash_parallel.model.candidate import Candidate, CandidateId, Origin, PatchText, Submission
from codeflash_parallel.model.evidence import ValueCounts
from codeflash_parallel.model.outcome import Code, Status, Verdict

PLAN = RacePlan(groups=(Group(name="all", ns=1),))
WRONG = Out(status=Status.REJECTED, code=Code.NOT_CONFIRMED, reason="wrong", left_in=2)


def raced(**standings: Standing) -> Raced:
    track = Track(total=(0.1,) * 12, groups=((0.1,) * 12,), clock=Clock.CPU)
    return Raced(
        plan=PLAN,
        candidates=tuple(standings),
        rounds=(),
        tracks=dict.fromkeys(standings, track),
        looks=Looks(candidates=tuple(standings), standings=standings, decided=True),
        out={},
        wall_ns=1,
        round_ns=1,
        stopped="enough",
    )


def found(*confirmations: Raced, leaders: tuple[str, ...] = ("a",)) -> RaceFinding:
    ranking = Ranking(
        verdict=Verdict.WINNER, winner=leaders[0], tie_set=leaders, candidates=(), summary="a wins."
    )
    return RaceFinding(confirmations=confirmations, ranking=ranking)


CLAIM = raced(a=Standing.FASTER)


def test_the_first_round_has_nothing_to_keep() -> None:
    assert kept(RaceFinding(), [raced(a=Standing.FASTER)], []) == []


def test_a_race_that_leaves_a_winner_open_takes_nothing_back() -> None:
    before = found(CLAIM, raced(a=Standing.OPEN))

    assert kept(before, [raced(a=Standing.OPEN, r=Standing.OPEN)], []) == [CLAIM]
    assert kept(before, [], [raced(a=Standing.OPEN)]) == [CLAIM]
    assert kept(before, [], [RaceFailed(candidates=("a",), reason="It died.")]) == [CLAIM]


@pytest.mark.parametrize("standing", [Standing.FASTER, Standing.FUTILE, Standing.REGRESSES])
def test_what_is_decided_anew_counts(standing: Standing) -> None:
    assert kept(found(CLAIM), [], [raced(a=standing)]) == []


def test_who_is_found_out_keeps_nothing() -> None:
    both = raced(a=Standing.FASTER, b=Standing.FASTER)
    later = replace(raced(a=Standing.OUT, b=Standing.OPEN), out={"a": WRONG})

    assert kept(found(CLAIM), [later], []) == []
    (claim,) = kept(found(both, leaders=("a", "b")), [later], [])
    assert isinstance(claim, Raced)
    assert claim.out == {"a": replace(WRONG, left_in=AFTERWARDS)}


def test_every_round_draws_anew_and_the_same_again() -> None:
    first, second, again = draws(7, 0), draws(7, 3), draws(7, 3)

    assert first.random() != (drawn := second.random())
    assert drawn == again.random()


def test_what_orders_a_tie_is_read_from_the_check() -> None:
    ledger = Ledger("run", lambda _event: None)
    entry = ledger.add(Submission(id=CandidateId("a"), content=PatchText(patch="")))
    entry.candidate = Candidate(
        id=entry.id, origin=Origin.PATCH, edits=(), diff="--- a\n+++ b\n-old\n+new\n+more\n"
    )
    values = ValueCounts(compared=5, derived=7, outside=4, outside_differing=3)
    entry.outcome = CheckOutcome(
        code=Code.OK, reason="", values=values, hints=("It leaves its list sorted.",)
    )

    merit = merits_of(ledger)["a"]

    assert (merit.changed_lines, merit.inputs_equal) == (3, 13)
    assert merit.hints == ("It leaves its list sorted.",)
