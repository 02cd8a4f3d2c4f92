"""Compare single replayed calls with the baseline's, floats included. Pure.

Floats come from the runners as little-endian doubles in base64, in the order in which the encoder met them.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from codeflash_parallel.check.session.runner_report import (
    LASTING,
    UNSEEN,
    CallDigests,
    CallOutcome,
    RunnerReport,
)
from codeflash_parallel.result.outcome_codes import Code, Level


@dataclass(frozen=True, kw_only=True, slots=True)
class Tolerance:
    """Tolerance of floats: ``|got - expected| <= atol + rtol * |expected|``; both 0: exactly."""

    rtol: float = 0.0
    atol: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether nothing but the same bits will do."""
        return not (self.rtol or self.atol)

    def accepts(self, expected: float, got: float) -> bool:
        """Return whether a float is near enough to another; a nan is near a nan, an infinity to itself."""
        if expected == got or (math.isnan(expected) and math.isnan(got)):
            # -0.0 is 0.0 where any difference is allowed.
            return True
        if not (math.isfinite(expected) and math.isfinite(got)):
            return False
        return abs(got - expected) <= self.atol + self.rtol * abs(expected)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """The largest differences among pairs of floats.

    Attributes:
        ulps: in units in the last place of a double (the number of doubles in between, plus one); infinite
            where one of a pair is no finite number.
        relative: largest difference relative to the expected one; infinite where that is 0.
        absolute_at_zero: largest absolute one of those where 0 was expected, which no `rtol` accepts.
        relative_elsewhere: largest relative one of all others.
    """

    ulps: float = 0.0
    relative: float = 0.0
    absolute_at_zero: float = 0.0
    relative_elsewhere: float = 0.0

    @property
    def accepting(self) -> str:
        """Return the options that would accept it; empty if none would."""
        if math.isinf(self.ulps) or math.isinf(self.relative_elsewhere):
            return ""
        rtol = [f"--rtol {_rounded_up(self.relative_elsewhere)}"] if self.relative_elsewhere else []
        atol = [f"--atol {_rounded_up(self.absolute_at_zero)}"] if self.absolute_at_zero else []
        return " ".join(rtol + atol)

    @property
    def words(self) -> str:
        """Return the figures, and what would accept them."""
        if math.isinf(self.ulps):
            return "a float became nan or infinite, or was it"
        relative = "" if math.isinf(self.relative) else f", {self.relative:.2g} of the value"
        return f"up to {self.ulps:.0f} ulp{relative}; {self.accepting or 'no --rtol'} would accept it"


def gap(expected: Sequence[float], got: Sequence[float]) -> Gap:
    """Return the largest differences of floats that belong together."""
    pairs = [
        (one, other)
        for one, other in zip(expected, got, strict=True)
        if _bits(one) != _bits(other) and not (math.isnan(one) and math.isnan(other))
    ]
    if not all(map(math.isfinite, chain.from_iterable(pairs))):
        return Gap(ulps=math.inf, relative=math.inf)
    elsewhere = max((abs(other - one) / abs(one) for one, other in pairs if one), default=0.0)
    return Gap(
        ulps=max((abs(_place(one) - _place(other)) for one, other in pairs), default=0.0),
        relative=elsewhere if all(one for one, _ in pairs) else math.inf,
        absolute_at_zero=max((abs(other) for one, other in pairs if not one), default=0.0),
        relative_elsewhere=elsewhere,
    )


def accepted(expected: Sequence[float], got: Sequence[float], tolerance: Tolerance) -> bool:
    """Return whether all floats are near enough to those that they belong to."""
    return len(expected) == len(got) and all(map(tolerance.accepts, expected, got))


def unpacked(text: str) -> tuple[float, ...]:
    """Return the floats in a text; none where it is not of the form."""
    try:
        data = base64.b64decode(text, validate=True)
        return struct.unpack(f"<{len(data) // 8}d", data)
    except (binascii.Error, struct.error, ValueError):
        return ()


def _bits(number: float) -> bytes:
    return struct.pack("<d", number)


def _place(number: float) -> int:
    """Return the place of a double among all doubles in order; neighbours differ by 1."""
    bits: int = struct.unpack("<q", _bits(number))[0]
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF)


