"""Jobs by submitit, as processes of this machine: what they say, and how they end."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aftermath import processes_of
from harness import wait_for
from host_jobs import host_job, own_stamp, refused_job, text_of_job
from worktree_support import World, request, world

from codeflash_parallel.hosts.cluster import slurm_executor
from codeflash_parallel.hosts.cluster.host_checkout import bundle_of
from codeflash_parallel.hosts.cluster.host_job import Message
from codeflash_parallel.hosts.cluster.slurm_executor import SlurmExecutor
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.run.remote_hosts import RunPart
from codeflash_parallel.workspace.cache_layout import remove_tree

pytest.importorskip("submitit")

__all__ = ["world"]
HERE = os.uname().nodename
DEADLINE_S = 60.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that hosts share; every process of a job has its name in its environment."""
    shared = tmp_path / "shared"
    monkeypatch.setenv("CODEFLASH_PARALLEL_CACHE_DIR", str(shared / "cache"))
    yield shared
    assert wait_for(lambda: not processes_of(shared), DEADLINE_S), processes_of(shared)
    assert list(shared.glob("run-*")) == []


@contextmanager
def opened(folder: Path, options: str = "local", jobs: int = 4) -> Iterator[SlurmExecutor]:
    executor = SlurmExecutor(options, jobs, folder)
    try:
        yield executor
    finally:
        executor.close()
        for worker in executor._workers:
            ended(worker)


def ended(worker: Any) -> None:
    """Wait for the process of a worker, which nobody else does."""
    worker.job._process.wait(DEADLINE_S)


def submitted(executor: SlurmExecutor, job: str) -> Any:
    return executor.submit(job, is_race=False, avoid=())


# --- messages ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_messages_of_a_job(folder: Path) -> None:
    with opened(folder) as executor:
        executor.share(b"bundle")
        task = submitted(executor, refused_job())
        (fault,) = task.messages()
        assert (fault["t"], fault["code"], fault["host"]) == ("fault", "OTHER_VERSION", HERE)
        ended(executor._workers[0])  # a worker whose host is unfit takes no other job
        task.cancel()  # it is over


@pytest.mark.slow
def test_jobs_do_not_take_each_other_s_messages(folder: Path) -> None:
    with opened(folder) as executor:
        executor.share(b"bundle")
        tasks = [submitted(executor, refused_job()) for _ in range(2)]
        found: list[list[Message]] = [list(task.messages()) for task in tasks]
        assert [len(messages) for messages in found] == [1, 1]


async def long_job(world: World, executor: SlurmExecutor, begun: Path) -> Any:
    """Submit a job that makes an environment for ever; wait until it does."""
    world.init()
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        executor.share(bundle_of(mirror, snapshot))
    task = submitted(executor, text_of_job(host_job(snapshot, prepare=f"touch {begun}; sleep 600")))
    assert wait_for(begun.exists, DEADLINE_S)
    return task


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.anyio
async def test_cancel_ends_the_whole_tree(folder: Path, world: World, tmp_path: Path) -> None:
    with opened(folder) as executor:
        task = await long_job(world, executor, tmp_path / "begun")
        assert any("sleep" in one for one in processes_of(folder))
        task.cancel()
        assert wait_for(lambda: not processes_of(folder), DEADLINE_S), processes_of(folder)
        assert list(task.messages()) == []
        task.cancel()


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.anyio
async def test_a_job_whose_process_is_killed_is_lost(folder: Path, world: World, tmp_path: Path) -> None:
    with opened(folder) as executor:
        task = await long_job(world, executor, tmp_path / "begun")
        (worker,) = (one.split()[0] for one in processes_of(folder) if "submitit.core._submit" in one)
        os.kill(int(worker), signal.SIGKILL)
        *_, lost = task.messages()
        assert lost["t"] == "lost"
        assert lost["why"].startswith(f"its job {executor._workers[0].job.job_id} is over: ")
        assert "\n" not in lost["why"]
        assert wait_for(lambda: not processes_of(folder), DEADLINE_S), processes_of(folder)


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.anyio
async def test_closing_ends_what_runs_and_removes_the_folder(
    folder: Path, world: World, tmp_path: Path
) -> None:
    with opened(folder) as executor:
        await long_job(world, executor, tmp_path / "begun")
        executor.close()
        assert executor._workers[0].is_gone  # it waits for the processes of this machine
    # The fixture looks at what is left.


# --- workers -----------------------------------------------------------------------------------------------


def probe_job() -> str:
    """Return a job that is done at once."""
    return text_of_job(host_job(part=RunPart.PROBE, stamp=own_stamp()))


def done(task: Any) -> None:
    """Wait until a job is done."""
    *_, last = task.messages()
    assert last["t"] == "ended", last


