"""Steps of a phase: what the run does at the moment, and how much of it is done."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import anyio

from codeflash_parallel.result.events import StepChanged
from codeflash_parallel.result.runtime_protocols import Watch

#: Observers are told of a count at most this often: a suite may have thousands of tests.
_LEAST_S = 0.25
#: A step that tells nothing new is repeated this often, so that a log shows that the run is alive.
_PULSE_S = 10.0

_COLLECTED = b'{"t": "collected"'
_PASSED = b'{"t": "passed"'
_PHASE, _TEARDOWN = b'{"t": "phase"', b'"when": "teardown"'
#: Records of a replay, one for each call.
_CALLS = (b'{"t": "call"', b'{"t": "answer"', b'{"t": "unreplayable"')


class StepReporter:
    """Tells observers which step a run is at.

    Args:
        announce: passes events to observers.
        run_id: of the run.
    """

    def __init__(self, announce: Callable[[StepChanged], object], run_id: str = "") -> None:
        self._announce, self._run_id = announce, run_id
        self._now = StepChanged(run_id=run_id, step="")
        self._told_s = 0.0

    def beside(self, is_told: Callable[[], bool]) -> StepReporter:
        """Return a reporter of what goes on beside the step, which is told while `is_told` says so."""
        return StepReporter(lambda event: self._tell(event) if is_told() else None, self._run_id)

    def begin(self, step: str, total: int = 0) -> None:
        """Begin a step.

        Args:
            step: what is done, one clause; empty: nothing that needs words.
            total: how many tests, calls or rounds it has; 0: not known.
        """
        self._tell(StepChanged(run_id=self._run_id, step=step, total=total))

    def count(self, done: int, total: int) -> None:
        """Tell how much of the step is done."""
        self._now = StepChanged(run_id=self._run_id, step=self._now.step, done=done, total=total)
        if monotonic() - self._told_s >= _LEAST_S:
            self._tell(self._now)

    def tests(self, step: str) -> Watch:
        """Begin a step that runs tests; return what counts them in the records of their process."""
        self.begin(step)
        return _Counter(self.count, 0)

    def calls(self, step: str, total: int) -> Watch:
        """Begin a step that makes calls; return what counts them in the records of their process."""
        self.begin(step, total)
        return _Counter(self.count, total)

    async def pulse(self) -> None:
        """Repeat the step from time to time, until cancelled."""
        while True:
            await anyio.sleep(_PULSE_S)
            if self._now.step and monotonic() - self._told_s >= _PULSE_S:
                self._tell(self._now)

    def _tell(self, event: StepChanged) -> None:
        self._now, self._told_s = event, monotonic()
        self._announce(event)


class _Counter:
    """Counts tests and calls in records as they arrive."""

    def __init__(self, tell: Callable[[int, int], None], total: int) -> None:
        self._tell, self._total = tell, total
        self._done = 0
        self._rest = b""

    def __call__(self, data: bytes) -> None:
        """Take the next piece of the records."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(_COLLECTED):
                with suppress(ValueError, LookupError, TypeError):
                    self._total = len(json.loads(line)["ids"])
            elif line.startswith((_PASSED, *_CALLS)) or (line.startswith(_PHASE) and _TEARDOWN in line):
                self._done += 1
        self._tell(self._done, self._total)
