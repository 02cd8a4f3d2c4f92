"""Statistical sampler of the call stack: which functions of the project the tests' time is spent in.

It only locates time: what a candidate gains is never read from a clock inside its process.

PYTEST_DONT_REWRITE
"""

import opcode
import os
import signal
from collections import Counter

import pytest

from ..values import argument_pickler

#: So many times it is tried to copy the arguments of a function, and so many bytes they may take.
_TRIALS = 3
_ROOM_BYTES = 1 << 23

_VARARGS, _KEYWORDS = 0x04, 0x08

#: The instruction, and its argument, with which a function begins; before Python 3.11 there is none.
_BEGIN = (opcode.opmap.get("RESUME", -1), 0)


class StackSampler:
    """Samples the stack while tests run, so many seconds after each sample the next.

    Args:
        spec: the runner's; `locate` is the pause in seconds.
    """

    def __init__(self, spec, channel):
        self._root, self._channel, self._interval_s = spec["root"] + os.sep, channel, spec["locate"]
        self._targets = {"%s::%s" % (target["path"], target["qualname"]) for target in spec["targets"]}
        self._names, self._trials, self._runs = {}, Counter(), False
        self._seen, self._chains, self._unfit = Counter(), Counter(), set()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self):
        """Look while an item runs, its fixtures included."""
        signal.signal(signal.SIGALRM, self._next)
        self._runs = True
        signal.setitimer(signal.ITIMER_REAL, self._interval_s)
        yield
        self._runs = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def pytest_sessionfinish(self):
        """Write what was seen."""
        chains = [[list(chain), count] for chain, count in self._chains.items()]
        self._channel.write("located", seen=self._seen, chains=chains, unfit=sorted(self._unfit))

    def _next(self, _number, frame):
        """Look once, then set the timer anew: looks that take longer than the pause must not meet."""
        self._look(frame)
        if self._runs:
            signal.setitimer(signal.ITIMER_REAL, self._interval_s)

    def _look(self, frame):
        frames = []
        code, last = frame.f_code.co_code, frame.f_lasti
        if last >= 0 and (code[last], code[last + 1]) == _BEGIN:
            # The interpreter looks for signals when a function begins: the time was spent before, by C code
            # perhaps that calls it back.
            frame = frame.f_back
        while frame is not None:
            if name := self._name(frame.f_code):
                frames.append((name, frame))
            frame = frame.f_back
        self._seen.update({name for name, _ in frames})
        depths = [depth for depth, (name, _) in enumerate(frames) if name in self._targets]
        if depths:
            callers = frames[depths[-1] + 1 :]
            self._chains[tuple(dict.fromkeys(name for name, _ in callers))] += 1
            for name, caller in callers:
                self._try(name, caller)

    def _name(self, code):
        """Return what a function of the project is called; empty for all other code."""
        if code not in self._names:
            # Before 3.11 code objects do not know their names: nothing is located then.
            qualname = getattr(code, "co_qualname", "<unknown>")
            path, inside = code.co_filename, "<" not in qualname
            inside = inside and path.startswith(self._root) and "site-packages" not in path
            self._names[code] = "%s::%s" % (path[len(self._root) :], qualname) if inside else ""
        return self._names[code]

    def _try(self, name, frame):
        """Note a function whose arguments, as they are now, cannot be copied."""
        self._trials[name] += 1
        if self._trials[name] > _TRIALS:
            return
        code, names = frame.f_code, frame.f_locals
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & _VARARGS) + bool(code.co_flags & _KEYWORDS)
        try:
            argument_pickler.dumps(
                [names[one] for one in code.co_varnames[:count] if one in names], _ROOM_BYTES
            )
        except Exception:  # the project's own `__reduce__` runs here
            self._unfit.add(name)
