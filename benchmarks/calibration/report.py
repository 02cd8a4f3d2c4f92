"""Reads the state of a calibration and makes its figures."""

from __future__ import annotations

import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from statistics import median

from calibration.campaigns import SCENARIOS, Campaign, stretches
from calibration.exact import Rate
from calibration.kept import Kept, Line
from calibration.page import (
    FALSE,
    FOUND,
    NOISY,
    aims_of,
    campaigns_table,
    contradictions,
    counted,
    coverage,
    table,
)
from calibration.traces import Cell, Layout, Traces
from calibration.work import WORKS
from codeflash_parallel.race.plan import RaceStage
from codeflash_parallel.race.statistics.sequential_test import unit_sd


def figures(state: Path) -> str:
    """Return all sections for which there are figures."""
    traces = Traces(state / "traces")
    drawn, live = (by_cell(Kept(state / name)) for name in ("replay.jsonl", "live.jsonl"))
    sections = [
        machine(),
        recorded(traces),
        *(drawn_at(drawn, workers, is_long) for workers, is_long in kinds_of(drawn)),
        cells_of(drawn),
        *(witnessed(drawn, live, workers) for workers in loads(live)),
        side_by_side([*Kept(state / "rivals.jsonl")]),
        on_packages([*Kept(state / "packages.jsonl")]),
    ]
    return "\n\n".join(section for section in sections if section)


def machine() -> str:
    cores, day = len(os.sched_getaffinity(0)), datetime.now(UTC).date()
    return (
        f"_{day}, {cores} cores, Python {platform.python_version()}. Rates stand with their exact 95 % "
        "bounds (Clopper and Pearson) and counts._"
    )


def background(workers: int) -> str:
    return f"with {workers} busy processes in the background" if workers else "quiet"


ByCell = dict[tuple[str, Cell], list[Campaign]]


def by_cell(lines: Iterable[Line]) -> ByCell:
    """Group campaigns by scenario and cell."""
    found: ByCell = defaultdict(list)
    for line in lines:
        found[line["scenario"], Cell(**line["cell"])].append(Campaign.from_json(line["campaign"]))
    return found


def loads(cases: ByCell) -> list[int]:
    return sorted({cell.workers for _, cell in cases})


def kinds_of(cases: ByCell) -> list[tuple[int, bool]]:
    """Return the background loads, and whether calls are long, of which there are campaigns."""
    return sorted({(cell.workers, WORKS[cell.work].is_long) for _, cell in cases})


def merged(cases: ByCell, key: Callable[[str, Cell], str]) -> dict[str, list[Campaign]]:
    """Throw together what has the same key, in the order of the scenarios."""
    found: dict[str, list[Campaign]] = defaultdict(list)
    for (scenario, cell), campaigns in cases.items():
        found[key(scenario, cell)].extend(campaigns)
    return found


def recorded(traces: Traces) -> str:
    """Return what was recorded: how much, how noisy, how many rounds were void."""
    rows = [recorded_row(cell, traces) for cell in traces.cells()]
    header = ["work, tests, background", "layouts", "rounds", "void", "sd of a round", "one each", "load"]
    return (
        '### Recorded\n\nIdentical arms, in the real runner. "One each" is the sd where two rounds share '
        f"new processes, as in the confirmation.\n\n{table(header, rows)}"
    )


def recorded_row(cell: Cell, traces: Traces) -> list[str]:
    race, confirmation = (traces.layouts(cell, stage) for stage in RaceStage)
    rounds = [round_ for layout in race + confirmation for round_ in layout.raced.rounds]
    return [
        f"{WORKS[cell.work].call} ({cell.work}), {cell.tests}, {background(cell.workers)}",
        str(len(race)),
        str(len(rounds)),
        f"{100 * sum(bool(round_.void) for round_ in rounds) / len(rounds):.0f} %",
        f"{100 * sd_of(race):.1f} %",
        f"{100 * sd_of(confirmation):.1f} %",
        f"{median(layout.load for layout in race + confirmation):.1f}",
    ]


def sd_of(layouts: Sequence[Layout]) -> float:
    """Return the usual spread of one round's log-ratio; every candidate of a field is looked at alone."""
    parts = stretches(layouts)
    arms = layouts[0].raced.candidates
    spreads = []
    for arm in arms:
        values = tuple(chain.from_iterable(part.tracks[arm].total for part in parts))
        spreads.append(unit_sd(replace(parts[0].tracks[arm], total=values)))
    return median(spreads)


def drawn_at(drawn: ByCell, workers: int, is_long: bool) -> str:  # noqa: FBT001 - one of two tables
    """Return the table of the drawn campaigns under one background load, of short calls or of long ones."""
    kind = workers, is_long
    here = {k: found for k, found in drawn.items() if (k[1].workers, WORKS[k[1].work].is_long) == kind}
    cases = merged(here, lambda scenario, _: scenario)
    count = counted(len({cell for _, cell in here}), "combination")
    aims = table(["aim", "bar", "drawn", ""], [aim.row for aim in aims_of(cases)])
    about = (
        f"{background(workers)}, calls of {', '.join(sorted({WORKS[cell.work].call for _, cell in here}))}"
    )
    return (
        f"### Drawn campaigns, {about}\n\nFrom the records of {count} of work "
        f"and tests, in equal parts.\n\n{campaigns_table(in_order(cases), 'true speedups')}\n\n{aims}"
    )


