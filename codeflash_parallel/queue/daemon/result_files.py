"""One JSON file per job that has ended, for agents that watch a folder."""

from __future__ import annotations

import json
from pathlib import Path

from codeflash_parallel.process.atomic_file import write_durably
from codeflash_parallel.queue.job_result import FINAL
from codeflash_parallel.queue.jobs import Job


class ResultFiles:
    """The folder `results` of a queue. Files appear whole, and survive a power cut."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "results"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def _path(self, job: Job) -> Path:
        return self._folder / f"{job.job_id}.json"

    def write(self, job: Job) -> None:
        """Write the file of a job that has ended; remove that of one that was retried."""
        if job.state not in FINAL:
            self._path(job).unlink(missing_ok=True)
            return
        document = {
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
        write_durably(self._path(job), json.dumps(document, indent=1).encode("ascii"))

    def is_out_of_date(self, job: Job) -> bool:
        """Return whether a job has ended and has no file, or has one from before it was retried."""
        return (job.state in FINAL) is not self._path(job).exists()
