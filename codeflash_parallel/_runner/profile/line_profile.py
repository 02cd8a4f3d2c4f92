"""Time the lines of the targets while captured calls are made again."""

import ast
import gc
import linecache
import os
import time
import types

from ..imports import import_guard, instrumentation
from ..imports.instrumentation import definitions
from ..replay.call_replay import ReplaySession
from ..replay.target_functions import TargetNotFound
from ..serialization import call_files
from . import line_tracers

#: How many calls are profiled unless the spec says otherwise.
_MAX_CALLS = 500

#: After so many seconds no further call is begun: half a profile is better than a deadline reached.
_SECONDS = 20.0


def run(spec, channel):
    """Profile evenly spread calls and write one "profile" record."""
    guard = import_guard.install(spec, channel)
    call_files.install_places(spec)
    session = ReplaySession(spec)
    calls = call_files.read_calls(spec["inputs"], spec.get("calls"))
    calls = evenly_spread(calls, spec.get("max_calls", _MAX_CALLS))
    guard.proof.instrument = instrumentation.registering(spec, calls)
    usable = [call for call in calls if _resolves(session, call, channel)]
    functions = find_functions(spec)
    tracer = line_tracers.choose(spec.get("tracer", "auto"), functions)
    made = _profile_calls(session, usable, tracer, time.monotonic() + spec.get("seconds", _SECONDS))
    session.close()
    paths = {os.path.realpath(os.path.join(spec["root"], path)): path for path in _wanted(spec)}
    channel.write("profile", tracer=tracer.name, lines=_lines(tracer.timings(), paths), calls=made)
    return 0


def evenly_spread(calls, most):
    """Return at most so many of the calls, evenly spread over all of them."""
    if len(calls) <= most:
        return calls
    return [calls[number * len(calls) // most] for number in range(most)]


def _resolves(session, call, channel):
    """Say whether a call can be made; this also imports the modules that hold the functions."""
    try:
        session.prepare(call)
    except TargetNotFound as error:
        channel.write("unreplayable", i=call.meta["i"], why=str(error))
        return False
    return True


def _profile_calls(session, calls, tracer, end):
    """Make calls until the time is over; return how many were made."""
    for number, call in enumerate(calls):
        if time.monotonic() > end:
            return number
        _profile(session, call, tracer)
    return len(calls)


def _profile(session, call, tracer):
    function, (args, kwargs) = session.prepare(call)
    tracer.start()
    try:
        session.make(function, args, kwargs, call.meta)
    except BaseException:
        return  # raising is what some captured calls do; the replay judges it, not the profile
    finally:
        tracer.stop()


def find_functions(spec):
    """Return all living functions that the definitions of targets and helpers have become.

    Decorators may hide a function anywhere; the collector knows them all, but those that somebody froze.
    """
    gc.unfreeze()
    places = {}
    for path, names in _wanted(spec).items():
        file = os.path.realpath(os.path.join(spec["root"], path))
        places[file] = _first_lines(file, names)
    found = [thing for thing in gc.get_objects() if type(thing) is types.FunctionType]
    return [function for function in found if _is_wanted(function.__code__, places)]


def _wanted(spec):
    """Return the dotted names of targets and helpers by path."""
    wanted = {}
    for target in list(spec["targets"]) + list(spec.get("helpers", ())):
        wanted.setdefault(target["path"], set()).add(target["qualname"])
    return wanted


def _first_lines(file, qualnames):
    """Return {(name, line)}: how the code objects of some definitions begin (at their first decorator)."""
    with open(file, "rb") as source:
        tree = ast.parse(source.read(), file)
    firsts = set()
    for qualname in qualnames:
        for node in definitions(tree, qualname.split(".")):
            first = min([node.lineno] + [decorator.lineno for decorator in node.decorator_list])
            firsts.add((node.name, first))
    return firsts


def _is_wanted(code, places):
    firsts = places.get(os.path.realpath(code.co_filename))
    return firsts is not None and (code.co_name, code.co_firstlineno) in firsts


def _lines(timings, paths):
    lines = []
    for (file, line), (hits, ns) in sorted(timings.items()):
        real = os.path.realpath(file)
        if real in paths and hits:
            text = linecache.getline(real, line).rstrip()
            lines.append({"path": paths[real], "line": line, "hits": hits, "ns": ns, "text": text})
    return lines
