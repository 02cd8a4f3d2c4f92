"""One job on a host: what its step cache has and sends, a whole job, and jobs that are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aftermath import processes_of, worktrees_left
from compiled_runner import put_into
from harness import wait_for
from host_jobs import NO_STAMP, host_job, own_stamp, text_of_job
from projects import FAST_TOTAL, SLOW_TOTAL, TEST_TOTAL, WRONG_TOTAL
from worktree_support import World, request, world

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.hosts.cluster import host_process
from codeflash_parallel.hosts.cluster.host_checkout import bundle_of
from codeflash_parallel.hosts.cluster.host_job import HostJob, Message, SentStep
from codeflash_parallel.hosts.cluster.host_process import end_kept, messages_of
from codeflash_parallel.hosts.cluster.host_run import HostStepCache
from codeflash_parallel.result.candidate_model import CandidateId, Replacement, Submission
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.run.remote_hosts import RunPart
from codeflash_parallel.run.run_state import StepCache, StepKind, text_of
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

__all__ = ["world"]

OK = CheckOutcome(code=Code.OK, reason="")
DEADLINE_S = 30.0


# --- the step cache of a job -------------------------------------------------------------------------------


class Sent(list[Message]):
    """Messages that were sent."""


def cache_of(folder: Path, *steps: SentStep) -> tuple[HostStepCache, Sent]:
    sent = Sent()
    return HostStepCache(folder, host_job(steps=steps), "here", sent.append), sent


def step(outcome: CheckOutcome, kind: StepKind, *key: object) -> SentStep:
    return SentStep(kind=kind, key=json.dumps(key), text=text_of(CheckOutcome, outcome).decode())


def test_what_was_sent_with_the_job_is_found(tmp_path: Path) -> None:
    other = replace(OK, reason="other")
    cache, sent = cache_of(
        tmp_path, step(OK, StepKind.SCREEN, "k"), step(other, StepKind.PREPARED, {"a": [1, None]})
    )
    assert cache.get(CheckOutcome, StepKind.SCREEN, "k") == OK
    assert cache.get(CheckOutcome, StepKind.PREPARED, {"a": [1, None]}) == other
    assert cache.get(CheckOutcome, StepKind.SCREEN, "k") == OK
    assert cache.get(CheckOutcome, StepKind.REST, "k") is None
    assert cache.get(CheckOutcome, StepKind.SCREEN, "other") is None
    assert sent == []


def test_what_was_sent_is_found_on_any_ground(tmp_path: Path) -> None:
    cache, _ = cache_of(tmp_path, step(OK, StepKind.SCREEN, "k"))
    cache.set_ground("ground")
    assert cache.get(CheckOutcome, StepKind.SCREEN, "k") == OK
    assert cache.count(StepKind.SCREEN) == 1


def test_what_was_sent_damaged_is_a_miss(tmp_path: Path) -> None:
    broken = replace(step(OK, StepKind.SCREEN, "k"), text='{"digest":"0","value":{}}')
    cache, _ = cache_of(tmp_path, broken)
    assert cache.get(CheckOutcome, StepKind.SCREEN, "k") is None


@pytest.mark.parametrize("kind", [StepKind.SCREEN, StepKind.REST, StepKind.CLEAN, StepKind.FRESH])
def test_what_a_check_finds_is_sent_and_another_cache_can_take_it(tmp_path: Path, kind: StepKind) -> None:
    cache, sent = cache_of(tmp_path / "host")
    cache.set_ground("theirs")
    cache.put(CheckOutcome, OK, kind, "k")
    (message,) = sent
    assert message == {
        "t": "step",
        "host": "here",
        "kind": kind.value,
        "content": "k",
        "text": text_of(CheckOutcome, OK).decode(),
    }
    ours = StepCache(tmp_path / "ours")
    ours.set_ground("ours")
    ours.take(message["text"].encode(), StepKind(message["kind"]), message["content"])
    assert ours.get(CheckOutcome, kind, "k") == OK == cache.get(CheckOutcome, kind, "k")


@pytest.mark.parametrize(
    "kind", [StepKind.PREPARED, StepKind.FIRST, StepKind.SNAPSHOT, StepKind.RACE, StepKind.COMPARISON]
)
def test_other_steps_stay_here(tmp_path: Path, kind: StepKind) -> None:
    cache, sent = cache_of(tmp_path)
    cache.put(CheckOutcome, OK, kind, "k")
    assert sent == []
    assert cache.get(CheckOutcome, kind, "k") == OK


# --- whole jobs --------------------------------------------------------------------------------------------

FILES = {"shop/__init__.py": "", "shop/sums.py": SLOW_TOTAL, "tests/test_sums.py": TEST_TOTAL}


@pytest.fixture
def cache(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cache of a host, in which a job leaves nothing that runs."""
    folder = tmp_path / "hosts-cache"
    put_into(folder / "hosts" / os.uname().nodename)
    monkeypatch.setenv("CODEFLASH_PARALLEL_CACHE_DIR", str(folder))
    yield folder
    end_kept()
    assert wait_for(lambda: not processes_of(folder), DEADLINE_S), processes_of(folder)
    assert worktrees_left(folder) == []
    assert list(folder.rglob("runs/*")) == []


