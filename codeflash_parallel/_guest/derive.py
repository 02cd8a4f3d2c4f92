"""Derive inputs from the captured ones and try them out on the baseline; keep those on which it ends well.

The inputs are made once for a baseline, by a seed that no candidate knows. Which of them count is decided by
two replays of the kept ones under different hash seeds.
"""

import itertools
import opcode
import random
import sys
import time
import types
from functools import partial

from . import crossing, deriving, importing, inputs, instrument, pickling, relations, relocating
from .allowance import TooSlow, awaited, limit_memory, limited
from .naming import type_name
from .replay import Session

#: Captured calls of one target that relations are read from and inputs are derived from.
_MOST_OBSERVED = 300
#: How many inputs are made for each one that is wanted, at most.
_TRIES = 12
#: Crosses of observed arguments that are tried out, and observed generators that are read further.
_MOST_CROSSES, _MOST_READ = 60, 20
#: By how many items more, besides as many again.
_READ_ON = 8
#: CPU seconds for trying out inputs of one target, where there are many targets.
_LEAST_TRY_S = 0.3
#: What a call costs that was ended, besides its CPU time: it may have waited.
_WAITED_NS = 500_000_000
#: Of the inputs that are wanted, so much may be such on which the baseline raises.
_RAISING = 0.25
#: Said of inputs that break a relation and that the project's own code objects to (see `behavior.values`).
OBJECTED = "what its own code objects to"
_MEMORY_BYTES = 512 << 20
#: The instruction of `raise` and of assertions.
_RAISE = opcode.opmap["RAISE_VARARGS"]
#: Longest pickle of one input, and of all.
_INPUT_BYTES, _ALL_BYTES = 1 << 18, 8 << 20


def run(spec, channel):
    """Write the derived inputs to a file, and one record for each of them and for each target."""
    if "shrink" in spec:
        from . import shrinking

        return shrinking.run(spec, channel)
    guard = importing.install(spec, channel)
    inputs.install_places(spec)
    calls = inputs.read_calls(spec["inputs"], spec["calls"])
    guard.proof.instrument = instrument.registering(spec, channel, calls)
    session = Session(spec)
    session.resolve(calls)
    limit_memory(_MEMORY_BYTES)
    with open(spec["derived"], "wb") as file:
        work = _Work(spec, session, channel, file, guard.places)
        for target, _ in enumerate(spec["targets"]):
            work.derive(target, [call for call in calls if call.meta["target"] == target])
    session.close()
    return 0


class _Work:
    """What all targets share: the file, the numbers of inputs, the budgets."""

    def __init__(self, spec, session, channel, file, places):
        self._spec, self._session, self._channel, self._file = spec, session, channel, file
        self._places = places
        self._next = spec["first"]
        count = max(1, len(spec["targets"]))
        self._try_ns = max(spec["try_s"] / count, _LEAST_TRY_S) * 1e9
        self._check_ns = spec["check_s"] / count * 1e9
        self._room = _ALL_BYTES

    def derive(self, target, calls):
        """Derive inputs for one target."""
        normal = frozenset(self._spec["raises"].get(str(target), ()))
        found = _Trial(self._spec, self._session, self._try_ns, normal, self._places)
        small = [call for call in calls if len(call.blob) <= _INPUT_BYTES]
        observed = _loaded(self._session, small[:_MOST_OBSERVED])
        if observed:
            found.run(target, observed)
        kept = found.affordable(self._check_ns)
        for meta, blob in kept:
            self._write(meta, blob)
        inside = sum(not meta["breaks"] for meta, _ in kept)
        told = dict(found.told, inside=inside, outside=len(kept) - inside)
        self._channel.write("deriving", target=target, **told)

    def _write(self, meta, blob):
        self._room -= len(blob)
        if self._room < 0:
            return
        meta = dict(meta, i=self._next)
        self._next += 1
        inputs.write_call(self._file, meta, blob)
        self._channel.write("derived", **{name: meta[name] for name in ("i", "base", "breaks", "raises")})


def _loaded(session, calls):
    """Return the calls whose inputs can be made again, with these inputs."""
    loaded = []
    for call in calls:
        try:
            loaded.append((call, session.prepare(call)[1]))
        except Exception:  # what cannot be replayed is told by the replay
            continue
    return loaded


