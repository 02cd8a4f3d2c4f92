"""Derive inputs from the captured ones and try them out on the baseline; keep those on which it ends well.

The inputs are made once for a baseline, by a seed that no candidate knows. Which of them count is decided by
two replays of the kept ones under different hash seeds.
"""

import contextlib
import copy
import inspect
import itertools
import opcode
import os
import pickle
import random
import time
from collections import namedtuple
from functools import partial

from .. import slot_paths
from ..process import process_fork
from ..process.call_limits import CALL_S, CallTimeout, awaited, limit_memory, limited, mortal
from ..replay.replay_session import open_session
from ..values import argument_pickler, call_files
from ..values.value_text import type_name
from . import call_relations, input_shrinker
from .call_relations import ONE_SIGN, positions, size_of
from .input_objects import Crossover, callees, empties, empty_attributes
from .mutation import Mutator, is_plain

#: Captured calls of one target that relations are read from and inputs are derived from.
_MOST_OBSERVED = 300
#: How many inputs are made for each one that is wanted, at most.
_TRIES = 12
#: What is added to a constant of the code in the inputs that are made for it; None: drawn.
_OFFSETS = (0, 1, -1, None, None, None)
#: How often a number is tried as a size: not every input shows that it is one.
_SIZE_TRIES = 3
#: Numbers and texts of a module's tables that are tried, signs of such a text, and what tables are.
_MOST_WORDS, _MOST_SIGNS, _TABLES = 32, 60, (list, tuple, set, frozenset, dict)
#: Observed generators that are read further.
_MOST_READ = 20
#: By how many items more, besides as many again.
_READ_ON = 8
#: CPU seconds for trying out inputs of one target, and for those that are kept, where there are many targets.
_LEAST_TRY_S, _LEAST_CHECK_S = 0.3, 0.025
#: Seeds that take longer are made smaller, in so much of the budget: CPU nanoseconds, smaller ones that are
#: looked at, seconds after which one is ended.
_SEED_NS, _SMALLER, _SEED_CALL_S, _SEEDING = 5_000_000, 60, 0.5, 0.2
#: A call may take so many times what the slowest seed does, and CPU seconds at least.
_MANY_TIMES, _LEAST_CALL_S = 10, 0.005
#: What a call costs that was ended while it waited.
_WAITED_NS = 500_000_000
#: Of the budget of a check, what longer inputs than the observed ones may take.
_LONG = 1 / 3
#: What a replay adds to each call: looks at the outcome, and at what is left behind.
_LOOK_NS = 50_000
#: Of the inputs that are wanted, so much may be such on which the baseline raises.
_RAISING = 0.25
#: Said of inputs that break a relation and that the project's own code objects to
#: (see `check.comparison.value_comparison`).
OBJECTED, ACCIDENT = "what its own code objects to", "an exception that nobody meant"
#: These say nothing about the input: they depend on the depth of calls and on the machine.
_OF_THE_MACHINE = (RecursionError, MemoryError)
_MEMORY_BYTES = 512 << 20
#: Attempts that may end before their end, by an input that kills.
_MOST_DEATHS = 20
#: In how many inputs an object is replaced by one of another call.
_CROSSED = 0.3
#: What an object breaks that was changed without its constructor.
_UNMADE = "an object as its class makes it"
#: The instruction of `raise`.
_RAISE = opcode.opmap["RAISE_VARARGS"]
#: Longest pickle of one input, and of all.
_INPUT_BYTES, _ALL_BYTES = 1 << 18, 8 << 20


#: An input that is kept: the CPU time of its call, and its pickle.
_KeptInput = namedtuple("_KeptInput", "cost_ns meta blob")  # noqa: PYI024 - typing is slow to import


def run(spec, channel):
    """Write the derived inputs to a file, and one record for each of them and for each target."""
    if "shrink" in spec:
        return input_shrinker.run(spec, channel)
    guard, session, calls = open_session(spec, channel, spec["inputs"], spec["calls"])
    limit_memory(_MEMORY_BYTES)
    numbers, room = itertools.count(spec["first"]), _ALL_BYTES
    with open(spec["derived"], "wb") as file:
        for target, _ in enumerate(spec["targets"]):
            trial = _Trial(spec, session, target, guard.places)
            for meta, blob in trial.derived([call for call in calls if call.meta["target"] == target]):
                room -= len(blob)
                if room >= 0:
                    numbered = dict(meta, i=next(numbers))
                    call_files.write_call(file, numbered, blob)
                    told = {name: numbered[name] for name in ("i", "base", "breaks", "raises", "size")}
                    channel.write("derived", **told)
            channel.write("deriving", **trial.told)
    session.close()
    return 0


