"""The launcher's state machine of one job, with a clock and a process table made up."""

from __future__ import annotations

import os
import signal

import pytest

from codeflash_parallel.process import process_table
from codeflash_parallel.process.process_table import ProcessEntry
from codeflash_parallel.process.supervisor import supervised_job as job_module
from codeflash_parallel.process.supervisor.supervised_job import (
    GRACE_S,
    KILL_S,
    JobPhase,
    SupervisedJob,
)
from codeflash_parallel.result.outcome_codes import ExitKind


class World:
    """A clock, the job's processes, and what was sent to whom."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.family: list[ProcessEntry] = []
        self.sent: list[tuple[int, signal.Signals]] = []
        self.oom_kills = 3

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)


class Membership:
    """What the process table says of the only job."""

    def __init__(self, world: World) -> None:
        self._world = world

    def recent(self, _job: SupervisedJob) -> list[ProcessEntry]:
        return self._world.family

    fresh = recent

    def foreign(self, _job: SupervisedJob) -> set[int]:
        return {os.getpgrp(), 99}

    def oom_kills(self, _age_s: float) -> int:
        return self._world.oom_kills


@pytest.fixture
def world(monkeypatch):
    made = World()
    monkeypatch.setattr(job_module, "time", made)
    monkeypatch.setattr(job_module.os, "kill", lambda pid, number: made.sent.append((pid, number)))
    return made


def proc(pid: int, **changes) -> ProcessEntry:
    values = {
        "head": 70,
        "group": 70,
        "session": 70,
        "start": 1,
        "name": "python",
        "gone": False,
        "ending": False,
        "cpu_s": 0.0,
        "rss_bytes": 0,
    }
    return ProcessEntry(pid=pid, **{**values, **changes})


def start(world: World, **limits: float) -> SupervisedJob:
    request = {"job": 1, "marker": "x-1", "tag": 0, "wall_s": 60.0, "cpu_s": 0.0, "memory_bytes": 0, **limits}
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.close(writing)
    return SupervisedJob(request, 70, reading, Membership(world))


def exited(job: SupervisedJob, status: int) -> None:
    _, real, usage = os.wait4(os.posix_spawn("/bin/true", ["true"], {}), 0)
    assert real == 0
    job.main_exited(status, usage)


def test_who_cannot_be_killed_is_named_in_time(world):
    job = start(world)
    world.family = [proc(70), proc(71, name="stuck one")]
    job.kill("killed", "enough")
    job.step()
    assert job.phase is JobPhase.KILLING
    assert (-70, signal.SIGKILL) in world.sent
    exited(job, signal.SIGKILL)
    world.family = [proc(71, name="stuck one")]
    world.now_s += KILL_S
    job.step()
    assert job.phase is JobPhase.DONE
    assert job.report()["unkillable"] == ("71 stuck one",)
    assert job.report()["ended"] == ExitKind.KILLED


def test_who_is_on_his_way_out_is_not_unkillable(world):
    job = start(world)
    job.kill("killed", "enough")
    exited(job, signal.SIGKILL)
    world.family = [proc(71, name="cfp-init", ending=True)]
    world.now_s += KILL_S
    job.step()
    assert (job.phase, job.report()["unkillable"]) == (JobPhase.DONE, ())


def test_survivors_have_a_grace_and_are_then_named(world):
    job = start(world)
    exited(job, 0)
    world.family = [proc(71)]
    job.step()
    assert (job.phase, world.sent) == (JobPhase.SETTLING, [])
    world.now_s += GRACE_S
    job.step()
    assert job.phase is JobPhase.KILLING
    world.family = []
    job.step()
    assert job.phase is JobPhase.DONE
    assert (job.report()["ended"], job.report()["leaked"]) == (ExitKind.EXITED, ("71 python",))


def test_a_zombie_means_that_one_may_have_been_overlooked(world):
    job = start(world)
    exited(job, 0)
    world.family = [proc(71, gone=True)]
    job.step()
    assert job.phase is JobPhase.SETTLING
    world.family = []
    job.orphan_ended()
    job.step()
    assert (job.phase, job.report()["leaked"]) == (JobPhase.DONE, ())


def test_never_a_signal_to_everybody(world):
    job = start(world)
    world.family = [
        proc(70, group=-1),
        proc(71, group=0),
        proc(72, group=1),
        proc(73, group=os.getpgrp()),
        proc(74, group=99),
    ]
    job.kill("killed", "enough")
    job.step()
    assert {pid for pid, _ in world.sent} == {70, 71, 72, 73, 74}


def test_the_first_of_a_world_is_killed_before_anybody_is_stopped(world, monkeypatch):
    monkeypatch.setattr(process_table, "own_number", {71: 1, 72: 2}.get)
    job = start(world)
    world.family = [proc(70), proc(71, name="cfp-init"), proc(72, name="cfp-init"), proc(73)]
    job.kill("killed", "enough")
    job.step()
    assert world.sent[0] == (71, signal.SIGKILL)
    assert world.sent[1:5] == [(pid, signal.SIGSTOP) for pid in (70, 71, 72, 73)]


def test_limits_are_looked_at_when_they_can_be_reached(world):
    job = start(world, cpu_s=1000.0)
    world.family = [proc(70)]
    job.step()
    assert 0.05 <= job.next_look_s - world.now_s <= 0.5
    world.family = [proc(70, cpu_s=600.0), proc(71, cpu_s=500.0)]
    job.step()
    assert (job.phase, job.report()["ended"]) == (JobPhase.KILLING, ExitKind.CPU_DEADLINE)
    quiet = start(world)
    assert quiet.next_look_s == world.now_s + 60.0


def test_who_is_at_rest_is_looked_at_when_the_wall_limit_is_reached(world):
    world.family = [proc(70, rss_bytes=900, cpu_s=0.2)]
    job = start(world, memory_bytes=1000, cpu_s=8.0)
    assert job.next_look_s < world.now_s + 1
    job.rest()
    assert job.next_look_s == world.now_s + 60
    world.family = [proc(70, rss_bytes=9000, cpu_s=100)]
    job.step()
    assert job.phase is JobPhase.RUNNING
    world.now_s += 60
    job.step()
    assert job.phase is JobPhase.KILLING


@pytest.mark.parametrize(("status", "ended"), [(0, ExitKind.EXITED), (signal.SIGSEGV, ExitKind.SIGNALLED)])
def test_who_ends_before_the_kill_has_ended_by_itself(world, status, ended):
    job = start(world)
    job.kill("killed", "no longer needed")
    exited(job, status)
    assert job.report()["ended"] == ended
    assert job.report()["message"] == ""


def test_the_words_of_the_reports_are_the_model_s(world):
    job = start(world)
    for word in (
        "cpu_deadline",
        "wall_deadline",
        "memory_limit",
        "killed",
        "not_started",
        "exited",
        "signalled",
    ):
        assert ExitKind(word)
    assert ExitKind(job.report()["ended"])


@pytest.mark.parametrize(
    ("limit_bytes", "kills", "ended"),
    [(0, 0, "signalled"), (0, 1, "oom_killed"), (4096, 1, "memory_limit"), (1 << 40, 0, "signalled")],
)
def test_who_was_killed_and_not_by_us(world, limit_bytes, kills, ended):
    job = start(world, memory_bytes=limit_bytes)
    world.oom_kills += kills
    exited(job, signal.SIGKILL)
    assert job.report()["ended"] == ended


def test_who_was_killed_by_us_is_no_victim_of_the_kernel(world):
    job = start(world)
    world.oom_kills += 1
    job.kill("cpu_deadline", "enough")
    exited(job, signal.SIGKILL)
    assert job.report()["ended"] == "cpu_deadline"
