"""Lines between daemon and clients: what goes in comes out, and what is malformed is refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import NoneType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.queue import errors
from codeflash_parallel.queue.daemon_protocol import (
    CALLS,
    DaemonAnswer,
    DaemonInfo,
    JobEvent,
    Request,
    WorkerInfo,
    alive_line,
    answer_line,
    error_document,
    error_line,
    event_line,
    read_reply,
    read_request,
    request_line,
)
from codeflash_parallel.queue.job_result import FINAL, JobEnded, result_of, submit_anew
from codeflash_parallel.queue.jobs import (
    Budget,
    Fence,
    Instant,
    Job,
    JobId,
    JobKind,
    JobRequest,
    JobState,
    JobStatus,
    Priority,
    QueuePlace,
    Receipt,
    WaitReason,
)
from codeflash_parallel.queue.metrics import DurationSummary, QueueHealth
from codeflash_parallel.result.errors import (
    CodeflashParallelError,
    EnvironmentFault,
    InternalError,
    UsageError,
)

PING = Request("ping", {})
NOW = Instant(wall_s=1e9, boot_s=5.0, boot_id="boot")
TEXT = st.text(st.characters(exclude_categories=())) | st.text()
SECONDS = st.floats(allow_nan=False, allow_infinity=False)
REQUESTS = st.builds(
    JobRequest,
    kind=st.sampled_from(JobKind),
    key=TEXT,
    payload=TEXT,
    submitter=TEXT,
    run=TEXT,
    priority=st.sampled_from(Priority),
    start_after_s=SECONDS,
    budget=st.builds(Budget, cpu_s=SECONDS, jobs=st.integers(), wall_s=SECONDS),
)
JOBS = st.builds(
    Job,
    job_id=TEXT.map(JobId),
    number=st.integers(),
    kind=st.sampled_from(JobKind),
    key=TEXT,
    submitter=TEXT,
    run=TEXT,
    priority=st.sampled_from(Priority),
    state=st.sampled_from(JobState),
    submitted=st.just(NOW),
    fence=st.integers().map(Fence),
    crashes=st.integers(),
    machinery_faults=st.integers(),
    payload=TEXT,
    result=TEXT,
    cpu_s=SECONDS,
    wall_s=SECONDS,
)
PLACES = st.builds(QueuePlace, position=st.integers(), reason=st.sampled_from(WaitReason), wait_s=SECONDS)
ARGUMENTS = {
    "request": REQUESTS,
    "job_id": TEXT,
    "max_s": SECONDS,
    "states": st.frozensets(st.sampled_from(JobState)),
    "submitter": TEXT,
    "run": TEXT,
    "limit": st.integers(),
}
ASKED = st.sampled_from(sorted(CALLS)).flatmap(
    lambda call: st.builds(
        Request,
        call=st.just(call),
        arguments=st.fixed_dictionaries({n: ARGUMENTS[n] for n in CALLS[call].arguments}),
    )
)
ANSWERED = {
    DaemonInfo: st.just(
        DaemonInfo(
            pid=1, version="0", slots=3, slots_busy=1, workers=(WorkerInfo(pid=2, job_id="j"),), up_s=1.5
        )
    ),
    NoneType: st.none(),
    Receipt: st.builds(Receipt, job=JOBS, place=PLACES, is_new=st.booleans()),
    JobStatus: st.builds(JobStatus, job=JOBS, place=PLACES),
    tuple[Job, ...]: st.lists(JOBS, max_size=3).map(tuple),
    JobState: st.sampled_from(JobState),
    QueuePlace: PLACES,
    QueueHealth: st.builds(
        QueueHealth,
        depth=st.integers(),
        running=st.integers(),
        slots=st.integers(),
        paused=st.booleans(),
        waits=st.just(DurationSummary(count=1, p50_s=0.5, p95_s=2.0)),
        services=st.just(DurationSummary()),
        oldest_s=SECONDS,
        last_error=TEXT,
        lease_ages_s=st.dictionaries(TEXT, SECONDS),
        states=st.dictionaries(TEXT, st.integers()),
        results=st.just({}),
    ),
}
JOB = Job(
    job_id=JobId("j1"),
    number=1,
    kind=JobKind.CHECK,
    key="k",
    submitter="s",
    run="",
    priority=Priority.NORMAL,
    state=JobState.QUEUED,
    submitted=NOW,
    fence=Fence(0),
    crashes=0,
    machinery_faults=0,
    payload="{}",
)


@given(ASKED)
def test_a_request_is_one_line_and_comes_back(request) -> None:
    line = request_line(request)

    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert read_request(line) == request


@given(ASKED, st.data())
def test_an_answer_is_one_line_and_comes_back(request, data) -> None:
    value = data.draw(ANSWERED[CALLS[request.call].answer])

    line = answer_line(value)

    assert line.count(b"\n") == 1
    assert read_reply(line, request) == DaemonAnswer(value=value)


def test_every_call_has_an_answer_that_is_tested() -> None:
    assert {call.answer for call in CALLS.values()} == ANSWERED.keys()


def test_signs_of_life_and_events() -> None:
    event = JobEvent(
        job_id=JobId("j"),
        state=JobState.RUNNING,
        position=0,
        reason=WaitReason.NEXT,
        wait_s=0.0,
        progress="race",
    )

    assert read_reply(alive_line(), PING) is None
    assert read_reply(event_line(event), PING) == event


@pytest.mark.parametrize(
    "error",
    [
        errors.QueueFull(10),
        errors.SubmitterLimit("me", 5),
        errors.RateLimited("me", 12.5),
        errors.BudgetSpent("run", "cpu_s", 11.0, 10.0),
        errors.UnknownKind("bake"),
        errors.UnknownJob("j"),
        errors.OtherQueueVersion(Path("/q"), 9),
        errors.NetworkFileSystem(Path("/q"), "nfs"),
        errors.QueueDiskFull(Path("/q")),
        errors.QueueBusy(Path("/q"), 3.0),
        errors.QueueDamaged(Path("/q"), "torn"),
        errors.LeaseLost("j", 3),
        UsageError("SOME", "A message.", "A hint."),
        EnvironmentFault("OTHER", "A message."),
        InternalError("OURS", "A message."),
    ],
    ids=lambda error: error.code,
)
def test_errors_are_raised_as_what_they_are(error: CodeflashParallelError) -> None:
    with pytest.raises(CodeflashParallelError) as caught:
        read_reply(error_line(error), PING)

    assert type(caught.value) is type(error)
    assert vars(caught.value) == vars(error)
    assert str(caught.value) == str(error)
    assert caught.value.exit_code == error.exit_code


def test_an_error_of_a_class_that_is_not_known_is_one_of_its_family() -> None:
    data = {**error_document(EnvironmentFault("NEW", "Something new.")), "type": "FromTheFuture"}

    with pytest.raises(EnvironmentFault) as caught:
        read_reply(json.dumps({"error": data}).encode(), PING)

    assert caught.value.code == "NEW"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"", "BAD_CALL"),
        (b"\xff\n", "BAD_CALL"),
        (b"[1]\n", "BAD_CALL"),
        (b"[" * 100_000, "BAD_CALL"),
        (b'{"v": 3, "call": "ping"}\n', "OTHER_PROTOCOL"),
        (b'{"call": "ping"}\n', "OTHER_PROTOCOL"),
        (b'{"v": 2}\n', "BAD_CALL"),
        (b'{"v": 2, "call": "bake"}\n', "BAD_CALL"),
        (b'{"v": 2, "call": ["ping"]}\n', "BAD_CALL"),
        (b'{"v": 2, "call": "cancel"}\n', "BAD_CALL"),
        (b'{"v": 2, "call": "cancel", "args": []}\n', "BAD_CALL"),
        (b'{"v": 2, "call": "cancel", "args": {"job_id": 7}}\n', "BAD_CALL"),
        (b'{"v": 2, "call": "cancel", "args": {"job_id": "j", "more": 1}}\n', "BAD_CALL"),
        (b'{"v": 2, "call": "list", "args": {"states": ["asleep"]}}\n', "BAD_CALL"),
        (b'{"v": 2, "call": "list", "args": {"limit": true}}\n', "BAD_CALL"),
    ],
)
def test_malformed_calls_are_refused(line: bytes, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_request(line)
    assert caught.value.code == code


@pytest.mark.parametrize("line", [b'{"answer": {"pid": "x"}}', b'{"else": 1}', b'{"answer": {}}'])
def test_malformed_answers_are_faults(line: bytes) -> None:
    with pytest.raises(EnvironmentFault) as caught:
        read_reply(line, PING)
    assert caught.value.code == "BAD_ANSWER"


# --- what has become of a job ------------------------------------------------------------------------------


def finished(**result: object) -> Job:
    return JOB._replace(state=JobState.DONE, result=json.dumps({"error": None, **result}))


RED = error_document(EnvironmentFault("RED_BASELINE", "It is red."))


def test_a_verdict_is_the_result() -> None:
    assert result_of(finished(document={"verdict": "winner"}))["document"] == {"verdict": "winner"}


def test_an_error_is_raised_as_what_it_was() -> None:
    with pytest.raises(EnvironmentFault) as caught:
        result_of(finished(error=RED))
    assert caught.value.code == "RED_BASELINE"


@pytest.mark.parametrize("state", sorted(FINAL - {JobState.DONE}))
def test_a_job_without_a_result_says_why(state: JobState) -> None:
    with pytest.raises(JobEnded) as caught:
        result_of(JOB._replace(state=state, fault="it crashed", last_output="Segmentation fault"))
    assert caught.value.code == f"JOB_{state.name}"
    assert (caught.value.state, caught.value.last_output) == (state, "Segmentation fault")
    assert "it crashed" in caught.value.message


class Known:
    """A store that has answered some keys."""

    def __init__(self, **results: Job) -> None:
        self.jobs = results
        self.asked: list[str] = []

    def submit(self, request: JobRequest, _now: Instant, /) -> Receipt:
        self.asked.append(request.key)
        place = QueuePlace(position=1, reason=WaitReason.NEXT, wait_s=-1.0)
        if request.key in self.jobs:
            return Receipt(job=self.jobs[request.key], place=place, is_new=False)
        return Receipt(job=JOB._replace(key=request.key), place=place, is_new=True)


ASK = JobRequest(kind=JobKind.CHECK, key="k", payload="{}", submitter="s")


def test_a_verdict_holds_for_its_key() -> None:
    store = Known(k=finished())
    assert not submit_anew(store.submit, ASK, NOW).is_new
    assert store.asked == ["k"]


def test_an_error_is_tried_again_under_a_key_that_follows_from_it() -> None:
    first = submit_anew(Known(k=finished(error=RED)).submit, ASK, NOW)
    same = submit_anew(Known(k=finished(error=RED)).submit, ASK, NOW)
    assert first.is_new
    assert first.job.key == same.job.key != "k"

    again = {"k": finished(error=RED), first.job.key: finished(error=RED)._replace(key=first.job.key)}
    third = submit_anew(Known(**again).submit, ASK, NOW)
    assert third.is_new
    assert third.job.key not in again


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING, JobState.DEAD])
def test_what_has_no_result_is_not_asked_again(state: JobState) -> None:
    store = Known(k=JOB._replace(state=state))
    assert not submit_anew(store.submit, ASK, NOW).is_new
    assert store.asked == ["k"]