def _rounded_up(number: float) -> str:
    """Return a number with two digits that is not below the given one."""
    exponent = math.floor(math.log10(number))
    digits = math.ceil(number / 10.0**exponent * 10) / 10 if exponent > -300 else 10.0  # noqa: PLR2004
    return f"{digits + 0.1:.1f}e{exponent:d}"


#: Derived inputs of one target that are wanted and keep all relations.
DERIVED_INSIDE = 480
#: With fewer than a twentieth of what one target should have, derived inputs do not count as compared.
ENOUGH = DERIVED_INSIDE // 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonRules:
    """Rules by which a difference counts.

    Attributes:
        strict: hints reject, too.
        watched: the calls are of watched functions: another state of their arguments is a hint.
        judge: place of the user's judge, which is asked about other results; empty: there is none.
        loosens: the patch swallows exceptions, or drops checks: where it returns and the baseline raises by
            accident, that counts, unless there is a judge.
        unkept: names of traces that the baseline itself does not repeat: they are not compared.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    strict: bool = False
    watched: bool = False
    judge: str = ""
    loosens: bool = False
    unkept: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineReplays:
    """Results of the baseline's replays.

    Attributes:
        calls: captured ones, by index.
        derived: those with derived inputs.
        breaks: the relation that a derived input breaks; those that are not named keep all.
        sizes: length of the longest container or text in captured calls, and in those with derived inputs.
        dropped: why other derived inputs do not count, and how many.
        globals: public data of the targets' modules that are compared after the captured calls.
        changed_globals: digests of those that the baseline changes.
        manners: how values told what they hold, and what was still to come after the calls, in words.
        targets: names by number.
        repeated, unstable: captured calls that are not compared, and why.
        uncaptured: reason → number of calls that could not be captured.
    """

    calls: Mapping[int, CallOutcome]
    targets: Sequence[str]
    derived: Mapping[int, CallOutcome] = field(default_factory=dict)
    breaks: Mapping[int, str] = field(default_factory=dict)
    sizes: Sequence[int] = (0, 0)
    dropped: Mapping[str, int] = field(default_factory=dict)
    globals: frozenset[str] = frozenset()
    changed_globals: Mapping[str, str] = field(default_factory=dict)
    manners: frozenset[str] = frozenset()
    repeated: int = 0
    unstable: int = 0
    uncaptured: Mapping[str, int] = field(default_factory=dict)

    @property
    def paths(self) -> frozenset[str]:
        """Return the files of the targets that the captured calls go to: a replay imports these."""
        called = {call.target for call in self.calls.values()}
        return frozenset(self.targets[target].partition("::")[0] for target in called)

    @property
    def level(self) -> Level:
        """Return how deep calls are compared."""
        if not self.calls:
            return Level.TESTS
        inside = len(self.derived) - len(self.breaks)
        return Level.DERIVED if inside >= ENOUGH else Level.CAPTURED

    @property
    def all(self) -> Mapping[int, CallOutcome]:
        """Return captured and derived calls."""
        return {**self.calls, **self.derived}


@dataclass(frozen=True, kw_only=True, slots=True)
class CallMeasurement:
    """Details of a differing call.

    Attributes:
        gap: how far its floats lie apart; they are all that differs.
        is_scratch: only arguments that the baseline uses as scratch space are in another state.
        code: what the call counts as, now that the user's judge was asked; `None`: it was not.
        judge, why: its place, and why it does not accept the result.
    """

    gap: Gap | None = None
    is_accepted: bool = False
    is_scratch: bool = False
    code: Code | None = None
    judge: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallDifference:
    """A call whose outcome is not the baseline's."""

    code: Code
    expected: CallOutcome
    got: CallOutcome | CallDigests | None
    measured: CallMeasurement = field(default_factory=CallMeasurement)

    @property
    def index(self) -> int:
        """The number of the call."""
        return self.expected.index

    @property
    def trace(self) -> str:
        """The name of the trace that is not the baseline's."""
        return other_trace(self.expected.traces, self.got.traces) if self.got else ""

    def is_hint(self, rules: ComparisonRules) -> bool:
        """Return whether it is a reason for a review and none to reject, unless the rules are strict."""
        arguments = self.measured.is_scratch or (rules.watched and self.code is Code.INPUT_MUTATED)
        return (arguments or self.code is Code.STATE_DIFFERS) and is_side(self.trace, self.expected.traces)


