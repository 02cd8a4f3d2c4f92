"""Whether the hosts of an engine could work for a project: each of them is asked. For `doctor`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from codeflash_parallel import __version__
from codeflash_parallel.config.settings import Settings, settings_document
from codeflash_parallel.hosts.cluster.environment_stamp import EnvironmentStamp, stamp_of
from codeflash_parallel.hosts.cluster.host_cluster import connected
from codeflash_parallel.hosts.cluster.host_job import HostExecutor, HostJob
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.run.remote_hosts import RunPart
from codeflash_parallel.run.run_state import RaceMode
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot


class HostAnswer(NamedTuple):
    """Answer of a host; `problem` says why it cannot work for the project, empty: it can."""

    host: str
    environment: str
    problem: str


def ask_hosts(settings: Settings, interpreter: Path) -> Iterator[HostAnswer]:
    """Yield the answers of all hosts that the engine names, or of one that it chooses. Blocking.

    Args:
        settings: name the engine.
        interpreter: of the project.

    Raises:
        UsageError, EnvironmentFault: the engine cannot be used at all.
    """
    stamp = stamp_of(interpreter)
    with closing(connected(settings)) as executor:
        for host in executor.hosts() or ("",):
            yield _answer(executor, host, _job(settings, interpreter, stamp))


def _answer(executor: HostExecutor, host: str, job: HostJob) -> HostAnswer:
    environment = problem = ""
    try:
        task = executor.submit(json.dumps(to_plain(job)), is_race=False, avoid=(), wanted=host)
    except EnvironmentFault as fault:  # it has gone meanwhile
        return HostAnswer(host=host, environment="", problem=str(fault))
    for message in task.messages():
        host = message.get("host") or host
        environment = message.get("environment") or environment
        if message["t"] in {"fault", "lost"}:
            said = message.get("why") or f"{message['message']} {message.get('hint') or ''}"
            problem = said.strip()
    task.cancel()
    return HostAnswer(host=host, environment=environment, problem=problem)


def _job(settings: Settings, interpreter: Path, stamp: EnvironmentStamp) -> HostJob:
    return HostJob(
        version=__version__,
        run_id="doctor",
        job="probe",
        part=RunPart.PROBE,
        mode=RaceMode.CHECK,
        seed=1,
        root="",
        repository="",
        project="",
        snapshot=Snapshot(commit="", tree="", base=""),
        settings=settings_document(settings),
        cache_dir=settings.cache_dir,
        python=str(interpreter),
        prepare=settings.prepare,
        environment=stamp,
        variables={},
        wants_evidence=False,
        submissions=(),
        constants=(),
        steps=(),
    )
