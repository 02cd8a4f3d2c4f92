"""Publication of the ends of jobs: one file each in `results`, and the command of `serve --on-end`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import anyio

from codeflash_parallel.process.atomic_file import write_durably
from codeflash_parallel.queue.daemon.worker_pool import WorkerPool
from codeflash_parallel.queue.jobs import FINAL, Job, outcome_of

#: A command that takes longer is killed.
_COMMAND_S = 60.0
#: A log that is larger is begun anew.
_LARGEST_LOG_BYTES = 1024 * 1024


class Publication:
    """Publishes ends; files appear whole, and survive a power cut.

    Args:
        folder: of the queue.
        command: program and arguments, run when a job has ended and its file is there; empty: none.
    """

    def __init__(self, folder: Path, workers: WorkerPool, command: Sequence[str] = ()) -> None:
        self._folder = folder / "results"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._log = folder / "on-end.log"
        self._workers, self._command = workers, command
        self._turn = anyio.Lock()

    def _path(self, job: Job) -> Path:
        return self._folder / f"{job.job_id}.json"

    def is_out_of_date(self, job: Job) -> bool:
        """Return whether a job has ended and has no file, or has one from before it was retried."""
        return (job.state in FINAL) is not self._path(job).exists()

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

    async def run_command(self, job: Job) -> str:
        """Run the command for a job that has ended; return what was wrong, empty if nothing was."""
        if not self._command or job.state not in FINAL:
            return ""
        environment = {
            **os.environ,
            "CODEFLASH_PARALLEL_JOB": job.job_id,
            "CODEFLASH_PARALLEL_VERDICT": outcome_of(job),
        }
        async with self._turn:
            is_large = self._log.exists() and self._log.stat().st_size > _LARGEST_LOG_BYTES
            with self._log.open("wb" if is_large else "ab") as log:
                wrong = await self._workers.run_beside(self._command, environment, log, _COMMAND_S)
                if wrong:
                    wrong = f"The command of --on-end {wrong} (job {job.job_id})."
                    log.write(f"{wrong}\n".encode("utf-8", "replace"))
        return wrong