def differing(
    known: BaselineReplays, got: RunnerReport, measured: Mapping[int, CallMeasurement]
) -> list[CallDifference]:
    """Return the calls whose outcomes differ by more than was accepted, captured ones first.

    After a derived call that does not end no others are made: those do not count as differences.
    """
    answers = _answers(got)
    found = [
        CallDifference(
            code=code, expected=call, got=answers.get(index), measured=measured.get(index, CallMeasurement())
        )
        for index, call in known.all.items()
        if (code := _code(call, answers.get(index), measured.get(index))) is not Code.OK
    ]
    if any(one.code is Code.TOO_SLOW and one.index in known.derived for one in found):
        found = [one for one in found if one.got is not None or one.index not in known.derived]
    return found


def _code(
    expected: CallOutcome, got: CallOutcome | CallDigests | None, measured: CallMeasurement | None
) -> Code:
    if measured is not None and (measured.is_accepted or measured.code is not None):
        return Code.OK if measured.is_accepted else measured.code or Code.OK
    return call_code(expected, got)


def _answers(got: RunnerReport) -> dict[int, CallOutcome | CallDigests]:
    answers: dict[int, CallOutcome | CallDigests] = {answer.call: answer for answer in got.answers}
    return answers | {call.index: call for call in got.calls}


#: How the type of the exception ends that ends a call with a derived input.
ENDLESS = ".CallTimeout"


def call_code(expected: CallOutcome, got: CallOutcome | CallDigests | None) -> Code:
    """Return how one outcome differs from the baseline's; `OK`: not at all."""
    if got is None or got.kind != expected.kind:
        is_endless = got is not None and got.kind == "raise" and got.type.endswith(ENDLESS)
        return Code.TOO_SLOW if is_endless else Code.VALUE_DIFFERS
    if got.kind == "raise":
        # The text of a message is not part of the contract; its type is.
        same = got.type == expected.type
        return _left_code(expected, got) if same else Code.VALUE_DIFFERS
    if got.digest == expected.digest:
        return _left_code(expected, got)
    if got.floatless and got.floatless == expected.floatless:
        return Code.FLOAT_DIFFERS
    if got.typeless and got.typeless == expected.typeless:
        return Code.TYPE_DIFFERS
    return Code.VALUE_DIFFERS


def _left_code(expected: CallOutcome, got: CallOutcome | CallDigests) -> Code:
    if expected.after and got.after != expected.after:
        return Code.INPUT_MUTATED
    return Code.STATE_DIFFERS if other_trace(expected.traces, got.traces) else Code.OK


#: Traces of state that a call shares with whatever else runs in its process.
_GENERATORS, _PROCESS = frozenset({"", "random", "numpy"}), frozenset({"environ", "directory"})


def is_side(trace: str, expected: str) -> bool:
    """Return whether a trace is of side state; what the baseline's call sets in its process is not."""
    return trace in _GENERATORS or (trace in _PROCESS and not _traces(expected).get(trace))


def other_trace(expected: str, got: str) -> str:
    """Return the name of a trace that is not the baseline's, preferring one that rejects; empty: none."""
    if expected == got:
        return ""
    theirs, ours = _traces(got), _traces(expected)
    if UNSEEN in {theirs.get(LASTING), ours.get(LASTING)}:
        ours.pop(LASTING, None)
    # Code that does without numpy leaves no trace in its generator.
    others = [n for n, text in ours.items() if theirs.get(n, text if n == "numpy" else None) != text]
    return min(others, key=lambda name: is_side(name, expected), default="")


def stable_traces(first: str, second: str) -> str:
    """Return the traces that two replays of the baseline agree on."""
    other = _traces(second)
    return ";".join(f"{name}={text}" for name, text in _traces(first).items() if other.get(name) == text)


def without_lasting(traces: str) -> str:
    """Return traces that do not say whether result and arguments stay as they were given."""
    return ";".join(f"{name}={text}" for name, text in _traces(traces).items() if name != LASTING)


def _traces(text: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in text.split(";")) if text else {}
