"""Wrappers of target functions, one for each kind of function; each keeps its function's kind.

They are on the path of every call of a target, perhaps a million times in a test, so calls outside the
sample are passed by as cheaply as can be: names bound outside, one set of thread ids, one atomic counter. A
generator is inside its target while it runs, not while it waits.
"""

import functools
import sys
import types
from _thread import get_ident
from time import thread_time_ns

from .. import slot_paths
from ..imports import source_loader
from .call_recorder import SILENT, ActiveCallMark, CallOrigin, CallRecorder

#: Flags of code objects; `inspect` knows them, too, but takes long to import.
_GENERATOR, _COROUTINE, _ASYNCGEN = 0x20, 0x80, 0x200


def install(spec, channel, guard, kind=None):
    """Wrap the targets while their modules are loaded, and return the recorder of their calls."""
    slot_paths.settle(spec)
    recorder = (kind or CallRecorder)(spec, channel)

    def hook(via):
        return lambda target, module: decorator(recorder, CallOrigin(recorder, target, module, via))

    guard.proof.instrument = source_loader.wrapping(spec, hook("outer"), hook("inner"))
    # A wrapper adds a frame to each call of a recursive target.
    sys.setrecursionlimit(2 * sys.getrecursionlimit())
    return recorder


def decorator(recorder, origin):
    """Return the hook that stands above a definition."""

    def wrap_this(found):
        return wrap(recorder, origin, found)

    return wrap_this


def wrap(recorder, origin, found):
    """Return a function, or the descriptor that a known decorator made of it, with recording."""
    kind = type(found)
    if kind in (staticmethod, classmethod):
        return kind(wrap(recorder, origin, found.__func__))
    if kind is property:
        getter = wrap(recorder, origin.shaped(recorder, "property"), found.fget)
        return property(getter, found.fset, found.fdel, found.__doc__)
    if kind is functools.cached_property:
        found.func = wrap(recorder, origin.shaped(recorder, "property"), found.func)
        return found
    if kind is functools._lru_cache_wrapper:
        wrapper = _sync(recorder, origin, found)
        wrapper.cache_info, wrapper.cache_clear = found.cache_info, found.cache_clear
        return wrapper
    return _function(recorder, origin, found) if kind is types.FunctionType else found


def _function(recorder, origin, function):
    flags = function.__code__.co_flags
    if flags & _GENERATOR:
        return wrap_generator(recorder, origin.shaped(recorder, "generator"), function)
    if not flags & (_COROUTINE | _ASYNCGEN):
        return _sync(recorder, origin, function)
    recorder.watches_tasks[0] = True
    if flags & _ASYNCGEN:
        return _wrap_asyncgen(recorder, origin.shaped(recorder, "asyncgen"), function)
    return _coroutine(recorder, origin.shaped(recorder, "coroutine"), function)


def _sync(recorder, origin, function):
    busy, watches_tasks, inside = recorder.busy, recorder.watches_tasks, recorder.inside
    add, discard = busy.add, busy.discard
    ticket, due = origin.sample.ticket.__next__, origin.sample.due

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        __tracebackhide__ = True
        me = get_ident()
        if me in busy or (watches_tasks[0] and inside()):
            return function(*args, **kwargs)
        number = ticket()
        add(me)
        try:
            if number < due[0]:
                return function(*args, **kwargs)
            return _sampled(recorder, origin, number, function, args, kwargs)
        finally:
            discard(me)

    return wrapper


def _sampled(recorder, origin, number, function, args, kwargs):
    __tracebackhide__ = True
    call = recorder.begin(origin, number, args, kwargs)
    if call is None:
        return function(*args, **kwargs)
    started = thread_time_ns()
    try:
        value = function(*args, **kwargs)
    except BaseException as error:
        recorder.raised(call, thread_time_ns() - started, error, args, kwargs)
        raise
    recorder.returned(call, thread_time_ns() - started, value, args, kwargs)
    return value


def _coroutine(recorder, origin, function):
    busy, inside = recorder.busy, recorder.inside
    ticket, due, mark_var = origin.sample.ticket.__next__, origin.sample.due, recorder.mark

    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        __tracebackhide__ = True
        mark = None
        try:
            if get_ident() in busy or inside():
                return await function(*args, **kwargs)
            number, mark = ticket(), ActiveCallMark()
            mark_var.set(mark)
            if number < due[0]:
                return await function(*args, **kwargs)
            return await _sampled_coroutine(recorder, origin, number, function, args, kwargs)
        finally:
            if mark is not None:
                mark.open = False

    return wrapper


async def _sampled_coroutine(recorder, origin, number, function, args, kwargs):
    __tracebackhide__ = True
    call = recorder.begin(origin, number, args, kwargs)
    if call is None:
        return await function(*args, **kwargs)
    started = thread_time_ns()
    try:
        value = await function(*args, **kwargs)
    except BaseException as error:
        recorder.raised(call, thread_time_ns() - started, error, args, kwargs)
        raise
    recorder.returned(call, thread_time_ns() - started, value, args, kwargs)
    return value


class _TargetSection:
    """A stretch of time in which this thread is inside a target; leaves outer ones alone."""

    __slots__ = ("_busy", "_me")

    def __init__(self, busy):
        self._busy = busy
        self._me = None

    def __enter__(self):
        # Another thread may continue a generator.
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
    ticket, due = origin.sample.ticket.__next__, origin.sample.due

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        __tracebackhide__ = True
        if get_ident() in busy or (watches_tasks[0] and inside()):
            return (yield from function(*args, **kwargs))
        number = ticket()
        with _TargetSection(busy):
            call = recorder.begin(origin, number, args, kwargs) if number >= due[0] else None
            generator = function(*args, **kwargs)
        trace = SILENT if call is None else recorder.trace(call, args, kwargs)
        return (yield from _driven(generator, _TargetSection(busy), trace))

    return wrapper


def _driven(generator, section, trace):
    """Run a generator step by step: the thread is marked while it runs."""
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


def _wrap_asyncgen(recorder, origin, function):
    """Wrap an asynchronous generator function."""
    busy, inside = recorder.busy, recorder.inside
    ticket, due = origin.sample.ticket.__next__, origin.sample.due

    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        __tracebackhide__ = True
        trace, mark = SILENT, None
        if get_ident() not in busy and not inside():
            number, mark = ticket(), ActiveCallMark()
            with _TargetSection(busy):
                call = recorder.begin(origin, number, args, kwargs) if number >= due[0] else None
            trace = SILENT if call is None else recorder.trace(call, args, kwargs)
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
