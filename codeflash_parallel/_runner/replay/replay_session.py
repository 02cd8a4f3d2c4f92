"""Make the captured calls again and record what each of them gives."""

import contextlib
import json
import random
import sys
import time
from functools import partial

from ..imports import import_guard, source_loader
from ..integrity.function_identity import own_parts
from ..process.call_limits import CallTimeout, limited
from ..session import template
from ..values import call_files, object_reduction
from ..values.value_digests import (
    digest_arguments,
    digest_raise,
    digest_return,
    measured,
    observe_raise,
    observe_return,
)
from ..values.value_text import render_arguments
from . import call_effects
from .call_effects import ProcessEffects, ResultStability
from .target_functions import LazyResolver, TargetNotFound, Targets, items_read

#: An "answer" record: the number of a call and what it gave. Hundreds are written for each candidate.
_ANSWER = '{"t": "answer", "of": [%d, "%s", %s, "%s", "%s", "%s", "%s", "%s", %d]}\n'
#: Characters of results that are told for the user's judge.
_MOST_PLAIN = 64 << 20
_UNLIMITED = contextlib.nullcontext()
_ANSWERED = ("digest", "floatless", "typeless", "after", "traces", "ns")


def run(spec, channel):
    """Replay the calls of the inputs file (those that `spec["calls"]` names), one record for each.

    Then those with derived inputs; what comes of one input must not hide what came of those before it.
    """
    own = own_parts()
    proof = import_guard.install(spec, channel).proof
    call_files.install_places(spec)
    session = ReplaySession(spec)
    calls = _calls(spec, session, proof, channel)
    texts = frozenset(spec.get("texts", ()))  # a fork's own, not its template's
    left = call_effects.ModuleGlobals({call.meta["module"] for call in calls})
    object_reduction.count_anew()
    for call in calls:
        session.replay(call, channel, texts)
    channel.write("globals", changed=left.changed(), names=left.names())
    session.look_again(channel)
    _tell_replaced(own, channel)
    object_reduction.count_anew()
    for call in _derived(spec):
        if session.is_slow:
            break  # one call without an end is enough
        session.replay(call, channel, texts)
    session.look_again(channel)
    _tell_replaced(own, channel)
    session.close()
    channel.write("timing", name="cpu", ns=time.process_time_ns())
    return 0


def _tell_replaced(own, channel):
    """Say what of our own code is no longer what it was: then nothing that was said is to be believed."""
    names = sorted({name for name, _ in own.changed()})
    if names:
        channel.write("replaced", names=names)


def _derived(spec):
    """Return the calls with derived inputs, those that are wanted: a template has none."""
    wanted = spec.get("derived_calls")
    if not wanted:
        return []
    found = call_files.completed(call_files.read_calls(spec["derived"], wanted), spec["inputs"])
    calls = {call.meta["i"]: call for call in found}
    return [calls[number] for number in wanted if number in calls]


def _calls(spec, session, proof, channel):
    """Read the calls and import what they go to; a template reads them all, and stops here at the latest."""
    started, path = time.perf_counter_ns(), spec["inputs"]
    server = template()
    calls = call_files.read_calls(path, spec.get("calls") if server is None else None)
    proof.instrument = source_loader.registering(spec, calls)
    session.resolve(calls)
    while template() is not None:
        template().stop()
    if server is not None:
        started = time.perf_counter_ns()
        wanted = spec.get("calls")
        if spec["inputs"] != path:
            calls = call_files.read_calls(spec["inputs"], wanted)
        elif wanted is not None:
            numbers = frozenset(wanted)
            calls = [call for call in calls if call.meta["i"] in numbers]
        session.resolve(calls)
    channel.write("timing", name="import", ns=time.perf_counter_ns() - started)
    return call_files.completed(calls, spec["inputs"])


def open_session(spec, channel, path, wanted=None):
    """Guard the imports of this process, read calls and import what they go to.

    Args:
        path: of the file of calls.
        wanted: numbers of the calls; None: all.

    Returns:
        The guard, the session and the calls.
    """
    guard = import_guard.install(spec, channel)
    call_files.install_places(spec)
    calls = call_files.read_calls(path, wanted)
    guard.proof.instrument = source_loader.registering(spec, calls)
    session = ReplaySession(spec)
    session.resolve(calls)
    return guard, session, calls