@pytest.mark.slow
def test_a_worker_takes_the_next_job_and_one_that_works_does_not(folder: Path) -> None:
    with opened(folder) as executor:
        done(submitted(executor, probe_job()))
        second, beside = submitted(executor, probe_job()), submitted(executor, probe_job())
        assert [worker.given for worker in executor._workers] == [2, 1]
        done(second)
        done(beside)


@pytest.mark.slow
def test_a_worker_that_may_not_have_a_job_ends(folder: Path) -> None:
    with opened(folder) as executor:
        done(submitted(executor, probe_job()))
        executor.submit(probe_job(), is_race=False, avoid=(HERE,))
        idle, other = executor._workers
        ended(idle)
        assert (idle.given, other.given) == (2, 1)  # the second one was the end


@pytest.mark.slow
def test_a_race_has_a_worker_of_its_own_and_gives_its_host_back(folder: Path) -> None:
    with opened(folder) as executor:
        done(submitted(executor, probe_job()))
        done(executor.submit(probe_job(), is_race=True, avoid=()))
        assert len(executor._workers) == 2
        for worker in executor._workers:
            ended(worker)


@pytest.mark.slow
def test_a_worker_that_waits_in_vain_ends_and_another_one_takes_the_next_job(
    folder: Path,
) -> None:
    with opened(folder) as executor:
        done(submitted(executor, probe_job()))
        first = executor._workers[0]
        ended(first)
        assert (executor._place / "worker1.1").read_text() == ""
        assert first.give(probe_job()) == ""
        done(submitted(executor, probe_job()))
        assert [worker.given for worker in executor._workers] == [1, 1]


@pytest.mark.parametrize(("left_s", "has_time"), [(None, True), (300, False), (3600, True)])
def test_a_worker_takes_no_other_job_when_its_time_is_nearly_over(
    monkeypatch: pytest.MonkeyPatch, left_s: int | None, has_time: bool
) -> None:
    monkeypatch.delenv("SLURM_JOB_END_TIME", raising=False)
    if left_s is not None:
        monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + left_s))
    assert slurm_executor._has_time() is has_time


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.anyio
@pytest.mark.parametrize("is_idle", [True, False])
async def test_whoever_is_ended_says_nothing_on_our_standard_error(
    folder: Path, world: World, tmp_path: Path, capfd: pytest.CaptureFixture[str], is_idle: bool
) -> None:
    with opened(folder) as executor:
        if is_idle:
            done(submitted(executor, probe_job()))
        else:
            await long_job(world, executor, tmp_path / "begun")
            os.kill(executor._workers[0].job._process.pid, signal.SIGINT)  # Ctrl-C reaches it, too
    assert capfd.readouterr().err == ""


# --- places ------------------------------------------------------------------------------------------------


def test_places_are_the_jobs_that_are_submitted_at_once(folder: Path) -> None:
    with opened(folder, jobs=7) as executor:
        assert executor.places(()) == 7
        assert executor.places(("elsewhere",)) == 7
        assert executor.places((HERE,)) == 0


@pytest.mark.slow
def test_the_submitting_process_shows_that_it_lives(folder: Path) -> None:
    with opened(folder):
        (place,) = folder.glob("run-*")
        assert wait_for((place / "alive").exists, DEADLINE_S)
        before = (place / "alive").stat().st_mtime_ns
        assert wait_for(lambda: (place / "alive").stat().st_mtime_ns > before, DEADLINE_S)


def test_two_executors_share_a_folder(folder: Path) -> None:
    with opened(folder), opened(folder):
        assert len(list(folder.glob("run-*"))) == 2


