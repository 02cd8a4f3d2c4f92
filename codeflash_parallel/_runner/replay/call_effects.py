"""Effects of a call besides its result: in its process, its module, its arguments, and after the calls.

Output, environment variables, current directory and random state begin anew for each call. Results are
looked at a second time when all calls are made: one that shares a buffer with another call, or that a
thread, a signal or the collector changes, is no longer what its caller got. Lists and arrays that a
function may leave in any state (scratch space) are told apart from arguments that are results.
"""

import _thread
import contextlib
import faulthandler
import gc
import hashlib
import io
import linecache
import os
import random
import re
import signal
import sys
import threading
import time
import types

from .. import slot_paths
from ..values import type_handlers, value_digests
from ..values.object_reduction import UnencodableValue
from ..values.type_handlers import REFUSE, Spent
from ..values.value_digests import Walk, digest_of, digest_raise, digest_return
from ..values.value_text import type_name

#: Results of these types can be changed by the caller.
_CHANGEABLE = (list, dict, set, bytearray)
#: Larger containers are not kept alive for the sake of telling, nor more of them than these.
_MOST_PARTS, _MOST_KEPT = 1_000, 20_000
#: A global of more parts is not looked at.
_MOST_NODES = 20_000
#: Private names of a module's globals begin with this.
_PRIVATE = "_"


class GlobalEffects:
    """Traces of each call in random sources and in earlier results."""

    def __init__(self):
        self._owners = {}

    def of(self, index, value):
        """Return the traces of a call that gave a value, by name.

        A drawn number shows the state of a generator: each call begins with a seed of its own.
        """
        traces = {"random": "%08x" % random.getrandbits(32)}
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random is not None:
            traces["numpy"] = repr(float(numpy_random.random()))
        traces["shared"] = self._shared(index, value)
        return traces

    def _shared(self, index, value):
        """Return the number of the earlier call that has given the same object; and remember this one's."""
        if type(value) in _FIXED:
            return ""
        earliest = []
        for part in _changeable(value.items if type(value) is type_handlers.Spent else value):
            owner, _ = self._owners.get(id(part), (index, None))
            if owner != index:
                earliest.append(owner)
            elif len(self._owners) < _MOST_KEPT:
                # Kept alive: its address must not be given to another.
                self._owners[id(part)] = (index, part)
        return str(min(earliest)) if earliest else ""


def _changeable(value):
    """Return the changeable containers in a result: itself, and what lies directly in it."""
    kind = type(value)
    inner = ()
    if kind in (list, tuple, set, frozenset) and len(value) <= _MOST_PARTS:
        inner = value
    elif kind is dict and len(value) <= _MOST_PARTS:
        inner = value.values()
    parts = [part for part in inner if _is_changeable(part)]
    return [value, *parts] if _is_changeable(value) else parts


def _is_changeable(value):
    kind = type(value)
    if kind in _CHANGEABLE:
        return len(value) <= _MOST_PARTS
    return kind.__name__ in ("ndarray", "deque", "defaultdict", "OrderedDict", "Counter")


class ModuleGlobals:
    """The public data of the targets' modules, before and after the calls."""

    def __init__(self, modules):
        self._modules = [name for name in sorted(modules) if name in sys.modules]
        self._before = self._digests()

    def names(self):
        """Return the dotted names of all that are looked at."""
        return sorted(self._before)

    def changed(self):
        """Return the digest of each global that has changed, by its dotted name."""
        after = self._digests()
        return {name: digest for name, digest in after.items() if self._before.get(name, digest) != digest}

    def _digests(self):
        found = {}
        for module in self._modules:
            for name, value in list(vars(sys.modules[module]).items()):
                self._add(found, "%s.%s" % (module, name), name, value)
                if isinstance(value, type) and value.__module__ == module:
                    for attribute, member in list(vars(value).items()):
                        self._add(found, "%s.%s.%s" % (module, name, attribute), attribute, member)
        return found

    def _add(self, found, full, name, value):
        if name.startswith(_PRIVATE) or not _is_data(value):
            return
        steps = value_digests.Walk(type_handlers.REFUSE)
        steps.nodes = value_digests.MAX_NODES - _MOST_NODES
        try:
            steps.run(value)
        except UnencodableValue:
            return
        found[full] = steps.digest()


def _is_data(value):
    kind = type(value)
    return not (callable(value) or isinstance(value, types.ModuleType) or hasattr(kind, "__get__"))


