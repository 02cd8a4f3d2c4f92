"""Jobs of Slurm, submitted by submitit; `local` runs the same jobs as processes of this machine.

A job of Slurm is a worker: it executes one of our jobs, and others that come within some seconds of the
last. Jobs, bundle and messages are files of a folder that all hosts share: `worker1.0` is a worker's first
job, and `worker1.0.messages` is what it said of it. An empty `worker1.1` is the end, written by the side that
does not want to go on. The submitting process touches `alive` from time to time: a worker that does not see
that any more ends, as does one with a file `cancelled`.
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
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
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
#: So long a worker waits for its next job, and so much time it has to have left for it.
_WAIT_S, _SHARD_S = 5.0, 600.0
#: How often files are looked at.
_LOOK_S = 0.1
#: Limit of a job where the options name none.
_LONGEST_MIN = 24 * 60
_ALIVE, _BUNDLE = "alive", "bundle"


def run_in_job(folder: str, name: str, dead_s: float) -> None:
    """Execute jobs in a process of this host, one after the other, and write their messages to files.

    Args:
        folder: that the hosts share.
        name: of the worker.
        dead_s: seconds after which the submitting process counts as dead if it does not show that it lives.
    """
    place = Path(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # submitit's own handler lets it pass
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # see `_without_interrupts`
    threading.Thread(target=_watch, args=(place, name, dead_s), daemon=True).start()
    try:
        for number in count():
            path = place / f"{name}.{number}"
            job = _next_job(path, _WAIT_S if _has_time() or not number else 0.0)
            if not job or not _is_done(job, place, path.with_name(f"{path.name}.messages")):
                return
    finally:
        end_kept()


def _has_time() -> bool:
    """Return whether the time of this job of Slurm is enough for another shard; older Slurms do not say."""
    return time.time() + _SHARD_S < float(os.environ.get("SLURM_JOB_END_TIME", "inf"))


def _next_job(path: Path, wait_s: float) -> str:
    """Return the next job; empty: none has come, or none shall come."""
    until = time.monotonic() + wait_s
    while not path.exists() and time.monotonic() < until:
        time.sleep(_LOOK_S)
    with suppress(FileExistsError):
        path.touch(exist_ok=False)
    return path.read_text(encoding="utf-8")


def _is_done(job: str, place: Path, messages: Path) -> bool:
    """Execute a job; return whether it was done."""
    message: Message = {}
    with messages.open("ab", buffering=0) as out:
        for message in messages_of(job, os.uname().nodename, (place / _BUNDLE).read_bytes):
            out.write(json.dumps(message).encode() + b"\n")
    return bool(message["t"] == "ended")


def _watch(place: Path, name: str, dead_s: float) -> None:
    """End this process when nobody wants its jobs any more."""
    beat, since = 0, time.monotonic()
    while time.monotonic() - since < dead_s and not (place / f"{name}.cancelled").exists():
        with suppress(OSError):
            seen = (place / _ALIVE).stat().st_mtime_ns
            beat, since = seen, since if seen == beat else time.monotonic()
        time.sleep(_LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)


@dataclass(slots=True, eq=False)
class _Worker:
    """A job of Slurm.

    Attributes:
        is_local: it is a process of this machine.
        job: of submitit.
        given: number of our jobs that it was given.
        host: that it has named; empty before.
    """

    place: Path
    name: str
    is_local: bool
    job: Any = None
    given: int = 0
    host: str = ""

    def give(self, job: str) -> str:
        """Give it a job, or the end if that is empty; return the job's name, empty if it takes none."""
        name = f"{self.name}.{self.given}"
        new = self.place / f"{name}.new"
        new.write_text(job, encoding="utf-8")
        try:
            (self.place / name).hardlink_to(new)  # whole, and only if it has not ended
        except FileExistsError:
            return ""
        finally:
            new.unlink()
        self.given += 1
        return name

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it runs any more."""
        return bool(self.job.done())

    def words(self) -> str:
        """Return what it said last."""
        said = f"{self.job.stdout() or ''}\n{self.job.stderr() or ''}".strip() or f"state {self.job.state}"
        return said.splitlines()[-1]

    def end(self) -> None:
        """End it at once."""
        is_told = False
        with suppress(OSError):
            (self.place / f"{self.name}.cancelled").touch()
            is_told = True
        # On this machine it sees that at once; to be cancelled, too, it would take with a traceback.
        if not (self.is_local and is_told):
            with suppress(Exception):
                self.job.cancel(check=False)


class SlurmTask:
    """A job that a worker was given; a `hosts.cluster.host_job.HostTask`.

    Args:
        path: of the messages.
        done: called once the worker has done it, and can take another one.
    """

    def __init__(self, worker: _Worker, path: Path, done: Callable[[], None]) -> None:
        self._worker, self._path, self._done = worker, path, done
        self._is_over = False

    def messages(self) -> Iterator[Message]:
        """Yield messages until the last one."""
        begun, read = b"", 0
        while not self._is_over:
            is_gone = self._worker.is_gone  # before the file is read: then nothing more is written
            with suppress(OSError), self._path.open("rb") as file:  # not there yet; a shared disk may stumble
                file.seek(read)
                begun += file.read()
                read = file.tell()
            *lines, begun = begun.split(b"\n")
            for line in lines:
                message: Message = json.loads(line)
                self._worker.host = message.get("host", self._worker.host)
                self._is_over = message["t"] in {"ended", "fault", "lost"}
                if message["t"] == "ended":
                    self._done()
                yield message
            if is_gone and not self._is_over:
                self._is_over = True
                yield {
                    "t": "lost",
                    "why": f"its job {self._worker.job.job_id} is over: {self._worker.words()}",
                }
            elif not lines:
                time.sleep(_LOOK_S)

    def cancel(self) -> None:
        """End the job with its worker; one that is over is left alone."""
        if not self._is_over:
            self._is_over = True
            self._worker.end()


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
        self._names = (f"worker{number}" for number in count(1))
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._turn = threading.Lock()
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
        with cache_faults(self._place), self._turn:
            worker, name = self._taken(job, is_race=is_race, avoid=avoid) or self._begun(
                job, is_race=is_race, avoid=avoid
            )
        # A host that was held for a race is given back.
        done = partial(_dismiss, worker) if is_race else partial(self._idle.append, worker)
        return SlurmTask(worker, self._place / f"{name}.messages", done)

    def _taken(self, job: str, *, is_race: bool, avoid: Collection[str]) -> tuple[_Worker, str] | None:
        """Give a job to a worker that is idle, if there is one; those that may not have it are ended."""
        while self._idle:
            worker = self._idle.pop()
            may_have = not (is_race or worker.host in avoid or worker.is_gone)
            name = worker.give(job if may_have else "")
            if name and may_have:
                return worker, name
        return None

    def _begun(self, job: str, *, is_race: bool, avoid: Collection[str]) -> tuple[_Worker, str]:
        """Submit a worker that begins with a job."""
        left_out = ",".join(filter(None, (self._options.get("exclude"), *sorted(avoid))))
        options: dict[str, Any] = {**self._options, **({"exclude": left_out} if left_out else {})}
        options |= {"exclusive": True} if is_race else {}
        dead_s = _DEAD_HERE_S if self._is_local else _DEAD_S
        worker = _Worker(self._place, next(self._names), self._is_local)
        name = worker.give(job)
        self._executor.update_parameters(
            name="codeflash-parallel", timeout_min=_LONGEST_MIN, slurm_additional_parameters=options
        )
        try:
            with _without_interrupts():
                worker.job = self._executor.submit(run_in_job, str(self._place), worker.name, dead_s)
        except self._failed as error:
            said = str(error).strip().splitlines()[-1:]
            raise EnvironmentFault("NO_CLUSTER", f"sbatch refuses the job: {' '.join(said)}") from error
        self._workers.append(worker)
        return worker, name

    def close(self) -> None:
        """End what still runs, and remove the folder."""
        for worker in self._workers:
            if not worker.is_gone:
                worker.end()
        until = time.monotonic() + (_END_S if self._is_local else 0)
        while time.monotonic() < until and not all(worker.is_gone for worker in self._workers):
            time.sleep(_LOOK_S)
        self._closing.set()
        self._beats.join()
        remove_tree(self._place)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes that do not see Ctrl-C: those of submitit would each say so with a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _dismiss(worker: _Worker) -> None:
    with suppress(OSError):  # the disk is full: it ends a little later by itself
        worker.give("")


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
