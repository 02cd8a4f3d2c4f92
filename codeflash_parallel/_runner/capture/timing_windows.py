"""Calls of the targets inside their tests, announced to the evaluator, which reads this process's CPU clock.

The process waits for an answer to each announcement: what it does meanwhile is nothing, and no word of its
own about time is used. A generator is announced step by step.
"""

import os
import random
import sys
from _thread import get_ident

from ..channels import line_of
from . import call_recorder, function_wrappers
from .call_recorder import UnrecordedTrace

#: What is announced: that a call is near, which only warms the way, that it begins, and that it is over.
_NEAR, _IN, _OUT = line_of("near"), line_of("in"), line_of("out")

#: Announced in one block at most; what comes then is part of the rest.
MOST = 1000

#: Results of a block that are compared.
KEPT = 50

#: Empty windows by which it is found out what an announcement costs.
EMPTY = 20

#: Where the code of wrappers comes from.
_OURS = (function_wrappers.wrap.__code__.co_filename, function_wrappers.wrap_generator.__code__.co_filename)

#: Of these a window would hold what other tasks do.
_ASYNCHRONOUS = ("coroutine", "asyncgen")

#: The announcer of this process, in a list, or an empty one.
CURRENT = []


def _nothing():
    pass


class CallAnnouncer(call_recorder.CallRecorder):
    """Announces outermost calls where a recorder would keep them.

    Attributes:
        every: of so many calls of a target one is announced.
        control: how to speak with the evaluator; without it nothing is announced.
        kept: results of announced calls of the last block, drawn by lot.
    """

    def __init__(self, spec, channel):
        super().__init__(spec, channel)
        self.every, self.control, self._left, self._count = spec.get("every", 1), None, 0, 0
        self.kept, self._main, self._bound, self._names = [], get_ident(), [], {}
        for target in spec["targets"]:
            path = os.path.join(spec["root"], target["path"])
            self._names.setdefault(path, []).append(target["qualname"])
        self._empty = function_wrappers.wrap(
            self, call_recorder.CallOrigin(self, 0, __name__, "outer"), _nothing
        )
        CURRENT[:] = [self]
        os.register_at_fork(after_in_child=self.close)

    def bind(self, control):
        """Take the way to the evaluator, and find the names that targets have in their modules.

        While a target runs these stand for the functions themselves: a recursive one pays for no wrapper.
        """
        self.control = control
        for module in [*sys.modules.values()]:
            names, path = getattr(module, "__dict__", {}), getattr(module, "__file__", None)
            for name in self._names.get(path, ()):
                wrapper = names.get(name)
                if getattr(getattr(wrapper, "__code__", None), "co_filename", "") in _OURS:
                    self._bound.append((names, name, wrapper, wrapper.__wrapped__))

    def open(self):
        """Announce calls from now on."""
        self._left, self._count, self._returned = MOST, 0, 0
        self.kept.clear()
        # The hash seed is the same for all arms of a layout.
        self._random = random.Random(os.environ.get("PYTHONHASHSEED", ""))

    def close(self):
        """Announce nothing more."""
        self._left = 0

    def enter(self):
        """Announce that a target begins to run; return whether that was done."""
        if self._left <= 0 or get_ident() != self._main:
            return False
        self._left -= 1
        for names, name, _, function in self._bound:
            names[name] = function
        self.control.announce(_NEAR)
        self.control.announce(_IN)
        return True

    def leave(self):
        """Announce that it does not run any more."""
        self.control.announce(_OUT)
        for names, name, wrapper, _ in self._bound:
            names[name] = wrapper

    def try_out(self):
        """Announce calls that do nothing."""
        every, self.every = self.every, 1
        for _ in range(EMPTY):
            self._empty()
        self.every = every

    def begin(self, origin, *_call):
        """Announce a call; None where it is not its turn."""
        self._count += 1
        if self._count % self.every or origin.shape in _ASYNCHRONOUS:
            return None
        return self if origin.shape == "generator" or self.enter() else None

    def returned(self, _call, _ns, value, *_arguments):
        """Announce that a call has returned, and keep some of the results."""
        self.leave()
        self._returned += 1
        if len(self.kept) < KEPT:
            self.kept.append(value)
        elif (place := self._random.randrange(self._returned)) < KEPT:
            self.kept[place] = value

    def raised(self, *_call):
        """Announce that a call has raised."""
        self.leave()

    def trace(self, *_call):
        """Return what announces the steps of a generator."""
        return _Steps(self)

    def finish(self):
        """Write nothing."""


class _Steps(UnrecordedTrace):
    """The steps of one generator; what `clock` returns is whether one was announced."""

    def __init__(self, announcer):
        self.clock, self._leave = announcer.enter, announcer.leave

    def item(self, started, *_given):
        """Announce that it does not run any more: it has given an item, ended or raised."""
        if started:
            self._leave()

    ended = left = item
