"""The evaluation queue as a user meets it, with a daemon that takes the jobs."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from harness import Place, Started, assert_nothing_left, assert_same, assert_sound, picture, wait_for
from queue_support import RIGHT, TARGET, WRONG, answer, job_of, submit, with_queue

from codeflash_parallel import Evaluator, Replacement, Settings, Submission
from codeflash_parallel.result.candidate_model import CandidateId

pytestmark = pytest.mark.slow

#: Longer than any job here takes, however busy the machine is.
LONGEST = "200s"


@pytest.fixture(scope="module")
def served(build_once: Callable[[str], Place], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Give a place whose queue has a daemon that takes one job at a time; it ends in order."""
    place = with_queue(build_once("import_error"), tmp_path_factory.mktemp("queue") / "cache")
    before = picture(place.repository)
    early = ("--submitter", "early", "--pass-env", "OTHER_VALUE", "--kind", "check")
    assert submit(place, "wrong", *early).status == 0
    passing = ("--pass-env", "QUEUE_TEST_*")
    daemon = place.start(
        "serve", "--max-concurrent", "1", "--drain", "30s", *passing, QUEUE_TEST_VALUE="the daemon's"
    )
    try:
        assert wait_for(lambda: _answers(place, daemon), 60)
        yield place
    finally:
        if daemon.process.poll() is None:
            os.kill(daemon.process.pid, signal.SIGTERM)
        ended = daemon.finish(60)
    assert ended.status == 0, ended
    assert f"Serving {place.cache / 'queue'}, one job at once." in ended.errors
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)


def _answers(place: Place, daemon: Started) -> bool:
    assert daemon.process.poll() is None, daemon.finish()
    told = place.run("queue", "status", "--json")
    return told.status == 0 and json.loads(told.stdout)["daemon"] == "running"


