"""Tables of jobs."""

from __future__ import annotations

import io

from queue_cases import JOB, view

from codeflash_parallel.queue.jobs import JobId, JobState, Priority
from codeflash_parallel.report.queue.job_table import jobs_table, print_dead, show_live
from codeflash_parallel.report.terminal.console import make_console


def drawn(table: object, width: int = 160) -> str:
    stream = io.StringIO()
    console = make_console(stream)
    console.width = width
    console.print(table)
    return stream.getvalue()


def test_the_table_has_a_row_for_each_job_up_to_a_limit() -> None:
    views = [view(JOB._replace(job_id=JobId(f"job{number}"))) for number in range(5)]
    assert [f"job{number}" in drawn(jobs_table(views)) for number in range(5)] == [True] * 5
    cut = drawn(jobs_table(views, limit=2))
    assert "job1" in cut
    assert "job2" not in cut
    assert "and 3 more" in cut


def test_columns_that_are_all_the_same_take_no_room() -> None:
    plain = drawn(jobs_table([view()]))
    assert "priority" not in plain
    assert "run" not in plain
    told = drawn(jobs_table([view(), view(JOB._replace(run="night", priority=Priority.LOW))]))
    assert "night" in told
    assert "priority" in told


def test_markup_and_escapes_in_a_job_are_only_text() -> None:
    text = drawn(jobs_table([view(JOB._replace(submitter="[red]x[/red]\x1b[2J"))]))
    assert "[red]x[/red]\\x1b[2J" in text


def test_a_live_view_ends_with_its_last_picture() -> None:
    stream = io.StringIO()
    seen: list[int] = []
    pauses: list[float] = []

    def look(rows: int) -> tuple[str, bool]:
        seen.append(rows)
        return f"picture {len(seen)}", len(seen) == 3

    show_live(make_console(stream), look, 1.5, pauses.append)
    assert pauses == [1.5, 1.5]
    assert all(rows >= 3 for rows in seen)
    assert "picture 3" in stream.getvalue()


def test_dead_jobs_say_why_and_what_they_printed() -> None:
    job = JOB._replace(
        state=JobState.DEAD, crashes=3, fault="killed by SIGKILL", last_output="one\n\x1b[2Jtwo\n"
    )
    stream = io.StringIO()
    print_dead([view(job)], make_console(stream))
    text = stream.getvalue()
    assert "4f1c  ada@tty1, evaluate, 3 crashes, 0 faults of the machine" in text
    assert "killed by SIGKILL" in text
    assert "  | one\n  | \\x1b[2Jtwo\n" in text
