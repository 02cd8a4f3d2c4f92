"""Record the outermost calls of targets: counts of all of them, outcomes and inputs of a sample.

A call is *outermost* when no other target call is running in its thread or task, so that a recursive target
that is rewritten as a loop looks the same. The digests of a generator are those that a replay gives for
`Spent`: the same walk, made item by item when the generator hands it out.
"""

import itertools
import math
import os
import random
import threading
from _thread import get_ident
from contextvars import ContextVar
from hashlib import blake2b
from time import perf_counter_ns

from ..values import argument_pickler, call_files
from ..values.object_reduction import UnencodableValue
from ..values.type_handlers import MAX_ITEMS, REFUSE, begin_spent, end_spent
from ..values.value_digests import observe_raise, observe_return, walk_in_part
from ..values.value_text import render, render_arguments

#: A call number that is never reached.
NEVER = 1 << 62


class Reservoir:
    """The calls of one target: how many there were, and `capacity` of them, each with equal probability.

    Until it is full every call is admitted; then the number of the next call to admit is drawn (algorithm L:
    Li, "Reservoir-Sampling Algorithms of Time Complexity O(n(1+log(N/n)))", 1994), so that passing a call
    by costs one comparison with `due[0]`.
    """

    def __init__(self, capacity, seed):
        #: Numbers calls; `next` on it is atomic, which ``+= 1`` is not.
        self.ticket = itertools.count()
        #: Calls that were counted for earlier tests.
        self.base = 0
        self.due = [0 if capacity else NEVER]
        self.kept = []
        self._capacity = capacity
        self._random = random.Random(seed)
        self._weight = 1.0
        #: What `due` will be after a pause.
        self._next = None
        # Reentrant: garbage collection may finish a generator of the target inside `admit`.
        self._lock = threading.RLock()

    def count(self):
        """Return how many calls there were."""
        # A counter can be read only through its text without moving it.
        return int(repr(self.ticket)[len("count(") : -1])

    def admit(self, number, item):
        """Put an item into the reservoir, perhaps in place of another; return whether it was its turn."""
        with self._lock:
            if number < self.due[0]:
                return False
            if len(self.kept) < self._capacity:
                self.kept.append(item)
            else:
                self.kept[self._random.randrange(self._capacity)] = item
            if len(self.kept) == self._capacity and self.due[0] != NEVER:
                self._draw(number)
            return True

    def pause(self):
        """Admit nothing until `resume`."""
        with self._lock:
            if self._next is None:
                self._next, self.due[0] = self.due[0], NEVER

    def resume(self):
        """Admit calls again after a pause; those passed by meanwhile had no chance."""
        with self._lock:
            if self._next is not None:
                self._next, self.due[0] = None, self._next

    def close(self):
        """Admit nothing from now on."""
        with self._lock:
            self._next, self.due[0] = NEVER, NEVER

    def _draw(self, number):
        uniform = 1.0 - self._random.random()
        self._weight *= math.exp(math.log(uniform) / self._capacity)
        chance = math.log1p(-self._weight) if self._weight < 1.0 else -math.inf
        skip = math.floor(math.log(1.0 - self._random.random()) / chance) if chance else NEVER
        self.due[0] = min(NEVER, number + skip + 1)


#: Longest text of a reason, in characters.
_MAX_WHY = 300
#: The main thread.
_MAIN = threading.main_thread().ident


class CallOrigin:
    """Origin of calls: a target as one module defines it."""

    def __init__(self, recorder, target, module, via, shape="function"):
        self.target, self.module, self.via, self.shape = target, module, via, shape
        self.sample = recorder.samples[target]
        #: The object that an ``__init__`` gets is not made yet; often it cannot be pickled.
        self.is_init = recorder.names[target].rpartition(".")[2] == "__init__"

    def shaped(self, recorder, shape):
        """Return the same origin for another shape of function."""
        return CallOrigin(recorder, self.target, self.module, self.via, shape)


