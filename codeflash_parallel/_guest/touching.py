"""Which targets each test executes, nested calls too: what may be left out when only some targets change.

Stricter than the recorder's counts: what a test executes by itself is told apart from what later tests may
live on. That is all that happens in setups and teardowns, but for fixtures of a single test; in fixtures of
wider scope, even if a test asks for them late; and outside of tests.
"""

import contextlib
import itertools
import threading


class Touches:
    """Gathers (test, target) pairs; the wrappers set `flags`, one byte a target, at each call."""

    def __init__(self, targets, busy):
        self.flags = bytearray(targets)
        self._none = bytes(targets)
        self._busy = busy
        self._lazy = {}
        self._test, self._own = "", False
        #: Set by the plugin that tells fixtures apart: without it nothing is known.
        self.told = False
        self._by_test = {}

    def lazy(self, target):
        """Return what to call when a call of a lazy target begins to run, and when it is over."""
        begun, over = self._lazy.setdefault(target, (itertools.count(), itertools.count()))
        return begun.__next__, over.__next__

    def set_test(self, test):
        """Attribute what follows to the setup of a test; "" is outside of tests."""
        self.set_own(False)
        if test and (self._busy or threading.active_count() > 1):
            # Another thread may execute a target whenever it likes.
            self._add("", bytes(len(self._none)).replace(b"\0", b"\1"))
        self._test = test

    def set_own(self, own):
        """Say whether what follows is executed for the running test alone; return what held before."""
        for target, (begun, over) in self._lazy.items():
            if _value(begun) > _value(over):
                # It may go on in any test.
                self._add("", bytes(number == target for number in range(len(self._none))))
        if 1 in self.flags:
            self._add(self._test if self._own else "", bytes(self.flags))
            self.flags[:] = self._none
        before, self._own = self._own, own
        return before

    @contextlib.contextmanager
    def paused(self):
        """Forget what is executed meanwhile."""
        self.set_own(False)
        known = dict(self._by_test)
        yield
        self.flags[:] = self._none
        self._by_test, self._own = known, False

    def _add(self, test, flags):
        known = self._by_test.get(test, self._none)
        self._by_test[test] = bytes(map(max, known, flags))

    def write(self, channel):
        """Write one record for each test that executes targets."""
        for test, flags in self._by_test.items() if self.told else ():
            channel.write("touched", id=test, targets=[number for number, flag in enumerate(flags) if flag])


def _value(counter):
    # A counter can be read only through its text without moving it.
    return int(repr(counter)[len("count(") : -1])
