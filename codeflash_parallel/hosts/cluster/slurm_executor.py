"""Jobs of Slurm, submitted by submitit; `local` runs the same jobs as processes of this machine.

Job, bundle and messages are files of a folder that all hosts share. The submitting process touches one of
them from time to time: a job that does not see that any more ends, as does one whose name is in `cancelled`.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from codeflash_parallel.hosts.cluster.host_job import HostTask, Message
from codeflash_parallel.hosts.cluster.host_process import end_kept, messages_of
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.workspace.cache_layout import cache_faults, remove_tree

#: In the place of options: jobs are processes of this machine.
LOCAL = "local"
#: How often the submitting process shows that it lives, and after how long without that a job ends: on other
#: hosts, which see a shared disk late, and on this one.
_BEAT_S, _DEAD_S, _DEAD_HERE_S = 2.0, 120.0, 10.0
#: The folder of a run that has shown no sign of life for so long is removed.
_DEAD_FOR_S = 3600.0
#: Longest wait for the end of processes of this machine.
_END_S = 10.0
#: How often files are looked at.
_LOOK_S = 0.1
#: Limit of a job where the options name none.
_LONGEST_MIN = 24 * 60
_ALIVE, _BUNDLE = "alive", "bundle"


def run_in_job(folder: str, name: str, dead_s: float) -> None:
    """Execute a job in a process of this host, and write its messages to a file.

    Args:
        folder: that the hosts share.
        name: of the job.
        dead_s: seconds after which the submitting process counts as dead if it does not show that it lives.
    """
    place = Path(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # submitit's own handler lets it pass
    threading.Thread(target=_watch, args=(place, name, dead_s), daemon=True).start()
    job = (place / f"{name}.job").read_text(encoding="utf-8")
    with (place / f"{name}.messages").open("ab", buffering=0) as out:
        for message in messages_of(job, os.uname().nodename, (place / _BUNDLE).read_bytes):
            out.write(json.dumps(message).encode() + b"\n")
    end_kept()


def _watch(place: Path, name: str, dead_s: float) -> None:
    """End this process when nobody wants its job any more."""
    beat, since = 0, time.monotonic()
    while time.monotonic() - since < dead_s and not (place / f"{name}.cancelled").exists():
        with suppress(OSError):
            seen = (place / _ALIVE).stat().st_mtime_ns
            beat, since = seen, since if seen == beat else time.monotonic()
        time.sleep(_LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)


class SlurmTask:
    """A job of Slurm; a `hosts.cluster.host_job.HostTask`."""

    def __init__(self, job: Any, place: Path, name: str) -> None:
        self._job, self._place, self._name = job, place, name
        self._is_over = False

    def messages(self) -> Iterator[Message]:
        """Yield messages until the last one."""
        begun = b""
        path = self._place / f"{self._name}.messages"
        read = 0
        while not self._is_over:
            is_done = self._job.done()  # before the file is read: then nothing more is written
            with suppress(OSError), path.open("rb") as file:  # not there yet; a shared disk may stumble
                file.seek(read)
                begun += file.read()
                read = file.tell()
            *lines, begun = begun.split(b"\n")
            for line in lines:
                message: Message = json.loads(line)
                self._is_over = message["t"] in {"ended", "fault", "lost"}
                yield message
            if is_done and not self._is_over:
                self._is_over = True
                yield {"t": "lost", "why": f"its job {self._job.job_id} is over: {self._words()}"}
            elif not lines:
                time.sleep(_LOOK_S)

    def _words(self) -> str:
        said = f"{self._job.stdout() or ''}\n{self._job.stderr() or ''}".strip() or f"state {self._job.state}"
        return said.splitlines()[-1]

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it runs any more."""
        return bool(self._job.done())

    def cancel(self) -> None:
        """End the job; one that is over is left alone."""
        if not self._is_over:
            self._is_over = True
            with suppress(OSError):
                (self._place / f"{self._name}.cancelled").touch()
            with suppress(Exception):
                self._job.cancel(check=False)