@pytest.fixture
def candidate(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that writes a candidate which no other test has: equal ones share a job."""

    def written(code: str) -> str:
        path = tmp_path / "candidate.py"
        path.write_text(f"{code}    # {tmp_path.name}\n", encoding="utf-8")
        return str(path)

    return written


def submitted(place: Place, path: str, *options: str) -> dict[str, object]:
    return job_of(place.run("queue", "submit", "--candidates", path, *TARGET, *options, "--json"))


@pytest.mark.parametrize(("code", "status", "found"), [(RIGHT, 0, "NOT_RACED"), (WRONG, 1, "TESTS_FAILED")])
def test_a_job_gets_the_verdict_that_check_gives(
    served: Place, candidate: Callable[[str], str], code: str, status: int, found: str
) -> None:
    path = candidate(code)
    job = submitted(served, path, "--kind", "check")
    done = job_of(served.run("queue", "wait", str(job["job_id"]), "--max", LONGEST, "--json"), status)
    assert (done["state"], done["crashes"], done["place"]) == ("done", 0, None)
    shown = served.run("queue", "result", str(job["job_id"]), "--json")
    assert shown.status == status, str(shown)
    document = json.loads(shown.stdout)
    assert_sound(document)
    assert [c["code"] for c in document["candidates"]] == [found]
    told = served.run("queue", "wait", str(job["job_id"]))
    assert told.status == status
    assert "checked: " in told.stdout.decode() or "none correct: " in told.stdout.decode()
    same = submitted(served, path, "--kind", "check")
    assert (same["known"], same["state"], same["job_id"]) == (True, "done", job["job_id"])
    assert served.cache.joinpath("queue", "results", f"{job['job_id']}.json").is_file()


def test_a_wait_whose_time_is_up_can_be_asked_again(served: Place, candidate: Callable[[str], str]) -> None:
    assert served.run("queue", "pause").status == 0
    job = submitted(served, candidate(WRONG), "--kind", "check")
    name = str(job["job_id"])
    assert job["place"]["reason"] == "PAUSED"  # type: ignore[index]
    waited = served.run("queue", "wait", name, "--max", "0.2s")
    assert waited.status == 6, str(waited)
    assert "the queue is paused" in waited.stdout.decode()
    watching = served.start("queue", "status", name, "--watch", "--json")
    assert served.run("queue", "unpause").status == 0
    assert served.run("queue", "wait", name, "--max", LONGEST).status == 1
    seen = watching.finish()
    assert seen.status == 0, seen
    states = [json.loads(line)["jobs"][0]["state"] for line in seen.stdout.splitlines()]
    assert states[-1] == "done"


@pytest.mark.witness
def test_a_second_daemon_is_refused(served: Place) -> None:
    told = served.run("serve")
    assert told.status == 2, str(told)
    assert re.match(r"error: Process \d+ is the daemon of .* already\.$", told.errors.splitlines()[0])


@pytest.mark.witness
def test_a_grader_of_ones_own_gives_scores(served: Place, candidate: Callable[[str], str]) -> None:
    grader = "import json, words; print(json.dumps({'said': words.shout('hey')}))"
    command = ("--kind", "command", "--command", f'python -c "{grader}"')
    job = submitted(served, candidate(WRONG), *command)
    waited = served.run("queue", "wait", str(job["job_id"]), "--max", LONGEST, "--json")
    assert job_of(waited)["outcome"] == "scores"
    shown = served.run("queue", "result", str(job["job_id"]))
    assert json.loads(shown.stdout) == {"said": "HEY!!"}


@pytest.mark.witness
def test_a_grader_that_fails_says_what_it_said(served: Place, candidate: Callable[[str], str]) -> None:
    command = ("--kind", "command", "--command", "python -c \"raise SystemExit('no score today')\"")
    job = submitted(served, candidate(WRONG), *command)
    told = served.run("queue", "wait", str(job["job_id"]), "--max", LONGEST)
    assert (told.status, told.stdout) == (2, b"")
    assert "ended with status 1: no score today" in told.errors
    shown = served.run("queue", "result", str(job["job_id"]), "--json")
    assert shown.document["error"]["code"] == "COMMAND_FAILED"


@pytest.mark.witness
def test_a_cancelled_job_says_so(served: Place, candidate: Callable[[str], str]) -> None:
    job = submitted(served, candidate(RIGHT), "--kind", "check", "--start-after", "1h")
    assert job["place"]["reason"] == "LATER"  # type: ignore[index]
    name = str(job["job_id"])
    assert job_of(served.run("queue", "cancel", name, "--json"))["state"] == "cancelled"
    told = served.run("queue", "wait", name)
    assert told.status == 4
    assert told.errors.startswith(f"error: Job {name} was cancelled")


@pytest.mark.campaign
def test_the_same_command_is_done_by_the_daemon(served: Place, candidate: Callable[[str], str]) -> None:
    arguments = ("--candidates", candidate(WRONG), *TARGET, "--executor", "queue", "--output-format", "json")
    checked = served.run("check", *arguments, CODEFLASH_PARALLEL_SUBMITTER="host")
    assert checked.status == 1, str(checked)
    assert [c["code"] for c in checked.document["candidates"]] == ["TESTS_FAILED"]
    job = job_of(served.run("queue", "list", "--mine", "--json", CODEFLASH_PARALLEL_SUBMITTER="host"))
    assert (job["kind"], job["state"], job["verdict"]) == ("check", "done", "none_correct")


#: Says which value of a variable it sees.
SEES = "import json, os; print(json.dumps({'seen': os.environ.get('QUEUE_TEST_VALUE', '')}))"


@pytest.mark.parametrize(
    ("options", "seen"), [(("--pass-env", "QUEUE_TEST_VALUE"), "the daemon's"), ((), "")]
)
def test_variables_are_those_of_the_daemon_where_it_passes_them_on(
    served: Place, candidate: Callable[[str], str], options: tuple[str, ...], seen: str
) -> None:
    grader = ("--kind", "command", "--command", f'python -c "{SEES}"')
    job = submitted(served, candidate(WRONG), *grader, *options)
    name = str(job["job_id"])
    waited = served.run("queue", "wait", name, "--max", LONGEST, QUEUE_TEST_VALUE="the submitter's")
    assert json.loads(waited.stdout) == {"seen": seen}


def test_variables_that_the_daemon_does_not_pass_on_are_refused(
    served: Place, candidate: Callable[[str], str]
) -> None:
    asked = ("--pass-env", "QUEUE_TEST_VALUE", "--pass-env", "OTHER_VALUE", "--json")
    told = served.run("queue", "submit", "--candidates", candidate(WRONG), *TARGET, *asked)
    error = answer(told, 2)["error"]
    assert (error["code"], error["names"]) == ("NOT_PASSED", "OTHER_VALUE")
    assert "serve" not in told.errors
    early = job_of(served.run("queue", "list", "--submitter", "early", "--json"))
    waited = served.run("queue", "wait", str(early["job_id"]), "--max", LONGEST)
    assert waited.status == 2
    assert waited.errors.startswith("error: The daemon does not pass on OTHER_VALUE")


@pytest.mark.witness
def test_the_library_has_graders_run_by_the_daemon(served: Place, tmp_path: Path) -> None:
    settings = Settings(
        functions=(TARGET[1],),
        executor="queue",
        cache_dir=str(served.cache),
        queue_dir=str(served.cache / "queue"),
    )
    code = f"{WRONG}    # {tmp_path.name}\n"
    grader = "import json, words; print(json.dumps({'said': words.shout('hey')}))"

    async def graded() -> dict[str, object]:
        async with Evaluator(served.repository, settings) as evaluator:
            handed_in = Submission(id=CandidateId("c"), content=Replacement(code=code))
            return await evaluator.grade(handed_in, ["python", "-c", grader])

    assert anyio.run(graded) == {"said": "HEY!!"}
