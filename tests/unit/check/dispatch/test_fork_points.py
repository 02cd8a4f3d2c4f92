"""Where a check may begin follows from what the candidate changes, and from nothing it could hide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.dispatch.fork_points import (
    LONG_SUITE_S,
    ForkContext,
    ForkPoint,
    choose,
    furthest,
    weakest,
)
from codeflash_parallel.result.candidate.candidate_model import Edit, digest_of

OLD = b"import os\n\n\ndef f(x):\n    return x + 1\n\n\ndef g(x):\n    return x\n"
BODY = OLD.replace(b"x + 1", b"1 + x")
MORE = OLD.replace(b"import os", b"import sys")
TARGET = Target(path="pkg/m.py", qualname="f")
GROUND = ForkContext(targets=[TARGET], sources={"pkg/m.py": OLD}, packages=frozenset({"pkg"}))


def modified(path: str = "pkg/m.py", new: bytes = BODY) -> Edit:
    return Edit(path=path, old_digest=digest_of(OLD), new=new)


def added(path: str) -> Edit:
    return Edit(path=path, old_digest=None, new=b"")


def removed(path: str = "pkg/m.py") -> Edit:
    return Edit(path=path, old_digest=digest_of(OLD), new=None)


def test_a_changed_body_is_swapped() -> None:
    serving = furthest([modified()], GROUND)
    assert (serving.point, serving.why) == (ForkPoint.COLLECTED, "")


def test_what_changes_more_of_a_target_s_file_begins_before_its_import() -> None:
    serving = furthest([modified(new=MORE)], GROUND)
    assert serving.point is ForkPoint.IMPORTED
    assert serving.why


def test_a_function_that_is_no_target_is_not_swapped() -> None:
    other = BODY.replace(b"return x\n", b"return -x\n")
    assert furthest([modified(new=other)], GROUND).point is ForkPoint.IMPORTED


def test_recorded_calls_need_the_import() -> None:
    for edit, point in (
        (modified(), ForkPoint.IMPORTED),
        (removed(), ForkPoint.NEW_PROCESS),
    ):
        assert choose(furthest([edit], GROUND), watched=True).point is point


def test_where_servers_at_collected_record_calls_all_runs_there_do() -> None:
    by_edits = furthest([modified()], GROUND)
    assert by_edits.point is ForkPoint.COLLECTED
    assert choose(by_edits, watched=True, watched_at_collected=True) == by_edits
    assert choose(by_edits, watched_at_collected=True).point is ForkPoint.IMPORTED


def test_where_nothing_speaks_against_it_the_edits_decide() -> None:
    for edit in (modified(), modified(new=MORE), modified("pkg/other.py"), removed()):
        by_edits = furthest([edit], GROUND)
        assert choose(by_edits, suite_s=LONG_SUITE_S) == by_edits


def test_without_the_old_text_nothing_is_swapped() -> None:
    assert furthest([modified()], replace(GROUND, sources={})).point is ForkPoint.IMPORTED
    assert furthest([modified(new=b"\xff")], GROUND).point is ForkPoint.IMPORTED


@pytest.mark.parametrize("edit", [modified("pkg/other.py"), modified("conftest.py"), added("pkg/new.py")])
def test_other_modules_than_the_targets_need_a_new_process(edit: Edit) -> None:
    for edits in ([edit], [modified(), edit], [edit, modified()]):
        serving = furthest(edits, GROUND)
        assert serving.point is ForkPoint.NEW_PROCESS
        assert edit.path in serving.why
        without_targets = furthest(edits, replace(GROUND, targets=[]))
        assert without_targets.point is ForkPoint.IMPORTED


@pytest.mark.parametrize(
    "edit",
    [
        removed(),
        removed("pkg/other.py"),
        added("new.py"),
        added("lib/new.py"),
        added("pkg/conftest.py"),
        added("pkg/sub/__init__.py"),
        modified("pyproject.toml"),
        modified("sitecustomize.py"),
        modified("pkg/table.json"),
    ],
)
def test_what_is_read_early_needs_a_new_process(edit: Edit) -> None:
    for edits in ([edit], [modified(), edit], [modified("pkg/other.py"), edit]):
        for ground in (GROUND, replace(GROUND, targets=[])):
            serving = furthest(edits, ground)
            assert serving.point is ForkPoint.NEW_PROCESS
            assert edit.path in serving.why


@pytest.mark.parametrize(
    "run",
    [{"new_process": True}, {"workers": 2}, {"suite_s": LONG_SUITE_S + 1}],
)
def test_circumstances_that_need_a_new_process(run: dict[str, Any]) -> None:
    serving = choose(furthest([modified()], GROUND), **run)
    assert serving.point is ForkPoint.NEW_PROCESS
    assert serving.why


def test_without_targets_there_is_no_gate() -> None:
    assert furthest([modified()], ForkContext(targets=[], sources={})).point is ForkPoint.IMPORTED


PATHS = st.sampled_from(["pkg/m.py", "pkg/other.py", "new.py", "a.txt", "pkg/conftest.py"])
EDITS = st.builds(
    Edit,
    path=PATHS,
    old_digest=st.sampled_from([None, digest_of(OLD)]),
    new=st.sampled_from([None, OLD, BODY, MORE, b""]),
)


@given(st.lists(EDITS, min_size=1, max_size=3), EDITS)
def test_a_further_edit_never_lets_a_check_begin_further_on(edits: list[Edit], more: Edit) -> None:
    alone, together = furthest(edits, GROUND), furthest([*edits, more], GROUND)
    assert weakest(alone.point, together.point) is together.point


@given(st.lists(EDITS, min_size=1, max_size=3))
def test_a_choice_below_the_furthest_has_a_reason(edits: list[Edit]) -> None:
    serving = furthest(edits, GROUND)
    assert bool(serving.why) == (serving.point is not ForkPoint.COLLECTED)


def test_points_go_downwards() -> None:
    assert ForkPoint.COLLECTED.downwards() == (ForkPoint.COLLECTED, ForkPoint.IMPORTED)
    assert ForkPoint.IMPORTED.downwards() == (ForkPoint.IMPORTED,)
    assert ForkPoint.NEW_PROCESS.downwards() == ()


def test_the_weakest_point_is_the_earliest() -> None:
    assert weakest(ForkPoint.COLLECTED) is ForkPoint.COLLECTED
    assert weakest(ForkPoint.IMPORTED, ForkPoint.COLLECTED) is ForkPoint.IMPORTED
    assert weakest(ForkPoint.NEW_PROCESS, ForkPoint.COLLECTED) is ForkPoint.NEW_PROCESS
