"""A template: a guest that stops at a point and forks a check for each order of the evaluator.

Theory of operation. The guest does its ordinary work, `tests` or `replay`, and asks here at every import of
its project and after the collection whether it has reached its point. There `TemplateServer.stop` tells the
evaluator, and hands its orders on to forks. It returns only in these: each goes on as if nothing had
happened, with the spec, the pipes and the name of its own. A fork may be told to stop at a later point as the
next template. To fork takes as long as many a check's tests, so the next one is made while a check runs; it
waits for its order, and answers it.

Everything that the template has not yet flushed stays in its buffers, and so in those of every fork: that is
where it would be in a process of its own.
"""

import contextlib
import gc
import importlib
import json
import linecache
import os
import sys
import time
import warnings

from ..channel import run_secret
from ..channel.order_socket import OrderSocket
from ..code_swap import code_references, code_swapper
from ..process import current_template, process_fork
from ..process.random_state import RandomState
from ..session import RunnerFailure
from . import order_compatibility
from .fork_safety import COLLECTED, IMPORTED, EarlyReadWatch, ForkSafety
from .standby_fork import StandbyFork
from .template_fork import TemplateFork


def begin(spec, channel, control):
    """Make this process a template.

    Args:
        control: descriptor of the socket on which orders come.

    Raises:
        GuestFailure: the tests are to be run by other processes.
    """
    if spec.get("workers"):
        raise RunnerFailure("serving", "a template cannot be forked for xdist's workers")
    current_template.set_server(TemplateServer(spec, channel, control))


