"""Become a provider's command, and die with the thread that started us (run by path, isolated)."""

import ctypes
import os
import signal
import sys

#: From <linux/prctl.h>.
PR_SET_PDEATHSIG = 1
#: What shells return for a command that cannot be run.
NOT_FOUND = 127


def main(parent: int, argv: list[str]) -> None:
    """Replace this process by the command."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the signal was set
        os._exit(NOT_FOUND)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - no shell by design
    except OSError as error:
        sys.exit(f"{argv[0]}: {error.strerror}")


main(int(sys.argv[1]), sys.argv[2:])
