"""The step cache: what comes back, what is a miss, what holds on another ground or after another boot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.race.plan import CostGroup, RacePlan
from codeflash_parallel.race.race_result import Raced
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.race.statistics.sequential_test import InterimState
from codeflash_parallel.repair.provider_protocol import Answer, ProviderAnswers
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Edit,
    FileText,
    FileTexts,
    PatchText,
    Submission,
    Unappliable,
)
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.result_model import FailedTest, FirstDifference, LineProfile, LineTiming
from codeflash_parallel.run.step_cache import StepCache, StepKind, read_value, text_of
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

PLAN = RacePlan(groups=(CostGroup(name="all", ns=1, calls=(0, 3)),), cores=(0, 1))
RACED = Raced(
    plan=PLAN,
    candidates=("a",),
    rounds=(),
    tracks={"a": track((), "a", PLAN)},
    looks=InterimState(candidates=("a",)),
    out={},
    wall_ns=1,
    round_ns=1,
    stopped="enough",
)
OUTCOME = CheckOutcome(
    code=Code.TESTS_FAILED,
    reason="why",
    failures=(FailedTest(id="t", phase="call", message="\ud800 no text"),),
    difference=FirstDifference(target="t", test="t", call=0, inputs="1", expected="2", got="3"),
    timings_ms={"calls": 0.1},
)
MADE = Candidate(
    id=CandidateId("a"),
    origin=CandidateOrigin.REPLACEMENT,
    edits=(
        Edit(path="p", old_digest=None, new=b"\x00\xff", executable=True),
        Edit(path="q", old_digest="d", new=None),
    ),
    diff="+\ud800",
)
ANSWERS = ProviderAnswers(
    answers=(Answer(content=FileTexts(files=(FileText(path="p", text=None),)), parent=CandidateId("a")),)
)
SUBMITTED = Submission(id=CandidateId("b"), content=PatchText(patch="\ud8ff\n\x00"))
PROFILE = LineProfile(tracer="t", lines=(LineTiming(path="p", line=1, hits=2, time_ns=3, text="é"),))
RESULTS: list[tuple[Any, StepKind, object]] = [
    (Submission, StepKind.SUBMITTED, SUBMITTED),
    (Snapshot, StepKind.SNAPSHOT, Snapshot(commit="c", tree="t", base="", ignored_left_out=("a",))),
    (Candidate | Unappliable, StepKind.PREPARED, MADE),
    (Candidate | Unappliable, StepKind.PREPARED, Unappliable(code="DOES_NOT_PARSE", reason="no")),
    (ProviderAnswers, StepKind.REPAIR, ANSWERS),
    (CheckOutcome, StepKind.SCREEN, OUTCOME),
    (LineProfile, StepKind.PROFILE, PROFILE),
    (Raced, StepKind.RACE, RACED),
]


@pytest.mark.parametrize(("result", "kind", "value"), RESULTS)
def test_a_result_comes_back_in_another_process_as_it_was(
    tmp_path: Path, result: Any, kind: StepKind, value: object
) -> None:
    first = StepCache(tmp_path)
    first.set_ground("g")
    assert first.get(result, kind, "key", 1) is None
    first.put(result, value, kind, "key", 1)

    second = StepCache(tmp_path)
    second.set_ground("g")
    assert second.get(result, kind, "key", 1) == value
    assert second.get(result, kind, "key", 2) is None
    assert second.count(kind) == 1


@pytest.mark.anyio
async def test_what_is_costly_is_on_the_disk(tmp_path: Path) -> None:
    cache = StepCache(tmp_path)
    await cache.keep(ProviderAnswers, ANSWERS, StepKind.REPAIR, ["x"])
    assert cache.get(ProviderAnswers, StepKind.REPAIR, ["x"]) == ANSWERS


def test_what_is_written_is_whole_even_when_its_writer_is_cancelled(tmp_path: Path) -> None:
    cache = StepCache(tmp_path)

    async def keep() -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await cache.keep(ProviderAnswers, ANSWERS, StepKind.REPAIR)

    anyio.run(keep)
    assert cache.get(ProviderAnswers, StepKind.REPAIR) in {None, ANSWERS}
    assert list(tmp_path.rglob(".*")) == []


TEXT = text_of(CheckOutcome, OUTCOME)


@given(st.integers(0, len(TEXT) - 1))
def test_a_torn_file_is_a_miss(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    path = tmp_path_factory.mktemp("torn") / "step.json"
    path.write_bytes(TEXT[:length])
    assert read_value(CheckOutcome, path) is None


@given(st.integers(0, len(TEXT) - 1), st.integers(1, 255))
@example(20, 32)  # a digit of the digest becomes a capital one
def test_no_changed_byte_is_believed(tmp_path_factory: pytest.TempPathFactory, place: int, by: int) -> None:
    path = tmp_path_factory.mktemp("changed") / "step.json"
    data = bytearray(TEXT)
    data[place] ^= by
    path.write_bytes(bytes(data))
    assert read_value(CheckOutcome, path) in (None, OUTCOME)


@pytest.mark.parametrize("data", [b"", b"null", b"[1]", b"{}", b'{"digest":"0","value":1}'])
def test_what_is_no_step_is_a_miss(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "step.json").write_bytes(data)
    assert read_value(CheckOutcome, tmp_path / "step.json") is None


def test_a_value_of_another_type_is_a_miss(tmp_path: Path) -> None:
    (tmp_path / "step.json").write_bytes(text_of(str, "x"))
    assert read_value(CheckOutcome, tmp_path / "step.json") is None


def test_a_damaged_step_is_written_again(tmp_path: Path) -> None:
    cache = StepCache(tmp_path)
    cache.put(str, "x", StepKind.PREPARED)
    (path,) = tmp_path.rglob("*.json")
    path.write_bytes(b"")
    cache.put(str, "x", StepKind.PREPARED)
    assert cache.get(str, StepKind.PREPARED) == "x"


@pytest.mark.parametrize("kind", StepKind)
def test_only_what_depends_on_no_ground_holds_on_another_one(tmp_path: Path, kind: StepKind) -> None:
    cache = StepCache(tmp_path)
    assert not cache.set_ground("one")
    cache.put(str, "x", kind)
    assert not StepCache(tmp_path).set_ground("one")

    assert cache.set_ground("another") is kind.is_grounded
    assert cache.get(str, kind) == (None if kind.is_grounded else "x")
    assert not cache.set_ground("one")
    assert cache.get(str, kind) == (None if kind.is_grounded else "x"), "what is removed does not come back"


@pytest.mark.parametrize("kind", StepKind)
def test_times_do_not_hold_after_another_boot_or_on_another_host(tmp_path: Path, kind: StepKind) -> None:
    StepCache(tmp_path, boot=lambda: "one").put(str, "x", kind)
    assert StepCache(tmp_path, boot=lambda: "one").get(str, kind) == "x"

    found = StepCache(tmp_path, boot=lambda: "another").get(str, kind)

    assert found == (None if kind in {StepKind.RACE, StepKind.PROFILE} else "x")


def test_a_series_ends_where_a_number_is_missing(tmp_path: Path) -> None:
    cache = StepCache(tmp_path)
    assert cache.series(str, StepKind.SUBMITTED) == []
    for number in (0, 1, 3):
        cache.put(str, f"s{number}", StepKind.SUBMITTED, number)
    assert cache.series(str, StepKind.SUBMITTED) == ["s0", "s1"]
