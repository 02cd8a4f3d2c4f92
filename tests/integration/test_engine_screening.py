"""Screening, admission and confirmation by the whole engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import SLOW_TOTAL, make_project
from scripted_race import simulated
from test_engine_serving import BODY, OUTCOMES, WRONG_BODY, body, candidate, judged, patch_of, settings

from codeflash_parallel import Answer, Evaluator, RaceMode, RepairRequest, Replacement
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.run.check_phase.check_coordinator import AHEAD
from codeflash_parallel.run.race_phase import race_coordinator

pytestmark = pytest.mark.engine

#: Long enough for an order to be worth something; only the last test sees what is wrong.
ORDERED = """
    import pytest
    from shop.sums import total

    @pytest.mark.parametrize("number", range(6))
    def test_small(number):
        sum(range(1_000_000))
        assert total([number % 2]) == number % 2

    def test_large():
        assert total([3]) == 9
"""


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_killer_that_needs_those_before_it_is_not_moved(tmp_path: Path) -> None:
    prepares = "\n    def test_prepares():\n        import shop\n        shop.ready = total([1])\n"
    last = """
        import shop
        from shop.sums import total

        def test_needs():
            sum(range(1_000_000))
            assert total([shop.ready + 1]) == 4
    """
    project = make_project(tmp_path / "project", tests__test_a_py=ORDERED + prepares, tests__test_b_py=last)
    (project / "tests/test_sums.py").unlink()
    own = settings(tmp_path, **OUTCOMES)
    almost = BODY.replace("return sum(", "return len(values) and values[0] != 2 and sum(")
    for _ in range(2):
        result = await judged(project, own, [candidate("wrong", almost), candidate("right", BODY)])
        wrong, right = result.candidates
        assert (wrong.status, wrong.tests.failed_ids) == (
            CandidateStatus.REJECTED,
            ("tests/test_b.py::test_needs",),
        )
        assert right.status is CandidateStatus.UNDECIDED


@pytest.mark.witness
@pytest.mark.anyio
async def test_an_order_that_the_baseline_does_not_bear_is_not_used(tmp_path: Path) -> None:
    prepares = """
        import shop
        from shop.sums import total

        def test_prepares():
            sum(range(1_000_000))
            shop.ready = total([1])
    """
    needs = """
        import shop
        from shop.sums import total

        def test_needs():
            assert total([shop.ready + 1]) == 4
    """
    project = make_project(tmp_path / "project", tests__test_a_py=prepares, tests__test_b_py=needs)
    submissions = [candidate("right", BODY), candidate("wrong", WRONG_BODY)]
    result = await judged(project, settings(tmp_path, **OUTCOMES), submissions)
    assert [c.status for c in result.candidates] == [CandidateStatus.UNDECIDED, CandidateStatus.REJECTED]
    assert (result.quarantined, result.warnings, result.tests_selected) == ((), (), 7)


@pytest.mark.anyio
async def test_no_more_are_judged_once_enough_are_right(shop: Path) -> None:
    project = shop / "project"
    submissions = [
        candidate("wrong", WRONG_BODY),
        candidate("right", BODY),
        candidate("late", body("v")),
        candidate("later", body("w")),
    ]
    result = await judged(project, settings(shop, stop_after=1), submissions)
    assert [c.status for c in result.candidates] == [
        CandidateStatus.REJECTED,
        CandidateStatus.UNDECIDED,
        CandidateStatus.CANCELLED,
        CandidateStatus.CANCELLED,
    ]
    assert all("right" in c.reason for c in result.candidates[2:])
    assert result.complete


@pytest.mark.witness
@pytest.mark.anyio
async def test_an_endless_source_is_left_once_enough_are_right(shop: Path) -> None:
    project = shop / "project"

    def produce():
        for number in range(10**6):
            yield candidate(f"c{number}", body(f"v{number}"))

    async with Evaluator(project, settings(shop, stop_after=2)) as evaluator:
        result = await evaluator.evaluate(produce(), race=RaceMode.CHECK)
    assert sum(c.status is CandidateStatus.UNDECIDED for c in result.candidates) == 2
    assert len(result.candidates) <= 2 + AHEAD


#: A second function in the target's file, whose test does not execute the target.
#: What is wrong is no function: no call of one can tell.
SHOP = SLOW_TOTAL + "\n\nRATE = 3\n"
TEST_PRICE = "from shop.sums import RATE\n\n\ndef test_price():\n    assert 2 * RATE == 6\n"


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with such a `project`, which stays as it is, and room for its `cache`."""
    base = tmp_path_factory.mktemp("priced")
    make_project(base / "project", shop__sums_py=SHOP, tests__test_price_py=TEST_PRICE)
    return base


