"""A template: a runner that stops at a fork point and forks a check for each order of the evaluator.

Theory of operation. The runner does its ordinary work, `tests` or `replay`, and calls this module at every
import of its project and after the collection. At its point `TemplateServer.stop` tells the evaluator, and
hands its orders on to forks. It returns only in these: each continues as if nothing had
happened, with the spec, the pipes and the name of its own. A fork may be told to stop at a later point as the
next template. A fork takes as long as many a check's tests, so the next one is made while a check runs; it
waits for its order, and answers it.

Everything that the template has not yet flushed stays in its buffers, and so in those of every fork: that is
where it would be in a process of its own.
"""

import contextlib
import gc
import importlib
import linecache
import os
import socket
import sys
import time

from .. import channels, session
from ..channels import OrderSocket
from ..process import process_fork, shared_memory
from ..process.process_watch import COLLECTED, IMPORTED, EarlyReadWatch, ForkSafety
from ..sandbox import confinement
from . import code_swap

#: How many forks get an order before it is given up: a waiting one may have been killed.
_TRIES = 3


def begin(spec, channel, control):
    """Make this process a template.

    Args:
        control: descriptor of the socket on which orders come.

    Raises:
        RunnerFailure: the tests are to be run by other processes.
    """
    if spec.get("workers"):
        raise session.RunnerFailure("serving", "a template cannot be forked for xdist's workers")
    session.set_template(TemplateServer(spec, channel, control))


