"""The library: streams in and out, many calls, budgets, cancellation, targets found from the candidates."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from harness import assert_same, git, picture, processes_of, worktrees_left
from projects import FAST_TOTAL, SLOW_TOTAL, WRONG_TOTAL, make_project

from codeflash_parallel import (
    EnvironmentFault,
    Evaluator,
    GitRef,
    PatchText,
    RaceMode,
    Replacement,
    Settings,
    Submission,
    UsageError,
)
from codeflash_parallel.baseline import preflight
from codeflash_parallel.check.session.runner_session import RunnerSession, run_session
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.events import CandidateMoved, Event, RunFinished, RunStarted, Stage
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Level, Verdict
from codeflash_parallel.run.run_state import read_state

pytestmark = pytest.mark.engine

TARGET = "shop/sums.py::total"
CHECK = RaceMode.CHECK


def candidate(name: str, code: str = FAST_TOTAL) -> Submission:
    return Submission(id=CandidateId(name), content=Replacement(code=code))


def settings(tmp_path: Path, **fields: object) -> Settings:
    plain = {"functions": (TARGET,), "cache_dir": str(tmp_path / "cache"), "parallel_candidates": 1}
    return Settings(**{**plain, **fields})  # type: ignore[arg-type]


@pytest.mark.witness
@pytest.mark.anyio
async def test_what_another_run_has_recorded_holds_for_runs_of_another_seed(tmp_path: Path) -> None:
    drawing = "import random\n" + SLOW_TOTAL.replace("result = 0", "result = 0 * random.getrandbits(8)")
    chance = drawing.replace("return result", "return result, random.random()")
    blind = "import random\nfrom shop.sums import total\n\ndef test_total():\n    random.seed(3)\n    total([1, 2])\n"
    project = make_project(tmp_path / "project", shop__sums_py=chance, tests__test_sums_py=blind)
    honest = chance.partition("\n")[2].replace("range(5)", "range(1)")
    for seed in (1, 2):
        async with Evaluator(project, settings(tmp_path, seed=seed)) as evaluator:
            result = await evaluator.evaluate([candidate("honest", honest)], race=CHECK)
        assert result.level is not Level.TESTS
        assert [c.code for c in result.candidates] == [Code.NOT_RACED], (seed, result.candidates[0].reason)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", RaceMode)
async def test_how_far_a_run_is_to_go_is_stored(shop: Path, mode: RaceMode) -> None:
    async with Evaluator(shop / "project", settings(shop)) as evaluator:
        result = await evaluator.evaluate([], race=mode)
    assert read_state(Path(result.run_dir)).request.mode == mode


@pytest.mark.anyio
async def test_a_source_that_still_produces_and_results_as_they_come(shop: Path) -> None:
    project = shop / "project"
    judged = anyio.Event()

    async def produce() -> AsyncIterator[Submission]:
        yield candidate("first", WRONG_TOTAL)
        await judged.wait()  # the second exists only because the first was judged
        yield candidate("second")

    seen = []
    async with (
        Evaluator(project, settings(shop)) as evaluator,
        evaluator.stream(produce(), race=CHECK) as results,
    ):
        async for result in results:
            seen.append((result.id, result.status))
            judged.set()
    assert seen == [("first", CandidateStatus.REJECTED), ("second", CandidateStatus.UNDECIDED)]
    assert results.run is not None
    assert [c.id for c in results.run.candidates] == ["first", "second"]


@pytest.mark.own_baseline
@pytest.mark.anyio
async def test_many_calls_share_one_preflight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path / "project")
    phases: list[Event] = []
    started: list[str] = []

    async def run(runner: Any, workspace: Any, spec: Any, *more: Any, **named: Any) -> RunnerSession:
        started.append(phases[-1].run_id)
        return await run_session(runner, workspace, spec, *more, **named)

    monkeypatch.setattr(preflight, "run_session", run)
    async with Evaluator(project, settings(tmp_path)) as evaluator:
        runs = [
            await evaluator.evaluate([candidate(f"c{n}")], race=CHECK, observers=[phases.append])
            for n in range(3)
        ]
    assert [run.candidates[0].status for run in runs] == [CandidateStatus.UNDECIDED] * 3
    assert len({run.run_id for run in runs}) == 3
    # The preflight runs the suite several times; a call that has it does nothing of the kind.
    assert len(started) > 1
    assert set(started) == {runs[0].run_id}
    assert sum(isinstance(event, RunStarted) for event in phases) == 3
    assert isinstance(phases[-1], RunFinished)


@pytest.mark.writes_while_open
@pytest.mark.anyio
async def test_a_changed_tree_is_a_new_snapshot(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    async with Evaluator(project, settings(tmp_path, compare=ComparisonMode.PASS_FAIL)) as evaluator:
        first = await evaluator.evaluate([candidate("c")], race=CHECK)
        (project / "shop/sums.py").write_text(FAST_TOTAL)
        second = await evaluator.evaluate([candidate("c")], race=CHECK)
    assert first.candidates[0].status is CandidateStatus.UNDECIDED
    assert (second.candidates[0].status, second.candidates[0].duplicate_of) == (
        CandidateStatus.DUPLICATE,
        "baseline",
    )
    assert first.snapshot != second.snapshot


@pytest.mark.anyio
async def test_an_observer_that_raises_is_dropped_and_changes_nothing(shop: Path) -> None:
    project = shop / "project"

    def observe(_event: Event) -> None:
        raise RuntimeError("observers may fail")

    async with Evaluator(project, settings(shop)) as evaluator:
        result = await evaluator.evaluate([candidate("c")], race=CHECK, observers=[observe])
    assert result.candidates[0].status is CandidateStatus.UNDECIDED
    assert any("observers may fail" in warning for warning in result.warnings)


@pytest.mark.anyio
async def test_an_interrupt_in_the_middle_keeps_what_is_finished(shop: Path) -> None:
    project = shop / "project"
    before = picture(project)
    endless = "def total(values):\n    while True:\n        pass\n"
    submissions = [candidate("wrong", WRONG_TOTAL), candidate("endless", endless), candidate("waits")]
    async with Evaluator(project, settings(shop)) as evaluator:

        def observe(event: Event) -> None:
            moved = isinstance(event, CandidateMoved) and event.candidate == "endless"
            if moved and event.stage is Stage.CHECKING:
                evaluator.interrupt("SIGINT")

        result = await evaluator.evaluate(submissions, race=CHECK, observers=[observe])
    assert (result.complete, result.verdict) == (False, None)
    assert result.error is not None
    assert (result.error.family, result.error.code) == ("interrupted", "SIGINT")
    assert [c.status for c in result.candidates] == [
        CandidateStatus.REJECTED,
        CandidateStatus.CANCELLED,
        CandidateStatus.CANCELLED,
    ]
    assert_same(before, picture(project))
    assert (processes_of(shop / "cache"), worktrees_left(shop / "cache")) == ([], [])


@pytest.mark.anyio
async def test_cancelling_the_caller_leaves_nothing(shop: Path) -> None:
    project = shop / "project"
    before = picture(project)
    endless = "def total(values):\n    while True:\n        pass\n"
    with anyio.CancelScope() as scope:

        def observe(event: Event) -> None:
            if isinstance(event, CandidateMoved) and event.stage is Stage.CHECKING:
                scope.cancel()

        async with Evaluator(project, settings(shop)) as evaluator:
            await evaluator.evaluate([candidate("endless", endless)], observers=[observe])
    assert scope.cancelled_caught
    assert_same(before, picture(project))
    assert (processes_of(shop / "cache"), worktrees_left(shop / "cache")) == ([], [])


@pytest.mark.anyio
async def test_budgets_cancel_what_they_do_not_reach(shop: Path) -> None:
    project = shop / "project"
    submissions = [candidate("one", WRONG_TOTAL), candidate("two")]
    async with Evaluator(project, settings(shop, max_candidates=1)) as evaluator:
        result = await evaluator.evaluate(submissions, race=CHECK)
    assert [(c.status, c.code) for c in result.candidates] == [
        (CandidateStatus.REJECTED, Code.TESTS_FAILED),
        (CandidateStatus.CANCELLED, Code.CANCELLED),
    ]
    endless = "def total(values):\n    while True:\n        pass\n"
    async with Evaluator(project, settings(shop, wall_budget=3.0)) as evaluator:
        result = await evaluator.evaluate([candidate("endless", endless)], race=CHECK)
    assert [c.status for c in result.candidates] == [CandidateStatus.CANCELLED]
    assert (result.complete, result.error, result.verdict) == (False, None, None)
    assert "None of 1 candidates was judged" in result.summary
    assert any("wall budget" in warning for warning in result.warnings)


@pytest.mark.witness
@pytest.mark.anyio
async def test_targets_are_what_the_candidates_change(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    git(project, "checkout", "-q", "-b", "idea")
    (project / "shop/sums.py").write_text(FAST_TOTAL)
    git(project, "commit", "-q", "-a", "-m", "faster")
    diff = git(project, "diff", "HEAD~1", "HEAD")
    git(project, "checkout", "-q", "-")
    git(project, "checkout", "-q", "HEAD~1") if "idea" in git(project, "branch", "--show-current") else None
    submissions = [
        Submission(id=CandidateId("branch"), content=GitRef(ref="idea")),
        Submission(id=CandidateId("patch"), content=PatchText(patch=diff)),
        candidate("code", FAST_TOTAL + "\n\nOTHER = 1\n"),
    ]
    async with Evaluator(project, settings(tmp_path, functions=())) as evaluator:
        result = await evaluator.evaluate(submissions, race=CHECK)
    assert result.targets == (TARGET,)
    assert [(c.status, c.code) for c in result.candidates] == [
        (CandidateStatus.UNDECIDED, Code.NOT_RACED),
        (CandidateStatus.DUPLICATE, Code.SAME_CODE),
        (CandidateStatus.UNDECIDED, Code.NOT_RACED),
    ]


@pytest.mark.anyio
async def test_a_replacement_that_names_nonsense_or_holds_half_an_emoji_costs_itself_only(
    shop: Path,
) -> None:
    project = shop / "project"
    nonsense = Replacement(code=FAST_TOTAL, function="nonsense")
    half = Replacement(code=FAST_TOTAL + "# \ud83d\n", function=TARGET)
    submissions = [
        Submission(id=CandidateId("nonsense"), content=nonsense),
        Submission(id=CandidateId("half"), content=half),
        candidate("good"),
    ]
    async with Evaluator(project, settings(shop, functions=())) as evaluator:
        result = await evaluator.evaluate(submissions, race=CHECK)
    assert [(c.status, c.code) for c in result.candidates] == [
        (CandidateStatus.UNAPPLIABLE, Code.DOES_NOT_APPLY),
        (CandidateStatus.UNAPPLIABLE, Code.DOES_NOT_PARSE),
        (CandidateStatus.UNDECIDED, Code.NOT_RACED),
    ]


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_target_in_another_encoding(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    text = f"# -*- coding: latin-1 -*-\nNAME = 'é'\n{SLOW_TOTAL}"
    (project / "shop/sums.py").write_bytes(text.encode("latin-1"))
    async with Evaluator(project, settings(tmp_path)) as evaluator:
        result = await evaluator.evaluate([candidate("fast"), candidate("wrong", WRONG_TOTAL)], race=CHECK)
    assert [(c.status, c.code) for c in result.candidates] == [
        (CandidateStatus.UNDECIDED, Code.NOT_RACED),
        (CandidateStatus.REJECTED, Code.TESTS_FAILED),
    ]
    assert "forced" not in " ".join(result.warnings)


@pytest.mark.anyio
async def test_a_change_outside_functions_is_judged_by_whole_tests(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", shop__sums_py="FACTOR = 1\n" + SLOW_TOTAL)
    (project / "shop/sums.py").write_text("FACTOR = 2\n" + SLOW_TOTAL)
    diff = git(project, "diff")
    git(project, "checkout", "-q", "--", ".")
    submissions = [Submission(id=CandidateId("constant"), content=PatchText(patch=diff))]
    async with Evaluator(project, settings(tmp_path, functions=())) as evaluator:
        result = await evaluator.evaluate(submissions, race=CHECK)
    assert (result.targets, result.level) == ((), Level.TESTS)
    assert result.candidates[0].status is CandidateStatus.UNDECIDED


@pytest.mark.anyio
async def test_an_empty_list_returns_at_once(shop: Path) -> None:
    project = shop / "project"
    async with Evaluator(project, settings(shop)) as evaluator:
        result = await evaluator.evaluate([])
    assert (result.verdict, result.candidates, result.snapshot) == (Verdict.NONE_CORRECT, (), "")


@pytest.mark.anyio
async def test_what_cannot_be_is_told_in_one_line(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    with pytest.raises(UsageError, match="Did you mean total"):
        async with Evaluator(project, settings(tmp_path, functions=("shop/sums.py::totals",))) as evaluator:
            await evaluator.evaluate([candidate("c")])
    with pytest.raises(UsageError, match=r"no shop/sum\.py"):
        async with Evaluator(project, settings(tmp_path, functions=("shop/sum.py::total",))) as evaluator:
            await evaluator.evaluate([candidate("c")])
    (project / "tests/test_sums.py").write_text("def test_red():\n    assert False\n")
    with pytest.raises(EnvironmentFault, match=r"red.*test_red"):
        async with Evaluator(project, settings(tmp_path)) as evaluator:
            await evaluator.evaluate([candidate("c")])


@pytest.mark.anyio
@pytest.mark.parametrize(
    "where", ["/proc/nope", "file", "file/below", "closed/below", "a" * 300, "gone/../file"]
)
async def test_a_cache_that_cannot_be_is_told_in_one_line(tmp_path: Path, where: str) -> None:
    project = make_project(tmp_path / "project")
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir(mode=0o500)
    if where.startswith("closed") and os.access(tmp_path / "closed", os.W_OK):
        pytest.skip("root may write anywhere")
    cache = tmp_path / where
    named = str(cache).replace("gone/../", "")
    with pytest.raises(EnvironmentFault) as caught:
        async with Evaluator(project, settings(tmp_path, cache_dir=str(cache))):
            pass
    assert caught.value.code == "CACHE_UNWRITABLE"
    assert caught.value.message.startswith(f"The cache in {named} cannot be written: ")
    assert "Errno" not in caught.value.message
    assert "--cache-dir" in caught.value.hint


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_plain_generator_is_a_source(shop: Path) -> None:
    project = shop / "project"

    def produce() -> Iterator[Submission]:
        yield candidate("one", WRONG_TOTAL)
        yield candidate("one")

    async with Evaluator(project, settings(shop, functions=())) as evaluator:
        result = await evaluator.evaluate(produce(), race=CHECK)
    assert [(c.id, c.status) for c in result.candidates] == [
        ("one", CandidateStatus.REJECTED),
        ("one-2", CandidateStatus.UNDECIDED),
    ]
    assert any("'one'" in warning for warning in result.warnings)


@pytest.mark.witness
@pytest.mark.anyio
async def test_extra_tests_come_on_top_and_the_user_s_tree_does_not_have_them(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    extra = tmp_path / "generated"
    extra.mkdir()
    (extra / "test_generated.py").write_text(
        "from shop.sums import total\n\ndef test_of_a_tuple():\n    assert total((2, 3)) == 13\n"
    )
    only_lists = "def total(values):\n    return sum(value * value for value in values + [])\n"
    before = picture(project)
    async with Evaluator(project, settings(tmp_path, extra_tests=str(extra))) as evaluator:
        result = await evaluator.evaluate([candidate("lists", only_lists), candidate("right")], race=CHECK)
    assert_same(before, picture(project))
    assert result.tests_selected == 6
    lists, right = result.candidates
    assert (lists.code, right.status) == (Code.TESTS_FAILED, CandidateStatus.UNDECIDED)
    assert lists.tests.failed_ids == ("generated/test_generated.py::test_of_a_tuple",)
