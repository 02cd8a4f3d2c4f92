"""Wrappers of generator functions: a generator is inside its target only while it runs, not while it waits.

What is recorded is what the consumer read, item by item, each as it was when it was handed out.
"""

import functools
import hashlib
from _thread import get_ident
from time import perf_counter_ns, thread_time_ns

from .capture import Mark
from .encode import REFUSE, Unencodable, encode, observe_raise

#: Items of one generator that enter its digest; what comes later is only counted.
_MAX_ITEMS = 10_000

#: Items that are shown, and the longest text of one.
_SHOWN, _MAX_TEXT = 100, 200


class Section:
    """A stretch of time in which this thread is inside a target; leaves outer ones alone."""

    __slots__ = ("_busy", "_me")

    def __init__(self, busy):
        self._busy = busy
        self._me = None

    def __enter__(self):
        # Another thread may go on with a generator.
        me = get_ident()
        if me not in self._busy:
            self._busy.add(me)
            self._me = me

    def __exit__(self, *_):
        if self._me is not None:
            self._busy.discard(self._me)
            self._me = None


def wrap_generator(recorder, origin, function):
    """Wrap a generator function."""
    busy, watches_tasks, inside = recorder.busy, recorder.watches_tasks, recorder.inside
    ticket, due = origin.tally.ticket.__next__, origin.tally.reservoir.due

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        __tracebackhide__ = True
        if get_ident() in busy or (watches_tasks[0] and inside()):
            return (yield from function(*args, **kwargs))
        number = ticket()
        with Section(busy):
            call = recorder.begin(origin, number, args, kwargs) if number >= due[0] else None
            generator = function(*args, **kwargs)
        if call is None:
            return (yield from _passed_by(generator, busy))
        return (yield from _driven(generator, Section(busy), Trace(recorder, call, args, kwargs)))

    return wrapper


def _passed_by(generator, busy):
    """Run a generator that is not recorded: the thread is marked while it runs, as cheaply as can be."""
    __tracebackhide__ = True
    sent = thrown = None
    while True:
        me = get_ident()
        nested = me in busy
        busy.add(me)
        try:
            item = generator.send(sent) if thrown is None else generator.throw(thrown)
        except StopIteration as stop:
            return stop.value
        finally:
            if not nested:
                busy.discard(me)
        try:
            thrown = None
            sent = yield item
        except GeneratorExit:
            with Section(busy):
                generator.close()
            raise
        except BaseException as error:
            sent, thrown = None, error


def _driven(generator, section, trace):
    """Run a generator that is recorded, step by step."""
    __tracebackhide__ = True
    sent = thrown = None
    while True:
        with section:
            started = trace.clock()
            try:
                item = generator.send(sent) if thrown is None else generator.throw(thrown)
            except StopIteration as stop:
                trace.ended(started, stop.value)
                return stop.value
            except BaseException as error:
                trace.left(started, error, thrown)
                raise
            trace.item(started, item)
        try:
            thrown = None
            sent = yield item
        except GeneratorExit:
            with section:
                generator.close()
            trace.close()
            raise
        except BaseException as error:
            sent, thrown = None, error


def wrap_asyncgen(recorder, origin, function):
    """Wrap an asynchronous generator function."""
    busy, inside = recorder.busy, recorder.inside
    ticket, due = origin.tally.ticket.__next__, origin.tally.reservoir.due

    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        __tracebackhide__ = True
        trace, mark = SILENT, None
        if get_ident() not in busy and not inside():
            number, mark = ticket(), Mark()
            with Section(busy):
                call = recorder.begin(origin, number, args, kwargs) if number >= due[0] else None
            trace = SILENT if call is None else Trace(recorder, call, args, kwargs)
        step = _AsyncSteps(function(*args, **kwargs), mark, recorder.mark, trace)
        item = await step.go("asend", None)
        while not step.over:
            try:
                sent = yield item
            except GeneratorExit:
                await step.close()
                raise
            except BaseException as error:
                item = await step.go("athrow", error)
            else:
                item = await step.go("asend", sent)

    return wrapper


