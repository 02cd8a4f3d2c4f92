"""One event a line, while it happens; the last line is the document of the run."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, TextIO, assert_never

from codeflash_parallel.result.candidate.content_json import encodable
from codeflash_parallel.result.events import (
    CandidateFinished,
    CandidateMoved,
    Event,
    PhaseStarted,
    RaceProgress,
    RunFinished,
    RunStarted,
    RunWaits,
    StepChanged,
    Warned,
)
from codeflash_parallel.result.result_document import Document, candidate_document


class JsonLines:
    """An observer that writes each event as a line of JSON: `run_id`, `seq`, `event`, `candidate`, and more.

    `finish` must be called once with the run's document, also when the run failed: it is the last line, the
    document itself with `seq`, `event` and `candidate` added.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._seq = 0

    def __call__(self, event: Event) -> None:
        """Write an event's line."""
        match event:
            case RunStarted():
                self._write(event.run_id, "run_started", slots=event.slots)
            case PhaseStarted():
                detail = encodable(event.detail)
                self._write(event.run_id, "phase_started", phase=event.phase, detail=detail)
            case CandidateMoved():
                self._write(
                    event.run_id, "candidate_moved", event.candidate, stage=event.stage.value, slot=event.slot
                )
            case CandidateFinished():
                result = candidate_document(event.result)
                self._write(event.run_id, "candidate_finished", event.candidate, result=result)
            case Warned():
                self._write(event.run_id, "warned", message=encodable(event.message))
            case RunWaits():
                self._write(event.run_id, "run_waits", why=event.why)
            case StepChanged():
                self._write(event.run_id, "step_changed", step=event.step, done=event.done, total=event.total)
            case RaceProgress():
                more = asdict(event)
                self._write(more.pop("run_id"), "race_progress", more.pop("leader"), **more)
            case RunFinished():
                pass  # `finish` writes it, with the same line for runs that failed before they began
            case _:
                assert_never(event)

    def finish(self, data: Document) -> None:
        """Write the last line."""
        self._write(data["run_id"], "run_finished", **{k: v for k, v in data.items() if k != "run_id"})

    def _write(self, run_id: str, event: str, candidate: str | None = None, /, **more: Any) -> None:
        name = None if candidate is None else encodable(candidate)
        line = {"run_id": run_id, "seq": self._seq, "event": event, "candidate": name, **more}
        self._stream.write(json.dumps(line, allow_nan=False) + "\n")
        self._stream.flush()
        self._seq += 1
