"""The process from which all arms of one layout are forked: a bare interpreter with modules of ours.

Where the code of the interpreter and of its libraries lies in memory is drawn anew for every new process, and
that alone makes equal code differ by 3 to 14 per cent (standard deviation between processes) and now and then
by 80 (the processor's branch predictor works by addresses). Arms that are forked from one process have these
addresses in common; the next layout, with a server of its own, draws them again. Nothing of the project is
imported before a fork.
"""

import importlib
import os

from .. import session
from ..channel.control_channel import OrderSocket
from ..process import process_fork

#: Of ours, what an arm needs for its work.
_MODULES = {
    "calls": (
        "bench.call_workload",
        "imports.import_guard",
        "values.call_files",
        "imports.instrumentation",
    ),
    "callable": ("imports.import_guard", "bench.user_workload"),
}

#: What comes with an order: stdout, stderr, records, the pipe to wait at, control.
_DESCRIPTORS = 5


def run(spec, channel, control):
    """Fork an arm for each order until told to quit; return the exit status.

    In a fork: return its own spec and its control descriptor instead.
    """
    for name in ("bench.race_arm", *_MODULES.get(spec["work"], ())):
        importlib.import_module(".." + name, __package__)
    channel.keep()
    link, parent = OrderSocket(control), os.getppid()
    link.say("ready")
    while True:
        order, descriptors = link.receive()
        if order["op"] == "quit":
            return 0
        try:
            pid = _fork(order)
        except OSError as error:
            link.say("refused", why=str(error))
        else:
            if pid == 0:
                link.close()
                return _become(order, descriptors, channel, parent)
            link.say("forked", pid=pid)
        for number in descriptors:
            os.close(number)


def _fork(order):
    """Fork, and wait until the fork has left our session: whoever ends us must not find it here."""
    left, leaving = os.pipe()
    pid = process_fork.fork_twice()
    if pid == 0:
        os.close(left)
        _leave(order)
    os.close(leaving)
    if pid != 0:
        os.read(left, 1)  # which ends with the fork's end of it
        os.close(left)
    return pid


def _leave(order):
    """Be the head of an own session; a fork that cannot must not go on as a second server."""
    try:
        process_fork.detach(order["marker"], order["tag"])
    except (OSError, ValueError):
        os._exit(0)


def _become(order, descriptors, channel, parent):
    """Be the process that an order asks for; a fork that is not let go on ends."""
    if len(descriptors) != _DESCRIPTORS:
        os._exit(0)
    stdout, stderr, records, go, control = descriptors
    if os.read(go, 1) != b"g":
        os._exit(0)
    os.close(go)
    process_fork.die_with_parent(parent)
    for pipe, number in ((stdout, 1), (stderr, 2)):
        os.dup2(pipe, number)
        os.close(pipe)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.environ[process_fork.MARKER] = order["marker"]
    channel.adopt(records, "", keeps=False)
    return session.read_spec(order["spec"]), control
