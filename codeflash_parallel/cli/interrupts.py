"""Ctrl-C and SIGTERM: the first one ends the run in order, the second one at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from codeflash_parallel.cli.exits import BY_SIGNAL, Interrupted, signal_name
from codeflash_parallel.cli.output import Output

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

#: Makes the cursor visible again: a live board hides it.
_SHOW_CURSOR = "\x1b[?25h"


class Interrupts:
    """Receives signals on the main thread. Invariant: only the first one is passed on.

    Args:
        output: where the document goes when there is no time for a result.
    """

    def __init__(self, output: Output) -> None:
        self.received = ""
        self._output = output
        self._end: Callable[[str], object] | None = None

    def passed_to(self, end: Callable[[str], object]) -> None:
        """Call `end` with the signal's name from now on, instead of raising where the program stands."""
        self._end = end

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        name = signal_name(number)
        if self.received:
            self._leave(name)
        self.received = name
        if self._end is None:
            raise Interrupted(name)
        self._end(name)

    def _leave(self, name: str) -> None:
        """End the process at once; what is left behind is removed by the next start."""
        with suppress(Exception):  # the handler may have interrupted a write to the same stream
            self._output.write_error(Interrupted(name))
            if sys.stderr.isatty():
                sys.stderr.write(_SHOW_CURSOR)
                sys.stderr.flush()
        os._exit(BY_SIGNAL[name])


@contextmanager
def handling_signals(output: Output) -> Iterator[Interrupts]:
    """Receive signals while the block runs, and leave the handlers as they were."""
    interrupts = Interrupts(output)
    before = {number: signal.signal(number, interrupts) for number in _SIGNALS}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
