"""Make twins of captured calls: other values of the same shape, on which the baseline ends likewise.

In a twin letters and digits are exchanged for others (one permutation for the whole call, so that what was
equal, contained or sorted alike stays so), numbers move a little, and items change places. An argument or
attribute that always has one value, or a key of a record, stays. A twin keeps all relations of the observed
calls, ends as its call does and takes about as long, the first time too where that can be had: an argument by
which the project keeps something stays. Candidates cannot know twins; what they gain on them they gain by
being fast.
"""

import functools
import gc
import itertools
import random
import re
import string
import sys
import time
from contextlib import suppress

from ..bench.call_workload import RaisedException, batch_of
from ..imports import import_guard, source_loader
from ..process.call_limits import CallTimeout, awaited, limit_memory, limited
from ..replay.replay_session import seed_everything
from ..replay.target_functions import LazyResolver, Targets, items_read
from ..values import argument_pickler, call_files
from ..values.value_text import type_name
from . import call_relations
from .call_relations import ITEMS, KEYS, VALUES, is_record

#: Calls of one target from which relations are read.
_MOST_OBSERVED = 300
#: A twin's time on the baseline, as a multiple of its call's, and what a clock errs by in so short calls.
_LEAST_RATIO, _MOST_RATIO, _GRAIN_NS = 0.7, 1.4, 5_000
#: By how many times the first call may exceed the others of the same input.
_COLD = 2
#: Calls shorter than this are made several times; the fastest counts.
_SHORT_NS, _TIMES = 1_000_000, 4
#: Calls that take so much of their group's time have twins, or there are no more of the others either.
_SHARE = 0.8
#: By how much all whole numbers of a call are shifted; None: each by another.
_REACHES = (1_000_000, 1_000, 32, None)
#: Fewer different values than these, and numbers below, may be flags.
_CHOICE = 4
#: Tries for one twin in each way; variants of which too many calls have none, until no more are tried: where
#: one call is all of a group, a single bad draw would leave it without twins, and tables of answers credited.
_TRIES, _MISSES = 2, 5
#: Twins of a group take so long in all, where they can be made within the budget, and so long at least:
#: blocks of a few microseconds tell nothing.
_TWINS_NS, _LEAST_NS = 3_000_000, 800_000
#: Twins of one group at most; CPU time for making all, or so many passes over all calls; bytes of all.
_MOST_TWINS, _MAKING_NS, _MAKING_PASSES, _ALL_BYTES = 3_000, 1_200_000_000, 8, 32 << 20
_MEMORY_BYTES = 1 << 30
#: Seconds that one call may wait: for a core mostly, on a busy machine.
_WAIT_S = 10.0
_WORD = re.compile(r"[^\W_]+")
#: Compiled patterns are looked for in about so many parts of a call.
_MOST_PARTS = 1_000


def run(spec, channel):
    """Write twins of the calls of each group to a file, as many of each call."""
    guard = import_guard.install(spec, channel)
    call_files.install_places(spec)
    calls = call_files.read_calls(spec["inputs"])
    guard.proof.instrument = source_loader.registering(spec, calls)
    limit_memory(_MEMORY_BYTES)
    maker = _Maker(spec, {call.meta["i"]: call for call in calls})
    with open(spec["twins"], "wb") as file:
        for number, group in enumerate(spec["groups"]):
            for twin in maker.twins_of(group["calls"], len(spec["groups"]) - number):
                call_files.write_call(file, *twin)
    maker.close()
    return 0