async def taken(world: World) -> tuple[Snapshot, bytes]:
    world.init(FILES)
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        return snapshot, bundle_of(mirror, snapshot)


def performed(job: HostJob, bundle: bytes) -> list[dict[str, Any]]:
    with closing(messages_of(text_of_job(job), "here", lambda: bundle)) as messages:
        return list(messages)


def candidates() -> list[Submission]:
    codes = {"fast": FAST_TOTAL, "wrong": WRONG_TOTAL, "broken": "def total(values:\n"}
    return [Submission(id=CandidateId(name), content=Replacement(code=code)) for name, code in codes.items()]


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.anyio
async def test_a_job_sends_what_its_checks_find_and_its_verdicts(world: World, cache: Path) -> None:
    snapshot, bundle = await taken(world)
    settings = Settings(functions=("shop/sums.py::total",), isolation="none")
    job = host_job(snapshot, stamp=own_stamp(), settings=settings, submissions=candidates())

    sent = performed(job, bundle)

    kinds = [message["t"] for message in sent]
    assert (kinds[0], kinds[-1]) == ("began", "ended"), sent
    assert {message["host"] for message in sent} == {"here"}
    assert sent[0]["environment"] == str(own_stamp())
    judged = {one["candidate"]: (one["status"], one["code"]) for one in sent if one["t"] == "judged"}
    assert judged == {
        "fast": ("undecided", "NOT_RACED"),
        "wrong": ("rejected", "TESTS_FAILED"),
        "broken": ("unappliable", "DOES_NOT_PARSE"),
    }
    assert {one["candidate"] for one in sent if one["t"] == "checking"} == {"fast", "wrong"}
    steps = [
        (one["kind"], json.loads(one["text"])["value"]["outcome"]["code"]) for one in sent if "kind" in one
    ]
    assert {kind for kind, _ in steps} <= {"screen", "rest", "clean", "fresh"}
    assert [code for kind, code in steps if kind == "screen"] == ["OK", "TESTS_FAILED"]
    ended = sent[-1]
    assert ended["race"] is None
    assert ended["overhead_s"] > 0
    assert ended["checks_s"] > 0

    (kept,) = host_process._kept
    again = performed(job, b"the checkout is there: nobody wants a bundle")
    assert [again[0]["t"], again[-1]["t"]] == ["began", "ended"], again
    assert host_process._kept == [kept]
    assert again[-1]["overhead_s"] < ended["overhead_s"]  # what the first one opened is open


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.anyio
async def test_known_steps_of_a_job_are_not_made_again(world: World, cache: Path) -> None:
    snapshot, bundle = await taken(world)
    settings = Settings(functions=("shop/sums.py::total",), isolation="none")
    job = host_job(snapshot, stamp=own_stamp(), settings=settings, submissions=candidates()[:2])
    first = performed(job, bundle)
    known = [
        SentStep(kind=StepKind(one["kind"]), key=json.dumps((one["content"],)), text=one["text"])
        for one in first
        if one["t"] == "step"
    ]
    assert known
    again = performed(replace(job, job="checks2", steps=tuple(known)), bundle)
    assert [one for one in again if one["t"] == "step"] == []
    judged = [
        [(one["candidate"], one["status"], one["code"]) for one in sent if one["t"] == "judged"]
        for sent in (first, again)
    ]
    assert sorted(judged[0]) == sorted(judged[1])


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.anyio
async def test_variables_that_were_sent_are_those_of_the_tests(
    world: World, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOP_RATE", raising=False)
    snapshot, bundle = await taken(world)
    code = FAST_TOTAL.replace(
        "    return", "    import os\n    assert os.environ['SHOP_RATE'] == 'a b'\n    return"
    )
    seeing = Submission(id=CandidateId("seeing"), content=Replacement(code=code))
    settings = Settings(functions=("shop/sums.py::total",), isolation="none", pass_env=("SHOP_*",))
    job = host_job(
        snapshot, stamp=own_stamp(), settings=settings, submissions=[seeing], variables={"SHOP_RATE": "a b"}
    )
    sent = performed(job, bundle)
    assert [one["status"] for one in sent if one["t"] == "judged"] == ["undecided"], sent


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.anyio
async def test_a_job_that_is_closed_leaves_nothing(world: World, cache: Path) -> None:
    snapshot, bundle = await taken(world)
    job = host_job(snapshot, stamp=own_stamp(), settings=Settings(isolation="none"), submissions=candidates())
    with closing(messages_of(text_of_job(job), "here", lambda: bundle)) as messages:
        assert next(messages)["t"] == "began"
        assert wait_for(lambda: len(processes_of(cache)) > 0, DEADLINE_S)
    # The fixture looks at what is left.


# --- jobs that are refused ---------------------------------------------------------------------------------


def test_another_version_is_refused_before_anything_is_made(world: World, cache: Path) -> None:
    (fault,) = performed(host_job(version="0.0.0"), b"")
    assert (fault["t"], fault["code"], fault["family"]) == ("fault", "OTHER_VERSION", "environment")
    assert "not 0.0.0" in fault["message"]
    assert fault["hint"] == "Install the same version there."
    assert list(cache.rglob("checkouts")) == []


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.anyio
async def test_another_environment_is_refused_in_words(world: World, cache: Path) -> None:
    snapshot, bundle = await taken(world)
    own = own_stamp()
    theirs = replace(own, python="CPython 2.7.18", packages={**own.packages, "abacus": "1.0"})
    (fault,) = performed(host_job(snapshot, stamp=theirs), bundle)
    assert (fault["t"], fault["code"]) == ("fault", "OTHER_ENVIRONMENT")
    assert f"it has {own.python}, not CPython 2.7.18" in fault["message"]
    assert "abacus 1.0 is missing" in fault["message"]
    assert "--prepare" in fault["hint"]


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.anyio
async def test_an_interpreter_that_the_host_does_not_have(world: World, cache: Path, tmp_path: Path) -> None:
    snapshot, bundle = await taken(world)
    nowhere = str(tmp_path / "nowhere" / "python")
    (fault,) = performed(host_job(snapshot, python=nowhere, stamp=NO_STAMP), bundle)
    assert (fault["t"], fault["code"]) == ("fault", "BAD_PYTHON")
    assert fault["message"] == f"Host here has no {nowhere}."
    assert "--prepare" in fault["hint"]


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.anyio
async def test_an_environment_that_cannot_be_made(world: World, cache: Path) -> None:
    snapshot, bundle = await taken(world)
    (fault,) = performed(host_job(snapshot, prepare="echo no network; exit 4"), bundle)
    assert (fault["t"], fault["code"]) == ("fault", "PREPARE_FAILED")
    assert fault["message"].endswith("status 4: no network")


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.anyio
async def test_the_environment_that_was_made_is_the_one_that_counts(world: World, cache: Path) -> None:
    snapshot, bundle = await taken(world)
    lame = "mkdir -p .venv/bin; printf '#!/bin/sh\\nexit 9\\n' > .venv/bin/python; chmod +x .venv/bin/python"
    (fault,) = performed(host_job(snapshot, prepare=lame), bundle)
    assert fault["code"] == "BAD_PYTHON"
    assert "/user/.venv/bin/python is no Python interpreter" in fault["message"]


# --- what is only asked ------------------------------------------------------------------------------------


def test_a_probe_says_what_the_host_has(world: World, cache: Path) -> None:
    began, ended = performed(host_job(part=RunPart.PROBE, stamp=own_stamp()), b"")
    assert (began["t"], began["environment"]) == ("began", str(own_stamp()))
    assert (ended["t"], ended["race"]) == ("ended", None)
    assert list(cache.rglob("checkouts")) == []


def test_a_probe_finds_another_environment(world: World, cache: Path) -> None:
    theirs = replace(own_stamp(), python="CPython 2.7.18")
    (fault,) = performed(host_job(part=RunPart.PROBE, stamp=theirs), b"")
    assert fault["code"] == "OTHER_ENVIRONMENT"
    # Where one is going to be made, it does not matter.
    sent = performed(host_job(part=RunPart.PROBE, stamp=theirs, prepare="make env"), b"")
    assert [message["t"] for message in sent] == ["began", "ended"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_probe_finds_a_cache_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    monkeypatch.setenv("CODEFLASH_PARALLEL_CACHE_DIR", str(tmp_path / "shut" / "cache"))
    (fault,) = performed(host_job(part=RunPart.PROBE, stamp=own_stamp()), b"")
    assert fault["code"] == "CACHE_UNWRITABLE"


# --- its end -----------------------------------------------------------------------------------------------


def line_of(job: HostJob) -> bytes:
    """Return a job as a process reads it."""
    return b'{"sent_s":%f,"job":%s}\n' % (time.monotonic(), text_of_job(job).encode())


@pytest.mark.engine
@pytest.mark.anyio
async def test_a_job_whose_worker_dies_ends_while_its_environment_is_made(
    world: World, cache: Path, tmp_path: Path
) -> None:
    snapshot, bundle = await taken(world)
    begun = tmp_path / "begun"
    job = host_job(snapshot, prepare=f"touch {begun}; sleep 600")
    child = subprocess.Popen(  # noqa: ASYNC220 - it is not waited for without a deadline
        [sys.executable, "-m", "codeflash_parallel.hosts.cluster.host_run", "here"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(line_of(job))
        child.stdin.flush()
        assert json.loads(child.stdout.readline()) == {"t": "bundle"}
        child.stdin.write(b"%d\n" % len(bundle) + bundle)
        child.stdin.flush()
        assert wait_for(begun.exists, DEADLINE_S)
        child.stdin.close()
        try:
            child.wait(DEADLINE_S)
        finally:
            child.kill()


@pytest.mark.parametrize("is_told", [True, False], ids=["its input ends", "no job comes"])
def test_a_process_ends_well(world: World, cache: Path, is_told: bool) -> None:
    idle_s = 600.0 if is_told else 0.5
    script = "from codeflash_parallel.hosts.cluster import host_run as h; h._IDLE_S = "
    script += f"{idle_s}; h.main()"
    with subprocess.Popen(
        [sys.executable, "-c", script, "here"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            assert child.stderr is not None
            for _ in range(2):  # a job that it refuses is not its end
                child.stdin.write(line_of(host_job(version="0.0.0")))
                child.stdin.flush()
                assert json.loads(child.stdout.readline())["code"] == "OTHER_VERSION"
            if is_told:
                child.stdin.close()
            assert child.wait(DEADLINE_S) == 0
            assert child.stderr.read() == b""
        finally:
            child.kill()
