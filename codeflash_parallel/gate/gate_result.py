"""The result of a gate, as it is shown and as it is written as JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import exp, inf
from typing import Any

from codeflash_parallel.race.statistics.confidence_sequence import Interval
from codeflash_parallel.race.statistics.slowdown_test import Change, GateRules, interval

#: Version of the document; a new field does not change it.
SCHEMA = 1

#: Verdicts of benchmarks that were not raced, besides those of `Change`.
NO_BASE, NO_HEAD = "no_base", "no_head"


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedBounds:
    """Time of the base over that of the head: below 1 the head is slower.

    Attributes:
        estimate: `None` where nothing was measured.
        low, high: 95 % confidence sequence; `None` where there is no bound yet.
    """

    estimate: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> SpeedBounds:
        """Return the bounds of some log-ratios."""
        bound = interval(values) if values else Interval(estimate=inf, low=-inf, high=inf)
        ends = (bound.estimate, bound.low, bound.high)
        estimate, low, high = (None if abs(end) == inf else exp(end) for end in ends)
        return cls(estimate=estimate, low=low, high=high)


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchmarkChange:
    """A benchmark of the head.

    Attributes:
        name: id of the test, the callable, or the command.
        verdict: of `Change`; `no_base` or `no_head`: that side does not run it.
        why: of what is not decided; one clause.
        file, line: where it begins, relative to the repository; empty and 0: not known.
        base_ns: what it takes on the base, about; 0: not known.
        clock: that decided, `cpu` or `wall`; empty: it was not raced.
    """

    name: str
    verdict: str
    why: str = ""
    speed: SpeedBounds = field(default_factory=SpeedBounds)
    file: str = ""
    line: int = 0
    base_ns: int = 0
    clock: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Qualification:
    """Fitness of this machine, by a race of the base with itself.

    Attributes:
        planted: slowdown that was added to what was measured, as a fraction.
        seconds: after which that was red; `None`: it was not, within the budget.
        false_alarms: benchmarks (or `total`) that were called slower or faster than themselves.
    """

    planted: float
    seconds: float | None
    false_alarms: tuple[str, ...] = ()

    @property
    def tells(self) -> bool:
        """Whether the gate can be trusted to see such a slowdown here."""
        return self.seconds is not None and not self.false_alarms


@dataclass(frozen=True, kw_only=True, slots=True)
class GateResult:
    """Everything that a gate says.

    Attributes:
        why: one sentence.
        speed: of the mean of all benchmarks that were raced.
        base, head: commits; empty: the working tree.
        budget_s, seconds: that the race might take, and took.
        rounds: that were held; `layouts`: sets of processes in which.
        null_arm: whether the base raced against itself as well, to the end.
        load: of the last minute, before the race and after it.
    """

    verdict: Change
    why: str
    speed: SpeedBounds
    benchmarks: tuple[BenchmarkChange, ...]
    base: str
    head: str
    rules: GateRules
    budget_s: float
    seconds: float
    rounds: int = 0
    layouts: int = 0
    null_arm: bool = False
    cores: int = 0
    quota_cores: float = 0.0
    load: tuple[float, float] = (0.0, 0.0)
    isolation: str = ""
    python: str = ""
    notes: tuple[str, ...] = ()
    qualification: Qualification | None = None

    def document(self) -> dict[str, Any]:
        """Return it as JSON values."""
        plain = asdict(self)
        rules, speed, qualification = (plain.pop(name) for name in ("rules", "speed", "qualification"))
        machine = {name: plain.pop(name) for name in ("cores", "quota_cores", "load", "isolation", "python")}
        benchmarks = [_flat(one) for one in plain.pop("benchmarks")]
        if self.qualification is not None:
            qualification["tells"] = self.qualification.tells
        rest = {
            "machine": {**machine, "load": list(self.load)},
            "qualification": qualification,
            "error": None,
        }
        notes = {"notes": list(plain.pop("notes"))}
        return {"schema": SCHEMA, **plain, **speed, **rules, **rest, **notes, "benchmarks": benchmarks}


def _flat(benchmark: dict[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in benchmark.items() if name != "speed"}, **benchmark["speed"]}


def load_now() -> float:
    """Return how many processes wanted to run in the last minute, on average."""
    return round(os.getloadavg()[0], 2)


#: Benchmarks that a sentence names, at most.
_NAMED = 3


def sentence(result: GateResult) -> str:
    """Return what a gate found."""
    raced = [one for one in result.benchmarks if one.clock]
    if not raced:
        why = next((one.why for one in result.benchmarks), "there is none")
        return f"No benchmark was raced: {why}."
    if result.verdict == Change.TOO_NOISY:
        return _undecided(result)
    total, limit = len(result.benchmarks), f"{100 * result.rules.max_regression:.3g} %"
    if result.verdict == Change.FASTER:
        return f"The head is surely faster ({taken(result.speed)}), and no benchmark is slower."
    if result.verdict == Change.NOT_SLOWER:
        return f"No benchmark is more than {limit} slower."
    slower = [one for one in raced if one.verdict == Change.SLOWER]
    if not slower:
        return f"All benchmarks together are surely more than {limit} slower: {taken(result.speed)}."
    return f"{_counted(slower, total)} surely more than {limit} slower: {_named(slower)}."


def _undecided(result: GateResult) -> str:
    left = [one for one in result.benchmarks if one.verdict in {Change.TOO_NOISY, NO_HEAD}]
    counted = _counted(left, len(result.benchmarks))
    return f"{counted} not decided after {result.seconds:.0f} s: {_named(left)}."


def _counted(some: Sequence[BenchmarkChange], total: int) -> str:
    return f"{len(some)} of {total} benchmarks {'is' if len(some) == 1 else 'are'}"


def _named(some: Sequence[BenchmarkChange]) -> str:
    named = [f"{one.name} ({taken(one.speed) or one.why})" for one in some[:_NAMED]]
    return ", ".join(named) + (f" and {len(some) - _NAMED} more" if len(some) > _NAMED else "")


def taken(speed: SpeedBounds) -> str:
    """Return the head's time against the base's, as ``+5.2 % time, +3.9 to +6.6``; empty: unknown."""
    if speed.estimate is None:
        return ""
    return f"{time_change(speed.estimate)} % time, {time_change(speed.high)} to {time_change(speed.low)}"


def time_change(speedup: float | None) -> str:
    """Return a speedup as per cent of time that is added: ``+5.0`` for 1 / 1.05."""
    return "?" if speedup is None else f"{100 * (1 / speedup - 1):+.1f}"
