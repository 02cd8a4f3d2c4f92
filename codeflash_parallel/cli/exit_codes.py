"""Exit codes, the one place where an exception becomes one, and signals."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from types import FrameType, MappingProxyType

from codeflash_parallel.cli.output import Output, drop_stdout, last_value
from codeflash_parallel.process.machine import shortage_of
from codeflash_parallel.result.errors import CodeflashParallelError, InternalError


class ExitCode(IntEnum):
    """Exit codes of the command line."""

    #: A winner or a tie; `check`: a candidate is equivalent; `gate`: not slower; other commands: done.
    OK = 0
    #: Nothing is faster, none is correct, or the winner is suspect; `gate`: slower.
    NO_WINNER = 1
    #: The caller's mistake.
    USAGE = 2
    #: Our mistake; a log file is named.
    INTERNAL = 3
    #: The machine, git or the project's own tests do not allow a verdict; `gate`: too noisy, or not raced.
    UNFIT = 4
    #: `queue wait`: the time is up and the job is not done; ask again. `queue result`: it is not done yet.
    STILL_WAITING = 6
    #: Candidates are equivalent, and the race was not held: other races had the machine for too long.
    NOT_HELD = 7
    #: Interrupted (SIGINT).
    INTERRUPTED = 130
    #: Terminated (SIGTERM).
    TERMINATED = 143


BY_FAMILY = MappingProxyType(
    {"usage": ExitCode.USAGE, "internal": ExitCode.INTERNAL, "environment": ExitCode.UNFIT}
)

BY_SIGNAL = MappingProxyType({"SIGINT": ExitCode.INTERRUPTED, "SIGTERM": ExitCode.TERMINATED})

#: Message that needs no memory.
_LAST_WORDS = b"error: There is no memory left for the evaluator.\n"

#: Makes the cursor visible again: a live board hides it.
SHOW_CURSOR = "\x1b[?25h"


class SignalInterrupt(CodeflashParallelError):  # noqa: N818 - a state, not an error
    """A signal ended the command before it had a result.

    Args:
        name: the signal's name.
    """

    family = "interrupted"
    exit_code = ExitCode.INTERRUPTED

    def __init__(self, name: str) -> None:
        super().__init__(name, "Interrupted.")


class CommandExit:
    """The exit code of the command; set inside `reporting_errors`.

    No dataclass: `--help` would load what those are made with, half of what it takes.
    """

    def __init__(self) -> None:
        self.code: int = ExitCode.OK


@contextmanager
def reporting_errors(output: Output, arguments: Sequence[str]) -> Iterator[CommandExit]:
    """Turn everything that is raised into a message or document and an exit code.

    Args:
        output: where the message or document goes.
        arguments: the command line; it may name the cache, where logs of defects go.
    """
    ending = CommandExit()
    try:
        yield ending
    except BrokenPipeError:
        drop_stdout()  # the reader has seen enough
    except SystemExit as error:  # a parser's, after its help
        ending.code = error.code if isinstance(error.code, int) else ExitCode.OK
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:  # noqa: BLE001 - the last line of defence
        ending.code = _report(output, _shown_error(error, arguments))


def _report(output: Output, error: CodeflashParallelError) -> int:
    try:
        output.write_error(error)
    except BrokenPipeError:
        drop_stdout()
    except MemoryError:
        os.write(2, _LAST_WORDS)
        return ExitCode.UNFIT
    return BY_SIGNAL.get(error.code, ExitCode(error.exit_code))


def _shown_error(error: BaseException, arguments: Sequence[str]) -> CodeflashParallelError:
    """Return the one error that a user should see: an interrupt, an expected one of ours, or a defect."""
    leaves = [shortage_of(leaf) or leaf for leaf in _leaves(error)]
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
        return SignalInterrupt("SIGINT")
    ours = [leaf for leaf in leaves if isinstance(leaf, CodeflashParallelError)]
    expected = [leaf for leaf in ours if leaf.exit_code != ExitCode.INTERNAL]
    if expected and len(ours) == len(leaves):
        return expected[0]
    return _with_log(error, arguments)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _with_log(error: BaseException, arguments: Sequence[str]) -> InternalError:
    """Return an error of ours that names a file with everything worth a report."""
    code, message = "UNEXPECTED", f"{type(error).__name__}: {error}"
    if isinstance(error, CodeflashParallelError):
        code, message = error.code, error.message
    path = _write_log(error, arguments)
    hint = f"This is a defect of codeflash-parallel; please report it with {path}." if path else ""
    return InternalError(code, message, hint)


def _write_log(error: BaseException, arguments: Sequence[str]) -> Path | None:
    """Write what is known about a defect into the cache, else a temporary folder; `None`: neither works."""
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(error))
    about = f"command: {sys.argv}\npython: {sys.version}\nplatform: {sys.platform}\n\n{text}"
    for folder in (*_log_folders(arguments), Path(tempfile.gettempdir())):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            handle, path = tempfile.mkstemp(prefix="codeflash-parallel-", suffix=".log", dir=folder)
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(about)
            return Path(path)
    return None


def _log_folders(arguments: Sequence[str]) -> Iterator[Path]:
    """Yield the cache's folder of logs; no file of settings is read, which may be what is wrong."""
    from codeflash_parallel.config.settings import Settings
    from codeflash_parallel.config.settings_reader import cache_root

    named = last_value(arguments, "--cache-dir") or os.environ.get("CODEFLASH_PARALLEL_CACHE_DIR", "")
    with suppress(CodeflashParallelError):  # a user without a home has no cache unless one is named
        yield cache_root(Settings(cache_dir=named)) / "logs"


class Interrupts:
    """Receive signals on the main thread. Invariant: only the first one is passed on.

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
        name = signal.Signals(number).name
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
                sys.stderr.write(SHOW_CURSOR)
                sys.stderr.flush()
        os._exit(BY_SIGNAL[name])


@contextmanager
def handling_signals(output: Output) -> Iterator[Interrupts]:
    """Receive SIGINT and SIGTERM while the block runs, and ignore them from its end on.

    By then the result is written. The interpreter's own handlers would end the process between its last word
    and its exit, with another status than the one that belongs to its document.
    """
    interrupts = Interrupts(output)
    for name in BY_SIGNAL:
        signal.signal(signal.Signals[name], interrupts)
    try:
        yield interrupts
    finally:
        for name in BY_SIGNAL:
            signal.signal(signal.Signals[name], signal.SIG_IGN)