#: What was printed is kept up to here, in bytes; then it is only digested.
_CHUNK = 1 << 16


class ProcessEffects:
    """Those of one process, from now on.

    Args:
        project: the current directory of every call.
    """

    def __init__(self, project):
        self._project, self._sink = project, _Sink()
        before = sys.stdout
        # As it was in all other ways; writes to its descriptor bypass it.
        # What is written comes at once, in the thread that writes it.
        encoding = getattr(before, "encoding", None) or "utf-8"
        errors = getattr(before, "errors", None)
        self._stream = io.TextIOWrapper(self._sink, encoding, errors, write_through=True)
        sys.stdout = self._stream
        self.keep()

    def keep(self):
        """Take the variables of now as the ones that every call begins with."""
        self._environ, self._raw = dict(os.environ), _raw()

    def reset(self):
        """Give back to the next call what the ones before may have changed."""
        os.chdir(self._project)
        if not _is_raw(self._raw):
            os.environ.clear()
            os.environ.update(self._environ)
        self._printed()

    def traces(self):
        """Return what has changed since, by name; an empty text: nothing."""
        return {"printed": self._printed(), "environ": self._variables(), "directory": self._directory()}

    def _printed(self):
        try:
            self._stream.flush()
        except ValueError:  # a call has closed it: it stays closed for all calls
            return "closed"
        return self._sink.taken()

    def _variables(self):
        if _is_raw(self._raw):
            return ""
        now = dict(os.environ)
        names = {name for name in {*now, *self._environ} if now.get(name) != self._environ.get(name)}
        return _digest(slot_paths.neutral(repr(sorted((name, now.get(name)) for name in names))).encode())

    def _directory(self):
        try:
            now = os.getcwd()
        except OSError:
            return "gone"
        return "" if now == self._project else _digest(slot_paths.neutral(repr(now)).encode())


def _raw():
    """Return a copy of the variables as they are kept: a tenth of the time that it takes to decode them."""
    return dict(getattr(os.environ, "_data", os.environ))


def _is_raw(raw):
    """Say whether the variables are those of such a copy."""
    return getattr(os.environ, "_data", None) == raw or _raw() == raw


def _digest(data):
    return hashlib.blake2b(data, digest_size=8).hexdigest()


class _Sink(io.RawIOBase):
    """Takes bytes in the place of standard output: those of the thread that makes the calls.

    What other threads print comes when it comes, perhaps after the call.
    """

    def __init__(self):
        self._thread = threading.get_ident()
        self._begin()

    def _begin(self):
        self._pending, self._digest = bytearray(), hashlib.blake2b(digest_size=8)
        self._is_empty = True

    def writable(self):
        """Say that it may be written to."""
        return True

    def fileno(self):
        """Return the number of the real standard output."""
        return 1

    def write(self, data):
        """Take bytes."""
        data = bytes(data)
        if data and threading.get_ident() == self._thread:
            self._is_empty = False
            self._pending += data
            if len(self._pending) > _CHUNK:
                # No path goes over the end of a line; the digest is the same however much is written at once.
                self._take(self._pending.rfind(b"\n") + 1 or len(self._pending))
        return len(data)

    def _take(self, size):
        self._digest.update(slot_paths.neutral_bytes(bytes(self._pending[:size])))
        del self._pending[:size]

    def taken(self):
        """Return the digest of all that was written since the last time; empty where nothing was."""
        if self._is_empty:
            return ""
        self._take(len(self._pending))
        found = self._digest.hexdigest()
        self._begin()
        return found


#: CPU time of the first look at all that is kept; the second takes as much.
_KEPT_NS = 150_000_000
#: Threads that calls have left behind get so many seconds to end.
_PATIENCE_S = 0.25
#: Threads that are seen idle so often, one time after the other, are idle.
_OFTEN = 5
_FIXED = frozenset({int, float, complex, bool, str, bytes, type(None)})


def is_fixed(outcome, args, kwargs):
    """Say whether nothing in the outcome of a call, or in its arguments, can change any more."""
    return _FIXED.issuperset(map(type, (outcome, *args, *kwargs.values())))


