"""The wrappers of target functions, one for each kind of function; each keeps its function's kind.

They are on the path of every call of a target, perhaps a million times in a test, so what is not sampled is
passed by as cheaply as can be: names bound outside, one set of thread ids, one atomic counter.
"""

import functools
import sys
import types
from _thread import get_ident
from time import thread_time_ns

from ..imports import instrumentation
from ..paths import path_relocation
from . import generator_wrappers
from .call_recorder import ActiveCallMark, CallOrigin, CallRecorder

#: Flags of code objects; `inspect` knows them, too, but takes long to import.
_GENERATOR, _COROUTINE, _ASYNCGEN = 0x20, 0x80, 0x200


def install(spec, channel, guard, kind=None):
    """Wrap the targets while their modules are loaded, and return the recorder of their calls."""
    path_relocation.settle(spec)
    recorder = (kind or CallRecorder)(spec, channel)

    def hook(via):
        return lambda target, module: decorator(recorder, CallOrigin(recorder, target, module, via))

    guard.proof.instrument = instrumentation.wrapping(spec, hook("outer"), hook("inner"))
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
        return generator_wrappers.wrap_generator(recorder, origin.shaped(recorder, "generator"), function)
    if not flags & (_COROUTINE | _ASYNCGEN):
        return _sync(recorder, origin, function)
    recorder.watches_tasks[0] = True
    if flags & _ASYNCGEN:
        return generator_wrappers.wrap_asyncgen(recorder, origin.shaped(recorder, "asyncgen"), function)
    return _coroutine(recorder, origin.shaped(recorder, "coroutine"), function)


def _sync(recorder, origin, function):
    busy, watches_tasks, inside = recorder.busy, recorder.watches_tasks, recorder.inside
    add, discard = busy.add, busy.discard
    ticket, due = origin.tally.ticket.__next__, origin.tally.reservoir.due

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
    ticket, due, mark_var = origin.tally.ticket.__next__, origin.tally.reservoir.due, recorder.mark

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