class TemplateServer:
    """The template's state.

    Attributes:
        until: the point at which it stops.
        channel: of the records.
        parent: pid of the launcher, which adopts forks.
        cwd: the folder in which it stopped.
        probe: of what may be swapped; `None` where it does not stop at `collected`.
        recorded: says how many calls of targets were recorded; on the way to `collected` there may be none.
    """

    def __init__(self, spec, channel, control):
        self._spec, self.channel = spec, channel
        self.until = spec["serve"]["until"]
        #: Files before whose import it stops; none: before that of any file of the project.
        self._gate = {os.path.normpath(path) for path in spec["serve"].get("gate", ())}
        self._preimports = spec["serve"].get("preimport", ())
        self.parent = os.getppid()
        self._fitness = ForkSafety(spec["private"])
        self._chance = RandomState()
        self._renewals = []
        self._preimporting = ""
        self._complaint = ""
        self._guard = self.probe = None
        self._standby = StandbyFork()
        self.recorded = int  # which says 0
        self._watch = EarlyReadWatch(self._is_changing)
        self._connect(control)
        self._streams = [(number, process_fork.identity(number)) for number in (1, 2)]
        channel.keep()

    def _connect(self, control):
        self._link = OrderSocket(control)
        self._fitness.ours(0, 1, 2, self._link.fileno(), self.channel.fileno())

    def watch(self, guard):
        """Take the guard of imports; before `collected` targets are watched from before their import."""
        self._guard = guard
        self.probe = code_swapper.SwapProbe(self._spec, guard) if self.until == COLLECTED else None
        self._watch.is_on = self.until != COLLECTED

    def on_fork(self, renew):
        """Have something called in each fork."""
        self._renewals.append(renew)

    # ---- where to stop

    def imports(self, places, found):
        """Look at a module that is about to be imported; return True in a fork that was made here."""
        self._chance.look()
        where = [places.mapped(place) or place for place in _locations(found)]
        is_projects = any(map(places.in_tree, where))
        if is_projects:
            self._watch.enter_project()
        if self.until != IMPORTED or not (self._is_gate(places, where) if self._gate else is_projects):
            return False
        if self._preimporting:
            self._complaint = "a package of others imports the project: " + self._preimporting
            raise ImportError("the project is not imported yet")
        self.stop()
        return True

    def _is_gate(self, places, where):
        return any(places.relative(place) in self._gate for place in where)

    def _is_changing(self, path):
        places = self._guard.places
        return places.relative(path) in self._gate if self._gate else places.in_tree(path)

    # ---- serving

    def stop(self, items=()):
        """Serve; return in each fork, as the next template if it is to be one.

        Args:
            items: the tests that were collected, if that has been done.
        """
        if not self._gate:
            self._preimport()
        swappable = {} if self.probe is None else self._examined(items)
        forked = TemplateFork(self, self._serve(swappable))
        forked.become()

    def _examined(self, items):
        found = self.probe.examine(items)
        return dict(found, called_early=max(found["called_early"], self.recorded()))

    def _preimport(self):
        for name in self._preimports:
            self._preimporting = name
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with contextlib.suppress(BaseException):  # it fails again where it is asked for
                    importlib.import_module(name)
        self._preimporting = ""

    def _serve(self, swappable):
        """Obey orders; return the order in a fork."""
        self._watch.is_on = False
        self._guard.audit_before_forks()
        unfit = self._unfit()
        self.cwd = os.getcwd()
        self._chance.hold()
        gc.collect()
        gc.freeze()
        self._files = process_fork.regular_files()
        self._link.say(
            "ready", point=self.until, fit=not unfit, unfit=unfit, rss_bytes=_rss_bytes(), **swappable
        )
        while True:
            order, descriptors = self._link.receive()
            if order["op"] == "quit":
                os._exit(0)
            taken = self._obey(order, descriptors, unfit)
            if taken is not None:
                return taken

    def _unfit(self):
        loaded = "" if self.until == COLLECTED else self._loaded_early()
        early = "it is imported before its turn: " + loaded if loaded else ""
        return self._complaint or early or self._fitness.complaint(self.until, self._watch.finding)

    def gate(self):
        """Return the files that candidates change after the point, by absolute paths without links."""
        return {os.path.realpath(os.path.join(self._spec["root"], path)) for path in self._gate}

    def _loaded_early(self):
        """Return one of the gate's modules, or a function of one, that was there before the guard."""
        files = self.gate()
        modules = [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
        loaded = [n for n, file in modules if isinstance(file, str) and os.path.realpath(file) in files]
        return loaded[0] if loaded else code_references.made_from(files)

    def _obey(self, order, descriptors, unfit):
        """Hand an order on to the fork that waits, and make the next one; return an order in a fork."""
        why, is_fork = unfit, False
        try:
            is_fork = not why and self._standby.hand_over(order, descriptors)
        except OSError as error:
            why = "%s: %s" % (type(error).__name__, error)
        for number in descriptors:
            os.close(number)
        if why:
            self._standby.dismiss()
            self._link.say("refused", order=order.get("order"), why=why)
        elif not is_fork:
            with contextlib.suppress(OSError):  # the next order will say so
                is_fork = self._standby.fork()
        return self._awaited() if is_fork else None

    def _awaited(self):
        """Wait for this fork's order, and return it; a fork that gets none, or cannot follow it, ends."""
        unready = self._come_apart()
        order, descriptors = self._standby.awaited()
        if order["op"] == "quit":
            os._exit(0)
        self._standby.accept()
        try:
            why = unready or self._take(order, descriptors)
        except (OSError, ValueError, KeyError) as error:
            why = "%s: %s" % (type(error).__name__, error)
        if why:
            self._link.say("refused", order=order.get("order"), why=why)
            os._exit(0)
        self._link.say("forked", order=order["order"], pid=os.getpid())
        return dict(order, descriptors=descriptors)

    def _come_apart(self):
        """Do ahead, while nobody waits for this fork, what is the same for every order; return what fails."""
        try:
            process_fork.separate(self._files)
            importlib.invalidate_caches()
            linecache.clearcache()
            self._chance.renew()
        except Exception as error:
            return "%s: %s" % (type(error).__name__, error)
        return ""

    def _take(self, order, descriptors):
        """Read the spec of an order, and say why it cannot be followed."""
        order["received_ns"] = time.perf_counter_ns()
        if len(descriptors) != (5 if order.get("until") else 4):
            return "%d descriptors came" % len(descriptors)
        if len(order["marker"]) != len(os.environ.get(process_fork.MARKER, order["marker"])):
            return "the marker is of another length"
        with open(order["spec"], "rb") as file:
            spec = json.loads(file.read())
        order["key"] = run_secret.take(spec)
        order["spec"] = dict(spec, path=os.path.abspath(order["spec"]))
        return order_compatibility.objection(self.until, self._spec, spec)

    # ---- in a fork

    def reconnect(self, *pipes):
        """Put pipes of the fork's own in the place of stdout and stderr."""
        self._fitness.ours(*pipes)
        new = [(number, process_fork.identity(pipe)) for (number, _), pipe in zip(self._streams, pipes)]
        process_fork.connect([(number, old, pipe) for (number, old), pipe in zip(self._streams, pipes)])
        self._streams = new

    def renew(self, order):
        """Be the next template, or none, with the spec of an order."""
        self._link.close()
        self._spec.clear()
        self._spec.update(order["spec"])
        self.until = order.get("until") or ""
        if self.until:
            self._connect(order["descriptors"][4])
            self.watch(self._guard)
        else:
            current_template.set_server(None)
        for renew in self._renewals:
            renew()


def _locations(found):
    """Return where a module lies: its file, or the folders of a namespace."""
    return [found.origin] if found.has_location else list(found.submodule_search_locations or ())


def _rss_bytes():
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
