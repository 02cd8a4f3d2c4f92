"""What a check found of one candidate: its tests and captured calls against the baseline's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from codeflash_parallel.result.outcome_codes import Level

#: Inputs are called larger from so many times the size of those of the tests on.
_LARGER = 1.5
#: How many test ids a document lists at most, a list.
MAX_IDS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class TestCounts:
    """Tests of one candidate against the baseline's: counts, and the first 50 ids.

    Attributes:
        not_run: expected tests that were not started, because what had failed before them decided.
    """

    #: Keeps pytest from taking this for a test class where a test module imports it.
    __test__: ClassVar[bool] = False

    expected: int = 0
    passed: int = 0
    failed: int = 0
    missing: int = 0
    not_run: int = 0
    failed_ids: tuple[str, ...] = ()
    missing_ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueCounts:
    """Captured calls of one candidate against the baseline's.

    Attributes:
        compared: calls that were made again.
        differing: of those.
        accepted: calls, captured and derived, whose other result the user's judge has accepted.
        repeated: captured calls that were not: their inputs and outcomes are those of two that were.
        unstable: captured calls that were not: the baseline disagrees with itself.
        derived: derived inputs that keep all relations of the observed ones; the call was made with each.
        largest_seen: length of the longest container or text in the captured calls.
        largest_fresh: the same of the calls with derived inputs.
        dropped: why other derived inputs do not count, with their number.
        derived_differing: of `derived`; they reject like captured calls.
        outside: derived inputs that break a relation; the call was made with each.
        outside_differing: of those, and derived inputs whose outcomes differ by rounding only; shown, and a
            rejection only when differences outside are to reject.
        uncaptured: why calls could not be captured or replayed, with their number.
        beside: calls of functions that are no targets, in the files that are edited, that were made again.
        uncompared: functions that are changed and are no targets, and no call of which could be made again.
    """

    compared: int = 0
    differing: int = 0
    accepted: int = 0
    repeated: int = 0
    unstable: int = 0
    derived: int = 0
    largest_seen: int = 0
    largest_fresh: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    derived_differing: int = 0
    outside: int = 0
    outside_differing: int = 0
    uncaptured: Mapping[str, int] = field(default_factory=dict)
    beside: int = 0
    uncompared: tuple[str, ...] = ()
    level: Level = Level.NONE

    @property
    def fresh(self) -> str:
        """Say how many fresh inputs were compared, and how large they are beside those of the tests."""
        times = self.largest_fresh / self.largest_seen if self.largest_seen else 0.0
        larger = f" up to {times:.0f} times as large" if times >= _LARGER else ""
        return f"{self.derived:,} fresh inputs{larger}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstDifference:
    """The first call whose outcome differs, as printable text.

    Attributes:
        target: `path.py::qualname`.
        test: id of the test whose call it is.
        call: index among the captured and derived calls.
        inputs, expected, got: shortened representations.
        derived: its input was derived from that of a captured call; `test` is the test of that one.
        breaks: what all observed inputs have in common and this one has not; empty: it has it all.
        smaller_inputs, smaller_expected, smaller_got: a smaller example of the same; empty: none was found,
            or this one is small.
    """

    target: str
    test: str
    call: int
    inputs: str
    expected: str
    got: str
    derived: bool = False
    breaks: str = ""
    smaller_inputs: str = ""
    smaller_expected: str = ""
    smaller_got: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedTest:
    """A failing test and its own message."""

    id: str
    phase: str
    message: str
