"""One event a line, while it happens; the last line is the document of the run."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any, TextIO

from codeflash_parallel.result.events import Event, RunFinished
from codeflash_parallel.result.result_document import Document, candidate_document
from codeflash_parallel.result.result_model import CandidateResult
from codeflash_parallel.result.safe_text import encodable


class JsonLines:
    """An observer that writes each event as a line of JSON: `run_id`, `seq`, `event`, `candidate`, fields.

    `finish` must be called once with the run's document, also when the run failed: it is the last line, the
    document itself with `seq`, `event` and `candidate` added.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._seq = 0

    def __call__(self, event: Event) -> None:
        """Write an event's line; that of the end is `finish`'s, also for runs that never began."""
        if isinstance(event, RunFinished):
            return
        told = {field.name: _plain(getattr(event, field.name)) for field in fields(event)}
        candidate = told.pop("candidate") if "candidate" in told else told.pop("leader", None)
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).lower()
        self._write(told.pop("run_id"), name, candidate, told)

    def finish(self, data: Document) -> None:
        """Write the last line."""
        self._write(data["run_id"], "run_finished", None, {k: v for k, v in data.items() if k != "run_id"})

    def _write(self, run_id: str, event: str, candidate: str | None, more: Document) -> None:
        line = {"run_id": run_id, "seq": self._seq, "event": event, "candidate": candidate, **more}
        self._stream.write(json.dumps(line, allow_nan=False) + "\n")
        self._stream.flush()
        self._seq += 1


def _plain(value: Any) -> Any:
    if isinstance(value, CandidateResult):
        return candidate_document(value)
    return encodable(value) if isinstance(value, str) else value
