"""The baseline: everything that candidates are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from codeflash_parallel.check.comparison.call_comparison import BaselineReplays
from codeflash_parallel.check.comparison.outcome_comparison import Outcomes, TestKey
from codeflash_parallel.check.integrity.canaries import CanaryPlace
from codeflash_parallel.check.session.runner_report import CallOutcome
from codeflash_parallel.result.outcome_codes import Level


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayGroup:
    """Calls that are made again in one process.

    Attributes:
        known: what they gave.
        aside: what lies elsewhere meanwhile.
    """

    known: BaselineReplays
    aside: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """The preflight's findings for one snapshot, selection and set of targets.

    Attributes:
        rootdir, inifile: pytest's, relative to the workspace's root (``"."`` is the root itself).
        selected: ids of the tests that candidates run, in order; quarantined ones left out.
        expected: outcome by test id of `selected`.
        asked: ids of all tests that were asked for, in order; quarantined ones left out.
        asked_expected: outcome by test id of `asked`.
        executing: ids of tests that execute a target; empty means that whole tests are the level.
        benchmarks: those of `executing` that use pytest-benchmark's fixture.
        calls: stable outcomes of captured calls by index: what candidates are held against.
        repeats: tests of more captured calls, by index: each repeats some of `calls` and is not compared.
        costs_ns: CPU time of each call of `calls` and `repeats` (where there are none, of `unstable`), the
            least of all observed, for cost groups.
        copies_ns: CPU time of making the inputs of each of these calls again.
        inputs_of: by index of those, what calls of one target with equal inputs share.
        derived: stable outcomes of calls with derived inputs by index, in the order in which they are made.
        breaks: the relation that a derived input breaks; those that are not named keep all.
        sizes: length of the longest container or text in captured calls, and in those.
        dropped: why other derived inputs do not count, and how many.
        derived_inputs: the file that holds them.
        globals: public data of the targets' modules that is compared after the captured calls.
        changed_globals: digests of those that the calls change.
        manners: how values told what they hold in these calls, and what was still to come after them.
        aside: what lies elsewhere while calls are made again: the tests, relative to the workspace's root.
        sheltered: calls that need something of it, derived ones as well: they are made with all of it there.
        unstable: tests of the captured calls whose outcome the baseline itself does not repeat, by index.
        uncaptured: reason → number of calls that could not be captured.
        observed: outcomes inside the tests, for tests with calls that cannot be replayed.
        cpu_ns, wall_ns, rss_bytes: of one baseline run of the selected tests.
        replay_cpu_ns: of the longest replay of captured calls, our own looks at values included.
        left_out: says how many tests fail on the baseline and are asked of nobody; empty: none.
        leaks: processes outlive the baseline's tests, too.
        loaded: digest by proven path, as the baseline compiled it.
        places: where canaries fail as they must.
        leftovers: paths of the workspace that the tests change, new ones included, bytecode apart.
        status, plain_status: how a run of the tests ends, with canaries and without.
        suite_s: how long the setups, calls and teardowns of the selected tests take.
        replaced: what the project itself, or its plugins, have replaced of the test runner.
        share: where callers of targets stand in for them: the part of their time that is spent in targets.
        seed: of random state; whoever is held against these outcomes starts from the same one.
    """

    targets: tuple[str, ...]
    python: str
    pytest: str
    plugins: tuple[str, ...]
    rootdir: str
    inifile: str
    selected: tuple[str, ...]
    expected: Mapping[str, str]
    executing: tuple[str, ...]
    asked: tuple[str, ...] = ()
    asked_expected: Mapping[str, str] = field(default_factory=dict)
    benchmarks: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    durations_ns: Mapping[str, int] = field(default_factory=dict)
    calls: Mapping[int, CallOutcome] = field(default_factory=dict)
    repeats: Mapping[int, str] = field(default_factory=dict)
    costs_ns: Mapping[int, int] = field(default_factory=dict)
    copies_ns: Mapping[int, int] = field(default_factory=dict)
    inputs_of: Mapping[int, str] = field(default_factory=dict)
    derived: Mapping[int, CallOutcome] = field(default_factory=dict)
    breaks: Mapping[int, str] = field(default_factory=dict)
    sizes: tuple[int, ...] = (0, 0)
    dropped: Mapping[str, int] = field(default_factory=dict)
    derived_inputs: str = ""
    globals: tuple[str, ...] = ()
    changed_globals: Mapping[str, str] = field(default_factory=dict)
    manners: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    sheltered: tuple[int, ...] = ()
    unstable: Mapping[int, str] = field(default_factory=dict)
    uncaptured: Mapping[str, int] = field(default_factory=dict)
    observed: Mapping[TestKey, Outcomes] = field(default_factory=dict)
    cpu_ns: int = 0
    wall_ns: int = 0
    rss_bytes: int = 0
    replay_cpu_ns: int = 0
    left_out: str = ""
    leaks: bool = False
    loaded: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    inputs: str = ""
    places: tuple[CanaryPlace, ...] = ()
    leftovers: tuple[str, ...] = ()
    status: int = 1
    plain_status: int = 0
    replaced: tuple[str, ...] = ()
    seed: int = 0
    share: float = 1.0
    suite_s: float = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Add up once what is asked for many times a candidate."""
        object.__setattr__(self, "suite_s", self.seconds_of(self.selected))

    def seconds_of(self, tests: Iterable[str]) -> float:
        """Return how long the setups, calls and teardowns of some tests take."""
        return sum(self.durations_ns.get(test, 0) for test in tests) / 1e9

    def expected_call(self, index: int) -> CallOutcome | None:
        """Return what the baseline gave in a captured call; one that repeats another gave what that did."""
        if index in self.repeats:
            inputs = self.inputs_of.get(index)
            index = next((i for i in self.calls if self.inputs_of.get(i) == inputs), index)
        return self.calls.get(index)

    @property
    def longest_cpu_ns(self) -> int:
        """Return the CPU time of the longest process that a candidate repeats, looks at values included."""
        return max(self.cpu_ns, self.replay_cpu_ns)

    @property
    def level(self) -> Level:
        """Return how deep candidates can be compared."""
        return Level.CAPTURED if self.observed and not self.calls else self.known.level

    @property
    def anchors(self) -> tuple[int, ...]:
        """Return a captured call of each target: who makes none is not asked for their modules."""
        free = [index for index in self.calls if index not in self.sheltered]
        found = {self.calls[index].target: index for index in reversed(free or list(self.calls))}
        return tuple(sorted(found.values()))

    @property
    def parts(self) -> tuple[ReplayGroup, ...]:
        """Return the replays of a candidate: without the tests, and where calls need them with them there.

        One that would make no call is left out: nothing would be imported there, the candidate included.
        """
        whole, kept = self.known, frozenset(self.sheltered)
        if not kept & whole.all.keys():
            return (ReplayGroup(known=whole, aside=self.aside),)
        first = _only(whole, whole.all.keys() - kept)
        second = replace(_only(whole, kept), globals=frozenset(), changed_globals={})
        if not first.calls:
            return (ReplayGroup(known=second),)
        second = replace(second, repeated=0, unstable=0, uncaptured={}, dropped={})
        return (ReplayGroup(known=first, aside=self.aside), ReplayGroup(known=second))

    @property
    def known(self) -> BaselineReplays:
        """Return what replays of candidates are held against."""
        return BaselineReplays(
            calls=self.calls,
            targets=self.targets,
            derived=self.derived,
            breaks=self.breaks,
            sizes=self.sizes,
            dropped=self.dropped,
            globals=frozenset(self.globals),
            changed_globals=self.changed_globals,
            manners=frozenset(self.manners),
            repeated=len(self.repeats),
            unstable=len(self.unstable),
            uncaptured=self.uncaptured,
        )


def _only(known: BaselineReplays, wanted: AbstractSet[int]) -> BaselineReplays:
    """Return what is known of some calls."""
    calls = {index: call for index, call in known.calls.items() if index in wanted}
    derived = {index: call for index, call in known.derived.items() if index in wanted}
    breaks = {index: name for index, name in known.breaks.items() if index in wanted}
    return replace(known, calls=calls, derived=derived, breaks=breaks)
