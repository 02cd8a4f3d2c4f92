"""Work of an arm that consists of whole tests, in a pytest session that stopped short of running them."""

import gc
import hashlib
import time

from . import call_workload


class PytestWork:
    """Groups of collected items."""

    __test__ = False

    def __init__(self, spec, session, control):
        items = {item.nodeid: item for item in session.items}
        wanted = [group["tests"] for group in spec["groups"]]
        names = [group["name"] for group in spec["groups"]]
        self._unsteady = [place for place, name in enumerate(names) if name in spec.get("unsteady", ())]
        lost = [name for names in wanted for name in names if name not in items]
        self.skipped = dict.fromkeys(lost, "the test is not collected")
        self._groups = [[items[name] for name in names if name in items] for names in wanted]
        self.sizes = [len(group) for group in self._groups]
        self._session = session
        self._reports, self._announcer = [], None
        if spec["work"] == "in-place":
            from ..capture import timing_windows

            self._announcer = timing_windows.CURRENT[0]
            self._announcer.bind(control)
        session.config.pluginmanager.register(_Ear(self._reports), "codeflash-arm")

    def prepare(self, group, calls, start):  # noqa: ARG002 - a group of tests is always run whole
        """Return a batch that runs the whole group so many times."""
        items = self._groups[group]
        if items:
            # What the last block left set up for its own tests may be in the way of these.
            self._session._setupstate.teardown_exact(items[0])
        self._reports.clear()
        is_steady = self._announcer is not None and group not in self._unsteady
        return PytestBatch(items, calls, self._reports, self._announcer, is_compared=is_steady)

    def close(self):
        """Tear down the fixtures that outlived the last block."""
        self._session._setupstate.teardown_exact(None)


class _Ear:
    """Keeps the reports that the run-test protocol gives."""

    def __init__(self, reports):
        self._reports = reports

    def pytest_runtest_logreport(self, report):
        """Keep what happened."""
        self._reports.append(report)


class PytestBatch:
    """Some items, to be run in order, and that several times."""

    __test__ = False

    def __init__(self, items, times, reports, announcer, *, is_compared=False):
        self._items, self._times, self._reports, self._announcer = items, times, reports, announcer
        self._is_compared = is_compared

    def run(self):
        """Run the tests; fixtures of wider scope live on from one round to the next."""
        if self._announcer is not None:
            self._announcer.open()
        self._run()
        if self._announcer is not None:
            self._announcer.close()

    def _run(self):
        if self._announcer is not None and not self._times:
            self._announcer.try_out()
        # An item that is followed by itself would not be torn down: what follows a single one is its parent.
        first = self._items[:1] if len(self._items) > 1 else [item.parent for item in self._items]
        following = self._items[1:] + first
        for _ in range(self._times):
            for item, after in zip(self._items, following):
                _rearm(item)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)

    def _kept(self):
        return self._announcer.kept if self._is_compared and self._times else ()

    def check(self):
        """Return a digest of the outcomes of the last round."""
        started = time.process_time_ns()
        outcomes = [(r.nodeid, r.when, r.outcome, hasattr(r, "wasxfail")) for r in self._reports]
        last = outcomes[-len(outcomes) // self._times :] if self._times else []
        # Who switches the collector off speeds up all the rest of the tests.
        given = [call_workload.outcome(value, call_workload.FLOATLESS) for value in self._kept()]
        seen = repr((last, gc.isenabled(), gc.get_threshold(), given))
        checked = {
            "digest": hashlib.sha256(seen.encode()).hexdigest() if last else "",
            "raised": any(outcome == "failed" for _, _, outcome, _ in outcomes),
            "inputs": len(self._items) if self._times else 0,
        }
        return dict(checked, ns=time.process_time_ns() - started)


def _rearm(item):
    """Let an item that has run run again with fresh function-scoped fixtures (as rerun plugins do)."""
    if hasattr(item, "_request") and hasattr(item, "_initrequest"):
        item._initrequest()
