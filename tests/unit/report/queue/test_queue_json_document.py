"""What the queue says, to people and to programs."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_cases import JOB, NOWHERE, assert_valid, done, view

from codeflash_parallel.queue.jobs import (
    Job,
    JobId,
    JobKind,
    JobState,
    Priority,
    QueuePlace,
    WaitReason,
)
from codeflash_parallel.report.queue.job_table import jobs_table, show_live
from codeflash_parallel.report.queue.json_document import (
    Newness,
    queue_document,
    queue_schema,
    refusal_document,
)
from codeflash_parallel.report.queue.phrases import job_row, job_words, place_words, seconds_words
from codeflash_parallel.report.safe_text import printable
from codeflash_parallel.report.terminal.console import make_console
from codeflash_parallel.result.errors import UsageError


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "0.0 s"), (0.44, "0.4 s"), (40, "40 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (9000, "2.5 h")],
)  # fmt: skip
def test_spans_are_said_in_the_unit_that_fits(seconds: float, words: str) -> None:
    assert seconds_words(seconds) == words


def test_an_estimate_is_said_only_where_something_was_measured() -> None:
    place = QueuePlace(position=3, reason=WaitReason.SLOTS, wait_s=-1.0)
    assert place_words(place) == "position 3: all slots are busy"
    assert place_words(place._replace(wait_s=61.0)) == "position 3: all slots are busy, about 61 s to wait"
    paused = QueuePlace(position=1, reason=WaitReason.PAUSED, wait_s=61.0)
    assert place_words(paused) == "position 1: the queue is paused"


@pytest.mark.parametrize(
    ("job", "place", "words"),
    [
        (JOB, QueuePlace(position=1, reason=WaitReason.NEXT, wait_s=0.0), "job 4f1c: queued, position 1: it is next"),
        (JOB._replace(state=JobState.RUNNING), NOWHERE, "job 4f1c: running"),
        (JOB._replace(state=JobState.RUNNING, progress="race"), NOWHERE, "job 4f1c: running, race"),
        (done({"document": {"verdict": "nothing_faster"}}), NOWHERE, "job 4f1c: done: nothing faster"),
        (done({"document": None, "error": {"code": "SNAPSHOT_GONE"}}), NOWHERE, "job 4f1c: done: SNAPSHOT_GONE"),
        (done({"document": {"summary": "c1 wins."}}), NOWHERE, "job 4f1c: done: c1 wins."),
        (JOB._replace(state=JobState.DEAD, fault="killed\x1b[2J"), NOWHERE, "job 4f1c: dead: killed\\x1b[2J"),
        (JOB._replace(state=JobState.CANCELLED), NOWHERE, "job 4f1c: cancelled"),
    ],
)  # fmt: skip
def test_a_job_in_one_line(job: Job, place: QueuePlace, words: str) -> None:
    assert job_words(job, place) == words


def test_a_row_says_how_often_a_job_has_failed_already() -> None:
    tried = JOB._replace(crashes=1, machinery_faults=1)
    place = QueuePlace(position=2, reason=WaitReason.BACKOFF, wait_s=-1.0)
    assert job_row(tried, place, 3.0)[-2:] == (
        "3 s",
        "position 2: it is tried again after a pause; attempt 3",
    )
    assert job_row(tried._replace(state=JobState.RUNNING), NOWHERE, 3.0)[-1] == "attempt 3"
    assert job_row(tried._replace(state=JobState.DEAD, fault="killed: OOM"), place, 3.0)[-1] == "killed: OOM"


def test_the_document_says_what_a_program_needs() -> None:
    place = QueuePlace(position=2, reason=WaitReason.RATE, wait_s=-1.0)
    document = queue_document([view(place=place, newness=Newness.KNOWN)], daemon="none")
    assert_valid(document)
    (job,) = document["jobs"]
    assert job["place"] == {
        "position": 2,
        "reason": "RATE",
        "says": "your rate limit is reached",
        "wait_s": None,
    }
    assert (job["known"], job["age_s"], job["outcome"], job["verdict"]) == (True, 12.346, "", None)


def test_a_job_that_is_not_queued_has_no_place() -> None:
    document = queue_document(
        [view(done({"document": {"verdict": "tie", "winner": "c1"}}))], daemon="running"
    )
    assert_valid(document)
    (job,) = document["jobs"]
    assert (job["place"], job["verdict"], job["winner"]) == (None, "tie", "c1")


def test_a_refusal_carries_its_figures() -> None:
    error = UsageError("RATE_LIMITED", "Too fast \udc80.", "Wait.")
    document = refusal_document(error, {"retry_after_s": 2.5})
    assert_valid(document)
    assert document["error"]["retry_after_s"] == 2.5
    assert document["error"]["message"] == "Too fast \\udc80."


TEXTS = st.text(max_size=20)
JOBS = st.builds(
    JOB._replace,
    submitter=TEXTS,
    run=TEXTS,
    fault=TEXTS,
    last_output=TEXTS,
    progress=TEXTS,
    state=st.sampled_from([state for state in JobState if state != JobState.DONE]),
    kind=st.sampled_from(JobKind),
    priority=st.sampled_from(Priority),
)
PLACES = st.builds(
    QueuePlace,
    position=st.integers(0, 9),
    reason=st.sampled_from(WaitReason),
    wait_s=st.floats(-1, 1e6),
)


def test_the_schema_names_every_reason_to_wait() -> None:
    reasons = queue_schema()["$defs"]["place"]["properties"]["reason"]["enum"]
    assert sorted(reasons) == sorted(waiting.name for waiting in WaitReason)


@given(JOBS, PLACES)
def test_every_job_can_be_shown_and_acts_on_no_terminal(job: Job, place: QueuePlace) -> None:
    assert_valid(queue_document([view(job, place)], daemon="running"))
    words = job_words(job, place)
    assert printable(words) == words
    assert "\n" not in words


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
