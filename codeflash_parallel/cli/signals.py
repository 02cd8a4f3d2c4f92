"""Ctrl-C and SIGTERM: the first one ends the run in order, the second one at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from codeflash_parallel.cli.exit_codes import BY_SIGNAL, SignalInterrupt, signal_name
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

    def come_too_late(self) -> None:
        """Let the next signal change nothing: there is a result. One more still ends the process at once."""
        self._end = lambda _name: None

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        name = signal_name(number)
        if self.received:
            self._leave(name)
        self.received = name
        if self._end is None:
            raise SignalInterrupt(name)
        self._end(name)

    def _leave(self, name: str) -> None:
        """End the process at once; what is left behind is removed by the next start."""
        with suppress(Exception):  # the handler may have interrupted a write to the same stream
            self._output.write_error(SignalInterrupt(name))
            if sys.stderr.isatty():
                sys.stderr.write(_SHOW_CURSOR)
                sys.stderr.flush()
        os._exit(BY_SIGNAL[name])


@contextmanager
def handling_signals(output: Output) -> Iterator[Interrupts]:
    """Receive signals while the block runs, and ignore them from its end on.

    By then all is said. The interpreter's own handlers would end the process between its last word and its
    exit, with another status than the one that belongs to its document.
    """
    interrupts = Interrupts(output)
    for number in _SIGNALS:
        signal.signal(number, interrupts)
    try:
        yield interrupts
    finally:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
