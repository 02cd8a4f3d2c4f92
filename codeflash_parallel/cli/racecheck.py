"""`doctor --race`: how well this machine can measure, tried on identical arms within a minute."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import anyio

from codeflash_parallel.cli.exits import Interrupted
from codeflash_parallel.cli.interrupts import Interrupts, handling_signals
from codeflash_parallel.cli.output import Output
from codeflash_parallel.model.settings import Settings

if TYPE_CHECKING:
    from codeflash_parallel.benchmark.fitness import Fitness, Needed, Recorded
    from codeflash_parallel.engine.rehearsal import Going, Venue

#: Wall seconds for which rounds of each workload are recorded.
RECORD_S = 12.0

#: Wall seconds that recording and drawing should take together: less than a minute with the starts of
#: processes, on a busy machine, too. So much is left for drawing at least.
WHOLE_S, LEAST_DRAWING_S = 54.0, 8.0

#: Of the time for drawing: the share of campaigns of identical candidates, and of each difference.
SAME_SHARE, EACH_SHARE = 0.64, 0.12

#: Campaigns that are enough, and that are drawn however long they take.
ENOUGH, LEAST = 1000, 20

#: Goes to the beginning of a terminal's line and clears it.
_CLEAR = "\r\x1b[K"


def check_race(settings: Settings, interpreter: Path, cache: Path, output: Output) -> tuple[Fitness, ...]:
    """Return what identical arms of every workload tell about this machine.

    Raises:
        Interrupted: a signal came; every process and file is gone.
        EnvironmentFault: another race has the machine, or the arms cannot be run.
    """
    from codeflash_parallel.benchmark.fitness import fitness
    from codeflash_parallel.engine.rehearsal import Venue
    from codeflash_parallel.process.quiet import host_quiet

    random = Random(settings.seed or None)  # noqa: S311 - no secret
    with handling_signals(output) as interrupts, _Board() as board:
        quiet = host_quiet(os.environ, board.waits)
        venue = Venue(interpreter=interpreter, cache=cache, seconds=RECORD_S, random=random, quiet=quiet)
        recorded = anyio.run(_recorded, settings, venue, board, interrupts)
        interrupts.passed_to(_raise)
        left_s = max(LEAST_DRAWING_S, WHOLE_S - sum(one.seconds for one in recorded)) / len(recorded)
        same, each = partial(_tries, SAME_SHARE * left_s), partial(_tries, EACH_SHARE * left_s)
        found = []
        for one in recorded:
            board.say(f"{one.work}: races are drawn from {len(one.rounds)} rounds")
            found.append(fitness(one, same, each, random))
        return tuple(found)


async def _recorded(
    settings: Settings, venue: Venue, board: _Board, interrupts: Interrupts
) -> tuple[Recorded, ...]:
    from codeflash_parallel.engine.rehearsal import rehearse

    loop, scope = asyncio.get_running_loop(), anyio.CancelScope()
    interrupts.passed_to(lambda _name: loop.call_soon_threadsafe(scope.cancel))
    with scope:
        return await rehearse(settings, venue, board)
    raise Interrupted(interrupts.received)


def _raise(name: str) -> NoReturn:
    raise Interrupted(name)


def _tries(seconds: float) -> Iterator[int]:
    """Yield for as long as there is time."""
    end = time.monotonic() + seconds
    for number in range(ENOUGH):
        if number >= LEAST and time.monotonic() > end:
            return
        yield number


class _Board:
    """Says on standard error what is going on: one line that changes on a terminal, else a line a stage."""

    def __init__(self) -> None:
        self._stream = sys.stderr
        self._live = self._stream.isatty()
        self._stage = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write(_CLEAR if self._live else "")

    def __call__(self, going: Going) -> None:
        """Show how far a workload is."""
        if self._live:
            self.say(f"{going.work}: timed for {min(going.seconds, going.of):.0f} of {going.of:.0f} s")
        elif going.work != self._stage:
            self._stage = going.work
            self.say(f"{going.work}: timed for {going.of:.0f} s")

    def waits(self, why: str) -> None:
        """Say why nothing goes on."""
        if why:
            self.say(f"waits: {why}")

    def say(self, text: str) -> None:
        """Show one line."""
        self._write(f"{_CLEAR}doctor: {text}" if self._live else f"doctor: {text}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def race_data(found: Sequence[Fitness]) -> list[dict[str, Any]]:
    """Return everything as JSON values; shares are fractions."""
    return [asdict(one) for one in found]


def race_rows(one: Fitness) -> list[tuple[str, str]]:
    """Return what is shown of one workload."""
    void = f", {one.void} of them void" if one.void else ""
    return [
        ("rounds", f"{one.rounds} in {one.seconds:.0f} s{void}"),
        ("spread of a round", f"{100 * one.unit_sd:.1f} % (standard deviation between identical arms)"),
        ("cores", f"the slowest is {100 * one.core_asymmetry:.1f} % slower than the fastest"),
        ("wall / CPU", f"{one.wall_per_cpu:.2f}"),
        ("false winners", _false_winners(one)),
        *((f"{100 * needed.gain:.0f} % faster", _needed(needed)) for needed in one.needed),
    ]


def _false_winners(one: Fitness) -> str:
    drawn = f"{one.false_wins} of {one.campaigns} races drawn from these rounds"
    return f"{drawn}: below {100 * one.false_bound:.2g} %"


def _needed(needed: Needed) -> str:
    if needed.seconds is None:
        return "not claimed: no more than --min-speedup"
    found = f"{needed.found} of {needed.campaigns} races"
    if needed.is_usual:
        return f"about {needed.seconds:.0f} s, found by {found}"
    return f"found by {found} only; a longer one would need about {needed.seconds:.0f} s"
