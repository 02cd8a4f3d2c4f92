"""Say in words how a replayed call differs from the baseline's. Pure."""

from __future__ import annotations

from dataclasses import replace

from codeflash_parallel.check.comparison.call_comparison import (
    ENDLESS,
    BaselineReplays,
    CallDifference,
    call_code,
)
from codeflash_parallel.check.session.runner_report import LASTING, CallDigests, CallOutcome, RunnerReport
from codeflash_parallel.result.check_evidence import FirstDifference
from codeflash_parallel.result.outcome_codes import Code


def first_difference(
    one: CallDifference, known: BaselineReplays, got: RunnerReport | None = None
) -> FirstDifference:
    """Put one differing call into words, as far as they are known."""
    expected, targets = one.expected, known.targets
    why = got.unreplayable.get(expected.index, "") if got else ""
    return FirstDifference(
        target=targets[expected.target] if expected.target < len(targets) else "",
        test=expected.test,
        call=expected.index,
        inputs=expected.args,
        expected=outcome_text(expected),
        got=_got_text(one) if one.got else (why or "no outcome"),
        derived=expected.index in known.derived,
        breaks=known.breaks.get(expected.index, ""),
    )


def _got_text(one: CallDifference) -> str:
    if one.code is Code.STATE_DIFFERS:
        return _left(one.trace)
    return outcome_text(one.got) if one.got else "no outcome"


def _left(trace: str) -> str:
    return f"the same outcome, and {_TRACES[trace]}"


_TRACES = {
    "random": "the random generator is in another state",
    "numpy": "numpy's random generator is in another state",
    LASTING: "it changes after it was given",
    "printed": "it prints something else",
    "environ": "it leaves other environment variables behind",
    "directory": "it leaves another current directory behind",
    "shared": "it is not a new object where the baseline's is, or the other way round",
}


def reworded(
    difference: FirstDifference, expected: CallOutcome, again: CallOutcome | None
) -> FirstDifference:
    """Say of a differing call what it gave when it was made once more."""
    if again is None:
        return replace(difference, got="another outcome; made once more, the call gave none")
    code = call_code(expected, again)
    if code is Code.OK and difference.got == _left(LASTING):
        return difference  # fewer calls were made after it now
    if code is Code.OK:
        return replace(difference, got="another outcome; made once more, the call gave the baseline's")
    told = replace(difference, got=_got_text(CallDifference(code=code, expected=expected, got=again)))
    if code is not Code.INPUT_MUTATED:
        return told
    ours, theirs = _apart(expected.left or expected.args, again.left or again.args)
    return replace(told, expected=f"{told.expected}, {ours}", got=f"{told.got}, {theirs}")


def _apart(ours: str, theirs: str) -> tuple[str, str]:
    """Return how two texts of arguments after a call differ, from shortly before their first difference."""
    if ours == theirs:
        return ("with other identities, or deeper ones than are shown",) * 2
    pairs = enumerate(zip(ours, theirs, strict=False))
    alike = next((at for at, (one, other) in pairs if one != other), min(len(ours), len(theirs)))
    start = max(0, alike - _CONTEXT)
    dots = "…" if start else ""
    return f"leaving {dots}{_short(ours[start:])}", f"leaving {dots}{_short(theirs[start:])}"


#: Characters that are shown before the first difference of two texts.
_CONTEXT = 20


def outcome_text(call: CallOutcome | CallDigests) -> str:
    """Return what a call gave."""
    if call.kind == "raise" and call.type.endswith(ENDLESS):
        return "no outcome within a second of CPU time"
    if isinstance(call, CallDigests):
        return f"raises {call.type}" if call.kind == "raise" else f"another {call.type}"
    return f"raises {call.type}: {call.text}" if call.kind == "raise" else call.text


def sentence(one: CallDifference, difference: FirstDifference, count: int) -> str:
    """Say how the outcome of a call differs; `count`: of so many."""
    where = f" in call {difference.call}"
    if difference.derived and one.expected.kind == "raise":
        where = ", a new input for which the baseline raises"
    elif difference.breaks:
        where = f" (unlike the tests' inputs: {difference.breaks})"
    elif difference.derived:
        where = ", a new input that keeps all that the tests' inputs have in common"
    name, inputs = difference.target.rpartition("::")[2], _short(difference.inputs)
    return f"{name} {_what(one)} for {inputs}{where}{and_more(count - 1)}{_figures(one)}."


def _what(one: CallDifference) -> str:
    if one.code is Code.NOT_ACCEPTED:
        return f"gives a result that {one.measured.judge} does not accept"
    if one.code is Code.STATE_DIFFERS:
        return f"gives {_left(one.trace)},"
    return one.code.call_words


def _figures(one: CallDifference) -> str:
    if one.code is Code.NOT_ACCEPTED:
        return f": {one.measured.why}"
    if one.code is not Code.FLOAT_DIFFERS:
        return ""
    return f" ({one.measured.gap.words})" if one.measured.gap else " (too many floats to say how far apart)"


def and_more(count: int) -> str:
    """Return how many more there are, in brackets; empty for none."""
    return f" (and {count} more)" if count > 0 else ""


def _short(text: str, width: int = 60) -> str:
    text = text or "no arguments"
    return text if len(text) <= width else text[: width - 1] + "…"
