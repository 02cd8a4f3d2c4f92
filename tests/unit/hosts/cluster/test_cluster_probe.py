"""Answers of hosts that are asked whether they could work for a project."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aftermath import processes_of
from harness import wait_for
from host_jobs import own_stamp

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.hosts.cluster import cluster_probe
from codeflash_parallel.hosts.cluster.cluster_probe import HostAnswer, ask_hosts
from codeflash_parallel.hosts.cluster.host_job import HostJob, Message
from codeflash_parallel.result.codec import from_plain
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.run.remote_hosts import RunPart

HERE = Path(sys.executable)
BEGAN = {"t": "began", "host": "h1", "environment": "that of h1"}
ENDED = {"t": "ended", "host": "h1", "race": None, "overhead_s": 0.0, "checks_s": 0.0}
FAULT = {"t": "fault", "host": "h1", "code": "BAD_PYTHON", "message": "It has none.", "hint": "Make one."}


@dataclass
class Task:
    """A job that says what it is told to."""

    said: list[Message]
    is_cancelled: bool = False

    def messages(self) -> Iterator[Message]:
        yield from self.said

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class Engine:
    """An engine whose hosts answer; without a name they are what it chooses."""

    answers: dict[str, list[Message]]
    names: tuple[str, ...] = ()
    jobs: list[HostJob] = field(default_factory=list)
    wanted: list[str] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    is_closed: bool = False

    def hosts(self) -> tuple[str, ...]:
        return self.names

    def submit(self, job: str, *, is_race: bool, avoid: Collection[str], wanted: str = "") -> Task:
        assert not is_race
        assert not avoid
        if wanted == "gone":
            raise EnvironmentFault("HOST_GONE", "Host gone is not there any more.")
        self.jobs.append(from_plain(HostJob, json.loads(job)))
        self.wanted.append(wanted)
        self.tasks.append(Task(self.answers[wanted]))
        return self.tasks[-1]

    def close(self) -> None:
        self.is_closed = True


def asked(monkeypatch: pytest.MonkeyPatch, engine: Engine, **settings: Any) -> list[HostAnswer]:
    monkeypatch.setattr(cluster_probe, "connected", lambda _settings: engine)
    answers = list(ask_hosts(Settings(executor="ray", **settings), HERE))
    assert engine.is_closed
    assert all(task.is_cancelled for task in engine.tasks)
    return answers


@pytest.mark.parametrize(
    ("said", "environment", "problem"),
    [
        ([BEGAN, ENDED], "that of h1", ""),
        ([FAULT], "", "It has none. Make one."),
        ([{**FAULT, "hint": ""}], "", "It has none."),
        ([BEGAN, {"t": "lost", "host": "h1", "why": "it was killed."}], "that of h1", "it was killed."),
        ([{"t": "lost", "why": "its job 3 is over: "}], "", "its job 3 is over:"),
    ],
    ids=["it can", "it cannot", "without a hint", "lost", "lost before it began"],
)
def test_the_answer_of_a_host(
    monkeypatch: pytest.MonkeyPatch, said: list[Message], environment: str, problem: str
) -> None:
    (answer,) = asked(monkeypatch, Engine({"h1": said}, ("h1",)))
    assert answer == HostAnswer(host="h1", environment=environment, problem=problem)


def test_every_host_that_has_a_name_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine({"h1": [BEGAN, ENDED], "h2": [{**FAULT, "host": "h2"}]}, ("h1", "h2"))
    answers = asked(monkeypatch, engine)
    assert [(answer.host, bool(answer.problem)) for answer in answers] == [("h1", False), ("h2", True)]
    assert engine.wanted == ["h1", "h2"]


def test_where_hosts_have_no_names_one_is_asked_and_says_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine({"": [BEGAN, ENDED]})
    assert asked(monkeypatch, engine) == [HostAnswer("h1", "that of h1", "")]
    assert engine.wanted == [""]


def test_the_job_only_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine({"": [BEGAN, ENDED]})
    asked(monkeypatch, engine, prepare="make env", cache_dir="/place/cache")
    (job,) = engine.jobs
    assert (job.part, job.submissions, job.steps) == (RunPart.PROBE, (), ())
    assert (job.python, job.prepare, job.cache_dir) == (str(HERE), "make env", "/place/cache")
    assert job.environment == own_stamp()


def test_a_host_that_is_gone_meanwhile_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine({"h1": [BEGAN, ENDED]}, ("gone", "h1"))
    gone, there = asked(monkeypatch, engine)
    assert "not there any more" in gone.problem
    assert there == HostAnswer("h1", there.environment, "")
    assert engine.is_closed


def test_without_an_interpreter_nobody_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine = Engine({})
    monkeypatch.setattr(cluster_probe, "connected", lambda _settings: engine)
    with pytest.raises(EnvironmentFault, match="no Python interpreter"):
        list(ask_hosts(Settings(executor="ray"), tmp_path / "python"))


@pytest.mark.slow
def test_a_process_of_this_machine_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("CODEFLASH_PARALLEL_CACHE_DIR", str(tmp_path / "cache"))
    settings = Settings(executor="slurm", cluster="local", cache_dir=str(tmp_path / "cache"))
    answers = list(ask_hosts(settings, HERE))
    assert answers == [HostAnswer(os.uname().nodename, str(own_stamp()), "")]
    assert wait_for(lambda: not processes_of(tmp_path), 30.0), processes_of(tmp_path)
    assert list(tmp_path.rglob("run-*")) == []
