"""A fork of a template on its way to be a process of its own."""

import gc
import os
import time

from ..code_swap import code_swapper
from ..process import process_fork
from ..sandbox import confinement
from .fork_safety import COLLECTED


class TemplateFork:
    """Makes a fork what its order asks for.

    Args:
        server: the template's, in the fork.
        order: with its `spec`, `key` and `descriptors`.
    """

    def __init__(self, server, order):
        self._server, self._order = server, order
        self._point = server.until

    def become(self):
        """Go through everything that makes a fork a process of its own; failing ends it."""
        try:
            self._become()
        except BaseException as error:
            message = "%s: %s" % (type(error).__name__, error)
            self._server.channel.write("error", where="serving", message=message)
            os._exit(70)

    def _become(self):
        server, order = self._server, self._order
        process_fork.detach(order["marker"], order.get("tag", 0))
        stdout, stderr, records, go = order["descriptors"][:4]
        if os.read(go, 1) != b"g":
            os._exit(0)
        os.close(go)
        process_fork.die_with_parent(server.parent)
        server.channel.seal_with(order["key"])
        server.channel.adopt(records, self._point, keeps=bool(order.get("until")))
        server.reconnect(stdout, stderr)
        if not order.get("until"):  # else it never runs code of a candidate
            confinement.confine_and_tell(order["spec"], server.channel, template=True)
        os.chdir(server.cwd)  # by its name: something else may be mounted there now
        server.renew(order)
        self._refresh()
        self._swap()
        server.channel.write("timing", name="start", ns=time.perf_counter_ns() - order["received_ns"])

    def _swap(self):
        if self._point != COLLECTED:
            return
        try:
            self._server.probe.apply(self._order["spec"], self._server.channel)
        except code_swapper.SwapRefusal as error:
            self._server.channel.write("unswappable", why=str(error))
            os._exit(code_swapper.UNSWAPPABLE_STATUS)

    def _refresh(self):
        """Name the own spec to children, and be seen by the collector as the next template."""
        os.environ["CODEFLASH_PARALLEL_GUEST_SPEC"] = self._order["spec"]["path"]
        if self._server.until:
            # The next template looks through all objects. A check leaves them out of the collector's sight:
            # pytest collects garbage at its end, which goes through all of them, and copies every page of
            # theirs; that was two thirds of the CPU time of a short check.
            gc.unfreeze()
