from __future__ import annotations

from typing import Any

import pytest

from codeflash_parallel.cli.mcp_server.child_processes import ChildProcesses
from codeflash_parallel.cli.mcp_server.submitted_runs import SubmittedRun, SubmittedRuns, wait_for_end
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.result_document import document
from codeflash_parallel.result.result_model import RunFault, RunResult

pytestmark = pytest.mark.anyio


def event(name: str, candidate: str | None = None, **more: Any) -> dict[str, Any]:
    return {"run_id": "r1", "seq": 0, "event": name, "candidate": candidate, **more}


def finished(result: RunResult) -> dict[str, Any]:
    return {**document(result), **event("run_finished")}


async def test_events_say_how_far_a_run_is() -> None:
    run = SubmittedRun()
    states = []
    for one in (
        event("run_started", slots=2),
        event("candidate_moved", "a", stage="submitted", slot=0),
        event("candidate_moved", "b", stage="submitted", slot=0),
        event("phase_started", phase="behavior", detail=""),
        event("step_changed", step="replay", done=1, total=2),
        event("candidate_finished", "a", result={}),
        event("run_waits", why="another race"),
        event("run_waits", why=""),
        event("phase_started", phase="race", detail=""),
        event("race_progress", "b", stage="race", rounds=3, most_rounds=72),
        event("of_a_later_version"),
    ):
        run.note(one)
        states.append(tuple(run.progress))
    assert run.has_begun.is_set()
    assert states[:4] == [(0, 0, "start"), (0, 1, "start"), (0, 2, "start"), (0, 2, "behavior")]
    assert states[4:] == [
        (0, 2, "behavior: replay"),
        (1, 2, "behavior: replay"),
        (1, 2, "behavior: waits, another race"),
        (1, 2, "behavior"),
        (1, 2, "race"),
        (1, 2, "race: race, round 3 of at most 72"),
        (1, 2, "race: race, round 3 of at most 72"),
    ]


async def test_of_a_result_a_short_text_is_kept() -> None:
    run = SubmittedRun()
    run.note(finished(RunResult(run_id="r1", complete=True, summary="None is faster.")))
    run.end("unused")
    assert "run: r1" in run.answer
    assert "None is faster." in run.answer
    assert run.error == ""


async def test_an_error_is_kept_as_one_line() -> None:
    run = SubmittedRun()
    fault = RunFault(family="environment", code="RED", message="It is red.", hint="Look.")
    run.note(finished(RunResult(run_id="r1", complete=False, error=fault)))
    run.end("unused")
    assert (run.answer, run.error) == ("", "It is red. Look.")


async def test_a_process_that_leaves_no_document_can_be_resumed() -> None:
    run = SubmittedRun()
    run.note(event("run_started", slots=1))
    run.end("Killed.")
    assert run.error == "Killed. Continue with: codeflash-parallel resume r1"


async def test_every_other_state_is_reported_once() -> None:
    run, told = SubmittedRun(), []

    async def report(progress: object) -> None:
        told.append(progress)
        if len(told) == 1:
            run.note(event("candidate_moved", "a", stage="submitted", slot=0))
        else:
            run.end("Done.")

    await wait_for_end(run, 30, report)
    assert [tuple(progress) for progress in told] == [(0, 0, "start"), (0, 1, "start")]
    unended = SubmittedRun()
    await wait_for_end(unended, 0, report)
    assert not unended.has_ended.is_set()


async def test_an_unknown_handle_is_refused() -> None:
    with pytest.raises(UsageError, match="Nothing was submitted yet"):
        SubmittedRuns(ChildProcesses(""), None).find("run-1")
