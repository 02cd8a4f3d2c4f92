"""The records of tests' phases."""

#: The phases of a test in their order.
PHASES = ("setup", "call", "teardown")


class PhaseRecords:
    """Reports phases: those of a test that simply passed in one record at its end, all others at once."""

    def __init__(self, channel):
        self._channel = channel
        self._held = {}

    def passed(self, test, when, ns):
        """Take a phase that simply passed; sub-tests count as parts of their test's call."""
        held = self._held.setdefault(test, {})
        held[when] = held.get(when, 0) + ns
        if when == PHASES[-1]:
            self._end(test)

    def add(self, phase):
        """Take any other phase, the fields of its record."""
        self._write(phase["id"])
        self._channel.write("phase", **phase)

    def _end(self, test):
        ns = [self._held[test].get(when) for when in PHASES]
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
