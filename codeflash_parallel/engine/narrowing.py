"""Which of the selected tests come first, where a candidate changes only some of the targets.

The tests that execute what is changed are run alone on the unchanged snapshot, once for each set of changed
targets and when that begins to pay. If they pass there, they come first: a candidate that fails among them is
rejected without the others. One that does not runs all: a test that executes no changed target may still
live on what another test has made of it, a cache for example, and nobody can know that. The answers are kept
beside the baseline.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import anyio
import anyio.to_thread

from codeflash_parallel.behavior.plan import CheckPlan
from codeflash_parallel.behavior.points import Point, Serving
from codeflash_parallel.behavior.selection import (
    as_baseline,
    needed_tests,
    pays,
    unambiguous,
    unselected,
)
from codeflash_parallel.behavior.serving import Servers
from codeflash_parallel.engine.trial import trial
from codeflash_parallel.model.candidate import Candidate
from codeflash_parallel.process.files import write_atomically
from codeflash_parallel.worktrees.pool import Slot

#: How many test ids one message names.
_NAMED = 5

#: Numbers of the targets whose bodies a candidate changes, and nothing else.
Changed = frozenset[int]


class _State(StrEnum):
    """What is known of the tests that execute some targets."""

    #: Nothing.
    UNKNOWN = "unknown"
    #: They depend on the others, or on who knows what: all are run.
    WHOLE = "whole"
    #: They pass alone.
    TRIED = "tried"


@dataclass(slots=True)
class _Choice:
    """What is known of the candidates that change the same targets.

    Attributes:
        needed: ids of the tests that they need, in the order of screening.
        met: how many of these candidates there were in this run.
        busy: somebody finds out more.
    """

    needed: tuple[str, ...]
    state: _State = _State.UNKNOWN
    met: int = 0
    busy: bool = False

    @contextmanager
    def finding_out(self) -> Iterator[None]:
        """Keep others from finding out the same; they go by what is known so far."""
        self.busy = True
        try:
            yield
        finally:
            self.busy = False


class Narrowing:
    """The choices of one run.

    Args:
        plan: of the run.
        path: file of the answers; what cannot be read or written is found out again.
        serving: says what a candidate changes.
        warn: told what a person should know.
    """

    def __init__(
        self,
        plan: CheckPlan,
        path: Path,
        serving: Callable[[Candidate], Serving],
        warn: Callable[[str], None],
    ) -> None:
        self._plan, self._path, self._serving, self._warn = plan, path, serving, warn
        self._numbers = {target: number for number, target in enumerate(plan.guest.targets)}
        self._clear = unambiguous(plan.guest.targets, plan.sources)
        self._choices: dict[Changed, _Choice] = {}
        self._reading, self._read = anyio.Lock(), False

    def plan(self, candidate: Candidate) -> CheckPlan:
        """Return how a candidate is checked, by what is known now."""
        if not self._possible:
            return self._plan
        choice = self._choices.get(self._changed(candidate))
        if choice is None or choice.state in (_State.UNKNOWN, _State.WHOLE):
            return self._plan
        return replace(self._plan, front=choice.needed)

    async def prepare(self, candidate: Candidate, slot: Slot, servers: Servers | None) -> None:
        """Find out more about the candidates that change the same, if it pays; the slot is and stays clean.

        Raises:
            SlotBroken, EnvironmentFault: as a check does. Cancelling kills what runs.
        """
        changed = self._changed(candidate) if self._possible else frozenset[int]()
        choice = await self._choice(changed)
        if choice is None or choice.busy:
            return
        choice.met += 1
        unknown = choice.state is _State.UNKNOWN
        if unknown and pays(self._plan.baseline, choice.needed, self._others(choice), choice.met):
            with choice.finding_out():
                await self._try(choice, slot, servers)

    # --- what a candidate changes ----------------------------------------------------------------------

    @property
    def _possible(self) -> bool:
        """Whether candidates can differ in what they change."""
        return len(self._numbers) > 1 and bool(self._plan.baseline.touched)

    def _changed(self, candidate: Candidate) -> Changed:
        """Return the targets that a candidate changes; none where it changes anything else, too."""
        serving = self._serving(candidate)
        numbers = frozenset(self._numbers[target] for target in serving.swap)
        return numbers if serving.point is Point.F2 and numbers <= self._clear else frozenset()

    async def _choice(self, changed: Changed) -> _Choice | None:
        """Return what is known of some targets; `None`: there is nothing to choose."""
        if not changed:
            return None
        async with self._reading:
            if not self._read:
                self._choices = await anyio.to_thread.run_sync(self._load)
                self._read = True
        if changed not in self._choices:
            self._choices[changed] = self._fresh(changed)
        choice = self._choices[changed]
        return choice if self._others(choice) else None

    def _fresh(self, changed: Changed) -> _Choice:
        """Return the choice of which nothing is known."""
        baseline = self._plan.baseline
        wanted = frozenset(needed_tests(baseline, changed))
        return _Choice(needed=tuple(test for test in as_baseline(baseline).tests if test in wanted))

    def _others(self, choice: _Choice) -> tuple[str, ...]:
        """Return the selected tests that are not needed, in the order of screening."""
        return unselected(as_baseline(self._plan.baseline).tests, choice.needed)

    # --- finding out -----------------------------------------------------------------------------------

    async def _try(self, choice: _Choice, slot: Slot, servers: Servers | None) -> None:
        """Run the needed tests alone."""
        passed = await trial(self._plan, slot.workspace, choice.needed, servers)
        await slot.discard()
        red = unselected(choice.needed, passed)
        choice.state = _State.WHOLE if red else _State.TRIED
        if red:
            self._warn(f"{_named(red)} needs tests that do not execute the same targets: these are run, too.")
        await anyio.to_thread.run_sync(self._save)

    # --- answers ---------------------------------------------------------------------------------------

    def _load(self) -> dict[Changed, _Choice]:
        """Blocks."""
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
            return dict(self._known(*known) for known in data)
        except (OSError, ValueError, TypeError):
            return {}

    def _known(self, numbers: Iterable[int], state: str) -> tuple[Changed, _Choice]:
        changed = frozenset(map(int, numbers))
        return changed, replace(self._fresh(changed), state=_State(state))

    def _save(self) -> None:
        """Blocks."""
        choices = sorted(self._choices.items(), key=lambda item: sorted(item[0]))
        known = [(changed, choice) for changed, choice in choices if choice.state is not _State.UNKNOWN]
        data = [[sorted(changed), choice.state] for changed, choice in known]
        with suppress(OSError):
            write_atomically(self._path, json.dumps(data).encode())


def _named(tests: Sequence[str]) -> str:
    more = f" and {len(tests) - _NAMED} more" if len(tests) > _NAMED else ""
    return ", ".join(tests[:_NAMED]) + more
