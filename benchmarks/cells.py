"""Cells of a campaign in a file, a line each: what is there is not made again, so that it can go on."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

Row = dict[str, str]
#: What says that a run did not do what it should; other errors are the campaign's own, and end it.
FAILURES = (AssertionError, pytest.fail.Exception, subprocess.TimeoutExpired)
#: A row, its ``result``, why it is so, and the seconds that it took.
Cell = dict[str, Any]


def worked_through(
    rows: Sequence[Row], make: Callable[[Row], Cell], file: Path, minutes: float
) -> list[Cell]:
    """Make the cells that are not in the file yet, as long as there is time; return all that there are."""
    deadline = time.monotonic() + minutes * 60
    cells = _read(file)
    done = [cell["row"] for cell in cells]
    with file.open("a", encoding="utf-8") as lines:
        for row in (row for row in rows if row not in done):
            if time.monotonic() > deadline:
                break
            started = time.monotonic()
            cells.append({"row": row, **make(row), "seconds": round(time.monotonic() - started, 1)})
            lines.write(json.dumps(cells[-1]) + "\n")
            lines.flush()
            print(json.dumps(cells[-1])[:600], flush=True)
    return [cell for cell in cells if cell["row"] in rows]


def _read(file: Path) -> list[Cell]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
