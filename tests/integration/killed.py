"""A program that begins a run, or goes on with one, and kills itself with SIGKILL right after some event.

Its argument is a JSON object: `project`, `cache`, `run` (empty: begin one), `after` (name of the event's
class, or `race`: the first race that is recorded), `race` and `asked` (where the providers write down whom
they were asked about). It prints the verdicts if it comes to its end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from projects import FAST_TOTAL, WRONG_TOTAL

from codeflash_parallel import Answer, Evaluator, RaceMode, Replacement, Settings, Submission
from codeflash_parallel.race.race_record import RaceRecord
from codeflash_parallel.repair.provider_protocol import RefinementRequest, RepairRequest
from codeflash_parallel.result.candidate.candidate_model import CandidateId
from codeflash_parallel.run.store import race_record_store
from codeflash_parallel.run.store.journal import Journal

#: Of all these runs; in new processes, because servers would only cost time here.
SETTINGS = {
    "functions": ("shop/sums.py::total",),
    "parallel_candidates": 2,
    "new_process": True,
    "time_budget": 15.0,
}
FASTER = "def total(values):\n    return sum([v * v for v in values])\n"
CANDIDATES = {"fast": FAST_TOTAL, "wrong": WRONG_TOTAL, "broken": "def total(values)\n"}


def settings(cache: Path) -> Settings:
    return Settings(**{**SETTINGS, "cache_dir": str(cache)})  # type: ignore[arg-type]


def submissions() -> list[Submission]:
    return [
        Submission(id=CandidateId(name), content=Replacement(code=code)) for name, code in CANDIDATES.items()
    ]


class Providers:
    """Answer, and write down what they were asked about."""

    def __init__(self, asked: Path) -> None:
        self._asked = asked

    def _note(self, name: str) -> None:
        with self._asked.open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")

    def repair(self, request: RepairRequest) -> Answer:
        self._note(request.candidate)
        return Answer(content=Replacement(code=FASTER))

    def refine(self, requests: Sequence[RefinementRequest]) -> None:
        self._note("refine " + " ".join(request.candidate for request in requests))


def kill_after(name: str) -> None:
    note, write = Journal.note, race_record_store.RaceRecorder._write

    def noting(self: Journal, *events: Any) -> None:
        note(self, *events)
        if any(type(event).__name__ == name for event in events):
            os.kill(os.getpid(), signal.SIGKILL)

    def writing(self: race_record_store.RaceRecorder, records: Any) -> None:
        write(self, records)
        if name == "race" and any(isinstance(record, RaceRecord) for record in records):
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.note, race_record_store.RaceRecorder._write = noting, writing  # type: ignore[method-assign]


async def main(what: dict[str, Any]) -> None:
    providers = Providers(Path(what["asked"]))
    kill_after(what["after"])
    async with Evaluator(what["project"], settings(Path(what["cache"]))) as evaluator:
        if what["run"]:
            result = await evaluator.resume(what["run"], repairer=providers.repair, refiner=providers.refine)
        else:
            result = await evaluator.evaluate(
                submissions(),
                repairer=providers.repair,
                refiner=providers.refine,
                race=RaceMode.RACE if what["race"] else RaceMode.CHECK,
            )
    sys.stdout.write(json.dumps({c.id: f"{c.status} {c.code}" for c in result.candidates}))


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
