"""The process on a host that executes jobs: `python -m codeflash_parallel.hosts.cluster.host_run HOST`.

A line of standard input is a job, messages are lines of standard output (`host_job`). It ends when its
standard input ends: then nobody wants a job any more. It also ends when none has come for some seconds.
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
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import anyio
import anyio.to_thread

from codeflash_parallel import __version__
from codeflash_parallel.config.environment import with_shared
from codeflash_parallel.config.settings import Settings, settings_of
from codeflash_parallel.config.settings_reader import cache_root
from codeflash_parallel.config.settings_table import PREFIX
from codeflash_parallel.hosts.cluster.environment_stamp import differences, stamp_of
from codeflash_parallel.hosts.cluster.host_checkout import checkout, end_preparing
from codeflash_parallel.hosts.cluster.host_job import HostJob, Message
from codeflash_parallel.process.host_lock import HostLock, host_quiet
from codeflash_parallel.process.machine import auto_slots, read_machine
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import EnvironmentFault, UsageError, ungrouped
from codeflash_parallel.result.events import (
    CandidateFinished,
    CandidateMoved,
    Event,
    RaceProgress,
    RunWaits,
    Stage,
    Warned,
)
from codeflash_parallel.run.check_phase.watched_functions import WatchedBaseline
from codeflash_parallel.run.ledger import RaceFinding
from codeflash_parallel.run.pipeline import Run
from codeflash_parallel.run.provider_requests import Providers
from codeflash_parallel.run.remote_hosts import PartRequest, RemoteRace, RunPart
from codeflash_parallel.run.run_state import CHECKS, StepCache, StepKind, begun_run
from codeflash_parallel.run.setup.evaluator_resources import EvaluatorResources
from codeflash_parallel.run.setup.project_interpreter import choose_interpreter
from codeflash_parallel.workspace.cache_layout import cache_faults, cache_of_host, disk_faults, remove_tree

#: So many seconds after its last job a process ends: it holds slots and servers.
_IDLE_S = 20.0


class _Channel:
    """Standard input and output; what else is printed goes to standard error.

    Attributes:
        is_over: nobody wants anything any more.
    """

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._in = sys.stdin.buffer
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[str] = SimpleQueue()
        self._bundles: SimpleQueue[bytes] = SimpleQueue()
        self.is_over = threading.Event()

    def next_job(self) -> tuple[HostJob, float] | None:
        """Return the next job and when it was sent, in seconds of the monotonic clock; `None`: none comes."""
        try:
            plain = json.loads(self._jobs.get(timeout=_IDLE_S))
        except Empty:
            return None
        job: HostJob = from_plain(HostJob, plain["job"])
        return job, plain["sent_s"]

    def read_bundle(self) -> bytes:
        self.send({"t": "bundle"})
        return self._bundles.get()

    def send(self, message: Message) -> None:
        with self._lock, suppress(BrokenPipeError):  # nobody listens any more
            self._out.write(json.dumps(message).encode() + b"\n")

    def listen(self) -> None:
        """Take jobs and bundles from a thread; this process gets a signal when standard input ends."""

        def take() -> None:
            while line := self._in.readline():
                if line.startswith(b"{"):
                    self._jobs.put(line.decode())
                else:
                    self._bundles.put(self._in.read(int(line)))
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
        if kind in CHECKS:
            text = self.text(kind, *key).decode()
            self._send({"t": "step", "host": self._host, "kind": kind.value, "content": key[0], "text": text})


@dataclass(frozen=True, slots=True)
class _Opened:
    """Everything that jobs of the same kind, of one run, share.

    Attributes:
        of: all that it depends on.
        callers: as `PartRequest` has them.
    """

    of: tuple[object, ...]
    resources: EvaluatorResources
    quiet: HostLock
    callers: list[WatchedBaseline | None] = field(default_factory=list)


class _Session:
    """Executes jobs one after the other; what they share stays open between them."""

    def __init__(self, host: str, channel: _Channel) -> None:
        self._host, self._channel = host, channel
        self._stack = AsyncExitStack()
        self._opened: _Opened | None = None

    async def close(self) -> None:
        """Close what is open: its processes end and its slots are removed."""
        self._opened = None
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    async def execute(self, job: HostJob, sent_s: float) -> None:
        """Execute a job and send its last message, unless it is cancelled."""
        run = _JobRun(job, self._host, self._channel)
        try:
            cache = run.cache()
            with ungrouped(), disk_faults(cache):
                race = None if job.part is RunPart.PROBE else await run.execute(await self._open(run, cache))
        except (UsageError, EnvironmentFault) as error:  # a defect of ours counts as a process that died
            await self.close()
            run.send("fault", code=error.code, message=error.message, hint=error.hint, family=error.family)
        else:
            plain = None if race is None else to_plain(race, RemoteRace)
            overhead_s = max(0.0, time.monotonic() - sent_s - run.checks_s)
            run.send("ended", race=plain, overhead_s=overhead_s, checks_s=run.checks_s)

    async def _open(self, run: _JobRun, cache: Path) -> _Opened:
        """Return what a job needs: what is open, if it was opened for such a job."""
        job = run.job
        of = (job.run_id, job.part, job.snapshot.commit, job.python, json.dumps(job.settings))
        if self._opened is not None and self._opened.of == of:
            run.send("began", environment=str(job.environment))
            return self._opened
        await self.close()
        held = checkout(cache, job, self._channel.read_bundle, self._channel.is_over)
        places = self._stack.enter_context(ExitStack())
        root = await anyio.to_thread.run_sync(places.enter_context, held, abandon_on_cancel=True)
        interpreter = await anyio.to_thread.run_sync(run.interpreter, root)
        quiet = host_quiet(os.environ, run.wait)
        opened = EvaluatorResources.open(
            root / job.project,
            run.settings(cache, interpreter),
            quiet,
            1 if job.part is RunPart.RACE else auto_slots(read_machine()),
            # An environment that was made elsewhere may have the submitter's tree installed.
            installed=None if job.prepare else Path(job.root),
        )
        resources = await self._stack.enter_async_context(opened)
        resources.pinned = (job.snapshot, root / ".git")
        self._opened = _Opened(of, resources, quiet)
        return self._opened


class _JobRun:
    """One job on this host.

    Attributes:
        checks_s: seconds that its checks have taken.
    """

    def __init__(self, job: HostJob, host: str, channel: _Channel) -> None:
        self.job, self._host, self._channel = job, host, channel
        self.checks_s = 0.0

    def send(self, t: str, **fields: object) -> None:
        """Send a message."""
        self._channel.send({"t": t, "host": self._host, **fields})

    def wait(self, why: str) -> None:
        """Tell what this host waits for."""
        self.send("waits", why=why)

    def cache(self) -> Path:
        """Return the cache of this host.

        Raises:
            EnvironmentFault: `OTHER_VERSION`; of a probe: `CACHE_UNWRITABLE`, or what `interpreter` raises.
        """
        job = self.job
        seen = with_shared(os.environ, job.variables, job.settings.get("pass_env") or ())
        os.environ.clear()
        os.environ.update(seen)
        if job.version != __version__:
            message = f"Host {self._host} has codeflash-parallel {__version__}, not {job.version}."
            raise EnvironmentFault("OTHER_VERSION", message, "Install the same version there.")
        settings = Settings(cache_dir=os.environ.get(f"{PREFIX}CACHE_DIR") or job.cache_dir)
        cache = cache_of_host(cache_root(settings))
        if job.part is RunPart.PROBE:
            with cache_faults(cache):
                cache.mkdir(parents=True, exist_ok=True)
            self.interpreter(cache)
        return cache

    def interpreter(self, root: Path) -> Path:
        """Return the interpreter of this host, and tell that the job has begun.

        Raises:
            EnvironmentFault: `BAD_PYTHON` or `OTHER_ENVIRONMENT`.
        """
        job = self.job
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
        self.send("began", environment=str(found))
        return interpreter

    def settings(self, cache: Path, interpreter: Path) -> Settings:
        """Return the settings of this part of the run; limits of the whole run are those of the submitter."""
        job = self.job
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

    async def execute(self, opened: _Opened) -> RemoteRace | None:
        """Make this part of the run; return the race, if it is one."""
        job = self.job
        resources, run_id = opened.resources, f"{job.run_id}.{job.job}.{os.getpid()}"
        opened.quiet.take_intervals()
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
                    request=PartRequest(
                        part=job.part,
                        before=job.before or RaceFinding(),
                        callers=opened.callers,
                        constants=job.constants,
                    ),
                    cache=HostStepCache(folder, job, self._host, self._channel.send),
                )
                await run.evaluate(job.submissions)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove_tree, folder)
        held = [entry.time.held_ns + entry.confirming.held_ns for entry in run.findings.ledger]
        self.checks_s = sum(held) / 1e9
        if job.part is RunPart.CHECKS:
            return None
        return RemoteRace(
            host=self._host,
            finding=run.findings.finding,
            timed=dict(run.findings.timed),
            intervals=opened.quiet.take_intervals().exclusive,
        )

    def _observe(self, event: Event) -> None:
        match event:
            case CandidateMoved(stage=Stage.CHECKING, candidate=candidate):
                self.send("checking", candidate=candidate)
            case CandidateFinished(candidate=candidate, result=result) if self.job.part is RunPart.CHECKS:
                fields = {"status": result.status.value, "code": result.code.value, "reason": result.reason}
                self.send("judged", candidate=candidate, **fields)
            case Warned(message=message):
                self.send("warning", message=message)
            case RaceProgress():
                self.send("progress", event=to_plain(event))
            case RunWaits(why=why):
                self.send("waits", why=why)


def _no_answer(_request: object) -> None:
    """Answer no request: repairs are requested by the submitting process."""


async def _main(host: str) -> None:
    channel = _Channel()
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        channel.listen()
        session = _Session(host, channel)
        async with anyio.create_task_group() as group:
            group.start_soon(_end_at, signals, group.cancel_scope, channel.is_over)
            try:
                while given := await anyio.to_thread.run_sync(channel.next_job, abandon_on_cancel=True):
                    await session.execute(*given)
            finally:
                # A thread makes the environment: it would be left behind with the command that it runs.
                end_preparing(channel.is_over)
                await session.close()
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
        anyio.run(_main, sys.argv[1])
        status = 0
    except BaseException:  # noqa: BLE001 - said, then the process ends at once
        traceback.print_exc()
    sys.stderr.flush()
    # A thread waits for standard input, and another one perhaps for a bundle: neither can be told to end.
    os._exit(status)


if __name__ == "__main__":
    main()