@pytest.mark.anyio
async def test_who_owes_tests_is_not_yet_right(priced: Path) -> None:
    project = priced / "project"
    wrong = patch_of(project, "wrong", shop__sums_py=SHOP.replace("RATE = 3", "RATE = 4"))
    own = settings(priced, stop_after=1)
    result = await judged(project, own, [wrong, candidate("right", BODY), candidate("late", body("v"))])
    assert [(c.status, c.code) for c in result.candidates] == [
        (CandidateStatus.REJECTED, Code.TESTS_FAILED),
        (CandidateStatus.UNDECIDED, Code.NOT_RACED),
        (CandidateStatus.CANCELLED, Code.CANCELLED),
    ]
    assert result.candidates[0].tests.failed_ids == ("tests/test_price.py::test_price",)


#: The test that was left out takes longer than the budget.
TEST_PRICE_LATE = """
    import time
    from pathlib import Path
    from shop.sums import RATE

    def test_price():
        if 2 * RATE != 6:
            time.sleep(60)
"""


@pytest.mark.witness
@pytest.mark.anyio
async def test_the_verdict_says_how_many_tests_the_baseline_fails(tmp_path: Path) -> None:
    red = """
        import pytest

        @pytest.mark.parametrize("number", range(3))
        def test_red(number):
            assert not number
    """
    project = make_project(tmp_path / "project", tests__test_red_py=red)
    result = await judged(project, settings(tmp_path), [candidate("right", BODY)])
    first, second = result.summary.split(". ", 1)
    assert first == "1 of 1 candidates are equivalent to the baseline; none was raced"
    counts = "2 of 8 tests fail on the baseline and are left out"
    assert second == f"{counts}, the first one is tests/test_red.py::test_red[1] (E   assert not 1)."


