"""The daemon with the real engine: jobs go in, verdicts come out, and who dies loses nothing."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from daemon_support import LONG_S, Place, codes, project_place, until
from harness import processes_of, worktrees_left
from projects import FAST_TOTAL, WRONG_TOTAL

from codeflash_parallel import (
    AsyncEvalQueueClient,
    EnvironmentFault,
    Evaluator,
    JobEnded,
    JobState,
    RaceMode,
    Replacement,
    Settings,
    Submission,
    UnknownJob,
    UsageError,
)
from codeflash_parallel.queue.daemon_protocol import STALLED_S
from codeflash_parallel.queue.jobs import WaitReason
from codeflash_parallel.result.candidate_model import CandidateId

pytestmark = pytest.mark.slow

#: A candidate whose check goes on until it is killed, without using the processor.
HANGS = "import time\n\ndef total(values):\n    time.sleep(3600)\n"
#: One whose check takes a few seconds.
LONG = "import time\n\ndef total(values):\n    time.sleep(0.02)\n    return sum(value * value for value in values)\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with project_place(tmp_path, monkeypatch) as made:
        yield made
    assert worktrees_left(made.cache) == []


def test_from_submission_to_verdict_across_a_killed_daemon(place: Place) -> None:
    """Who waits meanwhile waits through the restart."""
    with place.client() as client, ThreadPoolExecutor(1) as thread:
        assert client.daemon is None
        future = client.submit(place.request())
        assert future.receipt.place.reason is WaitReason.NO_DAEMON
        with pytest.raises(EnvironmentFault, match="No daemon") as caught:
            client.wait(future.job_id)
        assert caught.value.code == "NO_DAEMON"

        first = place.start()
        waiting = thread.submit(future.result, LONG_S)
        until(lambda: future.status().job.state is JobState.RUNNING)
        first.kill()
        first.wait()
        assert future.status().job.state is JobState.RUNNING

        place.start()  # the socket file of the killed one is there
        result = waiting.result()
        assert codes(result) == {"c": "NOT_RACED"}
        assert result["cpu_s"] > 0
        assert len(result["intervals"]["checks"]) >= 2
        job = future.status().job
        assert (job.crashes, job.state) == (1, JobState.DONE)  # its daemon died while it ran

        again = client.submit(place.request())
        assert (again.receipt.is_new, again.job_id, again.result(0)) == (False, future.job_id, result)
        assert place.results()[future.job_id]["result"] == result

        worker = client.daemon.workers[0]
        wrong = client.submit(place.request(WRONG_TOTAL))
        assert codes(wrong.result(LONG_S)) == {"c": "TESTS_FAILED"}
        assert client.daemon.workers[0].pid == worker.pid  # kept warm
        assert (worker.job_id, worker.warm_for) == ("", str(place.project))
        assert [job.job_id for job in client.list()] == [wrong.job_id, future.job_id]
        assert "done" in client.metrics()
        mode = stat.S_IMODE((place.folder / "daemon.socket").stat().st_mode)
        assert (mode, stat.S_IMODE(place.folder.stat().st_mode)) == (0o600, 0o700)


@pytest.mark.witness
def test_errors_are_results_and_are_tried_again_when_asked_again(place: Place) -> None:
    place.start()
    with place.client() as client:
        (place.project / "tests/test_sums.py").write_text("def test_red():\n    assert False\n")
        red = client.submit(place.request())
        error = red.exception(LONG_S)
        assert (type(error), error.code if error else "") == (EnvironmentFault, "RED_BASELINE")
        assert place.results()[red.job_id]["result"]["error"]["code"] == "RED_BASELINE"
        again = client.submit(place.request())
        assert (again.receipt.is_new, again.job_id == red.job_id) == (True, False)
        assert again.exception(LONG_S) is not None

        broken = client.submit(replace(place.request(), key="b" * 64, payload="{}"))
        with pytest.raises(UsageError) as caught:
            broken.result(LONG_S)
        assert caught.value.code == "BAD_PAYLOAD"
        with pytest.raises(UnknownJob):
            client.status("nothing")


def test_the_tree_may_be_edited_while_its_job_waits(place: Place) -> None:
    """Judged is the tree at submission: neither the edit nor a lost function changes the verdict."""
    with place.client() as client:
        future = client.submit(place.request())
        (place.project / "shop/sums.py").write_text("def other():\n    pass\n")
        (place.project / "tests/test_sums.py").write_text("def test_red():\n    assert False\n")
        place.start()
        assert codes(future.result(LONG_S)) == {"c": "NOT_RACED"}


def test_a_command_is_run_when_a_job_has_ended(place: Place) -> None:
    """It finds the result's file; one that fails is logged, and the daemon goes on."""
    told = place.base / "told"
    say = f'echo "$CODEFLASH_PARALLEL_JOB $CODEFLASH_PARALLEL_VERDICT" >> {told}; ls {place.folder}/results; exit 3'
    place.serve(on_end=["sh", "-c", say])
    with place.client() as client:
        right, wrong = (client.submit(place.request(code)) for code in (FAST_TOTAL, WRONG_TOTAL))
        for future in (right, wrong):
            future.result(LONG_S)
        until(lambda: told.exists() and len(told.read_text().splitlines()) == 2)
        first, second = (line.split() for line in told.read_text().splitlines())
        assert (first[0], second[0]) == (right.job_id, wrong.job_id)
        assert "incomplete" not in {first[1], second[1]}
        until(lambda: "ended with status 3" in (client.daemon.last_fault if client.daemon else ""))
    assert f"{right.job_id}.json" in (place.folder / "on-end.log").read_text()


