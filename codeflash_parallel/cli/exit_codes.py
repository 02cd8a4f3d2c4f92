"""Exit codes, and the one place where whatever went wrong becomes one."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType

from codeflash_parallel.cli.output import Output, drop_stdout, last_value
from codeflash_parallel.process.resource_shortage import shortage_of
from codeflash_parallel.result.errors import CodeflashParallelError, InternalError


class ExitCode(IntEnum):
    """What the command line says to a shell."""

    #: A winner or a tie; for `check`: a candidate is equivalent; for other commands: done.
    OK = 0
    #: Nothing is faster, none is correct, or the winner is suspect.
    NO_WINNER = 1
    #: The caller's mistake.
    USAGE = 2
    #: Our mistake; a log file is named.
    INTERNAL = 3
    #: The machine, git or the project's own tests do not allow a verdict.
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
    {
        "usage": ExitCode.USAGE,
        "internal": ExitCode.INTERNAL,
        "environment": ExitCode.UNFIT,
    }
)

BY_SIGNAL = MappingProxyType({"SIGINT": ExitCode.INTERRUPTED, "SIGTERM": ExitCode.TERMINATED})


#: What needs no memory to be said.
_LAST_WORDS = b"error: There is no memory left for the evaluator.\n"


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
    """How the command ends; set inside `reporting_errors`.

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
        drop_stdout()  # whoever read the result has seen enough of it
    except SystemExit as error:
        ending.code = error.code if isinstance(error.code, int) else ExitCode.OK
    except KeyboardInterrupt:
        ending.code = _report(output, SignalInterrupt("SIGINT"))
    except CodeflashParallelError as error:
        logged = error if error.exit_code != ExitCode.INTERNAL else _with_log(error, arguments)
        ending.code = _report(output, logged)
    except BaseExceptionGroup as group:
        ending.code = _report(output, _chosen(group, arguments))
    except Exception as error:  # noqa: BLE001 - the last line of defence: whatever this is, it is our defect
        ending.code = _report(output, shortage_of(error) or _with_log(error, arguments))


def _report(output: Output, error: CodeflashParallelError) -> int:
    try:
        output.write_error(error)
    except BrokenPipeError:
        drop_stdout()
    except MemoryError:
        os.write(2, _LAST_WORDS)
        return ExitCode.UNFIT
    return BY_SIGNAL.get(error.code, ExitCode(error.exit_code))


def _chosen(group: BaseExceptionGroup[BaseException], arguments: Sequence[str]) -> CodeflashParallelError:
    """Return the one error of a task group that a user should see: an interrupt, one of ours, or a defect."""
    if group.subgroup(KeyboardInterrupt) is not None:
        return SignalInterrupt("SIGINT")
    leaves = [shortage_of(error) or error for error in _leaves(group)]
    ours = [error for error in leaves if isinstance(error, CodeflashParallelError)]
    expected = [error for error in ours if error.exit_code != ExitCode.INTERNAL]
    return expected[0] if expected and len(ours) == len(leaves) else _with_log(group, arguments)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _with_log(error: BaseException, arguments: Sequence[str]) -> InternalError:
    """Return an error of ours that names a file with everything worth a report."""
    code = error.code if isinstance(error, CodeflashParallelError) else "UNEXPECTED"
    message = (
        error.message if isinstance(error, CodeflashParallelError) else f"{type(error).__name__}: {error}"
    )
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
    """Yield the cache's folder of logs without reading settings, which may be what is wrong."""
    named = last_value(arguments, "--cache-dir") or os.environ.get("CODEFLASH_PARALLEL_CACHE_DIR")
    with suppress(RuntimeError):  # a user without a home has no cache unless one is named
        yield Path(named or _cache()) / "logs"


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "codeflash-parallel"


def signal_name(number: int) -> str:
    """Return the name of a signal."""
    return signal.Signals(number).name
