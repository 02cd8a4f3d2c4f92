"""The process on a host that executes one job.

    python -m codeflash_parallel.hosts.cluster.host_run HOST BEGAN

HOST is the name of this host, and BEGAN when its parent started it, in seconds of the monotonic clock.

The job is the first line of standard input, messages are lines of standard output (`host_job`). It ends when
its standard input ends: then nobody wants the job any more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import anyio
import anyio.to_thread

from codeflash_parallel import __version__
from codeflash_parallel.config.settings import Settings, settings_of
from codeflash_parallel.config.settings_reader import cache_root
from codeflash_parallel.config.settings_table import PREFIX
from codeflash_parallel.hosts.cluster.environment_stamp import differences, stamp_of
from codeflash_parallel.hosts.cluster.host_checkout import checkout
from codeflash_parallel.hosts.cluster.host_job import HostJob, Message
from codeflash_parallel.process.host_lock import HostLock, host_quiet
from codeflash_parallel.process.machine import auto_slots, read_machine
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.result.events import (
    CandidateFinished,
    CandidateMoved,
    Event,
    RaceProgress,
    RunWaits,
    Stage,
    Warned,
)
from codeflash_parallel.run.pipeline import Run
from codeflash_parallel.run.provider_requests import Providers
from codeflash_parallel.run.remote_hosts import RemoteRace, RunPart
from codeflash_parallel.run.run_state import StepCache, StepKind, begun_run
from codeflash_parallel.run.setup.evaluator_resources import EvaluatorResources
from codeflash_parallel.run.setup.project_interpreter import choose_interpreter
from codeflash_parallel.workspace.cache_layout import cache_faults, disk_faults, remove_tree

#: Checks whose findings are sent back.
_SENT = frozenset({StepKind.SCREEN, StepKind.REST, StepKind.CLEAN, StepKind.FRESH})


class _Channel:
    """Standard input and output; what else is printed goes to standard error.

    Attributes:
        is_over: nobody wants the job any more.
    """

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._in = sys.stdin.buffer
        self._lock = threading.Lock()
        self._bundles: SimpleQueue[bytes] = SimpleQueue()
        self.is_over = threading.Event()

    def read_job(self) -> HostJob:
        job: HostJob = from_plain(HostJob, json.loads(self._in.readline()))
        return job

    def read_bundle(self) -> bytes:
        self.send({"t": "bundle"})
        return self._bundles.get()

    def send(self, message: Message) -> None:
        with self._lock, suppress(BrokenPipeError):  # nobody listens any more
            self._out.write(json.dumps(message).encode() + b"\n")

    def listen(self) -> None:
        """Take bundles from a thread; this process gets a signal when standard input ends."""

        def take() -> None:
            while size := self._in.readline():
                self._bundles.put(self._in.read(int(size)))
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=take, daemon=True).start()


class HostStepCache(StepCache):
    """The step cache of a job: it has what was sent with the job, and sends what checks find.

    Args:
        run_dir: folder of the run on this host.
        job: with the steps that are made already.
        send: sends a message.
    """

    def __init__(self, run_dir: Path, job: HostJob, host: str, send: Callable[[Message], None]) -> None:
        super().__init__(run_dir)
        self._host = host
        self._sent = {(step.kind, step.key): step.text for step in job.steps}
        self._send = send

    def get(self, result: Any, kind: StepKind, *key: object) -> Any:
        """Return the result of a step that was sent with the job, or of one that was made here."""
        text = self._sent.pop((kind, json.dumps(key)), None)
        if text is not None:
            self.take(text.encode(), kind, *key)
        return super().get(result, kind, *key)

    def put(self, result: Any, value: object, kind: StepKind, *key: object) -> None:
        """Store the result of a step, and send it if it is one of a check."""
        super().put(result, value, kind, *key)
        if kind in _SENT:
            text = self.text(kind, *key).decode()
            self._send({"t": "step", "host": self._host, "kind": kind.value, "content": key[0], "text": text})


class _JobRun:
    """One job on this host."""

    def __init__(self, job: HostJob, host: str, began_s: float, channel: _Channel) -> None:
        self._job, self._host, self._channel = job, host, channel
        self._began_s, self._checks_s = began_s, 0.0

    async def execute(self) -> None:
        """Execute the job and send its last message, unless it is cancelled."""
        try:
            race = await self._execute()
        except (UsageError, EnvironmentFault) as error:  # a defect of ours counts as a process that died
            self._send("fault", code=error.code, message=error.message, hint=error.hint, family=error.family)
        else:
            plain = None if race is None else to_plain(race, RemoteRace)
            overhead_s = max(0.0, time.monotonic() - self._began_s - self._checks_s)
            self._send("ended", race=plain, overhead_s=overhead_s, checks_s=self._checks_s)

    def _send(self, t: str, **fields: object) -> None:
        self._channel.send({"t": t, "host": self._host, **fields})

    async def _execute(self) -> RemoteRace | None:
        job = self._job
        os.environ.update(job.variables)
        if job.version != __version__:
            message = f"Host {self._host} has codeflash-parallel {__version__}, not {job.version}."
            raise EnvironmentFault("OTHER_VERSION", message, "Install the same version there.")
        cache = cache_root(Settings(cache_dir=os.environ.get(f"{PREFIX}CACHE_DIR") or job.cache_dir))
        # A folder for each host: with a home that they share, one would clean up after the others' runs.
        cache = cache / "hosts" / os.uname().nodename
        if job.part is RunPart.PROBE:
            with cache_faults(cache):
                cache.mkdir(parents=True, exist_ok=True)
            self._interpreter(cache)
            return None
        held = checkout(cache, job, self._channel.read_bundle, self._channel.is_over)
        with disk_faults(cache), ExitStack() as stack:
            root = await anyio.to_thread.run_sync(stack.enter_context, held, abandon_on_cancel=True)
            interpreter = await anyio.to_thread.run_sync(self._interpreter, root)
            settings = self._settings(cache, interpreter)
            quiet = host_quiet(os.environ, lambda why: self._observe(RunWaits(run_id=job.run_id, why=why)))
            sharers = 1 if job.part is RunPart.RACE else auto_slots(read_machine())
            # An environment that was made elsewhere may have the submitter's tree installed.
            installed = None if job.prepare else Path(job.root)
            opened = EvaluatorResources.open(
                root / job.project, settings, quiet, sharers, installed=installed
            )
            async with opened as resources:
                resources.pinned = (job.snapshot, root / ".git")
                return await self._run(resources, quiet)

    def _interpreter(self, root: Path) -> Path:
        """Return the interpreter of this host, and tell that the job has begun.

        Raises:
            EnvironmentFault: `BAD_PYTHON` or `OTHER_ENVIRONMENT`.
        """
        job = self._job
        if job.prepare and job.part is not RunPart.PROBE:
            interpreter = choose_interpreter("", root / job.project, root)
        elif os.access(job.python, os.X_OK):
            interpreter = Path(job.python)
        else:
            hint = (
                "Make an environment there with --prepare, or name an interpreter of all hosts by --python."
            )
            raise EnvironmentFault("BAD_PYTHON", f"Host {self._host} has no {job.python}.", hint)
        found = stamp_of(interpreter)
        differing = [] if job.prepare and job.part is RunPart.PROBE else differences(job.environment, found)
        if differing:
            message = f"The environment of host {self._host} is another one: {'; '.join(differing)}."
            raise EnvironmentFault("OTHER_ENVIRONMENT", message, "Make it the same, e.g. with --prepare.")
        self._send("began", environment=str(found))
        return interpreter

    def _settings(self, cache: Path, interpreter: Path) -> Settings:
        """Return the settings of this part of the run; limits of the whole run are those of the submitter."""
        job = self._job
        return settings_of(
            job.settings,
            cache_dir=str(cache),
            python=str(interpreter),
            seed=job.seed,
            # A check has one slot of its host, and a race all of them.
            parallel_candidates="auto" if job.part is RunPart.RACE else 1,
            base="",
            extra_tests="",
            repair_command="",
            refine_command="",
            stop_after=0,
            max_candidates=0,
            wall_budget=0.0,
        )

    async def _run(self, resources: EvaluatorResources, quiet: HostLock) -> RemoteRace | None:
        job = self._job
        run_id = f"{job.run_id}.{job.job}.{os.getpid()}"
        folder = resources.setup.run_dir(run_id)
        try:
            with begun_run(folder):
                run = Run(
                    resources=resources,
                    run_id=run_id,
                    # Checks look for all failures where somebody is going to be asked for repairs.
                    providers=Providers(repairer=_no_answer if job.wants_evidence else None),
                    observers=(self._observe,),
                    mode=job.mode,
                    part=job.part,
                    cache=HostStepCache(folder, job, self._host, self._channel.send),
                    before=job.before,
                )
                await run.evaluate(job.submissions)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove_tree, folder)
        held = [entry.time.held_ns + entry.confirming.held_ns for entry in run.findings.ledger]
        self._checks_s = sum(held) / 1e9
        if job.part is RunPart.CHECKS:
            return None
        return RemoteRace(
            host=self._host,
            finding=run.findings.finding,
            timed=dict(run.findings.timed),
            intervals=quiet.take_intervals().exclusive,
        )

    def _observe(self, event: Event) -> None:
        match event:
            case CandidateMoved(stage=Stage.CHECKING, candidate=candidate):
                self._send("checking", candidate=candidate)
            case CandidateFinished(candidate=candidate, result=result) if self._job.part is RunPart.CHECKS:
                fields = {"status": result.status.value, "code": result.code.value, "reason": result.reason}
                self._send("judged", candidate=candidate, **fields)
            case Warned(message=message):
                self._send("warning", message=message)
            case RaceProgress():
                self._send("progress", event=to_plain(event))
            case RunWaits(why=why):
                self._send("waits", why=why)


def _no_answer(_request: object) -> None:
    """Answer no request: repairs are requested by the submitting process."""


async def _main(host: str, began_s: float) -> None:
    channel = _Channel()
    job = await anyio.to_thread.run_sync(channel.read_job)
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        channel.listen()
        async with anyio.create_task_group() as group:
            group.start_soon(_end_at, signals, group.cancel_scope, channel.is_over)
            await _JobRun(job, host, began_s, channel).execute()
            group.cancel_scope.cancel()


async def _end_at(
    signals: AsyncIterator[signal.Signals], scope: anyio.CancelScope, is_over: threading.Event
) -> None:
    """End the job at the first signal."""
    async for _ in signals:
        is_over.set()
        scope.cancel()
        return


def main() -> None:
    """Execute the job of standard input."""
    status = 1
    try:
        anyio.run(_main, sys.argv[1], float(sys.argv[2]))
        status = 0
    except BaseException:  # noqa: BLE001 - said, then the process ends at once
        traceback.print_exc()
    sys.stderr.flush()
    # A thread waits for standard input, and another one perhaps for a bundle: neither can be told to end.
    os._exit(status)


if __name__ == "__main__":
    main()