def test_a_cancelled_job_is_killed_and_the_worker_goes_on(place: Place) -> None:
    place.start()
    with place.client() as client:
        future = client.submit(place.request(HANGS))
        waiting = client.submit(place.request(WRONG_TOTAL))
        until(lambda: "behavior" in future.status().job.progress)
        assert waiting.status().place.reason is WaitReason.SLOTS
        assert waiting.cancel()
        assert future.cancel()
        assert worktrees_left(place.cache) == []
        ours = ("queue.worker", "queue.daemon")
        assert [p for p in processes_of(place.cache) if not any(name in str(p) for name in ours)] == []
        with pytest.raises(JobEnded) as caught:
            future.result(1)
        assert caught.value.code == "JOB_CANCELLED"
        assert place.results()[future.job_id]["state"] == "cancelled"
        assert codes(client.submit(place.request()).result(LONG_S)) == {"c": "NOT_RACED"}


def test_who_waits_for_too_long_is_told_while_all_slots_are_busy(place: Place) -> None:
    place.start(queue_timeout=2.0)
    with place.client() as client:
        running = client.submit(place.request(HANGS))
        until(lambda: running.status().job.state is JobState.RUNNING)
        error = client.submit(place.request()).exception(LONG_S)
        assert isinstance(error, JobEnded)
        assert error.code == "JOB_EXPIRED"
        until(lambda: error.job_id in place.results())  # who asks in the moment between hears of it before
        assert place.results()[error.job_id]["state"] == "expired"
        assert running.cancel()


@pytest.mark.campaign
def test_who_stops_loses_the_job_and_who_dies_three_times_is_dead(place: Place) -> None:
    place.start(lease=6.0, heartbeat=0.5, max_attempts=1)  # imports take long on a busy machine
    with place.client() as client:
        stopped = client.submit(place.request(LONG))
        until(lambda: "behavior" in stopped.status().job.progress)
        (worker,) = client.daemon.workers
        os.kill(worker.pid, signal.SIGSTOP)
        job = client.wait(stopped.job_id, LONG_S)
        assert (job.state, job.fault) == (JobState.DEAD, "STALLED")

        killed = client.submit(place.request(LONG + "\n# another\n"))
        until(lambda: "behavior" in killed.status().job.progress)
        (worker,) = client.daemon.workers
        os.kill(worker.pid, signal.SIGKILL)
        error = killed.exception(LONG_S)
        assert isinstance(error, JobEnded)
        assert (error.code, error.fault) == ("JOB_DEAD", "WORKER_DIED")
        assert "signal 9" in error.last_output
        assert {job.job_id for job in client.dead()} == {stopped.job_id, killed.job_id}
        client.retry(killed.job_id)
        assert codes(killed.result(LONG_S)) == {"c": "NOT_RACED"}


@pytest.mark.campaign
def test_a_job_has_so_much_time(place: Place) -> None:
    place.start(job_timeout=4.0)
    with place.client() as client:
        with pytest.raises(UsageError) as caught:
            client.submit(place.request(HANGS)).result(LONG_S)
        assert caught.value.code == "JOB_TIMEOUT"


@pytest.mark.campaign
@pytest.mark.parametrize(("signals", "state"), [(1, JobState.DONE), (2, JobState.QUEUED)])
def test_the_first_signal_drains_the_second_ends_it(place: Place, signals: int, state: JobState) -> None:
    daemon = place.start()
    with place.client() as client:
        running = client.submit(place.request(LONG if signals == 1 else HANGS))
        waiting = client.submit(place.request(WRONG_TOTAL))
        until(lambda: "behavior" in running.status().job.progress)
        daemon.terminate()
        until(lambda: client.daemon is None or client.daemon.draining)
        if signals > 1:
            daemon.terminate()
        assert daemon.wait(LONG_S) == 0
        assert not (place.folder / "daemon.socket").exists()
        found = running.status().job
        assert (found.state, found.crashes, found.machinery_faults) == (state, 0, 0)
        assert waiting.status().job.state is JobState.QUEUED


def test_two_daemons_of_one_folder(place: Place) -> None:
    first = place.start()
    second = place.serve(stderr=subprocess.PIPE)
    said = second.communicate(timeout=LONG_S)[1]
    assert second.returncode != 0
    assert f"Process {first.pid} is the daemon".encode() in said
    with place.client() as client:
        assert client.daemon is not None
        assert client.daemon.pid == first.pid