def _in_fork(work, trial):
    """Work in a fork, and have the trial take what comes; return whether it came to its end."""
    reading, writing = os.pipe()
    pid = process_fork.fork()
    if pid == 0:
        with contextlib.suppress(BaseException), open(writing, "wb", 0) as file:
            try:
                work(lambda sent: file.write(pickle.dumps(sent)))
            except Exception as error:
                file.write(pickle.dumps((None, {**trial.told, "failed": type_name(type(error))})))
        os._exit(0)
    os.close(writing)
    is_over = False
    with contextlib.suppress(EOFError, pickle.UnpicklingError), open(reading, "rb") as file:
        while not is_over:
            is_over = trial.take(pickle.load(file))
    used = os.wait4(pid, 0)[2]
    if not is_over:
        trial.died((used.ru_utime + used.ru_stime) * 1e9)
    return is_over


class _Trial:
    """Derives inputs for one target and makes the call with each."""

    def __init__(self, spec, session, target, places):
        self._session, self._target, self._places = session, target, places
        self._seed, self._constants = spec["seed"], spec["constants"]
        self._wanted = {False: spec["inside"], True: spec["outside"]}
        self._left_ns = max(spec["try_s"] / len(spec["targets"]), _LEAST_TRY_S) * 1e9
        self._check_ns = max(spec["check_s"] / len(spec["targets"]), _LEAST_CHECK_S) * 1e9
        self._call_s = _LEAST_CALL_S
        self._normal, self._raising = frozenset(spec["raises"].get(str(target), ())), {False: 0, True: 0}
        self._kept = {False: [], True: []}
        self._seen = set()
        self.told = {"raised": 0, "slow": 0, "seen": 0, "failed": ""}

    def derived(self, calls):
        """Derive inputs in forks; return (meta, blob) of those that a check can afford."""
        observed = []
        for call in [call for call in calls if len(call.blob) <= _INPUT_BYTES][:_MOST_OBSERVED]:
            with contextlib.suppress(Exception):  # what cannot be replayed is told by the replay
                observed.append((call, self._session.prepare(call)[1]))
        for attempt in range(_MOST_DEATHS if observed else 0):
            if _in_fork(partial(self._run, observed, attempt), self):
                break
        return self._affordable()

    def _run(self, observed, attempt, send):
        """Derive until there are enough, or the budget is spent; send what is kept, then what happened.

        An input that ends the process, or cannot be ended otherwise, costs those that were to come in this
        attempt.
        """
        self._send, chance = send, random.Random("%s %s %s" % (self._seed, self._target, attempt))
        calls = [call for call, _ in observed]
        self._options = _Options(self._session.prepare(calls[0])[0])
        given = [self._options.given(*made) for _, made in observed]
        known = call_relations.infer(given, self._options.optional(given), self._options.called)
        constants = [*self._constants, *self._options.words]
        self.told["seen"] = max(size_of(positions(*made)) for _, made in observed)
        self._seen.update(call.blob for call in calls)
        self._read_on(calls)
        mutator = Mutator(known, chance, constants, any_keyword=self._options.any_keyword)
        self._crossover = Crossover([made for _, made in observed])
        make = partial(self._one, known, mutator, chance, self._seeds(calls, chance))
        self._spend(partial(make, *change) for change in _changes(constants))
        self._spend(itertools.repeat(make, _TRIES * sum(self._wanted.values())))
        send((None, self.told))

    def take(self, sent):
        """Keep what an attempt has sent; return whether that was the last of it."""
        outside, one = sent
        if outside is None:
            self.told = one
            return True
        self._kept[outside].append(one)
        self._seen.add(one.blob)
        return False

    def died(self, spent_ns):
        """Note that an attempt has ended before its end."""
        self.told["slow"] += 1
        self._left_ns -= spent_ns

    def _spend(self, steps):
        """Take steps until there are enough inputs, or the budget is spent."""
        for step in steps:
            if self._left_ns <= 0 or not self._wants(False):
                break
            started = time.process_time_ns()
            step()
            self._left_ns -= time.process_time_ns() - started

    def _read_on(self, calls):
        """Read more of generators than the tests did: being right for as much as they read is not enough."""
        cut = [call for call in calls if call.meta.get("items")][:_MOST_READ]
        self._spend(
            partial(self._try, call, call.blob, "", items=2 * call.meta["items"] + _READ_ON) for call in cut
        )

    def _seeds(self, calls, chance):
        """Return calls that inputs are made of, smaller ones for those that are slow."""
        found, began_ns = [], time.process_time_ns()
        for call in chance.sample(calls, len(calls)):
            if found and time.process_time_ns() - began_ns > _SEEDING * self._left_ns:
                break
            found.append(self._quick(call))
        # Where a single one is slow, half of the budget is left for inputs all the same.
        self._left_ns -= min(time.process_time_ns() - began_ns, self._left_ns / 2)
        return found

    def _quick(self, call):
        """Return a call like this one that takes no longer than seeds should, if there is one."""
        spent_ns = self._timed(call)
        low, blobs = 0, input_shrinker.blobs(self._session, call, _SMALLER) if spent_ns > _SEED_NS else []
        while low < len(blobs):
            middle = (low + len(blobs)) // 2
            smaller = call_files.Call(call.meta, blobs[middle])
            smaller_ns = self._timed(smaller)
            if smaller_ns > _SEED_NS:
                del blobs[middle:]
            else:
                call, spent_ns, low = smaller, smaller_ns, middle + 1
        self._call_s = max(self._call_s, min(_MANY_TIMES * spent_ns / 1e9, CALL_S))
        return call

    def _timed(self, call):
        """Return the CPU time of a call, however it ends.

        By the thread's clock: that of the process goes by ticks of 4 ms wherever a timer was set.
        """
        started = time.thread_time_ns()
        with contextlib.suppress(Exception, CallTimeout):
            function, (args, kwargs) = self._session.prepare(call)
            with limited(_SEED_CALL_S), awaited(), mortal(_SEED_CALL_S):
                self._session.make(function, args, kwargs, call.meta)
        return time.thread_time_ns() - started

    def _wants(self, outside):
        return len(self._kept[outside]) < self._wanted[outside]

    def _one(self, known, mutator, chance, calls, constant=None, offset=None, size=None):
        base = chance.choice(calls)
        try:
            others = self._options.given(*call_files.load(chance.choice(calls)))
            with limited(_SEED_CALL_S), awaited(), mortal(_SEED_CALL_S):  # constructors of the project run
                given = self._options.given(*call_files.load(base))
                made = mutator.mutate(*given, others, constant, offset, size)
            if made is None:
                return
            found = positions(*made)
            breaks, size = known.broken_by(self._options.named(found, known)), size_of(found)
            breaks = breaks or ("" if mutator.is_made else _UNMADE)
            if not breaks and chance.random() < _CROSSED:
                made = self._crossover.crossed(made, chance) or made
            blob = argument_pickler.dumps(made, _INPUT_BYTES)
        except (Exception, CallTimeout):  # objects may object to being changed or copied; a huge input
            return
        texts = itertools.chain.from_iterable(found.values())
        if not any(type(text) is str and slot_paths.is_amid(text) for text in texts):
            self._try_new(base, blob, breaks, size)

    def _try_new(self, base, blob, breaks, size):
        is_new = blob not in self._seen and breaks != ONE_SIGN and not slot_paths.names_a_part(blob)
        if is_new and self._wants(bool(breaks)):
            self._seen.add(blob)
            self._try(base, blob, breaks, size=size)

    def _try(self, base, blob, breaks, **more):
        known = {"base": base.meta["i"], "breaks": breaks, "raises": "", "test": "", "size": 0}
        meta = {**base.meta, **known, "derived": True, **more}
        cost_ns = self._cost_ns(call_files.Call(meta, blob))
        # Of wrong types it is of interest what is raised; what comes of duck typing is not.
        if cost_ns is not None and (breaks != "type" or meta["raises"]):
            sent = bool(meta["breaks"]), _KeptInput(cost_ns, meta, blob)
            self.take(sent)
            self._send(sent)

    def _cost_ns(self, call):
        """Return the CPU time of a call; None when it does not end normally."""
        started = time.thread_time_ns()
        try:
            function, (args, kwargs) = self._session.prepare(call)
            with limited(self._call_s), awaited(), mortal(self._call_s):
                self._session.make(function, args, kwargs, call.meta)
        except CallTimeout:
            self.told["slow"] += 1
            is_waiting = time.thread_time_ns() - started < self._call_s / 2 * 1e9
            self._left_ns -= _WAITED_NS if is_waiting else 0
            return None
        except BaseException as error:
            if not self._is_wanted(error, call.meta):
                self.told["raised"] += 1
                return None
        return time.thread_time_ns() - started

    def _is_wanted(self, error, meta):
        """Return whether there is room for one more input on which the target raises.

        What the project's own code objects to counts whatever relation it breaks, but for exceptions that
        tests have met: these say nothing about the relation. Of what it was not seen to raise, and does not
        mean to, those count that a candidate may swallow.
        """
        if isinstance(error, _OF_THE_MACHINE) or not isinstance(error, Exception):
            return False
        meta["raises"] = type_name(type(error))
        if self._is_meant(error):
            if meta["breaks"] not in ("", _UNMADE) and meta["raises"] not in self._normal:
                meta["breaks"] = OBJECTED
        elif meta["raises"] not in self._normal:
            meta["breaks"] = ACCIDENT
        outside = bool(meta["breaks"])
        self._raising[outside] += 1
        return self._raising[outside] <= _RAISING * self._wanted[outside]

    def _is_meant(self, error):
        """Return whether an exception comes from a `raise` in the project's own code.

        An assertion is about a state that no caller should bring about: its failure is no contract.
        """
        if isinstance(error, AssertionError):
            return False
        trace = error.__traceback__
        while trace.tb_next is not None:
            trace = trace.tb_next
        code = trace.tb_frame.f_code
        return self._places.in_tree(code.co_filename) and code.co_code[trace.tb_lasti] == _RAISE

    def _affordable(self):
        """Return (meta, blob) of the inputs that are kept, those inside first, the smallest first.

        Where not all can be, the quickest and those that came first are kept in turns; longer ones than those
        that were observed are slow, and have a part of the budget for themselves.
        """
        chosen = []
        for outside in (False, True):
            kept, left_ns = self._kept[outside], self._check_ns / (4 if outside else 1)
            is_long = [one.meta["size"] > self.told["seen"] for one in kept]
            long, others = ([at for at, one in enumerate(is_long) if one is kind] for kind in (True, False))
            within, spent_ns = _in_turns(kept, long, left_ns * _LONG)
            within += _in_turns(kept, others, left_ns - spent_ns)[0]
            chosen += [(one.meta, one.blob) for one in sorted(within, key=lambda one: len(one.blob))]
        return chosen


