"""The records of tests' phases."""

#: The phases of a test in their order.
_PHASES = ("setup", "call", "teardown")


class Phases:
    """Reports phases: those of a test that simply passed in one record at its end, all others at once."""

    def __init__(self, channel):
        self._channel = channel
        self._held = {}

    def add(self, phase):
        """Take one phase, the fields of its record; sub-tests count as parts of their test's call."""
        test, when = phase["id"], phase["when"]
        if when not in _PHASES or phase["outcome"] != "passed" or phase["xfail"]:
            self._write(test)
            self._channel.write("phase", **phase)
            return
        held = self._held.setdefault(test, {})
        held[when] = held.get(when, 0) + phase["ns"]
        if when == _PHASES[-1]:
            self._end(test)

    def _end(self, test):
        ns = [self._held[test].get(when) for when in _PHASES]
        if None in ns:
            self._write(test)
        else:
            del self._held[test]
            self._channel.write("passed", id=test, ns=ns)

    def flush(self):
        """Write what is held: tests that did not come to their end."""
        for test in list(self._held):
            self._write(test)

    def _write(self, test):
        for when, ns in self._held.pop(test, {}).items():
            self._channel.write("phase", id=test, when=when, outcome="passed", xfail=False, ns=ns)
