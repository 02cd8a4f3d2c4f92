"""The JSON document of the `queue` commands."""

from __future__ import annotations

from dataclasses import replace

from queue_cases import DAEMON, HEALTH, assert_valid, done, view

from codeflash_parallel.queue.jobs import QueuePlace, WaitReason
from codeflash_parallel.report.queue.queue_document import (
    Newness,
    health_document,
    queue_document,
    queue_schema,
    refusal_document,
)
from codeflash_parallel.result.errors import UsageError


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


def test_the_schema_names_every_reason_to_wait() -> None:
    reasons = queue_schema()["$defs"]["place"]["properties"]["reason"]["enum"]
    assert sorted(reasons) == sorted(waiting.name for waiting in WaitReason)


def test_the_health_of_a_queue_for_programs() -> None:
    told = queue_document((), daemon="running", health=health_document(HEALTH, DAEMON))
    assert_valid(told)
    health = told["health"]
    assert health["utilisation"] == 0.25
    assert health["services"] == {"count": 0, "p50_s": None, "p95_s": None}
    assert health["daemon"]["workers"][0]["pid"] == 78
    assert health_document(HEALTH, None)["utilisation"] == 0.5
    assert health_document(replace(HEALTH, slots=0), None)["utilisation"] == 0.0
