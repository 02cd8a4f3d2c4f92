"""How a run ends: whoever is equivalent never becomes `cancelled`, and the verdict says what was cut short."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codeflash_parallel.race.guards import cpu_per_call
from codeflash_parallel.race.measurement import Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE, NULL, CostGroup, RacePlan, WorkKind
from codeflash_parallel.race.race_result import (
    Disqualification,
    Raced,
    RaceFailed,
    RaceRanking,
    RankedCandidate,
)
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState
from codeflash_parallel.result.candidate_model import CandidateId, PatchText, Submission
from codeflash_parallel.result.events import Step
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import STEPS
from codeflash_parallel.run.ledger import Ledger, RaceFinding
from codeflash_parallel.run.result_builder import (
    conclusion,
    figures,
    finish_all,
    race_summary,
    sentence,
    summed,
)

TO_PASSED = (Step.PREPARE, Step.ENQUEUE, Step.STAGE, Step.PASS)


def ledger_of(**steps: tuple[Step, ...]) -> Ledger:
    ledger = Ledger("run")
    for name, walk in steps.items():
        entry = ledger.add(Submission(id=CandidateId(name), content=PatchText(patch="")))
        for step in walk:
            ledger.move(entry, step)
    return ledger


def ended(ledger: Ledger) -> dict[str, tuple[CandidateStatus, Code]]:
    return {entry.id: (entry.result.status, entry.result.code) for entry in ledger if entry.result}


def test_a_budget_that_ends_in_the_race_leaves_equivalent_candidates_undecided() -> None:
    ledger = ledger_of(racing=(*TO_PASSED, Step.RACE), passed=TO_PASSED, queued=(Step.PREPARE, Step.ENQUEUE))
    finish_all(ledger, RaceFinding(), with_race=True)
    assert ended(ledger) == {
        "racing": (CandidateStatus.UNDECIDED, Code.CANCELLED),
        "passed": (CandidateStatus.UNDECIDED, Code.CANCELLED),
        "queued": (CandidateStatus.CANCELLED, Code.CANCELLED),
    }
    verdict, summary = conclusion(ledger, RaceFinding(), with_race=True)
    assert verdict is Verdict.TOO_NOISY
    assert "2 of 3" in summary


def test_a_race_that_was_not_held_leaves_what_was_checked() -> None:
    ledger = ledger_of(passed=TO_PASSED, first=(*TO_PASSED, Step.RACE))
    finding = RaceFinding(not_held="Another benchmark has had this machine for 1800 s.")
    finish_all(ledger, finding, with_race=True)
    assert {*ended(ledger).values()} == {(CandidateStatus.UNDECIDED, Code.RACE_NOT_HELD)}
    verdict, summary = conclusion(ledger, finding, with_race=True)
    assert verdict is Verdict.TOO_NOISY
    assert summary.endswith("the race was not held: another benchmark has had this machine for 1800 s.")


def test_a_later_race_that_was_not_held_does_not_take_back_what_the_first_said() -> None:
    ledger = ledger_of(first=(*TO_PASSED, Step.RACE, Step.MEASURE), refined=TO_PASSED)
    won = RankedCandidate(id="first", status=CandidateStatus.WON, code=Code.OK, reason="2x, confirmed")
    ranking = RaceRanking(
        verdict=Verdict.WINNER, winner="first", candidates=(won,), summary="first is faster."
    )
    finding = RaceFinding(ranking=ranking, not_held="Another benchmark has had this machine.")
    finish_all(ledger, finding, with_race=True)
    assert ended(ledger) == {
        "first": (CandidateStatus.WON, Code.OK),
        "refined": (CandidateStatus.UNDECIDED, Code.RACE_NOT_HELD),
    }
    assert conclusion(ledger, finding, with_race=True) == (Verdict.WINNER, "first is faster.")


def test_a_check_leaves_equivalent_candidates_not_raced() -> None:
    ledger = ledger_of(passed=TO_PASSED)
    finish_all(ledger, RaceFinding(), with_race=False)
    assert ended(ledger) == {"passed": (CandidateStatus.UNDECIDED, Code.NOT_RACED)}
    assert conclusion(ledger, RaceFinding(), with_race=False)[0] is Verdict.CHECKED


def test_a_later_race_that_is_cut_short_does_not_take_back_what_the_first_said() -> None:
    ledger = ledger_of(
        first=(*TO_PASSED, Step.RACE, Step.MEASURE, Step.RACE), refined=(*TO_PASSED, Step.RACE)
    )
    won = RankedCandidate(id="first", status=CandidateStatus.WON, code=Code.OK, reason="2x, confirmed")
    ranking = RaceRanking(
        verdict=Verdict.WINNER, winner="first", candidates=(won,), summary="first is faster."
    )
    finding = RaceFinding(ranking=ranking)
    finish_all(ledger, finding, with_race=True)
    assert ended(ledger) == {
        "first": (CandidateStatus.WON, Code.OK),
        "refined": (CandidateStatus.UNDECIDED, Code.CANCELLED),
    }
    assert conclusion(ledger, finding, with_race=True) == (Verdict.WINNER, "first is faster.")


def test_a_budget_that_ends_in_the_clean_process_leaves_the_leader_undecided() -> None:
    ledger = ledger_of(leader=(*TO_PASSED, Step.RACE, Step.MEASURE, Step.CONFIRM))
    finish_all(ledger, RaceFinding(), with_race=True)
    assert ended(ledger) == {"leader": (CandidateStatus.UNDECIDED, Code.CANCELLED)}
    assert conclusion(ledger, RaceFinding(), with_race=True)[0] is Verdict.TOO_NOISY


def test_a_second_look_that_is_cut_short_does_not_take_back_what_the_race_said() -> None:
    ledger = ledger_of(first=(*TO_PASSED, Step.RACE, Step.MEASURE, Step.CONFIRM))
    won = RankedCandidate(id="first", status=CandidateStatus.WON, code=Code.OK, reason="2x, confirmed")
    ranking = RaceRanking(
        verdict=Verdict.WINNER, winner="first", candidates=(won,), summary="first is faster."
    )
    finish_all(ledger, RaceFinding(ranking=ranking), with_race=True)
    assert ended(ledger) == {"first": (CandidateStatus.WON, Code.OK)}


def test_who_owes_tests_is_not_said_to_be_equivalent() -> None:
    ledger = ledger_of(owes=TO_PASSED, passed=TO_PASSED)
    ledger.get(CandidateId("owes")).owes_tests = True
    finish_all(ledger, RaceFinding(), with_race=False)
    assert ended(ledger) == {
        "owes": (CandidateStatus.CANCELLED, Code.CANCELLED),
        "passed": (CandidateStatus.UNDECIDED, Code.NOT_RACED),
    }


@pytest.mark.parametrize("with_race", [True, False])
def test_nobody_judged_is_no_verdict(with_race: bool) -> None:
    ledger = ledger_of(waits=(Step.PREPARE, Step.ENQUEUE), broken=(Step.PREPARE, Step.ENQUEUE))
    ledger.finish(ledger.get(CandidateId("broken")), CandidateStatus.INFRA, Code.INFRA_SLOT, "It broke.")
    finish_all(ledger, RaceFinding(), with_race=with_race)
    verdict, summary = conclusion(ledger, RaceFinding(), with_race=with_race)
    assert (verdict, summary) == (None, "None of 2 candidates was judged: nothing is known of them.")


def test_some_wrong_and_others_not_judged_is_no_verdict() -> None:
    ledger = ledger_of(wrong=(Step.PREPARE, Step.ENQUEUE, Step.STAGE), waits=())
    ledger.finish(ledger.get(CandidateId("wrong")), CandidateStatus.REJECTED, Code.TESTS_FAILED, "It fails.")
    finish_all(ledger, RaceFinding(), with_race=False)
    verdict, summary = conclusion(ledger, RaceFinding(), with_race=False)
    assert verdict is None
    assert summary.startswith("1 of 2 candidates were not judged; none of the 1 that were is")


def test_nothing_equivalent() -> None:
    ledger = ledger_of(broken=(Step.PREPARE,))
    ledger.finish(next(iter(ledger)), CandidateStatus.UNAPPLIABLE, Code.DOES_NOT_APPLY, "No.")
    finish_all(ledger, RaceFinding(), with_race=True)
    assert conclusion(ledger, RaceFinding(), with_race=True)[0] is Verdict.NONE_CORRECT


def test_clauses_become_sentences() -> None:
    assert [sentence(c) for c in ("", "beaten by b", "Done.")] == ["", "Beaten by b.", "Done."]


def test_a_run_sums_up_its_candidates() -> None:
    total = summed([{"queue": 1.0, "calls": 2.0}, {}, {"calls": 3.5}])
    assert tuple(total) == tuple(STEPS)
    assert summed([{}, {}]) == {}
    assert (total["queue"], total["calls"], total["other"]) == (1.0, 5.5, 0.0)


PLAN = RacePlan(groups=(CostGroup(name="all", ns=1, twins=((0,),)),), budget_ns=30 * 10**9)
MS = 1_000_000
CALLS = 10


def block(arm: str, kind: BlockKind, ns: int, *, slowed: float = 1.0) -> Block:
    return Block(arm=arm, kind=kind, calls=CALLS, cpu_ns=ns, wall_ns=int(ns * slowed), digest="d")


def round_of(number: int, costs: dict[str, int], **more) -> Round:
    """Make a round in which twins cost a quarter more, and the wall clock shows a tenth more."""
    blocks = [block(arm, BlockKind.TWIN, ns * 5 // 4 + ns // 10 * (arm == "a")) for arm, ns in costs.items()]
    order = [BASELINE, *(arm for arm in costs if arm != BASELINE), BASELINE]
    blocks += [block(arm, BlockKind.TIMED, costs[arm], slowed=1.1) for arm in order]
    return Round(number=number, layout=0, core=0, blocks=tuple(blocks), **more)


def raced(costs: dict[str, int], plan: RacePlan = PLAN, count: int = 12, **more) -> Raced:
    arms = [arm for arm in costs if arm not in {BASELINE, NULL}]
    rounds = more.pop(
        "rounds", tuple(round_of(n, costs, peak_bytes={"a": 5, BASELINE: 3}) for n in range(count))
    )
    fields = {
        "plan": plan,
        "candidates": tuple(arms),
        "rounds": rounds,
        "tracks": {arm: track(rounds, arm, plan) for arm in costs if arm != BASELINE},
        "looks": InterimState(candidates=tuple(arms)),
        "out": {},
        "wall_ns": 2 * 10**9,
        "round_ns": 10**8,
        "stopped": "enough",
    }  # fmt: skip
    return Raced(**{**fields, **more})


def test_both_clocks_unseen_inputs_memory_and_throughput() -> None:
    found = figures([raced({BASELINE: 8 * MS, "a": 4 * MS})], "a")

    assert (found.stage, found.rounds, found.dropped, found.dropped_after) == ("race", 12, "", 0)
    for gain in (found.cpu, found.wall):
        assert gain.low <= gain.estimate <= gain.high
        assert gain.estimate == pytest.approx(2.0, rel=0.01)
    assert (found.cpu.clock, found.wall.clock) == ("cpu", "wall")
    assert (found.seen, found.unseen) == (pytest.approx(2.0), pytest.approx(2.5 / 1.35))
    assert (found.peak_bytes, found.baseline_peak_bytes) == (5, 3)
    assert found.calls_per_s == pytest.approx(CALLS / 0.0044)
    assert found.baseline_calls_per_s == pytest.approx(CALLS / 0.0088)


def test_the_last_race_counts_and_a_failed_one_tells_nothing() -> None:
    first = raced({BASELINE: 8 * MS, "a": 4 * MS})
    confirmation = raced({BASELINE: 8 * MS, "a": 5 * MS}, PLAN.confirmation(10**9))

    found = figures([first, RaceFailed(candidates=("a",), reason="so"), confirmation], "a")

    assert found.stage == "confirmation"
    assert found.cpu.estimate == pytest.approx(1.6, rel=0.01)
    assert figures([first], "b") is None
    assert figures([RaceFailed(candidates=("a",), reason="so")], "a") is None


def test_why_and_when_an_arm_was_dropped() -> None:
    looks = InterimState(candidates=("a",), standings={"a": ArmStanding.BEATEN}, dropped_after={"a": 7})
    beaten = raced({BASELINE: 8 * MS, "a": 8 * MS}, looks=looks)
    wrong = Disqualification(status=CandidateStatus.REJECTED, code=Code.NOT_CONFIRMED, reason="it differs")

    found = figures([beaten], "a")

    assert (found.dropped, found.dropped_after) == ("another candidate is faster", 7)
    assert figures([replace(beaten, out={"a": wrong})], "a").dropped == "it differs"


def test_cpu_time_of_children_is_quoted_where_they_work() -> None:
    """On the clocks of its blocks it uses next to nothing."""
    children = {"a": 30 * 8 * MS}
    rounds = [round_of(n, {BASELINE: 8 * MS, "a": MS // 100}, children_ns=children) for n in range(12)]
    found = figures([raced({BASELINE: 8 * MS, "a": MS // 100}, rounds=tuple(rounds))], "a")

    assert found.cpu.high < 1
    assert found.cpu.estimate == pytest.approx(
        cpu_per_call(rounds[0], BASELINE) / cpu_per_call(rounds[0], "a")
    )
    assert found.wall.low > 2


def test_a_callable_has_a_throughput_as_calls_have() -> None:
    found = figures([raced({BASELINE: 8 * MS, "a": 4 * MS}, replace(PLAN, work=WorkKind.CALLABLE))], "a")
    assert found.calls_per_s == pytest.approx(CALLS / 0.0044)


def test_throughput_is_that_of_a_pass_over_all_calls() -> None:
    """One call of 99 ms and nine of 1 ms: ten calls in 108 ms, however many blocks each group has."""
    heavy, light = (
        CostGroup(name="heavy", ns=99, calls=(0,)),
        CostGroup(name="light", ns=9, calls=tuple(range(1, 10))),
    )
    plan, costs = replace(PLAN, groups=(heavy, light)), (99 * MS, MS)
    blocks = [
        replace(block(arm, BlockKind.TIMED, ns * CALLS), group=group)
        for group, ns in enumerate(costs)
        for arm in (BASELINE, "a", BASELINE)
    ]
    rounds = tuple(Round(number=n, layout=0, core=0, blocks=tuple(blocks)) for n in range(12))

    found = figures([raced({BASELINE: 1, "a": 1}, plan, rounds=rounds)], "a")

    assert found.calls_per_s == found.baseline_calls_per_s == pytest.approx(10 / 0.108)


def test_whole_tests_have_no_throughput() -> None:
    found = figures([raced({BASELINE: 8 * MS, "a": 4 * MS}, replace(PLAN, work=WorkKind.TESTS))], "a")
    assert found.calls_per_s is None
    assert found.baseline_calls_per_s is None


def test_the_races_of_a_run_in_sum() -> None:
    costs = {BASELINE: 8 * MS, NULL: 8 * MS, "a": 4 * MS}
    rounds = (*(round_of(n, costs) for n in range(12)), round_of(12, costs, void="suspended"))

    found = race_summary(
        [raced(costs, rounds=rounds), raced(costs), RaceFailed(candidates=("a",), reason="so")]
    )

    assert (found["rounds"], found["void"], found["seconds"], found["budget_s"]) == (25, 1, 4.0, 30.0)
    assert found["workload"] == "calls"
    assert found["unit_sd"] == pytest.approx(0.0, abs=1e-9)
    assert found["groups"] == [{"group": "all", "share": 1.0, "tests": []}]
    assert race_summary([]) == {}


def test_what_stands_behind_the_names_of_groups() -> None:
    light = tuple(f"t.py::light[{n}]" for n in range(60))
    groups = (
        CostGroup(name="t.py::heavy", ns=3, tests=("t.py::heavy",)),
        CostGroup(name="60 tests", ns=1, tests=light),
    )

    found = race_summary([raced({BASELINE: 8 * MS, "a": 4 * MS}, replace(PLAN, groups=groups), rounds=())])[
        "groups"
    ]

    assert [(one["group"], one["share"]) for one in found] == [("t.py::heavy", 0.75), ("60 tests", 0.25)]
    assert found[1]["tests"] == list(light[:50])