class Call:
    """One sampled call. `fields` stays None while it runs; `items`: how many a test read of a generator."""

    __slots__ = ("args", "blob", "fields", "items", "ns", "order", "origin", "test", "thread", "why")

    def __init__(self, origin, test, order):
        self.origin, self.test, self.order = origin, test, order
        self.thread = get_ident() != _MAIN
        self.blob = self.fields = self.items = None
        self.args = self.why = ""
        self.ns = 0


class ActiveCallMark:
    """Says in a context whether the call of an asynchronous target that set it is still running."""

    __slots__ = ("open",)

    def __init__(self):
        self.open = True


class CallRecorder:
    """Gathers counts and calls in memory; `finish` writes them."""

    def __init__(self, spec, channel):
        budget, targets = spec.get("budget", {}), spec.get("targets", ())
        calls = budget.get("calls", 2000)
        capacity = max(calls // max(1, len(targets)), min(calls, 1))
        seed = spec.get("seed", 0)
        self.samples = [Reservoir(capacity, "%s %s" % (seed, number)) for number, _ in enumerate(targets)]
        self.names = [target["qualname"] for target in targets]
        self.busy = set()
        self.mark = ContextVar("codeflash_mark", default=None)
        #: Set by the first wrapper of an asynchronous target: only then do others look at `mark`.
        self.watches_tasks = [False]
        #: Generators of targets that were not exhausted yet.
        self.unfinished = set()
        self._root = spec["root"]
        self._functions = [(os.path.join(spec["root"], one["path"]), one["qualname"]) for one in targets]
        self._inputs = spec.get("inputs") if spec.get("wrap") == "capture" else None
        self._bytes, self._used = budget.get("bytes", 1 << 26), 0
        self._left_ns = int(budget.get("seconds", 5.0) * 1e9)
        self._reserved_ns = self._left_ns // 2
        #: The tests' own time allows so much more; since when, and what recording has cost since then.
        self._share = budget.get("share", 0.0)
        self._since_ns, self._spent_ns = perf_counter_ns(), 0
        #: With less than a hundredth left, tests that come now are only counted.
        self._least_ns = self._left_ns // 100
        self._channel = channel
        self._test = ""
        self._counts = {}
        self._orders = itertools.count()

    def inside(self):
        """Return whether this task is in a call of an asynchronous target."""
        mark = self.mark.get()
        return mark is not None and mark.open

    def set_test(self, test):
        """Attribute the calls from now on to another test; "" is import and collection."""
        for number, sample in enumerate(self.samples):
            count = sample.count()
            if count > sample.base:
                key = (self._test, number)
                self._counts[key] = self._counts.get(key, 0) + count - sample.base
                sample.base = count
        self._earn()
        self._test = test
        self._reserved_ns = self._left_ns // 2
        if self._left_ns > self._least_ns:
            for sample in self.samples:
                sample.resume()

    def _earn(self):
        """Allow recording to cost more, by the time that a test which ends has taken itself."""
        now = perf_counter_ns()
        if self._test:
            self._left_ns += max(0, int(self._share * (now - self._since_ns - self._spent_ns)))
        self._since_ns, self._spent_ns = now, 0

    def begin(self, origin, number, args, kwargs):
        """Return a call to be recorded, its inputs kept; None when it was not its turn."""
        started = perf_counter_ns()
        call = Call(origin, self._test, next(self._orders))
        if not origin.sample.admit(number, call):
            return None
        call.args = render_arguments(args, kwargs)
        if self._inputs:
            self._keep(call, args, kwargs)
        self.spend(started)
        return call

    def trace(self, call, args, kwargs):
        """Return what records the items of a generator."""
        return _GeneratorTrace(self, call, args, kwargs)

    def _keep(self, call, args, kwargs):
        if call.origin.is_init and args:
            args = (argument_pickler.UninitializedObject(type(args[0])), *args[1:])
        try:
            call.blob = argument_pickler.dumps((args, kwargs), self._room(), self._functions)
        except argument_pickler.PickleSizeExceeded:
            call.why = "the budget of bytes is spent"
        except Exception as error:  # the project's own __reduce__ and __getstate__ run here
            call.why = ("cannot be pickled: %s: %s" % (type(error).__name__, render(error)))[:_MAX_WHY]
        else:
            self._used += len(call.blob)

    def _room(self):
        """Return how many bytes are left."""
        if self._used >= self._bytes // 2:
            # Calls that were replaced in the sample have given theirs back.
            self._used = sum(len(call.blob or b"") for call in self._kept())
        return self._bytes - self._used

    def _kept(self):
        return [call for sample in self.samples for call in list(sample.kept)]

    def returned(self, call, ns, value, args, kwargs):
        """Record that a call has returned."""
        self._end(call, ns, observe_return, value, args, kwargs)

    def raised(self, call, ns, error, args, kwargs):
        """Record that a call has raised."""
        self._end(call, ns, observe_raise, error, args, kwargs)

    def _end(self, call, ns, observe, outcome, args, kwargs):
        started = perf_counter_ns()
        call.ns = ns
        # Iterators are refused: the test still needs what they hold.
        call.fields = observe(outcome, args, kwargs, REFUSE)
        self.spend(started)

    def spend(self, started):
        """Charge the time since `started` to the budget; return whether any is left (else calls are counted).

        A test gets half of what is left: one that is costly to record must not take all from the others.
        """
        spent_ns = perf_counter_ns() - started
        self._spent_ns += spent_ns
        self._left_ns -= spent_ns
        if self._left_ns >= self._reserved_ns:
            return True
        for sample in self.samples:
            sample.pause()
        return False

    def finish(self):
        """Write what was gathered: counts, calls in their order, and the inputs file."""
        self.set_test("")
        for sample in self.samples:
            sample.close()
        for trace in list(self.unfinished):
            trace.close()
        for (test, target), calls in self._counts.items():
            self._channel.write("executed", id=test, target=target, calls=calls)
        kept = sorted(self._kept(), key=lambda call: call.order)
        self._write_calls([call for call in kept if call.fields is not None])

    def _write_calls(self, calls):
        if not self._inputs:
            for index, call in enumerate(calls):
                self._write_call(index, call)
            return
        # Not by our number: runners in namespaces of their own all have the same one.
        draft = "%s.%s" % (self._inputs, os.urandom(8).hex())
        with open(draft, "wb") as file:
            for index, call in enumerate(calls):
                self._write_call(index, call)
                if call.blob is not None:
                    call_files.write_call(file, _meta_of(index, call), call.blob)
            call_files.write_modules(file, self._root)
        os.replace(draft, self._inputs)

    def _write_call(self, index, call):
        fields = dict(call.fields)
        unencodable = fields.pop("unencodable", "")
        if unencodable:
            self._channel.write("unencodable", i=index, why=unencodable)
        fields.update(i=index, test=call.test, target=call.origin.target, args=call.args)
        fields.update(captured=call.blob is not None, inputs=_inputs_digest(call))
        self._channel.write("call", why=call.why, ns=call.ns, thread=call.thread, **fields)


def _inputs_digest(call):
    """Return a digest of all that a replay of a call depends on; empty when its inputs are not kept."""
    if call.blob is None:
        return ""
    head = "%s %s %s\n" % (call.origin.via, call.origin.module, call.items)
    return blake2b(head.encode() + call.blob, digest_size=16).hexdigest()


def _meta_of(index, call):
    """Return the head of a captured call in the inputs file."""
    origin = call.origin
    read = {} if call.items is None else {"items": call.items}
    return {
        **read,
        "i": index,
        "target": origin.target,
        "test": call.test,
        "via": origin.via,
        "shape": origin.shape,
        "module": origin.module,
        "ns": call.ns,
    }


#: Parts of a text that are gathered before they are digested.
_MANY = 1_000

#: Items that are shown, and the longest text of one.
_SHOWN, _MAX_TEXT = 100, 200


class UnrecordedTrace:
    """A trace of a generator that is not recorded."""

    def clock(self):
        """Return no time."""
        return 0

    def item(self, started, item):
        """Ignore an item."""

    def ended(self, started, value):
        """Ignore the end."""

    def left(self, started, error, thrown):
        """Ignore an error."""

    def close(self):
        """Ignore that the rest was not wanted."""


SILENT = UnrecordedTrace()


class _GeneratorTrace:
    """Items of a generator so far; its outcome is written when it ends, or as far as it was read."""

    def __init__(self, recorder, call, args, kwargs):
        self._recorder, self._call, self._arguments = recorder, call, (args, kwargs)
        self._digests = [blake2b(digest_size=16) for _ in range(3)]
        self._texts, self._count, self._why, self._is_full = [], 0, "", False
        shape = call.origin.shape
        self._type = "builtins." + ("async_generator" if shape == "asyncgen" else "generator")
        self._walk = walk_in_part(REFUSE)
        begin_spent(self._walk, self._type)
        self._walk.met(self)  # numbered as the list of all items is
        self._walk.write("[")
        recorder.unfinished.add(self)

    def clock(self):
        """Return the time, in nanoseconds; no time once items are only counted.

        Not the thread's CPU time: reading that is a system call, which costs more than most items.
        """
        return 0 if self._is_full else perf_counter_ns()

    def item(self, started, item):
        """Take the next item, as it is now: the consumer may change it."""
        self._count += 1
        if self._is_full:
            return
        now = perf_counter_ns()
        self._call.ns += now - started
        if self._count > 1:
            self._walk.write(", ")
        self._add(item)
        if self._count <= _SHOWN:
            self._texts.append(render(item, _MAX_TEXT))
        if not self._recorder.spend(now):
            self._why = "the budget of seconds is spent"
        self._is_full = bool(self._why) or self._count >= MAX_ITEMS

    def _charge(self, started):
        if started:
            self._call.ns += perf_counter_ns() - started

    def _add(self, part):
        try:
            self._walk.run(part)
        except UnencodableValue as error:
            self._why = str(error)
        if len(self._walk.full) > _MANY:
            self._flush()

    def _flush(self):
        for digest, text in zip(self._digests, self._walk.taken_texts()):
            digest.update(text.encode("utf-8", "surrogatepass"))

    def ended(self, started, value):
        """Record that the generator is exhausted."""
        self._charge(started)
        self._finish("exhausted", [] if value is None else [value])

    def close(self):
        """Record that the rest was not wanted."""
        self._call.items = self._count
        self._finish("read in part", "cut")

    def left(self, started, error, thrown):
        """Record that the generator raised.

        Args:
            thrown: what the consumer threw in. A cancellation that comes out again is no outcome of the
                target's, and an error that does is none that a replay could give.
        """
        if error is thrown and not isinstance(error, Exception):
            self.close()
            return
        self._charge(started)
        raised = observe_raise(error, *self._arguments, REFUSE)
        kept = raised if error is thrown else {"after": raised["after"]}
        self._finish("raises " + raised["type"], "raises %r" % raised["type"], kept)

    def _finish(self, state, ending, fields=None):
        if self not in self._recorder.unfinished:
            return
        self._recorder.unfinished.discard(self)
        self._walk.write("]")
        for part in end_spent(self._walk, "cut" if self._count >= MAX_ITEMS else ending):
            self._add(part)
        self._flush()
        shown = ("[%s] %s" % (", ".join(self._texts), state))[:2000]
        fields = {"kind": "return", "type": self._type, "after": "", "text": shown, **(fields or {})}
        fields.update(zip(("digest", "floatless", "typeless"), [one.hexdigest() for one in self._digests]))
        if self._why:
            fields.update(digest="", floatless="", typeless="", after="")
        if why := self._why or self._walk.opaque:
            fields["unencodable"] = why
        self._call.fields = fields
