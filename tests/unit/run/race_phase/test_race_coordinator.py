"""What later rounds of a run make of what earlier ones found."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ranking_cases import CONFIRM, PLAN, held

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.config.settings import RankingMode
from codeflash_parallel.race.measurement import DecidingClock
from codeflash_parallel.race.race_result import (
    POLICIES,
    Disqualification,
    Raced,
    RaceFailed,
    RaceRanking,
    TiedCandidate,
    ordered,
)
from codeflash_parallel.race.ranking.arm_comparison import contenders
from codeflash_parallel.race.ranking.candidate_ranking import rank
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    PatchText,
    Submission,
)
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import ValueCounts
from codeflash_parallel.run.ledger import Ledger, RaceFinding
from codeflash_parallel.run.race_phase.race_coordinator import draws, kept, load_policy, merits_of, without

WRONG = Disqualification(
    status=CandidateStatus.REJECTED, code=Code.DIFFERS_IN_CLEAN_PROCESS, reason="it differs"
)


def raced(**standings: ArmStanding) -> Raced:
    track = ArmLogRatios(total=(0.1,) * 12, groups=((0.1,) * 12,), clock=DecidingClock.CPU)
    return Raced(
        plan=PLAN,
        candidates=tuple(standings),
        rounds=(),
        tracks=dict.fromkeys(standings, track),
        looks=InterimState(candidates=tuple(standings), standings=standings, decided=True),
        out={},
        wall_ns=1,
        round_ns=1,
        stopped="enough",
    )


def found(*confirmations: Raced, leaders: tuple[str, ...] = ("a",)) -> RaceFinding:
    ranking = RaceRanking(
        verdict=Verdict.WINNER, winner=leaders[0], tie_set=leaders, candidates=(), summary="a wins."
    )
    return RaceFinding(confirmations=confirmations, ranking=ranking)


CLAIM = raced(a=ArmStanding.FASTER)


def test_the_first_round_has_nothing_to_keep() -> None:
    assert kept(RaceFinding(), [raced(a=ArmStanding.FASTER)], []) == []


def test_a_race_that_leaves_a_winner_open_takes_nothing_back() -> None:
    before = found(CLAIM, raced(a=ArmStanding.OPEN))

    assert kept(before, [raced(a=ArmStanding.OPEN, r=ArmStanding.OPEN)], []) == [CLAIM]
    assert kept(before, [], [raced(a=ArmStanding.OPEN)]) == [CLAIM]
    assert kept(before, [], [RaceFailed(candidates=("a",), reason="It died.")]) == [CLAIM]


@pytest.mark.parametrize("standing", [ArmStanding.FASTER, ArmStanding.FUTILE, ArmStanding.REGRESSES])
def test_what_is_decided_anew_counts(standing: ArmStanding) -> None:
    assert kept(found(CLAIM), [], [raced(a=standing)]) == []


def test_who_is_found_out_keeps_nothing() -> None:
    both = raced(a=ArmStanding.FASTER, b=ArmStanding.FASTER)
    later = replace(raced(a=ArmStanding.OUT, b=ArmStanding.OPEN), out={"a": WRONG})

    assert kept(found(CLAIM), [later], []) == []
    (claim,) = kept(found(both, leaders=("a", "b")), [later], [])
    assert isinstance(claim, Raced)
    assert claim.out == {"a": WRONG}


def test_every_round_draws_anew_and_the_same_again() -> None:
    first, second, again = draws(7, 0), draws(7, 3), draws(7, 3)

    assert first.random() != (drawn := second.random())
    assert drawn == again.random()


def test_what_orders_a_tie_is_read_from_the_check() -> None:
    ledger = Ledger("run")
    entry = ledger.add(Submission(id=CandidateId("a"), content=PatchText(patch="")))
    entry.candidate = Candidate(
        id=entry.id, origin=CandidateOrigin.PATCH, edits=(), diff="--- a\n+++ b\n-old\n+new\n+more\n"
    )
    values = ValueCounts(compared=5, derived=7, outside=4, outside_differing=3)
    entry.outcome = CheckOutcome(
        code=Code.OK, reason="", values=values, hints=("It leaves its list sorted.",)
    )

    merit = merits_of(ledger)["a"]

    assert (merit.changed_lines, merit.inputs_equal) == (3, 13)
    assert merit.hints == ("It leaves its list sorted.",)


TRUTH = {"fast": 1.5, "medium": 1.2, "same": 1.0}


TRUTH = {"fast": 1.5, "medium": 1.2, "same": 1.0}


def confirmed(races: list, confirmations: list) -> list:
    while ids := contenders(races, confirmations, PLAN, limit=4):
        confirmations.append(held({i: TRUTH[i] for i in ids}, CONFIRM, seed=len(confirmations)))
    return confirmations


def test_whoever_was_beaten_by_it_is_confirmed_in_its_place() -> None:
    races = [held(TRUTH)]
    confirmations = confirmed(races, [])
    assert rank(races, confirmations, PLAN, {}).winner == "fast"
    races, confirmations = without(races, {"fast": WRONG}), without(confirmations, {"fast": WRONG})
    ranking = rank(races, confirmed(races, confirmations), PLAN, {})
    assert (ranking.verdict, ranking.winner) == (Verdict.WINNER, "medium")
    assert {r.id: (r.status, r.code) for r in ranking.candidates} == {
        "fast": (CandidateStatus.REJECTED, Code.DIFFERS_IN_CLEAN_PROCESS),
        "medium": (CandidateStatus.WON, Code.OK),
        "same": (CandidateStatus.LOST, Code.NOT_FASTER),
    }


def test_the_only_fast_one_leaves_nothing_faster() -> None:
    truth = {"fast": 1.5, "same": 1.0}
    races = [held(truth)]
    confirmations = [held({"fast": 1.5}, CONFIRM)]
    out = {"fast": WRONG}
    races, confirmations = without(races, out), without(confirmations, out)
    assert contenders(races, confirmations, PLAN, limit=4) == ()
    assert rank(races, confirmations, PLAN, {}).verdict is Verdict.NOTHING_FASTER


def test_what_was_measured_of_the_others_is_untouched() -> None:
    races = [held(TRUTH), RaceFailed(candidates=("fast",), reason="no")]
    left = without(races, {"fast": WRONG, "elsewhere": WRONG})
    assert left[1] is races[1]
    assert left[0].tracks == races[0].tracks
    assert left[0].looks == races[0].looks
    assert left[0].candidates == races[0].candidates
    assert left[0].out == {"fast": WRONG}
    assert without(races, {}) == races


# --- ranking policies --------------------------------------------------------------------------------------


LAST_FIRST = """
def last_first(tied):
    return [one.id for one in sorted(tied, key=lambda one: one.id, reverse=True)]