class ResultStability:
    """Results of calls, and whether they are still the same.

    Attributes:
        unseen: numbers of the calls that there was no more time for: which ones differs from run to run.
    """

    def __init__(self):
        self._kept, self._left_ns, self.unseen = [], _KEPT_NS, []
        self._threads = frozenset(_stacks())

    def keep(self, index, outcome, args, kwargs, fields, ns):
        """Keep what a call gave and its arguments, where something in them can change (see `is_fixed`).

        Args:
            fields: what the first look gave.
            ns: the CPU time that it took.
        """
        if not (fields["digest"] and fields["after"]):
            return
        if self._left_ns <= 0:
            self.unseen.append(index)
            return
        self._left_ns -= ns
        self._kept.append((index, outcome, args, kwargs, fields))

    def more(self):
        """Let as much be kept again: other calls follow."""
        self._left_ns = _KEPT_NS

    def spoiled(self):
        """Return the numbers of the calls of which the result, or an argument, is not what it was."""
        gc.collect()  # finalizers and weak references run now
        return [kept[0] for kept in self._kept if not _is_same(*kept[1:])]

    def left(self):
        """Wait for threads that the calls have started, and say what is still to come."""
        until, idle = time.monotonic() + _PATIENCE_S, 0
        # What was given to a pool is not yet in the hands of its threads.
        while self._new() and idle < _OFTEN and time.monotonic() < until:
            idle = 0 if self._busy() else idle + 1
            time.sleep(0.002)
        timers = [signal.getitimer(which)[0] for which in (signal.ITIMER_REAL, signal.ITIMER_PROF)]
        found = ["threads: left running"] if self._busy() else []
        return found + (["signals: a timer is left running"] if any(timers) else [])

    def _new(self):
        """Return what the threads do that were not there at first."""
        return [stack for thread, stack in _stacks().items() if thread not in self._threads]

    def _busy(self):
        """Return whether one of them does something; those of a pool wait for work."""
        return not all(map(_is_idle, self._new()))


_THREAD = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)")
_CALL = re.compile(r'  File "(.*)", line (\d+) in (.*)')


def _stacks():
    """Return the calls of all other threads, the innermost first, as (file, line, function), by thread.

    Read from a dump: to hold frames of threads that run ends Python 3.12 and 3.13 now and then.
    """
    if not _thread._count():
        return {}
    stacks, calls = {}, []
    for line in _dumped().splitlines():
        thread, call = _THREAD.match(line), _CALL.match(line)
        if thread:
            calls = stacks.setdefault(int(thread[1], 16), [])
        elif call:
            calls.append((call[1], int(call[2]), call[3]))
    stacks.pop(threading.get_ident(), None)
    return stacks


def _dumped():
    try:
        descriptor = os.memfd_create("stacks")
    except OSError:  # no descriptor is left: the calls themselves fail, too
        return ""
    try:
        faulthandler.dump_traceback(descriptor, all_threads=True)
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _is_idle(stack):
    """Return whether a thread waits for work in one of the standard library's pools."""
    executors, pools = map(sys.modules.get, ("concurrent.futures.thread", "multiprocessing.pool"))
    if stack and stack[0][0] == getattr(executors, "__file__", None):
        return stack[0][2] == "_worker" and ".get" in linecache.getline(*stack[0][:2])
    file = getattr(pools, "__file__", None)
    return next((_waits(*call) for call in stack if call[0] == file), False)


def _waits(file, line, name):
    """Return whether a loop of a pool waits."""
    if name in _GETTING:
        return linecache.getline(file, line).strip() == "task = get()"
    return name in _WATCHING


#: Loops of a pool's threads: those that get tasks or results one by one, and those that wait for the others.
_GETTING = frozenset({"worker", "_handle_results"})
_WATCHING = frozenset({"_handle_workers", "_wait_for_updates", "_handle_tasks"})


def _is_same(outcome, args, kwargs, fields):
    look = digest_raise if fields["kind"] == "raise" else digest_return
    try:
        again = look(outcome, args, kwargs)
    except Exception:  # a view that was released meanwhile, say
        return False
    return (again["digest"], again["after"]) == (fields["digest"], fields["after"])


_ARRAYS = frozenset({"builtins.bytearray", "array.array", "numpy.ndarray"})
_FLAT = frozenset({int, float, complex, bool, str, bytes, type(None)})
_NUMBERS = frozenset({int, float, complex, bool})
#: Larger arguments are compared as they are.
_MOST_LEAVES = 100_000
#: And those that hold objects of more parts than these, each counted as often as it is held.
_MOST_OBJECT_PARTS = 3_000


