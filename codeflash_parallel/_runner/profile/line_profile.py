"""Time the lines of the targets while captured calls are made again.

Nested code (comprehensions, inner functions, generator expressions) counts as part of the function around it.
A line's time includes what it calls, and ends where its frame is left: at a return, a yield or an exception.
"""

import ast
import contextlib
import gc
import linecache
import os
import sys
import threading
import time
import types

from ..imports.source_loader import definitions
from ..replay.replay_session import open_session
from ..replay.target_functions import TargetNotFound

#: How many calls are profiled unless the spec says otherwise.
_MAX_CALLS = 500

#: After so many seconds no further call is begun: half a profile is better than a deadline reached.
_SECONDS = 20.0


def run(spec, channel):
    """Profile evenly spread calls and write one "profile" record."""
    _, session, calls = open_session(spec, channel, spec["inputs"], spec.get("calls"))
    calls = evenly_spread(calls, spec.get("max_calls", _MAX_CALLS))
    usable = [call for call in calls if _resolves(session, call, channel)]
    functions = find_functions(spec)
    tracer = _tracer(spec.get("tracer"), functions)
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
    """Return whether a call can be made; this also imports the modules that hold the functions."""
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
        function, (args, kwargs) = session.prepare(call)
        tracer.start()
        with contextlib.suppress(BaseException):  # some captured calls raise: the replay judges that
            session.make(function, args, kwargs, call.meta)
        tracer.stop()
    return len(calls)


def find_functions(spec):
    """Return all living functions that the definitions of targets and helpers have become.

    Decorators may hide a function anywhere; the collector knows them all, but frozen ones.
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


def _tracer(wanted, functions):
    """Return a tracer for some functions: the project's `line_profiler`, or `sys.settrace`."""
    if wanted != SetTraceTracer.name:
        with contextlib.suppress(Exception):  # it is not there, or of a version that works differently
            return LineProfilerTracer(functions)
    return SetTraceTracer(functions)


def _nested(code):
    """Yield a code object and all code objects in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


class SetTraceTracer:
    """Count and time lines with `sys.settrace`."""

    name = "sys.settrace"

    def __init__(self, functions):
        # Kept, so that no other code object can get the id of one of them.
        self._codes = {id(code): code for function in functions for code in _nested(function.__code__)}
        self._timings = {}
        self._running = {}  # by frame: the entry of the line that it is on, and since when
        self._before = None

    def start(self):
        """Trace from now on, in new threads too."""
        self._before = sys.gettrace()
        threading.settrace(self._called)
        sys.settrace(self._called)

    def stop(self):
        """Trace no more."""
        sys.settrace(self._before)
        threading.settrace(None)

    def timings(self):
        """Return {(file, line): (hits, ns)}."""
        return self._timings

    def _called(self, frame, event, arg):  # noqa: ARG002 - the signature of a trace function
        return self._traced if id(frame.f_code) in self._codes else None

    def _traced(self, frame, event, arg):  # noqa: ARG002 - the signature of a trace function
        if event in ("line", "return"):
            now = time.perf_counter_ns()
            before = self._running.pop(id(frame), None)
            if before is not None:
                before[0][1] += now - before[1]
        if event == "line":
            entry = self._timings.setdefault((frame.f_code.co_filename, frame.f_lineno), [0, 0])
            entry[0] += 1
            self._running[id(frame)] = (entry, time.perf_counter_ns())
        return self._traced


class LineProfilerTracer:
    """Traces with the project's own `line_profiler`: the quickest, and what people know."""

    name = "line_profiler"

    def __init__(self, functions):
        from line_profiler import LineProfiler

        self._profiler = LineProfiler()
        for code, group in _by_code(functions).items():
            replaced = self._with_nested(code)
            for function in group:
                function.__code__ = replaced
                self._profiler.add_function(function)

    def _with_nested(self, code):
        """Return a code object whose nested ones the profiler knows: it looks at the outermost only."""
        constants = tuple(
            self._known(constant) if isinstance(constant, types.CodeType) else constant
            for constant in code.co_consts
        )
        return code.replace(co_consts=constants)

    def _known(self, code):
        closure = tuple(types.CellType() for _ in code.co_freevars)
        holder = types.FunctionType(self._with_nested(code), {}, code.co_name, None, closure)
        self._profiler.add_function(holder)
        return holder.__code__

    def start(self):
        """Trace from now on."""
        self._profiler.enable_by_count()

    def stop(self):
        """Trace no more."""
        self._profiler.disable_by_count()

    def timings(self):
        """Return {(file, line): (hits, ns)}."""
        stats = self._profiler.get_stats()
        unit_ns = stats.unit * 1e9
        found = {}
        for (file, _, _), lines in stats.timings.items():
            for line, hits, ticks in lines:
                entry = found.setdefault((file, line), [0, 0])
                entry[0] += hits
                entry[1] += round(ticks * unit_ns)
        return found


def _by_code(functions):
    groups = {}
    for function in functions:
        groups.setdefault(function.__code__, []).append(function)
    return groups
