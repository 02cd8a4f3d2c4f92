"""A program that starts a run, or resumes one, and kills itself with SIGKILL right after some step.

Its argument is a JSON object: `project`, `cache`, `run` (empty: start one), `after` (beginning of the name of
the file that is written then), `race` and `asked` (where the providers write down what they were asked
about). It prints the verdicts if it comes to its end.
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
from codeflash_parallel.repair.provider_protocol import RefinementRequest, RepairRequest
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.run import run_state

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
    """Kill this process once a file whose name begins so has been written."""

    def note(path: Path) -> None:
        if name and path.name.startswith(name):
            os.kill(os.getpid(), signal.SIGKILL)

    write_durably, put = run_state.write_durably, run_state.StepCache.put

    def writing(path: Path, data: bytes) -> None:
        write_durably(path, data)
        note(path)

    def putting(cache: run_state.StepCache, result: Any, value: object, kind: Any, *key: object) -> None:
        put(cache, result, value, kind, *key)
        note(cache._path(kind, key))

    run_state.write_durably = writing
    run_state.StepCache.put = putting  # type: ignore[method-assign]


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
