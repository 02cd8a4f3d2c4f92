"""The state of a run on disk: request, lock, end; what cannot be resumed is refused and left as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codeflash_parallel.config.settings import Settings, settings_document
from codeflash_parallel.result.candidate_model import CandidateId, Replacement, Submission
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.run.run_state import (
    REQUEST,
    SCHEMA,
    Ending,
    ProviderCommand,
    RunEnd,
    RunRequest,
    begun_run,
    is_alive,
    read_state,
    resumed_run,
    write_end,
    write_request,
)
from codeflash_parallel.run.step_cache import StepCache, StepKind, text_of

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
