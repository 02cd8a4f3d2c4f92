"""The pipe before which a fork waits until it has been adopted."""

from __future__ import annotations

import os
import select

from codeflash_parallel.result.errors import EnvironmentFault


class ForkGate:
    """The pipe before which a fork waits: it goes on when it has read a byte, and leaves when it ends."""

    def __init__(self) -> None:
        try:
            self.entrance, self.key = os.pipe2(os.O_CLOEXEC)
        except OSError as error:
            raise no_pipes(error) from error

    def is_passed(self) -> bool:
        """Tell, once the launcher has opened it, whether the fork has gone on."""
        poll = select.poll()
        poll.register(self.entrance, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Close both ends."""
        os.close(self.entrance)
        os.close(self.key)


def no_pipes(error: OSError) -> EnvironmentFault:
    """Return the fault of a machine on which we get no descriptors."""
    return EnvironmentFault(
        "TOO_MANY_FILES",
        f"No pipes can be made for a child: {error}.",
        "Raise the limit of open files (ulimit -n).",
    )
