"""The state of a run on disk: request, lock, end; what cannot be resumed is refused and left as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.config.settings import Settings, settings_document
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
    Replacement,
    Submission,
    Unappliable,
)
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.result_model import FailedTest, FirstDifference, LineProfile, LineTiming
from codeflash_parallel.run.run_state import (
    REQUEST,
    SCHEMA,
    Ending,
    ProviderCommand,
    RunEnd,
    RunRequest,
    StepCache,
    StepKind,
    begun_run,
    is_alive,
    read_state,
    read_value,
    resumed_run,
    text_of,
    write_end,
    write_request,
)
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

FINISHED = RunEnd(ending=Ending.FINISHED)


def request(**fields: Any) -> RunRequest:
    known = {
        "schema": SCHEMA,
        "run_id": "r",
        "version": "1",
        "repository": "/r",
        "project": ".",
        "mode": "race",
    }
    return RunRequest(**{**known, "seed": 7, "settings": settings_document(Settings()), **fields})


def submission(name: str) -> Submission:
    return Submission(id=CandidateId(name), content=Replacement(code="x"))


def fits(_state: object) -> None:
    """Everything fits."""


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Return the folder of a run that was killed after its start."""
    with begun_run(tmp_path / "run"):
        write_request(tmp_path / "run", request(submissions=(submission("a"), submission("b"))))
    return tmp_path / "run"


def test_a_request_comes_back(tmp_path: Path) -> None:
    asked = request(
        submissions=(submission("a"),), mode="time", repairer=ProviderCommand(argv=("a", "b"), cwd="/")
    )
    tmp_path.joinpath("run").mkdir()
    write_request(tmp_path / "run", asked)
    assert read_state(tmp_path / "run").request == asked


def test_a_run_that_is_resumed_keeps_its_request(run_dir: Path) -> None:
    write_request(run_dir, request(seed=8))
    assert read_state(run_dir).request.seed == 7


def test_a_run_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    assert not is_alive(run_dir)
    with begun_run(run_dir):
        write_request(run_dir, request())
        assert is_alive(run_dir)
        assert read_state(run_dir).request.run_id == "r"
        with pytest.raises(UsageError, match="still going on") as caught, resumed_run(run_dir, fits):
            pytest.fail("it is held")
        assert caught.value.code == "RUN_ALIVE"
    assert not is_alive(run_dir)
    with resumed_run(run_dir, fits) as state:
        assert is_alive(run_dir)
        assert state.request.run_id == "r"
    assert not is_alive(run_dir)


def test_candidates_that_came_one_by_one_are_known(tmp_path: Path) -> None:
    tmp_path.joinpath("run").mkdir()
    write_request(tmp_path / "run", request(is_complete=False))
    cache = StepCache(tmp_path / "run")
    for number, name in enumerate("ab"):
        cache.put(Submission, submission(name), StepKind.SUBMITTED, number)
    state = read_state(tmp_path / "run")
    assert [one.id for one in state.submissions] == ["a", "b"]
    assert not state.is_complete
    cache.put(bool, True, StepKind.SOURCE_END)
    assert read_state(tmp_path / "run").is_complete


def test_progress_is_told_by_checked_candidates(run_dir: Path) -> None:
    cache = StepCache(run_dir)
    cache.set_ground("g")
    cache.put(str, "x", StepKind.SCREEN, "a")
    cache.put(str, "x", StepKind.FRESH, "a")
    assert read_state(run_dir).progress == "1 of 2 candidates had been checked"


def test_a_run_that_is_resumed_has_not_ended(run_dir: Path) -> None:
    write_end(run_dir, RunEnd(ending=Ending.OPEN))
    assert read_state(run_dir).end == RunEnd(ending=Ending.OPEN)
    with resumed_run(run_dir, fits):
        assert read_state(run_dir).end is None


def test_drafts_are_gone_when_a_run_is_resumed(run_dir: Path) -> None:
    (run_dir / "steps" / "g").mkdir(parents=True)
    drafts = [
        run_dir / ".edits.json-a",
        run_dir / "steps" / ".x.json-b",
        run_dir / "steps" / "g" / ".y.json-c",
    ]
    for draft in drafts:
        draft.write_bytes(b"half")
    with resumed_run(run_dir, fits):
        assert not any(draft.exists() for draft in drafts)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "BAD_JOURNAL"),
        (text_of(RunRequest, request())[:-9], "BAD_JOURNAL"),
        (text_of(RunRequest, request()).replace(b'"seed":7', b'"seed":8'), "BAD_JOURNAL"),
        (text_of(RunEnd, FINISHED), "BAD_JOURNAL"),
        (text_of(RunRequest, request(schema=SCHEMA + 1)), "NEWER_JOURNAL"),
    ],
)
def test_what_cannot_be_resumed_is_left_as_it_is(run_dir: Path, text: bytes, code: str) -> None:
    (run_dir / REQUEST).write_bytes(text)
    with pytest.raises(EnvironmentFault) as caught, resumed_run(run_dir, fits):
        pytest.fail("it cannot be read")
    assert caught.value.code == code
    assert "\n" not in str(caught.value)
    assert (run_dir / REQUEST).read_bytes() == text
    assert not is_alive(run_dir)


def test_a_finished_run_is_not_resumed(run_dir: Path) -> None:
    write_end(run_dir, FINISHED)
    assert read_state(run_dir).is_finished
    with pytest.raises(UsageError) as caught, resumed_run(run_dir, fits):
        pytest.fail("it is finished")
    assert caught.value.code == "RUN_FINISHED"
    assert read_state(run_dir).is_finished


def test_a_run_that_does_not_fit_stays_as_it_is(run_dir: Path) -> None:
    def refuse(_state: object) -> None:
        raise UsageError("OTHER_SETTINGS", "no")

    write_end(run_dir, RunEnd(ending=Ending.OPEN))
    with pytest.raises(UsageError, match="no"), resumed_run(run_dir, refuse):
        pytest.fail("it does not fit")
    assert read_state(run_dir).end == RunEnd(ending=Ending.OPEN)


def test_there_is_no_request(tmp_path: Path) -> None:
    """A run of an older version, or one that was killed before it had begun."""
    with pytest.raises(UsageError) as caught:
        read_state(tmp_path)
    assert caught.value.code == "NO_JOURNAL"
    with pytest.raises(UsageError) as caught, resumed_run(tmp_path, fits):
        pytest.fail("there is no run")
    assert caught.value.code == "NO_JOURNAL"
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_before_its_first_check_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with begun_run(tmp_path / "run"):
            write_request(tmp_path / "run", request())
            raise UsageError("RED", "no")

    with pytest.raises(UsageError, match="no"):
        fail()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("resumed", [False, True])
def test_a_run_that_fails_later_says_why(tmp_path: Path, run_dir: Path, resumed: bool) -> None:
    folder = run_dir if resumed else tmp_path / "new"

    def fail() -> None:
        with resumed_run(folder, fits) if resumed else begun_run(folder):
            write_request(folder, request())
            StepCache(folder).put(str, "x", StepKind.SCREEN)
            raise UsageError("FULL", "no")

    with pytest.raises(UsageError, match="no"):
        fail()
    assert read_state(folder).end == RunEnd(ending=Ending.OPEN, code="FULL", message="no")


def test_files_are_json_that_a_person_can_read(run_dir: Path) -> None:
    data = json.loads((run_dir / REQUEST).read_text(encoding="utf-8"))
    assert data["value"]["submissions"][0]["id"] == "a"


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