class SlurmExecutor:
    """Slurm by submitit; a `hosts.cluster.host_job.HostExecutor`.

    Args:
        options: of sbatch, as `name=value`; or `LOCAL`.
        jobs: that are submitted at once.
        folder: that the hosts share.

    Raises:
        UsageError: `NO_ENGINE`, or `BAD_SETTING`: an option without a value.
        EnvironmentFault: `NO_CLUSTER`; or the folder cannot be written.
    """

    def __init__(self, options: str, jobs: int, folder: Path) -> None:
        try:
            import submitit
        except ImportError as error:
            hint = "Install it: pip install 'codeflash-parallel[slurm]'."
            raise UsageError("NO_ENGINE", f"--executor slurm needs submitit: {error}.", hint) from error
        from submitit.core.utils import FailedJobError

        self._failed = FailedJobError
        self._is_local, self._jobs = options == LOCAL, jobs
        self._options = {} if self._is_local else _options_of(options)
        with cache_faults(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _remove_dead(folder)
            self._place = Path(tempfile.mkdtemp(prefix="run-", dir=folder))
        self._names = (f"job{number}" for number in count(1))
        self._tasks: list[SlurmTask] = []
        try:
            cluster = LOCAL if self._is_local else "slurm"
            self._executor = submitit.AutoExecutor(folder=self._place / "submitit", cluster=cluster)
        except RuntimeError as error:
            remove_tree(self._place)
            hint = "Run it where sbatch is, or give --cluster local for processes of this machine."
            said = str(error).strip().rstrip("?.")
            raise EnvironmentFault("NO_CLUSTER", f"There is no Slurm here: {said}.", hint) from error
        self._closing = threading.Event()
        self._beats = threading.Thread(target=self._beat, daemon=True)
        self._beats.start()

    def _beat(self) -> None:
        while True:
            with suppress(OSError):
                (self._place / _ALIVE).touch()
            if self._closing.wait(_BEAT_S):
                return

    def hosts(self) -> tuple[str, ...]:
        """Return none: Slurm chooses them."""
        return ()

    def places(self, avoid: Collection[str]) -> int:
        """Return how many jobs are submitted at once."""
        return 0 if self._is_local and os.uname().nodename in avoid else self._jobs

    def share(self, bundle: bytes) -> None:
        """Write a bundle where every host can read it."""
        with cache_faults(self._place):
            (self._place / _BUNDLE).write_bytes(bundle)

    def submit(self, job: str, *, is_race: bool, avoid: Collection[str], wanted: str = "") -> HostTask:
        """Submit a job; see `hosts.cluster.host_job.HostExecutor`."""
        if wanted and not self._is_local:
            raise EnvironmentFault("HOST_GONE", "Slurm places every job anew.")
        left_out = ",".join(filter(None, (self._options.get("exclude"), *sorted(avoid))))
        options: dict[str, Any] = {**self._options, **({"exclude": left_out} if left_out else {})}
        options |= {"exclusive": True} if is_race else {}
        name, dead_s = next(self._names), _DEAD_HERE_S if self._is_local else _DEAD_S
        with cache_faults(self._place):
            (self._place / f"{name}.job").write_text(job, encoding="utf-8")
            self._executor.update_parameters(
                name="codeflash-parallel",
                timeout_min=_LONGEST_MIN,
                slurm_additional_parameters=options,
            )
            try:
                submitted = self._executor.submit(run_in_job, str(self._place), name, dead_s)
            except self._failed as error:
                said = str(error).strip().splitlines()[-1:]
                raise EnvironmentFault("NO_CLUSTER", f"sbatch refuses the job: {' '.join(said)}") from error
        task = SlurmTask(submitted, self._place, name)
        self._tasks.append(task)
        return task

    def close(self) -> None:
        """End what still runs, and remove the folder."""
        for task in self._tasks:
            task.cancel()
        until = time.monotonic() + (_END_S if self._is_local else 0)
        while time.monotonic() < until and not all(task.is_gone for task in self._tasks):
            time.sleep(_LOOK_S)
        self._closing.set()
        self._beats.join()
        remove_tree(self._place)


def _remove_dead(folder: Path) -> None:
    """Remove what submitting processes that were killed have left: their jobs have ended long ago."""
    for place in folder.glob("run-*"):
        with suppress(FileNotFoundError):  # another process removes it, too
            if time.time() - max(place.stat().st_mtime, _beat_of(place)) > _DEAD_FOR_S:
                remove_tree(place)


def _beat_of(place: Path) -> float:
    with suppress(FileNotFoundError):
        return (place / _ALIVE).stat().st_mtime
    return 0.0


def _options_of(text: str) -> dict[str, str]:
    """Return options of sbatch by name.

    Raises:
        UsageError: `BAD_SETTING`.
    """
    found = {}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError("BAD_SETTING", f"cluster is no list of options: {error}.") from error
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if not (name and equals):
            raise UsageError("BAD_SETTING", f"cluster takes options as name=value, not {word!r}.")
        found[name] = value
    return found
