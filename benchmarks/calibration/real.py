"""Ten candidates on a real package: a serial loop against one run, and the race's part in that run."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import anyio
from end_to_end import cost_of, make_case, ours, serial_loop, ten_candidates

from calibration.kept import Line
from codeflash_parallel import RunResult

CANDIDATES = 10


def compared(name: str, loop_s: float) -> Line:
    """Run both ways, one after the other, on the same repository and candidates."""
    # Both ways without the plugins of this environment, which the projects do not ask for.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="race-calibration-") as folder_name:
        folder = Path(folder_name)
        case = make_case(name, folder)
        submissions = ten_candidates(case.project, case.repository, folder / "candidates", CANDIDATES)
        timed: list[int] = []
        results: list[RunResult] = []

        async def evaluate() -> None:
            results.append(await ours(case, submissions))

        serial = cost_of(lambda: timed.append(serial_loop(case, submissions, loop_s)))
        own = cost_of(lambda: anyio.run(evaluate))
    return {
        "package": name,
        "pin": case.project.pin,
        "load": load,
        "loop_s": loop_s,
        "timed": timed[0],
        "serial_wall_s": serial.wall_s,
        "serial_cpu_s": serial.cpu_s,
        "wall_s": own.wall_s,
        "cpu_s": own.cpu_s,
        "race_s": results[0].timings.get("race", 0.0) / 1e3,
        "summary": results[0].summary,
    }
