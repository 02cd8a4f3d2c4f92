"""The end report for people: the verdict, the table, why each loser lost, then the winner's diff and profile.

Nothing that others wrote is printed as it is: every string passes `printable` and becomes a `Text`, which
rich draws without looking for markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Literal, TextIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from codeflash_parallel.report.charts import bars, profiles
from codeflash_parallel.report.color import COLOR, ColorMode
from codeflash_parallel.report.columns import (
    COLUMNS,
    STYLES,
    WIDE,
    Column,
    compared_words,
    dropped_words,
    flags_words,
    group_lines,
    origin_cell,
    race_lines,
    race_sentence,
    ranked,
    speedup_cell,
    uncompared_words,
    verdict_cell,
    verdict_sentence,
)
from codeflash_parallel.report.timing_table import footer, host_words, isolation_words, served_by_candidate
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import CandidateResult, FailedTest, FirstDifference, RunResult
from codeflash_parallel.result.safe_text import one_line, printable


class Detail(StrEnum):
    """Amount of detail."""

    #: The verdict's line only.
    QUIET = "quiet"
    #: Table, reasons, the winner.
    NORMAL = "normal"
    #: Every failure and difference as well.
    VERBOSE = "verbose"


#: Characters of a candidate's id that are shown before it is broken.
_NAME = 12

#: Lines of a diff that are shown unless everything is asked for.
_DIFF_LINES = 60

#: Candidates whose flags are shown, and flags of one; the document has all of them.
_FLAGGED = 3
_FLAGS = 3


#: Characters of a value or a message that are shown; the document has more.
_LIMIT = 2_000

#: Ids of one list that are shown.
_IDS = 10


class SafeConsole(Console):
    """A console that reports a closed pipe instead of ending the program, and pads no lines of a file."""

    def print(self, *objects: Any, **how: Any) -> None:
        """Print; lines that no terminal shows end with their text, not with spaces up to the width."""
        if self.is_terminal:
            super().print(*objects, **how)
            return
        with self.capture() as captured:
            super().print(*objects, **how)
        self.file.write("\n".join(map(str.rstrip, captured.get().split("\n"))))
        self.file.flush()

    def on_broken_pipe(self) -> None:
        """Let the caller decide; rich would exit with 1, which means something else here."""
        raise BrokenPipeError


def make_console(stream: TextIO) -> Console:
    """Return a console that neither interprets nor decorates text by itself, with the colours of `COLOR`."""
    color = COLOR.get()
    return SafeConsole(
        file=stream,
        markup=False,
        emoji=False,
        highlight=False,
        safe_box=True,
        color_system=None if color is ColorMode.NEVER else "auto",
        force_terminal=True if color is ColorMode.ALWAYS else None,
    )


def print_report(
    result: RunResult, console: Console, detail: Detail, *, appendix: Iterable[RenderableType] = ()
) -> None:
    """Print a run's report, the verdict first.

    Args:
        result: the run.
        console: where to.
        detail: how much is said.
        appendix: what was asked for beside that; printed after the rest.
    """
    console.print(_verdict(result))
    if detail == Detail.QUIET:
        return
    for part in (*_parts(result, console, detail), *appendix, *_closing(result)):
        console.print()
        # Commands are for copying: the terminal may break them, we must not.
        console.print(part, soft_wrap=isinstance(part, Text))


def _parts(result: RunResult, console: Console, detail: Detail) -> Iterator[RenderableType]:
    width, verbose = console.width, detail == Detail.VERBOSE
    if result.candidates:
        yield _candidates(result, width)
    if drawn := bars(result, width):
        yield drawn
    best = [c for c in ranked(result) if c.status.is_best]
    others = [c for c in ranked(result) if not c.status.is_best and c.code != Code.NOT_RACED]
    told = [c for c in ranked(result) if c in others or (c.lineage and width < WIDE)]
    if told and not verbose:
        yield _reasons(told, width)
    if remarks := list(_remarks(result)):
        yield Group(*remarks)
    if verbose:
        yield from _everything([*best, *others], result)
    yield from _winner(result, width, detail)


def _everything(candidates: Iterable[CandidateResult], result: RunResult) -> Iterator[RenderableType]:
    """Yield the parts of `--verbose`: each candidate in full, the groups of tests, fork points."""
    for candidate in candidates:
        yield details(candidate)
        if commands := how_to_see(candidate):
            yield commands
    if groups := group_lines(result):
        yield Group(*(Text.assemble((f"{name}: ", "dim"), words) for name, words in groups))
    if served := served_by_candidate(ranked(result)):
        yield served


def _closing(result: RunResult) -> Iterator[RenderableType]:
    """Yield the last lines: what the race was, where the time went, what can be done next."""
    lines = [race_sentence(result)]
    if spent := footer(result):
        lines.append(f"{spent}; isolation {isolation_words(result)}")
    lines += map(host_words, result.hosts)
    if result.winner is not None and result.run_id:
        lines.append(f"Apply with: codeflash-parallel apply {one_line(result.run_id)}")
    if told := list(filter(None, lines)):
        yield Group(*(Text(line, style="dim") for line in told))


def _candidates(result: RunResult, width: int) -> Table:
    columns = [column for column in COLUMNS if width >= column.from_width]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=False)
    for place, column in enumerate(columns):
        table.add_column(
            column.name,
            justify="right" if column.is_figure else "left",
            overflow="fold",
            no_wrap=not column.folds,
            min_width=None if place else _NAME,
        )
    for candidate in ranked(result):
        table.add_row(*(_cell(column, candidate) for column in columns))
    if any(c.speedup is not None and c.speedup.stage == "race" for c in result.candidates):
        table.caption = Text("~ measured in the race, for orientation", style="dim")
        table.caption_justify = "left"
    return table


def _cell(column: Column, candidate: CandidateResult) -> Text:
    return Text(one_line(column.cell(candidate)), style=column.style(candidate))


def _reasons(candidates: list[CandidateResult], width: int) -> Table:
    """Say why each lost; below the width of the lineage's own column, also what it descends from."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", max_width=30)
    grid.add_column(overflow="fold")
    for candidate in candidates:
        style = STYLES[candidate.status]
        lineage = f", {one_line(origin_cell(candidate))}" if candidate.lineage and width < WIDE else ""
        reason = " ".join(filter(None, (one_line(candidate.reason), dropped_words(candidate))))
        why = Text.assemble((candidate.status.value, style), f"{lineage}: ", reason)
        grid.add_row(Text(one_line(candidate.id), style=style), why)
    return grid


