"""A result in at most 4,000 bytes, for agents that pay for what they read: verdict, reasons, next command."""

from __future__ import annotations

from collections.abc import Iterator

from codeflash_parallel.report.columns import (
    compared_words,
    ranked,
    speedup_cell,
    verdict_cell,
    verdict_sentence,
)
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.result.result_model import CandidateResult, RunResult
from codeflash_parallel.result.safe_text import encodable, one_line, printable

#: Bytes of UTF-8. Agents' shells cut at 10,000 characters or more, and two answers have to fit.
MOST_BYTES = 4_000
#: Characters of the command that prints a whole text.
_COMMAND_CHARACTERS = 200
#: Characters of the verdict and of each reason, tried in this order until everything fits.
_LENGTHS = (400, 160, 80, 40, 0)
#: Characters of a value, and how many failures and hints are shown of one candidate.
_VALUE, _SHOWN = 300, 3
#: Statuses of which nothing is to be explained.
_PLAIN = frozenset({CandidateStatus.WON, CandidateStatus.TIED, CandidateStatus.DUPLICATE})
#: Codes that say all there is to say.
_CLEAR = frozenset({Code.NOT_RACED.value})


def brief(result: RunResult) -> str:
    """Return the verdict, a line for each candidate, the best first, and the command to go on with."""
    for length in _LENGTHS:
        text = _written(result, length)
        if len(text.encode()) <= MOST_BYTES:
            return text
    return cut(text, f"codeflash-parallel show {one_line(result.run_id)}", after=_next(result))


def brief_candidate(candidate: CandidateResult) -> str:
    """Return one candidate: verdict, what differs or fails, its diff; what is too long for that is cut."""
    lines = [_line(candidate, _LENGTHS[0]), *_evidence(candidate)]
    if candidate.diff:
        lines += ["its changes:", printable(candidate.diff).rstrip("\n")]
    return cut("".join(f"{line}\n" for line in lines), "the same without --output-format brief")


def _evidence(candidate: CandidateResult) -> Iterator[str]:
    if found := candidate.difference:
        yield f"first difference, in a call of {_short(one_line(found.test or found.target), _VALUE)}:"
        yield f"  inputs: {_short(one_line(found.smaller_inputs or found.inputs), _VALUE)}"
        yield f"  expected: {_short(one_line(found.smaller_expected or found.expected), _VALUE)}"
        yield f"  got: {_short(one_line(found.smaller_got or found.got), _VALUE)}"
    for failure in candidate.failures[:_SHOWN]:
        yield f"fails: {one_line(failure.id)}: {_short(one_line(failure.message), _VALUE)}"
    for hint in candidate.hints[:_SHOWN]:
        yield f"review (not rejected): {_short(one_line(hint), _VALUE)}"
    if compared := compared_words(candidate.values):
        yield f"compared: {compared}"


def cut(text: str, full: str, after: str = "") -> str:
    """Return text of at most `MOST_BYTES`, cut between lines where it is longer.

    Args:
        text: of any length.
        full: the command that prints the whole of it; named where something is missing.
        after: lines that stay, behind what is cut.
    """
    data = encodable(text).encode()
    if len(data) <= MOST_BYTES:
        return data.decode()
    end = f"\n... (cut; full: {one_line(full, limit=_COMMAND_CHARACTERS)})\n{after}"
    head = data[: MOST_BYTES - len(end.encode())].decode("utf-8", "ignore")
    return (head.rpartition("\n")[0] or head) + end


def _written(result: RunResult, length: int) -> str:
    lines = [_short(verdict_sentence(result), max(length, _LENGTHS[1]))]
    lines += [_line(candidate, length) for candidate in ranked(result)]
    return "".join(f"{line}\n" for line in lines) + _next(result)


def _line(candidate: CandidateResult, length: int) -> str:
    parts = [f"- {one_line(candidate.id)}: {verdict_cell(candidate)}"]
    if candidate.status.is_best and candidate.speedup:
        parts.append(speedup_cell(candidate.speedup))
    if candidate.duplicate_of:
        parts.append(f"same as {one_line(candidate.duplicate_of)}")
    elif length and candidate.status.is_best and candidate.hints:
        parts.append(_short(one_line(f"review: {candidate.hints[0]}"), length))
    elif length and candidate.status not in _PLAIN and candidate.code not in _CLEAR:
        parts.append(_short(one_line(candidate.reason), length))
    return ", ".join(part for part in parts if part)


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def next_step(result: RunResult) -> str:
    """Return what can be done next: a command, or the hint of an error; empty where there is no run."""
    run_id = one_line(result.run_id)
    if result.error is not None and result.error.hint:
        return one_line(result.error.hint)
    if not run_id:
        return ""
    if not result.complete:
        return f"codeflash-parallel resume {run_id}"
    if result.winner is not None:
        return f"codeflash-parallel apply {run_id}"
    told = next((one for one in result.candidates if one.status is CandidateStatus.REJECTED), None)
    which = f" --candidate {one_line(told.id)}" if told else ""
    return f"codeflash-parallel show {run_id}{which}"


def _next(result: RunResult) -> str:
    return f"next: {words}\n" if (words := next_step(result)) else ""
