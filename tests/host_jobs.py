"""Jobs for hosts, as the submitting side writes them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from codeflash_parallel import __version__
from codeflash_parallel.config.settings import Settings, settings_document
from codeflash_parallel.hosts.cluster.environment_stamp import EnvironmentStamp, stamp_of
from codeflash_parallel.hosts.cluster.host_job import HostJob, SentStep
from codeflash_parallel.result.candidate_model import Submission
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.run.remote_hosts import RunPart
from codeflash_parallel.run.run_state import RaceMode
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

NO_STAMP = EnvironmentStamp(python="", platform="")
NO_VARIABLES: Mapping[str, str] = {}
NO_SNAPSHOT = Snapshot(commit="1" * 40, tree="2" * 40, base="")


def host_job(
    snapshot: Snapshot = NO_SNAPSHOT,
    *,
    version: str = __version__,
    python: str = sys.executable,
    prepare: str = "",
    project: str = ".",
    stamp: EnvironmentStamp = NO_STAMP,
    settings: Settings | None = None,
    submissions: Sequence[Submission] = (),
    steps: Sequence[SentStep] = (),
    part: RunPart = RunPart.CHECKS,
    variables: Mapping[str, str] = NO_VARIABLES,
) -> HostJob:
    """Return a job that checks some candidates."""
    return HostJob(
        version=version,
        run_id="run",
        job="checks1",
        part=part,
        mode=RaceMode.CHECK,
        seed=7,
        root="/place/user",
        repository="user",
        project=project,
        snapshot=snapshot,
        settings=settings_document(settings or Settings()),
        cache_dir="",
        python=python,
        prepare=prepare,
        environment=stamp,
        variables=variables,
        wants_evidence=False,
        submissions=tuple(submissions),
        constants=(),
        steps=tuple(steps),
    )


def text_of_job(job: HostJob) -> str:
    """Return a job as it travels."""
    return json.dumps(to_plain(job))


def refused_job() -> str:
    """Return a job that every host refuses at once: another version has written it."""
    return text_of_job(host_job(version="0.0.0"))


def own_stamp() -> EnvironmentStamp:
    """Return the stamp of the running interpreter's environment."""
    return stamp_of(Path(sys.executable))