class _AsyncSteps:
    """Goes through an asynchronous generator; the task is marked while the generator runs."""

    def __init__(self, generator, mark, variable, trace):
        self.over = False
        self._generator, self._mark, self._variable, self._trace = generator, mark, variable, trace
        self._before = None

    async def go(self, how, what):
        """Go to the next item and return it; `over` says that there was none."""
        __tracebackhide__ = True
        started = self._trace.clock()
        self._enter()
        try:
            item = await getattr(self._generator, how)(what)
        except StopAsyncIteration:
            self.over = True
            self._trace.ended(started, None)
            return None
        except BaseException as error:
            self._trace.left(started, error, what)
            raise
        finally:
            self._leave()
        self._trace.item(started, item)
        return item

    async def close(self):
        """Close the generator early."""
        await self._generator.aclose()
        self._trace.close()

    def _enter(self):
        if self._mark is not None:
            self._mark.open = True
            self._before = self._variable.get()
            self._variable.set(self._mark)

    def _leave(self):
        if self._mark is not None:
            self._mark.open = False
            self._variable.set(self._before)


class Silent:
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


SILENT = Silent()


class Trace:
    """What a generator has given so far; its outcome is written when it ends, or as far as it was read."""

    def __init__(self, recorder, call, args, kwargs):
        self._recorder, self._call, self._arguments = recorder, call, (args, kwargs)
        self._digests = [hashlib.blake2b(digest_size=16) for _ in range(3)]
        self._texts, self._count, self._why, self._is_full = [], 0, "", False
        recorder.unfinished.add(self)

    def clock(self):
        """Return this thread's CPU time, in nanoseconds; no time once items are only counted."""
        return 0 if self._is_full else thread_time_ns()

    def item(self, started, item):
        """Take the next item, as it is now: the consumer may change it."""
        self._count += 1
        if self._is_full:
            return
        now = perf_counter_ns()
        self._charge(started)
        self._add(item)
        if not self._recorder.spend(now):
            self._why = "the budget of seconds is spent"
        self._is_full = bool(self._why) or self._count >= _MAX_ITEMS

    def _charge(self, started):
        if started:
            self._call.ns += thread_time_ns() - started

    def _add(self, item):
        try:
            encoded = encode(item, REFUSE)
        except Unencodable as error:
            self._why = str(error)
            return
        for digest, part in zip(self._digests, (encoded.full, encoded.floatless, encoded.typeless)):
            digest.update(part.encode())
        if len(self._texts) < _SHOWN:
            self._texts.append(encoded.text[:_MAX_TEXT])

    def ended(self, started, value):
        """Record that the generator is exhausted."""
        self._charge(started)
        self._add(value)
        self._finish("exhausted", self._returned())

    def close(self):
        """Record that the rest was not wanted."""
        self._call.items = self._count
        self._finish("read in part", self._returned())

    def _returned(self):
        name = "async_generator" if self._call.origin.shape == "asyncgen" else "generator"
        return {"kind": "return", "type": "builtins." + name, "after": ""}

    def left(self, started, error, thrown):
        """Record that the generator raised.

        Args:
            thrown: what the consumer threw in. A cancellation that comes out again is no outcome of the
                target's.
        """
        if error is thrown and not isinstance(error, Exception):
            self.close()
            return
        self._charge(started)
        self._finish("raised", observe_raise(error, *self._arguments, REFUSE))

    def _finish(self, state, fields):
        if self not in self._recorder.unfinished:
            return
        self._recorder.unfinished.discard(self)
        names = ("digest", "floatless", "typeless")
        for name, digest in zip(names, self._digests):
            digest.update(("%d %s %s" % (self._count, state, fields.get(name, ""))).encode())
            fields[name] = digest.hexdigest()
        shown = ("[%s] %s" % (", ".join(self._texts), state))[:2000]
        fields.setdefault("text", shown)
        if self._why:
            fields.update(digest="", floatless="", typeless="", after="", unencodable=self._why)
        self._call.fields = fields
