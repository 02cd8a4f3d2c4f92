"""Work of an arm in a pytest session that stopped short of running tests: whole tests, or benchmark fixtures.

A test that uses pytest-benchmark's fixture is run up to its call of the fixture and waits there, with all its
fixtures alive, while the function that it handed over is timed by the evaluator's clocks. Tests wait side by
side, so each has a thread of its own, in which its setup, its body, the timed calls and its teardown run.
"""

import gc
import hashlib
import threading
import time

from ..pytest_plugin.session_plugin import shortened
from ..replay.replay_session import seed_everything
from ..replay.target_functions import LazyResolver
from ..values.type_handlers import MAX_ITEMS
from . import call_workload
from .call_workload import RETURNS, VALUES, batch_of


class PytestWork:
    """Groups of collected items."""

    __test__ = False

    def __init__(self, spec, session, control):
        names = [group["name"] for group in spec["groups"]]
        self._unsteady = [place for place, name in enumerate(names) if name in spec.get("unsteady", ())]
        self._groups, self.skipped = _grouped(spec, session)
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


def _grouped(spec, session):
    """Return the collected items of each group, and why the others are skipped, by their ids."""
    items = {item.nodeid: item for item in session.items}
    wanted = [group["tests"] for group in spec["groups"]]
    lost = [name for names in wanted for name in names if name not in items]
    groups = [[items[name] for name in names if name in items] for names in wanted]
    return groups, dict.fromkeys(lost, "the test is not collected")


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
        # A test that switches the collector off speeds up all the rest.
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


class FixtureWork:
    """Groups of collected items that use the fixture."""

    def __init__(self, spec, session):
        groups, self.skipped = _grouped(spec, session)
        usual, unsteady = spec.get("compare", VALUES), dict.fromkeys(spec.get("unsteady", ()), RETURNS)
        says = bool(spec.get("says_errors"))
        self._groups = [
            [FixtureThread(item, unsteady.get(item.nodeid, usual), says_errors=says) for item in items]
            for items in groups
        ]
        self.sizes = [len(group) for group in self._groups]
        self._seed = spec.get("seed", 0)
        if session.items:
            _take_over()

    def prepare(self, group, calls, start):  # noqa: ARG002 - every pass makes each item's call
        """Return a batch of so many passes; the first one of a unit runs the tests up to the fixture."""
        seats = self._groups[group] if calls else []
        seed_everything(self._seed)
        batches = [(seat, seat.batch(calls, (group, number))) for number, seat in enumerate(seats)]
        return FixtureBatch(batches)

    def close(self):
        """Let the tests run to their ends: bodies, then their own fixtures, then those that they share."""
        seats = [seat for group in self._groups for seat in group]
        for step in (FixtureThread.leave, FixtureThread.go_on, FixtureThread.go_on):
            for seat in seats:
                step(seat)


class FixtureBatch:
    """The calls of some tests, each made in its test's own thread."""

    def __init__(self, batches):
        self._batches = batches
        self._runs = [(seat.do, batch.run) for seat, batch in batches if batch is not None]

    def run(self):
        """Make the calls: this is what is timed."""
        for do, run in self._runs:
            do(run)

    def check(self):
        """Return a digest of the kept outcomes of all tests, and which test did not come to its fixture."""
        started = time.process_time_ns()
        checks = [_absent(seat) if batch is None else batch.check() for seat, batch in self._batches]
        digest = hashlib.sha256("".join(check["digest"] for check in checks).encode())
        checked = {
            "digest": digest.hexdigest(),
            "raised": any(check["raised"] for check in checks),
            "inputs": len(checks),
        }
        said = [check["said"] for check in checks if "said" in check]
        return dict(checked, ns=time.process_time_ns() - started, **({"said": said[0]} if said else {}))


def _absent(seat):
    """Return the check of a test that did not come to its fixture."""
    said = "%s does not come to its benchmark%s" % (seat.name, seat.why)
    return {"digest": said, "raised": True, "said": said}


class _Left(BaseException):
    """Ends the body of a test at its fixture."""


