"""Compare the replayed calls of a candidate with the baseline's. Pure: values in, values out.

Captured calls decide: the same kind of outcome, value, exact type, arguments afterwards, and traces (random
state, objects shared with earlier results, globals). So do derived inputs that keep every relation which
all observed inputs have. A difference on other inputs is shown, and rejects only with `strict`. So is
another state of an argument that the baseline uses as scratch space: it returns something else and leaves
it in any state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from codeflash_parallel.check.comparison.call_comparison import (
    BaselineReplays,
    CallDifference,
    CallMeasurement,
    ComparisonRules,
    Tolerance,
    accepted,
    call_code,
    differing,
    gap,
    is_side,
    other_trace,
    unpacked,
)
from codeflash_parallel.check.comparison.difference_text import first_difference, sentence
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport
from codeflash_parallel.result.check_evidence import FirstDifference, ValueCounts
from codeflash_parallel.result.outcome_codes import Code, Level, Trait

#: Number of a target, and the place of an argument.
Spaces = frozenset[tuple[int, str]]


def scratch_spaces(known: BaselineReplays) -> Spaces:
    """Return the arguments that are scratch space, as far as the inputs vouch for it."""
    calls = [call for index, call in known.all.items() if index not in known.breaks]
    said = {(call.target, call.space.get("at", "")) for call in calls}
    # It rearranges something and returns where: that is what it is called for.
    places = {target for target, at in said if at == "yes" and (target, "no") not in said}
    changed = ((c.target, place) for c in calls for place, text in c.space.items() if text.startswith("~"))
    return frozenset(one for one in changed if one[0] not in places)


def uses(call: CallOutcome, spaces: Spaces) -> bool:
    """Return whether a call of the baseline is given scratch space, and keeps its length."""
    return any(_is_used(call, place, spaces) for place in call.space)


def is_scratch(expected: CallOutcome, got: CallOutcome, spaces: Spaces) -> bool:
    """Return whether a call differs in the contents of scratch space only: all the rest is equal."""
    ours, theirs = _named(expected.space), _named(got.space)
    return ours.keys() == theirs.keys() and all(
        _shape(theirs[name]) == _shape(text)
        if _is_used(expected, name, spaces)
        else theirs[name][1:] == text[1:]
        for name, text in ours.items()
    )


def _named(space: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in space.items() if name != "at"}


def _is_used(call: CallOutcome, place: str, spaces: Spaces) -> bool:
    return call.space[place][:1] in {"~", ".", "="} and (call.target, place) in spaces


def _shape(text: str) -> str:
    return text[1:].partition(" ")[0]


#: Relative differences up to here come from the order of additions; on a derived input they do not reject.
ROUNDING = 1e-12

#: The relations that inputs break on which the baseline raises, as
#: `_runner.inputs.derived_inputs` writes them: the project's own code raises, or
#: a builtin or library complains.
OBJECTED, ACCIDENT = "what its own code objects to", "an exception that nobody meant"

#: How many calls are measured when nothing but figures for the reader depends on it.
_MOST_FIGURES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueComparison:
    """Calls held against the baseline's.

    Attributes:
        difference: what decides.
        outside: the smallest example of a difference on inputs unlike all observed ones, which does not.
        hints: all that does not decide and is a reason for a review, a sentence each.
    """

    code: Code
    reason: str
    counts: ValueCounts
    difference: FirstDifference | None = None
    outside: FirstDifference | None = None
    hints: tuple[str, ...] = ()


def compare_calls(
    known: BaselineReplays,
    got: RunnerReport,
    rules: ComparisonRules | None = None,
    measured: Mapping[int, CallMeasurement] | None = None,
) -> ValueComparison:
    """Hold the replayed calls of a candidate against the baseline's, call by call.

    Args:
        known: the baseline's.
        got: the candidate's replay.
        rules: what counts; without them, whatever differs in captured calls or inside.
        measured: calls that differ in floats only.
    """
    rules, measured = rules or ComparisonRules(), measured or {}
    kept = [
        one
        for one in differing(known, got, measured)
        if one.code is not Code.STATE_DIFFERS or one.trace not in rules.unkept
    ]
    review = [one for one in kept if one.is_hint(rules) and not rules.strict]
    found = [one for one in kept if one not in review]
    observed = [one for one in found if one.index in known.calls]
    derived = [one for one in found if one.index in known.derived and not _is_by_accident(one, known)]
    beyond = sorted((one for one in derived if _is_beyond(one, known, rules)), key=lambda one: one.index)
    inside = [one for one in derived if one not in beyond]
    outside = first_difference(beyond[0], known, got) if beyond else None
    counts = _counts(known, observed, inside, beyond, measured)
    judged = partial(ValueComparison, counts=counts, outside=outside)
    name = _changed_global(known, got)
    if name and not observed:
        reason = f"The calls leave {name} in another state than the baseline's."
        return judged(code=Code.STATE_DIFFERS, reason=reason)
    if (manner := min(got.manners - known.manners, default="")) and not observed:
        return judged(code=Code.STATE_DIFFERS, reason=_manner_reason(manner))
    if decisive := observed or inside:
        worst = min(decisive, key=lambda one: (list(Code).index(one.code), one.index))
        difference = first_difference(worst, known, got)
        reason = sentence(worst, difference, len(decisive))
        return judged(code=worst.code, reason=reason, difference=difference)
    hints = _hints([*review, *beyond], known, got)
    if rules.strict and hints:
        return judged(code=Code.DIFFERS_OUTSIDE_OBSERVED, reason=hints[0], difference=outside)
    return judged(code=Code.OK, reason=_all_equal(counts), hints=hints)


def _hints(found: Iterable[CallDifference], known: BaselineReplays, got: RunnerReport) -> tuple[str, ...]:
    """Say of each kind of hint which call shows it first, and how many others do."""
    kinds: dict[tuple[Code, str], list[CallDifference]] = {}
    for one in found:
        kinds.setdefault((one.code, one.trace), []).append(one)
    return tuple(
        sentence(ones[0], first_difference(ones[0], known, got), len(ones)) for ones in kinds.values()
    )


def together(first: ValueComparison, second: ValueComparison) -> ValueComparison:
    """Add what another replay says to that of one in which nothing differed."""
    levels = (second.counts.level, first.counts.level)
    level = levels[0] if Level.ACCEPTED in levels[:1] or levels[1] is Level.TESTS else levels[1]
    counts = replace(
        first.counts,
        compared=first.counts.compared + second.counts.compared,
        differing=first.counts.differing + second.counts.differing,
        accepted=first.counts.accepted + second.counts.accepted,
        level=level,
    )
    reason = _all_equal(counts) if second.code is Code.OK else second.reason
    outside, hints = second.outside or first.outside, (*first.hints, *second.hints)
    return replace(second, counts=counts, reason=reason, outside=outside, hints=hints)


def _is_beyond(one: CallDifference, known: BaselineReplays, rules: ComparisonRules) -> bool:
    """Return whether a difference lies outside of what the observed calls can vouch for.

    For candidates that return where the baseline raises: what the project's own code raises is an outcome on
    any input; what a builtin complains about is one where the patch swallows exceptions, or drops checks, and
    no judge of the user's says what is right: it is not asked about what raises.
    """
    broken = known.breaks.get(one.index)
    if broken:
        counts_accidents = rules.loosens and not rules.judge
        return broken != OBJECTED and not (broken == ACCIDENT and counts_accidents)
    apart = one.measured.gap
    return one.code is Code.FLOAT_DIFFERS and apart is not None and apart.relative <= ROUNDING


def _is_by_accident(one: CallDifference, known: BaselineReplays) -> bool:
    """Return whether both sides raise on an input unlike those of the tests: the types say nothing."""
    returns = one.got is not None and one.got.kind == "return"
    return known.breaks.get(one.index) in {ACCIDENT, OBJECTED} and not returns


def _counts(
    known: BaselineReplays,
    observed: Sequence[CallDifference],
    inside: Sequence[CallDifference],
    beyond: Sequence[CallDifference],
    measured: Mapping[int, CallMeasurement],
) -> ValueCounts:
    outside = sum(index in known.breaks for index in known.derived)
    accepted_results = sum(one.code not in {None, Code.NOT_ACCEPTED} for one in measured.values())
    return ValueCounts(
        compared=len(known.calls),
        differing=len(observed),
        repeated=known.repeated,
        unstable=known.unstable,
        derived=len(known.derived) - outside,
        largest_seen=known.sizes[0],
        largest_fresh=known.sizes[1],
        dropped=known.dropped,
        derived_differing=len(inside),
        outside=outside,
        outside_differing=len(beyond),
        uncaptured=known.uncaptured,
        accepted=accepted_results,
        level=Level.ACCEPTED if accepted_results else known.level,
    )


def _changed_global(known: BaselineReplays, got: RunnerReport) -> str:
    """Return the first global that was not left as the baseline leaves it; empty if there is none."""
    for name in sorted(known.globals):
        if known.changed_globals.get(name) != got.changed_globals.get(name):
            return name
    return ""


def _manner_reason(manner: str) -> str:
    what, _, how = manner.partition(": ")
    if what in _LEFT:
        return f"After the calls {_LEFT[what]}, which the baseline's do not leave behind."
    way = how.partition(" ")[0]
    return f"{what} tells by {way} what it holds, and not as in the baseline: no value of it can be compared."


#: What may be still to come when all calls are made.
_LEFT = {"threads": "threads are still running", "signals": "a timer of signals is running"}


def _all_equal(counts: ValueCounts) -> str:
    if not counts.compared:
        return ""
    derived = f" and {counts.derived} with derived inputs" if counts.derived else ""
    return f"All {counts.compared} replayed calls{derived} give the baseline's values."


def to_measure(known: BaselineReplays, got: RunnerReport, rules: ComparisonRules) -> tuple[int, ...]:
    """Return the calls that are to be measured: those that may differ in floats only, or are judged."""
    found = differing(known, got, {})
    exact = rules.tolerance.is_exact
    # The arguments afterwards may differ in nothing but floats, too.
    codes = {Code.FLOAT_DIFFERS} if exact else {Code.FLOAT_DIFFERS, Code.INPUT_MUTATED}
    spaces: Spaces = frozenset() if rules.strict else scratch_spaces(known)
    scratch = [one.index for one in found if one.code is Code.INPUT_MUTATED and uses(one.expected, spaces)]
    judged = judged_calls(known, got) if rules.judge else ()
    skipped = {*scratch, *judged}
    others = [one for one in found if one.index not in skipped and (rules.strict or not one.is_hint(rules))]
    if any(one.code not in codes and one.index in known.calls for one in others):
        return ()  # it is decided already
    wanted = [one.index for one in found if one.code in codes and one.expected.floats]
    captured = [index for index in wanted if index in known.calls]
    figures = wanted if not exact or not captured else captured[:_MOST_FIGURES]
    return tuple(dict.fromkeys((*figures, *scratch, *judged)))


def judged_calls(known: BaselineReplays, got: RunnerReport) -> tuple[int, ...]:
    """Return the calls that returned something else than the baseline's: the user's judge is asked."""
    found = [one for one in differing(known, got, {}) if one.got and Trait.JUDGED in one.code.traits]
    return tuple(one.index for one in found if one.got and one.got.kind == one.expected.kind == "return")


def measure(
    known: BaselineReplays, got: RunnerReport, again: Iterable[CallOutcome], rules: ComparisonRules
) -> dict[int, CallMeasurement]:
    """Return what more is known of the calls that may differ in nothing but floats, or scratch space.

    Args:
        known: the baseline's.
        got: the candidate's replay.
        again: the calls that were to be measured, made once more; what is not as it was the first time is
            not measured.
        rules: what is near enough.
    """
    found: dict[int, CallMeasurement] = {}
    spaces: Spaces = frozenset() if rules.strict else scratch_spaces(known)
    first = {answer.call: (answer.digest, answer.after) for answer in got.answers}
    for call in again:
        expected = known.all.get(call.index)
        if expected is None or first.get(call.index) != (call.digest, call.after):
            continue
        one = _measured(expected, call, rules.tolerance)
        if one is not None and (one.is_accepted or call_code(expected, call) is Code.FLOAT_DIFFERS):
            found[call.index] = one
        elif call_code(expected, call) is Code.INPUT_MUTATED and is_scratch(expected, call, spaces):
            found[call.index] = CallMeasurement(is_scratch=True)
    return found


def _measured(expected: CallOutcome, got: CallOutcome, tolerance: Tolerance) -> CallMeasurement | None:
    same = (got.kind, got.type, got.skeleton) == (expected.kind, expected.type, expected.skeleton)
    left, right = unpacked(expected.floats), unpacked(got.floats)
    side = is_side(other_trace(expected.traces, got.traces), expected.traces)
    if not same or len(left) != len(right) or not side:
        return None
    return CallMeasurement(
        gap=gap(left, right), is_accepted=not tolerance.is_exact and accepted(left, right, tolerance)
    )