class _Maker:
    """State that all groups share: relations, budgets, inputs seen so far."""

    def __init__(self, spec, calls):
        self._calls, self._seed = calls, spec["seed"]
        self._targets, self._settler = Targets(spec, source_loader.REGISTRY), LazyResolver()
        self._random = random.Random(spec["seed"])
        self._seen = {call.blob for call in calls.values()}
        self._left_ns, self._room, self._next = None, _ALL_BYTES, 0
        # Of targets: relations, the way that did last, and whether all ways meet the project's own caches.
        self._known, self._ways, self._cold = {}, {}, set()

    def close(self):
        """Let go of the event loop."""
        self._settler.close()

    def twins_of(self, indexes, groups):
        """Return (meta, blob) of a group's twins, variant by variant, as many of each call that has any.

        Args:
            indexes: of the group's calls.
            groups: that are still to come, this one included: they share what is left of the budget.
        """
        seeds = every = [seed for seed in map(self._seeded, indexes) if seed is not None]
        if not seeds:
            return []
        if self._left_ns is None:
            self._left_ns = max(_MAKING_NS, _MAKING_PASSES * groups * _pass_ns(seeds))
        end_ns = time.process_time_ns() + self._left_ns // groups
        found, misses = [], 0
        while seeds and len(found) < _wanted(seeds) and misses < _MISSES:
            began = time.process_time_ns()
            variant = [self._twin(seed, end_ns) for seed in seeds]
            # A call that has no other twin is left out of all variants, or else this variant is.
            kept = [place for place, twin in enumerate(variant) if twin is not None]
            # By times as they are now: a first look on a busy machine can be wrong by a hundred times.
            if _pass_ns(seeds[place] for place in kept) < _SHARE * _pass_ns(every):
                misses += 1
                for place, twin in enumerate(variant):
                    seeds[place].way = seeds[place].way if twin else None  # from the beginning
            else:
                seeds = [seeds[place] for place in kept]
                found = [[one[place] for place in kept] for one in [*found, variant]]
            spent = time.process_time_ns() - began
            self._left_ns -= spent
            if time.process_time_ns() + spent > end_ns or self._room < 0:
                break
        is_short = len(found) * _pass_ns(seeds) < _LEAST_NS
        return [] if is_short else [twin for variant in found for twin in variant]

    def _seeded(self, index):
        """Return a call with what it does on the baseline; None where it cannot be made."""
        with suppress(Exception, CallTimeout):
            call = self._calls[index]
            seed = _Seed(call, self._targets.function(call.meta), self._relations(call.meta["target"]))
            seed.kind = self._ended(call.blob, seed)[0]
            seed.ns = self._ended(call.blob, seed)[1]
            return seed
        return None

    def _relations(self, target):
        if target not in self._known:
            calls = {call.blob: call for call in self._calls.values() if call.meta["target"] == target}
            observed = []
            for call in list(calls.values())[:_MOST_OBSERVED]:
                with suppress(Exception):
                    observed.append(call_files.load(call))
            known = call_relations.infer(observed)
            # Where few values were seen they choose; small numbers that stand alone are kept there.
            flags = {path for path, place in known.places.items() if _different(place.pool) < _CHOICE}
            self._known[target] = _freed(known), flags
        return self._known[target]

    def _twin(self, seed, end_ns):
        """Return (meta, blob) of a new twin; None if none is found in time.

        Calls of one target begin with the way that did for the one before. A twin that costs the project much
        more the first time (it compiles a format, say, and keeps it) says little: one that does not is looked
        for first, and where no way leads to one, others will do for this target.
        """
        target, cold = seed.call.meta["target"], None
        if seed.way is None:
            seed.way = self._ways.get(target, 0)
        began = seed.way
        while seed.way < len(_WAYS) and time.process_time_ns() < end_ns:
            # What went well before fails by chance.
            for _ in range(_TRIES if self._ways.get(target) != seed.way else 4 * _TRIES):
                blob, is_cold = self._drawn(seed)
                if blob is None:
                    continue
                if not is_cold or target in self._cold:
                    self._ways[target] = seed.way
                    return self._taken(seed, blob)
                cold = cold or (blob, seed.way)
            seed.way += 1
        if target in self._cold or (cold is None and began == 0):
            return None
        self._cold.add(target)
        if cold is None:  # there are no more of the others
            seed.way = 0
            return self._twin(seed, end_ns)
        blob, seed.way = cold
        self._ways[target] = seed.way
        return self._taken(seed, blob)

    def _taken(self, seed, blob):
        self._seen.add(blob)
        self._room -= len(blob)
        self._next += 1
        meta = seed.call.meta
        return dict(meta, i=self._next, base=meta["i"], test=""), blob

    def _drawn(self, seed):
        """Return the pickle of a twin, or None, and whether it cost more the first time."""
        nothing = None, False
        try:
            args, kwargs = call_files.load(seed.call)
            args, kwargs = _Change(seed, self._random).of(args, kwargs)
            if seed.known.broken(args, kwargs):
                return nothing
            blob = argument_pickler.dumps((args, kwargs), _ALL_BYTES)
            if blob in self._seen:
                return nothing
            kind, ns, first_ns = self._ended(blob, seed)
            if kind != seed.kind:
                return nothing
            if not _is_like(ns, seed.ns):  # the machine may have become faster or slower since
                seed.ns = self._ended(seed.call.blob, seed)[1]
        except (Exception, CallTimeout):  # objects of the project may object to whatever was changed
            return nothing
        return (blob, first_ns > _COLD * ns + _GRAIN_NS) if _is_like(ns, seed.ns) else nothing

    def _ended(self, blob, seed):
        """Return how a call ends, its CPU time (of a short one the least of some), and that of the first."""
        kind, first_ns = self._made(blob, seed)
        again = _TIMES - 1 if _GRAIN_NS < first_ns < _SHORT_NS else 0
        return kind, min([first_ns, *(self._made(blob, seed)[1] for _ in range(again))]), first_ns

    def _made(self, blob, seed):
        meta, call = seed.call.meta, call_files.Call(seed.call.meta, blob)
        waits = meta["shape"] in ("coroutine", "asyncgen")
        if waits:
            self._settler.open_loop()
        entry = (seed.function, *call_files.load(call), items_read(meta))
        batch = batch_of([entry], 1, (), self._settler, waits=waits)
        seed_everything(self._seed)
        gc.disable()
        try:
            with limited(), awaited(_WAIT_S):
                started = time.thread_time_ns()
                batch.run()
                ns = time.thread_time_ns() - started
        finally:
            gc.enable()
        return _kind(batch.results[0]), ns


