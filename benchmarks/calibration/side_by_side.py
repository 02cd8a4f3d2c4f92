"""The usual ways and the race, one after the other in every campaign, on the same arms."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

import anyio
from end_to_end import Cost, cost_of

from calibration.campaigns import Campaign
from calibration.ground import ground
from calibration.kept import Line
from calibration.live import Contest
from calibration.rivals import Loops, Pyperf, PytestBenchmark, Rival, is_false, is_found
from calibration.work import WORKS, has_package

#: Arms without a true difference, as many as a campaign has candidates.
IDENTICAL = 8

#: The one that is truly faster takes the place of one of them where power is asked for.
FAST = "fast"


def ways(python: Path, tests: int, loop_s: float, pyperf: Sequence[str]) -> list[Rival]:
    """Return the ways that this interpreter has; say which are skipped."""
    known: list[Rival] = [
        Loops(python=python, tests=tests, seconds=loop_s),
        Pyperf(python=python, tests=tests, options=tuple(pyperf)),
        PytestBenchmark(python=python, tests=tests),
    ]
    for rival in known:
        if not has_package(python, rival.needs):
            print(f"skipped: {rival.name}: {python} has no {rival.needs}")
    return [rival for rival in known if has_package(python, rival.needs)]


def of_rival(rival: Rival, roots: Mapping[str, Path], baseline: Path) -> Line:
    """Time the baseline and all arms by one way; both questions are asked of the same figures."""
    cost = cost_of(lambda: [rival.time(root) for root in (baseline, *roots.values())])
    said = {arm: rival.compare(baseline, root) for arm, root in roots.items()}
    identical = {arm: one for arm, one in said.items() if arm != FAST}
    field = dict([*identical.items()][1:]) | {FAST: said[FAST]}
    return {
        "way": rival.name,
        "false": is_false(identical),
        "found": is_found(field, FAST),
        **per_arm(cost, 1 + len(roots)),
    }


def per_arm(cost: Cost, arms: int) -> Line:
    return {"wall_s": cost.wall_s / arms, "cpu_s": cost.cpu_s / arms}


def of_race(python: Path, work: str, tests: int, gain: float) -> Line:
    """Race the identical arms, and then the field with the faster one."""
    identical = {f"arm{number}": 1.0 for number in range(IDENTICAL)}
    field = {**dict([*identical.items()][1:]), FAST: gain}
    held: list[Campaign] = []

    async def hold() -> None:
        async with ground(python) as place:
            for label, gains in (("null", identical), ("power", field)):
                contest = await Contest.on(place.course(label, work, tests), gains)
                held.append(await contest.hold(gains, Random()))

    cost = cost_of(lambda: anyio.run(hold))
    null, power = held
    found = power.named[:1] == (max(power.gains),)
    return {"way": "race", "false": null.is_false, "found": found, **per_arm(cost, 2 * (1 + IDENTICAL))}


def side_by_side(
    python: Path, work: str, tests: int, *, gain: float, rivals: Sequence[Rival]
) -> Iterator[Line]:
    """Yield a line for each way."""
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as name:
        gains = {f"arm{number}": 1.0 for number in range(IDENTICAL)} | {FAST: gain}
        sources = {arm: WORKS[work].source(arm, value) for arm, value in gains.items()}
        baseline = folder_of(Path(name) / "base", WORKS[work].source("base"))
        roots = {arm: folder_of(Path(name) / arm, text) for arm, text in sources.items()}
        for rival in rivals:
            yield of_rival(rival, roots, baseline)
    yield of_race(python, work, tests, gain)


def folder_of(root: Path, source: str) -> Path:
    """Make the folder of one arm of a rival."""
    root.mkdir()
    (root / "mod.py").write_text(source, encoding="utf-8")
    return root