def _winner(result: RunResult, width: int, detail: Detail) -> Iterator[RenderableType]:
    """Yield what was measured of the winner, its diff, and the line profiles."""
    winner = result.candidate(result.winner) if result.winner is not None else None
    # Verbose, it stands with everything else that is known about it.
    if winner is not None and detail == Detail.NORMAL and (lines := measured(winner)):
        yield Group(*lines)
    if winner is not None and winner.diff:
        yield _diff(winner, detail)
    if shown := profiles(result, width, shortened=detail == Detail.NORMAL):
        yield shown


def _diff(candidate: CandidateResult, detail: Detail) -> RenderableType:
    lines = printable(candidate.diff).rstrip("\n").split("\n")
    limit = len(lines) if detail == Detail.VERBOSE else _DIFF_LINES
    code = "\n".join(lines[:limit])
    from rich.syntax import Syntax  # 40 ms, and only a diff needs it

    syntax = Syntax(code, "diff", theme="ansi_dark", background_color="default", word_wrap=True)
    if len(lines) <= limit:
        return syntax
    rest = Text(f"... {len(lines) - limit} more lines: {one_line(candidate.diff_path)}", style="dim")
    return Group(syntax, rest)


def _remarks(result: RunResult) -> Iterator[RenderableType]:
    for warning in result.warnings:
        yield Text.assemble(("warning: ", "yellow"), one_line(warning))
    if flagged := [candidate for candidate in ranked(result) if candidate.flags]:
        named = (f"{one_line(c.id)} adds {flags_words(c.flags, _FLAGS)}" for c in flagged[:_FLAGGED])
        others = f"; {len(flagged) - _FLAGGED} more add such things" if len(flagged) > _FLAGGED else ""
        yield Text.assemble(("review (not rejected): ", "yellow"), "; ".join(named), others)
    judged = [c for c in ranked(result) if c.status is not CandidateStatus.REJECTED]
    for candidate in [c for c in judged if c.hints][:_FLAGGED]:
        words = one_line(f"{candidate.id}: {' '.join(candidate.hints)}")
        yield Text.assemble(("review (not rejected): ", "yellow"), words)
    if uncompared := next(filter(None, (uncompared_words(c.values) for c in judged)), ""):
        yield Text(uncompared, style="yellow")
    if result.quarantined:
        ids = ", ".join(one_line(test) for test in result.quarantined[:5])
        more = f" and {len(result.quarantined) - 5} more" if len(result.quarantined) > 5 else ""  # noqa: PLR2004
        yield Text.assemble(("left out, unstable on the baseline: ", "yellow"), ids, more)


def _verdict(result: RunResult) -> Text:
    sentence = verdict_sentence(result)
    if result.error is not None:
        hint = f" {one_line(result.error.hint)}" if result.error.hint else ""
        return Text.assemble(("error: ", "bold red"), sentence, hint)
    good = result.verdict in {Verdict.WINNER, Verdict.TIE, Verdict.CHECKED}
    word = result.verdict.value.replace("_", " ") if result.verdict is not None else "incomplete"
    if any(candidate.code == Code.RACE_NOT_HELD for candidate in result.candidates) and not good:
        word = "not raced"
    return Text.assemble((f"{word}: ", "bold green" if good else "bold yellow"), (sentence, "bold"))


def print_candidate(
    candidate: CandidateResult, console: Console, *, appendix: Iterable[RenderableType] = ()
) -> None:
    """Print everything that is known about one candidate, its diff last; before that, the appendix."""
    console.print(details(candidate))
    if candidate.served:
        why = f": {candidate.served_why}" if candidate.served_why else ""
        console.print(Text(one_line(f"served {candidate.served}{why}"), style="dim"))
    for part in appendix:
        console.print()
        console.print(part)
    if commands := how_to_see(candidate):
        console.print()
        console.print(commands, soft_wrap=True)
    if candidate.diff:
        console.print()
        console.print(_diff(candidate, Detail.VERBOSE))


def print_rows(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    console: Console,
    *,
    overflow: Literal["fold", "ellipsis"] = "fold",
) -> None:
    """Print rows of text as columns; the last one is folded or cut where there is no room."""
    cut = overflow == "ellipsis"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=cut)
    for name in header[:-1]:
        table.add_column(name, overflow="fold", no_wrap=cut)
    table.add_column(header[-1], overflow=overflow, no_wrap=cut, ratio=1 if cut else None)
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console.print(table)


# --- one candidate ---------------------------------------------------------------------------------------


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