class ReplaySession:
    """State that all calls of one process share: resolved targets and the event loop."""

    def __init__(self, spec):
        self._targets = Targets(spec, source_loader.REGISTRY)
        self._settler = LazyResolver()
        self._traces = call_effects.GlobalEffects()
        self._surroundings = ProcessEffects(spec["project"])
        self._lasting = None
        self.is_slow = False
        self._plain_left = _MOST_PLAIN
        self._copy_ns = 0  # of the last call's inputs
        self._spec = spec

    def resolve(self, calls):
        """Import the modules that calls go to, all of them before the first call."""
        self._targets.resolve(calls)
        self._lasting = ResultStability()
        self._surroundings.keep()

    def look_again(self, channel):
        """Write what has become of the results so far, and what else is to be seen after the calls."""
        object_reduction.count_no_more()
        lasting, left = self._lasting, self._lasting.left()
        spoiled, told = lasting.spoiled(), [*object_reduction.noted(), *left]
        channel.write("spoiled", calls=spoiled, unseen=lasting.unseen, manners=told)
        lasting.more()

    def replay(self, call, channel, texts):
        """Make one call and write its record: "answer", or "unreplayable" where it cannot be made.

        Args:
            texts: numbers of the calls that get a "call" record, which says in words what they gave.
        """
        meta, is_told = call.meta, call.meta["i"] in texts
        started = time.process_time_ns() if is_told else 0
        try:
            function, (args, kwargs) = self.prepare(call)
        except TargetNotFound as error:
            return channel.write("unreplayable", i=meta["i"], why=str(error))
        self._copy_ns = time.process_time_ns() - started if is_told else 0
        write = self._tell if is_told else self._answer
        why = write(function, args, kwargs, meta, channel)
        return channel.write("unencodable", i=meta["i"], why=why) if why else None

    def _tell(self, function, args, kwargs, meta, channel):
        fields = {"i": meta["i"], "test": meta["test"], "target": meta["target"], "captured": True, "why": ""}
        fields["args"] = render_arguments(args, kwargs)
        space = call_effects.ScratchArguments(args, kwargs)

        def returned(*seen):
            told = space.told(*seen)  # before the iterators are read
            plain = self._plain(seen[0]) if self._spec.get("judged") else {}
            fields = dict(measured(observe_return, *seen), space=told, **plain)
            return dict(fields, arguments=digest_arguments(*seen[1:])) if plain else fields

        fields.update(
            self._observed(function, args, kwargs, meta, returned, partial(measured, observe_raise))
        )
        left = render_arguments(args, kwargs)
        fields["left"] = "" if left == fields["args"] else left
        why = fields.pop("unencodable", "")
        channel.write("call", thread=False, copy_ns=self._copy_ns, **fields)
        return why

    def _plain(self, value):
        """Return a result for the user's judge, as a JSON text, or why there is none."""
        from ..values import plain_json

        try:
            text = json.dumps(plain_json.told(value))
        except plain_json.NoPlainForm as error:
            return {"untold": str(error)}
        self._plain_left -= len(text)
        return {"plain": text} if self._plain_left >= 0 else {"untold": "more than is told in one process"}

    def _answer(self, function, args, kwargs, meta, channel):
        fields = self._observed(function, args, kwargs, meta, digest_return, digest_raise)
        # Written before the next call begins: that one may end the process, and is to be blamed for it.
        digests = [fields[name] for name in _ANSWERED]
        line = _ANSWER % (meta["i"], fields["kind"], json.dumps(fields["type"]), *digests)
        channel.write_line(line.encode())
        return fields.get("unencodable", "")

    def prepare(self, call):
        """Return the function of a call and a fresh copy of its (args, kwargs).

        Raises:
            TargetNotFound: the function is gone, or the arguments cannot be unpickled.
        """
        function = self._targets.function(call.meta)
        try:
            return function, call_files.load(call)
        except BaseException as error:
            text = "the inputs cannot be unpickled (%s: %s)" % (type(error).__name__, error)
            raise TargetNotFound(text[:500]) from None

    def _observed(self, function, args, kwargs, meta, returned, raised):
        started = time.process_time_ns()
        try:
            # What derived inputs cost is known only of the baseline.
            with limited() if meta.get("derived") else _UNLIMITED:
                value = self.make(function, args, kwargs, meta)
        except BaseException as error:
            spent = time.process_time_ns() - started
            self.is_slow |= type(error) is CallTimeout
            traces = self._left(meta["i"], None)
            return dict(self._seen(raised, error, args, kwargs, meta), traces=traces, ns=spent)
        spent = time.process_time_ns() - started
        traces = self._left(meta["i"], value)
        return dict(self._seen(returned, value, args, kwargs, meta), traces=traces, ns=spent)

    def _left(self, index, value):
        """Return what a call has left behind, as ``name=text;...``."""
        # Output first: to look at a result may print something.
        found = {**self._surroundings.traces(), **self._traces.of(index, value)}
        return ";".join(["%s=%s" % trace for trace in found.items()])

    def _seen(self, look, outcome, args, kwargs, meta):
        if call_effects.is_fixed(outcome, args, kwargs):
            return look(outcome, args, kwargs)
        # The clock of the process is a coarse one wherever a timer was set.
        started = time.thread_time_ns()
        fields = look(outcome, args, kwargs)
        self._lasting.keep(meta["i"], outcome, args, kwargs, fields, time.thread_time_ns() - started)
        return fields

    def make(self, function, args, kwargs, meta):
        """Make one call and return its result, settled; what it raises comes through."""
        self._reset(meta["i"])
        return self._settler.settle(function(*args, **kwargs), items_read(meta))

    def _reset(self, index):
        """Give each call the same surroundings, whatever the one before it did."""
        self._surroundings.reset()
        seed_everything(self._spec.get("seed", 0) + index)

    def close(self):
        """Let go of the event loop."""
        self._settler.close()


def seed_everything(seed):
    """Seed the random sources that are loaded."""
    random.seed(seed)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(seed % 2**32)
