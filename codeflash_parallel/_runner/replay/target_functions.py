"""Find the function that a captured call went to, call it again, and force what it gave.

A lazy result (generator, iterator, coroutine, future) has not done its work yet: it is settled before
anything is compared or any clock is stopped.
"""

import _io
import contextlib
import functools
import importlib
import sys
import types
from itertools import islice

from ..process.call_limits import CallTimeout
from ..values.type_handlers import MAX_ITEMS, Spent
from ..values.value_text import type_name

#: How a result of some type is forced; an empty word: it is no lazy one.
_WORDS = (
    (types.GeneratorType, "generator"),
    (types.CoroutineType, "awaitable"),
    (types.AsyncGeneratorType, "asyncgen"),
)


class TargetNotFound(Exception):  # noqa: N818 - a fact about the candidate's code
    """The function that the captured call went to is not there; the message says what is missing."""


class Targets:
    """Resolves captured calls to functions, each function once.

    Args:
        spec: the runner's order.
        registry: innermost functions by target number, filled while modules load ("inner" calls need it).
    """

    def __init__(self, spec, registry):
        self._targets, self._registry, self._found = spec["targets"], registry, {}
        self._failed = {}

    def function(self, meta):
        """Return the function that takes the captured (args, kwargs) of a call.

        Raises:
            TargetNotFound: there is no such function any more.
        """
        key = (meta["target"], meta["via"], meta["module"])
        if key not in self._found:
            self._found[key] = self._resolve(meta)
        return self._found[key]

    def resolve(self, calls):
        """Find the functions of all calls, as far as there are any; `function` says so for each."""
        for call in calls:
            with contextlib.suppress(TargetNotFound):
                self.function(call.meta)

    def _resolve(self, meta):
        qualname = self._targets[meta["target"]]["qualname"]
        try:
            module = self._imported(meta["module"])
            if meta["via"] == "inner":
                return self._registry[meta["target"]]
            *outer, name = qualname.split(".")
            return _callable(_static(functools.reduce(getattr, outer, module), name), name)
        except BaseException as error:
            place, what = "%s.%s" % (meta["module"], qualname), "%s: %s" % (type(error).__name__, error)
            raise TargetNotFound(("%s cannot be found (%s)" % (place, what))[:500]) from None

    def _imported(self, name):
        """Import a module; one that cannot be imported is tried once, not for each of hundreds of calls."""
        if name in self._failed:
            raise self._failed[name]
        try:
            return importlib.import_module(name)
        except BaseException as error:
            self._failed[name] = error
            raise


def _static(holder, name):
    """Return an attribute as it stands in the class, without running its descriptor."""
    if isinstance(holder, type):
        for base in holder.__mro__:
            if name in base.__dict__:
                return base.__dict__[name]
    return getattr(holder, name)


def _callable(raw, name):
    """Return the function inside a descriptor: the captured arguments begin with the instance or class."""
    if isinstance(raw, (staticmethod, classmethod)):
        return raw.__func__
    if isinstance(raw, property):
        return raw.fget
    if isinstance(raw, functools.cached_property):
        return raw.func
    if callable(raw):
        return raw
    return lambda self, *args, **kwargs: getattr(self, name)  # noqa: ARG005 - some other descriptor


def items_read(meta):
    """Return how many items of a lazy result matter: those that the captured test read, 10,000 at most."""
    items = meta.get("items")
    return MAX_ITEMS if items is None else min(items, MAX_ITEMS)


class LazyResolver:
    """Forces lazy results; keeps one event loop for all of them."""

    def __init__(self):
        self._loop = None

    def settle(self, result, limit=MAX_ITEMS):
        """Return a result with all its work done; lazy ones become `Spent`, awaitables what they give.

        Args:
            limit: how many items of an iterator the captured test read.
        """
        word = laziness(type(result))
        if not word:
            return result
        if word == "awaitable":
            return self.settle(self.await_(result), limit)
        if word == "asyncgen":
            return self.await_(_collect(result, limit))
        return result.result() if word == "future" else _spend(result, word, limit)

    def await_(self, awaitable):
        """Run an awaitable on the event loop to its end, and whatever tasks it left behind to theirs."""
        loop = self.open_loop()
        try:
            return loop.run_until_complete(_awaited(awaitable))
        finally:
            loop.run_until_complete(_cancel_others())

    def open_loop(self):
        """Return the event loop, made when first asked for (never before a fork: it holds descriptors)."""
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop

    def close(self):
        """Close the event loop, if there is one."""
        if self._loop is not None:
            self._loop.close()


async def _awaited(awaitable):
    return await awaitable


async def _cancel_others():
    import asyncio

    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.gather(*others, return_exceptions=True)


async def _collect(generator, limit):
    items, ended = [], "" if limit > 0 else "cut"
    try:
        if limit > 0:
            async for item in generator:
                items.append(item)
                if len(items) >= limit:
                    ended = "cut"
                    break
        await generator.aclose()
    except CallTimeout:
        raise
    except BaseException as error:
        ended = "raises %r" % type_name(type(error))
    return Spent(type_name(type(generator)), items, ended)


def _spend(iterator, word, limit):
    items, box = [], []
    source = _returning(iterator, box) if word == "generator" else iterator
    try:
        items.extend(islice(source, limit))
    except CallTimeout:
        raise
    except BaseException as error:
        return Spent(type_name(type(iterator)), items, "raises %r" % type_name(type(error)))
    return Spent(type_name(type(iterator)), items, "cut" if len(items) >= limit else box)


def _returning(generator, box):
    """Pass a generator through and keep what it returned, unless that is nothing."""
    value = yield from generator
    if value is not None:
        box.append(value)


@functools.lru_cache(maxsize=None)
def laziness(cls):
    """Return how results of a type are forced: a word, empty for the usual ones."""
    for base, word in _WORDS:
        if base in cls.__mro__:
            return word
    if hasattr(cls, "__next__"):
        return "" if _io._IOBase in cls.__mro__ else "iterator"
    if hasattr(cls, "__anext__"):
        return ""
    futures = sys.modules.get("concurrent.futures")
    if futures is not None and futures.Future in cls.__mro__:
        return "future"
    return "awaitable" if hasattr(cls, "__await__") else ""
