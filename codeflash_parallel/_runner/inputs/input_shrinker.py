"""Smaller inputs for one call: made in a fixed order, tried out on the baseline, written like derived ones.

Nothing is drawn: the same input gives the same smaller ones. Objects that are no builtin containers or atoms
stay as they are.
"""

import math

from ..process.call_limits import limit_memory
from ..replay.replay_session import open_session
from ..values import argument_pickler, call_files

_MEMORY_BYTES = 512 << 20
#: Longest pickle of one input.
_INPUT_BYTES = 1 << 18
#: Single items of a container that are left out or made smaller, at most, and how deep.
_ITEMS, _DEPTH = 12, 2
#: Of too many, so many of the smallest; the others are those that are nearest to what there was.
_SMALL = 2 / 3


def run(spec, channel):
    """Write smaller inputs to a file, and for each a "derived" record and what the call gives."""
    _, session, calls = open_session(spec, channel, spec["base"], spec["calls"])
    limit_memory(_MEMORY_BYTES)
    with open(spec["derived"], "wb") as file:
        for call in calls:
            for number, blob in enumerate(blobs(session, call, spec["shrink"]), spec["first"]):
                meta = dict(call.meta, i=number, base=call.meta["i"], breaks="", test="", derived=True)
                call_files.write_call(file, meta, blob)
                channel.write("derived", i=number, base=call.meta["i"], breaks="", raises="", size=0)
                session.replay(call_files.Call(meta, blob), channel, frozenset([number]))
    session.close()
    return 0


def blobs(session, call, most):
    """Return the pickles of smaller inputs, the smallest first."""
    args, kwargs = session.prepare(call)[1]
    found = set()
    for smaller in simpler((args, kwargs), _DEPTH + 2):
        try:
            blob = argument_pickler.dumps(smaller, _INPUT_BYTES)
        except Exception:  # objects of the project may object to being copied
            continue
        if len(blob) < len(call.blob) or blob != call.blob:
            found.add(blob)
    ordered = sorted(found, key=lambda blob: (len(blob), blob))
    small = int(most * _SMALL)
    return ordered if len(ordered) <= most else [*ordered[:small], *ordered[small - most :]]


def simpler(value, depth):
    """Yield values that are simpler than this one in one place, of the same type."""
    kind = type(value)
    if kind in (list, str, bytes) or (kind is tuple and depth <= _DEPTH):
        yield from _shorter(value)
    if kind in (list, tuple) and depth > 0:
        for at, item in enumerate(value[:_ITEMS]):
            for other in simpler(item, depth - 1):
                yield value[:at] + kind([other]) + value[at + 1 :]
    elif kind is dict:
        yield from _simpler_dict(value, depth)
    elif kind is int:
        yield from (number for number in (0, 1, -1, value // 2, value - 1) if abs(number) < abs(value))
    elif kind is float:
        yield from _simpler_float(value)


def _shorter(value):
    size = len(value)
    length = size // 2
    while length:
        yield value[:length]
        yield value[size - length :]
        length //= 2
    if size:
        yield value[:0]
    for at in range(min(size, _ITEMS)):
        yield value[:at] + value[at + 1 :]
        yield value[: size - at - 1] + value[size - at :]


def _simpler_dict(value, depth):
    items = list(value.items())
    if depth <= _DEPTH:  # not keyword arguments: without one it is another call
        for some in _shorter(items):
            yield dict(some)
    if depth > 0:
        for key, item in items[:_ITEMS]:
            for other in simpler(item, depth - 1):
                yield dict(value, **{key: other}) if type(key) is str else {**value, key: other}


def _simpler_float(value):
    if not math.isfinite(value):
        return
    for number in (0.0, 1.0, float(int(value)), value / 2):
        if abs(number) < abs(value) or len(repr(number)) < len(repr(value)):
            yield number
