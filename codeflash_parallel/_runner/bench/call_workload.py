"""Work of an arm that consists of captured calls."""

import gc
import hashlib
import os
import time
from collections import deque, namedtuple
from itertools import cycle, islice
from json import dumps
from types import CoroutineType

from .. import slot_paths
from ..imports import source_loader
from ..replay.replay_session import seed_everything
from ..replay.target_functions import LazyResolver, Targets, items_read, laziness
from ..values import call_files
from ..values.object_reduction import UnencodableValue
from ..values.value_digests import encode_in_part
from ..values.value_text import type_name

#: What of outcomes is compared (the field `compare` of the spec): all of them, all but floats (where some
#: distance is tolerated: the check has measured it), or only whether calls return. Of those that the user's
#: judge is asked about the types of exceptions; results are told one by one.
VALUES, FLOATLESS, RETURNS, JUDGED = "values", "floatless", "returns", "judged"
#: All of them, but of twins, which no test has made, floats to so many digits: without `--strict` a check
#: does not reject for rounding on such inputs.
ROUNDED, _DIGITS = "rounded", "%.9g"
#: Their types, and which of them are equal: of values that are others in each process (hashes, say).
ALIKE = "alike"

#: Results of these types need no forcing; more are added as they are met.
_EAGER = {int, float, bool, str, bytes, list, tuple, dict, set, type(None)}


#: Characters of what an error says: the reason for which a call cannot be made, or the user's own work fails.
SAID_CHARS = 300


class RaisedException:
    """An exception in the place of a result."""

    __slots__ = ("error",)

    def __init__(self, error):
        self.error = error


#: One call of a group: `load` makes arguments of `blob`, `limit` items of a lazy result matter.
_TimedCall = namedtuple("_TimedCall", "function load blob limit meta")  # noqa: PYI024 - typing is slow to import


class CallWork:
    """Groups of captured calls, resolved once, in the template.

    Args:
        spec: the runner's.
        captured: all calls of the inputs file.
    """

    def __init__(self, spec, captured):
        call_files.install_places(spec)
        self._seed = spec.get("seed", 0)
        self._compare = spec.get("compare", VALUES)
        self._settler = LazyResolver()
        targets = Targets(spec, source_loader.REGISTRY)
        self.skipped = {}
        targets.resolve(captured)
        twins = call_files.read_calls(spec["twins"]) if spec.get("twins") else []
        calls, twins = (
            {call.meta["i"]: call for call in call_files.completed(some, spec["inputs"])}
            for some in (captured, twins)
        )
        self._groups = [self._usable(targets, calls, group["calls"]) for group in spec["groups"]]
        self._twins = [self._usable(targets, twins, group.get("twins", ())) for group in spec["groups"]]
        self.sizes = [len(group) for group in self._groups]
        self.twins = [len(group) for group in self._twins]

    def _usable(self, targets, calls, indexes):
        """Return the calls that can be made; the others are told to the evaluator."""
        usable = []
        for index in indexes:
            try:
                call = calls[index]
                function = targets.function(call.meta)
                # Imports whatever the arguments need; a unit must not pay for that.
                call_files.load(call)
            except BaseException as error:  # a pickle runs the project's code
                self.skipped[index] = ("%s: %s" % (type_name(type(error)), error))[:SAID_CHARS]
            else:
                load = slot_paths.loader(call.blob)
                usable.append(_TimedCall(function, load, call.blob, items_read(call.meta), call.meta))
        return usable

    def prepare(self, group, calls, start, *, twins=False):
        """Return a batch of fresh copies of a group's inputs, or of its twins, cycled from `start` on."""
        members = (self._twins if twins else self._groups)[group]
        first = start % len(members) if members else 0
        # Copies take longer than what is timed: nothing is looked up here.
        entries = [
            (function, *load(blob), limit)
            for function, load, blob, limit, _ in islice(cycle(members), first, first + calls)
        ]
        waits = any(member.meta["shape"] in ("coroutine", "asyncgen") for member in members)
        if waits:
            self._settler.open_loop()
        seed_everything(self._seed)
        lot = (group, calls, start)
        distinct = min(calls, len(members))
        compare = VALUES if self._compare == ROUNDED and not twins else self._compare
        batch = batch_of(entries, distinct, lot, self._settler, waits=waits, compare=compare)
        batch.numbers = [members[(start + i) % len(members)].meta["i"] for i in range(distinct)]
        return batch

    def close(self):
        """Let go of the event loop."""
        self._settler.close()


def batch_of(entries, distinct, lot, settler, *, waits=False, compare=VALUES):
    """Return a batch in which the lot decides which results are looked at.

    Args:
        entries: of each call: function, arguments, keyword arguments, and how many items of a lazy result
            matter.
        distinct: calls of one cycle.
        lot: what tells this block from others.
        settler: forces lazy results.
        waits: there are coroutine functions among the calls.
        compare: what goes into the digest.
    """
    # The hash seed is the same for all arms of a layout.
    offset = _offset(len(entries) - distinct, os.environ.get("PYTHONHASHSEED", ""), *lot)
    return (AsyncCallBatch if waits else CallBatch)(entries, distinct, offset, settler, compare)


def _offset(most, *lot):
    """Return a number up to `most`, drawn by the lot that the arguments are."""
    if most <= 0:
        return 0
    drawn = hashlib.sha256(repr(lot).encode()).digest()
    return int.from_bytes(drawn[:8], "big") % (most + 1)


def _drawn(count, lot, most):
    """Return some of so many places, drawn by the lot, in order."""
    turn = {place: hashlib.sha256(b"%s %d" % (lot.encode(), place)).digest() for place in range(count)}
    return sorted(sorted(turn, key=turn.get)[:most])


