"""What the operating system says when it has no more to give, as one line for a user. Pure."""

from __future__ import annotations

import errno

from codeflash_parallel.result.errors import EnvironmentFault

#: Python's words where a thread cannot be started; that error has no class or number of its own.
_NO_THREAD = "can't start new thread"
#: With 64 no child can be started (`process.supervisor.spawner` moves descriptors above that); with 128 a
#: run of one slot comes to its end (measured: `benchmarks/exhausted.py`).
LEAST_DESCRIPTORS = 128


def shortage_of(error: BaseException) -> EnvironmentFault | None:
    """Return the shortage behind an error; `None` where it is something else."""
    match error:
        case MemoryError():
            return _no_memory()
        case RuntimeError() if _NO_THREAD in str(error):
            return too_few_processes(str(error))
        case OSError():
            return _of_system(error)
        case ImportError(__cause__=OSError() as cause):  # a package that starts programs while it is imported
            return _of_system(cause)
    return None


def _of_system(error: OSError) -> EnvironmentFault | None:
    match error.errno:
        case errno.EMFILE | errno.ENFILE:
            return too_few_descriptors(str(error.strerror))
        case errno.ENOMEM:
            return _no_memory()
        case errno.EAGAIN if error.filename is None:  # what fork says
            return too_few_processes(str(error.strerror))
        case errno.ENOSPC | errno.EDQUOT:
            where = f": {error.filename}" if error.filename else ""
            return EnvironmentFault("DISK_FULL", f"No space is left on the disk{where}.", "Free some space.")
        case errno.EFBIG:
            return EnvironmentFault(
                "DISK_FULL", "No file may become as large as is needed.", "Raise the limit: `ulimit -f`."
            )
    return None


def too_few_descriptors(why: str) -> EnvironmentFault:
    """Return the fault of a limit of open files that is too low."""
    return EnvironmentFault(
        "TOO_FEW_DESCRIPTORS",
        f"Too few files may be open at once: {why}.",
        f"Raise the limit: `ulimit -n 1024`; at least {LEAST_DESCRIPTORS} are asked for.",
    )


def too_few_processes(why: str) -> EnvironmentFault:
    """Return the fault of a limit of processes that is too low."""
    return EnvironmentFault(
        "TOO_FEW_PROCESSES",
        f"No more processes or threads can be started: {why}.",
        "Raise the limit (`ulimit -u`, or that of the container), give more memory, or lower -j.",
    )


def _no_memory() -> EnvironmentFault:
    return EnvironmentFault(
        "NO_MEMORY", "There is no memory left for the evaluator.", "Give it more (`ulimit -v`), or lower -j."
    )
