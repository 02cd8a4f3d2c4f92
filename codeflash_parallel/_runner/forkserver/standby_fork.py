"""The fork that a template makes ahead of its order: to fork takes as long as many a check's tests."""

import socket

from ..channel.order_socket import OrderSocket
from ..process import process_fork

#: How many forks get an order before it is given up: somebody may kill one that waits.
_TRIES = 3


class StandbyFork:
    """The fork that waits, from the template's side; in the fork itself, its line to the template."""

    def __init__(self):
        self._line = None

    def hand_over(self, order, descriptors):
        """Give an order to the fork that waits, to a new one if that was killed; return True in a new one.

        Raises:
            OSError: no fork takes it, or there is no room for one.
        """
        for _ in range(_TRIES):
            if self._line is not None and self._line.pass_on(order, descriptors):
                self._line.close()
                return False
            if self.fork():
                return True
        raise OSError("somebody kills its forks")

    def fork(self):
        """Fork; return True in the fork. Both have their end of a line between them.

        Raises:
            OSError: there is no room for another process.
        """
        self._line = None
        ours, theirs = socket.socketpair()
        try:
            is_fork = process_fork.fork_twice() == 0
        except OSError:
            ours.close()
            theirs.close()
            raise
        mine, other = (theirs, ours) if is_fork else (ours, theirs)
        other.close()
        self._line = OrderSocket(mine.detach())
        return is_fork

    def dismiss(self):
        """Let the fork that waits end."""
        self._line = None

    # ---- in the fork

    def awaited(self):
        """Return this fork's order, and the descriptors that came with it."""
        return self._line.receive()

    def accept(self):
        """Say that the order was taken."""
        self._line.accept()
        self._line = None