def forgets(tied):
    return [tied[0].id]

def raises(tied):
    return tied[7]

def leaves(tied):
    raise SystemExit(0)

def knows_two(tied):
    return [one.id for one in tied][:2]
"""
TIED = [
    TiedCandidate(id=name, speedup=2.0, low=1.9, high=2.1, changed_lines=3, is_level=True)
    for name in ("a", "b", "c")
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_rankings.py").write_text(LAST_FIRST)
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_rankings", raising=False)
    return tmp_path


def test_every_name_of_the_setting_is_a_policy() -> None:
    assert set(POLICIES) == set(RankingMode)
    assert [load_policy(name) for name in RankingMode] == [POLICIES[name] for name in RankingMode]


@pytest.mark.parametrize("text", ["own_rankings:last_first", "own_rankings.py:last_first"])
def test_a_callable_of_the_users(folder: Path, text: str) -> None:
    before = list(sys.path)
    policy = load_policy(text)
    assert ordered(policy, TIED) == ("c", "b", "a")
    assert sys.path == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("own_rankings:none", "cannot be loaded: AttributeError"),
        ("no_such_rankings:name", "cannot be loaded: ModuleNotFoundError"),
        ("none.py:name", "there is no file none.py"),
        ("own_rankings:__name__", "is no callable"),
        ("own_rankings:forgets", "must return the ids"),
        ("own_rankings:raises", "failed: IndexError"),
        ("own_rankings:leaves", "failed: SystemExit"),
        ("leaving.py:name", "cannot be loaded: SystemExit"),
        ("leaving:name", "cannot be loaded: SystemExit"),
    ],
)
def test_a_callable_that_is_none(folder: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        load_policy(text)
    assert caught.value.code == "BAD_RANKING"
    assert "\n" not in str(caught.value)


def test_a_file_with_a_dataclass_whose_hints_are_texts(folder: Path) -> None:
    lines = (
        "from __future__ import annotations",
        "from dataclasses import dataclass",
        "@dataclass",
        "class Rank:",
        "    name: str",
        "def order(tied):",
        "    return [Rank(one.id).name for one in reversed(tied)]",
    )
    (folder / "ranks.py").write_text("\n".join(lines))
    assert ordered(load_policy("ranks.py:order"), TIED) == ("c", "b", "a")
    assert "ranks" not in sys.modules


@pytest.mark.parametrize("name", ["own_rankings:knows_two", "own_rankings.py:knows_two"])
def test_one_that_fails_on_a_real_tie_is_told_and_costs_nothing(folder: Path, name: str) -> None:
    told: list[str] = []
    policy = load_policy(name, told.append)
    assert ordered(policy, TIED) == ("a", "b", "c")
    (warning,) = told
    assert "must return the ids of all it was given" in warning
    assert warning.endswith("The tie is ordered as by fastest.")
    assert ordered(load_policy(name), TIED) == ("a", "b", "c")
