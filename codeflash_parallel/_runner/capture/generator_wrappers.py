"""Wrappers of generator functions: a generator is inside its target while it runs, not while it waits."""

import functools
from _thread import get_ident

from .call_recorder import ActiveCallMark
from .generator_trace import SILENT


class TargetSection:
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
        with TargetSection(busy):
            call = recorder.begin(origin, number, args, kwargs) if number >= due[0] else None
            generator = function(*args, **kwargs)
        trace = SILENT if call is None else recorder.trace(call, args, kwargs)
        return (yield from _driven(generator, TargetSection(busy), trace))

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


def wrap_asyncgen(recorder, origin, function):
    """Wrap an asynchronous generator function."""
    busy, inside = recorder.busy, recorder.inside
    ticket, due = origin.tally.ticket.__next__, origin.tally.reservoir.due

    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        __tracebackhide__ = True
        trace, mark = SILENT, None
        if get_ident() not in busy and not inside():
            number, mark = ticket(), ActiveCallMark()
            with TargetSection(busy):
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