@pytest.mark.campaign
def test_a_stopped_daemon_is_noticed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = place.start()
    with place.client() as client:
        future = client.submit(place.request(HANGS))
        # Until the job is under way the daemon may be in the middle of a transaction, which others wait for.
        until(lambda: "behavior" in future.status().job.progress)
        daemon.send_signal(signal.SIGSTOP)
        for call in (
            lambda: client.daemon,
            lambda: future.result(60),
            lambda: client.submit(place.request()),
        ):
            with pytest.raises(EnvironmentFault) as caught:
                call()
            assert caught.value.code == "DAEMON_STALLED"
            monkeypatch.setattr("codeflash_parallel.queue.daemon_protocol.STALLED_S", 0.3)  # once is enough
        monkeypatch.setattr("codeflash_parallel.queue.daemon_protocol.STALLED_S", STALLED_S)
        daemon.send_signal(signal.SIGCONT)
        assert future.cancel()


@pytest.mark.witness
def test_a_grader_of_the_user_s_own(place: Place) -> None:
    grader = "import json; from shop.sums import total; print(json.dumps({'score': total([1, 2, 3])}))"
    place.start()
    with place.client() as client:
        done = client.submit(place.request(kind="command", command=["python", "-c", grader])).result(LONG_S)
        assert (done["scores"], done["document"]) == ({"score": 14}, None)
        wrong = place.request(WRONG_TOTAL, kind="command", command=["python", "-c", grader])
        assert client.submit(wrong).result(LONG_S)["scores"] == {"score": 6}
        for command, code, words in (
            (["python", "-c", "import sys; sys.exit('no')"], "COMMAND_FAILED", "status 1: no"),
            (["no-such-program"], "COMMAND_FAILED", "was not found"),
            (["echo", "[]"], "BAD_SCORES", "no object"),
            (["echo", "{"], "BAD_SCORES", "no JSON"),
        ):
            with pytest.raises(UsageError, match=words) as caught:
                client.submit(place.request(kind="command", command=command)).result(LONG_S)
            assert caught.value.code == code


@pytest.mark.witness
@pytest.mark.engine
@pytest.mark.anyio
async def test_the_same_call_goes_to_the_daemon(place: Place) -> None:
    submissions = [
        Submission(id=CandidateId(name), content=Replacement(code=code))
        for name, code in (("fast", FAST_TOTAL), ("wrong", WRONG_TOTAL))
    ]
    local = Settings(functions=("shop/sums.py::total",), cache_dir=str(place.cache))
    results = []
    events: list[object] = []
    await anyio.to_thread.run_sync(place.start)
    for settings in (local, replace(local, executor="queue")):
        async with Evaluator(place.project, settings) as evaluator:
            results.append(
                await evaluator.evaluate(submissions, race=RaceMode.CHECK, observers=[events.append])
            )
    here, there = results
    assert [(c.id, c.code, c.reason) for c in here.candidates] == [
        (c.id, c.code, c.reason) for c in there.candidates
    ]
    assert (here.verdict, here.summary, here.snapshot) == (there.verdict, there.summary, there.snapshot)
    assert type(events[-1]).__name__ == "RunFinished"

    async with AsyncEvalQueueClient(place.folder) as client:
        (job,) = await client.list()
        assert codes(await client.result(job.job_id)) == {"fast": "NOT_RACED", "wrong": "TESTS_FAILED"}
        assert (await client.status(job.job_id)).job.state is JobState.DONE

        hanging = (await client.submit(place.request(HANGS))).job.job_id
        with anyio.move_on_after(0.5):
            await client.result(hanging)
        with pytest.raises(TimeoutError):
            await client.result(hanging, 0.1)
        assert await client.cancel(hanging) is JobState.CANCELLED
        info = await client.daemon()
        assert info is not None
        assert info.slots_busy == 0


def test_a_socket_file_that_nobody_listens_to_is_no_daemon(place: Place) -> None:
    daemon = place.start()
    daemon.kill()
    daemon.wait()
    assert (place.folder / "daemon.socket").exists()
    with place.client() as client:
        assert client.daemon is None
        assert client.health().depth == 0


def test_unreadable_words_from_clients_end_no_daemon(place: Place) -> None:
    place.start()
    asked = subprocess.run(
        ["python3", "-c", _RAW, str(place.folder / "daemon.socket")], capture_output=True, check=True
    )
    assert b'"BAD_CALL"' in asked.stdout
    with place.client() as client:
        assert client.daemon is not None


_RAW = """
import os, socket, sys
os.chdir(os.path.dirname(sys.argv[1]))
with socket.socket(socket.AF_UNIX) as s:
    s.connect(os.path.basename(sys.argv[1]))
    s.sendall(b"\\xff\\xfe not json\\n")
    print(s.recv(4096))
with socket.socket(socket.AF_UNIX) as s:
    s.connect(os.path.basename(sys.argv[1]))
    s.sendall(b"half a line")
"""