def _in_turns(kept, places, room_ns):
    """Return as many inputs as may be made in so many nanoseconds, and what they take."""
    quickest, left_ns, found = sorted(places, key=lambda at: kept[at].cost_ns), room_ns, []
    for at in dict.fromkeys(itertools.chain.from_iterable(zip(quickest, places))):
        cost_ns = kept[at].cost_ns + _LOOK_NS
        if cost_ns <= left_ns:
            left_ns -= cost_ns
            found.append(kept[at])
    return found, room_ns - left_ns


def _changes(constants):
    """Yield (constant, what is added to it, size) for inputs that are made for the constants of the code."""
    sizes = [constant for constant in constants if type(constant) is int]
    yield from ((None, None, size) for size in sizes * _SIZE_TRIES)
    yield from ((constant, offset, None) for offset in _OFFSETS for constant in constants)


class _Options:
    """Options and constants that a function knows by itself.

    Attributes:
        words: numbers and texts of its module that its code names, those in tables as well.
        any_keyword: whether it takes keywords of any name.
        called: the positions of parameters that it calls.
    """

    def __init__(self, function):
        parameters = {}
        with contextlib.suppress(TypeError, ValueError):
            parameters = dict(inspect.signature(function).parameters)
        self._names = list(parameters)
        self.any_keyword = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        self._defaults = {
            name: parameter.default
            for name, parameter in parameters.items()
            if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            if parameter.default is not parameter.empty and is_plain(parameter.default)
        }
        self._function = function = inspect.unwrap(getattr(function, "__func__", function))
        names = getattr(getattr(function, "__code__", None), "co_names", ())
        named = [getattr(function, "__globals__", {}).get(name) for name in names]
        found = [one for value in named for one in (_items(value) if type(value) in _TABLES else (value,))]
        places = [(at, name) for at, name in enumerate(self._names) if name in callees(function)]
        self.called = {(part,) for place in places for part in place}
        self.words = list(dict.fromkeys(filter(_is_constant, found)))[:_MOST_WORDS]

    def given(self, args, kwargs):
        """Return the same call with all options given."""
        left = self._defaults.keys() - kwargs.keys() - set(self._names[: len(args)])
        return args, {**kwargs, **{name: copy.deepcopy(self._defaults[name]) for name in sorted(left)}}

    def optional(self, given):
        """Return the last steps of positions that the function or a constructor expects to be empty at times.

        Args:
            given: (args, kwargs) of observed calls.
        """
        kinds = {type(value) for made in given for values in positions(*made).values() for value in values}
        found = empties(self._function).union(*map(empty_attributes, kinds))
        return found.union(at for at, name in enumerate(self._names) if name in found)

    def named(self, found, known):
        """Return values by position without keywords of any name: nothing is known of these."""
        if not self.any_keyword:
            return found
        return {path: v for path, v in found.items() if type(path[0]) is int or path[:1] in known.places}


def _items(table):
    return (*table, *table.values()) if type(table) is dict else table


def _is_constant(value):
    return (type(value) is str and 0 < len(value) <= _MOST_SIGNS) or (type(value) is int and abs(value) > 1)