class _Seed:
    """A captured call of which twins are made."""

    def __init__(self, call, function, known):
        self.call, self.function, (self.known, self.flags) = call, function, known
        self.kind, self.ns, self.way = "", 0, None  # `way`: its place in `_WAYS`
        self.words = _words_of(call.meta["module"])


def _pass_ns(seeds):
    """Return the CPU time of one call of each."""
    return sum(seed.ns for seed in seeds)


def _wanted(seeds):
    """Return how many variants of some calls there are to be."""
    return max(1, min(_MOST_TWINS // len(seeds), _TWINS_NS // max(1, _pass_ns(seeds))))


def _is_like(ns, usual_ns):
    return _LEAST_RATIO * usual_ns - _GRAIN_NS <= ns <= _MOST_RATIO * usual_ns + _GRAIN_NS


def _different(values):
    """Return how many different plain values there are; to write others is the project's own affair."""
    return len({(type(value), value) for value in values if type(value) in (int, float, str, bytes)})


def _kind(result):
    if type(result) is RaisedException:
        if isinstance(result.error, CallTimeout):
            raise result.error
        return "raises " + type_name(type(result.error))
    return "returns " + type_name(type(result))


def _freed(known):
    """Return relations with wider ranges: other numbers are the point."""
    places = {path: _wider(each, path) for path, each in known.places.items()}
    return call_relations.CallRelations(places, known.pairs)


def _wider(summary, path):
    # A number that is always the same may choose, unless it is one of several in a container.
    is_one_of_several = len(path) > 1 and str(path[-1])[:1] != "."
    if summary.low is None or (summary.low == summary.high and not is_one_of_several):
        return summary
    most = max(abs(summary.low), abs(summary.high)) + _REACHES[0]
    low = -most if summary.low < 0 else min(summary.low, 1)
    high = most if summary.high > 0 else max(summary.high, -1)
    return summary._replace(low=low, high=high)


@functools.cache
def _words_of(module):
    """Return the words in the source of a module: texts that the code may know."""
    try:
        with open(sys.modules[module].__file__, encoding="utf-8") as file:
            return frozenset(map(str.lower, _WORD.findall(file.read())))
    except (OSError, AttributeError, UnicodeDecodeError):
        return frozenset()


#: What is done to the words of texts, the most telling first: letters are exchanged in all of them, in those
#: that the source does not have, in one half; they change places; nothing (but to numbers and orders); in all
#: of them, but the argument at this place stays.
_LEVELS = ("all", "unknown", "half", "moved", "none", 0, 1, 2)
_WAYS = tuple((level, reach) for level in _LEVELS for reach in _REACHES)
_SEQUENCES = (list, tuple, set, frozenset)


class _Change:
    """One change of all values of a call: equal parts are changed alike."""

    def __init__(self, seed, chance):
        self._places, self._words, self._chance = seed.known.places, seed.words, chance
        self._flags = seed.flags
        self._level, reach = _WAYS[seed.way]
        self._signs = str.maketrans(_permutation(chance))
        self._codes = bytes([0, *chance.sample(range(1, 256), 255)])
        self._changed, self._walked, self._kept = {}, {}, set()
        # Equal steps keep orders and distances; jitter does not.
        self._shift = None if reach is None else chance.randint(1, reach)
        self._factor = chance.uniform(0.9, 1.1)
        self._orders = chance.random() < 1 / 4 or self._level == "none"

    def of(self, args, kwargs):
        """Return other (args, kwargs); objects and containers of the given ones are changed in place."""
        self._sought = {word for pattern in _patterns(args, kwargs) for word in _words_in(pattern)}
        for summary in self._places.values():
            self._kept.update(summary.closed or (), summary.keys or ())
        arguments = [*enumerate(args), *kwargs.items()]
        changed = [
            value if self._level == number else self._value(value, (name,))
            for number, (name, value) in enumerate(arguments)
        ]
        return tuple(changed[: len(args)]), dict(zip(kwargs, changed[len(args) :]))

    def _value(self, value, path):
        kind = type(value)
        if kind in (str, bytes, int, float):
            return self._atom(value, path)
        if id(value) in self._walked:
            return self._walked[id(value)][1]
        # What was walked is kept alive, or its place in memory would be taken by another.
        self._walked[id(value)] = (value, value)
        found = value
        if kind in _SEQUENCES:
            found = self._sequence(value, path)
        elif kind is dict:
            self._mapping(value, path)
        elif kind is bytearray:  # changed as bytes of the same signs elsewhere in the call are
            value[:] = self._atom(bytes(value), path)
        elif kind.__module__ == "numpy" and hasattr(value, "dtype"):
            self._array(value)
        elif (
            kind.__module__ != "builtins"
            and not isinstance(value, type)
            and not argument_pickler.place_of(value)
        ):
            state = getattr(value, "__dict__", None)
            if type(state) is dict:
                for name, part in list(state.items()):
                    state[name] = self._value(part, (*path, "." + name))
        self._walked[id(value)] = (value, found)
        return found

    def _sequence(self, value, path):
        fields = type(value) is tuple and len(value) <= 12
        parts = [self._value(part, (*path, at if fields else ITEMS)) for at, part in enumerate(value)]
        if type(value) is list:
            if self._orders:
                self._chance.shuffle(parts)
            value[:] = parts
            return value
        if type(value) is set:
            value.clear()
            value.update(parts)
            return value
        return type(value)(parts)

    def _mapping(self, value, path):
        record = is_record(value)
        items = []
        for key, part in value.items():
            step = "." + key if record else VALUES
            items.append((self._value(key, (*path, KEYS)), self._value(part, (*path, step))))
        if self._orders:
            self._chance.shuffle(items)
        value.clear()
        value.update(items)

    def _array(self, array):
        """Change the order of rows; of a square matrix rows and columns alike, which keeps its symmetry."""
        if not array.ndim or not array.flags.writeable:
            return
        order = list(range(array.shape[0]))
        self._chance.shuffle(order)
        is_square = len(array.shape) == 2 and array.shape[0] == array.shape[1]
        array[...] = array[order][:, order] if is_square else array[order]

    def _atom(self, value, path):
        key = (type(value), value)
        if key not in self._changed:
            alone = len(path) == 1 or str(path[-1])[:1] == "."
            is_flag = type(value) is int and alone and -_CHOICE < value < _CHOICE and path in self._flags
            is_kept = value in self._kept or is_flag
            self._changed[key] = value if is_kept else self._other(value, path)
        return self._changed[key]

    def _other(self, value, path):
        if type(value) is str:
            return self._text(value)
        if type(value) is bytes:
            if 0 in value and self._level not in ("half", "moved", "none"):  # no text
                return value.translate(self._codes)
            return self._text(value.decode("latin-1")).encode("latin-1")
        summary = self._places.get(path)
        low, high = (summary.low, summary.high) if summary and summary.low is not None else (value, value)
        if type(value) is int:
            reach = max(1, abs(value) // 8)
            moved = value + (self._chance.randint(-reach, reach) if self._shift is None else self._shift)
            return min(max(moved, int(low)), int(high)) if low <= value <= high else moved
        moved = min(max(value * self._factor, low), high)
        return moved if summary is None or summary.decimals is None else round(moved, summary.decimals)

    def _text(self, text):
        if self._level != "moved":
            return _WORD.sub(self._word, text)
        others = [word for word in _WORD.findall(text) if not self._stays(word)]
        self._chance.shuffle(others)
        return _WORD.sub(lambda word: word[0] if self._stays(word[0]) else others.pop(), text)

    def _stays(self, word):
        return word in self._sought or word.lower() in self._words

    def _word(self, match):
        word = match.group()
        if word in self._sought or self._level == "none":
            return word
        if self._level == "unknown" and word.lower() in self._words:
            return word
        if self._level == "half" and hash((word, self._factor)) % 2:
            return word
        return word.translate(self._signs)


def _patterns(args, kwargs):
    """Return the compiled patterns in a call: they stay, and so does what they look for."""
    parts = [args, kwargs]
    for part in parts:  # it grows meanwhile
        if len(parts) < _MOST_PARTS:
            state = getattr(part, "__dict__", None)
            inner = (
                part if type(part) in _SEQUENCES else (part if type(part) is dict else state or {}).values()
            )
            parts += itertools.islice(inner, _MOST_PARTS)
    return [part for part in parts if type(part) is re.Pattern]


def _words_in(pattern):
    source = pattern.pattern
    return _WORD.findall(source if type(source) is str else source.decode("latin-1"))


def _permutation(chance):
    """Return a permutation of the Latin letters, the same for both cases, and of the digits but zero."""
    found = {}
    for signs in (string.ascii_lowercase, string.digits[1:]):
        others = list(signs)
        chance.shuffle(others)
        found.update(zip(signs, others))
        found.update(zip(signs.upper(), "".join(others).upper()))
    return found
