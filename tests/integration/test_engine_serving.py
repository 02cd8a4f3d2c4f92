"""The engine with warm servers: the same verdicts as without, and what happens to servers."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import anyio
import pytest
from harness import assert_same, git, picture, processes_of, worktrees_left
from projects import FAST_TOTAL, SLOW_TOTAL, TEST_TOTAL, WRONG_TOTAL, make_project

from codeflash_parallel import (
    EnvironmentFault,
    Evaluator,
    PatchText,
    RaceMode,
    Replacement,
    RunResult,
    Settings,
    Submission,
)
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.events import CandidateMoved, Event, Stage
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code

pytestmark = pytest.mark.engine

TARGET = "shop/sums.py::total"
CHECK = RaceMode.CHECK
#: Where values are no matter of a test: half of a new baseline is what compares them.
OUTCOMES = {"compare": ComparisonMode.PASS_FAIL}

#: With the target's docstring kept, so that only its body differs.
DOC = '    """Return the sum of the squares."""\n'


def body(name: str) -> str:
    """Return a right body; each name makes another one."""
    return f"def total(values):\n{DOC}    return sum({name} * {name} for {name} in values)\n"


BODY = body("value")
WRONG_BODY = f"def total(values):\n{DOC}    return sum(values)\n"
RAISES = f"def total(values):\n{DOC}    return values.nothing\n"


def candidate(name: str, code: str) -> Submission:
    return Submission(id=CandidateId(name), content=Replacement(code=code))


def patch_of(project: Path, name: str, **files: str) -> Submission:
    """Return a candidate that writes files (``__`` stands for ``/``, ``_py`` ends)."""
    for file, text in files.items():
        path = project / file.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(project, "add", "--all", "--intent-to-add")
    diff = git(project, "diff")
    git(project, "reset", "--quiet", "--hard")
    git(project, "clean", "--quiet", "--force", "-d")
    return Submission(id=CandidateId(name), content=PatchText(patch=diff))


def settings(tmp_path: Path, **fields: object) -> Settings:
    plain = {"functions": (TARGET,), "cache_dir": str(tmp_path / "cache"), "parallel_candidates": 1}
    return Settings(**{**plain, **fields})  # type: ignore[arg-type]


async def judged(project: Path, own: Settings, submissions: list[Submission], **options: object) -> RunResult:
    async with Evaluator(project, own) as evaluator:
        return await evaluator.evaluate(submissions, race=CHECK, **options)  # type: ignore[arg-type]


def verdicts(result: RunResult) -> dict[str, tuple[CandidateStatus, Code, int]]:
    return {c.id: (c.status, c.code, c.values.differing) for c in result.candidates}


@pytest.mark.witness
@pytest.mark.anyio
async def test_verdicts_are_those_of_new_processes_and_say_where_they_began(tmp_path: Path) -> None:
    table = "TABLE = {n: n * n for n in range(300)}\n" + SLOW_TOTAL
    project = make_project(tmp_path / "project", shop__sums_py=table, shop__other_py="FACTOR = 1\n")
    submissions = [
        candidate("body", BODY),
        candidate("wrong", WRONG_BODY),
        candidate("raises", RAISES),
        candidate("docstring", FAST_TOTAL.replace("sum(", "0 + sum(")),
        patch_of(project, "table", shop__sums_py=table.replace("n * n for", "n for")),
        patch_of(project, "elsewhere", shop__other_py="FACTOR = 2\n"),
    ]
    before = picture(project)
    warm = await judged(project, settings(tmp_path), submissions)
    new_process = await judged(project, settings(tmp_path, new_process=True), submissions)
    assert verdicts(warm) == verdicts(new_process)
    assert {c.id: c.served for c in warm.candidates} == {
        "body": "collected",
        "wrong": "collected",
        "raises": "collected",
        "docstring": "imported",
        "table": "imported",
        "elsewhere": "new-process",
    }
    assert {c.served for c in new_process.candidates} == {"new-process"}
    assert all("asked for" in c.served_why for c in new_process.candidates)
    assert (warm.warm["restarts"], warm.warm["unfit"], new_process.warm) == (0, [], {})
    assert_same(before, picture(project))
    assert (processes_of(tmp_path / "cache"), worktrees_left(tmp_path / "cache")) == ([], [])


@pytest.mark.witness
@pytest.mark.anyio
async def test_times_add_up(shop: Path) -> None:
    result = await judged(
        shop / "project", settings(shop), [candidate("body", BODY), candidate("bad", "x = (")]
    )
    body, bad = result.candidates
    assert body.timings_ms["calls"] > 0
    assert body.overhead_ms is not None
    assert body.overhead_ms <= sum(body.timings_ms.values())
    assert bad.timings_ms == {}
    assert result.steps_ms == body.timings_ms
    assert result.slots["inodes"] > 0


@pytest.mark.witness
@pytest.mark.anyio
async def test_servers_live_from_call_to_call_and_their_findings_longer(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    own = settings(tmp_path)
    async with Evaluator(project, own) as evaluator:
        first = await evaluator.evaluate([candidate("a", BODY)], race=CHECK)
        second = await evaluator.evaluate([candidate("b", WRONG_BODY)], race=CHECK)
    assert first.warm["servers"] == 4
    assert (second.warm["servers"], second.warm["forks"], second.warm["restarts"]) == (0, 1, 0)
    assert second.candidates[0].served == "collected"
    third = await judged(project, own, [candidate("c", BODY)])
    # Nothing is compared with a new process again: all forks are the candidate's.
    assert (third.warm["servers"], third.warm["forks"]) == (4, 3)


@pytest.mark.anyio
async def test_servers_that_are_killed_are_started_again(shop: Path) -> None:
    cache = shop / "cache"

    def kill_them(event: Event) -> None:
        if isinstance(event, CandidateMoved) and event.stage is Stage.CHECKING and event.candidate == "b":
            runners = [line for line in processes_of(cache) if "_codeflash_runner" in line]
            assert runners
            for line in runners:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(line.split()[0]), signal.SIGKILL)

    submissions = [
        candidate("a", BODY),
        candidate("b", WRONG_BODY),
        candidate("c", RAISES),
        candidate("d", body("v")),
    ]
    own = settings(shop)
    result = await judged(shop / "project", own, submissions, observers=(kill_them,))
    assert [c.status for c in result.candidates] == [
        *(CandidateStatus.UNDECIDED, CandidateStatus.REJECTED, CandidateStatus.REJECTED),
        CandidateStatus.UNDECIDED,
    ]
    assert result.candidates[-1].served == "collected"
    assert result.warm["restarts"] >= 1
    assert processes_of(cache) == []


@pytest.mark.own_baseline
@pytest.mark.anyio
async def test_a_suite_that_cannot_be_forked_gets_new_processes_and_says_why(tmp_path: Path) -> None:
    thread = """
        import threading

        waiting = threading.Event()
        threading.Thread(target=waiting.wait, daemon=True, name="always there").start()
    """
    project = make_project(tmp_path / "project", tests__conftest_py=thread)
    submissions = [candidate("right", BODY), candidate("wrong", WRONG_BODY)]
    result = await judged(project, settings(tmp_path, **OUTCOMES), submissions)
    assert [c.status for c in result.candidates] == [CandidateStatus.UNDECIDED, CandidateStatus.REJECTED]
    assert {c.served for c in result.candidates} == {"new-process"}
    assert all("always there" in c.served_why for c in result.candidates)
    assert any("always there" in why for why in result.warm["unfit"])
    assert sum("always there" in warning for warning in result.warnings) == 1


@pytest.mark.own_baseline
@pytest.mark.witness
@pytest.mark.anyio
async def test_a_point_where_the_baseline_is_not_the_same_is_not_used(tmp_path: Path) -> None:
    knows_its_process = """
        import os

        import pytest

        STARTED = os.getpid()

        @pytest.fixture
        def started():
            return STARTED
    """
    asks = """
        import os
        from shop.sums import total

        def test_the_process(started):
            assert total([1]) == 1
            assert started == os.getpid()
    """
    project = make_project(tmp_path / "project", tests__conftest_py=knows_its_process, tests__test_p_py=asks)
    own = settings(tmp_path, **OUTCOMES)
    for told in (1, 0):  # what was found out is kept, and said when it is
        result = await judged(project, own, [candidate("right", BODY), candidate("wrong", WRONG_BODY)])
        assert [c.status for c in result.candidates] == [CandidateStatus.UNDECIDED, CandidateStatus.REJECTED]
        assert {c.served for c in result.candidates} == {"new-process"}
        assert "test_the_process" in result.candidates[0].served_why
        assert sum("test_the_process" in warning for warning in result.warnings) == told
        assert any("test_the_process" in why for why in result.warm["unfit"])


@pytest.mark.witness
@pytest.mark.anyio
async def test_numeric_libraries_get_one_thread_unless_the_user_has_said_how_many(tmp_path: Path) -> None:
    sees = """
        import os
        from pathlib import Path

        def test_threads():
            Path(os.environ["FIXTURE_STATE"], "threads").write_text(os.environ["OMP_NUM_THREADS"])
    """
    project = make_project(tmp_path / "project", tests__test_threads_py=sees)
    state = tmp_path / "state"
    state.mkdir()
    rights = {"pass_env": ("FIXTURE_STATE",), "allow_write": (str(state),)}
    alone = settings(tmp_path, **OUTCOMES, **rights)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OMP_NUM_THREADS", raising=False)
        patch.setenv("FIXTURE_STATE", str(state))
        await judged(project, alone, [candidate("right", BODY)])
        assert (state / "threads").read_text() == "1"
        patch.setenv("OMP_NUM_THREADS", "3")
        await judged(project, alone, [candidate("right", BODY)])
        assert (state / "threads").read_text() == "3"


@pytest.mark.anyio
async def test_an_interrupt_while_servers_start_leaves_nothing(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    cache = tmp_path / "cache"
    async with Evaluator(project, settings(tmp_path)) as evaluator, anyio.create_task_group() as group:

        async def interrupt_when_one_stands() -> None:
            while not any('"serve"' in text for text in _specs(cache)):
                await anyio.lowlevel.checkpoint()
            evaluator.interrupt("SIGINT")

        group.start_soon(interrupt_when_one_stands)
        result = await evaluator.evaluate([candidate("right", BODY)], race=CHECK)
    assert not result.complete
    assert (processes_of(cache), worktrees_left(cache)) == ([], [])


def _specs(cache: Path) -> list[str]:
    found = []
    for path in cache.glob("*/slots/*/*/private/spec-*.json"):
        with contextlib.suppress(OSError):
            found.append(path.read_text())
    return found


@pytest.mark.anyio
async def test_no_server_is_left_when_the_baseline_is_red(tmp_path: Path) -> None:
    red = TEST_TOTAL + "\n\ndef test_red():\n    assert total([1]) == 2\n"
    project = make_project(tmp_path / "project", tests__test_sums_py=red)
    with pytest.raises(EnvironmentFault, match="red"):
        await judged(project, settings(tmp_path), [candidate("right", WRONG_TOTAL)])
    assert processes_of(tmp_path / "cache") == []