#: Takes a result and drops it at once.
_forget = deque(maxlen=0).append


class CallBatch:
    """Copies of inputs, ready to run; results of one cycle are kept for the check, others dropped.

    Which cycle that is, is drawn by lot, and its calls are made by the same lines as the others: work that
    is skipped in calls that are not looked at is caught.

    Args:
        entries: the calls.
        distinct: calls of one cycle.
        offset: number of calls before those of which the results are kept.
        settler: forces lazy results.
        compare: what goes into the digest.

    Attributes:
        numbers: of captured calls, those of one cycle.
        says_errors: whether a check says in words what was raised.
    """

    numbers, says_errors = (), False

    def __init__(self, entries, distinct, offset, settler, compare=VALUES):
        end = offset + distinct
        self._before, self._looked_at, self._after = entries[:offset], entries[offset:end], entries[end:]
        self._turn = -offset % distinct if distinct else 0
        self._settler = settler
        self._compare = compare
        self.results = []

    def run(self):
        """Make the calls: this is what is timed."""
        self._made(self._before, _forget)
        self._made(self._looked_at, self.results.append)
        self._made(self._after, _forget)

    def _made(self, entries, keep):
        eager, force = _EAGER, self._force
        for function, args, kwargs, limit in entries:
            try:
                result = function(*args, **kwargs)
                if type(result) not in eager:
                    result = force(result, limit)
            except BaseException as error:
                result = RaisedException(error)
            keep(result)

    def _force(self, result, limit):
        word = laziness(type(result))
        if not word:
            _EAGER.add(type(result))
            return result
        if word in ("generator", "iterator"):
            return (type(result), list(islice(result, limit)))
        return self._settler.settle(result, limit)

    def check(self, lot="", most=0):
        """Return the digest of the kept outcomes, in order, and what encoding them cost.

        Args:
            lot: draws some of them, the same in every process; empty: all are encoded.
            most: how many it draws.
        """
        started = time.process_time_ns()
        digest = hashlib.sha256()
        self.results = self.results[self._turn :] + self.results[: self._turn]
        raised = [result.error for result in self.results if type(result) is RaisedException]
        if lot:
            self.results = [self.results[place] for place in _drawn(len(self.results), lot, most)]
        self._outcomes, firsts = [], {}
        for result in self.results:
            # Encoded in any case: what a result leaves for later is worked off, and charged.
            found = outcome(result, self._compare)
            self._outcomes.append(found)
            if self._compare == ALIKE and type(result) is not RaisedException:
                found = "returns %s, like %d" % (
                    type_name(type(result)),
                    firsts.setdefault(found, len(firsts)),
                )
            elif self._compare == RETURNS:
                found = "raises" if type(result) is RaisedException else "returns"
            elif self._compare == JUDGED and type(result) is not RaisedException:
                found = "returns"
            digest.update(found.encode("utf-8", "surrogatepass") + b"\n")
        # A call that switches the collector off and leaves it off speeds up the next ones.
        digest.update(repr((gc.isenabled(), gc.get_threshold())).encode())
        checked = {"digest": digest.hexdigest(), "raised": bool(raised), "inputs": len(self.results)}
        if self.says_errors and raised:
            error = raised[-1]
            checked["said"] = ("it raises %s: %s" % (type(error).__name__, error))[:SAID_CHARS]
        return dict(checked, ns=time.process_time_ns() - started)

    def look(self, places):
        """Return the numbers of some calls that were checked, and digests of what they returned."""
        return [
            [self.numbers[place], self._outcomes[place]]
            for place in places
            if place < len(self.results) and type(self.results[place]) is not RaisedException
        ]

    def tell(self, number):
        """Return what a call gave that was checked, in plain form, or why it has none."""
        from ..values import plain_json

        try:
            return {"plain": dumps(plain_json.told(self.results[self.numbers.index(number)])), "untold": ""}
        except plain_json.NoPlainForm as error:
            return {"plain": "", "untold": str(error)}


class AsyncCallBatch(CallBatch):
    """The same for coroutine functions: all calls in one run of the event loop, which is dear."""

    def run(self):
        """Make the calls, awaiting each."""
        self._settler.await_(self._run())

    async def _run(self):
        await self._awaited(self._before, _forget)
        await self._awaited(self._looked_at, self.results.append)
        await self._awaited(self._after, _forget)

    async def _awaited(self, entries, keep):
        eager = _EAGER
        for function, args, kwargs, limit in entries:
            try:
                result = function(*args, **kwargs)
                if type(result) is CoroutineType:
                    result = await result
                if type(result) not in eager:
                    result = await self._force_async(result, limit)
            except BaseException as error:
                result = RaisedException(error)
            keep(result)

    async def _force_async(self, result, limit):
        word = laziness(type(result))
        if word == "awaitable":
            result = await result
            return await self._force_async(result, limit)
        if word != "asyncgen":
            return self._force(result, limit)
        items = []
        async for item in result:
            items.append(item)
            if len(items) >= limit:
                break
        await result.aclose()
        return (type(result), items)


def outcome(result, compare):
    """Return what a call gave as a text that is compared."""
    if type(result) is RaisedException:
        return "raises " + type_name(type(result.error))
    floats = [] if compare == ROUNDED else None
    try:
        encoded = encode_in_part(result, floats)
    except UnencodableValue:
        return "returns " + type_name(type(result))
    if floats is not None:
        return ",".join([encoded.floatless, *(_DIGITS % (number + 0.0) for number in floats)])
    return encoded.floatless if compare == FLOATLESS else encoded.full