class FixtureThread:
    """One test, waiting in its own thread; that thread and the one that gives orders take turns.

    Attributes:
        name: the test's id.
        why: what kept it from its fixture, after a colon.
    """

    def __init__(self, item, compare, *, says_errors=False):
        self.name, self.why = item.nodeid, ""
        self._compare, self._says_errors = compare, says_errors
        self._item = item
        self._thread = None
        self._over = False
        self._order = None
        self._error = None
        self._entries = None
        self._setup_state = type(item.session._setupstate)()
        self._fixtures = FixtureValues(item)
        self._settler = LazyResolver()
        self._go, self._parked = threading.Semaphore(0), threading.Semaphore(0)

    def batch(self, calls, lot):
        """Return the test's calls, or nothing if it does not come to its fixture."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, daemon=True)
            self._thread.seat = self
            self._resume(self._thread.start)
        if self._entries is None:
            return None
        made = []
        self.do(lambda: made.extend(self._entries(calls)))
        batch = batch_of(made, 1, (*lot, calls), self._settler, compare=self._compare)
        batch.says_errors = self._says_errors
        return batch

    def do(self, order):
        """Let the test's thread follow an order; what that raises is raised here."""
        self._order = order
        self._resume(self._go.release)
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _resume(self, wake):
        self._item.session._setupstate = self._setup_state
        self._fixtures.take_in()
        wake()
        self._parked.acquire()
        self._fixtures.take_out()

    def leave(self):
        """End the test's body, if it waits at its fixture."""
        if self._entries is not None:
            self._entries = None
            self.do(_leave)

    def go_on(self):
        """Tear down the test's own fixtures; the second time, what it shares."""
        if self._thread is not None and not self._over:
            self._resume(self._go.release)

    # ---- in the test's thread

    def _live(self):
        hooks, item = self._item.ihook, self._item
        try:
            hooks.pytest_runtest_setup(item=item)
            hooks.pytest_runtest_call(item=item)
        except _Left:
            pass
        except BaseException as error:
            self.why = shortened(": %s: %s" % (type(error).__name__, error))
        self._park()
        try:
            hooks.pytest_runtest_teardown(item=item, nextitem=item.parent)
            self._settler.close()
            self._park()
            item.session._setupstate.teardown_exact(None)
        finally:
            self._over = True
            self._parked.release()

    def _park(self):
        self._parked.release()
        self._go.acquire()

    def wait(self, entries):
        """Follow orders until told to leave; `entries` gives the calls of a block."""
        self._entries = entries
        while True:
            self._park()
            try:
                self._order()
            except _Left:
                raise
            except BaseException as error:
                self._error = error


class FixtureValues:
    """The values of a test's own fixtures; pytest keeps one value for each, whichever test it is for."""

    _KEPT = ("cached_result", "_finalizers")

    def __init__(self, item):
        named = item._fixtureinfo.name2fixturedefs.values()
        self._found = [one for several in named for one in several if one.scope == "function"]
        self._values = [(None, []) for _ in self._found]

    def take_in(self):
        """Let pytest know the values of this test."""
        for fixture, values in zip(self._found, self._values):
            for name, value in zip(self._KEPT, values):
                setattr(fixture, name, value)

    def take_out(self):
        """Remember the values of this test, and let pytest forget them."""
        self._values = [tuple(getattr(fixture, name) for name in self._KEPT) for fixture in self._found]
        for fixture in self._found:
            fixture.cached_result, fixture._finalizers = None, []


def _leave():
    raise _Left


def _take_over():
    """Let the plugin's fixture hand its function to the test's seat."""
    from pytest_benchmark.fixture import BenchmarkFixture

    def call(self, function_to_benchmark, *args, **kwargs):  # noqa: ARG001 - the plugin's signature
        _here().wait(lambda calls: [(function_to_benchmark, args, kwargs, MAX_ITEMS)] * calls)

    def pedantic(self, target, args=(), kwargs=None, setup=None, teardown=None, **counts):  # noqa: ARG001
        _here().wait(lambda calls: _pedantic(target, args, kwargs or {}, setup, teardown, calls))

    BenchmarkFixture.__call__, BenchmarkFixture.pedantic = call, pedantic


def _here():
    return threading.current_thread().seat


def _pedantic(target, args, kwargs, setup, teardown, calls):
    """Return the calls of a block.

    Arguments that come from `setup` are made before the clock. A `setup` that gives none prepares the ground
    for one call and must run right before it, a `teardown` right after it: both are timed with it.
    """
    given = setup() if setup else None
    timed_setup = setup if setup and not given else None
    function = _with(target, timed_setup, teardown) if timed_setup or teardown else target
    if not given:
        return [(function, args, kwargs, MAX_ITEMS)] * calls
    rest = [setup() for _ in range(calls - 1)]
    return [(function, args, kwargs, MAX_ITEMS) for args, kwargs in [given, *rest]]


def _with(target, setup, teardown):
    def call(*args, **kwargs):
        if setup:
            setup()
        result = target(*args, **kwargs)
        if teardown:
            teardown(*args, **kwargs)
        return result

    return call