def in_order(cases: dict[str, list[Campaign]]) -> dict[str, list[Campaign]]:
    return {s.name: cases[s.name] for s in SCENARIOS if s.name in cases}


def cells_of(drawn: ByCell) -> str:
    """Return the main rates of every work and number of tests."""
    cells = sorted({cell for _, cell in drawn}, key=lambda cell: (cell.workers, cell.work, cell.tests))
    header = ["work, tests, background", "false winners, 8 identical"]
    header += ["1.05 alone found", "1.03 among 8 found", "too noisy, all", "bounds hold the truth"]
    rows = [
        [
            f"{WORKS[cell.work].call} ({cell.work}), {cell.tests}, {background(cell.workers)}",
            str(FALSE.rate(drawn.get(("8 identical", cell), []))),
            str(FOUND.rate(drawn.get(("1.05 alone", cell), []))),
            str(FOUND.rate(drawn.get(("1.03 among 8", cell), []))),
            str(NOISY.rate(chain.from_iterable(drawn[key] for key in drawn if key[1] == cell))),
            str(coverage(chain.from_iterable(drawn[key] for key in drawn if key[1] == cell))),
        ]
        for cell in cells
    ]
    return f"### By work and number of tests, drawn\n\n{table(header, rows)}" if rows else ""


def witnessed(drawn: ByCell, live: ByCell, workers: int) -> str:
    """Return the table of the live races, and where they contradict those drawn from the same cells."""
    here = {key: found for key, found in live.items() if key[1].workers == workers}
    same = {cell for _, cell in here}
    cases = in_order(merged(here, lambda scenario, _: scenario))
    beside = merged({k: v for k, v in drawn.items() if k[1] in same}, lambda scenario, _: scenario)
    against = contradictions(beside, cases)
    said = "\n".join(f"- {one}" for one in against) or "No rate contradicts that of the drawn campaigns."
    names = "; ".join(sorted(f"{cell.work}, {counted(cell.tests, 'test')}" for cell in same))
    told = said if beside else "Nothing has been drawn from these works yet."
    table_ = campaigns_table(cases, "true speedups")
    return f"### Live races, {background(workers)}\n\n{names}.\n\n{table_}\n\n{told}"


def side_by_side(lines: Sequence[Line]) -> str:
    """Return the table of the usual ways and the race, for each work that they were tried on."""
    kinds = sorted({kind_of(line) for line in lines})
    parts = [side_by_side_of(kind, lines) for kind in kinds]
    return "\n\n".join(["### Side by side", *parts]) if parts else ""


def kind_of(line: Line) -> tuple[str, int, int, float]:
    return line["work"], line["tests"], line["workers"], line["loop_s"]


def side_by_side_of(kind: tuple[str, int, int, float], lines: Sequence[Line]) -> str:
    work, tests, workers, loop_s = kind
    mine = [line for line in lines if kind_of(line) == kind]
    ways = dict.fromkeys(line["way"] for line in mine)
    rows = [way_row(way, [line for line in mine if line["way"] == way]) for way in ways]
    header = ["way", "false winner among 8 identical", "1.05 among 8 named", "wall s an arm", "CPU s an arm"]
    about = f"{WORKS[work].call} ({work}), {counted(tests, 'test')}, {background(workers)}"
    load = median(line["load"] for line in mine)
    said = f"{about}; load {load:.1f}; loops of {loop_s:g} s."
    return f"{said}\n\n{table(header, rows)}\n\n{cost_of_race(mine)}".rstrip()


def cost_of_race(lines: Sequence[Line]) -> str:
    """Return what the race costs against the first way, the loops; empty where one of them is missing."""
    loops = [line for line in lines if line["way"].startswith("loops")]
    races = [line for line in lines if line["way"] == "race"]
    if not loops or not races:
        return ""
    wall, cpu = (median(r[key] for r in races) / median(o[key] for o in loops) for key in ("wall_s", "cpu_s"))
    return (
        f"The race takes {wall:.2f} of the loops' wall seconds (aim: 0.20) and {cpu:.2f} of their CPU (0.10)."
    )


def way_row(way: str, lines: Sequence[Line]) -> list[str]:
    return [
        way,
        str(Rate.of(line["false"] for line in lines)),
        str(Rate.of(line["found"] for line in lines)),
        f"{median(line['wall_s'] for line in lines):.2f}",
        f"{median(line['cpu_s'] for line in lines):.2f}",
    ]


def on_packages(lines: Sequence[Line]) -> str:
    """Return the table of real packages."""
    header = ["ten candidates", "loops alone, s", "serial way, wall s", "ours, wall s", "of which race, s"]
    header += ["race's share", "loops / race", "serial way, CPU s", "ours, CPU s", "load"]
    text = table(header, [package_row(line) for line in lines])
    return f"### Ten candidates on real packages\n\n{text}" if lines else ""


def package_row(line: Line) -> list[str]:
    loops_s = line["timed"] * line["loop_s"]
    return [
        line["pin"],
        f"{loops_s:.0f}",
        f"{line['serial_wall_s']:.1f}",
        f"{line['wall_s']:.1f}",
        f"{line['race_s']:.1f}",
        f"{100 * line['race_s'] / line['wall_s']:.0f} %",
        f"{loops_s / line['race_s']:.1f}" if line["race_s"] else "-",
        f"{line['serial_cpu_s']:.1f}",
        f"{line['cpu_s']:.1f}",
        f"{line['load']:.1f}",
    ]