class TemplateServer:
    """The template's state.

    Attributes:
        until: the point at which it stops.
    """

    def __init__(self, spec, channel, control):
        self._spec, self._channel = spec, channel
        self.until = spec["serve"]["until"]
        #: Files before whose import it stops; none: before that of any file of the project.
        self._gate = {os.path.normpath(path) for path in spec["serve"].get("gate", ())}
        #: The launcher, which adopts forks.
        self._parent = os.getppid()
        self._safety = ForkSafety(spec["private"])
        self._random = process_fork.RandomState()
        self._renewals = []
        self._guard = self._swap = None
        self._standby = _StandbyFork()
        self._watch = EarlyReadWatch(self._is_changing)
        self._connect(control)
        self._streams = [(number, process_fork.identity(number)) for number in (1, 2)]
        channel.keep()

    def _connect(self, control):
        self._link = OrderSocket(control)
        self._safety.ours(0, 1, 2, self._link.fileno(), self._channel.fileno())

    def watch(self, guard):
        """Take the guard of imports, and watch the files that candidates change from before their import."""
        self._guard = guard
        self._watch.is_on = True
        if self.until == COLLECTED:
            self._swap = code_swap.CodeSwap(self._spec, guard.proof, self._watch)

    def on_fork(self, renew):
        """Have something called in each fork."""
        self._renewals.append(renew)

    # ---- the point

    def imports(self, places, found):
        """Look at a module that is about to be imported; return True in a fork that was made here."""
        self._random.look()
        where = [places.mapped(place) or place for place in _locations(found)]
        is_projects = any(map(places.in_tree, where))
        if is_projects:
            self._watch.enter_project()
        if self.until != IMPORTED or not (self._is_gate(places, where) if self._gate else is_projects):
            return False
        self.stop()
        return True

    def _is_gate(self, places, where):
        return any(places.relative(place) in self._gate for place in where)

    def _is_changing(self, path):
        places = self._guard.places
        return places.relative(path) in self._gate if self._gate else places.in_tree(path)

    def gate(self):
        """Return the files that candidates change after the point, by absolute paths without links."""
        return {os.path.realpath(os.path.join(self._spec["root"], path)) for path in self._gate}

    def stop(self):
        """Serve; return in each fork, as the next template if it is to be one."""
        order = self._serve()
        try:
            self._become(order)
        except BaseException as error:
            self._channel.write("error", where="serving", message=_described(error))
            os._exit(70)

    def _unfit(self):
        """Return why no fork can be made here, one clause."""
        found = self._loaded_early() or self._safety.complaint(self.until, self._watch.finding)
        return found or (self._swap.examine() if self._swap is not None else "")

    def _loaded_early(self):
        """Return the finding that a module of the gate, or a function of one, was there before the guard."""
        if self.until == COLLECTED:
            return ""
        files = self.gate()
        modules = [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
        loaded = [n for n, file in modules if isinstance(file, str) and os.path.realpath(file) in files]
        early = loaded[0] if loaded else code_swap.made_from(files)
        return "it is imported before its turn: " + early if early else ""

    # ---- serving

    def _serve(self):
        """Obey orders; return the order in a fork."""
        self._watch.is_on = False
        self._guard.audit_before_forks()
        unfit = self._unfit()
        self._cwd = os.getcwd()
        self._random.hold()
        gc.collect()
        gc.freeze()
        self._files = process_fork.regular_files()
        self._places = process_fork.places_below(self._spec["root"], self._files)
        self._semaphores, _ = shared_memory.shared()
        self._link.say("ready", point=self.until, unfit=unfit, rss_bytes=_rss_bytes())
        while True:
            order, descriptors = self._link.receive()
            if order["op"] == "quit":
                os._exit(0)
            taken = self._obey(order, descriptors, unfit)
            if taken is not None:
                return taken

    def _obey(self, order, descriptors, unfit):
        """Hand an order on to the fork that waits, and make the next one; return an order in a fork."""
        why, is_fork = unfit, False
        try:
            is_fork = not why and self._standby.hand_over(order, descriptors)
        except OSError as error:
            why = _described(error)
        for number in descriptors:
            os.close(number)
        if why:
            self._standby.dismiss()
            self._link.say("refused", order=order.get("order"), why=why)
        elif not is_fork:
            with contextlib.suppress(OSError):  # the next order will say so
                is_fork = self._standby.fork()
        return self._awaited() if is_fork else None

    # ---- in a fork

    def _awaited(self):
        """Wait for this fork's order, and return it; a fork that gets none, or cannot follow it, ends."""
        unready = self._come_apart()
        order, descriptors = self._standby.awaited()
        if order["op"] == "quit":
            os._exit(0)
        self._standby.accept()
        received_ns, number = time.perf_counter_ns(), order["order"]
        try:
            spec = session.read_spec(order["spec"])
            key = channels.take_secret(spec)
        except Exception as error:
            unready = _described(error)
        if unready:
            self._link.say("refused", order=number, why=unready)
            os._exit(0)
        self._link.say("forked", order=number, pid=os.getpid())
        return dict(order, spec=spec, key=key, descriptors=descriptors, received_ns=received_ns)

    def _come_apart(self):
        """Do what is the same for every order, while the fork is not needed yet; return what fails."""
        try:
            process_fork.separate(self._files)
            shared_memory.separate(self._semaphores)
            importlib.invalidate_caches()
            linecache.clearcache()
            self._random.renew()
        except Exception as error:
            return _described(error)
        return ""

    def _become(self, order):
        """Become the process of an order, or end."""
        process_fork.detach(order["marker"], order.get("tag", 0))
        stdout, stderr, records, go, *control = order["descriptors"]
        if os.read(go, 1) != b"g":
            os._exit(0)
        os.close(go)
        process_fork.die_with_parent(self._parent)
        self._channel.seal_with(order["key"])
        self._channel.adopt(records, self.until, keeps=bool(control))
        self._reconnect(stdout, stderr)
        if not control:  # else it never runs code of a candidate
            confinement.confine_and_tell(order["spec"], self._channel, template=True)
            if order["spec"].get("mounts"):
                process_fork.open_again(self._files, self._places)
        os.chdir(self._cwd)  # by its name: something else may be mounted there now
        self._renew(order, control)
        self._channel.write("timing", name="start", ns=time.perf_counter_ns() - order["received_ns"])

    def _reconnect(self, *pipes):
        """Put pipes of the fork's own in the place of stdout and stderr."""
        self._safety.ours(*pipes)
        new = [(number, process_fork.identity(pipe)) for (number, _), pipe in zip(self._streams, pipes)]
        process_fork.connect([(number, old, pipe) for (number, old), pipe in zip(self._streams, pipes)])
        self._streams = new

    def _renew(self, order, control):
        """Continue with the spec of an order, as the next template or as a check."""
        self._link.close()
        self._spec.clear()
        self._spec.update(order["spec"])
        os.environ[session.SPEC_VARIABLE] = self._spec["path"]
        swap, self.until = self._swap, order.get("until") or ""
        if control:
            # It looks through all objects. A check leaves them out of the collector's sight: pytest collects
            # garbage at its end, which goes through all of them, and copies every page of theirs; that was
            # two thirds of the CPU time of a short check.
            gc.unfreeze()
            self._connect(*control)
            self.watch(self._guard)
        else:
            session.set_template(None)
        for renew in self._renewals:
            renew()
        if swap is not None:
            self._apply(swap)

    def _apply(self, swap):
        try:
            swap.apply()
        except code_swap.SwapRefusal as error:
            self._channel.write("unswappable", why=str(error))
            os._exit(code_swap.UNSWAPPABLE_STATUS)


class _StandbyFork:
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
        raise OSError("its forks are killed before they begin")

    def fork(self):
        """Fork; return True in the fork. Both have their end of a line between them.

        Raises:
            OSError: there is no room for another process.
        """
        self.dismiss()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            is_fork = process_fork.fork_twice() == 0
            self._line = OrderSocket((theirs if is_fork else ours).detach())
        return is_fork

    def dismiss(self):
        """Let the fork that waits end."""
        if self._line is not None:
            self._line.close()
        self._line = None

    def awaited(self):
        """Return this fork's order, and the descriptors that came with it."""
        return self._line.receive()

    def accept(self):
        """Say that the order was taken."""
        self._line.accept()
        self._line = None


def _described(error):
    return "%s: %s" % (type(error).__name__, error)


def _locations(found):
    """Return where a module lies: its file, or the folders of a namespace."""
    return [found.origin] if found.has_location else list(found.submodule_search_locations or ())


def _rss_bytes():
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
