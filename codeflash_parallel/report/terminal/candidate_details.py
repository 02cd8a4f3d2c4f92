"""What went wrong with one candidate, in full: first differing call, failing tests, how to see it again."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from codeflash_parallel.report.columns import speedup_cell, verdict_cell
from codeflash_parallel.report.phrases import compared_words, flags_words, race_lines
from codeflash_parallel.result.result_model import CandidateResult, FailedTest, FirstDifference
from codeflash_parallel.result.safe_text import one_line, printable

#: Characters of a value or a message that are shown; the document has more.
_LIMIT = 2_000

#: Ids of one list that are shown.
_IDS = 10


def details(candidate: CandidateResult) -> RenderableType:
    """Return everything known about one candidate that is not in the table."""
    parts: list[RenderableType] = [_heading(candidate)]
    if candidate.explanation:
        parts.append(Text(printable(candidate.explanation)[:_LIMIT], style="italic dim"))
    if candidate.difference is not None:
        parts.append(_difference(candidate.difference))
    parts += [
        Text.assemble(("review (not rejected): ", "yellow"), one_line(hint)) for hint in candidate.hints
    ]
    if candidate.difference is None and candidate.outside is not None:
        parts.append(_difference(candidate.outside))
    if compared := compared_words(candidate.values):
        parts.append(Text.assemble(("compared: ", "dim"), compared))
    parts += [_failure(failure) for failure in candidate.failures]
    parts += _lists(candidate)
    if candidate.tests.not_run:
        parts.append(Text(f"tests not started after that: {candidate.tests.not_run}", style="dim"))
    if candidate.flags:
        parts.append(Text.assemble(("its code adds: ", "yellow"), flags_words(candidate.flags)))
    parts += [Text(one_line(note), style="dim") for note in candidate.notes]
    parts += measured(candidate)
    return Group(parts[0], *(Padding(part, (0, 0, 0, 2)) for part in parts[1:]))


def measured(candidate: CandidateResult) -> list[Text]:
    """Return what a race measured of a candidate, a line each; empty when it was not timed."""
    lines = [Text.assemble((f"{name}: ", "dim"), words) for name, words in race_lines(candidate)]
    return lines + _groups(candidate)


def how_to_see(candidate: CandidateResult) -> Text | None:
    """Return where the kept slot is and what to type there, a line each; `None`: nothing."""
    named = (("kept slot: ", candidate.kept_slot), ("see it again: ", candidate.reproduce))
    lines = [Text.assemble((name, "dim"), one_line(value)) for name, value in named if value]
    return Text("\n").join(lines) if lines else None


def _heading(candidate: CandidateResult) -> Text:
    name = one_line(candidate.id)
    return Text.assemble((name, "bold"), f"  {verdict_cell(candidate)}: ", one_line(candidate.reason))


def _difference(difference: FirstDifference) -> RenderableType:
    how = "derived from one in" if difference.derived else "in"
    where = f"call {difference.call} of {difference.target}"
    where += f" {how} {difference.test}" if difference.test else ""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("first difference", Text(one_line(where)))
    for name, value, style in (
        ("inputs", difference.inputs, ""),
        ("expected", difference.expected, "green"),
        ("got", difference.got, "red"),
    ):
        grid.add_row(name, Text(printable(value)[:_LIMIT], style=style))
    if difference.smaller_inputs:
        smaller = (difference.smaller_inputs, difference.smaller_expected, difference.smaller_got)
        words = "{}: {}, not {}".format(*(printable(text)[:_LIMIT] for text in smaller))
        grid.add_row("smaller", Text(words))
    return grid


def _failure(failure: FailedTest) -> RenderableType:
    heading = Text.assemble(
        ("failed ", "red"), one_line(failure.id), (f" ({one_line(failure.phase)})", "dim")
    )
    return Group(heading, Padding(Text(printable(failure.message)[:_LIMIT]), (0, 0, 0, 2)))


def _lists(candidate: CandidateResult) -> list[Text]:
    explained = {failure.id for failure in candidate.failures}
    lists = (
        ("also failed", [i for i in candidate.tests.failed_ids if i not in explained]),
        ("missing", list(candidate.tests.missing_ids)),
    )
    return [
        Text.assemble(
            (f"{name}: ", "red"), ", ".join(map(one_line, ids[:_IDS])), ", ..." if len(ids) > _IDS else ""
        )
        for name, ids in lists
        if ids
    ]


def _groups(candidate: CandidateResult) -> list[Text]:
    return [
        Text.assemble((f"{one_line(speedup.group)}: ", "dim"), speedup_cell(speedup))
        for speedup in candidate.group_speedups
    ]
