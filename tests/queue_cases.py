"""Jobs, and a check of the documents about them, for tests of the queue and its reports."""

from __future__ import annotations

import json

import jsonschema
from contract import shipped_schema

from codeflash_parallel.queue.daemon_protocol import DaemonInfo, WorkerInfo
from codeflash_parallel.queue.jobs import (
    Fence,
    Instant,
    Job,
    JobId,
    JobKind,
    JobState,
    Priority,
    QueuePlace,
    WaitReason,
)
from codeflash_parallel.queue.metrics import DurationSummary, QueueHealth
from codeflash_parallel.report.queue.queue_document import (
    JobView,
    Newness,
)

NOWHERE = QueuePlace(position=0, reason=WaitReason.NEXT, wait_s=-1.0)
JOB = Job(
    job_id=JobId("4f1c"),
    number=7,
    kind=JobKind.EVALUATE,
    key="ab",
    submitter="ada@tty1",
    run="",
    priority=Priority.NORMAL,
    state=JobState.QUEUED,
    submitted=Instant(wall_s=1000.0, boot_s=10.0, boot_id="b"),
    fence=Fence(0),
    crashes=0,
    machinery_faults=0,
    payload="{}",
)
VALIDATOR = jsonschema.Draft202012Validator(shipped_schema("queue.schema.json"))


def done(result: object) -> Job:
    return JOB._replace(state=JobState.DONE, result=json.dumps(result))


def view(job: Job = JOB, place: QueuePlace = NOWHERE, newness: Newness = Newness.NEW) -> JobView:
    return JobView(job=job, place=place, age_s=12.3456, newness=newness)


def assert_valid(document: dict) -> None:
    VALIDATOR.validate(document)
    json.dumps(document, allow_nan=False).encode("utf-8")


HEALTH = QueueHealth(
    depth=3,
    running=1,
    slots=2,
    paused=True,
    waits=DurationSummary(count=4, p50_s=2.0, p95_s=300.0),
    services=DurationSummary(),
    oldest_s=90.0,
    last_error="the disk is full",
    lease_ages_s={"4f1c": 3.0},
    states={"queued": 3, "running": 1},
    results={"done": 4},
    attempts=6,
)
DAEMON = DaemonInfo(
    pid=77, version="1", slots=4, slots_busy=1, workers=(WorkerInfo(pid=78),), token_holder="process 78", up_s=61.0
)  # fmt: skip