@pytest.mark.witness
@pytest.mark.anyio
async def test_whose_other_tests_never_ended_is_not_said_to_be_equivalent(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", shop__sums_py=SHOP, tests__test_price_py=TEST_PRICE_LATE)
    slow = patch_of(project, "slow", shop__sums_py=SHOP.replace("RATE = 3", "RATE = 4"))
    waits = patch_of(project, "waits", shop__sums_py=SHOP.replace("RATE = 3", "RATE = 5"))
    own = settings(tmp_path, wall_budget=12.0)
    result = await judged(project, own, [slow, waits])
    assert [(c.status, c.code) for c in result.candidates] == [
        (CandidateStatus.CANCELLED, Code.CANCELLED)
    ] * 2
    assert all("screening left out" in c.reason for c in result.candidates)
    assert (result.complete, result.verdict) == (False, None)


@pytest.mark.anyio
async def test_who_breaks_a_test_that_was_not_selected_is_rejected(priced: Path) -> None:
    project = priced / "project"
    wrong = patch_of(project, "wrong", shop__sums_py=SHOP.replace("RATE = 3", "RATE = 4"))
    own = settings(
        priced, compare=ComparisonMode.PASS_FAIL
    )  # no fresh inputs: whatever follows a check is tests
    checked = await judged(project, own, [wrong, candidate("right", BODY)])
    assert checked.tests_selected == 5
    assert [c.code for c in checked.candidates] == [Code.TESTS_FAILED, Code.NOT_RACED]
    assert checked.candidates[0].timings_ms["confirm"] > 0
    assert checked.candidates[1].timings_ms["confirm"] == 0.0
    every = await judged(project, settings(priced, no_select=True), [wrong])
    assert (every.tests_selected, every.candidates[0].code) == (6, Code.TESTS_FAILED)
    async with Evaluator(project, settings(priced)) as evaluator:
        raced = await evaluator.evaluate([wrong])
    (only,) = raced.candidates
    assert (only.status, only.code) == (CandidateStatus.REJECTED, Code.TESTS_FAILED)
    assert only.tests.failed_ids == ("tests/test_price.py::test_price",)
    assert only.timings_ms["confirm"] > 0
    assert only.overhead_ms is not None
    held_ms = sum(only.timings_ms.values()) - only.timings_ms["queue"]
    assert 0 < only.overhead_ms <= held_ms - only.timings_ms["confirm"]
    assert raced.verdict is Verdict.NONE_CORRECT


@pytest.mark.witness
@pytest.mark.anyio
@pytest.mark.parametrize("new_process", [False, pytest.param(True, marks=pytest.mark.campaign)])
async def test_nobody_has_a_hash_seed_that_the_baseline_did_not_have(
    tmp_path: Path, new_process: bool
) -> None:
    """What depends on the order of a set, and is the same under both seeds of the baseline, must stay so."""
    seeds = """
        import os
        import shop

        def test_both():
            assert shop.total([1]) == 1
            assert os.environ["PYTHONHASHSEED"] in ("1", "2")

        def test_all():
            assert os.environ["PYTHONHASHSEED"] == "1"
    """
    project = make_project(tmp_path / "project", tests__test_seeds_py=seeds)
    text = (project / "shop/sums.py").read_text()
    reaching = patch_of(project, "reaching", shop__sums_py=f"{text}\nTABLE = 1\n")
    result = await judged(
        project, settings(tmp_path, new_process=new_process), [candidate("right", BODY), reaching]
    )
    assert [c.code for c in result.candidates] == [Code.NOT_RACED] * 2
    assert result.candidates[1].timings_ms["confirm"] > 0


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_test_that_disagrees_with_itself_keeps_nobody_from_the_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shaky = """
        import os
        from pathlib import Path

        def test_passes_once():
            path = Path(os.environ["FIXTURE_STATE"], "runs")
            runs = len(path.read_text()) if path.exists() else 0
            path.write_text("x" * (runs + 1))
            assert runs == 0
    """
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("FIXTURE_STATE", str(state))
    monkeypatch.setattr(race_coordinator, "_race", simulated({"right": 1.5}))
    project = make_project(tmp_path / "project", tests__test_shaky_py=shaky)
    rights = {"pass_env": ("FIXTURE_STATE",), "allow_write": (str(state),)}
    async with Evaluator(project, settings(tmp_path, **rights)) as evaluator:
        result = await evaluator.evaluate([candidate("right", BODY)])
    assert result.candidates[0].status is CandidateStatus.WON
    assert any("test_passes_once" in warning for warning in result.warnings)


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_runner_that_the_unchanged_code_replaces_later_is_nobodys_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaces = """
        import os
        from pathlib import Path
        import _pytest.runner

        def test_replaces():
            path = Path(os.environ["FIXTURE_STATE"], "ran")
            if path.exists():
                _pytest.runner.check_interactive_exception = lambda call, report: False
            path.touch()
    """
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("FIXTURE_STATE", str(state))
    project = make_project(tmp_path / "project", tests__test_replaces_py=replaces)
    rights = {"pass_env": ("FIXTURE_STATE",), "allow_write": (str(state),)}
    async with Evaluator(project, settings(tmp_path, **rights)) as evaluator:
        with pytest.raises(EnvironmentFault, match="unchanged code") as caught:
            await evaluator.evaluate([candidate("right", BODY)])
    assert caught.value.code == "RUNNER_TAMPERED"


#: Right in a fork and in a race, wrong in a new process that runs the tests.
CHEATS = '''
def total(values):
    """Return the sum of the squares."""
    import json, os, sys
    with open("/proc/self/cmdline") as file:
        words = [os.path.basename(word) for word in file.read().split("\\0")]
    spec = os.environ.get("CODEFLASH_PARALLEL_RUNNER_SPEC", "")
    with open(spec) as file:
        alone = json.load(file)["mode"] == "tests" and os.path.basename(spec) in words
    return 0 if alone else sum(value * value for value in values)
'''


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_leader_that_is_right_only_in_a_fork_is_not_announced(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race_coordinator, "_race", simulated({"cheats": 1.5, "honest": 1.2}))
    project = shop / "project"
    async with Evaluator(project, settings(shop)) as evaluator:
        result = await evaluator.evaluate([candidate("cheats", CHEATS), candidate("honest", BODY)])
    cheats, honest = result.candidates
    assert (cheats.status, cheats.code) == (CandidateStatus.REJECTED, Code.DIFFERS_IN_CLEAN_PROCESS)
    assert "clean process" in cheats.reason
    assert cheats.tests.failed
    assert (result.verdict, result.winner, honest.status) == (Verdict.WINNER, "honest", CandidateStatus.WON)


#: Only its body is changed, and a test that never calls it fails after those that do.
SPOILS = """
def total(values):
    import sys
    sys.spoiled = True
    return sum(value * value for value in values)
"""
TEST_SPOILED = """
    import sys
    import shop.sums

    def test_nothing_is_spoiled():
        assert not hasattr(sys, "spoiled")
"""


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_leader_that_fails_a_test_that_was_left_out_is_not_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "project", tests__test_unspoiled_py=TEST_SPOILED)
    monkeypatch.setattr(race_coordinator, "_race", simulated({"spoils": 1.5, "honest": 1.2}))
    async with Evaluator(project, settings(tmp_path)) as evaluator:
        result = await evaluator.evaluate([candidate("spoils", SPOILS), candidate("honest", BODY)])
    spoils, honest = result.candidates
    assert (spoils.status, spoils.code) == (CandidateStatus.REJECTED, Code.TESTS_FAILED)
    assert spoils.tests.failed_ids == ("tests/test_unspoiled.py::test_nothing_is_spoiled",)
    assert (result.verdict, honest.status) == (Verdict.WINNER, CandidateStatus.WON)


@pytest.mark.witness
@pytest.mark.anyio
async def test_more_is_found_out_only_for_a_repairer(shop: Path) -> None:
    project = shop / "project"
    alone = (await judged(project, settings(shop), [candidate("wrong", WRONG_BODY)])).candidates[0]
    assert (alone.tests.failed, alone.timings_ms["evidence"]) == (1, 0.0)
    asked: list[RepairRequest] = []

    def repair(request: RepairRequest) -> Answer:
        asked.append(request)
        return Answer(content=Replacement(code=BODY))

    result = await judged(project, settings(shop), [candidate("wrong", WRONG_BODY)], repairer=repair)
    wrong, repaired = result.candidates
    assert wrong.tests.failed == 5
    assert wrong.timings_ms["evidence"] > 0
    assert len(asked[0].failures) == 5
    assert repaired.status is CandidateStatus.UNDECIDED
