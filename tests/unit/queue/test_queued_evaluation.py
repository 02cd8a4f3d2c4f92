"""Evaluation by the daemon: what it refuses, and what observers are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codeflash_parallel import Evaluator, RaceMode, Replacement, RunResult, Settings, Submission, UsageError
from codeflash_parallel.queue.queued_evaluation import _announce, evaluate_queued
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.events import RunFinished
from codeflash_parallel.run.provider_requests import Providers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "queue"
    made.mkdir(mode=0o700)
    return made


@pytest.mark.anyio
async def test_a_callable_cannot_repair_in_another_process(folder: Path) -> None:
    def repair(_request: object) -> None:
        return None

    provided: Any = Providers(repairer=repair)  # type: ignore[arg-type]
    candidate = Submission(id=CandidateId("c"), content=Replacement(code="x"))
    with pytest.raises(UsageError) as caught:
        await evaluate_queued(RaceMode.CHECK.value, folder, Settings(), [candidate], provided, ())
    assert (caught.value.code, "repair_command" in caught.value.hint) == ("QUEUE_NEEDS_COMMAND", True)


def test_observers_are_told_the_end_of_the_run() -> None:
    events: list[object] = []
    result = RunResult(run_id="r", complete=True)
    _announce(result, [events.append])
    assert events == [RunFinished(run_id="r", result=result)]


@pytest.mark.anyio
async def test_a_run_is_gone_on_with_in_this_process_only(folder: Path) -> None:
    async with Evaluator(folder, Settings(executor="queue", queue_dir=str(folder))) as evaluator:
        with pytest.raises(UsageError, match='executor = "local"') as caught:
            await evaluator.resume("20260101-000000-abcdef")
    assert caught.value.code == "QUEUE_CANNOT_RESUME"