class _Trial:
    """Derives inputs for one target and makes the call with each."""

    def __init__(self, spec, session, budget_ns, normal, places):
        self._places = places
        self._session, self._wanted = session, {False: spec["inside"], True: spec["outside"]}
        self._seed, self._left_ns = spec["seed"], budget_ns
        self._normal, self._raising = normal, {False: 0, True: 0}
        self._kept = {False: [], True: []}
        self._seen = set()
        self.told = {"tried": 0, "raised": 0, "slow": 0, "why": ""}

    def run(self, target, observed):
        """Derive until there are enough, or the budget is spent."""
        chance = random.Random("%s %s" % (self._seed, target))
        calls = [call for call, _ in observed]
        known = relations.infer([made for _, made in observed], texts_of(calls[0].meta["module"]))
        deriver = deriving.Deriver(known, chance)
        self._seen.update(call.blob for call in calls)
        self._read_on(calls)
        if not any(deriving.is_plain(value) for _, made in observed for value in _arguments(made)):
            self.told["why"] = "no argument is made of builtin types"
            return
        crosses = crossing.crosses([made for _, made in observed], chance)[:_MOST_CROSSES]
        self._spend(partial(self._cross, known, calls[number], values) for number, values in crosses)
        drawn = partial(self._one, deriver, chance, calls)
        self._spend(itertools.repeat(drawn, _TRIES * sum(self._wanted.values())))
        if self._left_ns <= 0:
            self.told["why"] = "the time for trying inputs out was spent"

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

    def _cross(self, known, base, values):
        """Make one call with arguments that were not seen together."""
        try:
            args, kwargs = inputs.load(base)
            args = tuple(values.get(place, value) for place, value in enumerate(args))
            kwargs = {name: values.get(name, value) for name, value in kwargs.items()}
            blob, breaks = pickling.dumps((args, kwargs), _INPUT_BYTES), known.broken(args, kwargs)
        except Exception:  # as below
            return
        self._try_new(base, blob, breaks)

    def _wants(self, outside):
        return len(self._kept[outside]) < self._wanted[outside]

    def _one(self, deriver, chance, calls):
        base = chance.choice(calls)
        try:
            args, kwargs = inputs.load(base)
            derived = deriver.derive(args, kwargs, inputs.load(chance.choice(calls)))
            if derived is None:
                return
            blob = pickling.dumps(derived[:2], _INPUT_BYTES)
        except Exception:  # objects of the project may object to being copied; a huge input
            return
        self._try_new(base, blob, derived[2])

    def _try_new(self, base, blob, breaks):
        is_new = blob not in self._seen and not relocating.names_a_part(blob)
        if is_new and self._wants(bool(breaks)):
            self._seen.add(blob)
            self._try(base, blob, breaks)

    def _try(self, base, blob, breaks, **read):
        self.told["tried"] += 1
        meta = dict(base.meta, base=base.meta["i"], breaks=breaks, raises="", test="", derived=True, **read)
        cost_ns = self._cost_ns(inputs.Call(meta, blob))
        if cost_ns is not None:
            self._kept[bool(meta["breaks"])].append((cost_ns, len(blob), meta, blob))

    def _cost_ns(self, call):
        """Return the CPU time of a call; None when it does not end normally."""
        started = time.process_time_ns()
        try:
            function, (args, kwargs) = self._session.prepare(call)
            with limited(), awaited():
                self._session.make(function, args, kwargs, call.meta)
        except TooSlow:
            self.told["slow"] += 1
            self._left_ns -= _WAITED_NS
            return None
        except BaseException as error:
            if not self._is_wanted(error, call.meta):
                self.told["raised"] += 1
                return None
        return time.process_time_ns() - started

    def _is_wanted(self, error, meta):
        """Say whether the target was seen to raise this or means to, and there is room for one more of them.

        What the project's own code objects to counts as that, whatever relation it breaks.
        """
        meta["raises"] = type_name(type(error))
        if self._is_meant(error):
            meta["breaks"] = meta["breaks"] and OBJECTED
        elif meta["raises"] not in self._normal:
            return False
        outside = bool(meta["breaks"])
        self._raising[outside] += 1
        return self._raising[outside] <= _RAISING * self._wanted[outside]

    def _is_meant(self, error):
        """Say whether an exception comes from a `raise` or an assertion in the project's own code."""
        trace = error.__traceback__
        while trace.tb_next is not None:
            trace = trace.tb_next
        code = trace.tb_frame.f_code
        return self._places.in_tree(code.co_filename) and code.co_code[trace.tb_lasti] == _RAISE

    def affordable(self, budget_ns):
        """Return (meta, blob) of the inputs that are kept, those inside first, the smallest first."""
        chosen = []
        for outside in (False, True):
            room = budget_ns / 4 if outside else budget_ns
            within = []
            for cost_ns, size, meta, blob in sorted(self._kept[outside], key=lambda kept: kept[0]):
                room -= cost_ns
                if room < 0:
                    break
                within.append((size, meta, blob))
            chosen += [(meta, blob) for _, meta, blob in sorted(within, key=lambda kept: kept[0])]
        return chosen


def _arguments(made):
    args, kwargs = made
    return (*args, *kwargs.values())


# ---- texts that the code knows


def texts_of(module):
    """Return the texts that the code of a module and its tables hold: who is given one of them chooses."""
    found = set()
    for value in list(vars(sys.modules[module]).values()):
        _add_texts(found, value)
    return frozenset(found)


def _add_texts(found, value):
    if isinstance(value, types.FunctionType):
        _add_code(found, value.__code__)
    elif isinstance(value, type):
        for member in list(vars(value).values()):
            function = getattr(member, "__func__", member)
            if isinstance(function, types.FunctionType):
                _add_code(found, function.__code__)
    elif type(value) in (dict, list, tuple, set, frozenset):
        found.update(item for item in list(value)[:1000] if type(item) is str)
    elif type(value) is str:
        found.add(value)


def _add_code(found, code):
    for constant in code.co_consts:
        if type(constant) is str:
            found.add(constant)
        elif type(constant) in (tuple, frozenset):
            found.update(item for item in constant if type(item) is str)
        elif isinstance(constant, types.CodeType):
            _add_code(found, constant)
