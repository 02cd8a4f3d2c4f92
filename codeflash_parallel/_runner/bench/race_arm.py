"""One arm of the race: a warm template that forks a unit whenever the evaluator wants one.

The template has done everything that is not to be timed (imports, reading of inputs). A unit pins itself to
a core and serves blocks: its copies of the inputs exist before GO, lazy results are forced before DONE,
outcomes are encoded when the evaluator, which reads the clocks, asks for the check. Whatever a unit does to
itself, the template survives it, and answers "reaped" in its place.

All arms of one layout are forked from one process, the server: a bare interpreter with modules of ours. Where
the code of the interpreter and of its libraries lies in memory is drawn anew for every new process, and that
alone makes equal code differ by 3 to 14 per cent (standard deviation between processes) and now and then by
80 (the processor's branch predictor works by addresses). Arms that are forked from one process have these
addresses in common; the next layout, with a server of its own, draws them again. Nothing of the project is
imported before a fork.
"""

import contextlib
import gc
import importlib
import mmap
import os
import sys
import traceback
import warnings

from .. import session
from ..channels import ArmControl, OrderSocket, line_of
from ..imports import import_guard
from ..process import process_fork
from ..sandbox import confinement

#: Values of a byte that a unit shares with the template: whether it owes the evaluator an answer.
_IDLE, _BUSY = 0, 1

_DONE = line_of("done")

#: How the collector works before any code of the project has run, and so in every block of every arm.
_THRESHOLD = gc.get_threshold()


def run(spec, channel, control_fd):
    """Serve the evaluator until it says quit, in a world of its own above the lowest level of isolation.

    Its units stay in that world, which the evaluator empties after each round.

    Raises:
        ConfinementError: there is no such world; nothing of the project has run.
    """
    control = ArmControl(control_fd)
    with channel.through_forks():
        confinement.confine(spec)
    if spec["work"] in session.IN_PYTEST:
        from ..pytest_plugin import pytest_session

        def loop(session):
            serve(control, _session_work(spec, session, control))

        return pytest_session.run(spec, channel, runtestloop=loop)
    guard = import_guard.install(spec, channel)
    serve(control, _call_work(spec, guard) if spec["work"] == "calls" else _user_work(spec))
    return 0


def _session_work(spec, session, control):
    from . import pytest_workload

    if spec["work"] in ("tests", "in-place"):
        return pytest_workload.PytestWork(spec, session, control)
    return pytest_workload.FixtureWork(spec, session)


def _call_work(spec, guard):
    from ..imports import source_loader
    from ..values import call_files
    from . import call_workload

    wanted = [index for group in spec["groups"] for index in group["calls"]]
    calls = call_files.read_calls(spec["inputs"], wanted)
    guard.proof.instrument = source_loader.registering(spec, calls)
    return call_workload.CallWork(spec, calls)


def _user_work(spec):
    from .. import user_code

    return user_code.CallableWork(spec) if spec["work"] == "callable" else user_code.CommandWork(spec)


def serve(control, work):
    """Say that the template is warm, then fork units until told to quit."""
    gc.collect()
    gc.freeze()
    twins = getattr(work, "twins", [0] * len(work.sizes))
    control.send("ready", groups=len(work.sizes), calls=work.sizes, twins=twins, skipped=work.skipped)
    template = UnitTemplate(control, work)
    while True:
        order = control.receive()
        if order["op"] == "quit":
            return
        template.obey(order)


class UnitTemplate:
    """Forks units one after another and reports how each ended."""

    def __init__(self, control, work):
        self._control, self._work = control, work
        self._state = mmap.mmap(-1, 1)
        self._reaped = {"status": 0, "cpu_ns": 0}

    def obey(self, order):
        """Fork a unit; whatever else comes was meant for one that is gone."""
        if order["op"] == "unit":
            self._fork(order)
        else:
            self._control.send("reaped", **self._reaped)

    def _fork(self, order):
        self._state[0] = _BUSY
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # "ready" told that there are threads; a project that makes warnings errors must not stop us.
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            _be_unit(self._control, self._work, order, self._state)
        self._control.forget()
        self._reap(pid)

    def _reap(self, pid):
        _, status, usage = os.wait4(pid, 0)
        cpu_ns = int((usage.ru_utime + usage.ru_stime) * 1e9)
        self._reaped = {"status": os.waitstatus_to_exitcode(status), "cpu_ns": cpu_ns}
        if self._state[0] == _BUSY:
            # The evaluator waits for an answer that this unit will not give (the last one: to "end").
            self._control.send("reaped", **self._reaped)


def _be_unit(control, work, order, state):
    """Serve blocks, then leave without running anything that the template has registered."""
    status = 1
    try:
        if order.get("core") is not None:
            os.sched_setaffinity(0, {order["core"]})
        control.send("unit", pid=os.getpid())
        _serve_blocks(control, work, state)
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


@contextlib.contextmanager
def _without_collector():
    """Make copies that the collector does not look at: its work in a timed region is the target's own."""
    gc.collect()
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(*_THRESHOLD)
    gc.enable()


def _serve_blocks(control, work, state):
    batch = None
    while True:
        state[0] = _IDLE
        order = control.receive()
        state[0] = _BUSY
        if order["op"] == "block":
            batch = None
            twins = {"twins": True} if order.get("twins") else {}
            with _without_collector():
                batch = work.prepare(order["group"], order["calls"], order.get("start", 0), **twins)
            control.send("armed")
        elif order["op"] == "go":
            batch.run()
            control.send_line(batch.done() if hasattr(batch, "done") else _DONE)
        elif order["op"] == "check":
            drawn = {"lot": order["lot"], "most": order["most"]} if order.get("lot") else {}
            control.send("checked", **batch.check(**drawn))
        elif order["op"] == "look":
            control.send("looked", outcomes=batch.look(order["places"]))
        elif order["op"] == "tell":
            control.send("told", **batch.tell(order["number"]))
        else:
            work.close()
            return


# ---- the server


#: Of ours, what an arm needs for its work.
_MODULES = {
    "calls": (
        "bench.call_workload",
        "imports.import_guard",
        "values.call_files",
    ),
    "callable": ("imports.import_guard", "user_code"),
}

#: What comes with an order: stdout, stderr, records, the pipe to wait at, control.
_DESCRIPTORS = 5


def run_server(spec, channel, control):
    """Fork an arm for each order until told to quit; return the exit status.

    In a fork: return its own spec and its control descriptor instead.
    """
    for name in _MODULES.get(spec["work"], ()):
        importlib.import_module(".." + name, __package__)
    if spec.get("preloads"):
        with contextlib.suppress(ImportError):
            importlib.import_module("pytest")
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
    """Fork, and wait until the fork has left our session: a signal to that must not reach it."""
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
    """Start a session; a fork that cannot must not continue as a second server."""
    try:
        process_fork.detach(order["marker"], order["tag"])
    except (OSError, ValueError):
        os._exit(0)


def _become(order, descriptors, channel, parent):
    """Become the process of an order; a fork whose gate closes ends."""
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
