"""One JSON file for each job that has ended, for agents that watch a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from codeflash_parallel.process.atomic_file import write_durably
from codeflash_parallel.queue.jobs import Job
from codeflash_parallel.queue.protocol.job_result import FINAL

#: How many of the latest jobs are looked at when a daemon starts: the last one may have died before it wrote
#: their files.
LATEST = 200


class ResultFiles:
    """The folder `results` of a queue. A file appears whole, and stays, after a power cut, too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "results"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def path(self, job_id: str) -> Path:
        """Return where the file of a job lies."""
        return self._folder / f"{job_id}.json"

    def write(self, job: Job) -> None:
        """Write the file of a job that has ended; one that was retried has no file until it ends again."""
        path = self.path(job.job_id)
        if job.state in FINAL:
            write_durably(path, json.dumps(_document(job), indent=1).encode("ascii"))
        else:
            path.unlink(missing_ok=True)

    def is_out_of_date(self, job: Job) -> bool:
        """Say whether a job has ended and has no file, or has one from before it was retried."""
        return (job.state in FINAL) is not self.path(job.job_id).exists()


def _document(job: Job) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "key": job.key,
        "kind": job.kind.value,
        "submitter": job.submitter,
        "run": job.run,
        "state": job.state.value,
        "fault": job.fault,
        "cpu_s": job.cpu_s,
        "wall_s": job.wall_s,
        "result": json.loads(job.result) if job.result else None,
    }
