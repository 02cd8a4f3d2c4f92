"""The log of races, by which the process that is codeflash tells the command what they gave."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionRace:
    """The race of one function's candidates.

    Attributes:
        function: `path.py::qualname`.
        run_id: `codeflash-parallel show` tells about each candidate; empty: there was no run.
        winner: the candidate that codeflash was given, by its name in the run; empty: none.
        summary: one sentence.
        seconds: wall time of the run; codeflash's own measurement of the winner is not part of it.
    """

    function: str
    run_id: str = ""
    winner: str = ""
    summary: str
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceLog:
    """A file with a JSON object a line: races, or why there are none."""

    path: Path

    def note_race(self, race: FunctionRace) -> None:
        """Add a race."""
        self._add({"race": asdict(race)})

    def note_unreplaced(self, why: str) -> None:
        """Note that codeflash evaluates itself."""
        self._add({"why": why})

    def _add(self, entry: object) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def document(self) -> dict[str, Any]:
        """Return what the command says as JSON: `replaced`, `why` it is not, and `functions`."""
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        entries = [json.loads(line) for line in lines]
        why = next((entry["why"] for entry in entries if "why" in entry), "")
        return {
            "replaced": not why,
            "why": why,
            "functions": [entry["race"] for entry in entries if "race" in entry],
        }
