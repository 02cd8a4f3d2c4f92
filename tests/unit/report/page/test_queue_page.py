"""The page of the queue: who waits and why, by submitter."""

from __future__ import annotations

import pytest
from page_cases import ATTACKS, assert_sound, text_in
from queue_cases import DAEMON, HEALTH, JOB, done, view

from codeflash_parallel.queue.jobs import JobState, QueuePlace, WaitReason
from codeflash_parallel.report.page.queue_page import queue_page
from codeflash_parallel.report.queue.queue_document import health_rows

TURN = QueuePlace(position=2, reason=WaitReason.TURN, wait_s=9.0)
PAUSED = QueuePlace(position=3, reason=WaitReason.PAUSED, wait_s=-1.0)


def test_waiting_jobs_stand_under_their_submitter_with_why() -> None:
    jobs = [
        view(JOB._replace(state=JobState.RUNNING, submitter="eve")),
        view(JOB, TURN),
        view(JOB._replace(job_id="77aa", submitter="eve"), PAUSED),
        view(done({"document": {"verdict": "tie", "winner": "c1", "summary": "Two are level."}})),
    ]
    root = assert_sound(queue_page(jobs, health_rows(HEALTH, DAEMON)))
    text = text_in(root)
    rows = [[cell.text for cell in row] for row in root.iter("tr") if row[0].text in {"ada@tty1", "eve"}]
    assert rows == [
        ["ada@tty1", "1", "12 s", "0", "1", "other jobs are before it (1)"],
        ["eve", "1", "12 s", "1", "0", "the queue is paused (1)"],
    ]
    assert [head.text for head in root.iter("h3")] == ["ada@tty1", "eve"]
    for words in ("1 of 4 busy", "position 2", "Two are level.", "Jobs that run"):
        assert words in text


def test_an_empty_queue_is_a_page() -> None:
    assert "There are no jobs." in text_in(assert_sound(queue_page((), health_rows(HEALTH, None))))


@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
def test_what_submitters_wrote_is_text(text: str) -> None:
    hostile = JOB._replace(submitter=text, run=text, fault=text, progress=text)
    views = [view(hostile._replace(state=state), TURN) for state in JobState if state is not JobState.DONE]
    assert_sound(queue_page(views, [("last error", text)]))


def test_many_jobs_are_cut_and_it_is_said() -> None:
    views = [view(JOB._replace(job_id=f"{n:04x}", submitter=f"s{n % 3}"), TURN) for n in range(3_000)]
    assert "and 900 more" in text_in(assert_sound(queue_page(views, ())))
