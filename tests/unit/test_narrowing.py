"""What earlier runs found out about selections: read where it makes sense, else found out again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from codeflash_parallel.behavior.baseline import Baseline
from codeflash_parallel.behavior.plan import CheckPlan
from codeflash_parallel.behavior.session import Guest
from codeflash_parallel.engine import narrowing
from codeflash_parallel.engine.changes import Changes
from codeflash_parallel.engine.narrowing import Narrowing
from codeflash_parallel.model.candidate import Candidate, CandidateId, Edit, Origin, digest_of
from codeflash_parallel.model.target import Target
from codeflash_parallel.model.workspace import Limits

OLD = "def f():\n    return 1\n\n\ndef g():\n    return 1\n"
TESTS = ("t.py::f", "t.py::both", "t.py::g")
TOUCHED = {"t.py::f": (0,), "t.py::both": (0, 1), "t.py::g": (1,)}


@dataclass
class Tried:
    """Plays the trials: which tests do not pass, and what was run."""

    red: set[str] = field(default_factory=set)
    runs: list[tuple[str, ...]] = field(default_factory=list)
    during: Callable[[], Any] | None = None

    async def trial(
        self, _plan: Any, _workspace: Any, tests: tuple[str, ...], _servers: Any
    ) -> frozenset[str]:
        self.runs.append(tuple(tests))
        if self.during is not None:
            await self.during()
        return frozenset(tests) - self.red


class Slot:
    workspace = None

    async def discard(self) -> None: ...


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Tried:
    plays = Tried()
    monkeypatch.setattr(narrowing, "trial", plays.trial)
    monkeypatch.setattr(narrowing, "pays", lambda _baseline, _tried, _others, many: many > 0)
    return plays


def choices(path: Path, warnings: list[str] | None = None, **fields: Any) -> Narrowing:
    known = Baseline(
        targets=("m.py::f", "m.py::g"),
        python="3.11",
        pytest="8",
        plugins=(),
        rootdir=".",
        inifile="",
        selected=TESTS,
        expected=dict.fromkeys(TESTS, "passed"),
        executing=TESTS,
        **{"touched": TOUCHED, **fields},
    )
    targets = tuple(Target(path="m.py", qualname=name) for name in "fg")
    guest = Guest(
        runner=cast("Any", None), directory=path, targets=targets, request=cast("Any", None), seed=1
    )
    plan = CheckPlan(
        guest=guest,
        baseline=known,
        limits=Limits(wall_s=1.0),
        compare_values=False,
        sources={"m.py": OLD.encode()},
    )
    serving = Changes(targets, {"m.py": OLD.encode()}.get).serving
    warn = [].append if warnings is None else warnings.append
    return Narrowing(plan, path / "narrowing.json", serving, warn)


def candidate(new: str) -> Candidate:
    edit = Edit(path="m.py", old_digest=digest_of(OLD.encode()), new=new.encode())
    return Candidate(id=CandidateId(new), origin=Origin.EDITS, edits=(edit,))


ONLY_F = candidate(OLD.replace("1", "2", 1))
ONLY_G = candidate(OLD[:-2] + "3\n")
MORE = candidate(OLD + "X = 1\n")


async def judge(found: Narrowing, one: Candidate) -> CheckPlan:
    await found.prepare(one, cast("Any", Slot()), None)
    return found.plan(one)


@pytest.mark.anyio
async def test_what_executes_the_change_comes_first_once_it_was_tried(tmp_path: Path, tried: Tried) -> None:
    for found in (choices(tmp_path), choices(tmp_path)):
        plans = [await judge(found, ONLY_F) for _ in range(2)]
        assert [plan.front for plan in plans] == [TESTS[:2]] * 2
        assert (await judge(found, ONLY_G)).front == TESTS[1:]
    assert tried.runs == [TESTS[:2], TESTS[1:]]


@pytest.mark.anyio
async def test_who_changes_more_is_asked_for_everything(tmp_path: Path, tried: Tried) -> None:
    for one, found in ((MORE, choices(tmp_path)), (ONLY_F, choices(tmp_path, touched={}))):
        for _ in range(3):
            plan = await judge(found, one)
            assert plan.front == ()
    assert tried.runs == []


@pytest.mark.anyio
async def test_tests_that_do_not_pass_alone_are_never_alone(tmp_path: Path, tried: Tried) -> None:
    warnings: list[str] = []
    tried.red = {TESTS[1]}
    for found in (choices(tmp_path, warnings), choices(tmp_path, warnings)):
        plan = await judge(found, ONLY_F)
        assert plan.front == ()
    assert len(tried.runs) == len(warnings) == 1
    assert TESTS[1] in warnings[0]


@pytest.mark.anyio
async def test_meanwhile_others_go_by_what_is_known(tmp_path: Path, tried: Tried) -> None:
    found = choices(tmp_path)
    plans: list[CheckPlan] = []

    async def another() -> None:
        plans.append(await judge(found, ONLY_F))

    tried.during = another
    with anyio.fail_after(30):
        await judge(found, ONLY_F)
    assert [plan.front for plan in plans] == [()]
    assert len(tried.runs) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["", "{", "[[[0]]]", '[["x", "tried"]]', '[[[0], "sure"]]'])
async def test_answers_that_make_no_sense_are_found_out_again(
    tmp_path: Path, tried: Tried, text: str
) -> None:
    (tmp_path / "narrowing.json").write_text(text)
    await judge(choices(tmp_path), ONLY_F)
    assert tried.runs == [TESTS[:2]]