# --- what sbatch is given ----------------------------------------------------------------------------------


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands in the place of Slurm's; returns the folder in which they note what they were given."""
    noted = tmp_path / "noted"
    noted.mkdir()
    commands = {
        "srun": "exit 0",
        "sbatch": f'cp "$1" {noted}/$$.sh; echo Submitted batch job $$',
        "scancel": f'echo "$@" >> {noted}/cancelled',
        "sacct": "exit 0",
    }
    for name, script in commands.items():
        (noted / name).write_text(f"#!/bin/sh\n{script}\n")
        (noted / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{noted}:{os.environ['PATH']}")
    return noted


def given(slurm: Path) -> set[str]:
    """Return the options of the one job that was submitted."""
    (script,) = slurm.glob("*.sh")
    lines = script.read_text().splitlines()
    script.unlink()
    return {line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")}


def test_a_check_has_a_share_of_a_host_and_a_race_has_all_of_it(folder: Path, slurm: Path) -> None:
    executor = SlurmExecutor("partition=short time=60", 4, folder)
    try:
        executor.submit("{}", is_race=False, avoid=())
        check = given(slurm)
        assert {"--partition=short", "--time=60", "--job-name=codeflash-parallel"} <= check
        assert not any(option.startswith(("--exclusive", "--exclude")) for option in check)
        executor.submit("{}", is_race=True, avoid=("h2", "h1"))
        assert {"--exclusive", "--exclude=h1,h2", "--partition=short"} <= given(slurm)
        assert executor.places(("h1",)) == 4
    finally:
        executor.close()
    assert len((slurm / "cancelled").read_text().splitlines()) == 2


def test_hosts_that_the_user_leaves_out_are_left_out_besides(folder: Path, slurm: Path) -> None:
    executor = SlurmExecutor("exclude=h0,h9", 4, folder)
    try:
        executor.submit("{}", is_race=False, avoid=("h2", "h1"))
        assert "--exclude=h0,h9,h1,h2" in given(slurm)
        executor.submit("{}", is_race=True, avoid=())
        assert {"--exclusive", "--exclude=h0,h9"} <= given(slurm)
        executor.submit("{}", is_race=False, avoid=())
        assert "--exclusive" not in given(slurm)
    finally:
        executor.close()


def test_a_job_that_sbatch_refuses(folder: Path, slurm: Path) -> None:
    said = "sbatch: error: invalid partition specified: shrot"
    (slurm / "sbatch").write_text(f"#!/bin/sh\necho '{said}' >&2; exit 1\n")
    executor = SlurmExecutor("partition=shrot", 4, folder)
    try:
        with pytest.raises(EnvironmentFault, match="sbatch refuses the job: ") as caught:
            executor.submit("{}", is_race=False, avoid=())
    finally:
        executor.close()
    assert caught.value.code == "NO_CLUSTER"
    assert "invalid partition specified: shrot" in caught.value.message
    assert "\n" not in str(caught.value)


def test_without_a_limit_of_their_own_jobs_may_take_a_day(folder: Path, slurm: Path) -> None:
    executor = SlurmExecutor("", 4, folder)
    try:
        executor.submit("{}", is_race=False, avoid=())
        assert "--time=1440" in given(slurm)
    finally:
        executor.close()


def test_slurm_chooses_the_host_itself(folder: Path, slurm: Path) -> None:
    executor = SlurmExecutor("", 4, folder)
    try:
        with pytest.raises(EnvironmentFault) as caught:
            executor.submit("{}", is_race=True, avoid=(), wanted="h1")
    finally:
        executor.close()
    assert caught.value.code == "HOST_GONE"


# --- what cannot be ----------------------------------------------------------------------------------------


def test_without_sbatch_there_is_no_cluster(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="There is no Slurm here") as caught:
        SlurmExecutor("partition=short", 4, folder)
    assert caught.value.code == "NO_CLUSTER"
    assert "\n" not in str(caught.value)
    assert "--cluster local" in caught.value.hint


def test_without_submitit_there_is_no_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UsageError, match="needs submitit") as caught:
        SlurmExecutor("local", 4, folder)
    assert caught.value.code == "NO_ENGINE"
    assert "pip install 'codeflash-parallel[slurm]'" in caught.value.hint
    assert not folder.exists()


@pytest.mark.parametrize("options", ["short", "partition=short time", "--exclusive", "=5", "comment='x"])
def test_options_that_are_none(folder: Path, options: str) -> None:
    with pytest.raises(
        UsageError, match=r"takes options as name=value, not|is no list of options: No closing"
    ) as caught:
        SlurmExecutor(options, 4, folder)
    assert caught.value.code == "BAD_SETTING"
    assert not folder.exists()


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        ("partition=short time=60", {"partition": "short", "time": "60"}),
        ("--partition=short  --comment='two words'", {"partition": "short", "comment": "two words"}),
        ("export=A=1,B=2 empty=", {"export": "A=1,B=2", "empty": ""}),
    ],
)
def test_options_of_sbatch(text: str, options: dict[str, str]) -> None:
    from codeflash_parallel.hosts.cluster.slurm_executor import _options_of

    assert _options_of(text) == options


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    with pytest.raises(EnvironmentFault) as caught:
        SlurmExecutor("local", 4, tmp_path / "shut" / "slurm")
    assert caught.value.code == "CACHE_UNWRITABLE"


def test_what_a_killed_submitting_process_has_left_is_removed(folder: Path) -> None:
    old, young = folder / "run-old", folder / "run-young"
    for place in (old, young):
        place.mkdir(parents=True)
        (place / "alive").touch()
    long_ago = time.time() - 2 * slurm_executor._DEAD_FOR_S
    for path in (old / "alive", old):
        os.utime(path, (long_ago, long_ago))

    with closing(SlurmExecutor("local", 1, folder)):
        assert (old.exists(), young.exists()) == (False, True)
    remove_tree(young)