class ScratchArguments:
    """The lists and arrays among the arguments of one call that is about to be made."""

    def __init__(self, args, kwargs):
        places = [*enumerate(args), *kwargs.items()]
        self._before = {}
        for place, value in places:
            if _is_space(value):
                with contextlib.suppress(UnencodableValue):
                    self._before[place] = (value, _Parts(value))

    def told(self, outcome, args, kwargs):
        """Return digests of each of them and, under an empty name, of all the rest; or nothing.

        A digest begins with ``=`` where the call has left the argument as it was, with ``#`` where it has
        changed its length, else with ``~``, or with ``.`` where there is but one item. `at` says whether the
        result is a place in what was rearranged (``yes``, or ``no``: something else was done).
        """
        try:
            return self._told(outcome, args, kwargs) if self._before and outcome is not None else {}
        except UnencodableValue:
            return {}

    def _told(self, outcome, args, kwargs):
        found, lists, leaves, at = {}, set(), [], set()
        for place, (value, before) in self._before.items():
            after = _Parts(value)
            if not lists.isdisjoint(after.lists):
                return {}
            lists.update(after.lists)
            leaves += after.objects()
            sign = "#" if after.shape != before.shape else "~."[len(after.leaves) == 1]
            sign = "=" if after.is_like(before) else sign
            found[str(place)] = "%s%s %s" % (sign, digest_of(after.shape), _walked(value).digest())
            if sign == "~":
                at.add(_place(outcome.items if type(outcome) is Spent else outcome, before, after))
        rest = [value for place, value in [*enumerate(args), *kwargs.items()] if place not in self._before]
        walk = _walked([outcome, rest])
        if not lists.isdisjoint(walk.memo):
            return {}
        walk.write(repr(sorted(leaves)))
        return dict(found, at=max(at, default=""), **{"": walk.digest()})


class _Parts:
    """Contents of a list: `shape` of it and of all lists in it, their `lists`' addresses, and other items."""

    def __init__(self, value):
        self.lists, self.leaves, shape, left = set(), [], [], [value]
        while left:
            item = left.pop()
            if type(item) is not list and not _is_array(item):
                self.leaves.append(item)
                continue
            sizes = getattr(item, "shape", None)
            size = len(item) if sizes is None else item.size
            if id(item) in self.lists or len(self.leaves) + len(left) + size > _MOST_LEAVES:
                raise UnencodableValue("it holds itself, one list twice, or too much")
            self.lists.add(id(item))
            shape.append((len(self.leaves), sizes or size))
            if type(item) is list:
                left += reversed(item)
            else:
                self.leaves += list(item) if sizes is None else item.ravel().tolist()
        self.shape = repr(shape)

    def is_like(self, other):
        """Return whether it holds the same as another one, of the same or equal plain items."""
        pairs = zip(self.leaves, other.leaves)
        return self.shape == other.shape and all(a is b or _is_equal(a, b) for a, b in pairs)

    def objects(self):
        """Return digests of the items that can change.

        Raises:
            UnencodableValue: they hold too much, or so much of each other that each is walked many times.
        """
        found, parts = [], 0
        for item in self.leaves:
            if type(item) in _FLAT:
                continue
            walk = _walked(item)
            parts += walk.nodes
            if parts > _MOST_OBJECT_PARTS:
                raise UnencodableValue("it holds too much")
            if walk.memo:
                found.append(walk.digest())
        return found


def _is_equal(one, other):
    return type(one) is type(other) and type(one) in _FLAT and repr(one) == repr(other)


def _walked(value):
    walk = Walk(REFUSE)
    walk.run(value)
    return walk


def _is_array(value):
    return type_name(type(value)) in _ARRAYS


def _is_space(value):
    """Return whether it is a list of items of one kind, or an array; a list of several kinds is a record."""
    if type(value) is not list:
        return _is_array(value)
    kinds = {"number" if kind in _NUMBERS else kind for kind in map(type, value)} - {type(None)}
    return len(kinds) <= 1


def _place(outcome, before, after):
    """Return whether a result is a place in the argument, or several, and all was only rearranged.

    Where it was sorted that says nothing: many a function begins with it.
    """
    places = outcome if type(outcome) is tuple and outcome else (outcome,)
    if not all(type(place) is int and 0 <= place <= len(after.leaves) for place in places):
        return "no"
    if len(after.lists) > 1 or not set(map(type, before.leaves + after.leaves)) <= _FLAT:
        return "no"
    if sorted(map(repr, before.leaves)) != sorted(map(repr, after.leaves)):
        return "no"
    try:
        ordered = sorted(after.leaves)
    except TypeError:
        ordered = []
    return "" if after.leaves in (ordered, ordered[::-1]) else "yes"
